"""GaussianNB: noisy counts, sums and squared deviations of every declared class."""

import numbers

import numpy as np

from skdptune.candidates._diffprivlib import _checks
from skdptune.candidates._diffprivlib._base import DiffprivlibAdapter
from skdptune.candidates._diffprivlib._library import require_diffprivlib
from skdptune.candidates._diffprivlib._noise import SPEND, bounded_laplace, truncated_laplace
from skdptune.candidates._diffprivlib._rows import clip_rows

__all__ = ["GaussianNBAdapter"]

_ZERO = (
    "the noise of a class's sum is scaled to max - min, which covers the loss of a row only where no row "
    "is farther from 0 than that"
)


class GaussianNBAdapter(DiffprivlibAdapter):
    """Adapter of ``diffprivlib.models.GaussianNB``.

    Notes
    -----
    *Releases* for every declared class the count, the means and the variances of its rows (and, from
    the counts, the priors).

    *Spends* epsilon/3 on the counts, and epsilon/(3 n_features) on each mean and on each variance. A row
    is in one class, so dropping or blanking it costs epsilon; changing it, label included, touches two
    classes and costs 2 epsilon. n enters nowhere.

    *Differs from the library's fit*: absent classes get the same noise as the others; counts are not
    forced to add up to the exact number of rows; columns are clipped to their own bounds.
    """

    cost_per_epsilon = {"zero-out": 1.0, "replace-one": 2.0, "add-remove": 1.0}
    wants = "labels"
    published = ("classes_", "class_count_", "class_prior_", "theta_", "var_", "epsilon_")

    def _check_model(self):
        super()._check_model()
        bounds = _checks.check_bounds(self.name, "bounds", self.estimator.bounds)
        _checks.check_spans_zero(self.name, "bounds", bounds, _ZERO)
        self._check_var_smoothing()
        self._check_priors()

    def _check_var_smoothing(self):
        value = self.estimator.var_smoothing
        real = isinstance(value, numbers.Real) and not isinstance(value, bool)
        if not real or not 0 <= value < np.inf:
            raise _checks.refusal(
                self.name, "var_smoothing", "a finite number >= 0", value, "Pass e.g. 1e-9."
            )

    def _check_priors(self):
        priors = self.estimator.priors
        if priors is None:
            return
        try:
            shares = np.asarray(priors, dtype=np.float64)
        except (TypeError, ValueError):
            shares = np.array([-1.0])
        if shares.ndim != 1 or not (np.all(shares >= 0) and np.isclose(shares.sum(), 1.0)):
            advice = "Pass one share per class, chosen without the private rows, or None."
            raise _checks.refusal(
                self.name, "priors", "None or shares >= 0 that add up to 1", priors, advice
            )

    def check_data(self, n_samples, n_features, classes):
        """Refuse bounds for another number of columns, or priors for another number of classes."""
        _checks.check_bounds_width(self.name, "bounds", self.estimator.bounds, n_features)
        priors = self.estimator.priors
        if priors is not None and classes is not None and len(priors) != len(classes):
            raise _checks.refusal(
                self.name,
                "priors",
                f"one share for each of the {len(classes)} declared classes",
                priors,
                "Pass priors=None to have them estimated.",
            )

    def _own_assumptions(self):
        return ("bounds (and priors, if given) were chosen without the private rows.",)

    def _train(self, rows, target, classes, rng):
        labels = self._labels(classes)
        bounds = _checks.bounds_arrays(self.estimator.bounds, rows.shape[1])
        rows = clip_rows(rows, bounds)
        epsilon = SPEND * float(self.estimator.epsilon)
        counter = require_diffprivlib().mechanisms.GeometricTruncated(
            epsilon=epsilon / 3, sensitivity=1, lower=1, upper=float("inf"), random_state=rng
        )
        smoothing = float(self.estimator.var_smoothing)
        counts = np.zeros(len(labels))
        theta = np.zeros((len(labels), rows.shape[1]))
        var = np.zeros_like(theta)
        for i in range(len(labels)):
            members = rows[target == i]
            counts[i] = counter.randomise(len(members))
            theta[i], var[i] = _moments(members, counts[i], bounds, epsilon, rng)
        priors = self.estimator.priors
        return {
            "classes_": labels,
            "class_count_": counts,
            "class_prior_": counts / counts.sum() if priors is None else np.asarray(priors, float),
            "theta_": theta,
            "var_": var + smoothing,
            "epsilon_": smoothing,
        }


def _moments(members, count, bounds, epsilon, rng):
    """Return noisy means and variances (each of shape (n_features,)) of one class, given its noisy count.

    A row changes a column's sum by at most max - min (bounds contain 0) and its sum of squared deviations
    from the noisy mean by at most the square of the farther bound's distance from that mean.
    """
    n_features = members.shape[1]
    mean, variance = np.zeros(n_features), np.zeros(n_features)
    each = epsilon / 3 / n_features
    for j in range(n_features):
        low, high = bounds[0][j], bounds[1][j]
        column = members[:, j]
        total = truncated_laplace(
            column.sum(), each, high - low, low * count, high * count, rng
        )
        mean[j] = min(max(total / count, low), high)
        reach = max(mean[j] - low, high - mean[j]) ** 2
        spread = ((column - mean[j]) ** 2).sum()
        variance[j] = bounded_laplace(spread, each, reach, reach * count, rng) / count
    return mean, variance
