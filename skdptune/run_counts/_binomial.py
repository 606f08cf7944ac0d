"""Numbers of runs with a simple closed form and a largest value: fixed and binomial."""

import dataclasses
import functools
import math

import numpy as np
from scipy import special

from skdptune._validation import check_integer, check_real
from skdptune.run_counts._base import RunCount, check_count, check_generator, set_fields
from skdptune.run_counts._special import binomial_log_pmf
from skdptune.run_counts._tables import draw_from_survival

__all__ = ["Binomial", "Fixed"]

_LARGEST_COUNT = 2**53


@dataclasses.dataclass(frozen=True, repr=False)
class Fixed(RunCount):
    """A fixed number of runs. Allowed, priced honestly, and dear: the cost grows with ``k``.

    Parameters
    ----------
    k : int
        Number of runs, at least 1.

    Raises
    ------
    InvalidTypeError, InvalidParameterError
        If ``k`` is no such number.

    References
    ----------
    Papernot & Steinke, arXiv 2110.03620v2, section on lower bounds: repeating a fixed number of
    times can cost as much as publishing all runs.

    Examples
    --------
    >>> from skdptune.run_counts import Fixed
    >>> Fixed(3).mean, Fixed(3).success_probability(0.5)
    (3.0, 0.875)
    """

    k: int

    def __post_init__(self):
        set_fields(self, k=check_count("k", self.k, high=_LARGEST_COUNT))

    @property
    def mean(self):
        """E[K] = k, in runs."""
        return float(self.k)

    @property
    def p_zero(self):
        """P(K = 0) = 0."""
        return 0.0

    @property
    def support_max(self):
        """The number of runs itself."""
        return self.k

    def _log_pgf(self, r, x):
        return self.k * _log_of(r, x)

    def _attainment(self, r, x):
        return -np.expm1(self.k * _log_of(r, x))

    def _log_weight(self, r, x):
        return math.log(self.k) + _scaled_log(self.k - 1, r, x)

    def _log_weight_slope(self, r, x):
        if self.k == 1:
            return np.full(np.shape(r), -np.inf)
        return math.log(self.k) + math.log(self.k - 1) + _scaled_log(self.k - 2, r, x)

    def _log_pmf(self, k):
        return np.where(k == self.k, 0.0, -np.inf)

    def _sf(self, k):
        return np.where(k < self.k, 1.0, 0.0)

    def sample(self, rng):
        check_generator(rng)
        return self.k

    sample.__doc__ = RunCount.sample.__doc__


def _log_of(r, x):
    """log(1 - r), from whichever of r and x = 1 - r is small."""
    return np.where(x < 0.5, np.log(x), np.log1p(-np.minimum(r, 0.75)))


def _scaled_log(count, r, x):
    """count * log(1 - r), with 0 * log 0 = 0."""
    return np.zeros(np.shape(r)) if count == 0 else count * _log_of(r, x)


@dataclasses.dataclass(frozen=True, repr=False)
class Binomial(RunCount):
    """Binomial number of runs: ``n`` chances, each taken with probability ``p``.

    Parameters
    ----------
    n : int
        Largest number of runs, at least 1.
    p : float
        In (0, 1].

    Raises
    ------
    InvalidTypeError, InvalidParameterError
        If an argument is outside its range.

    Examples
    --------
    >>> from skdptune.run_counts import Binomial
    >>> k = Binomial(n=20, p=0.5)
    >>> k.mean, k.support_max
    (10.0, 20)
    """

    n: int
    p: float

    def __post_init__(self):
        n = check_integer("n", self.n, low=1, high=_LARGEST_COUNT)
        p = check_real("p", self.p, low=0, low_open=True, high=1)
        set_fields(self, n=n, p=p)

    @property
    def mean(self):
        """E[K] = n p, in runs."""
        return self.n * self.p

    @property
    def p_zero(self):
        """P(K = 0) = (1 - p)^n."""
        return float(np.exp(special.xlog1py(self.n, -self.p)))

    @property
    def support_max(self):
        """The largest number of runs, n."""
        return self.n

    def _log_miss(self, r, x):
        """log(1 - p r), the chance that one of the n chances does not hit."""
        share = self.p * r
        near_one = (1.0 - self.p) + self.p * x
        return np.where(share > 0.5, np.log(near_one), np.log1p(-np.minimum(share, 0.75)))

    def _log_pgf(self, r, x):
        return self.n * self._log_miss(r, x)

    def _attainment(self, r, x):
        return -np.expm1(self.n * self._log_miss(r, x))

    def _log_weight(self, r, x):
        miss = 0.0 if self.n == 1 else (self.n - 1) * self._log_miss(r, x)
        return math.log(self.n) + math.log(self.p) + miss + np.zeros(np.shape(r))

    def _log_weight_slope(self, r, x):
        if self.n == 1:
            return np.full(np.shape(r), -np.inf)
        miss = 0.0 if self.n == 2 else (self.n - 2) * self._log_miss(r, x)
        scale = math.log(self.n) + math.log(self.n - 1) + 2.0 * math.log(self.p)
        return scale + miss + np.zeros(np.shape(r))

    def _log_pmf(self, k):
        inside = binomial_log_pmf(np.minimum(k, self.n), self.n, self.p, 1.0 - self.p)
        return np.where(k > self.n, -np.inf, inside)

    def _sf(self, k):
        below = np.minimum(k, self.n - 1.0)
        return np.where(k >= self.n, 0.0, special.betainc(below + 1.0, self.n - below, self.p))

    @functools.cached_property
    def _survival_table(self):
        # for means up to 30 the tail beyond 1,000 runs is below 1e-300
        return self._sf(np.arange(min(self.n, 1000) + 1.0))

    def sample(self, rng):
        rng = check_generator(rng)
        if self.mean <= 30.0:
            # NumPy inverts one 53-bit uniform here, which cuts the upper tail
            return draw_from_survival(self._survival_table, rng)
        return int(rng.binomial(self.n, self.p))

    sample.__doc__ = RunCount.sample.__doc__
