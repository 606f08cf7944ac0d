"""The whole search as a dominating pair, for composition with a refit or another search.

The worst order of outputs may differ between (P, Q) and (Q, P) and between epsilons. The pair joins
certified upper bounds of both orders' profiles by straight lines in e^eps, so it dominates all.
"""

import math

import numpy as np

from skdptune._exceptions import PricingError
from skdptune._validation import check_real
from skdptune.accounting._exact import DEFAULT_RTOL, cached, exact_epsilon
from skdptune.accounting._exact_grid import weight_of
from skdptune.accounting._exact_solver import Grids, fineness, within
from skdptune.accounting._pair_builders import pair_from_two_profiles

__all__ = ["exact_pair", "exact_profile"]

_FLOOR = 1e-16  # profiles are followed down to this delta; the rest becomes infinite loss
_MOST_NODES = 20_000_000  # of a lattice: any fineness is sound
_SHARE = 0.1  # of the largest epsilon of a profile: below it, a tenth of the accuracy will do
_FEW = 5000  # atoms of a pair whose price at delta 0 is soon found
_SMALL = 0.05  # nats; a profile that ends before this is followed to its end
_NODES = 400  # at most about this many epsilons in a profile


def exact_pair(pair, run_count, *, rtol=DEFAULT_RTOL, delta=1e-6):
    """Return a dominating pair of publishing the best of K runs.

    Parameters
    ----------
    pair : DominatingPair
        Dominates one run.
    run_count : RunCount
        The distribution of the number of runs.
    rtol : float in (0, 1), default=0.002
        Relative accuracy in epsilon aimed at, near ``delta``.
    delta : float in (0, 1), default=1e-6
        Where the grid is at its finest. The pair is valid everywhere.

    Returns
    -------
    search : DominatingPair
        Dominates the search in both directions; ``pair`` itself where K is always one.

    Raises
    ------
    PricingError
        If the search has no finite price (every profile bound is one).

    Notes
    -----
    Guarantee and assumptions as for :func:`skdptune.accounting._exact.exact_epsilon`.
    Connect the dots: Doroshenko et al., arXiv 2207.04380v1.

    Examples
    --------
    >>> from skdptune.accounting._pairs import DominatingPair
    >>> from skdptune.run_counts import Fixed, Logarithmic
    >>> pair = DominatingPair([-1.0, 1.0], [0.268941, 0.731059], [0.731059, 0.268941],
    ...                       symmetric=True)
    >>> exact_pair(pair, Fixed(1)) is pair
    True
    >>> search = exact_pair(pair, Logarithmic(mean=10))
    >>> bool(1.936 < search.epsilon(1e-6) < 1.945)
    True
    """
    rtol = check_real("rtol", rtol, low=0.0, high=1.0, low_open=True)
    delta = check_real("delta", delta, low=0.0, high=1.0, low_open=True, high_open=True)
    weight = weight_of(run_count)
    if weight.constant and abs(weight.at_zero - 1) < 1e-12:
        return pair  # one run, always
    if _is_nothing(pair):
        return pair  # both laws are one: no order tells them apart
    key = ("pair", pair.cache_key, run_count, rtol, delta)
    return cached(key, lambda: _join(pair, run_count, rtol, delta))


def _is_nothing(pair):
    return pair.size == 1 and pair.losses[0] == 0 and max(pair.p_infinite, pair.q_zero) == 0


def _join(pair, run_count, rtol, delta):
    # below its infinite mass a profile has no epsilon: look where it has one
    delta = min(max(delta, 1.5 * _infinite(pair, run_count)), 0.9)
    epsilons = _nodes(pair, run_count, rtol, delta)
    forward = exact_profile(pair, run_count, epsilons, rtol=rtol, delta=delta)
    if pair.symmetric:
        backward = forward
    else:
        backward = exact_profile(pair.swap(), run_count, epsilons, rtol=rtol, delta=delta)
    if forward[-1] >= 1 and backward[-1] >= 1:
        raise PricingError(
            "run_count and pair must give a finite price; got one of infinity at every delta. "
            "Use a pair with less mass of infinite loss, or fewer runs."
        )
    return pair_from_two_profiles(epsilons, forward, backward, float(epsilons[1]))


def _nodes(pair, run_count, rtol, delta):
    """Evenly spaced epsilons from zero to where both profiles are negligible."""
    centre = exact_epsilon(pair, run_count, delta, rtol=max(rtol, 1e-2)).upper
    top = _top(pair, run_count, centre)
    scale = _slope_scale(pair, run_count, delta, centre)
    # joining the dots costs about spacing^2 / (8 scale) of epsilon
    spacing = math.sqrt(4 * rtol * max(centre, 0.01) * scale) if math.isfinite(centre) else top / 50
    spacing = max(min(spacing, scale, top / 20), top / _NODES)
    # a multiple of the pair's own spacing, or a whole part of it: composition then finds a common grid
    unit = pair.spacing or 2.0**-16
    spacing = math.floor(spacing / unit) * unit if spacing >= unit else unit / math.ceil(unit / spacing)
    return spacing * np.arange(int(math.ceil(top / spacing)) + 2)


def _infinite(pair, run_count):
    """The mass of infinite loss of the search, the worse of both orders."""
    return float(run_count.attainment(min(max(pair.p_infinite, pair.q_zero), 1.0)))


def _top(pair, run_count, centre):
    """An epsilon at which what is left of both profiles is hardly more than infinite mass."""
    if _infinite(pair, run_count) == 0 and pair.size < _FEW:
        pure = exact_epsilon(pair, run_count, 0.0).upper
        # all that there is, and much cheaper to find than an epsilon at a delta next to nothing
        if 0 < pure <= max(2 * centre, _SMALL) < math.inf:
            return pure
    floor = max(_FLOOR, 1.001 * _infinite(pair, run_count))
    while floor < 1:
        least = exact_epsilon(pair, run_count, floor, rtol=0.3).upper
        if math.isfinite(least):
            return max(least, 1e-3)
        floor *= 10
    return 1.0 + 2.0 * float(np.max(np.abs(pair.losses))) if pair.size else 1.0


def _slope_scale(pair, run_count, delta, centre):
    """By how much epsilon falls where delta grows e-fold, near ``delta``."""
    other = exact_epsilon(pair, run_count, min(delta * math.e, 0.9), rtol=1e-2).upper
    if not (math.isfinite(centre) and math.isfinite(other)):
        return 1.0
    return max(centre - other, 0.01 * centre, 1e-4)


def exact_profile(pair, run_count, epsilons, *, rtol=DEFAULT_RTOL, delta=1e-6):
    """Return upper bounds of the search's hockey-stick divergence in the order (P, Q).

    Parameters
    ----------
    pair : DominatingPair
    run_count : RunCount
    epsilons : ndarray of shape (n_epsilons,), not negative
        In nats. (For negative ones flip: 1 - e^eps + e^eps * the swapped pair's at -eps.)
    rtol, delta : float
        As for :func:`exact_pair`.

    Returns
    -------
    deltas : ndarray of shape (n_epsilons,), in [0, 1]
        W+ of one lattice per range of epsilons; rounded up.

    Examples
    --------
    >>> import numpy as np
    >>> from skdptune.accounting._pairs import DominatingPair
    >>> from skdptune.run_counts import Logarithmic
    >>> pair = DominatingPair([-1.0, 1.0], [0.268941, 0.731059], [0.731059, 0.268941])
    >>> deltas = exact_profile(pair, Logarithmic(mean=10), np.array([0.0, 1.0, 2.5]))
    >>> bool(np.all(np.diff(deltas) < 0) and deltas[2] < 1e-9)
    True
    """
    weight = weight_of(run_count)
    epsilons = np.asarray(epsilons, dtype=np.float64)
    if weight.constant:
        return np.minimum(weight.at_zero * (1 + 1e-12) * pair.delta(epsilons), 1.0)
    centre = exact_epsilon(pair, run_count, delta, rtol=max(rtol, 1e-2)).upper
    scale = _slope_scale(pair, run_count, delta, centre)
    grids = Grids(pair, weight, 1e-3 * _FLOOR)
    finite = centre if math.isfinite(centre) else float(epsilons.max())
    if grids.likeness < 1:  # all of the profile may lie below delta, and matters all the same
        finite = max(finite, _SHARE * float(epsilons.max()))
    step, eta = fineness(rtol, finite, scale, grids.typical_sharpness(), grids.likeness)
    # A lattice made for large epsilons leaves out cells that are useless there. Where w falls to
    # almost nothing these would cost most, so more lattices are worth their time.
    sharp = weight.at_one < 1e-3 * weight.at_zero
    cuts = np.array([0.5, 1.0, 1.5, 2.2] if sharp else [0.6]) * finite
    band = np.searchsorted(cuts, epsilons, side="right")
    deltas = np.ones(epsilons.shape)
    for index in np.unique(band):
        mask = band == index
        lattice = within(grids, step, eta, float(epsilons[mask].min()), _MOST_NODES)[0]
        deltas[mask] = lattice.upper(epsilons[mask])
    return deltas
