"""Value and certified upper bounds of best-of-K for one direction of a dominating pair.

Paper <-> code. Cells ascend in likelihood ratio; (k, j) is the state in which the k lowest cells
have been placed as T (better, but not distinguishing) and the j highest as S; ``r`` and ``s`` are
its masses under P and Q, column j is the j-th highest cell, E = e^epsilon >= 1.

* W+ <-> :meth:`Lattice.upper`: sum over columns of the trapezoid of the largest corner value.
* U <-> :meth:`Lattice.first_order`: recursion with the larger corner for P, the smaller for Q.
* V <-> :meth:`Lattice.value`: recursion with what an order of the cut cells really attains.

Where P and Q nearly agree, w(r) dP - E w(s) dQ is a small difference of large numbers. With g = s - r, affine
on a cell, and z = r + t g, it equals

    (dP - E dQ) w(s) + dP * integral over t in [0, 1] of g |w'|(z) dt ,

so what interpolation errs by carries a factor g or |dP - E dQ| (:meth:`Lattice._lift`, doc/theory/exact).

Every array is rounded to the private side for the bound it serves: positions are shifted by the
relative error of a sum (w falls, so a smaller r or a larger s can only raise the bound), weights
by ``WEIGHT_ERROR``.
"""

import functools

import numpy as np

from skdptune.accounting._exact_grid import WEIGHT_ERROR

__all__ = ["Lattice"]

_BLOCK_NODES = 200_000  # nodes worked on at a time (a few MB per array)
_NEAR = 0.3  # two measures whose masses differ by less than this in sum are priced as a small difference
_KEPT_NODES = 4_000_000  # nodes kept between calls; larger lattices are recomputed block by block


class Lattice:
    """States (k, j) of one set of cells, for epsilons from ``least`` (>= 0) upwards.

    Parameters
    ----------
    cells : Cells
    weight : Weight
    least : float
        The smallest epsilon that will be asked for; columns that are useless there are left out.
    """

    def __init__(self, cells, weight, least=0.0):
        self.cells, self.weight = cells, weight
        self.least = least
        self._kept = {}

    @functools.cached_property
    def n_columns(self):
        """Number of top columns that can have a positive integrand at epsilon >= least.

        A column of loss l has one only if l + log w(r) - log w(s) > epsilon for a feasible (r, s),
        and the feasible r is least, for its s, on the low cells.
        """
        cells = self.cells
        columns = np.arange(cells.size)
        useful = cells.losses[::-1] > self.least - self.gain - 1e-9
        useful &= 1 - cells.high[1][:-1] > self.reach
        useful = columns[useful]
        return int(useful[-1]) + 1 if useful.size else 0

    @functools.cached_property
    def gain(self):
        """Upper bound of log w(r) - log w(s) over whole cells of the trade-off curve."""
        low_p, low_q = self.cells.low
        top = self._log_weight(low_p[:-1])
        bottom = self._log_weight(low_q[1:] * (1 + 1e-12))
        # the last cell's ratio lasts to the end: log w(r) - log w(s) is largest at its start
        if self.cells.q[-1] > 0:
            bottom[-1] = self._log_weight(low_q[-2:-1])[0]
        with np.errstate(invalid="ignore"):
            gains = np.where(np.isfinite(top), top - bottom, 0.0)  # nothing to gain: w(r) = 0
        gains = gains + 1e-10  # rounded up
        if self.near:
            gains = np.fmin(gains, self.weight.rise(low_p[:-1], low_q[:-1], low_p[1:], low_q[1:]))
        return max(float(np.max(gains)), 0.0) if gains.size else 0.0

    @functools.cached_property
    def near(self):
        """Whether P and Q nearly agree: see the top of this file."""
        return self.cells.distance < _NEAR and not self.weight.steep

    @functools.cached_property
    def reach(self):
        """For each column a Q-mass so small that less unplaced Q-mass makes the column useless.

        What is unplaced when column j is placed has ratios up to e^l_j, so 1 - r <= e^l_j (1 - s), both
        up to what the masses miss from one or exceed it by.
        As log f'(e^z) is convex in z, f'(e^l x) / f'(x) grows with x: if it is at most e^(eps - l)
        at x = rho, the integrand w(r) dP - e^eps w(s) dQ is not positive whenever 1 - s <= rho.
        """
        low = self.cells.low
        # pieces of one atom share a loss; rounded up, which can only make a column more useful
        loss, piece = np.unique(np.ceil(self.cells.losses[::-1] * 1e11) / 1e11, return_inverse=True)
        slack = max(abs(low[0][-1] - 1), abs(low[1][-1] - 1)) + 4 * self.cells.position_error
        rho = np.zeros(loss.size)
        low, high = np.full(loss.size, 1e-9), np.exp(-np.maximum(np.minimum(loss, 50.0), 0.0))

        def useless(x):  # with some rounding to spare
            lift = np.minimum(np.exp(np.minimum(loss, 50.0)) * (x + slack) + slack, 1.0)
            both = self.weight.log_rest(np.concatenate([lift, x]))
            with np.errstate(invalid="ignore"):  # inf - inf: not shown to be useless
                return loss + (both[: x.size] - both[x.size :]) + 1e-9 <= self.least

        some, whole = useless(low) & (loss < 50) & (high > low), useless(high) & (loss < 50)
        for _ in range(14):  # a few digits of rho will do, on the safe side
            middle = np.sqrt(low * high)
            fine = useless(middle)
            low, high = np.where(fine, middle, low), np.where(fine, high, middle)
        rho[some] = low[some]
        rho[whole] = 1.0  # f'(1)/f'(e^-l) is the largest ratio of all
        return rho[piece]

    @functools.cached_property
    def last(self):
        """Last node k worth looking at for each column j: at most n - 1 - j."""
        columns = np.arange(self.cells.size)
        unplaced = self.cells.low[1][-1] - self.cells.high[1][:-1] - self.reach
        low_q = self.cells.low[1] * (1 - 1e-9)
        nodes = np.searchsorted(low_q, unplaced, side="left")  # first k with 1 - s <= rho
        return np.clip(nodes, 0, self.cells.size - 1 - columns)

    def _log_weight(self, r):
        with np.errstate(divide="ignore"):
            return np.log(self.weight.value(r))

    # -- blocks ------------------------------------------------------------------------------

    def _blocks(self):
        cells = self.cells.size
        size = max(1, _BLOCK_NODES // (cells + 1))
        return [(a, min(a + size, self.n_columns)) for a in range(0, self.n_columns, size)]

    def _get(self, kind, build, block):
        key = (kind, block)
        if key in self._kept:
            return self._kept[key]
        arrays = build(*block)
        if self.n_columns * self.cells.size <= _KEPT_NODES:
            self._kept[key] = arrays
        return arrays

    def _positions(self, first, stop):
        """Positions r, s of nodes (j, k): rows ``first`` to ``stop`` inclusive, k from 0."""
        nodes = self._width(first, stop)
        (low_p, low_q), (high_p, high_q) = self.cells.low, self.cells.high
        r = high_p[first : stop + 1, None] + low_p[None, :nodes]
        s = high_q[first : stop + 1, None] + low_q[None, :nodes]
        return r, s

    def _width(self, first, stop):
        return min(int(self.last[first:stop].max()) + 2, self.cells.size - first + 1)

    def _valid(self, first, stop):
        """Whether column j need be looked at when placed at node k."""
        nodes = np.arange(self._width(first, stop))
        return nodes[None, :] <= self.last[first:stop, None]

    def _masses(self, first, stop):
        p = self.cells.p[::-1][first:stop, None]
        q = self.cells.q[::-1][first:stop, None]
        return p, q

    # -- W+ ----------------------------------------------------------------------------------

    def _steep_block(self, first, stop):
        """:meth:`_upper_block` with the constant bound of every cell in which w(s) halves."""
        return self._upper_block(first, stop, steep=True)

    def _upper_block(self, first, stop, steep=False):
        """Corner terms of W+: (P-terms at j, at j + 1; Q-terms at j, at j + 1; cell constants)."""
        weight, error = self.weight, self.cells.position_error
        r, s = self._positions(first, stop)
        p, q = self._masses(first, stop)
        w_r = weight.upper(r * (1 - error))  # rounded up
        s = np.minimum(s * (1 + error), 1.0)
        w_s = weight.lower(s)  # rounded down
        fast, flat = weight.slope(s)
        q_low = np.append(self.cells.q, 0.0)[None, : r.shape[1]]
        # d bounds how far w(s) may lie under the bilinear interpolant of its corners on cell k:
        # a chord of length h over a convex w overshoots by at most h/4 times the slopes' drop
        with np.errstate(invalid="ignore"):  # what is not a number makes the bound 1: see `upper`
            d = 0.25 * q * (fast[:-1] - flat[1:])
            d[:, :-1] += 0.25 * q_low[:, :-1] * (fast[:-1, :-1] - flat[:-1, 1:])
        far = np.empty_like(d)  # w(s) at the cell's far corner (k + 1, j + 1)
        far[:, :-1] = w_s[1:, 1:]
        far[:, -1] = weight.at_one
        valid = self._valid(first, stop)
        n, rows = self.last[first:stop], np.arange(stop - first)
        far[rows, n] = weight.at_one * (1 - WEIGHT_ERROR)  # the meeting cell may reach the end
        cap = np.maximum(w_s[:-1] - far, 0.0)
        d = np.clip(d * (1 + 1e-9), 0.0, cap)
        # where w(s) is infinite at the near corner the interpolant says nothing, and where it halves within a
        # cell hardly more: take the cell's constant bound w(r) p - E w(far corner) q instead
        endless = valid & (w_s[:-1] >= (np.minimum(2 * far, 1e299) if steep else 1e299))
        endless |= self._capped(first, stop, w_r, w_s, d >= cap)
        d[endless] = 0.0
        d[~valid] = 0.0
        d[:, 1:] = np.maximum(d[:, 1:], d[:, :-1])  # a node serves the cells on both sides
        d[~valid] = 0.0
        lift = self._lift(first, stop, d) if self.near else 0.0
        p_near, p_far = (w_r[:-1] + lift) * p, (w_r[1:] + lift) * p
        q_near, q_far = (w_s[:-1] - d) * q, (w_s[1:] - d) * q
        for terms in (p_near, p_far):
            terms[~valid] = 0.0  # value 0: neutral, the sum takes positive parts
        for terms in (q_near, q_far):
            terms[~valid] = 0.0
        constant = None
        if np.any(endless & (q > 0)):
            constant = np.where(endless, w_r[:-1] * p, 0.0), np.where(endless, far * q, 0.0)
        return p_near, p_far, q_near, q_far, self._meeting(first, stop, w_r, rows, n), constant

    def _capped(self, first, stop, w_r, w_s, capped):
        """Cells whose ``d`` is at its cap and for which their constant bound is the better one.

        There the corner term at j equals the constant, and that at j + 1 is larger for E >= e^least if
        e^least q (fall of w(s)) >= p (fall of w(r)) along the column.
        """
        p, q = self._masses(first, stop)
        inner = np.arange(capped.shape[1]) < self.last[first:stop, None]  # the last node has a bound of its own
        capped = capped & inner & self._valid(first, stop)
        if not np.any(capped):
            return capped
        with np.errstate(over="ignore", invalid="ignore"):
            return capped & (np.exp(min(self.least, 700.0)) * q * (w_s[:-1] - w_s[1:]) > p * (w_r[:-1] - w_r[1:]))

    def _slopes(self, r, s):
        """Bounds of |w'| between r and s: the upper one of any, the lower one of any."""
        fast = self.weight.slope(np.minimum(r, s) * (1 - self.cells.position_error))[0]
        return fast, self.weight.slope(np.maximum(r, s) * (1 + self.cells.position_error))[1]

    def _lift(self, first, stop, d):
        """What may be added to w(r) in the P-terms (not positive), given ``d`` in the Q-terms.

        The integrand over dQ-mass exceeds its interpolant by at most E q d, and also by at most
        (E q - p)_+ d + p e: w(s) is convex, and D = integral of g |w'|(z) dt is of the form a b, a affine, b convex and
        falling. Along an axis a b lies under (interpolant of b) a if a >= 0, else under b's least value times a, and
        the interpolant of b times a above that of a b by at most a quarter of the product of a's rise and b's drop.
        Since E >= e^least, (E q - p)_+ <= E q - c p with c = min(1, e^(least - l)): both bounds are linear in E.
        """
        r, s = self._positions(first, stop)
        p, q = self._masses(first, stop)
        fast, flat = self._slopes(r, s)
        gap = s - r - 4 * self.cells.position_error  # rounded down
        gap = np.minimum(gap[:-1], gap[1:])
        down = fast[:-1] - flat[1:]  # along the column
        e = (0.25 * np.maximum(q - p, 0.0) + np.maximum(-gap, 0.0)) * down
        nodes = r.shape[1]
        rise = np.maximum(np.append(self.cells.q - self.cells.p, 0.0), 0.0)[None, : nodes - 1]
        across = fast[:-1, :-1] - flat[:-1, 1:]  # along the cells placed as T
        gap[:, :-1] = np.minimum(gap[:, :-1], gap[:, 1:])
        e[:, :-1] = (0.25 * np.maximum(q - p, 0.0) + np.maximum(-gap[:, :-1], 0.0)) * down[:, :-1]
        e[:, :-1] += (0.25 * rise + np.maximum(-gap[:, :-1], 0.0)) * across
        e = np.where(self._valid(first, stop), e * (1 + 1e-9), 0.0)  # rounded up
        e[:, 1:] = np.maximum(e[:, 1:], e[:, :-1])  # a node serves the cells on both sides
        loss = self.cells.losses[::-1][first:stop, None]
        share = np.exp(np.minimum(self.least - loss, 0.0)) * (1 - 1e-12)  # c, rounded down
        return np.minimum(e - share * d, 0.0)

    def _meeting(self, first, stop, w_r, rows, n):
        """Terms for what lies beyond the last node: the meeting cell, or useless cells.

        Where T and S share one cell, all else placed, the integrand after a share t of the cell is
        h(t) = p f'((1-t) p) - E q f'((1-t) q), and its positive part falls in t (log f'(e^z) is
        convex in z): the node with an unused cell bounds it. Useless cells (:attr:`reach`) have
        none. Both hold up to what the masses miss from one (``slack``) times |w'|; the other bound
        is the constant w(r) p - E w(1) q.
        """
        p, q = (m[:, 0] for m in self._masses(first, stop))
        error = self.cells.position_error
        slack_p = abs(self.cells.low[0][-1] - 1) + 4 * error
        slack_q = abs(self.cells.low[1][-1] - 1) + 4 * error
        rest_q = np.maximum(self.reach[first:stop], q)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            rest_p = np.where(q > 0, p / q * rest_q, 1.0)
        slope_p = self.weight.slope(np.maximum(1 - rest_p - 2 * slack_p, 0.0))[0]
        slope_q = self.weight.slope(np.maximum(1 - rest_q - 2 * slack_q, 0.0))[0]
        loose_p, loose_q = 2 * p * slack_p * slope_p, 2 * q * slack_q * slope_q
        top = w_r[rows, n] * p
        bottom = self.weight.at_one * (1 - WEIGHT_ERROR) * q
        return loose_p, loose_q, top, bottom, n

    def upper(self, epsilons):
        """Return W+ at each epsilon (all at least ``least``), rounded up.

        Parameters
        ----------
        epsilons : ndarray of shape (n_epsilons,)

        Returns
        -------
        bounds : ndarray of shape (n_epsilons,)
        """
        scale = np.exp(np.minimum(epsilons, 700.0))
        total = np.zeros(len(scale))
        for block in self._blocks():
            columns = self._columns(block, self._get("upper", self._upper_block, block), scale)
            if self.weight.steep:  # w falls from next to infinity: each column has two bounds
                other = self._columns(block, self._get("steep", self._steep_block, block), scale)
                columns = np.fmin(columns, other)
            total += columns.sum(axis=1)
        # rounded up: the sum itself; fmin turns what is not a number (0 times infinity) into the bound 1
        return np.fmin(total * (1 + 1e-12) + self._neglected, 1.0)

    @functools.cached_property
    def _neglected(self):
        """What columns left out as useless may hold because masses miss one by a rounding.

        They are left out with 1e-9 to spare in log(integrand ratio), which covers an error of
        ``slack`` in 1 - r and 1 - s unless almost nothing is unplaced and f' vanishes there.
        """
        steep = float(self.weight.slope(np.array([1 - 1e-4]))[0][0])  # |w'| where little is left
        if self.weight.at_one >= 1e-5 * steep:
            return 0.0
        low, error = self.cells.low, self.cells.position_error
        return 4 * steep * (abs(low[0][-1] - 1) + abs(low[1][-1] - 1) + 2 * error)

    def _columns(self, block, arrays, scale):
        """Bounds of the columns' integrals, shape (n_epsilons, n_columns of the block)."""
        p_near, p_far, q_near, q_far, meeting, constant = arrays
        loose_p, loose_q, top, bottom, n = meeting
        rows = np.arange(n.size)
        work = np.empty_like(p_near)
        found = np.empty((scale.size, n.size))
        caps = self._caps[block[0] : block[1]]
        for i, e in enumerate(scale):
            # the meeting cell and any cell with a constant bound hold at both ends of the column
            ends = []
            for p_terms, q_terms in ((p_near, q_near), (p_far, q_far)):
                with np.errstate(over="ignore"):  # e^690 times a huge weight: minus infinity, never the largest
                    np.multiply(q_terms, e, out=work)
                np.subtract(p_terms, work, out=work)
                best = np.max(work, axis=1)
                node = np.maximum(work[rows, n], 0.0) + loose_p + e * loose_q
                ends.append(np.maximum(best, np.minimum(node, top - e * bottom)))
            if constant is not None:
                extra = np.max(constant[0] - e * constant[1], axis=1)
                ends = [np.maximum(end, extra) for end in ends]
            columns = 0.5 * (np.maximum(ends[0], 0.0) + np.maximum(ends[1], 0.0))
            found[i] = np.minimum(columns, caps)
        return found

    @functools.cached_property
    def _caps(self):
        """Each column's integral is at most G(p), whatever precedes it: G is concave.

        Needed for the first one, and where w(0) is next to infinite for all that hold tiny masses.
        """
        # not less E w(1) q: only a part of the column need have a positive integrand
        p = self.cells.p[::-1][: max(self.n_columns, 1)]
        caps = np.full(p.size, np.inf)
        most = p.size if self.weight.steep else 1
        caps[:most] = self.weight.mass(p[:most]) * (1 + WEIGHT_ERROR)
        return caps

    # -- V -----------------------------------------------------------------------------------

    def _value_block(self, first, stop):
        """Gains of placing column j at node k: what w integrates to, rounded down."""
        weight, error = self.weight, self.cells.position_error
        r, s = self._positions(first, stop)
        p, q = self._masses(first, stop)
        # w is convex: its integral is at least the midpoint's, at most the trapezoid's
        gain_p = weight.lower((r[:-1] + 0.5 * p) * (1 + error)) * p * (1 - 1e-14)
        w_s = weight.upper(s * (1 - error))
        gain_q = 0.5 * (w_s[:-1] + w_s[1:]) * q * (1 + 1e-14)
        if weight.steep or first == 0:
            whole = weight.mass(q) * (1 + WEIGHT_ERROR)  # G(q) - G(0)
            gain_q = np.where(s[:-1] == 0, np.minimum(gain_q, whole), gain_q)
        if self.near:
            gain_p, gain_q = self._near_gains(r, s, p, q)
        outside = ~self._valid(first, stop)
        gain_p[outside] = 0.0
        gain_q[outside] = 0.0
        return gain_p, gain_q

    def _near_gains(self, r, s, p, q):
        """The same for two measures that nearly agree, for E >= 1.

        At the middle of the column, w(s) is too small for its mean by at most an eighth of q times the slopes' drop:
        that counts (E q - p)_+ times only. D = a b (see :meth:`_lift`) lies at its middle above its mean by at most
        (rise of a) (drop of b) / 6 where a >= 0, else by at most |a| times the drop.
        """
        weight, error = self.weight, self.cells.position_error
        fast, flat = self._slopes(r, s)
        drop = fast[:-1] - flat[1:]
        gap = s - r
        ends = np.minimum(gap[:-1], gap[1:]) - 4 * error  # rounded down
        size = np.maximum(np.abs(gap[:-1]), np.abs(gap[1:])) + 4 * error
        lost = np.where(ends >= 0, np.maximum(q - p, 0.0) / 6, size) * drop
        fast_s, flat_s = weight.slope(s)
        missed = 0.125 * q * (fast_s[:-1] - flat_s[1:]) * (1 + 1e-9)
        share = np.minimum(1.0, np.divide(q, p, out=np.ones_like(p), where=p > 0)) * (1 - 1e-12)
        w_r = weight.lower((r[:-1] + 0.5 * p) * (1 + error))
        w_s = weight.upper((s[:-1] + 0.5 * q) * (1 - error))
        gain_p = (w_r + np.maximum(share * missed - lost, 0.0)) * p * (1 - 1e-14)  # rounded down
        return gain_p, (w_s + missed) * q * (1 + 1e-14)

    def value(self, epsilons):
        """Return V at each epsilon: the value of the best order of the cut cells, rounded down."""
        scale = np.exp(np.minimum(epsilons, 700.0))
        found = self._recurse(scale, "value", self._value_block)
        return np.where(np.isnan(found), 0.0, found)  # not a number bounds nothing from below

    def _recurse(self, scale, kind, build, caps=None):
        state = np.zeros((scale.size, self.cells.size + 1))
        for block in reversed(self._blocks()):
            gain_p, gain_q = self._get(kind, build, block)
            nodes = gain_p.shape[1]
            for j in range(gain_p.shape[0] - 1, -1, -1):
                gain = gain_p[j] - scale[:, None] * gain_q[j]
                np.maximum(gain, 0.0, out=gain)
                if caps is not None:  # after the positive part: see :attr:`_caps`
                    np.minimum(gain, caps[block[0] + j], out=gain)
                gain += state[:, :nodes]
                state[:, :nodes] = np.maximum.accumulate(gain[:, ::-1], axis=1)[:, ::-1]
        return state[:, 0]

    # -- U -----------------------------------------------------------------------------------

    def _first_order_block(self, first, stop):
        weight, error = self.weight, self.cells.position_error
        nodes = self.cells.size - first + 1  # all of them: U uses nothing but monotone weights
        (low_p, low_q), (high_p, high_q) = self.cells.low, self.cells.high
        r = high_p[first:stop, None] + low_p[None, :nodes]
        p, q = self._masses(first, stop)
        gain_p = weight.upper(r * (1 - error)) * p  # rounded up
        far = np.ones_like(gain_p)
        far[:, :-1] = high_q[first + 1 : stop + 1, None] + low_q[None, 1:nodes]
        far = np.minimum(far * (1 + error), 1.0)
        n = self.cells.size - np.arange(first, stop) - 1
        far[np.arange(stop - first), n] = 1.0  # the meeting cell reaches the end
        gain_q = weight.lower(far) * q  # rounded down
        outside = np.arange(nodes)[None, :] > n[:, None]
        gain_p[outside] = 0.0
        gain_q[outside] = 0.0
        return gain_p, gain_q

    def first_order(self, epsilons):
        """Return U at each epsilon, an upper bound for any weight, rounded up."""
        scale = np.exp(np.minimum(epsilons, 700.0))
        total = self._recurse(scale, "first", self._first_order_block, self._caps)
        return np.fmin(total * (1 + 1e-12), 1.0)  # not a number is no bound: 1
