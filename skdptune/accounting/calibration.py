"""Meeting a target: the least noise whose *whole search* stays within a budget.

A level is a whole :class:`PrivacyCurve`, never one (epsilon, delta) point: two mechanisms that agree at one
point may be priced far apart once the best of several runs is published. The search for a level is a
bracketed root search on the price itself; what is returned has been priced and lies within the target.
"""

import math

from skdptune._exceptions import InvalidParameterError, UnreachableTargetError
from skdptune._rounding import as_given, significant_up
from skdptune._validation import check_real, invalid_type
from skdptune.accounting.selection import best_of

__all__ = ["calibrate", "solve_level"]

LEAST_TARGET = 1e-6  # nats; smaller prices drown in the rounding of the accounting, and take for ever
RTOL = 5e-4  # the target is met within this share, from below
_MAX_STEPS = 60
_CLOSE = 1e-8  # relative distance of two settings that count as one
_JUMP = 1e-3  # the same where the price jumps between them: no setting comes nearer to the target
_TINY = 0.02  # below this target a price takes seconds, and one run's curve milliseconds
_PROBES = 16.0  # factor between settings that are asked whether the price changes at all


def calibrate(family, run_count, target_epsilon, delta, *, bounds=(1e-6, 1e6), refit=False, method=None):
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
        Nats, at least 1e-6.
    delta : float
        In [0, 1).
    bounds : pair of float, default=(1e-6, 1e6)
        Where to look for ``x``; it is evaluated outside in, from the middle, so extreme ends cost nothing.
    refit : bool, default=False
        Whether one more training, ``family(x)``, follows the selection.
    method : str, optional
        As in :func:`best_of`.

    Returns
    -------
    float
        ``x``. The search priced at it has an epsilon in ``[0.9995 target_epsilon, target_epsilon]``, unless
        an end of ``bounds`` is reached first, or the price jumps over the target: then ``x`` is within 0.1 % of
        the jump. At most 61 settings are priced.

    Raises
    ------
    UnreachableTargetError
        If not even the cheapest end meets the target, which the message then states with the nearest epsilon; if
        no setting has a finite epsilon at ``delta``; for targets below 1e-6.
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
    if target_epsilon < LEAST_TARGET:
        raise UnreachableTargetError(
            f"target_epsilon must be reachable; got {as_given(target_epsilon)}, but no search is calibrated to less "
            f"than {as_given(LEAST_TARGET)} nats: such a price drowns in rounding. Raise the target."
        )
    delta = check_real("delta", delta, low=0, high=1, high_open=True)
    low, high = _check_bounds(bounds)

    # a search that always runs costs no less than one run, and at delta 0 none does: infinity needs no pricing
    covers_one_run = delta == 0 or getattr(run_count, "p_zero", 1.0) == 0

    def price(x):
        curve = family(x)
        whole = best_of(curve, run_count, method=method)
        if covers_one_run and curve.epsilon(delta) == math.inf:
            return math.inf
        return (whole + curve if refit else whole).epsilon(delta)

    start = min(max(1.0, low), high)
    increasing = _increases(family, start, low, high, delta)
    cheapest = low if increasing else high
    if covers_one_run and family(start).epsilon(delta) == family(cheapest).epsilon(delta) == math.inf:
        raise _out_of_reach(target_epsilon, cheapest, math.inf)
    if target_epsilon < _TINY:
        start = _near(lambda x: family(x).epsilon(delta), low, high, start, increasing, target_epsilon)
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
    """Return whether a larger number is a dearer run, from two curves of different cost, as near the start as may be.

    One curve costs little beside the price of a search. Where the first two cost the same (nothing, or
    infinitely much, as far as doubles can tell), others on both sides are asked.
    """
    probe = max(delta, 1e-12)
    first = family(start).epsilon(probe)
    for other in _probes(start, low, high):
        second = family(other).epsilon(probe)
        if second != first:
            return (second > first) == (other > start)
    if first == math.inf:
        raise UnreachableTargetError(
            f"target_epsilon must be reachable; no setting between {_shown(low)} and {_shown(high)} has a finite "
            f"epsilon at delta={as_given(delta)}, not even for one run. Raise delta."
        )
    raise InvalidParameterError(
        f"family must change with its argument; got the same cost, epsilon {_shown(first)} at delta={as_given(probe)}, "
        f"everywhere between {_shown(low)} and {_shown(high)}. Check that it uses its argument, or give other bounds."
    )


def _probes(start, low, high):
    """Yield settings to compare with the start: a near one, then outwards in large steps on both sides."""
    near = start * 1.5 if start * 1.5 <= high else start / 1.5
    yield near if near >= low else (low if low != start else high)
    up = down = start
    while up < high or down > low:
        if up < high:
            up = min(up * _PROBES, high)
            yield up
        if down > low:
            down = max(down / _PROBES, low)
            yield down


def _shown(value):
    return f"{value:.6g}"


class _Search:
    """A bracketed secant search of log price against log x; only priced values are ever returned.

    Prices are close to powers of the noise, so two prices predict the third well: most targets take four to
    six prices.
    """

    MAX_STEP = math.log(16.0)  # before both sides of the target are known

    def __init__(self, price, low, high, increasing, target):
        self.price, self.target = price, target
        self.dear = 1.0 if increasing else -1.0  # the direction of log x in which the price grows
        self.dearest, self.cheapest = (high, low) if increasing else (low, high)
        self.good = self.bad = None  # (log x, price) that meets the target, and that does not
        self.seen = []

    def ask(self, log_x):
        """Price one setting and remember on which side of the target it lies."""
        point = (log_x, self.price(math.exp(log_x)))
        self.seen.append(point)
        if point[1] <= self.target:  # verified: the private side
            self.good = point
        else:
            self.bad = point
        return point

    def done(self):
        if self.good is None:
            return False
        close = self.good[1] >= self.target * (1 - RTOL)
        at_end = self.dear * (math.log(self.dearest) - self.good[0]) <= 0
        if close or at_end or self.bad is None:
            return close or at_end
        return abs(self.good[0] - self.bad[0]) < (_JUMP if self._jumps() else _CLOSE)

    def _jumps(self):
        """Whether the price does not pass through the neighbourhood of the target, as far as is known."""
        return self.good[1] < self.target / 2 or self.bad[1] > self.target * 2

    def next(self, step):
        guess = self._secant()
        if self.good and self.bad:
            low, high = sorted((self.good[0], self.bad[0]))
            margin = 0.02 * (high - low)
            if guess is None or step % 4 == 3 or not (self.good[1] > 0 and self.bad[1] < math.inf):
                guess = (low + high) / 2
            return min(max(guess, low + margin), high - margin)
        here, value = self.seen[-1]
        towards = self.dear if value <= self.target else -self.dear
        if guess is None or (guess - here) * towards <= 0:
            guess = here + towards * math.log(4.0)
        guess = here + towards * min(max(abs(guess - here), 1e-3), self.MAX_STEP)
        ends = sorted((math.log(self.dearest), math.log(self.cheapest)))
        return min(max(guess, ends[0]), ends[1])

    def _secant(self):
        """Extrapolate from the last two finite prices, aiming a little below the target."""
        known = [(x, math.log(v)) for x, v in self.seen if 0 < v < math.inf][-2:]
        if not known:
            return None
        aim = math.log(self.target * (1 - RTOL / 2))
        x, y = known[-1]
        slope = self.dear
        if len(known) == 2 and known[0][0] != x:
            slope = (y - known[0][1]) / (x - known[0][0])
            if slope * self.dear <= 0:
                return None
        return x + (aim - y) / slope


def _near(one_run, low, high, start, increasing, target):
    """Return where one run costs half the target, or the cheapest end: a start near the setting that is looked for."""
    try:
        return _solve(one_run, low, high, start, increasing, target / 2)
    except UnreachableTargetError:
        return low if increasing else high


def _solve(price, low, high, start, increasing, target):
    """Return the dearest x in [low, high] with ``price(x) <= target``; it was priced."""
    search = _Search(price, low, high, increasing, target)
    search.ask(math.log(start))
    for step in range(_MAX_STEPS):
        if search.done():
            break
        here, value = search.seen[-1]
        if search.good is None and search.dear * (here - math.log(search.cheapest)) <= 0:
            raise _out_of_reach(target, math.exp(here), value)
        search.ask(search.next(step))
    return math.exp(search.good[0])


def _out_of_reach(target, setting, value):
    if value == math.inf:
        return UnreachableTargetError(
            f"target_epsilon must be reachable; got {as_given(target)}, but not even the cheapest setting, "
            f"{_shown(setting)}, has a finite price for the whole search at this delta. Raise delta, or take a number "
            "of tries with a lighter tail."
        )
    return UnreachableTargetError(
        f"target_epsilon must be reachable; got {as_given(target)}, but the cheapest setting, {_shown(setting)}, "
        f"costs {significant_up(value, 6)} for the whole search. Raise the target to at least that, or lower the mean "
        "number of tries."
    )
