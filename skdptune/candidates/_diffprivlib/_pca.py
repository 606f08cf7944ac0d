"""PCA as a step of a pipeline: noisy eigenvalues, and directions from the exponential mechanism."""

import numbers

import numpy as np

from skdptune._exceptions import CandidateRefusedError
from skdptune.candidates._diffprivlib import _checks
from skdptune.candidates._diffprivlib._base import DiffprivlibAdapter
from skdptune.candidates._diffprivlib._logistic import shrink_rows
from skdptune.candidates._diffprivlib._noise import SPEND, bounded_laplace
from skdptune.candidates._diffprivlib._rows import clip_rows
from skdptune.candidates._diffprivlib._steps import ZERO_REASON, noisy_means

__all__ = ["PCAAdapter", "sample_direction"]


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

    *Differs from the library's fit*: directions come from a sampler of our own. The library's accepts with
    the wrong power of its envelope and so draws from another density, which is not within epsilon, and
    with 30 columns and epsilon 5 it does not return. A missing value counts as 0. ``n_components`` as a
    share or 'mle' is refused, because the number of columns handed on would change from run to run.
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
            _checks.check_spans_zero(self.name, "bounds", bounds, ZERO_REASON)

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
            mean = noisy_means(clip_rows(rows, bounds), bounds, epsilon, rng)
        n_components = model.n_components or min(n_samples, n_features)
        norm = float(model.data_norm)
        rows = shrink_rows((rows - mean) / norm)
        eigenvalues, components = _spectrum(rows.T @ rows, int(n_components), epsilon, rng)
        variance = np.sort(eigenvalues)[::-1] * norm**2 / (n_samples - 1)
        rest = variance[n_components:]
        return {
            "mean_": mean,
            "components_": _flip_signs(components),
            "explained_variance_": variance[:n_components],
            "explained_variance_ratio_": variance[:n_components] / variance.sum(),
            "singular_values_": np.sqrt(variance[:n_components] * (n_samples - 1)),
            "noise_variance_": float(rest.mean()) if rest.size else 0.0,
            "n_components_": int(n_components),
            "n_samples_": n_samples,
        }


def _spectrum(moments, n_components, epsilon, rng):
    """Return noisy eigenvalues, shape (d,), and noisy orthonormal directions, shape (n_components, d).

    Parameters
    ----------
    moments : ndarray of shape (d, d)
        Sum of x x^T over rows of norm at most 1.
    """
    d = len(moments)
    each = epsilon / (n_components + (n_components != d))
    eigenvalues = np.array(
        [
            bounded_laplace(max(value, 0.0), each, 2.0, float("inf"), rng)
            for value in np.linalg.eigvalsh(moments)[::-1]
        ]
    )
    basis = np.eye(d)  # rows: an orthonormal basis of what is left of the space
    components = np.zeros((n_components, d))
    for i in range(n_components):
        if len(basis) == 1:
            components[i] = basis[0]
            break
        direction = sample_direction(basis @ moments @ basis.T, each, rng)
        components[i] = direction @ basis
        basis = _complement(direction) @ basis
    return eigenvalues, components


def _complement(unit):
    """Return an orthonormal basis, shape (m - 1, m), of the complement of ``unit``, shape (m,)."""
    # the reflection that takes the first axis to +-unit; the sign avoids cancellation
    axis = unit.copy()
    axis[0] += np.copysign(1.0, unit[0])
    reflection = np.eye(len(unit)) - 2.0 * np.outer(axis, axis) / (axis @ axis)
    return reflection[1:]


def sample_direction(moments, epsilon, rng):
    """Draw a unit vector u with density proportional to exp(epsilon u^T M u / 4).

    Parameters
    ----------
    moments : ndarray of shape (m, m), m >= 2
        M, symmetric.
    epsilon : float
    rng : ByteRandom

    Returns
    -------
    ndarray of shape (m,)

    Notes
    -----
    Rejection from an angular central Gaussian (Kent, Ganeiban & Mardia, arXiv 1310.8110, section 3): with
    A = epsilon (max eigenvalue I - M) / 4, Omega = I + 2 A / b and any b > 0,
    exp(-u^T A u) <= exp(-(m - b)/2) (m/b)^(m/2) (u^T Omega u)^(-m/2); b = root of sum 1/(b + 2 a_i) = 1.
    A row of norm at most 1 moves u^T M u by a number in [0, 1], so the draw costs epsilon / 4 if the row
    is dropped and epsilon / 2 if it is replaced.

    Examples
    --------
    >>> import numpy as np
    >>> from skdptune.candidates._diffprivlib._randomness import ByteRandom
    >>> u = sample_direction(np.diag([1e6, 0.0, 0.0]), 1.0, ByteRandom(5))
    >>> bool(abs(u[0]) > 0.99)
    True
    """
    values, vectors = np.linalg.eigh(moments)
    m = len(values)
    a = epsilon * (values[-1] - values) / 4  # >= 0, and 0 for the largest eigenvalue
    b = _envelope_root(a)
    omega = 1.0 + 2.0 * a / b
    log_bound = (b - m) / 2 + (m / 2) * np.log(m / b)
    while True:
        normal = _standard_normal(m, rng) / np.sqrt(omega)
        unit = normal / np.linalg.norm(normal)
        square = unit**2
        log_accept = -(a @ square) + (m / 2) * np.log(omega @ square) - log_bound
        if np.log1p(-rng.random()) <= log_accept:  # 1 - U is in (0, 1]
            return vectors @ unit


def _envelope_root(a):
    """Return b in [1, m] with sum 1 / (b + 2 a_i) close to 1; a rough b only costs time."""
    low, high = 1.0, float(len(a))
    for _ in range(60):
        middle = (low + high) / 2
        if np.sum(1.0 / (middle + 2.0 * a)) > 1.0:
            low = middle
        else:
            high = middle
    return high


def _standard_normal(size, rng):
    """Return ``size`` standard normal draws (Box and Muller)."""
    radius = np.sqrt(-2.0 * np.log1p(-rng.random(size)))
    return radius * np.cos(2.0 * np.pi * rng.random(size))


def _flip_signs(components):
    """Return the components with the largest entry of each made positive, as scikit-learn does."""
    largest = np.abs(components).argmax(axis=1)
    signs = np.sign(components[np.arange(len(components)), largest])
    return components * np.where(signs == 0, 1.0, signs)[:, None]
