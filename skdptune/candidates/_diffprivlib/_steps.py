"""StandardScaler as a step of a pipeline, and why KMeans is refused."""

import numpy as np

from skdptune.candidates._diffprivlib import _checks
from skdptune.candidates._diffprivlib._base import DiffprivlibAdapter
from skdptune.candidates._diffprivlib._noise import SPEND, bounded_laplace, truncated_laplace
from skdptune.candidates._diffprivlib._rows import clip_rows

__all__ = ["KMeansRefusal", "StandardScalerAdapter", "ZERO_REASON", "noisy_means"]

ZERO_REASON = (
    "a mean over a public number of rows has noise scaled to max - min, which covers a blanked row only "
    "where no row is farther from 0 than that"
)


def noisy_means(rows, bounds, epsilon, rng):
    """Return noisy column means at total cost ``epsilon``: a row moves each by (max - min) / n at most."""
    n_samples, n_features = rows.shape
    lower, upper = bounds
    actual = rows.mean(axis=0)
    return np.array(
        [
            truncated_laplace(
                actual[j],
                epsilon / n_features,
                (upper[j] - lower[j]) / n_samples,
                lower[j],
                upper[j],
                rng,
            )
            for j in range(n_features)
        ]
    )


def _variances(rows, bounds, epsilon, rng):
    """Return noisy column variances at total cost ``epsilon``.

    One of n values in an interval of width d moves their variance by at most d^2 (n - 1) / n^2.
    """
    n_samples, n_features = rows.shape
    actual = rows.var(axis=0)
    out = np.zeros(n_features)
    for j in range(n_features):
        width = bounds[1][j] - bounds[0][j]
        moved = (width / n_samples) ** 2 * (n_samples - 1)
        out[j] = bounded_laplace(actual[j], epsilon / n_features, moved, width**2 / 4, rng)
    return out


class StandardScalerAdapter(DiffprivlibAdapter):
    """Adapter of ``diffprivlib.models.StandardScaler``.

    Notes
    -----
    *Releases* noisy column means and (``with_std=True``) variances.

    *Spends* epsilon / 2 on the means and epsilon / 2 on the variances (all of it on the means without
    ``with_std``). The number of rows is in the scale of the noise, so it must be public: add-remove is
    refused. A blanked row counts as 0 in both sums, hence bounds that contain 0 under zero-out.

    *Differs from the library's fit*: a missing value counts as 0 (the library fails on it).
    """

    cost_per_epsilon = {
        "zero-out": 1.0,
        "replace-one": 1.0,
        "add-remove": "the exact number of rows sets the scale of its noise, so it must be public; use "
        "relation='zero-out'",
    }
    published = ("mean_", "var_", "scale_")

    def _check_model(self):
        super()._check_model()
        _checks.check_bounds(self.name, "bounds", self.estimator.bounds)

    def _check_relation(self, relation):
        if relation == "zero-out":
            bounds = _checks.check_bounds(self.name, "bounds", self.estimator.bounds)
            _checks.check_spans_zero(self.name, "bounds", bounds, ZERO_REASON)

    def check_data(self, n_samples, n_features, classes):
        """Refuse bounds for another number of columns."""
        _checks.check_bounds_width(self.name, "bounds", self.estimator.bounds, n_features)

    def _own_assumptions(self):
        return ("bounds were chosen without the private rows; the number of rows is public.",)

    def _train(self, rows, target, classes, rng):
        model = self.estimator
        if not model.with_mean and not model.with_std:
            return {"mean_": None, "var_": None, "scale_": None}
        bounds = _checks.bounds_arrays(model.bounds, rows.shape[1])
        rows = clip_rows(rows, bounds)
        epsilon = SPEND * float(model.epsilon)
        share = epsilon / 2 if model.with_std else epsilon
        outputs = {"mean_": noisy_means(rows, bounds, share, rng), "var_": None, "scale_": None}
        if model.with_std:
            outputs["var_"] = _variances(rows, bounds, share, rng)
            deviation = np.sqrt(outputs["var_"])
            tiny = 10 * np.finfo(np.float64).eps
            outputs["scale_"] = np.where(deviation < tiny, 1.0, deviation)
        return outputs


class KMeansRefusal(DiffprivlibAdapter):
    """``diffprivlib.models.KMeans`` cannot be vouched for: every question about it is answered so."""

    cost_per_epsilon = dict.fromkeys(
        ("zero-out", "replace-one", "add-remove"),
        "diffprivlib 0.6.6 hands the count's share of epsilon to each column and the column's to the count, "
        "which spends more than epsilon with 5 columns or more, and leaves empty clusters without "
        "noise; use diffprivlib.models.PCA as a step or drop it",
    )

    def _check_model(self):
        self._factor("zero-out")
