"""LinearRegression: noisy coefficients of the squared-error polynomial."""

import functools

import numpy as np
from scipy.optimize import minimize

from skdptune._exceptions import CandidateRefusedError
from skdptune.candidates._diffprivlib import _checks
from skdptune.candidates._diffprivlib._base import DiffprivlibAdapter
from skdptune.candidates._diffprivlib._library import require_diffprivlib
from skdptune.candidates._diffprivlib._noise import SPEND
from skdptune.candidates._diffprivlib._rows import clip_rows

__all__ = ["LinearRegressionAdapter"]

_ACCEPTED = (
    "Accepted is e.g. LinearRegression(epsilon=1.0, fit_intercept=False, bounds_X=(-1, 1), bounds_y=(-1, 1)): bounds "
    "chosen without the private rows, of columns from which public constants were subtracted so that every lower bound "
    "is at least as far from zero as the upper one."
)


def _refusals(*checks):
    """Return the refusals that ``checks`` end with."""
    found = []
    for check in checks:
        try:
            check()
        except CandidateRefusedError as refusal:
            found.append(refusal)
    return found


def _said(refusal, model):
    return str(refusal).removeprefix(f"{model}: ").removesuffix(".")


class LinearRegressionAdapter(DiffprivlibAdapter):
    """Adapter of ``diffprivlib.models.LinearRegression``.

    Notes
    -----
    *Releases* the sums of y^2, of x_j y and of x_j x_k over the rows, with Laplace noise; the
    coefficients follow from them.

    *Spends* epsilon / (1 + d + d (d + 1) / 2) on each of as many sums (d columns, one target), with noise
    scaled to the width of each product's range. With bounds that contain 0 the width also covers
    the loss of a row, so all three relations cost epsilon. n enters nowhere.

    *Accepted* only without an intercept and with every lower bound of X at least as far from 0 as the
    upper: release 0.6.6 squares the lower bound twice where the larger of both is due.

    *Differs from the library's fit*: rows are clipped to the bounds (the library clips them only when
    it fits an intercept); several targets are refused.
    """

    cost_per_epsilon = {"zero-out": 1.0, "replace-one": 1.0, "add-remove": 1.0}
    wants = "target"
    published = ("coef_", "intercept_")

    def check(self, relation):
        """Refuse, without data, what cannot be vouched for under ``relation``: all of it in one error.

        Raises
        ------
        CandidateRefusedError
            Naming every requirement that is not met, and its repair.
        """
        found = _refusals(
            functools.partial(super().check, relation),
            self._check_intercept,
            self._check_given,
            self._check_lower_bounds,
            functools.partial(self._check_zero, relation),
            self._check_target,
        )
        if len(found) == 1 and _refusals(self._check_given):  # what bounds must be is not said by asking for some
            raise CandidateRefusedError(f"{found[0]} {_ACCEPTED}")
        if len(found) == 1:
            raise found[0]
        if found:
            unmet = "; ".join(f"({i}) {_said(refusal, self.name)}" for i, refusal in enumerate(found, start=1))
            raise CandidateRefusedError(f"{self.name}: {len(found)} requirements are not met: {unmet}. {_ACCEPTED}")

    def _check_intercept(self):
        if self.estimator.fit_intercept:
            raise _checks.refusal(
                self.name,
                "fit_intercept",
                "False",
                self.estimator.fit_intercept,
                "diffprivlib 0.6.6 centres X and y with two queries that each spend the slice of epsilon "
                "set aside for one (upstream issue 104), and then squares the lower of the moved bounds "
                "twice (issue 105): set fit_intercept=False, subtract public constants from X and y to "
                "centre them, and add a constant column of -1 if an intercept is needed.",
            )

    def _check_given(self):
        _checks.check_bounds(self.name, "bounds_X", self.estimator.bounds_X)

    def _check_target(self):
        target = _checks.check_bounds(self.name, "bounds_y", self.estimator.bounds_y)
        if target[0].size != 1:
            raise _checks.refusal(
                self.name, "bounds_y", "one pair of numbers", self.estimator.bounds_y,
                "Fit one target: for several, diffprivlib 0.6.6 makes more queries than it divides "
                "epsilon by.",
            )  # fmt: skip

    def _check_lower_bounds(self):
        if _refusals(self._check_given):
            return  # said already
        lower, upper = _checks.check_bounds(self.name, "bounds_X", self.estimator.bounds_X)
        if not np.all(-lower >= np.abs(upper)):
            raise CandidateRefusedError(
                f"{self.name}: every lower bound in bounds_X must be at least as far from zero as the "
                "upper one; got a column where the upper is farther. diffprivlib 0.6.6 squares the lower "
                "bound twice (upstream issue 105), so it adds too little noise there, and none at 0. "
                "Subtract public constants from the columns to centre them, e.g. (min + max) / 2, and "
                "pass the moved bounds, or widen the lower bound."
            )

    def _check_zero(self, relation):
        if relation == "replace-one" or _refusals(self._check_given):
            return
        bounds = _checks.check_bounds(self.name, "bounds_X", self.estimator.bounds_X)
        _checks.check_spans_zero(
            self.name,
            "bounds_X",
            bounds,
            "the noise of each sum of products is scaled to the width of their range, which covers the loss "
            "of a row only if the range contains 0",
        )

    def check_data(self, n_samples, n_features, classes):
        """Refuse bounds for another number of columns."""
        _checks.check_bounds_width(self.name, "bounds_X", self.estimator.bounds_X, n_features)

    def _own_assumptions(self):
        return ("bounds_X and bounds_y were chosen without the private rows.",)

    def _train(self, rows, target, classes, rng):
        n_features = rows.shape[1]
        bounds_X = _checks.bounds_arrays(self.estimator.bounds_X, n_features)
        bounds_y = _checks.bounds_arrays(self.estimator.bounds_y, 1)
        module = require_diffprivlib().models.linear_regression
        objectives, _ = module._construct_regression_obj(
            clip_rows(rows, bounds_X),
            clip_rows(target, bounds_y),
            bounds_X,
            bounds_y,
            epsilon=SPEND * float(self.estimator.epsilon),
            alpha=0,
            random_state=rng,
        )
        # The noisy quadratic may be unbounded below: whatever the minimiser does is post-processing.
        found = minimize(objectives[0], np.zeros(n_features), jac=True)
        return {"coef_": np.asarray(found.x, dtype=np.float64), "intercept_": 0.0}
