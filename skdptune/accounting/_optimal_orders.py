"""Worst orders of one run's outputs, as linear functions of the probabilities of K.

Paper <-> code: cells ascend in likelihood ratio; in state (k, j) the k lowest are placed as T and the
j highest as S, r and s are the masses placed; a step of S from (r0, s0) to (r1, s1) adds
(1-r0)^i - (1-r1)^i to A_i (``gains``) and (1-s0)^i - (1-s1)^i to B_i (``losses``), i the number of
runs; delta(eps) >= A . p - e^eps B . p.
"""

import math

import numpy as np

from skdptune.accounting._exact_grid import cut_cells, loss_edges, merge_cells, pair_cells

__all__ = ["Orders", "worst_orders"]

_CELLS = 120  # losses of the coarse grid
_ETA = 0.15  # relative width of cuts in r and s
_NEWTON = 25
_HUGE = 1e280


def worst_orders(pair, delta, counts):
    """Return the :class:`Orders` of both directions of a pair (of one where it is symmetric)."""
    kind = _PureDirection if delta == 0.0 else _Direction
    pairs = [pair] if pair.symmetric else [pair, pair.swap()]
    return Orders([kind(one, delta, counts) for one in pairs], delta, counts)


class Orders:
    """Worst orders found so far, of all directions.

    Parameters
    ----------
    directions : list
    delta : float
    counts : ndarray of shape (n,)

    Attributes
    ----------
    gains, losses : ndarray of shape (n_orders, n)
        A and B of every order found.
    """

    def __init__(self, directions, delta, counts):
        self._directions, self.delta, self._counts = directions, delta, counts
        self._gains, self._losses = [], []

    @property
    def gains(self):
        return np.array(self._gains)

    @property
    def losses(self):
        return np.array(self._losses)

    def price(self, masses, start):
        """Return E = e^epsilon of the search on the coarse grid (at least 1); keep its worst orders.

        delta(E) is convex and falling in E, so Newton's steps from below, each to the root of the
        worst order's line, rise to the root; a start above it costs one step more.
        """
        value = 1.0
        for direction in self._directions:
            direction.weigh(masses)
            value = max(value, self._root(direction, masses, max(start, value)))
        return value

    def _root(self, direction, masses, e):
        low = 1.0
        for _ in range(_NEWTON):
            order = direction.worst(e)
            if order is None:  # nothing above delta may be left there: start lower
                if e <= low * (1 + 1e-9):
                    return low
                e = max(math.sqrt(e * low), low) if e > 1.01 * low else low
                continue
            gain, loss = direction.coefficients(order, self._counts)
            above, below = gain @ masses - self.delta, loss @ masses
            root = min(above / below, _HUGE) if below > 0 else (_HUGE if above > 0 else 0.0)
            if root > 1.0:
                self._gains.append(gain)
                self._losses.append(loss)
            low = max(low, root)
            if root >= _HUGE or (root <= e * (1 + 1e-7) and root >= e * (1 - 1e-7)) or low == 1.0 == e:
                break
            e = low
        return low

    def lower_bound(self, run_count):
        """Return a lower bound of epsilon for any run count, named ones included."""
        low = 1.0
        for direction in self._directions:
            direction.weigh(run_count=run_count)
            e = low
            for _ in range(_NEWTON):
                order = direction.worst(e)
                if order is None:
                    break
                above, below = direction.attained(order, run_count)
                root = (above - self.delta) / below if below > 0 else 1.0
                if root <= e * (1 + 1e-7):
                    break
                e = root
            low = max(low, e)
        return math.log(low) * (1 - 1e-9)


class _Cells:
    """Coarse cells of one direction and the weight table on a grid of positions."""

    def __init__(self, pair, delta, counts):
        most = float(counts[-1])
        cells = _coarse_cells(pair, delta, most)
        levels = _levels(most)
        self.cells = cut_cells(cells, levels, levels)
        ends = np.geomspace(1e-4 / most, 0.5, 1000)
        self.grid = np.unique(np.concatenate([[0.0], ends, 1 - np.geomspace(1e-9, 0.5, 400), [1.0]]))
        self._table = _slopes(self.grid, counts)  # w(r) = sum_k p_k k (1-r)^(k-1)

    def log_weight(self, masses=None, run_count=None):
        """log w on the grid."""
        if run_count is None:
            return np.log(np.maximum(self._table @ masses, 1e-300))
        with np.errstate(all="ignore"):
            return np.clip(run_count.log_weight(self.grid), -690.0, 690.0)

    def at(self, position, log_weight):
        return np.exp(np.interp(position, self.grid, log_weight))


def _coarse_cells(pair, delta, most):
    """Merge the atoms to about ``_CELLS`` losses, between tails too light to matter."""
    if pair.size <= _CELLS:
        return pair_cells(pair)
    high = np.cumsum(pair.p[::-1])
    first = int(np.searchsorted(high, 1e-5 * max(delta, 1e-15) / min(most, 30.0)))
    low = np.cumsum(np.maximum(pair.p, pair.q))
    last = int(np.searchsorted(low, 1e-3 / most))
    top, bottom = pair.losses[::-1][min(first, pair.size - 1)], pair.losses[min(last, pair.size - 1)]
    return merge_cells(pair, loss_edges(pair, (top - bottom) / _CELLS, bottom, top))


def _levels(most):
    """Positions in (0, 1) at which cells are cut: log w changes by little in between."""
    near = 0.3 / most * (1 + np.arange(3))
    far = np.geomspace(1.0 / most, 0.98, max(math.ceil(math.log(0.98 * most) / _ETA), 2))
    return np.unique(np.concatenate([near, far, [0.99, 0.995, 0.999]]))


def _slopes(position, counts):
    """k (1 - r)^(k - 1) for each position r and each number of runs k."""
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = np.log1p(-np.minimum(position, 1.0))[:, None]
        return counts * np.exp(np.where(counts > 1, (counts - 1) * rest, 0.0))


class _Direction:
    """Orders of the pair (P, Q): the dynamic program V with its best path."""

    def __init__(self, pair, delta, counts):
        self._weights = _Cells(pair, delta, counts)
        cells = self._weights.cells
        useful = np.flatnonzero(cells.losses[::-1] > -1e-9)  # w(r) >= w(s) gives nothing below
        reach = np.flatnonzero(cells.losses[::-1] > -self._spare(cells))
        n_columns = int(max(useful[-1] if useful.size else 0, reach[-1] if reach.size else 0)) + 1
        n_columns = min(n_columns, cells.size)
        nodes = np.arange(cells.size)
        self._p, self._q = cells.p[::-1][:n_columns], cells.q[::-1][:n_columns]
        (low_p, low_q), (high_p, high_q) = cells.low, cells.high
        self._r = high_p[:n_columns, None] + low_p[None, :-1]
        self._s = high_q[:n_columns, None] + low_q[None, :-1]
        self._blocked = nodes[None, :] > cells.size - 1 - np.arange(n_columns)[:, None]
        self._gain_p = self._gain_q = None

    @staticmethod
    def _spare(cells):
        """How far below zero a useful loss may lie: epsilon >= 0 and log w(r) - log w(s) >= 0."""
        return float(np.max(cells.losses[np.isfinite(cells.losses)], initial=0.0))

    def weigh(self, masses=None, run_count=None):
        """Set the distribution of K: approximate gains of every step, enough to find paths."""
        log_weight = self._weights.log_weight(masses, run_count)
        middle_r = self._r + 0.5 * self._p[:, None]
        middle_s = self._s + 0.5 * self._q[:, None]
        self._gain_p = self._weights.at(middle_r, log_weight) * self._p[:, None]
        self._gain_q = self._weights.at(middle_s, log_weight) * self._q[:, None]
        self._gain_p[self._blocked] = 0.0
        self._gain_q[self._blocked] = 0.0

    def worst(self, e):
        """Return the S steps (j, k) of the best path at E, or None if it gains nothing."""
        gain = np.maximum(self._gain_p - e * self._gain_q, 0.0)
        value = np.zeros((gain.shape[0] + 1, gain.shape[1]))
        for j in range(gain.shape[0] - 1, -1, -1):
            value[j] = np.maximum.accumulate((gain[j] + value[j + 1])[::-1])[::-1]
        columns, nodes, k = [], [], 0
        for j in range(gain.shape[0]):
            if value[j, k] <= 0.0:
                break
            k += int(np.argmax(gain[j, k:] + value[j + 1, k:]))
            if gain[j, k] > 0.0:
                columns.append(j)
                nodes.append(k)
        return (np.array(columns), np.array(nodes)) if columns else None

    def _ends(self, order):
        r, s = self._r[order], self._s[order]
        return (r, r + self._p[order[0]]), (s, s + self._q[order[0]])

    def coefficients(self, order, counts):
        """Return (A, B): for each number of runs, what the steps of ``order`` add."""
        return tuple(_power_drop(start, stop, counts) for start, stop in self._ends(order))

    def attained(self, order, run_count):
        """Return (A . p, B . p) for any run count: what its order really attains."""
        ends = self._ends(order)
        values = [
            np.asarray(run_count.attainment(np.minimum(stop, 1.0)))
            - np.asarray(run_count.attainment(np.minimum(start, 1.0)))
            for start, stop in ends
        ]
        return float(values[0].sum()), float(values[1].sum())


def _power_drop(start, stop, counts):
    """Sum over steps of (1 - start)^i - (1 - stop)^i for each i in ``counts``."""
    with np.errstate(divide="ignore"):
        log_start = np.log1p(-np.minimum(start, 1.0))[:, None]
        log_stop = np.log1p(-np.minimum(stop, 1.0))[:, None]
        ratio = np.maximum(log_stop - log_start, -800.0)  # both ends at 1: nothing left
        ratio = np.where(np.isfinite(log_start), ratio, 0.0)
    kept = np.exp(np.maximum(counts * np.maximum(log_start, -800.0), -745.0))
    return np.sum(kept * -np.expm1(counts * ratio), axis=0)


class _PureDirection:
    """delta = 0: epsilon = top loss + the largest log w(r) - log w(s) on the trade-off curve.

    E >= e^top w(r) / w(s) is linear in p as well: A_k = e^top k (1-r)^(k-1), B_k = k (1-s)^(k-1).
    """

    def __init__(self, pair, delta, counts):
        cells = _Cells(pair, delta, counts).cells
        top = np.flatnonzero(cells.losses < cells.losses[-1] - 1e-9)
        last = int(top[-1]) + 1 if top.size else 0
        self._r, self._s = cells.low[0][: last + 1], cells.low[1][: last + 1]
        self._lift = math.exp(min(float(cells.losses[-1]), 600.0))
        self._a = self._lift * _slopes(self._r, counts)
        self._b = _slopes(self._s, counts)
        self._ratio = None

    def weigh(self, masses=None, run_count=None):
        with np.errstate(divide="ignore", invalid="ignore"):
            if run_count is None:
                self._ratio = np.log(self._a @ masses) - np.log(self._b @ masses)
            else:
                log_w = [np.asarray(run_count.log_weight(np.minimum(x, 1.0))) for x in (self._r, self._s)]
                self._ratio = math.log(self._lift) + log_w[0] - log_w[1]
        self._ratio = np.nan_to_num(self._ratio, nan=-np.inf)

    def worst(self, e):
        return int(np.argmax(self._ratio))

    def coefficients(self, order, counts):
        return self._a[order], self._b[order]

    def attained(self, order, run_count):
        return math.exp(min(float(self._ratio[order]), 600.0)), 1.0
