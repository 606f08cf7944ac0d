"""Solving for epsilon and delta of best-of-K: grids, roots, refinement until bounds meet.

``upper`` is min(W+, U) on cells that dominate the given pair, ``lower`` is V on cells that the
given pair dominates; both hold for the pair as given, and their gap chooses the grid.
"""

import math
from typing import NamedTuple

import numpy as np

from skdptune.accounting._exact_bounds import Lattice
from skdptune.accounting._exact_grid import (
    cut_cells,
    loss_edges,
    merge_cells,
    pair_cells,
    split_cells,
)

__all__ = ["DeltaBounds", "EpsilonBounds", "Grids", "evaluate", "fineness", "solve", "within"]

_MAX_EPSILON = 690.0  # beyond e^690 the price is called infinite
_MAX_ROUNDS = 5
_MAX_NODES = 30_000_000  # no lattice larger than this (work, not memory: blocks are streamed)
_STALLED = 0.8  # a finer grid that leaves this much of the gap would not close it: what is left is rounding
_CHEAP_NODES = 20_000  # but if the next grid costs next to nothing, it is tried
_FIRST_NODES = 3_000_000  # the first estimate of the fineness may be far too fine: any fineness is sound


class DeltaBounds(NamedTuple):
    """Certified bounds of the delta of a whole search at one epsilon."""

    upper: float
    lower: float


class EpsilonBounds(NamedTuple):
    """Certified bounds, in nats, of the epsilon of a whole search at one delta."""

    upper: float
    lower: float


# -- grids -----------------------------------------------------------------------------------


class Grids:
    """Builds the lattices of one pair and one weight at a wanted fineness.

    Parameters
    ----------
    pair : DominatingPair
    weight : Weight
    tiny : float
        A delta so small that bounds may be off by it: what is beyond it is cut from the top.
    """

    def __init__(self, pair, weight, tiny):
        self.pair, self.weight, self.tiny = pair, weight, tiny
        self.reference = weight.radius(tiny)  # r with G(r) about tiny
        tail = np.cumsum(pair.p[::-1])
        count = int(np.searchsorted(tail, self.reference, side="right"))
        self.top = pair.losses[::-1][min(count, pair.size - 1)] if pair.size else 0.0
        # 1, or how far P and Q are apart where they nearly agree: errors of the cuts carry that factor
        near = Lattice(pair_cells(pair), weight)
        self.likeness = max(near.cells.distance, 1e-12) if near.near else 1.0

    def _bottom(self, tolerance):
        """The loss below which ratios do not matter: log w changes there by at most that."""
        pair, weight, ref = self.pair, self.weight, self.reference
        found = 0
        for mass in (pair.p, pair.q):
            low = np.cumsum(mass)
            change = weight.log_at(ref) - weight.log_at(ref + low)
            found = max(found, int(np.searchsorted(change, tolerance, side="right")))
        return pair.losses[min(found, pair.size - 1)]

    def cells(self, step, tolerance):
        """Return (dominating cells, dominated cells) with losses about ``step`` apart."""
        pair = self.pair
        if pair.size == 0:
            return pair_cells(pair), pair_cells(pair)
        low, high = self._bottom(tolerance), self.top
        if high - low < pair.size * step:  # else the grid would have more losses than there are atoms
            edges = loss_edges(pair, step, low, high)
            if pair.size > 1.3 * edges.size + 20:
                return split_cells(pair, edges), merge_cells(pair, edges)
        own = pair_cells(pair)
        return own, own

    def lattices(self, step, eta, least):
        """Return (dominating, dominated) lattices for epsilon >= least.

        Cells are cut so that log w changes by at most about ``eta`` within one: in s from below
        for T, in r from above for S, as far as T and S can usefully reach.
        """
        upper, lower = self.cells(step, 0.1 * eta * eta)
        above = Lattice(self._cut(upper, eta, least), self.weight, least)
        if lower is upper:
            return above, above
        return above, Lattice(self._cut(lower, eta, least), self.weight, least)

    def _cut(self, cells, eta, least):
        weight, ref = self.weight, self.reference
        start = 0.0 if weight.at_zero <= 2 * float(weight.value(np.array([ref]))[0]) else ref
        rough = Lattice(cells, weight, least)
        r_end = min(cells.high[0][rough.n_columns], 1.0)
        s_end = self._t_end(cells)
        far = weight.position(weight.log_at(s_end) - 6.0)
        if weight.at_one == 0:  # log w has no end: until what is left weighs nothing
            far = max(far, weight.vanishing(1e3 * self.tiny))
            r_end = min(r_end, far)
        cuts = [
            weight.levels(start, s_end, eta),
            [s_end],
            weight.levels(s_end, far, 4 * eta),
        ]
        cells_cut = cut_cells(cells, np.concatenate(cuts), weight.levels(start, r_end, eta))
        if weight.at_zero >= 1e299 and self.pair.p_infinite > 0:
            # S begins with mass at infinite loss, then w(s) falls from infinity while w(r) hardly moves
            far_q = 1 - weight.levels(start, s_end, eta)
            cells_cut = cut_cells(cells_cut, far_q, np.zeros(0))
        return cells_cut

    def sharpness(self, cells):
        """|d log w / dr| where T ends, over the spread of the losses: what a loss step costs."""
        low_p, low_q = cells.low
        r = float(np.interp(self._t_end(cells), low_q, low_p))
        ends = np.nan_to_num(cells.losses, posinf=50, neginf=-50)
        middle = np.interp([0.16, 0.84], low_q[1:], ends)
        spread = max(0.5 * (middle[1] - middle[0]), 1e-6)
        near = min(max(r, self.reference, 1e-12), 0.5)  # near 1 only 1 - r counts, relatively
        share = min(1e3 * near, 1.0)  # where T is tiny, its mass errs by a share of itself
        return share * float(self.weight.slope(near)[0] / self.weight.value(near)) / spread + 1e-9

    def typical_sharpness(self):
        """:meth:`sharpness` on a rough grid of the pair's own cells."""
        spread = float(self.pair.losses[-1] - self.pair.losses[0]) if self.pair.size > 1 else 1.0
        return self.sharpness(self.cells(max(spread, 1e-9) / 200, 1e-4)[0])

    def _t_end(self, cells):
        """The Q-mass beyond which placing more T loses more than it gains, about."""
        low_p, low_q = cells.low
        best, end = -np.inf, 0.0
        share = np.linspace(0.0, 1.0, 17)
        weight = self.weight
        r = low_p[:-1, None] + share * cells.p[:, None]
        s = low_q[:-1, None] + share * cells.q[:, None]
        gain = weight.log_at(np.maximum(r, self.reference)) - weight.log_at(s)
        inside = (s < 1 - 1e-9) & (r < 1 - 1e-9)
        gain = np.where(inside, gain, -np.inf)
        best = np.max(gain)
        near = gain >= best - 0.02
        end = float(np.max(s[near])) if np.any(near) else 0.0
        # T that leaves less than ``tiny`` to S is useless: w may fall for ever (a sure number of runs)
        left = float(np.interp(weight.vanishing(1e3 * self.tiny), low_p, low_q))
        return min(end * 1.02, left, 1.0 - 1e-9)


# -- solving ---------------------------------------------------------------------------------


def _root(function, target, low, high, tol):
    """Shrink a bracket with function(low) > target >= function(high) to width ``tol``.

    Interpolates log(function), which is nearly straight, and tries both sides of the estimate.
    """
    ends = function(np.array([low, high]))
    values = {low: ends[0], high: ends[1]}
    halve = False
    for _ in range(80):
        width = high - low
        if width <= tol:
            break
        above, below = values[low], values[high]
        guess = 0.5 * (low + high)
        if not halve and below > 0:
            fall = math.log(above) - math.log(below)
            if fall > 0 and target > 0:
                guess = low + width * (math.log(above) - math.log(target)) / fall
        points = np.clip([guess - 0.4 * tol, guess + 0.4 * tol], low, high)
        for x, value in zip(points.tolist(), function(points).tolist(), strict=True):
            if value > target and x > low:
                low, values[x] = x, value
            elif value <= target and x < high:
                high, values[x] = x, value
        halve = high - low > 0.5 * width
    return low, high


def _scale(pair, weight, delta):
    """Return (epsilon of one run, decrease of epsilon by which delta grows e-fold), roughly."""
    spread = float(pair.losses[-1] - pair.losses[0]) if pair.size > 1 else 1.0
    base = max(delta / min(max(weight.at_zero, 1.0), 1e6), 2 * pair.p_infinite, 1e-280)
    start = pair.epsilon_one_way(min(base, 0.5))
    if not math.isfinite(start):
        return 0.0, spread / 20
    tail = float(np.sum(pair.q[pair.losses > start]))
    slope = math.exp(min(start, 700.0)) * tail
    scale = pair.delta(start) / slope if slope > 0 else spread / 20
    return start, min(max(scale, spread / 400), max(spread / 8, 1e-6))


def solve(pair, weight, delta, rtol, floor):
    """Epsilon at delta: a coarse solution, then lattices refined until the gap is small."""
    if weight.constant:
        return _single_run(pair, weight, delta)
    infinite = float(weight.mass(pair.p_infinite)) if pair.p_infinite > 0 else 0.0
    if infinite * (1 - 1e-11) > delta:
        return EpsilonBounds(math.inf, math.inf)
    if delta == 0.0:
        return _pure(pair, weight, rtol) if infinite == 0 else EpsilonBounds(math.inf, math.inf)
    grids = Grids(pair, weight, 1e-5 * delta)
    start, scale = _scale(pair, weight, delta)
    most = _most(pair, weight, delta, rtol) if infinite == 0 and pair.size < 5000 else math.inf
    if most == 0.0:
        return EpsilonBounds(0.0, 0.0)
    rough, scale, sharpness = _coarse(grids, delta, start, scale)
    if rough is None or rough > most:
        rough = most
    if rough == math.inf:
        return EpsilonBounds(math.inf, 0.0)
    best = EpsilonBounds(most, 0.0)
    step, eta = fineness(rtol, rough, scale, sharpness, grids.likeness)
    before = math.inf
    for round_ in range(_MAX_ROUNDS):
        tol = max(0.01 * rtol * rough, 1e-12)
        nodes = _MAX_NODES if round_ else _FIRST_NODES
        spare = best.upper - best.lower if round_ and best.lower > 0 else 0.0
        upper, lower, step, eta, least, rough = _around(grids, step, eta, rough, delta, nodes, spare)
        top = _upper_root(upper, delta, least, rough, tol)
        bottom = _lower_root(lower, delta, least, top, tol)
        if top - bottom > rtol * top:  # U may be tighter where W+ and V part
            top = min(top, _upper_root(upper, delta, least, top, tol, first_order=True))
        best = EpsilonBounds(float(min(best.upper, top)), float(max(best.lower, bottom)))
        gap = best.upper - best.lower
        if gap <= rtol * best.upper or best.upper <= floor or _has_stalled(gap, before, upper):
            break
        before = gap
        rough = best.upper
        shrink = max(math.sqrt(0.5 * rtol * rough / gap), 0.2)
        step, eta = step * shrink, eta * shrink
        if upper.cells.size * upper.n_columns / shrink**2 > _MAX_NODES:
            break
    return best


def _has_stalled(gap, before, lattice):
    return gap > _STALLED * before and lattice.cells.size * lattice.n_columns > _CHEAP_NODES


def _around(grids, step, eta, rough, delta, nodes, spare):
    """Return lattices for epsilons from ``least`` up, which lies below the root; step, eta, least, rough.

    ``spare`` is how far below ``rough`` the root may lie, zero if that is not known.
    """
    margin = 0.25 * eta * grids.likeness + 0.5 * step + 0.02 * rough
    if spare > 4 * margin:
        margin = spare
    while True:
        least = max(rough - margin, 0.0)
        upper, lower, step, eta = within(grids, step, eta, least, nodes)
        if least == 0.0 or upper.upper(np.array([least]))[0] > delta:
            return upper, lower, step, eta, least, rough
        rough, margin = least, 2 * margin  # the root lies lower still


def _most(pair, weight, delta, rtol):
    """Epsilon at delta from the price L at delta 0: A <= e^L A' leaves at most 1 - e^(epsilon - L) at epsilon."""
    level = _pure(pair, weight, rtol).upper
    return min(level, max(level + math.log1p(-delta), 0.0) * (1 + 1e-15))  # rounded up


def within(grids, step, eta, least, most):
    """Return lattices of at most ``most`` nodes, and their step and eta: both wider as often as needed.

    What makes most of the cells is widened: losses, or cuts.
    """
    while True:
        upper, lower = grids.lattices(step, eta, least)
        excess = upper.cells.size * upper.n_columns / most
        if excess <= 1 or step > 2.0 or eta > 2.0:
            return upper, lower, step, eta
        losses = grids.cells(step, 0.1 * eta * eta)[0].size
        if 2 * losses > upper.cells.size:
            step *= 2.0
        else:
            eta *= max(1.5, 0.8 * math.sqrt(excess))


def fineness(rtol, epsilon, scale, sharpness, likeness=1.0):
    """Loss step and eta for a gap of rtol * epsilon.

    The gap of the loss grid is about step^2 / (8 scale) from where S begins and
    step^2 * sharpness / 20 from where T ends, that of the cuts about likeness * eta^2 / 3.
    """
    wanted = rtol * max(epsilon, 0.01 * likeness)
    step = min(math.sqrt(3.0 * wanted * scale), 0.5 * scale)
    step = min(step, math.sqrt(6.0 * wanted / sharpness))
    return step, min(math.sqrt(wanted / likeness), 0.15)


def _coarse(grids, delta, start, scale):
    """Return a rough solution, the scale of epsilon there, the sharpness of w there.

    The solution is None if not even the finest of a few coarse lattices has one.
    """
    for finer in (1.0, 0.4, 0.15):
        found = _coarse_at(grids, delta, start, scale, 0.5 * scale * finer, 0.2 * finer)
        if found[0] is not None:
            break
    return found


def _coarse_at(grids, delta, start, scale, step, eta):
    low, high, least = 0.0, math.inf, 0.7 * start
    for _ in range(30):
        lattice = grids.lattices(step, eta, least)[0]
        near, far = lattice.upper(np.array([least, _MAX_EPSILON]))
        if near > delta >= far:
            break
        low, high = (low, least) if near <= delta else (least, high)
        if least == 0.0 or high - low < 0.1 * high < math.inf:
            return (high if math.isfinite(high) else None), scale, grids.sharpness(lattice.cells)
        # useless cells are recognised better from above: a larger start may do where this did not
        least = 2 * least + scale if math.isinf(high) else 0.5 * (low + high) * (low > 0)
        if least > _MAX_EPSILON:
            return None, scale, grids.sharpness(lattice.cells)
    sharpness = grids.sharpness(lattice.cells)
    start = max(start, least)
    points = start + scale * np.concatenate([[0.0], 2.0 ** np.arange(-1, 24)])
    points = np.unique(np.concatenate([[least], points[points < _MAX_EPSILON], [_MAX_EPSILON]]))
    last = 0
    for first in range(0, points.size, 6):  # a few at a time: the root is usually near the start
        values = lattice.upper(points[first : first + 6])
        below = np.flatnonzero(values <= delta)
        if below.size:
            last = first + int(below[0])
            break
    else:  # cannot happen with near > delta >= far, but never a guess
        return None, scale, sharpness
    if last == 0:
        return least, scale, sharpness
    low, high = _root(lattice.upper, delta, points[last - 1], points[last], 0.003 * points[last])
    ends = lattice.upper(np.array([high, high + 0.1 * scale]))
    if ends[1] > 0 and ends[0] > ends[1]:
        scale = 0.1 * scale / math.log(ends[0] / ends[1])
    return high, scale, sharpness


def _upper_root(lattice, delta, least, guess, tol, first_order=False):
    """Least epsilon found with bound(epsilon) <= delta: the safe end of the bracket."""
    function = lattice.first_order if first_order else lattice.upper
    if first_order:
        # only to improve on ``guess``: no better there means no better at all
        if function(np.array([guess]))[0] > delta:
            return math.inf
        high = guess
    else:
        high, reach = guess * 1.01 + tol, 0.02 * guess + 10 * tol
        while function(np.array([high]))[0] > delta:
            high, reach = high + reach, 2 * reach
            if high > _MAX_EPSILON:
                return math.inf
    if function(np.array([least]))[0] <= delta:
        return least
    return _root(function, delta, least, high, tol)[1]


def _lower_root(lattice, delta, least, top, tol):
    """Largest epsilon found with V(epsilon) > delta."""
    if not math.isfinite(top):
        top = _MAX_EPSILON
    if top <= least or lattice.value(np.array([least]))[0] <= delta:
        if least == 0.0 or lattice.value(np.zeros(1))[0] <= delta:
            return 0.0
        return _root(lattice.value, delta, 0.0, least, tol)[0]
    if lattice.value(np.array([top]))[0] > delta:
        return top
    return _root(lattice.value, delta, least, top, tol)[0]


def evaluate(pair, weight, epsilon, rtol, floor):
    """Delta at epsilon >= 0."""
    if weight.constant:
        value = min(weight.at_zero * (1 + 1e-12) * pair.delta(epsilon), 1.0)
        return DeltaBounds(value, value * (1 - 1e-9))
    epsilon = min(epsilon, _MAX_EPSILON)
    if pair.p_infinite == 0 and pair.size < 5000 and _pure(pair, weight, rtol).upper <= epsilon:
        return DeltaBounds(0.0, 0.0)
    guess = max(pair.delta(epsilon), 1e-300)
    best = DeltaBounds(1.0, 0.0)
    scale = _scale(pair, weight, guess)[1]
    step, eta, before = 0.5 * scale, 0.2, math.inf
    for round_ in range(_MAX_ROUNDS + 1):
        grids = Grids(pair, weight, 1e-5 * guess)
        most = _MAX_NODES if round_ else _FIRST_NODES
        wanted_eta = eta
        upper, lower, step, eta = within(grids, step, eta, epsilon, most)
        tops = upper.upper(np.array([epsilon, epsilon + 0.1 * scale]))
        bottom = float(lower.value(np.array([epsilon]))[0])
        top = float(tops[0])
        if round_:
            top = min(top, float(upper.first_order(np.array([epsilon]))[0]))
        best = DeltaBounds(min(best.upper, top), max(best.lower, bottom))
        if best.upper <= floor or best.upper <= 1e-300 or (round_ and bottom == 0):
            break
        if round_ == 0:
            if 0 < tops[1] < tops[0]:
                scale = 0.1 * scale / math.log(tops[0] / tops[1])
            # where the loss is small, delta is wanted to a share of itself: epsilon to a share of ``scale``
            wanted = epsilon if grids.likeness == 1 else max(epsilon, scale)
            step, eta = fineness(rtol, wanted, scale, grids.sharpness(upper.cells), grids.likeness)
        allowed = max(rtol * epsilon / scale, rtol)
        gap = math.log(best.upper) - math.log(best.lower) if best.lower > 0 else math.inf
        finest = most == _MAX_NODES and eta > wanted_eta  # no finer grid is allowed
        if gap <= allowed or finest or _has_stalled(gap, before, upper):
            break
        before = gap if round_ else before
        if round_:
            shrink = max(math.sqrt(0.5 * allowed / gap), 0.2)
            step, eta = step * shrink, eta * shrink
        guess = max(best.lower, 1e-3 * best.upper)
    return best


def _single_run(pair, weight, delta):
    """K never exceeds one: the price of one run, with probability P(K = 1)."""
    share = weight.at_zero * (1 + 1e-15)
    if share <= delta:
        return EpsilonBounds(0.0, 0.0)
    value = pair.epsilon_one_way(delta / share if share != 1.0 else delta)
    return EpsilonBounds(value, value * (1 - 1e-12))


def _pure(pair, weight, rtol):
    """Epsilon at delta = 0: top loss + sup of log w(r) - log w(s) over the trade-off curve.

    The top atom itself need not be cut: log f'(e^z) is convex in z, so on the last ratio
    log w(r) - log w(s) is largest at its start. Whole cells, halved where they may matter.
    """
    if pair.q_zero > 0 and weight.at_zero >= 1e299:  # an infinite mean
        # an output that only Q has, placed on top, leaves w(0) = E[K] to P and a finite w(s) to Q
        return EpsilonBounds(math.inf, math.inf)
    cells = pair_cells(pair)
    top = float(pair.losses[-1])
    if cells.size == 1:
        return EpsilonBounds(top * (1 + 1e-15), max(top, 0.0) * (1 - 1e-15))
    place = _Stretch.before_the_last(cells)
    best = max(0.0, float(place.least_gain(weight, at_end=True)[-1]))
    settled = float(place.most_gain(weight, at_end=True)[-1])  # bounds the stretches that are not halved any more
    if weight.at_zero >= 1e299:
        place, far = _towards_zero(weight, place)
        settled = max(settled, far)
    bound = math.inf
    tol = 0.02 * rtol * max(top, 1e-12)
    for _ in range(60):
        best = max(best, float(np.max(place.least_gain(weight))))
        caps = place.most_gain(weight)
        bound = max(float(np.max(caps)), settled, 0.0)
        if np.max(caps) <= best + tol or not math.isfinite(bound) or caps.size > 200_000:
            break
        keep = caps > best + 0.5 * tol
        settled = max(settled, float(np.max(caps[~keep], initial=0.0)))
        place = place.halved(keep)
    return EpsilonBounds((top + bound) * (1 + 1e-15), max(top + best, 0.0) * (1 - 1e-15))


class _Stretch(NamedTuple):
    """Parts of the lower cells: masses, what lies below them, and what lies above (added up from the far end)."""

    p: np.ndarray
    q: np.ndarray
    r: np.ndarray
    s: np.ndarray
    above_p: np.ndarray
    above_q: np.ndarray

    @classmethod
    def before_the_last(cls, cells):
        above = (high[1:-1][::-1] for high in cells.high)
        return cls(cells.p[:-1], cells.q[:-1], *(low[:-2] for low in cells.low), *above)

    def halved(self, keep):
        p, q, r, s, above_p, above_q = (0.5 * v[keep] if i < 2 else v[keep] for i, v in enumerate(self))
        ends = ((p, p), (q, q), (r, r + p), (s, s + q), (above_p + p, above_p), (above_q + q, above_q))
        return _Stretch(*(np.concatenate(both) for both in ends))

    def least_gain(self, weight, at_end=False):
        """Lower bounds of log w(r) - log w(s) at the starts (or the ends)."""
        r, s, above_p, above_q = self.r, self.s, self.above_p, self.above_q
        if at_end:
            r, s = r + self.p, s + self.q
        else:
            above_p, above_q = above_p + self.p, above_q + self.q
        with np.errstate(invalid="ignore"):
            plain = _log_value(weight, r, above_p) - _log_value(weight, s, above_q)
        return np.fmax(plain - 1e-10, weight.least_rise(r, s))

    def most_gain(self, weight, at_end=False):
        """Upper bounds of log w(r) - log w(s) everywhere (or at the ends).

        The second of both is the better one where r and s nearly agree.
        """
        r, s, far = self.r, self.s, 1e-12
        above_p = self.above_p + self.p
        if at_end:
            r, s, above_p = r + self.p, s + self.q, self.above_p
        with np.errstate(invalid="ignore"):
            plain = _log_value(weight, r * (1 - far), above_p * (1 + far))
            plain = plain - _log_value(weight, (self.s + self.q) * (1 + far), self.above_q * (1 - far))
        return np.fmin(plain + 1e-10, weight.rise(r, s, self.r + self.p, self.s + self.q))


def _log_value(weight, r, above):
    """log w(r), from r or from 1 - r, whichever has the more digits."""
    with np.errstate(divide="ignore"):
        return np.where(r < 0.5, np.log(weight.value(r)), weight.log_rest(np.minimum(above, 1.0)))


def _towards_zero(weight, place):
    """Cut the lowest cell towards r = 0, where w is infinite; bound log w(r) - log w(s) on the rest.

    Let c_k = k p_k and m_k the largest c_j with j >= k. With sum m_k x^(k-1) = v and D = sum (m_k - c_k),
    r v(r) = sum of (m_j - m_(j+1)) (1 - (1-r)^j) grows with r and v - D <= w <= v. So
    w(r) / w(s) <= v(r) / w(s) <= (s / r) v(s) / w(s) <= (s / r) (1 + D / w(s)) for r <= s.
    """
    p, q = place.p, place.q
    ratio, end = q[0] / p[0], min(1e-100, p[0])
    rise = getattr(weight.run_count, "weight_rise", math.inf)
    least = float(weight.value(np.array([min(ratio * end, 1.0)]))[0]) * (1 - 1e-9)
    rest = math.log(ratio) + math.log1p(rise / least) + 1e-12 if ratio > 1 else 0.0
    edges = np.geomspace(end, p[0], 2 + int(200 * (p[0] > end)))
    left = p[0] - edges[1:]
    parts = (np.diff(edges), ratio * np.diff(edges), edges[:-1], ratio * edges[:-1])
    parts = (*parts, place.above_p[0] + left, place.above_q[0] + ratio * left)
    return _Stretch(*(np.concatenate([new, old[1:]]) for new, old in zip(parts, place, strict=True))), max(rest, 0.0)
