"""Noise for a budget: the least multiplier whose training lies below a level everywhere.

A level must lie above trainings of other rates and lengths, in both orders of two neighbours. DP-SGD
is lopsided: in one order a loss is at most T log(1 / (1 - q)), so a training at a larger rate q
could never lie below one at a smaller q, whatever its noise. A level is therefore the *worse* of both
orders of the template's training, in both orders: a little dearer in a search than the training
itself, and far nearer to what other candidates need.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
from sklearn.base import clone

from skdptune._exceptions import PricingError
from skdptune._validation import check_instance, invalid_value
from skdptune.accounting import PrivacyCurve
from skdptune.accounting._mechanisms import Mechanism
from skdptune.accounting._pair_builders import worst_pair
from skdptune.candidates._protocol import LevelFamily
from skdptune.candidates.nets._terms import check_relation_terms, sgd_terms

__all__ = ["EitherWay", "level_family", "with_budget"]

LOW, HIGH = 0.2, 1e4  # noise multipliers looked at
_RTOL = 4e-3  # a candidate gets at most about this share more noise than it needs
_ATOMS = 20_000  # of a level
_ORDERS = np.array([2.0, 3.0, 5.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0])
_POINTS = 250
_FOUND = {}
_FOUND_LIMIT = 4096


@dataclass(frozen=True)
class EitherWay(Mechanism):
    """The worse of both orders of two neighbours, at every epsilon, in both orders.

    It lies above ``node``, so what is priced for it holds for ``node`` and for all below it.
    """

    node: Mechanism

    def _build_pair(self):
        pair = self.node.pair()
        if pair is None:
            return None
        either = worst_pair([pair, pair.swap()])
        span = either.losses[-1] - either.losses[0]
        # atoms are split between grid points, which only adds to the cost: the private side
        return either.coarsen(max(1e-4, span / _ATOMS))

    def rdp(self, orders):
        # Claimed at whole orders only: at broken ones dp_accounting's series loses its digits upwards where
        # the noise is large, and a candidate would seem to lie above a level that it lies below.
        orders = np.asarray(orders, dtype=float)
        whole = np.isfinite(orders) & (orders == np.round(orders)) & (orders >= 2)
        values = np.full(orders.shape, np.inf)
        if whole.any():
            values[whole] = _divergences(self.node, tuple(orders[whole].tolist()))
        return values

    def describe(self):
        return f"either way of {self.node.describe()}"


@functools.lru_cache(maxsize=256)
def _divergences(node, orders):
    return node.rdp(np.array(orders))


def level_family(net, n_samples, relation):
    """Return the :class:`LevelFamily` in the shape of the template's own training."""
    check_relation_terms(net, relation)
    terms = sgd_terms(net, n_samples)

    def curve(noise):
        own = PrivacyCurve.dp_sgd(float(noise), terms.sample_rate, terms.steps, relation=relation)
        return PrivacyCurve(EitherWay(own.node), relation)

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
    shapes = tuple(sorted({(t.sample_rate, t.steps) for t in (sgd_terms(net, size) for size in sizes)}))
    key = (level, shapes)
    if key not in _FOUND:
        if len(_FOUND) >= _FOUND_LIMIT:
            _FOUND.clear()
        _FOUND[key] = _least_noise(level, shapes)
    return clone(net).set_params(noise_multiplier=_FOUND[key])


def _least_noise(level, shapes):
    """Return a noise multiplier, verified for every shape ``(rate, steps)``."""
    dearest = max(shapes)  # the largest rate; all are verified
    noise, step = _own_noise(level, *dearest) or _estimate(level, *dearest), 1e-6
    while not all(_curve(noise, shape, level).lies_below(level) for shape in reversed(shapes)):
        noise, step = noise * (1 + step), 4 * step
        if noise > HIGH:
            raise _unreachable(*dearest)
    return float(noise)  # verified: only such values are returned, the private side


def _curve(noise, shape, level):
    return PrivacyCurve.dp_sgd(noise, *shape, relation=level.relation)


def _unreachable(rate, steps):
    return PricingError(
        f"the level must be reachable with a noise_multiplier of at most {HIGH:g} for sample_rate={rate:g} and "
        f"steps={steps}; it is not. Raise the target, or train with fewer steps or smaller batches."
    )


def _own_noise(level, rate, steps):
    """Return the level's own noise where the level is made of this very training, else None."""
    node = getattr(level.node, "node", level.node)
    noise = getattr(node, "noise", None)
    if not isinstance(noise, float) or not noise > 0:
        return None
    for guess in (noise, 2 * noise):  # a swap without sampling is priced as a Gaussian of half the noise
        if PrivacyCurve.dp_sgd(guess, rate, steps, relation=level.relation).node == node:
            return guess
    return None


def _estimate(level, rate, steps):
    """Return about the least noise below the level, from comparisons at a few orders and epsilons.

    Divergences at whole orders are quick and necessary: they bracket the answer from below.
    """
    renyi, profile = _probes(level)

    def renyi_below(noise):
        return bool(np.all(_curve(noise, (rate, steps), level).rdp(_ORDERS) <= renyi))

    def profile_below(noise):
        pair = _curve(noise, (rate, steps), level).pair
        return pair is None or all(
            np.all(side.delta(points) <= deltas * (1 + 1e-9) + 1e-34)
            for side, (points, deltas) in zip((pair, pair.swap()), profile, strict=True)
        )

    low, high = LOW, 1.0
    while not renyi_below(high):
        low, high = high, 2 * high
        if high > HIGH:
            raise _unreachable(rate, steps)
    low, high = _bisect(renyi_below, low, high)
    if profile is None or profile_below(high):
        return high
    low, factor = high, 1.0 + 2 * _RTOL
    while not profile_below(low * factor):
        low, factor = low * factor, 1.0 + 2 * (factor - 1.0)
        if low > HIGH:
            raise _unreachable(rate, steps)
    return _bisect(profile_below, low, low * factor)[1]


def _bisect(holds, low, high):
    """Narrow ``(low, high)``, of which only ``high`` holds, on a log scale."""
    while high / low > 1.0 + _RTOL:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low, high


@functools.lru_cache(maxsize=8)
def _probes(level):
    """Return the level's divergences at a few orders, and its profile at a few points, each way."""
    if level.pair is None:
        return level.rdp(_ORDERS), None
    profile = []
    for side in (level.pair, level.pair.swap()):
        points = side.losses[side.losses >= 0]
        points = np.append(0.0, points[:: max(1, len(points) // _POINTS)])
        profile.append((points, side.delta(points)))
    return level.rdp(_ORDERS), profile
