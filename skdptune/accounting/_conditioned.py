"""What is left of a search when no run hits an event of small mass: a lighter count, a pair without that mass.

Each run hits the event with probability m on either side, so none does with probability f(1 - m). On that
condition K has law p_k (1 - m)^k / f(1 - m), whatever its own tail, and every run has its law on the condition.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np

from skdptune.accounting._pairs import DominatingPair
from skdptune.run_counts import RunCount

__all__ = ["ConditionedCount", "without_singular"]


@dataclass(frozen=True)
class ConditionedCount:
    """Law of K given that no run hit an event of mass m: generating function f((1 - m) x) / f(1 - m).

    Parameters
    ----------
    run_count : RunCount
    mass : float in (0, 1)

    Examples
    --------
    >>> from skdptune.run_counts import Geometric
    >>> count = ConditionedCount(Geometric(10), 0.5)
    >>> round(float(np.exp(count.log_weight(0.0))), 4)  # Geometric again, of mean 1 / (1 - 0.9 / 2)
    1.8182
    """

    run_count: RunCount
    mass: float

    @functools.cached_property
    def hit(self):
        """1 - f(1 - m), the chance that some run hits the event; not rounded to a side."""
        return float(self.run_count.attainment(self.mass))

    @functools.cached_property
    def _log_total(self):
        # log f(1 - m), from whichever of f and 1 - f is small
        if self.hit < 0.5:
            return math.log1p(-self.hit)
        return float(self.run_count.log_pgf(1.0 - self.mass))

    @property
    def p_zero(self):
        """P(K = 0) on the condition."""
        return self.run_count.p_zero * math.exp(-self._log_total)

    @property
    def support_max(self):
        """The largest number of runs, None where there is none."""
        return self.run_count.support_max

    def _lifted(self, r):
        # 1 - (1 - m) (1 - r)
        return np.minimum(self.mass + (1.0 - self.mass) * np.asarray(r, dtype=float), 1.0)

    def log_weight(self, r):
        """log w(r) of the conditioned count."""
        return self.run_count.log_weight(self._lifted(r)) + (math.log1p(-self.mass) - self._log_total)

    def log_weight_slope(self, r):
        """log |w'(r)| of the conditioned count."""
        return self.run_count.log_weight_slope(self._lifted(r)) + (2 * math.log1p(-self.mass) - self._log_total)

    def log_pgf_derivative(self, x):
        """log f'(x) of the conditioned count."""
        inner = self.run_count.log_pgf_derivative(np.asarray(x, dtype=float) * (1.0 - self.mass))
        return inner + (math.log1p(-self.mass) - self._log_total)

    def attainment(self, r):
        """1 - f(1 - r) of the conditioned count, rounded up."""
        r = np.asarray(r, dtype=float)
        whole = np.asarray(self.run_count.attainment(self._lifted(r)))
        kept = math.exp(self._log_total)
        # each term is good to 1e-12; concave in r, so at most r E[K]
        apart = (whole * (1.0 + 1e-11) - self.hit) / kept
        with np.errstate(over="ignore", invalid="ignore"):
            line = r * np.exp(self.log_weight(0.0)) * (1.0 + 1e-11)
        return np.clip(np.fmin(apart, line), 0.0, 1.0)


def without_singular(pair, mass):
    """Return the pair on condition of a finite loss, ``mass`` being set aside under both measures.

    The lighter of the two singular parts is filled up to ``mass`` by a coin that nothing else depends on.

    Parameters
    ----------
    pair : DominatingPair
    mass : float
        The larger of ``p_infinite`` and ``q_zero``.

    Returns
    -------
    DominatingPair
        Without singular mass.
    """
    shift = math.log1p(-pair.q_zero) - math.log1p(-pair.p_infinite)
    p, q = pair.p / (1.0 - pair.p_infinite), pair.q / (1.0 - pair.q_zero)
    return DominatingPair(pair.losses + shift, p, q, 0.0, 0.0, None if shift else pair.spacing, pair.symmetric)
