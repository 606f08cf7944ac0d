"""Dominating pairs made from atoms, from profiles, from other libraries and from other pairs."""

import numpy as np

from skdptune.accounting._pairs import DominatingPair

__all__ = [
    "mixture_pair",
    "pair_from_atoms",
    "pair_from_pmf",
    "pair_from_profile",
    "pair_from_two_pmfs",
    "pair_from_two_profiles",
    "without_excess",
    "worst_pair",
]

_ROUNDING_MASS = 1e-12  # mass gained or lost below it is rounding
# profiles are joined up to here (nats): masses of e^-epsilon keep their digits as doubles
_LARGEST_EPSILON = 600.0


def without_excess(losses, p, q, p_infinite=0.0, q_zero=0.0):
    """Return the masses of a pair whose cells were rounded up, with both measures one again.

    Parameters
    ----------
    losses, p, q : ndarray of shape (n,)
        Atoms, ascending, each at least as heavy as the truth's of the same loss, ``p = q e^loss``.
    p_infinite, q_zero : float

    Returns
    -------
    p, q : ndarray of shape (n,)
        Unchanged where nothing exceeds one, or where no few atoms can take the excess.

    Notes
    -----
    An atom c at or near loss zero gives up the excess; what stands between it and two neighbours i < c < j is
    spread to these three. Outside [i, j] both profiles stay as they were, so above the truth's; at c the
    new one is the smaller of the two old ones (read in either direction); in between it is straight in e^eps and
    the truth's is convex. So the new pair dominates what the masses were rounded up from, in both
    directions (doc/theory/composition).

    Examples
    --------
    >>> l = np.log([0.25, 0.5, 1.0, 2.0, 4.0])
    >>> q = np.array([0.16, 0.2, 0.5, 0.1, 0.04])
    >>> p, q = without_excess(l, q * np.exp(l) * (1 + 1e-6), q * (1 + 1e-6))
    >>> bool(abs(q.sum() - 1) < 1e-15), round(float(q[2]), 4)
    (True, 0.5)
    """
    over_p, over_q = (
        float(np.sum(m, dtype=np.longdouble) + np.longdouble(rest) - 1) for m, rest in ((p, p_infinite), (q, q_zero))
    )
    if max(over_p, over_q) <= 4e-16 or losses.size < 3:
        return p, q
    near = int(np.argmin(np.abs(losses)))
    first, last = max(near - 4, 1), min(near + 5, losses.size - 1)
    if first >= last:
        return p, q
    centre = first + int(np.argmax((p + q)[first:last]))
    for reach in 2 ** np.arange(8):
        low, high = max(centre - reach, 0), min(centre + reach, losses.size - 1)
        with np.errstate(over="ignore"):
            ratio = np.exp(losses[[low, centre, high]])
        found = _three_masses(ratio, p, q, (low, centre, high), over_p, over_q)
        if found is not None:
            p, q = p.copy(), q.copy()
            p[low : high + 1], q[low : high + 1] = 0.0, 0.0
            q[[low, centre, high]] = found
            p[[low, centre, high]] = found * ratio
            return p, q
    return p, q


def _three_masses(ratio, p, q, places, over_p, over_q):
    """Return the Q-masses of three atoms that hold what all between the outer two held, less the excess.

    None if one of them would be negative.
    """
    low, centre, high = places
    a, b, c = (np.longdouble(value) for value in ratio)
    if not (0 < a < b < c < np.inf):
        return None
    above, below = slice(centre + 1, high + 1), slice(low, centre)
    # the profile at b read from above exceeds the one read from below by this
    ahead = over_p - b * over_q
    up = (np.sum(p[above] - b * q[above]) - max(ahead, 0)) / (c - b)
    down = (np.sum(b * q[below] - p[below]) - max(-ahead, 0)) / (b - a)
    middle = np.sum(q[low : high + 1], dtype=np.longdouble) - over_q - up - down
    found = np.array([down, middle, up])
    return found.astype(float) if np.all(found >= 0) else None


def pair_from_atoms(losses, p, q, p_infinite=0.0, q_zero=0.0, spacing=None, symmetric=False):
    """Return a pair from atoms in any order; atoms of equal loss are merged (exact).

    Examples
    --------
    >>> pair_from_atoms([1.0, -1.0, 1.0], [0.5, 0.2, 0.3], [0.2, 0.5, 0.3]).size
    2
    """
    losses, p, q = (np.asarray(v, dtype=np.float64) for v in (losses, p, q))
    places, inverse = np.unique(losses, return_inverse=True)
    p = np.bincount(inverse, p, places.size)
    q = np.bincount(inverse, q, places.size)
    keep = (p > 0) | (q > 0)
    return DominatingPair(places[keep], p[keep], q[keep], p_infinite, q_zero, spacing, symmetric)


def mixture_pair(pairs, weights):
    """Return the pair of a public random choice among ``pairs`` (the choice is released).

    The disjoint union of the pairs, each scaled by its weight: exact, in both directions.
    """
    weights = np.asarray(weights, dtype=np.float64)
    spacings = {pair.spacing for pair in pairs}
    spacing = spacings.pop() if len(spacings) == 1 else None
    losses = np.concatenate([pair.losses for pair in pairs])
    if spacing is not None:  # equal multiples computed apart must merge
        losses = np.rint(losses / spacing) * spacing
    return pair_from_atoms(
        losses,
        np.concatenate([w * pair.p for pair, w in zip(pairs, weights, strict=True)]),
        np.concatenate([w * pair.q for pair, w in zip(pairs, weights, strict=True)]),
        float(sum(w * pair.p_infinite for pair, w in zip(pairs, weights, strict=True))),
        float(sum(w * pair.q_zero for pair, w in zip(pairs, weights, strict=True))),
        spacing,
        all(pair.symmetric for pair in pairs),
    )


def pair_from_profile(losses, deltas, spacing=None):
    """Return the pair whose profile joins certified hockey-stick values by straight lines.

    Parameters
    ----------
    losses : array-like of shape (n,), ascending
        The epsilons (nats, any sign) at which the profile was bounded.
    deltas : array-like of shape (n,)
        Upper bounds of H_{e^eps}(P|Q) there. The true profile is convex in e^eps and equals one
        at e^eps = 0, so it lies below the largest convex function under the points, which is
        what is used: noise in the values can only be removed where convexity proves it wrong.

    Notes
    -----
    Connect the dots: Doroshenko et al., arXiv 2207.04380v1, Algorithm 1. Beyond the last loss the
    profile stays at its last value, as mass of infinite loss. Values at negative losses are near
    one and hide small masses: :func:`pair_from_two_profiles` keeps them.

    Examples
    --------
    >>> pair = pair_from_profile([-1.0, 0.0, 1.0], [0.7, 0.4, 0.1])
    >>> round(float(pair.delta(0.0)), 12)
    0.4
    """
    eps = np.asarray(losses, dtype=np.float64)
    deltas = np.clip(np.asarray(deltas, dtype=np.float64), 0.0, 1.0)
    deltas = np.maximum(deltas, -np.expm1(np.minimum(eps, 0.0)))
    x, y = np.concatenate([[0.0], np.exp(eps)]), np.concatenate([[1.0], deltas])
    hull = _lower_hull(x, y)
    x, y, node = x[hull], y[hull], eps[hull[1:] - 1]
    slopes = np.minimum(np.append(np.diff(y) / np.diff(x), 0.0), 0.0)  # the last piece is flat
    q = np.maximum(np.diff(slopes), 0.0)
    q_zero = max(0.0, 1.0 + float(slopes[0]))
    return DominatingPair(node, q * x[1:], q, float(y[-1]), q_zero, spacing)


def pair_from_two_profiles(losses, forward, backward, spacing=None):
    """Return the pair from bounds of both orders' profiles at losses >= 0.

    Parameters
    ----------
    losses : array-like of shape (n,), ascending from 0
    forward, backward : array-like of shape (n,)
        Upper bounds of H_{e^eps}(P|Q) and of H_{e^eps}(Q|P) there. Small masses on both sides
        keep their digits. What a profile has beyond 600 nats counts as mass of infinite loss.

    Examples
    --------
    >>> pair = pair_from_two_profiles([0.0, 1.0], [0.4, 0.1], [0.4, 0.0])
    >>> round(float(pair.swap().delta(0.0)), 12), pair.q_zero
    (0.4, 0.0)
    """
    eps = np.asarray(losses, dtype=np.float64)
    forward, backward = (np.minimum(np.asarray(v, dtype=float), 1.0) for v in (forward, backward))
    # leaving points out only raises what is joined: beyond the last one a profile stays where it is
    near = eps <= _LARGEST_EPSILON
    eps, forward, backward = eps[near], forward[near], backward[near]
    # profiles do not rise with epsilon: a bound at a smaller epsilon serves a larger one
    forward, backward = (np.minimum.accumulate(v) for v in (forward, backward))
    # both start at the total variation distance, which no chord across zero may undercut, nor one
    # from the value 1 at e^eps = 0 (in either order)
    start = min(forward[0], backward[0], _chord_at_one(eps[1:], forward[1:], backward[1:]))
    start = min(start, *(float(np.min(1 - (1 - v) * np.exp(-eps))) for v in (forward, backward)))
    forward, backward = np.minimum(forward, start), np.minimum(backward, start)
    halves = [_half(eps, np.append(start, values[1:])) for values in (forward, backward)]
    (up, p_up, q_up, p_infinite), (down, q_down, p_down, q_zero) = halves
    # negative only by rounding, where the chord leaves no mass at zero
    p_rest = max(1 - p_up.sum() - p_infinite - p_down.sum(), 0.0)
    q_rest = max(1 - q_up.sum() - q_zero - q_down.sum(), 0.0)
    return pair_from_atoms(
        np.concatenate([-down, [0.0], up]),
        np.concatenate([p_down, [p_rest], p_up]),
        np.concatenate([q_down, [q_rest], q_up]),
        p_infinite,
        q_zero,
        spacing,
    )


def _chord_at_one(eps, forward, backward):
    """Return the least value at e^eps = 1 of a line between a bound at -eps_j and one at eps_i.

    The true profile is convex in e^eps, so it lies below every such line. All terms are positive: small
    masses on either side keep their digits.
    """
    if not eps.size:
        return 1.0
    right, left = np.exp(eps)[None, :], np.exp(-eps)[:, None]
    over, under = np.expm1(eps)[None, :], -np.expm1(-eps)[:, None]  # right - 1 and 1 - left
    flipped = under + left * backward[:, None]  # the profile of (P, Q) at -eps_j
    return float(np.min((over * flipped + under * forward[None, :]) / (right - left)))


def _half(eps, deltas):
    """Return (losses, heavier masses, lighter masses, infinite mass) of the losses above zero."""
    hull = _lower_hull(np.exp(eps), deltas)
    x, y, node = np.exp(eps[hull]), deltas[hull], eps[hull]
    slopes = np.minimum(np.append(np.diff(y) / np.diff(x), 0.0), 0.0)
    light = np.maximum(np.diff(slopes), 0.0)
    return node[1:], light * x[1:], light, float(y[-1])


def _lower_hull(x, y):
    """Return the indices of the lower convex hull of points with ascending x."""
    hull = []
    for i in range(x.size):
        while len(hull) >= 2:
            a, b = hull[-2], hull[-1]
            if (y[b] - y[a]) * (x[i] - x[b]) >= (y[i] - y[b]) * (x[b] - x[a]):
                hull.pop()
            else:
                break
        hull.append(i)
    return np.array(hull)


def _pmf_atoms(pmf):
    """Return (losses, p, p_infinite, spacing) of a dp_accounting probability mass function."""
    dense = pmf.to_dense_pmf()
    spacing = float(dense._discretization)
    losses = (dense._lower_loss + np.arange(dense.size)) * spacing
    p = np.maximum(np.asarray(dense._probs, dtype=np.float64), 0.0)
    return losses[p > 0], p[p > 0], float(min(dense._infinity_mass, 1.0)), spacing


def pair_from_pmf(pmf, symmetric=False):
    """Return the pair of one of dp_accounting's probability mass functions (pessimistic).

    The function holds the P-mass of each loss; the Q-mass follows from the ratio, and Q-mass that
    is missing sits at zero ratio. P-mass gained by rounding in a composition is taken from the
    lowest losses: the profile above them is kept, and below them it becomes the straight line to
    (0, 1), under which no convex profile can pass.
    """
    losses, p, p_infinite, spacing = _pmf_atoms(pmf)
    excess = float(p.sum()) + p_infinite - 1
    if excess > _ROUNDING_MASS:
        gone = np.minimum(np.maximum(excess - (np.cumsum(p) - p), 0.0), p)
        keep = p - gone > 0
        losses, p = losses[keep], (p - gone)[keep]
    elif excess < 0:
        p_infinite -= excess  # mass lost by rounding: at infinite loss
    q = p * np.exp(-losses)
    q_zero = max(1 - float(q.sum()), 0.0)
    return DominatingPair(losses, p, q, p_infinite, q_zero, spacing, symmetric)


def pair_from_two_pmfs(remove, add):
    """Return the pair that covers two probability mass functions, one for each direction.

    Only what both state for epsilon >= 0 is used, since that is what they are built and tested
    for; for epsilon < 0 each direction follows from the other.
    """
    return worst_pair([_upper_part(remove), _upper_part(add).swap()])


def _upper_part(pmf):
    """Return the least pair with the function's profile at epsilon >= 0.

    Atoms of positive loss stay; all other mass becomes one atom, which keeps the sums at one
    whatever mass a composition gained.
    """
    losses, p, p_infinite, _ = _pmf_atoms(pmf)
    losses, p = losses[losses > 0], p[losses > 0]
    q = p * np.exp(-losses)
    p_rest, q_rest = 1 - float(p.sum()) - p_infinite, 1 - float(q.sum())
    if p_rest <= 0 or q_rest <= 0:  # hardly private at all
        return DominatingPair(losses, p, q, p_infinite + max(p_rest, 0), max(q_rest, 0))
    at = np.log(p_rest) - np.log(q_rest)
    return pair_from_atoms(
        np.append(losses, at), np.append(p, p_rest), np.append(q, q_rest), p_infinite
    )


def worst_pair(pairs):
    """Return the pair whose profile is the largest of the given ones, at every epsilon.

    Between two neighbouring atoms of the union each profile is linear in e^eps, so the upper
    envelope of the lines is exact; it is convex and has both masses one.
    """
    pairs = list(pairs)
    best = pairs[0]
    for pair in pairs[1:]:
        best = _worst_of_two(best, pair)
    return best


def _worst_of_two(one, two):
    """Return the upper envelope of two profiles."""
    if one.cache_key == two.cache_key:
        return one
    nodes = np.union1d(one.losses, two.losses)
    ahead = _advantage(one, two, nodes)
    if np.all(ahead >= 0) and one.p_infinite >= two.p_infinite and one.q_zero >= two.q_zero:
        return one
    if np.all(ahead <= 0) and two.p_infinite >= one.p_infinite and two.q_zero >= one.q_zero:
        return two
    # Intervals (-inf, n_0], [n_0, n_1], ..., [n_last, inf). The winner is read at the ends of
    # each. A node keeps its winner's own atom; a change inside an interval is a new atom where
    # the two lines cross.
    first = 0 if one.q_zero >= two.q_zero else 1
    last = 0 if one.p_infinite >= two.p_infinite else 1
    winner = np.where(ahead >= 0, 0, 1)
    left, right = np.append(first, winner), np.append(winner, last)
    at, p_cross, q_cross = _crossings((one, two), nodes, left, right)
    p, q = np.zeros((2, nodes.size)), np.zeros((2, nodes.size))
    for side, pair in enumerate((one, two)):
        place = np.searchsorted(nodes, pair.losses)
        p[side, place], q[side, place] = pair.p, pair.q
    where = np.arange(nodes.size)
    return pair_from_atoms(
        np.concatenate([nodes, at]),
        np.concatenate([p[winner, where], p_cross]),
        np.concatenate([q[winner, where], q_cross]),
        max(one.p_infinite, two.p_infinite),
        max(one.q_zero, two.q_zero),
        None,
        one.symmetric and two.symmetric,
    )


def _crossings(pairs, nodes, left, right):
    """Return (losses, P-masses, Q-masses) of the atoms where the winner changes."""
    cross = np.flatnonzero(left != right)
    before, after = left[cross], right[cross]
    masses, scales = [], []
    for name, rest in (("p", "p_infinite"), ("q", None)):
        above, below = np.empty((2, cross.size)), np.empty((2, cross.size))
        for side, pair in enumerate(pairs):
            # cumulated from the near end, so that small masses keep their digits
            mass = getattr(pair, name)
            count = np.append(0, np.searchsorted(pair.losses, nodes, side="right"))[cross]
            up = np.append(np.cumsum(mass[::-1])[::-1], 0.0)[count]
            above[side] = up + (getattr(pair, rest) if rest else 0.0)
            below[side] = np.append(0.0, np.cumsum(mass))[count] + (0 if rest else pair.q_zero)
        which = np.arange(cross.size)
        drop = above[before, which] - above[after, which]
        rise = below[after, which] - below[before, which]
        low_side = np.append(-np.inf, nodes)[cross] < 0
        masses.append(np.maximum(np.where(low_side, rise, drop), 0.0))
        scales.append(np.where(low_side, below.max(axis=0), above.max(axis=0)))
    low, high = np.append(-np.inf, nodes)[cross], np.append(nodes, np.inf)[cross]
    with np.errstate(divide="ignore", invalid="ignore"):
        at = np.log(masses[0]) - np.log(masses[1])
    at = np.clip(np.where(np.isnan(at), low, at), low, high)
    # a change outside all nodes has no finite crossing to put an atom on
    finite = np.isfinite(at)
    at, p, q = at[finite], masses[0][finite], masses[1][finite]
    # rounded up: the differences lose a rounding of the masses they are taken from; more mass of
    # this loss, with its own ratio, raises both orders' profiles
    lost_p, lost_q = 1e-15 * scales[0][finite], 1e-15 * scales[1][finite]
    with np.errstate(over="ignore"):
        more_p = np.maximum(lost_p, lost_q * np.exp(at))
        more_q = np.maximum(lost_q, lost_p * np.exp(-at))
    return at, p + more_p, q + more_q


def _advantage(one, two, nodes):
    """Return the sign of profile one minus profile two at ``nodes``, zero within rounding."""
    # for negative epsilon compare the swapped profiles: H_x(P|Q) = 1 - x + x H_{1/x}(Q|P)
    up = nodes >= 0
    gap = np.empty(nodes.size)
    scale = np.empty(nodes.size)
    for mask, first, second, sign in (
        (up, one, two, 1.0),
        (~up, one.swap(), two.swap(), -1.0),
    ):
        high, low = first.delta(sign * nodes[mask]), second.delta(sign * nodes[mask])
        gap[mask], scale[mask] = high - low, np.maximum(high, low)
    return np.where(np.abs(gap) <= 1e-13 * scale, 0.0, gap)
