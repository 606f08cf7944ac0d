"""The generic Renyi bound on best-of-K, maximised over what the single run allows.

Paper <-> code: lambda = ``order``, f' = w = ``exp(run_count.log_weight)``, q and q' = r and s.

**The bound.** Let a single run have law P on x and Q on x', and let the published output be the best
of K independent runs under a fixed public order. An output y above which mass r(y) (under P) and
s(y) (under Q) is ranked is published with density w(r) dP, respectively w(s) dQ, w(r) = f'(1 - r),
and with probability f(0) = P(K = 0) the same default is published on both sides. Hence

    e^{(a-1) D_a(A|A')} = P(K=0) + int w(r)^a w(s)^{1-a} dP^a dQ^{1-a}
                       <= P(K=0) + M e^{(a-1) D_a(P|Q)},   M = sup w(r)^a w(s)^{1-a}       (1)

over the pairs (r, s) that a set of outputs can have. (1) is Lemma 7 of Papernot and Steinke
(arXiv 2110.03620v2) with the term P(K=0), without which it is false.

**A sharper form for log-convex w** (Poisson, zero-truncated Poisson, every truncated negative
binomial):

    e^{(a-1) D_a(A|A')} <= 1 + M (e^{(a-1) D_a(P|Q)} - 1).                                  (2)

Proof. Put F = w(r)^a w(s)^{1-a} and x = dP/dQ. Then x^a = h(x) + a x - (a-1) with h >= 0 (the tangent
of a convex function at 1), so the integral in (1) is int F h dQ + int F (a dr - (a-1) ds), the second
a line integral along the curve y -> (r(y), s(y)) from (0, 0) to (1, 1). The first is at most
M int h dQ = M (e^{(a-1) D_a(P|Q)} - 1). For the second, Green's theorem compares the curve with the
diagonal: the form has exterior derivative a (a-1) F [w'(s)/w(s) - w'(r)/w(r)] dr ds, which has the
sign of s - r when log w is convex; the curve runs clockwise around the area between it and the
diagonal where s > r and anti-clockwise where s < r, so in both cases it collects no more than the
diagonal does, int w(r) dr = 1 - f(0). Adding P(K=0) = f(0) gives (2). For M >= 1 (E[K] >= 1 is enough,
since (0, 0) is feasible) (2) implies (1) without its first term, which is why Theorem 6 of the paper
holds for a Poisson mean of at least 1 in spite of K = 0.

**Rounding.** M decreases in r and increases in s, so on a cell r in [r_i, r_{i+1}] it is at most its
value at (r_i, s_max(r_{i+1})): whole cells are compared, never nodes alone. Cells that matter are cut
until the loss is below ``tolerance``; the bound is valid at every stage.
"""

import numpy as np
from scipy.special import expit, logit

__all__ = [
    "ConditionedRegion",
    "PairRegion",
    "RdpRegion",
    "one_way_rdp",
    "peak_weight",
    "region_rdp",
]

_LOGIT_LOW, _LOGIT_HIGH = -230.0, 36.0
_GRID = 600  # nodes of the first grid of the maximisation (any number is sound)
_PRECISION = 1e-4  # nats; largest wanted excess of a Renyi bound over the region's exact value
_ROUNDS = 8  # of refinement, at most
_CUTS = 8  # pieces of a cell that is refined
_SLACK = 1e-12  # relative; every comparison of rounded numbers gives this much away
_FEW_ATOMS = 20_000  # pairs with more are coarsened before their divergence is summed
_TINY = 1e-15  # nats; keeps divergences where 1 - e^-D is not rounded to zero
_BRACKET = 1e-9  # relative; covers the width of a bisection bracket when a chord is extended


class RdpRegion:
    """The (r, s) that a run with this RDP curve allows for a set of outputs.

    By data processing the two-point laws (r, 1-r) and (s, 1-s) are as close, both ways and at every
    order, as the curve says. Orders at or below 1 and infinite values say nothing and are dropped;
    dropping any constraint only enlarges the region, so every shortcut here is safe.

    The region is convex (e^{(a-1) D_a} is jointly convex), so its upper boundary is concave: between
    two nodes it lies below the extensions of the neighbouring chords. That bound is what
    :meth:`boundary` returns, from nodes solved once.

    Parameters
    ----------
    orders, rdp : array_like (n_orders,)
        A curve that holds in both directions, nats.
    """

    def __init__(self, orders, rdp):
        orders, rdp = np.asarray(orders, dtype=float), np.asarray(rdp, dtype=float)
        keep = (orders > 1.0) & np.isfinite(orders) & np.isfinite(rdp)
        orders, limits = orders[keep], np.maximum(rdp[keep], 0.0)
        # Both directions of the two-point divergence: exponents (a, 1-a) on (r, s) and (1-a, a).
        self._on_r = np.concatenate([orders, 1.0 - orders])
        self._on_s = np.concatenate([1.0 - orders, orders])
        self._scale = np.tile(orders - 1.0, 2)
        self._limit = np.tile(limits, 2) * (1.0 + _SLACK) + _SLACK  # looser: private side
        self._nodes = None
        if self._scale.size:
            self._nodes = self._solve_nodes()

    def _solve_nodes(self):
        """Nodes (r, s) of the boundary: a coarse grid first, whose chords start the fine one."""
        coarse = np.concatenate([np.linspace(_LOGIT_LOW, -34.0, 80), np.linspace(-33.0, 29.0, 125)])
        r = expit(coarse)
        s = self._solve(r, np.full(len(r), _LOGIT_HIGH + 4.0), rounds=10)
        self._nodes = self._with_ends(r, s)
        fine = np.linspace(-33.0, 29.0, 1489)  # 12 steps to one of the coarse grid
        fine = expit(fine[np.arange(1489) % 12 != 0])
        start = self.boundary(fine)
        with np.errstate(divide="ignore"):
            start = np.minimum(logit(start), _LOGIT_HIGH + 4.0)
        r = np.concatenate([r, fine])
        s = np.concatenate([s, self._solve(fine, start, rounds=3)])
        rank = np.argsort(r)
        return self._with_ends(r[rank], s[rank])

    @staticmethod
    def _with_ends(r, s):
        # r = 0 < s has infinite divergence of every order > 1 of (s, 1-s) from (0, 1): s(0) = 0.
        return np.concatenate([[0.0], r, [1.0]]), np.concatenate([[0.0], s, [1.0]])

    def boundary(self, r):
        """Return an upper bound of the largest s feasible with each r."""
        r = np.asarray(r, dtype=float)
        if self._nodes is None:
            return np.ones_like(r)
        at, s = self._nodes
        last = len(at) - 2
        cell = np.clip(np.searchsorted(at, r, side="right") - 1, 0, last)
        slope = np.diff(s) / np.diff(at)
        left, right = np.maximum(cell - 1, 0), np.minimum(cell + 1, last)
        # Concave: below the chord before the cell, drawn on, and the chord after it, drawn back.
        before = np.where(cell > 0, s[cell] + slope[left] * (r - at[cell]), 1.0)
        after = np.where(cell < last, s[cell + 1] - slope[right] * (at[cell + 1] - r), 1.0)
        bound = np.minimum(np.minimum(before, after), s[cell + 1])
        bound = np.maximum(bound * (1.0 + _BRACKET), r)  # rounded up: private side
        return np.where(r <= 0.0, 0.0, np.minimum(bound, 1.0))

    def _solve(self, r, high, rounds):
        """Bisection on logit(s) from above, per node for the constraint it violates most."""
        log_r, log_not_r, low = np.log(r), np.log1p(-r), logit(r)
        high = np.maximum(high, low)
        for _ in range(rounds):
            excess = self._excess(log_r[:, None], log_not_r[:, None], high[:, None], slice(None))
            worst = np.argmax(excess, axis=1)
            todo = np.flatnonzero(excess[np.arange(len(r)), worst] > _SLACK)
            if not todo.size:
                break
            high[todo] = self._bisect(
                log_r[todo], log_not_r[todo], low[todo], high[todo], worst[todo]
            )
        s = np.where(high >= _LOGIT_HIGH + 4.0, 1.0, expit(high))
        return np.minimum(np.maximum(s, r), 1.0)

    def _bisect(self, log_r, log_not_r, low, high, constraint):
        low = low.copy()
        for _ in range(44):
            middle = 0.5 * (low + high)
            outside = self._excess(log_r, log_not_r, middle, constraint) > 0.0
            high = np.where(outside, middle, high)
            low = np.where(outside, low, middle)
        return high  # the infeasible end of the bracket: private side

    def _excess(self, log_r, log_not_r, z, which):
        """(two-point divergence - limit) of the constraints ``which`` at s = expit(z)."""
        log_s, log_not_s = -np.logaddexp(0.0, -z), -np.logaddexp(0.0, z)
        on_r, on_s = self._on_r[which], self._on_s[which]
        total = np.logaddexp(on_r * log_r + on_s * log_s, on_r * log_not_r + on_s * log_not_s)
        return total / self._scale[which] - self._limit[which]


class PairRegion:
    """The (r, s) of a dominating pair: below its trade-off curve, whose sets have low ratios.

    Parameters
    ----------
    pair : DominatingPair
        Ascending losses, masses ``p`` and ``q``, ``q_zero`` (Q-mass where P = 0).
    """

    def __init__(self, pair):
        self._r = np.concatenate([[0.0], np.cumsum(pair.p), [1.0]])
        self._s = np.concatenate([[pair.q_zero], pair.q_zero + np.cumsum(pair.q), [1.0]])
        np.minimum(self._r, 1.0, out=self._r)

    def boundary(self, r):
        """Return the largest s feasible with each r: linear between vertices, as atoms divide."""
        s = np.interp(r, self._r, self._s)
        # 1e-10 covers the rounding of both cumulative sums (s is concave in r): private side
        return np.minimum(s * (1.0 + 1e-10), 1.0)


class ConditionedRegion:
    """The (r, s) of a run on condition of an event of mass 1 - delta_zero on both sides.

    P = (1-d) P_good + d P_bad, Q likewise, so for every set P(E) <= (1-d) P_good(E) + d and
    Q_good(E) <= Q(E) / (1-d): the unconditional region bounds the conditional one, whatever the
    event is. Where a curve for the good part is known as well, both bounds hold.

    Parameters
    ----------
    region : PairRegion
        Of the unconditional run.
    delta_zero : float
    good : RdpRegion or None
        From the curve that holds on condition of the event.
    """

    def __init__(self, region, delta_zero, good=None):
        self._region, self._delta_zero, self._good = region, delta_zero, good

    def boundary(self, r):
        """Return an upper bound of the largest s feasible with each r."""
        d = self._delta_zero
        lifted = np.minimum(r + d * (1.0 - np.asarray(r)), 1.0)
        s = np.minimum(self._region.boundary(lifted) / (1.0 - d) * (1.0 + _SLACK), 1.0)
        return s if self._good is None else np.minimum(s, self._good.boundary(r))


def peak_weight(region, log_weight, on_r, on_s, tolerance):
    """Bound sup over the region of ``on_r * log w(r) - on_s * log w(s)`` from above.

    Parameters
    ----------
    region : RdpRegion or PairRegion
    log_weight : callable
        Vectorised log w, decreasing.
    on_r, on_s, tolerance : array_like (n,)
        Non-negative coefficients, and how much each result may exceed the supremum (a target: the
        refinement stops after a few rounds and the result is an upper bound all the same).

    Returns
    -------
    ndarray (n,)
        ``inf`` where w(0) is infinite, or w(1) = 0 is reached within the last cell.
    """
    on_r, on_s = np.atleast_1d(on_r).astype(float), np.atleast_1d(on_s).astype(float)
    tolerance = np.broadcast_to(tolerance, on_r.shape)
    z = np.linspace(_LOGIT_LOW, _LOGIT_HIGH, _GRID)
    ends = np.concatenate([[0.0], expit(z), [1.0]])[None, :]
    # Objective which[i] looks at the pieces ends[group[i]]; objectives share pieces.
    which = np.arange(len(on_r))
    group = np.zeros_like(which)
    top, best = np.full(len(on_r), -np.inf), np.full(len(on_r), -np.inf)
    for step in range(_ROUNDS):
        upper, reached = _cell_values(ends, region, log_weight, on_r[which], on_s[which], group)
        np.maximum.at(best, which, reached)
        # A cell is cut when it could still raise the bound by more than the tolerance.
        splittable = (ends[:, :-1] > 0.0) & (ends[:, 1:] - ends[:, :-1] > 1e-10 * ends[:, 1:])
        cut = (upper > (best + tolerance)[which, None]) & splittable[group] & np.isfinite(upper)
        cut &= step < _ROUNDS - 1 and np.count_nonzero(cut) < 200_000
        np.maximum.at(top, which, np.where(cut, -np.inf, upper).max(axis=1))
        row, column = np.nonzero(cut)
        if not row.size:
            break
        cell = group[row] * (ends.shape[1] - 1) + column
        cells, group = np.unique(cell, return_inverse=True)
        source, column = np.divmod(cells, ends.shape[1] - 1)
        ends = _cut(ends[source, column], ends[source, column + 1])
        which = which[row]
    return top


def _cell_values(ends, region, log_weight, on_r, on_s, group):
    """Upper bound on each cell, shape (n, n_cells), and the largest value at a node, shape (n,)."""
    at_r = log_weight(ends)[group]
    # Running maximum: an upper bound of s that increases with r, as the true one does.
    at_s = log_weight(np.maximum.accumulate(region.boundary(ends), axis=1))[group]
    on_r, on_s = on_r[:, None], on_s[:, None]
    with np.errstate(invalid="ignore"):
        # The heaviest w(r) at the cell's lower end, the lightest w(s) at its upper end.
        upper = on_r * at_r[:, :-1] - on_s * at_s[:, 1:]
        reached = on_r * at_r - on_s * at_s
    upper[np.isnan(upper)] = np.inf
    return upper, np.where(np.isnan(reached), -np.inf, reached).max(axis=1)


def _cut(low, high):
    """Ends of the pieces of each cell: even in logit(r), or in r where the cell ends at 1."""
    share = np.linspace(0.0, 1.0, _CUTS + 1)
    low, high = low[:, None], high[:, None]
    linear = low + (high - low) * share
    with np.errstate(divide="ignore", invalid="ignore"):
        even = expit(logit(low) + (logit(high) - logit(low)) * share)
    ends = np.where(high < 1.0, even, linear)
    ends[:, :1], ends[:, -1:] = low, high  # exact: neighbouring pieces leave no gap
    return np.maximum.accumulate(ends, axis=1)


def one_way_rdp(pair, orders):
    """Renyi divergence D_a(P|Q) of a pair on condition of a finite loss, rounded up.

    Outside an event of mass ``pair.aside`` on both sides (the heavier one thinned) the laws are
    P / (1 - p_infinite) and Q / (1 - q_zero), restricted to finite losses.

    Parameters
    ----------
    pair : DominatingPair
    orders : ndarray (n_orders,), finite and above 1

    Returns
    -------
    ndarray (n_orders,)
    """
    if pair.p_infinite >= 1.0 or pair.q_zero >= 1.0 or pair.size == 0:
        return np.full(orders.shape, np.inf)
    if pair.size > _FEW_ATOMS:  # a coarser pair dominates this one
        pair = pair.coarsen((pair.losses[-1] - pair.losses[0]) / _FEW_ATOMS)
    with np.errstate(divide="ignore"):
        # p (p/q)^{a-1} = p e^{(a-1) loss}, the mass from the measure in which it is heavier
        log_p = np.where(pair.losses >= 0, np.log(pair.p), np.log(pair.q) + pair.losses)
    result = np.empty(orders.shape)
    for i, a in enumerate(orders):
        exponent = (a - 1.0) * pair.losses + log_p
        top = exponent.max()
        result[i] = top + np.log(np.exp(exponent - top).sum())
    result += (orders - 1.0) * np.log1p(-pair.q_zero) - orders * np.log1p(-pair.p_infinite)
    return np.maximum(result * (1.0 + _SLACK) + _SLACK, 0.0) / (orders - 1.0) + _TINY


def region_rdp(orders, rdp, region, run_count, *, log_convex):
    """Renyi divergence of best-of-K at ``orders`` by (1), and by (2) where w is log-convex.

    Parameters
    ----------
    orders, rdp : ndarray (n_orders,)
        Divergence D_a(P|Q) of the single run in the direction of ``region``, nats.
    region : RdpRegion or PairRegion
    run_count : object
        With ``log_weight`` and ``p_zero``.
    log_convex : bool
        Whether log w is convex, so that (2) holds.

    Returns
    -------
    ndarray (n_orders,)
        ``inf`` at orders <= 1 and where the single run's divergence is infinite.

    Guarantee
    ---------
    An upper bound for every order on the outputs, ties broken at random, for this direction.

    References
    ----------
    Papernot and Steinke, arXiv 2110.03620v2, Lemma 7, with P(K=0) added; (2) of this module.
    """
    orders, rdp = np.asarray(orders, dtype=float), np.asarray(rdp, dtype=float)
    result = np.full(orders.shape, np.inf)
    live = (orders > 1.0) & np.isfinite(orders) & np.isfinite(rdp)
    if not live.any():
        return result
    a = orders[live]
    tolerance = _PRECISION * np.maximum(a - 1.0, 0.5)
    log_m = peak_weight(region, run_count.log_weight, a, a - 1.0, tolerance)
    divergence = (a - 1.0) * np.maximum(rdp[live], 0.0)
    log_zero = np.log(run_count.p_zero) if run_count.p_zero > 0.0 else -np.inf
    total = np.logaddexp(log_zero, log_m + divergence)  # P(K=0) + M e^{(a-1) D}
    if log_convex:
        sharp = np.isfinite(log_m) & (divergence > 0.0)
        # log(e^x - 1) = x + log(1 - e^-x)
        beyond = divergence[sharp] + np.log(-np.expm1(-divergence[sharp]))
        # 1 + M (e^{(a-1) D} - 1)
        total[sharp] = np.minimum(total[sharp], np.logaddexp(0.0, log_m[sharp] + beyond))
    # rounded up: private side
    result[live] = np.maximum(total * (1.0 + _SLACK), 0.0) / (a - 1.0) + _TINY
    return result
