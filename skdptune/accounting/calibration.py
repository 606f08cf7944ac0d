"""Meeting a target: the least noise whose *whole search* stays within a budget.

A level is a whole :class:`PrivacyCurve`, never one (epsilon, delta) point: two mechanisms that agree at one
point may be priced far apart once the best of several runs is published. The search for a level is a
bracketed root search on the price itself; what is returned has been priced and lies within the target.
"""

import math

from skdptune._exceptions import InvalidParameterError, UnreachableTargetError
from skdptune._validation import check_real, invalid_type
from skdptune.accounting.selection import best_of

__all__ = ["calibrate", "solve_level"]

RTOL = 5e-4  # the target is met within this share, from below
_MAX_STEPS = 100


def calibrate(family, run_count, target_epsilon, delta, *, bounds=(1e-3, 1e4), refit=False, method=None):
    """Return the least noise of ``family`` whose whole search meets ``(target_epsilon, delta)``.

    Parameters
    ----------
    family : callable
        ``family(x) -> PrivacyCurve`` of one run at the positive number ``x`` (a ``noise_multiplier``, an
        epsilon, ...), monotone in ``x`` in either direction. Everything a run releases belongs into the
        curve, a score included.
    run_count : RunCount
        The distribution of the number of tries.
    target_epsilon : float
        Nats, above 0.
    delta : float
        In [0, 1).
    bounds : pair of float, default=(1e-3, 1e4)
        Where to look for ``x``; it is evaluated outside in, from the middle, so extreme ends cost nothing.
    refit : bool, default=False
        Whether one more training, ``family(x)``, follows the selection.
    method : str, optional
        As in :func:`best_of`.

    Returns
    -------
    float
        ``x``. The search priced at it has an epsilon in ``[0.9995 target_epsilon, target_epsilon]``, unless
        an end of ``bounds`` is reached first.

    Raises
    ------
    UnreachableTargetError
        If not even the cheapest end meets the target; the message states the nearest epsilon.
    InvalidParameterError, InvalidTypeError

    Notes
    -----
    *Guarantee.* ``best_of(family(x), run_count)`` (composed with ``family(x)`` for ``refit=True``) has an epsilon at
    ``delta`` of at most ``target_epsilon``: it was computed, not extrapolated.

    Examples
    --------
    >>> from skdptune.accounting import PrivacyCurve, best_of, calibrate
    >>> from skdptune.run_counts import Geometric
    >>> epsilon = calibrate(PrivacyCurve.pure, Geometric(10), target_epsilon=2.0, delta=0.0)
    >>> best_of(PrivacyCurve.pure(epsilon), Geometric(10)).epsilon(0.0) <= 2.0
    True
    """
    if not callable(family):
        raise invalid_type("family", "a function of one number that returns a PrivacyCurve", family)
    target_epsilon = check_real("target_epsilon", target_epsilon, low=0, low_open=True)
    delta = check_real("delta", delta, low=0, high=1, high_open=True)
    low, high = _check_bounds(bounds)

    def price(x):
        curve = family(x)
        whole = best_of(curve, run_count, method=method)
        return (whole + curve if refit else whole).epsilon(delta)

    start = min(max(1.0, low), high)
    increasing = _increases(family, start, low, high, delta)
    return _solve(price, low, high, start, increasing, target_epsilon)


def solve_level(family, whole_search, target_epsilon, delta):
    """Return the dearest level of ``family`` whose whole search meets a target.

    Parameters
    ----------
    family : LevelFamily
        Has ``curve(x)``, ``low``, ``high`` and ``increasing``.
    whole_search : callable
        ``whole_search(level) -> PrivacyCurve`` prices a search whose every candidate costs ``level``.
    target_epsilon, delta : float

    Returns
    -------
    PrivacyCurve
        The level; the search priced at it is within the target.

    Raises
    ------
    UnreachableTargetError
    """
    start = math.sqrt(family.low * family.high)
    if family.low <= 1.0 <= family.high:
        start = 1.0

    def price(x):
        return whole_search(family.curve(x)).epsilon(delta)

    return family.curve(_solve(price, family.low, family.high, start, family.increasing, target_epsilon))


def _check_bounds(bounds):
    try:
        low, high = bounds
    except (TypeError, ValueError):
        raise invalid_type("bounds", "a pair of numbers", bounds) from None
    low = check_real("bounds[0]", low, low=0, low_open=True)
    high = check_real("bounds[1]", high, low=low, low_open=True)
    return low, high


def _increases(family, start, low, high, delta):
    """Return whether a larger number is a dearer run, from two curves near the start."""
    other = start * 1.5 if start * 1.5 <= high else start / 1.5
    if other < low:
        other = low if low != start else high
    probe = max(delta, 1e-12)
    first, second = family(start).epsilon(probe), family(other).epsilon(probe)
    if first == second:
        raise InvalidParameterError(
            f"family must change with its argument; got the same cost at {start:g} and {other:g}. Check that it uses "
            "its argument, or give other bounds."
        )
    return (second > first) == (other > start)


def _solve(price, low, high, start, increasing, target):
    """Return the dearest x in [low, high] with ``price(x) <= target``; only priced values are returned."""
    dear = 1.0 if increasing else -1.0  # the direction of log x in which the price grows
    dearest, cheapest = (high, low) if increasing else (low, high)
    good, bad = _bracket(price, start, dear, dearest, cheapest, target)
    if bad is None:
        return good[0]
    for step in range(_MAX_STEPS):
        if good[1] >= target * (1 - RTOL) or abs(math.log(bad[0] / good[0])) < 1e-10:
            break
        x = _between(good, bad, target, bisect=step % 3 == 2)
        value = price(x)
        if value <= target:  # verified: the private side
            good = (x, value)
        else:
            bad = (x, value)
    return good[0]


def _bracket(price, start, dear, dearest, cheapest, target):
    """Return ``(x, price)`` that meets the target and one that does not (None: the end meets it)."""
    x, value, factor = start, price(start), 2.0
    meets = value <= target
    last = (x, value)
    while True:
        end = dearest if meets else cheapest
        if x == end:
            if meets:
                return last, None
            raise UnreachableTargetError(
                f"target_epsilon must be reachable; got {target:g}, but the cheapest setting, {x:g}, costs "
                f"{value:.6g} for the whole search. Raise the target to at least that, or lower the mean number "
                "of tries."
            )
        x = x * factor ** (dear if meets else -dear)
        if (x - end) * (start - end) <= 0:
            x = end  # never past the end
        factor = min(factor**1.5, 1e3)
        value = price(x)
        if (value <= target) != meets:
            return (last, (x, value)) if meets else ((x, value), last)
        last = (x, value)


def _between(good, bad, target, bisect):
    """Return a point strictly between, by interpolation of log price against log x where possible."""
    a, b = math.log(good[0]), math.log(bad[0])
    share = 0.5
    if not bisect and 0 < good[1] < math.inf and bad[1] < math.inf:
        # Aim a little below the target: a point on the private side ends the search.
        aim = math.log(target * (1 - RTOL / 2))
        rise = math.log(bad[1]) - math.log(good[1])
        if rise > 0:
            share = (aim - math.log(good[1])) / rise
    share = min(max(share, 0.02), 0.98)
    return math.exp(a + share * (b - a))
