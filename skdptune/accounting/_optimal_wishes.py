"""What a user wants from K, as linear conditions on its probabilities, and when they conflict."""

import math

import numpy as np
from scipy.optimize import linprog

from skdptune._exceptions import InvalidParameterError, PricingError

__all__ = ["Wishes", "least_runs"]

_MARGIN = 1e-9  # conditions are tightened by this, so that rounding cannot break them
_OPTIONS = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-9}


class Wishes:
    """Conditions ``rows @ masses <= bounds`` on probabilities ``masses`` of ``counts``.

    Parameters
    ----------
    asked : dict
        ``expected_quantile``, ``success``, ``max_mean``, ``max_runs_99`` as wished.
    counts : ndarray of shape (n,)
        Numbers of runs to choose from, ascending.
    """

    def __init__(self, asked, counts):
        self.asked, self.counts = asked, counts
        self._rows = {}
        if "expected_quantile" in asked:
            self._rows["expected_quantile"] = -counts / (counts + 1), -asked["expected_quantile"]
        if "success" in asked:
            share, probability = asked["success"]
            hit = -np.expm1(counts * np.log1p(-share))
            self._rows["success"] = -hit, -probability
        if "max_mean" in asked:
            self._rows["max_mean"] = counts / asked["max_mean"], 1.0
        if "max_runs_99" in asked:
            self._rows["max_runs_99"] = (counts > asked["max_runs_99"]).astype(float), 0.01

    def forbid_infinite_loss(self, pair, delta):
        """Ask that infinite losses, which no epsilon covers, take at most ``delta``."""
        for name, mass in (("top", pair.p_infinite), ("bottom", pair.q_zero)):
            if mass > 0.0:
                with np.errstate(divide="ignore"):
                    hit = -np.expm1(self.counts * np.log1p(-min(mass, 1.0)))
                hit[self.counts == 0] = 0.0
                scale = max(delta, 1e-300)
                self._rows[name] = hit / scale, (1 - 1e-9) * (delta > 0)

    def _system(self, without=()):
        kept = [row for name, row in self._rows.items() if name not in without]
        rows = np.array([row for row, _ in kept]).reshape(len(kept), self.counts.size)
        return rows, np.array([bound for _, bound in kept])

    def _solve(self, objective, without=(), margin=0.0):
        rows, bounds = self._system(without)
        result = linprog(
            objective,
            A_ub=rows if len(rows) else None,
            b_ub=bounds - margin if len(rows) else None,
            A_eq=np.ones((1, self.counts.size)),
            b_eq=[1.0],
            bounds=(0, None),
            method="highs",
            options=_OPTIONS,
        )
        return result.x if result.status == 0 else None

    @property
    def _margin(self):
        # wishes that can just be met leave no room for the margin
        roomy = self._solve(np.zeros(self.counts.size), margin=_MARGIN) is not None
        return _MARGIN if roomy else 0.0

    def met_by(self, masses):
        """Return whether probabilities meet every wish (margin included where there is room)."""
        rows, bounds = self._system()
        return bool(np.all(rows @ masses <= bounds - self.margin + 1e-12))

    def plain_point(self):
        """Return probabilities that meet the wishes with little mass far out."""
        objective = (self.counts / self.counts[-1]) ** 2
        point = self._solve(objective, margin=self.margin)
        return np.maximum(point, 0.0) / np.maximum(point, 0.0).sum()

    def least_maximum(self, rows, bounds):
        """Minimise over masses that meet the wishes the largest of ``rows @ masses - bounds``.

        Returns
        -------
        masses : ndarray of shape (n,) or None
            None if the solver failed.
        value : float
        """
        own_rows, own_bounds = self._system()
        n = self.counts.size
        upper = np.hstack([rows, -np.ones((len(rows), 1))])
        own = np.hstack([own_rows, np.zeros((len(own_rows), 1))])
        result = linprog(
            np.append(np.zeros(n), 1.0),
            A_ub=np.vstack([upper, own]),
            b_ub=np.concatenate([bounds, own_bounds - self.margin]),
            A_eq=np.append(np.ones(n), 0.0)[None, :],
            b_eq=[1.0],
            bounds=[(0, None)] * n + [(None, None)],
            method="highs-ds",
            options=_OPTIONS,
        )
        if result.status != 0:
            return None, 0.0
        masses = np.maximum(result.x[:-1], 0.0)
        return masses / masses.sum(), float(result.x[-1])

    # -- conflicts ---------------------------------------------------------------------------

    def check(self):
        """Raise if no distribution meets the wishes; say which conflict and what is nearest."""
        self.margin = self._margin
        if self._solve(np.zeros(self.counts.size)) is not None:
            return
        infinite = [name for name in ("top", "bottom") if name in self._rows]
        if infinite and self._solve(np.zeros(self.counts.size), without=infinite) is not None:
            raise PricingError(
                "no distribution that meets the wishes has a finite epsilon: the run's mass at infinite loss, times "
                "the number of runs needed, exceeds delta. Raise delta or ask for less."
            )
        wanted = [name for name in ("expected_quantile", "success") if name in self._rows]
        for name in wanted:
            others = [other for other in wanted if other != name] + infinite
            if self._solve(np.zeros(self.counts.size), without=others) is None:
                raise InvalidParameterError(self._conflict(name, others))
        raise InvalidParameterError(self._conflict(wanted[0], infinite))

    def _conflict(self, name, without):
        most = self._reach(name, without)
        caps = [c for c in ("max_mean", "max_runs", "max_runs_99") if c in self.asked]
        others = [o for o in ("success",) if o in self._rows and o not in without and o != name]
        limits = ", ".join(f"{c}={self.asked[c]!r}" for c in [*others, *caps])
        under = f" together with {limits}" if limits else f" within {int(self.counts[-1])} runs"
        asked = self.asked[name]
        wish = f"the probability in success={asked!r}" if name == "success" else name
        got = asked[1] if name == "success" else asked
        if most is None:
            return f"{limits} cannot be met together, whatever the {wish}. Raise them."
        text = f"{wish} must be at most {most:.6g}{under}; got {got!r}. Lower it to that"
        remedies = [self._remedy(c, without) for c in caps]
        remedies = [remedy for remedy in remedies if remedy]
        return f"{text}, or raise {' or '.join(remedies)}." if remedies else f"{text}."

    def _reach(self, name, without):
        """The most of ``name`` that goes with the other wishes, rounded down."""
        row, _ = self._rows[name]
        point = self._solve(row, without=[name, *without])
        return None if point is None else np.floor(-(row @ point) * 1e6) / 1e6

    def _remedy(self, cap, without):
        """How far ``cap`` would have to be raised, the other wishes kept; None where unknown."""
        if cap == "max_mean":
            point = self._solve(self.counts, without=[cap, *without])
            return None if point is None else f"max_mean to {np.ceil(point @ self.counts * 1e4 - 1e-3) / 1e4:.6g}"
        if cap == "max_runs" and len({"max_mean", "max_runs_99"} & set(self.asked)) == 0:
            return f"max_runs to {least_runs(self.asked)}"
        return None


def least_runs(asked):
    """The number of runs that, if certain, reaches quantile and success.

    Examples
    --------
    >>> least_runs({"expected_quantile": 0.9}), least_runs({"success": (0.1, 0.5)})
    (9, 7)
    """
    least = 1.0
    if "expected_quantile" in asked:
        least = asked["expected_quantile"] / (1 - asked["expected_quantile"])
    if "success" in asked:
        share, probability = asked["success"]
        least = max(least, math.log1p(-probability) / math.log1p(-share))
    return math.ceil(least * (1 - 1e-12))
