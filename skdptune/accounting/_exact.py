"""The exact price of publishing the best of K runs: epsilon and delta, bracketed.

Setting. One run has a dominating pair (P, Q), K is drawn independently of the data, the order of
the outputs is public, only the best output is published. Over all total orders the hockey-stick
divergence of the published output is at most

    delta(eps) = sup over orders of  integral (w(r) dP - e^eps w(s) dQ)_+  + P(K=0) (1 - e^eps)_+ ,

r and s being the masses under P and Q of what is better, w(r) = f'(1 - r), and the bound is
attained by a mechanism on two datasets. The worst order places low ratios ascending (T)
interleaved with high ratios descending (S). ``upper`` is min(W+, U) on a pair that dominates the
given one, ``lower`` is V on a pair that the given one dominates: both hold for the pair as given,
and their gap chooses the grid.
"""

import math
import threading
from collections import OrderedDict

from skdptune._validation import check_real
from skdptune.accounting._conditioned import ConditionedCount, without_singular
from skdptune.accounting._exact_grid import weight_of
from skdptune.accounting._exact_solver import (
    DeltaBounds,
    EpsilonBounds,
    evaluate,
    solve,
)

__all__ = [
    "DEFAULT_RTOL",
    "DeltaBounds",
    "EpsilonBounds",
    "cached",
    "exact_delta",
    "exact_delta_one_way",
    "exact_epsilon",
    "exact_epsilon_one_way",
]

DEFAULT_RTOL = 2e-3
_CACHE_SIZE = 1024  # answers kept; a pair of 400 atoms is the largest kind of them
_HALF, _LITTLE = 0.5, 0.05  # shares of a delta that singular mass may take
_ROUGH = 5e-3
_CACHE = OrderedDict()
_LOCK = threading.Lock()


def exact_epsilon(pair, run_count, delta, *, rtol=DEFAULT_RTOL):
    """Return certified bounds of the epsilon of best-of-K at ``delta``, worse of both orders.

    Parameters
    ----------
    pair : DominatingPair
        Dominates one run, everything a run may reveal included.
    run_count : RunCount
        The distribution of the number of runs.
    delta : float in [0, 1)
    rtol : float in (0, 1), default=0.002
        The gap between the bounds asked for, relative to epsilon. The bounds hold whether or not
        it is reached.

    Returns
    -------
    bounds : EpsilonBounds
        In nats. ``upper`` is the price (``inf`` where mass of infinite loss exceeds ``delta``);
        no analysis that knows only ``pair`` and ``run_count`` can state less than ``lower``.

    Raises
    ------
    InvalidParameterError
        If ``delta`` or ``rtol`` lies outside its range.

    Notes
    -----
    Guarantee: publishing only the best of K runs is (upper, delta)-DP under the neighbouring
    relation for which ``pair`` dominates one run. Assumes: K and its draw stay hidden, runs are
    independent, the order is public and fixed, ties are broken by independent marks.

    Examples
    --------
    >>> from skdptune.accounting._pairs import DominatingPair
    >>> from skdptune.run_counts import Logarithmic
    >>> pair = DominatingPair([-1.0, 1.0], [0.268941, 0.731059], [0.731059, 0.268941],
    ...                       symmetric=True)
    >>> bounds = exact_epsilon(pair, Logarithmic(mean=10), 1e-6)
    >>> bounds.lower <= 1.9369 <= bounds.upper < 1.940
    True
    """
    return _both_ways(exact_epsilon_one_way, EpsilonBounds, pair, run_count, delta, rtol)


def exact_delta(pair, run_count, epsilon, *, rtol=DEFAULT_RTOL):
    """Return certified bounds of the delta of best-of-K at ``epsilon``, worse of both orders.

    Parameters
    ----------
    pair : DominatingPair
    run_count : RunCount
    epsilon : float
        In nats; negative values are allowed.
    rtol : float in (0, 1), default=0.002
        The gap asked for, as a relative gap in epsilon.

    Returns
    -------
    bounds : DeltaBounds
        In [0, 1]; see :func:`exact_epsilon` for what is guaranteed and assumed.

    Raises
    ------
    InvalidParameterError
        If ``epsilon`` is not a number or ``rtol`` lies outside its range.

    Examples
    --------
    >>> from skdptune.accounting._pairs import DominatingPair
    >>> from skdptune.run_counts import Fixed
    >>> pair = DominatingPair([-1.0, 1.0], [0.268941, 0.731059], [0.731059, 0.268941],
    ...                       symmetric=True)
    >>> bounds = exact_delta(pair, Fixed(3), 1.0)
    >>> 0.2 < bounds.lower <= bounds.upper < 1.01 * bounds.lower
    True
    """
    return _both_ways(exact_delta_one_way, DeltaBounds, pair, run_count, epsilon, rtol)


def _both_ways(function, kind, pair, run_count, at, rtol):
    one = function(pair, run_count, at, rtol=rtol)
    if pair.symmetric:
        return one
    two = function(pair.swap(), run_count, at, rtol=rtol, floor=one.lower)
    return kind(max(one.upper, two.upper), max(one.lower, two.lower))


def exact_epsilon_one_way(pair, run_count, delta, *, rtol=DEFAULT_RTOL, floor=0.0):
    """Return :func:`exact_epsilon` for the order (P, Q) alone.

    ``floor``: stop refining as soon as the upper bound is at most this (it will not be needed).
    """
    delta = check_real("delta", delta, low=0.0, high=1.0)
    rtol = check_real("rtol", rtol, low=0.0, high=1.0, low_open=True)
    if delta >= 1.0:
        return EpsilonBounds(0.0, 0.0)
    key = ("epsilon", pair.cache_key, run_count, delta, rtol, floor)
    return cached(key, lambda: _solve(pair, run_count, delta, rtol, floor))


def exact_delta_one_way(pair, run_count, epsilon, *, rtol=DEFAULT_RTOL, floor=0.0):
    """Return :func:`exact_delta` for the order (P, Q) alone.

    For negative epsilon the law A of the output on x and A' on x' satisfy
    H_{e^eps}(A|A') = 1 - e^eps + e^eps H_{e^-eps}(A'|A): the swapped pair is priced.
    """
    epsilon = check_real("epsilon", epsilon)
    rtol = check_real("rtol", rtol, low=0.0, high=1.0, low_open=True)
    if epsilon < 0:
        other = exact_delta_one_way(pair.swap(), run_count, -epsilon, rtol=rtol)
        lost, kept = -math.expm1(epsilon), math.exp(epsilon)
        return DeltaBounds(*(min(lost + kept * value, 1.0) for value in other))
    key = ("delta", pair.cache_key, run_count, epsilon, rtol, floor)
    return cached(key, lambda: _evaluate(pair, run_count, epsilon, rtol, floor))


# -- counts of infinite mean: singular mass is set aside -------------------------------------
#
# Let each run hit an event of mass m on either side, outside which no loss is infinite. With B, B' the outputs of the
# search on condition that no run hits it and h = 1 - f(1 - m), as measures
#     (1 - h) B <= A <= (1 - h) B + h,     and the same for A' and B'.
# So (1 - h) H(B|B') - E h <= H(A|A') <= (1 - h) H(B|B') + h. Given that, the count has a finite mean, and its price is
# of second order in the width of the cells where the plain one is of first order only.


def _apart(pair, run_count):
    """Return (pair, weight, h from above, h from below) of the search without singular mass, or None."""
    aside = max(pair.p_infinite, pair.q_zero)
    if weight_of(run_count).at_zero < 1e299 or not 0 < aside < 1e-3:
        return None
    count = ConditionedCount(run_count, aside)
    return without_singular(pair, aside), weight_of(count), count.hit * (1 + 1e-11), count.hit * (1 - 1e-11)


def _solve(pair, run_count, delta, rtol, floor):
    """Epsilon at delta: by setting singular mass aside where it costs little of delta."""
    found = _apart(pair, run_count)
    if found is None or found[2] > _HALF * delta:
        return solve(pair, weight_of(run_count), delta, rtol, floor)
    rest, weight, lost, least_lost = found
    # rounded down: what is left of delta
    left = (delta - lost) / (1 - least_lost) * (1 - 1e-12)
    upper = solve(rest, weight, left, rtol, floor).upper
    more = (delta + math.exp(min(upper, 700.0)) * lost) / (1 - lost) * (1 + 1e-12)  # rounded up
    # only says how good the upper one is: a coarser grid will do
    lower = solve(rest, weight, more, max(rtol, _ROUGH), floor).lower if more < 1 else 0.0
    if lost > _LITTLE * delta:
        plain = solve(pair, weight_of(run_count), delta, rtol, floor)
        upper, lower = min(upper, plain.upper), max(lower, plain.lower)
    return EpsilonBounds(upper, min(lower, upper))


def _evaluate(pair, run_count, epsilon, rtol, floor):
    """Delta at epsilon >= 0, in the same way."""
    found = _apart(pair, run_count)
    if found is None:
        return evaluate(pair, weight_of(run_count), epsilon, rtol, floor)
    rest, weight, lost, least_lost = found
    bounds = evaluate(rest, weight, epsilon, rtol, floor)
    upper = min((bounds.upper * (1 - least_lost) + lost) * (1 + 1e-15), 1.0)
    lower = max(bounds.lower * (1 - lost) - math.exp(min(epsilon, 700.0)) * lost, 0.0)
    if lost > _LITTLE * upper:
        plain = evaluate(pair, weight_of(run_count), epsilon, rtol, floor)
        upper, lower = min(upper, plain.upper), max(lower, plain.lower)
    return DeltaBounds(upper, min(lower, upper))


def cached(key, compute):
    """Return a value kept by content; the oldest of ``_CACHE_SIZE`` entries goes first."""
    with _LOCK:
        if key in _CACHE:
            _CACHE.move_to_end(key)
            return _CACHE[key]
    value = compute()
    with _LOCK:
        _CACHE[key] = value
        while len(_CACHE) > _CACHE_SIZE:
            _CACHE.popitem(last=False)
    return value
