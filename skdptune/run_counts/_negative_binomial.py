"""Truncated negative binomial numbers of runs, with the logarithmic and geometric as members.

With c = (1 - gamma) / gamma (``odds``) and t = log(1 + c) = log(1 / gamma) the family reads

    G(r) = (1 - (1 + c r)^-eta) / (1 - (1 + c)^-eta),      w(r) = E[K] (1 + c r)^-(eta + 1),

and its limit for eta = 0 is G(r) = log(1 + c r) / t. Nothing here subtracts nearly equal numbers,
and eta = 0 needs no case of its own once (1 - e^-z) / z is one function.
"""

import dataclasses
import math

import numpy as np
from scipy import special

from skdptune._validation import check_real, invalid_value
from skdptune.run_counts._base import RunCount, check_generator, check_mean, set_fields
from skdptune.run_counts._inversion import smallest_at_least
from skdptune.run_counts._special import (
    gauss_panels,
    log_phi,
    log_rising,
    negative_binomial_log_pmf,
    phi,
)

__all__ = ["Geometric", "Logarithmic", "TruncatedNegativeBinomial"]

_SMALLEST_ODDS, _LARGEST_ODDS = 1e-300, 1e280
_LARGEST_RATE = 1e18  # NumPy's Poisson sampler returns 64-bit integers
_CHUNK = 4096


def _family_mean(odds, eta):
    """E[K] = eta c / (1 - (1 + c)^-eta), continuous at eta = 0."""
    t = math.log1p(odds)
    return odds / (t * float(phi(eta * t)))


def _family_mean_below(odds, eta):
    """The same, rounded down by more than it errs: e^(-eta t) errs by |eta t| units for eta < 0."""
    units = 12.0 + 2.0 * max(-eta, 0.0) * math.log1p(odds)
    return _family_mean(odds, eta) * (1.0 - units * 2.0**-52)


class _NegativeBinomialFamily(RunCount):
    """Formulas shared by the members; ``eta``, ``odds`` and ``asked_mean`` are attributes."""

    _ARGUMENTS = {"asked_mean": "mean"}

    def _invert(self, mean, eta):
        """Return the odds (1 - gamma) / gamma for a mean, rounded up."""
        mean = check_mean(mean, type(self).__name__)
        odds = 0.0
        if mean > 1.0:
            # the mean lies above 1 by about (eta + 1) c / 2, and grows with c
            odds = smallest_at_least(
                lambda c: _family_mean_below(c, eta), mean, _SMALLEST_ODDS, _LARGEST_ODDS
            )
        if odds is None:
            top = _family_mean(_LARGEST_ODDS, eta)
            advice = "Choose a smaller mean, or an eta farther above -1."
            raise invalid_value("mean", f"at most {top:.6g} for eta={eta!r}", mean, advice)
        return mean, odds

    @property
    def gamma(self):
        """The paper's gamma in (0, 1], rounded down: its mean is never below the asked one."""
        if self.odds == 0.0:
            return 1.0
        gamma = 1.0 / (1.0 + self.odds)
        return math.nextafter(math.nextafter(gamma, 0.0), 0.0)  # rounded down

    @property
    def mean(self):
        """E[K] of the distribution in use, in runs: at least the asked mean."""
        if self.odds == 0.0:
            return 1.0
        return max(_family_mean(self.odds, self.eta), self.asked_mean)

    @property
    def p_zero(self):
        """P(K = 0) = 0."""
        return 0.0

    @property
    def support_max(self):
        """None, or 1 if the mean is 1."""
        return None if self.odds > 0.0 else 1

    @property
    def _t(self):
        return math.log1p(self.odds)

    def _log_pgf(self, r, x):
        if self.odds == 0.0:
            return np.log(x)
        eta, t, odds = self.eta, self._t, self.odds
        # u = -log(1 - (1 - gamma) x), from whichever of x and r is small
        share = odds / (1.0 + odds)
        u = np.where(x < 0.5, -np.log1p(-share * np.minimum(x, 0.5)), t - np.log1p(odds * r))
        # f = (e^(eta u) - 1) / (e^(eta t) - 1), written so that no exponential overflows
        z = abs(eta)
        ratio = np.log(u / t) + log_phi(z * u) - log_phi(z * t)
        return ratio + max(eta, 0.0) * (u - t)

    def _attainment(self, r, x):
        if self.odds == 0.0:
            return np.array(r)
        t = self._t
        u = np.log1p(self.odds * r)
        return u * phi(self.eta * u) / (t * phi(self.eta * t))

    def _log_weight(self, r, x):
        return math.log(self.mean) - (self.eta + 1.0) * np.log1p(self.odds * r)

    def _log_weight_slope(self, r, x):
        scale = np.log(self.odds) + math.log1p(self.eta) + math.log(self.mean)
        return scale - (self.eta + 2.0) * np.log1p(self.odds * r)

    def _log_pmf(self, k):
        # k P(K = k) / E[K] is the pmf of 1 + NegativeBinomial(eta + 1, gamma)
        positive = np.maximum(k, 1.0)
        gamma = 1.0 / (1.0 + self.odds)
        size_biased = negative_binomial_log_pmf(positive - 1.0, self.eta + 1.0, gamma, self.odds)
        return np.where(k < 1, -np.inf, size_biased + math.log(self.mean) - np.log(positive))

    def _sf(self, k):
        if self.odds == 0.0:
            return np.where(k >= 1, 0.0, 1.0)
        if self.eta == 1.0:
            tail = np.exp(-k * math.log1p(1.0 / self.odds))
        elif self.eta >= 0.25:
            tail = self._sf_by_incomplete_beta(k)
        else:
            flat = np.ravel(k)
            parts = [flat[i : i + _CHUNK] for i in range(0, flat.size, _CHUNK)]
            values = [self._sf_by_integral(part) for part in parts]
            tail = np.concatenate(values or [flat]).reshape(np.shape(k))
        return np.where(k == 0, 1.0, tail)

    def _sf_by_incomplete_beta(self, k):
        eta, odds = self.eta, self.odds
        norm = -math.expm1(-eta * self._t)
        if odds < 1.0:
            return special.betainc(k + 1.0, eta, odds / (1.0 + odds)) / norm
        return special.betaincc(eta, k + 1.0, 1.0 / (1.0 + odds)) / norm

    def _sf_by_integral(self, k):
        """The incomplete beta function where its second parameter eta is small or not positive.

        P(K > k) = (1 - gamma)^k (eta + 1)_k / k! * N(k) / N(0) with
        N(k) = integral over v in [0, t] of (1 - (e^v - 1) / c)^k e^(eta v) dv, all terms positive.
        """
        eta, odds, t = self.eta, self.odds, self._t
        k = k[:, None]
        # beyond (e^v - 1) k / c = 80 the integrand has fallen below e^-80 of its start
        end = np.log1p(odds * np.minimum(1.0, 80.0 / np.maximum(k, 1.0)))
        unit, weight = gauss_panels(0.0, 1.0, 32)
        v = end * unit
        share = np.minimum(np.expm1(v) / odds, 1.0)
        integral = np.sum(np.exp(special.xlog1py(k, -share) + eta * v) * weight, axis=1) * end[:, 0]
        k = k[:, 0]
        log_front = log_rising(eta + 1.0, k) - k * math.log1p(1.0 / odds)
        return np.exp(log_front + np.log(integral) - math.log(t) - float(log_phi(-eta * t)))

    def sample(self, rng):
        # K is the number of points of a Poisson process on [0, 1] whose rate is gamma distributed,
        # given at least one point. The first point v has distribution function G; given v the rate
        # is Gamma(eta + 1, scale c / (1 + c v)), and Poisson(rate (1 - v)) points follow. This holds
        # for every eta > -1, rejects nothing, and leaves the tail to samplers that do not cut it.
        rng = check_generator(rng)
        uniform = rng.random()
        if self.odds == 0.0:
            return 1
        t, eta = self._t, self.eta
        # e^position = 1 + c v
        position = uniform * t if eta == 0.0 else -math.log1p(uniform * math.expm1(-eta * t)) / eta
        rate = rng.standard_gamma(eta + 1.0) * math.expm1(max(t - position, 0.0))
        if rate > _LARGEST_RATE:
            return 1 + int(rate)  # relative spread 1e-9 around a number of runs nobody can do
        return 1 + int(rng.poisson(rate))

    sample.__doc__ = RunCount.sample.__doc__


@dataclasses.dataclass(frozen=True, init=False, repr=False)
class TruncatedNegativeBinomial(_NegativeBinomialFamily):
    """Truncated negative binomial number of runs; there is always at least one.

    Parameters
    ----------
    mean : float
        E[K] >= 1; exactly 1 means one run surely. Near ``eta = -1`` large means need a gamma below
        1e-280 and are refused.
    eta : float
        Shape, above -1. 0 is :class:`Logarithmic`, 1 is :class:`Geometric`, large values approach
        :class:`ZeroTruncatedPoisson`.

    Attributes
    ----------
    asked_mean : float
        The argument ``mean``.
    mean : float
        The mean of the distribution in use: never below the asked one, and above it by at most
        1e-14 of it (for ``eta`` below -0.5 and huge means, 1e-12).
    gamma : float
        The paper's parameter, in (0, 1], rounded down.
    odds : float
        (1 - gamma) / gamma, the number that defines price and draw alike.

    Raises
    ------
    InvalidTypeError, InvalidParameterError
        If an argument is outside its range.

    References
    ----------
    Papernot & Steinke, arXiv 2110.03620v2, Definition 1 and Theorem 2.

    Examples
    --------
    >>> from skdptune.run_counts import TruncatedNegativeBinomial
    >>> k = TruncatedNegativeBinomial(mean=10, eta=2)
    >>> round(k.gamma, 6), k.mean >= 10
    (0.17082, True)
    """

    asked_mean: float
    eta: float

    def __init__(self, mean, eta):
        advice = "eta=0 is the logarithmic distribution, eta=1 the geometric one."
        eta = check_real("eta", eta, low=-1, low_open=True, advice=advice)
        mean, odds = self._invert(mean, eta)
        set_fields(self, asked_mean=mean, eta=eta, odds=odds)


@dataclasses.dataclass(frozen=True, init=False, repr=False)
class Logarithmic(_NegativeBinomialFamily):
    """Logarithmic number of runs: the truncated negative binomial with ``eta = 0``.

    Parameters
    ----------
    mean : float
        E[K] >= 1; exactly 1 means one run surely.

    Attributes
    ----------
    asked_mean, mean, gamma, odds
        As in :class:`TruncatedNegativeBinomial`.

    Raises
    ------
    InvalidTypeError, InvalidParameterError
        If ``mean`` is no such number.

    References
    ----------
    Papernot & Steinke, arXiv 2110.03620v2, Definition 1 with eta = 0.

    Examples
    --------
    >>> from skdptune.run_counts import Logarithmic
    >>> k = Logarithmic(mean=20)
    >>> round(k.pmf(1), 4), k.quantile(0.99)
    (0.2191, 187)
    """

    asked_mean: float

    def __init__(self, mean):
        mean, odds = self._invert(mean, 0.0)
        set_fields(self, asked_mean=mean, odds=odds)

    @property
    def eta(self):
        """0."""
        return 0.0


@dataclasses.dataclass(frozen=True, init=False, repr=False)
class Geometric(_NegativeBinomialFamily):
    """Geometric number of runs on 1, 2, ...: the truncated negative binomial with ``eta = 1``.

    Parameters
    ----------
    mean : float
        E[K] >= 1; exactly 1 means one run surely.

    Attributes
    ----------
    asked_mean, mean, gamma, odds
        As in :class:`TruncatedNegativeBinomial`.

    Raises
    ------
    InvalidTypeError, InvalidParameterError
        If ``mean`` is no such number.

    References
    ----------
    Papernot & Steinke, arXiv 2110.03620v2, Definition 1 with eta = 1; Liu & Talwar, arXiv 1811.07971.

    Examples
    --------
    >>> from skdptune.run_counts import Geometric
    >>> k = Geometric(mean=10)
    >>> k.mean, round(k.success_probability(0.1), 4)
    (10.0, 0.5263)
    """

    asked_mean: float

    def __init__(self, mean):
        mean = check_mean(mean, "Geometric")
        if mean > _LARGEST_ODDS:
            raise invalid_value("mean", f"at most {_LARGEST_ODDS:g}", mean)
        # the mean is 1 + c, and mean - 1 is exact up to 2**53; rounded up beyond
        odds = mean - 1.0 if mean < 2.0**53 else mean
        set_fields(self, asked_mean=mean, odds=odds)

    @property
    def eta(self):
        """1."""
        return 1.0
