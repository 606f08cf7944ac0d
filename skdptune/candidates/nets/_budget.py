"""Noise for a budget: the least multiplier whose training lies below a level everywhere."""

import math

import numpy as np
from sklearn.base import clone

from skdptune._exceptions import PricingError
from skdptune._validation import check_instance, invalid_value
from skdptune.accounting import PrivacyCurve
from skdptune.candidates._protocol import LevelFamily
from skdptune.candidates.nets._terms import check_relation_terms, sgd_terms

__all__ = ["level_family", "with_budget"]

LOW, HIGH = 0.05, 1e4  # noise multipliers looked at
_RTOL = 2e-3  # a candidate gets at most this share more noise than it needs
_ORDERS = np.array([1.1, 1.5, 2.0, 3.0, 5.0, 8.0, 16.0, 32.0, 64.0, 128.0])
_FOUND = {}
_FOUND_LIMIT = 4096


def level_family(net, n_samples, relation):
    """Return the :class:`LevelFamily` in the shape of the template's own training."""
    check_relation_terms(net, relation)
    terms = sgd_terms(net, n_samples)

    def curve(noise):
        return PrivacyCurve.dp_sgd(float(noise), terms.sample_rate, terms.steps, relation=relation)

    return LevelFamily(curve, LOW, HIGH, False, "noise_multiplier")


def with_budget(net, level, n_samples=None):
    """Return a clone of ``net`` with the least verified noise; see ``DPNeuralNetClassifier.with_budget``.

    Where the rate follows from the number of rows, the clone is also verified for one row less: the
    training parts of one search may differ by one.
    """
    check_instance("level", level, PrivacyCurve, "a PrivacyCurve")
    check_relation_terms(net, level.relation)
    if n_samples is None:
        if net.n_samples is None:
            raise invalid_value("n_samples", "given: the price of the net depends on it", n_samples)
        n_samples = net.n_samples
    sizes = {n_samples} if net.n_samples is not None else {n_samples, max(1, n_samples - 1)}
    shapes = sorted({(t.sample_rate, t.steps) for t in (sgd_terms(net, size) for size in sizes)})
    noise = max(_noise_for(level, rate, steps) for rate, steps in shapes)
    for rate, steps in shapes:  # more noise costs less, but only what was verified is returned
        if not PrivacyCurve.dp_sgd(noise, rate, steps, relation=level.relation).lies_below(level):
            noise = max(noise, _search(level, rate, steps, start=noise))
    return clone(net).set_params(noise_multiplier=noise)


def _noise_for(level, rate, steps):
    """Return a verified noise multiplier for one shape of training, remembered by value."""
    key = (level, rate, steps)
    if key not in _FOUND:
        if len(_FOUND) >= _FOUND_LIMIT:
            _FOUND.clear()
        _FOUND[key] = _same_shape(level, rate, steps) or _search(level, rate, steps)
    return _FOUND[key]


def _same_shape(level, rate, steps):
    """Return the level's own noise where the level is this very training at some noise, else None."""
    noise = getattr(level.node, "noise", None)
    if not isinstance(noise, float) or not noise > 0:
        return None
    twin = PrivacyCurve.dp_sgd(noise, rate, steps, relation=level.relation)
    if twin != level and level.relation == "replace-one":
        noise = 2 * noise  # without sampling a swap is priced as a Gaussian of half the noise
        twin = PrivacyCurve.dp_sgd(noise, rate, steps, relation=level.relation)
    return noise if twin == level else None


def _search(level, rate, steps, start=None):
    """Return the least noise found whose curve lies below ``level``.

    Renyi divergences are quick to compare and necessary; they give the place to start from. Then only
    whole comparisons count: upwards until one holds, and halfway back while that pays.
    """

    def below(noise):
        return PrivacyCurve.dp_sgd(noise, rate, steps, relation=level.relation).lies_below(level)

    bad = start or _renyi_start(level, rate, steps)
    good, factor = bad, 1.0 + _RTOL / 2
    if start is not None or not below(good):
        while True:
            good = bad * factor
            if good > HIGH:
                raise PricingError(
                    f"the level must be reachable with a noise_multiplier of at most {HIGH:g} for sample_rate={rate:g} and "
                    f"steps={steps}; it is not. Raise the target, or train with fewer steps or smaller batches."
                )
            if below(good):  # verified: only such values are returned
                break
            bad, factor = good, 1.0 + 2.5 * (factor - 1.0)
        while good / bad > 1.0 + _RTOL:
            middle = math.sqrt(good * bad)
            if below(middle):
                good = middle
            else:
                bad = middle
    return float(good)


def _renyi_start(level, rate, steps):
    """Return about the least noise whose Renyi divergences lie below the level's at a few orders."""
    wanted = level.rdp(_ORDERS)
    if not np.isfinite(wanted).any():
        return LOW

    def enough(noise):
        curve = PrivacyCurve.dp_sgd(noise, rate, steps, relation=level.relation)
        return bool(np.all(curve.rdp(_ORDERS) <= wanted))

    low, high = LOW, 1.0
    while not enough(high):
        low, high = high, 4 * high
        if high > HIGH:
            return HIGH / 2
    if enough(low):
        return low
    while high / low > 1.0 + _RTOL / 4:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
