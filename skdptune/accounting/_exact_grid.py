"""Cells on which the exact price of best-of-K is computed.

Notation (paper <-> code): a cell is a set of outputs of one likelihood ratio dP/dQ, held by its
masses ``p`` and ``q``; cells ascend in ratio, zero-ratio mass first, infinite-loss mass last.
w(r) = f'(1 - r) and |w'(r)| = f''(1 - r), with f the generating function of K, are decreasing and
convex on [0, 1] because f is a power series with coefficients that are not negative.

Rounded to the private side: :func:`split_cells` gives a pair that dominates the given one (each
atom is spread over its two neighbouring losses with both masses kept, hence forgetting the spread
gives the atom back); :func:`merge_cells` gives a pair that the given one dominates (merging is
post-processing), so a lower bound on its price is a lower bound on the price of the given pair.
"""

import functools
from dataclasses import dataclass

import numpy as np

__all__ = [
    "Cells",
    "Weight",
    "cut_cells",
    "loss_edges",
    "merge_cells",
    "pair_cells",
    "split_cells",
    "weight_of",
]

_HUGE = 1e300  # stands for an infinite weight where only "at least this" is needed
_SLIVER = 1e-14  # no smaller share of a cell is cut off
_LEAST_SLIVER = 1e-200  # but from the first cell at either end, where w may still fall
# Relative error allowed for in a weight: log w comes from a handful of elementary functions, whose
# errors of about 1e-14 are multiplied by at most the size of the logarithm (below 40 where used).
WEIGHT_ERROR = 4e-12


@dataclass(frozen=True)
class Cells:
    """Masses of cells ascending in likelihood ratio.

    Parameters
    ----------
    p, q : ndarray of shape (n_cells,)
        Mass under P and under Q, not negative, not both zero.
    """

    p: np.ndarray
    q: np.ndarray

    @functools.cached_property
    def low(self):
        """Masses (P, Q) of the k lowest cells, k = 0..n."""
        return _running(self.p), _running(self.q)

    @functools.cached_property
    def high(self):
        """Masses (P, Q) of the j highest cells, j = 0..n."""
        return _running(self.p[::-1]), _running(self.q[::-1])

    @functools.cached_property
    def losses(self):
        """log(p / q) of each cell, with plus and minus infinity."""
        with np.errstate(divide="ignore"):
            return np.log(self.p) - np.log(self.q)

    @functools.cached_property
    def distance(self):
        """Twice the total variation distance of P and Q."""
        return float(np.abs(self.p - self.q).sum())

    @property
    def size(self):
        return self.p.size

    @property
    def position_error(self):
        """Relative error allowed for in any sum of masses."""
        return 1e-15 + 4 * self.size * float(np.finfo(np.longdouble).eps)


def _running(mass):
    sums = np.zeros(mass.size + 1)
    sums[1:] = np.cumsum(mass, dtype=np.longdouble)  # extended precision against drift
    return sums


# Families whose weight is a few elementary functions; those of others are tabulated first.
_ELEMENTARY = frozenset(
    ["Binomial", "Fixed", "Geometric", "Logarithmic", "Poisson", "TruncatedNegativeBinomial"]
    + ["ZeroTruncatedPoisson"]
)


def _interpolated(r, nodes, values, end):
    """Interpolate falling values; next to an infinite one take the value at an end of its interval.

    ``end`` 0 is the larger value (an upper bound), 1 the smaller one (a lower bound). A line from a value that
    stands for infinity overflows, to minus infinity in the worst case.
    """
    with np.errstate(all="ignore"):
        line = np.interp(r, nodes, values)
    if np.max(values) < 1e299:
        return line
    left = np.clip(np.searchsorted(nodes, r, side="right") - 1, 0, nodes.size - 2)
    return np.where(values[left] >= 1e299, values[left + end], line)


class Weight:
    """w and |w'| of one run count, bounded from both sides.

    Parameters
    ----------
    run_count : RunCount
    """

    def __init__(self, run_count):
        self.run_count = run_count
        self.at_zero = min(float(np.exp(run_count.log_weight(0.0))), _HUGE)
        self.at_one = float(np.exp(run_count.log_weight(1.0)))
        self._tabulated = type(run_count).__name__ not in _ELEMENTARY

    def _log(self, r):
        with np.errstate(all="ignore"):
            return np.asarray(self.run_count.log_weight(np.minimum(r, 1.0)), dtype=np.float64)

    def value(self, r):
        """w(r), not rounded to a side; r beyond 1 counts as 1, infinity as a huge number."""
        with np.errstate(all="ignore"):
            return np.minimum(np.exp(self._log(r)), _HUGE)

    def upper(self, r):
        """w(r), rounded up."""
        if self._tabulated:
            nodes, high = self._table[0], self._table[1]
            return _interpolated(r, nodes, high, 0)  # a chord lies above a convex function
        return self.value(r) * (1 + WEIGHT_ERROR)

    def lower(self, r):
        """w(r), rounded down."""
        if self._tabulated:
            return _interpolated(r, self._table[0], self._table[2], 1)
        return self.value(r) * (1 - WEIGHT_ERROR)

    def slope(self, r):
        """Upper and lower bound of |w'(r)|; infinity becomes a huge number."""
        if self._tabulated:
            nodes, _, _, high, low = self._table
            return _interpolated(r, nodes, high, 0), _interpolated(r, nodes, low, 1)
        with np.errstate(all="ignore"):
            log = np.asarray(self.run_count.log_weight_slope(np.minimum(r, 1.0)))
            value = np.minimum(np.exp(log), _HUGE)
        return value * (1 + WEIGHT_ERROR), value * (1 - WEIGHT_ERROR)

    def rise(self, r, s, r_far, s_far):
        """Return an upper bound of log w(r') - log w(s') over a cell on which both run from near to far.

        It is the integral of |w'| / w from r' to s', and s' - r' is affine on the cell.
        """
        length = np.maximum(s - r, s_far - r_far) + 4e-15 * np.maximum(r_far, s_far)
        with np.errstate(all="ignore"):
            steep = self.slope(r * (1 - 1e-12))[0] / self.lower(np.minimum(s_far * (1 + 1e-12), 1.0))
            found = np.maximum(length, 0.0) * steep * (1 + 1e-11)  # rounded up
        return np.where(np.isnan(found), np.where(length > 0, np.inf, 0.0), found)

    def least_rise(self, r, s):
        """Return a lower bound of log w(r) - log w(s), accurate where r and s nearly agree."""
        length = np.maximum(s - r - 4e-15 * s, 0.0)
        with np.errstate(all="ignore"):
            found = length * self.slope(np.minimum(s * (1 + 1e-12), 1.0))[1] / self.upper(r * (1 - 1e-12))
        return np.where(np.isfinite(found), found * (1 - 1e-11), 0.0)

    def mass(self, r):
        """G(r) = 1 - f(1 - r): chance that some run lands in a set of mass r."""
        return np.asarray(self.run_count.attainment(np.minimum(r, 1.0)), dtype=np.float64)

    def log_rest(self, x):
        """log f'(x) = log w(1 - x), accurate for small x."""
        with np.errstate(all="ignore"):
            return np.asarray(self.run_count.log_pgf_derivative(x), dtype=np.float64)

    @functools.cached_property
    def _table(self):
        """Nodes with bounds of w and |w'| whose straight lines bound w and |w'| in between.

        With S_i the secant slope on [x_i, x_(i+1)], convexity gives S_(i-1) >= |w'(x_i)| >= S_i,
        and a chord overshoots w by at most a quarter of its length times the drop in slope.
        """
        end = self.vanishing(1e-20) if self.at_one == 0 else 1.0
        inner = self.levels(0.0, end, 1e-3, most=20_000)
        nodes = np.unique(np.concatenate([[0.0], inner, [1.0], self._far_down]))
        w = self.value(nodes)
        high = w * (1 + WEIGHT_ERROR)
        noise, length = 2 * WEIGHT_ERROR * w[:-1], np.maximum(np.diff(nodes), 1e-300)
        drop = w[:-1] - w[1:]
        with np.errstate(over="ignore"):
            steep = np.minimum((drop + noise) / length, _HUGE)
            flat = np.minimum(np.maximum(drop - noise, 0.0) / length, _HUGE)
        with np.errstate(all="ignore"):
            first = min(float(np.exp(self.run_count.log_weight_slope(0.0))), _HUGE)
        before = np.concatenate([[first * (1 + WEIGHT_ERROR)], steep])  # >= |w'| at each node
        after = np.concatenate([flat[1:], [0.0, 0.0]])  # <= |w'| at the next node
        gap = 0.25 * length * (before[:-1] - after[:-1])  # of the chord on [x_i, x_(i+1)]
        gap = np.clip(gap, 0.0, drop + noise)
        low = w * (1 - WEIGHT_ERROR)
        low[:-1] -= np.maximum(gap, np.concatenate([[0.0], gap[:-1]]))
        low[-1] -= gap[-1]
        if self.at_zero >= 1e299:  # no chord at infinity: steps instead, w falls
            low[:2] = w[1:3] * (1 - WEIGHT_ERROR)
        return nodes, high, np.maximum(low, 0.0), before, after

    @property
    def constant(self):
        """Whether w is constant: never two runs, and the price is the single run's."""
        return self.run_count.support_max is not None and self.run_count.support_max <= 1

    @property
    def _far_down(self):
        """Positions below the dense ones, where a weight that is next to infinite at zero still grows."""
        return np.geomspace(1e-110, 1e-18, 4000) if self.steep else np.zeros(0)

    @functools.cached_property
    def steep(self):
        """Whether w is infinite at zero, or all but so: falling from there faster than cells can follow."""
        return self.at_zero >= 1e299 or self.at_zero > 2 * float(self.value(np.array([1e-18]))[0])

    @functools.cached_property
    def _dense(self):
        """Positions, dense at both ends, and log w there: for placing cuts only."""
        ends = np.geomspace(1e-18, 0.5, 1500)
        r = np.concatenate([ends, np.linspace(0.5, 1.0, 300)[1:], 1.0 - ends[400:-1], self._far_down])
        r = np.unique(r)
        return r, np.maximum(np.minimum.accumulate(self._log(r)), -700.0)

    def log_at(self, r):
        """Approximate log w, by interpolation: for placing cuts only."""
        grid, log = self._dense
        return np.interp(r, grid, log)

    def position(self, log):
        """Approximate inverse of :meth:`log_at`."""
        grid, values = self._dense
        return float(np.interp(-log, -values, grid))

    def vanishing(self, mass):
        """Approximately the least r with w(r) (1 - r) at most ``mass``."""
        grid, log = self._dense
        left = np.exp(log) * (1 - grid)
        return float(grid[min(int(np.searchsorted(-left, -mass)), grid.size - 2)])

    def radius(self, mass):
        """Approximately the r with G(r) = ``mass``."""
        grid = self._radii[0]
        index = int(np.searchsorted(self._radii[1], mass))
        return float(grid[max(index - 1, 0)])

    @functools.cached_property
    def _radii(self):
        grid = np.geomspace(1e-306, 1.0, 1200)
        return grid, np.maximum.accumulate(self.mass(grid))

    def levels(self, start, stop, step, most=5000):
        """Return positions in (start, stop) between which log w falls by about ``step``."""
        grid, log = self._dense
        top, bottom = self.log_at(start), self.log_at(stop)
        count = int(min((top - bottom) / step, most))
        if count < 1:
            return np.zeros(0)
        wanted = top - (top - bottom) * np.arange(1, count + 1) / (count + 1)
        return np.interp(-wanted, -log, grid)


@functools.lru_cache(maxsize=64)
def weight_of(run_count):
    """Return the (cached) weight of a run count."""
    return Weight(run_count)


def loss_edges(pair, step, low, high):
    """Return grid losses covering [low, high] in steps of at most ``step``."""
    low, high = max(low, pair.losses[0]), min(high, pair.losses[-1])
    count = max(int(np.ceil((high - low) / step)), 1)
    return np.linspace(low, high, count + 1) if high > low else np.array([low])


def split_cells(pair, edges):
    """Return cells of a pair on ``edges`` that dominates ``pair`` in both directions.

    Each atom is split between its two neighbouring edges, both masses kept. Above the last edge
    the neighbours are that edge and infinite loss, below the first one zero ratio and that edge.
    """
    losses, p, q = pair.losses, pair.p, pair.q
    place = np.searchsorted(edges, losses, side="right") - 1  # edges[place] <= loss
    below, above = place < 0, losses >= edges[-1]
    inside = ~below & ~above
    cells_p, cells_q = np.zeros(edges.size), np.zeros(edges.size)
    at = place[inside]
    rise, width = losses[inside] - edges[at], edges[at + 1] - edges[at]
    q_up = np.expm1(rise) / np.expm1(width)  # share of Q-mass sent up
    p_up = np.expm1(-rise) / np.expm1(-width)  # and of P-mass: p_up = q_up e^(width - rise)
    for cells, mass, up in ((cells_p, p[inside], p_up), (cells_q, q[inside], q_up)):
        cells += np.bincount(at, mass * (1 - up), edges.size)
        cells += np.bincount(at + 1, mass * up, edges.size)
    # above: all Q-mass to the last edge, with the P-mass that belongs to it
    kept = np.exp(edges[-1] - losses[above])
    cells_p[-1] += np.sum(p[above] * kept)
    cells_q[-1] += np.sum(q[above])
    p_infinite = pair.p_infinite - np.sum(p[above] * np.expm1(edges[-1] - losses[above]))
    # below: all P-mass to the first edge, with its Q-mass
    cells_p[0] += np.sum(p[below])
    cells_q[0] += np.sum(q[below] * np.exp(losses[below] - edges[0]))
    q_zero = pair.q_zero - np.sum(q[below] * np.expm1(losses[below] - edges[0]))
    return _with_ends(cells_p, cells_q, p_infinite, q_zero)


def merge_cells(pair, edges):
    """Return cells of a pair that ``pair`` dominates: atoms between two edges become one."""
    place = np.clip(np.searchsorted(edges, pair.losses, side="right"), 1, max(edges.size - 1, 1))
    cells_p = np.bincount(place, pair.p, edges.size)
    cells_q = np.bincount(place, pair.q, edges.size)
    return _with_ends(cells_p, cells_q, pair.p_infinite, pair.q_zero)


def pair_cells(pair):
    """Return the atoms of ``pair`` as cells."""
    return _with_ends(pair.p, pair.q, pair.p_infinite, pair.q_zero)


def _with_ends(p, q, p_infinite, q_zero):
    p = np.concatenate([[0.0], p, [p_infinite]])
    q = np.concatenate([[q_zero], q, [0.0]])
    keep = (p > 0) | (q > 0)
    return Cells(p[keep], q[keep])


def cut_cells(cells, s_cuts, r_cuts):
    """Cut cells at given Q-mass from below (``s_cuts``) and P-mass from above (``r_cuts``).

    Cells are only cut, never merged, so the cut cells are the same pair. The pieces' masses are
    shares of the cell's: both measures are cut in one proportion.
    """
    owner, below, above = [], [], []
    for cuts, sums, mass, flip in (
        (s_cuts, cells.low[1], cells.q, False),
        (r_cuts, cells.high[0], cells.p[::-1], True),
    ):
        at = np.searchsorted(sums, cuts, side="right") - 1
        valid = (at >= 0) & (at < cells.size)
        at, cut = at[valid], cuts[valid]
        with np.errstate(divide="ignore", invalid="ignore"):
            part = (cut - sums[at]) / mass[at]
        # next to nothing has been placed: no digits are lost there
        good = (part > np.where(sums[at] == 0, _LEAST_SLIVER, _SLIVER)) & (part < 1 - _SLIVER)
        at, part = at[good], part[good]
        owner.append(cells.size - 1 - at if flip else at)
        below.append(1 - part if flip else part)
        above.append(part if flip else 1 - part)
    owner = np.concatenate([*owner, np.arange(cells.size)])
    below = np.concatenate([*below, np.ones(cells.size)])
    above = np.concatenate([*above, np.zeros(cells.size)])
    # shares are kept from the nearer end of the cell, where they have all their digits
    order = np.lexsort((np.where(below <= 0.5, below, -above), below > 0.5, owner))
    owner, below, above = owner[order], below[order], above[order]
    piece, whole = _pieces(owner, below, above)
    keep = piece > _SLIVER * whole
    if not np.all(keep):  # two cuts at one place: give the sliver to its successor
        owner, below, above = owner[keep], below[keep], above[keep]
        piece = _pieces(owner, below, above)[0]
    return Cells(cells.p[owner] * piece, cells.q[owner] * piece)


def _pieces(owner, below, above):
    """Return the share of each piece of its cell, and what that was the difference of."""
    first = np.concatenate([[True], owner[1:] != owner[:-1]])
    start = np.where(first, 0.0, np.concatenate([[0.0], below[:-1]]))
    rest = np.where(first, 1.0, np.concatenate([[1.0], above[:-1]]))
    low, high = below <= 0.5, start > 0.5
    piece = np.where(low, below - start, np.where(high, rest - above, 1 - start - above))
    return piece, np.where(low, below, np.where(high, rest, 1.0))
