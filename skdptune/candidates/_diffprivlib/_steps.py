"""StandardScaler and PCA as steps of a pipeline, and why KMeans is refused."""

import numbers

import numpy as np

from skdptune._exceptions import CandidateRefusedError
from skdptune.candidates._diffprivlib import _checks
from skdptune.candidates._diffprivlib._base import DiffprivlibAdapter
from skdptune.candidates._diffprivlib._library import require_diffprivlib
from skdptune.candidates._diffprivlib._logistic import shrink_rows
from skdptune.candidates._diffprivlib._noise import SPEND, bounded_laplace, truncated_laplace
from skdptune.candidates._diffprivlib._rows import clip_rows

__all__ = ["KMeansRefusal", "PCAAdapter", "StandardScalerAdapter"]

_ZERO = (
    "a mean over a public number of rows has noise scaled to max - min, which covers a blanked row only "
    "where no row is farther from 0 than that"
)


def _means(rows, bounds, epsilon, rng):
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
            _checks.check_spans_zero(self.name, "bounds", bounds, _ZERO)

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
        outputs = {"mean_": _means(rows, bounds, share, rng), "var_": None, "scale_": None}
        if model.with_std:
            outputs["var_"] = _variances(rows, bounds, share, rng)
            deviation = np.sqrt(outputs["var_"])
            tiny = 10 * np.finfo(np.float64).eps
            outputs["scale_"] = np.where(deviation < tiny, 1.0, deviation)
        return outputs


class PCAAdapter(DiffprivlibAdapter):
    """Adapter of ``diffprivlib.models.PCA``.

    Notes
    -----
    *Releases* the noisy mean (unless ``centered=True``), all eigenvalues of the second moments of the centred
    rows, cut to norm ``data_norm``, and ``n_components`` directions.

    *Spends* half of epsilon on the mean unless centred. The rest is divided into r + 1 equal slices, one for
    the eigenvalues together and one for each of the r directions drawn at random (r = n_components, or one
    less where all are asked for). Each direction really costs at most half of its slice and the
    eigenvalues at most one and a half of theirs, so the sum stays within epsilon under both relations
    (proof in ``doc/adapters.rst``). The number of rows enters, so add-remove is refused.

    *Differs from the library's fit*: a missing value counts as 0; ``n_components`` as a share or 'mle'
    is refused, because the number of columns handed on would change from run to run.
    """

    cost_per_epsilon = {
        "zero-out": 1.0,
        "replace-one": 1.0,
        "add-remove": "the exact number of rows enters the noise of the mean and the variances, so it must be "
        "public; use relation='zero-out'",
    }
    published = (
        "mean_",
        "components_",
        "explained_variance_",
        "explained_variance_ratio_",
        "singular_values_",
        "noise_variance_",
        "n_components_",
        "n_samples_",
    )

    def _check_model(self):
        super()._check_model()
        model = self.estimator
        _checks.check_positive(
            self.name,
            "data_norm",
            model.data_norm,
            "Pass the largest Euclidean norm a centred row may have (longer rows are cut to it), chosen "
            "without looking at the private rows.",
        )
        if not model.centered:
            _checks.check_bounds(self.name, "bounds", model.bounds)
        whole = isinstance(model.n_components, numbers.Integral)
        if model.n_components is not None and not (
            whole and not isinstance(model.n_components, bool) and model.n_components >= 1
        ):
            raise _checks.refusal(
                self.name,
                "n_components",
                "an integer >= 1 or None",
                model.n_components,
                "A share or 'mle' lets the noisy spectrum choose the number of columns, which the next "
                "step of a pipeline cannot follow; pass an integer.",
            )

    def _check_relation(self, relation):
        if relation == "zero-out" and not self.estimator.centered:
            bounds = _checks.check_bounds(self.name, "bounds", self.estimator.bounds)
            _checks.check_spans_zero(self.name, "bounds", bounds, _ZERO)

    def check_data(self, n_samples, n_features, classes):
        """Refuse bounds for another number of columns, or more components than columns or rows."""
        if not self.estimator.centered:
            _checks.check_bounds_width(self.name, "bounds", self.estimator.bounds, n_features)
        wanted = self.estimator.n_components
        limit = min(n_samples, n_features)
        if n_samples < 2 or (wanted is not None and wanted > limit):
            raise CandidateRefusedError(
                f"{self.name}: n_components must be at most min(n_samples, n_features) = {limit}, of at "
                f"least 2 rows; got {wanted} for {n_samples} rows. Ask for fewer components."
            )

    def _own_assumptions(self):
        return (
            "data_norm (and bounds) were chosen without the private rows; the number of rows is public.",
        )

    def _train(self, rows, target, classes, rng):
        model = self.estimator
        n_samples, n_features = rows.shape
        epsilon = SPEND * float(model.epsilon)
        mean = np.zeros(n_features)
        if not model.centered:
            epsilon = epsilon / 2
            bounds = _checks.bounds_arrays(model.bounds, n_features)
            mean = _means(clip_rows(rows, bounds), bounds, epsilon, rng)
        n_components = model.n_components or min(n_samples, n_features)
        norm = float(model.data_norm)
        rows = shrink_rows((rows - mean) / norm) * norm
        eigenvalues, directions = require_diffprivlib().models.utils.covariance_eig(
            rows,
            epsilon=epsilon,
            norm=norm,
            dims=int(n_components),
            # a numpy generator is all that this function takes; its outputs are no raw draws
            random_state=np.random.RandomState(
                np.random.MT19937(np.random.SeedSequence(rng.getrandbits(256), pool_size=8))
            ),
        )
        variance = np.sort(eigenvalues)[::-1] / (n_samples - 1)
        rest = variance[n_components:]
        return {
            "mean_": mean,
            "components_": _flip_signs(directions.T),
            "explained_variance_": variance[:n_components],
            "explained_variance_ratio_": variance[:n_components] / variance.sum(),
            "singular_values_": np.sqrt(variance[:n_components] * (n_samples - 1)),
            "noise_variance_": float(rest.mean()) if rest.size else 0.0,
            "n_components_": int(n_components),
            "n_samples_": n_samples,
        }


def _flip_signs(components):
    """Return the components with the largest entry of each made positive, as scikit-learn does."""
    largest = np.abs(components).argmax(axis=1)
    signs = np.sign(components[np.arange(len(components)), largest])
    return components * np.where(signs == 0, 1.0, signs)[:, None]


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
