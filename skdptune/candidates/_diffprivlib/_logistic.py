"""LogisticRegression: objective perturbation, minimised to the last digits."""

import contextlib

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh
from scipy.optimize import minimize
from scipy.special import expit

from skdptune._exceptions import CandidateRefusedError
from skdptune.candidates._diffprivlib import _checks
from skdptune.candidates._diffprivlib._base import DiffprivlibAdapter
from skdptune.candidates._diffprivlib._library import require_diffprivlib
from skdptune.candidates._diffprivlib._noise import SPEND

__all__ = ["LogisticRegressionAdapter", "minimise", "shrink_rows"]

_CURVATURE = 0.25  # largest second derivative of the logistic loss
_SMALL = 64  # columns up to which Newton steps alone are fastest
_RESIDUAL = 1e-9  # gradient left over, in units of one row's largest gradient
_FLATTEST = 1e-12  # least penalty with which the minimum is found to that


class LogisticRegressionAdapter(DiffprivlibAdapter):
    """Adapter of ``diffprivlib.models.LogisticRegression``.

    Notes
    -----
    *Releases* the minimiser of the sum of logistic losses plus (1/C) ||w||^2 / 2 plus b.w, where b is
    a random vector; with more than two classes one such minimiser for each class against the rest, at
    epsilon / n_classes each.

    *Spends* epsilon under replace-one (Chaudhuri, Monteleoni & Sarwate, JMLR 12, 2011, Theorem 9, with the
    exact curvature). Dropping or blanking a row changes the gradient by at most 1 instead of 2 and the
    Hessian by one rank instead of two, and so costs epsilon / 2 (proof in ``doc/adapters.rst``). n
    cancels.

    *Accepted* only without an intercept, which the library leaves out of the penalty that the proof
    rests on.

    *Differs from the library's fit*: rows are divided by ``data_norm``, cut to norm 1, and C multiplied by
    its square, which is the user's problem with the curvature the proof asks for (the library takes
    ``data_norm`` where its square is due); absent classes are trained like the others; the minimum is
    found to 1e-9 of a row's gradient instead of ``tol``, so ``tol`` and ``max_iter`` are not used.
    """

    cost_per_epsilon = {"zero-out": 0.5, "replace-one": 1.0, "add-remove": 0.5}
    wants = "labels"
    published = ("classes_", "coef_", "intercept_")

    def _check_model(self):
        super()._check_model()
        model = self.estimator
        if model.fit_intercept:
            raise _checks.refusal(
                self.name,
                "fit_intercept",
                "False",
                model.fit_intercept,
                "diffprivlib 0.6.6 does not penalise the intercept, so the fit exceeds its epsilon: set "
                "fit_intercept=False and add a constant column if an intercept is needed.",
            )
        _checks.check_positive(
            self.name,
            "data_norm",
            model.data_norm,
            "Pass the largest Euclidean norm a row may have (longer rows are cut to it), chosen without "
            "looking at the private rows.",
        )
        _checks.check_positive(self.name, "C", model.C, "Pass e.g. C=1.0.")
        self._check_curved()

    def _check_curved(self):
        """Refuse an objective that is so flat that its minimum cannot be found, which the price assumes."""
        penalty = 1.0 / (float(self.estimator.C) * float(self.estimator.data_norm) ** 2)
        if penalty + _extra_penalty(float(self.estimator.epsilon), penalty) < _FLATTEST:
            raise _checks.refusal(
                self.name,
                "C",
                "at most 1e12 / data_norm**2 with an epsilon this large",
                self.estimator.C,
                "Beyond that, the penalty is lost in rounding and the exact minimum, on which the price rests, cannot "
                "be found. Lower C, data_norm or epsilon.",
            )

    def check_data(self, n_samples, n_features, classes):
        """Refuse fewer than two declared classes."""
        if classes is not None and len(classes) < 2:
            raise CandidateRefusedError(
                f"{self.name}: classes must hold at least 2 labels; got {len(classes)}. Declare every "
                "label that can occur."
            )

    def _own_assumptions(self):
        return (
            "data_norm was chosen without the private rows.",
            "the perturbed objective is minimised exactly (the solver stops at a gradient of 1e-9 of one "
            "row's).",
        )

    def _train(self, rows, target, classes, rng):
        labels = self._labels(classes)
        norm = float(self.estimator.data_norm)
        rows = shrink_rows(rows / norm)
        rows[target < 0] = 0.0  # a row without a declared label has no gradient
        positive = [1] if len(labels) == 2 else list(range(len(labels)))
        epsilon = SPEND * float(self.estimator.epsilon) / len(positive)
        # w' = norm * w turns (1/C) ||w||^2 into (1/(C norm^2)) ||w'||^2
        penalty = 1.0 / (float(self.estimator.C) * norm * norm)
        coef = np.zeros((len(positive), rows.shape[1]))
        for i, label in enumerate(positive):
            noise, extra = _perturbation(rows.shape[1], epsilon, penalty, rng)
            solution = minimise(rows, (target == label).astype(np.float64), penalty + extra, noise)
            coef[i] = solution / norm
        return {"classes_": labels, "coef_": coef, "intercept_": np.zeros(len(positive))}


def shrink_rows(rows):
    """Return ``rows`` with every row longer than 1 cut to norm 1 (a hair less: the private side).

    Examples
    --------
    >>> import numpy as np
    >>> float(np.linalg.norm(shrink_rows(np.array([[3.0, 4.0]])))) <= 1
    True
    """
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(norms > 1.0 - 1e-12, norms * (1.0 + 1e-12), 1.0)


def _perturbation(n_features, epsilon, penalty, rng):
    """Return the random vector b, shape (n_features,), and the extra penalty of diffprivlib's ``Vector``.

    The mechanism hands out a perturbed function; asked about the zero function of a sum (n = 1) it tells
    both: value b.w + extra ||w||^2 / 2, gradient b + extra w.
    """
    mechanism = require_diffprivlib().mechanisms.Vector(
        epsilon=epsilon,
        function_sensitivity=_CURVATURE,
        data_sensitivity=1.0,
        dimension=n_features,
        alpha=penalty,
        n=1,
        random_state=rng,
    )
    perturbed = mechanism.randomise(lambda w: (0.0, np.zeros_like(w)))
    noise = perturbed(np.zeros(n_features))[1]
    return noise, _extra_penalty(epsilon, penalty)


def _extra_penalty(epsilon, penalty):
    """Return what the mechanism adds to the penalty: its own rule, in the same arithmetic."""
    spent_on_noise = epsilon - 2 * np.log(1 + _CURVATURE / penalty)
    return 0.0 if spent_on_noise > 0 else _CURVATURE / np.expm1(epsilon / 4) - penalty


def minimise(rows, target, penalty, noise):
    """Return the minimiser of the perturbed logistic objective.

    Parameters
    ----------
    rows : ndarray of shape (n_samples, n_features)
    target : ndarray of shape (n_samples,), 0 or 1
    penalty : float
        Coefficient of ||w||^2 / 2, positive.
    noise : ndarray of shape (n_features,)
        Coefficient of w.

    Returns
    -------
    ndarray of shape (n_features,)
        Newton steps run until the gradient is 1e-9 of one row's largest gradient (or of the noise per
        column, where that is larger), or no step improves.
    """

    def value_and_gradient(w):
        margin = rows @ w
        loss = np.logaddexp(0.0, margin).sum() - target @ margin
        value = loss + 0.5 * penalty * (w @ w) + noise @ w
        return value, rows.T @ (expit(margin) - target) + penalty * w + noise

    n_features = rows.shape[1]
    w = -noise / penalty if len(rows) == 0 else np.zeros(n_features)
    if n_features > _SMALL:
        w = minimize(
            value_and_gradient, w, jac=True, method="L-BFGS-B", options={"maxiter": 500}
        ).x
    small = _RESIDUAL * max(1.0, np.linalg.norm(noise) / n_features)
    value, gradient = value_and_gradient(w)
    for _ in range(100):
        if np.linalg.norm(gradient) <= small:
            break
        share = expit(rows @ w)
        hessian = (rows * (share * (1.0 - share))[:, None]).T @ rows
        hessian[np.diag_indices(n_features)] += penalty
        steps = _newton_steps(hessian, gradient, penalty)
        tried = (_line_search(value_and_gradient, w, value, gradient, step) for step in steps)
        moved = next((point for point in tried if point is not None), None)
        if moved is None:
            break
        w, value, gradient = moved
    return w


def _newton_steps(hessian, gradient, penalty):
    """Yield the Newton step, and where it is of no use a careful one: parallel rows must not make a fit fail."""
    with contextlib.suppress(LinAlgError):
        yield -cho_solve(cho_factor(hessian), gradient)
    values, vectors = eigh(hessian)
    rounding = len(values) * np.finfo(float).eps * values[-1]  # what is below it has no digits
    along = vectors.T @ gradient / np.maximum(values, max(penalty, rounding))
    yield -vectors @ along


def _line_search(function, w, value, gradient, step):
    """Return (point, value, gradient) after the longest halved step that lowers value or gradient."""
    slope = gradient @ step
    norm = np.linalg.norm(gradient)
    length = 1.0
    while length > 1e-12:
        there = w + length * step
        new_value, new_gradient = function(there)
        enough = new_value <= value + 1e-4 * length * slope
        # near the minimum the value has no digits left and the gradient decides
        if enough or (length == 1.0 and np.linalg.norm(new_gradient) < 0.5 * norm):
            return there, new_value, new_gradient
        length /= 2
    return None
