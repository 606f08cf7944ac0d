"""Poisson numbers of runs, plain and conditioned on at least one run."""

import dataclasses
import math

import numpy as np
from scipy import special

from skdptune._validation import check_real, invalid_value
from skdptune.run_counts._base import RunCount, check_generator, check_mean, set_fields
from skdptune.run_counts._inversion import smallest_at_least
from skdptune.run_counts._special import log_phi, phi, poisson_log_pmf

__all__ = ["Poisson", "ZeroTruncatedPoisson"]

_LARGEST_RATE = 1e18  # a draw must fit into 64 bits


@dataclasses.dataclass(frozen=True, repr=False)
class Poisson(RunCount):
    """Poisson number of runs; with probability e^-mean there is none.

    Parameters
    ----------
    mean : float
        E[K] > 0, at most 1e18.

    Raises
    ------
    InvalidTypeError, InvalidParameterError
        If ``mean`` is no such number.

    References
    ----------
    Papernot & Steinke, arXiv 2110.03620v2, Theorem 6.

    Examples
    --------
    >>> from skdptune.run_counts import Poisson
    >>> round(Poisson(mean=10).p_zero, 7)
    4.54e-05
    """

    mean: float

    def __post_init__(self):
        advice = "Pass the expected number of runs, e.g. mean=10."
        mean = check_real("mean", self.mean, low=0, low_open=True, high=_LARGEST_RATE, advice=advice)
        set_fields(self, mean=mean)

    @property
    def p_zero(self):
        """P(K = 0) = exp(-mean)."""
        return math.exp(-self.mean)

    @property
    def support_max(self):
        """None: any number of runs can be drawn."""
        return None

    def _log_pgf(self, r, x):
        return -self.mean * r

    def _attainment(self, r, x):
        return -np.expm1(-self.mean * r)

    def _log_weight(self, r, x):
        return math.log(self.mean) - self.mean * r

    def _log_weight_slope(self, r, x):
        return 2.0 * math.log(self.mean) - self.mean * r

    def _log_pmf(self, k):
        return poisson_log_pmf(k, self.mean)

    def _sf(self, k):
        return special.pdtrc(k, self.mean)

    def sample(self, rng):
        # NumPy multiplies uniforms below rate 10 and uses transformed rejection above: no tail is cut
        return int(check_generator(rng).poisson(self.mean))

    sample.__doc__ = RunCount.sample.__doc__


def _truncated_mean(rate):
    return 1.0 / float(phi(rate))  # rate / (1 - e^-rate)


@dataclasses.dataclass(frozen=True, init=False, repr=False)
class ZeroTruncatedPoisson(RunCount):
    """Poisson number of runs conditioned on at least one; the limit of large ``eta``.

    Parameters
    ----------
    mean : float
        E[K] >= 1 of the conditioned distribution, at most 1e18; exactly 1 means one run.

    Attributes
    ----------
    asked_mean : float
        The argument.
    rate : float
        Rate of the Poisson distribution before conditioning, rounded up.
    mean : float
        The mean of that rate: never below the asked one, and above it by at most 1e-14 of it.

    Raises
    ------
    InvalidTypeError, InvalidParameterError
        If ``mean`` is no such number.

    Examples
    --------
    >>> from skdptune.run_counts import ZeroTruncatedPoisson
    >>> k = ZeroTruncatedPoisson(mean=10)
    >>> k.p_zero, round(k.rate, 6)
    (0.0, 9.999546)
    """

    asked_mean: float

    _ARGUMENTS = {"asked_mean": "mean"}

    def __init__(self, mean):
        mean = check_mean(mean, "ZeroTruncatedPoisson")
        if mean > _LARGEST_RATE:
            raise invalid_value("mean", f"at most {_LARGEST_RATE:g}", mean)
        rate = 0.0
        if mean > 1.0:
            # rounded up: the realised mean is never below the asked one
            rate = smallest_at_least(
                lambda rate: _truncated_mean(rate) * (1.0 - 12.0 * 2.0**-52), mean, 1e-18, 2.0 * mean
            )
        set_fields(self, asked_mean=mean, rate=rate)

    @property
    def mean(self):
        """E[K] of the rate in use, in runs."""
        return max(_truncated_mean(self.rate), self.asked_mean)

    @property
    def p_zero(self):
        """P(K = 0) = 0."""
        return 0.0

    @property
    def support_max(self):
        """None, or 1 if the mean is 1."""
        return None if self.rate > 0.0 else 1

    def _log_pgf(self, r, x):
        # (e^(rate x) - 1) / (e^rate - 1) = e^(-rate r) x phi(rate x) / phi(rate)
        return -self.rate * r + np.log(x) + log_phi(self.rate * x) - log_phi(self.rate)

    def _attainment(self, r, x):
        # (1 - e^(-rate r)) / (1 - e^-rate)
        return r * phi(self.rate * r) / phi(self.rate)

    def _log_weight(self, r, x):
        return math.log(self.mean) - self.rate * r

    def _log_weight_slope(self, r, x):
        return np.log(self.rate) + self._log_weight(r, x)

    def _log_pmf(self, k):
        if self.rate == 0.0:
            return np.where(k == 1, 0.0, -np.inf)
        scale = math.log(self.rate) + float(log_phi(self.rate))  # log(1 - e^-rate)
        return np.where(k == 0, -np.inf, poisson_log_pmf(k, self.rate) - scale)

    def _sf(self, k):
        if self.rate == 0.0:
            return np.where(k >= 1, 0.0, 1.0)
        tail = special.pdtrc(k, self.rate) / -math.expm1(-self.rate)
        return np.where(k == 0, 1.0, tail)

    def sample(self, rng):
        # scatter Poisson(rate) points on [0, 1] given that there is one: the first, at v, has the
        # density of a truncated exponential, and Poisson(rate (1 - v)) points follow it
        rng = check_generator(rng)
        uniform = rng.random()
        if self.rate == 0.0:
            return 1
        first = -math.log1p(uniform * math.expm1(-self.rate))
        return 1 + int(rng.poisson(max(self.rate - first, 0.0)))

    sample.__doc__ = RunCount.sample.__doc__
