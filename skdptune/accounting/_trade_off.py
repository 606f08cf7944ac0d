"""The trade-off curve of f-DP: what a privacy curve leaves to an attacker who tests for one row.

Paper <-> code: f is T(P, Q) of Dong, Roth and Su (arXiv 1905.02383v3), Definition 2.1; the maximum over the
lines of a whole profile is the dual form of their Proposition 2.12.
"""

import functools

import numpy as np

from skdptune._exceptions import PricingError
from skdptune._validation import check_instance, invalid_type, invalid_value
from skdptune.accounting._combinations import Worst
from skdptune.accounting._conversion import default_orders, profile_from_rdp
from skdptune.accounting.curve import PrivacyCurve

__all__ = ["profile_nodes", "trade_off"]

_MOST_NODES = 2000  # epsilons at which a dominating pair is read
_LUMPS = 64  # atoms of a larger pair that are read all the same
_NODES = 400  # epsilons at which a curve without a pair is read
_LEAST_DELTA = 1e-15  # beyond its epsilon a profile adds nothing that a type I error above it could see
_LARGEST_EPSILON = 700.0  # e^epsilon stays a double
_ROUNDING = 1e-15  # of 1 - delta - e^epsilon alpha, a few units in the last place
_BLOCK = 500  # alphas worked on at a time


def trade_off(curve, alpha):
    """Return a lower bound of an attacker's type II error at type I error ``alpha``.

    The attacker sees what was published and decides between two neighbouring data sets. Calling it
    "with the row" where it is "without" is a type I error (a false positive, probability ``alpha``), missing the
    row is a type II error (a false negative). No test whatever has a smaller type II error than the value returned,
    so its true-positive rate is at most ``1 - trade_off(curve, alpha)``.

    Parameters
    ----------
    curve : PrivacyCurve
    alpha : float or array-like
        Type I errors (false-positive rates) in [0, 1], any shape.

    Returns
    -------
    beta : float or ndarray of the same shape
        In [0, 1 - alpha]; rounded down. Convex and falling in ``alpha``. Zero where nothing is known.

    Raises
    ------
    InvalidTypeError, InvalidParameterError

    Notes
    -----
    *Guarantee.* Holds for both orders of two neighbours under ``curve.relation``, so "with" and "without" may be
    exchanged. The bound is the largest over pairs (epsilon, delta) of the curve of ``1 - delta - e^epsilon alpha``
    and ``e^-epsilon (1 - delta - alpha)``. Each pair alone is valid: with S the outcomes at which a test says "with",
    the power Q(S) is at most ``e^epsilon P(S) + delta``, which is the first line; and P(not S) is at most ``e^epsilon
    Q(not S) + delta``, which is the second. Only finitely many pairs are looked at, which can only lower the bound.

    *Assumes* what ``curve`` assumes.

    References
    ----------
    Dong, Roth and Su, arXiv 1905.02383v3, Definition 2.1 and Proposition 2.12.

    Examples
    --------
    >>> from skdptune.accounting import PrivacyCurve
    >>> beta = trade_off(PrivacyCurve.gaussian(1.0), 0.05)
    >>> round(1 - beta, 3)  # the most powerful test at 5 % false positives: 0.2595 for a real Gaussian
    0.26
    >>> trade_off(PrivacyCurve.pure(0.0), [0.0, 0.25, 1.0]).round(6)
    array([1.  , 0.75, 0.  ])
    """
    check_instance("curve", curve, PrivacyCurve, "a PrivacyCurve")
    try:
        asked = np.asarray(alpha, dtype=np.float64)
    except (TypeError, ValueError):
        raise invalid_type("alpha", "a type I error in [0, 1], or an array of them", alpha) from None
    if not np.all((asked >= 0) & (asked <= 1)):
        raise invalid_value("alpha", "in [0, 1]", alpha, "It is a probability: 0.01 means 1 % false positives.")
    epsilons, deltas = profile_nodes(curve)
    flat = asked.ravel()
    found = [
        _conjugate(epsilons, deltas, flat[start : start + _BLOCK]) for start in range(0, max(flat.size, 1), _BLOCK)
    ]
    beta = np.concatenate(found).reshape(asked.shape)
    return float(beta) if beta.ndim == 0 else beta


def _conjugate(epsilons, deltas, alpha):
    """Return the largest line at each alpha, rounded down."""
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        # e^eps alpha in log space: e^eps alone may overflow
        taken = np.exp(epsilons + np.log(alpha)[:, None])
        # rounded down: private side; the error of the exponential grows with its argument
        steep = 1 - deltas - taken - _ROUNDING * (1 + taken * (1 + 2 * epsilons))
        flat = np.exp(-epsilons) * (1 - deltas - alpha[:, None] - _ROUNDING) * (1 - _ROUNDING)  # rounded down
    best = np.maximum(steep, flat).max(axis=1, initial=0.0)
    return np.minimum(best, 1 - alpha)


def profile_nodes(curve):
    """Return epsilons and valid deltas of ``curve`` at them, for both orders of two neighbours.

    Parameters
    ----------
    curve : PrivacyCurve

    Returns
    -------
    epsilons : ndarray of shape (n_nodes,)
        Ascending from 0, finite, in nats.
    deltas : ndarray of shape (n_nodes,)
        Upper bounds of the profile, not rising. The first is the total variation distance: the largest
        advantage of any membership attacker.

    Examples
    --------
    >>> from skdptune.accounting import PrivacyCurve
    >>> epsilons, deltas = profile_nodes(PrivacyCurve.pure(1.0))
    >>> float(epsilons[-1]), round(float(deltas[0]), 4)
    (1.0, 0.4621)
    """
    epsilons = _places(curve)
    deltas = _profile(curve, epsilons)
    pure = curve.epsilon(0.0)
    if pure <= _LARGEST_EPSILON:
        epsilons, deltas = np.append(epsilons, pure), np.append(deltas, 0.0)
    order = np.argsort(epsilons, kind="stable")
    epsilons, deltas = epsilons[order], np.clip(deltas[order], 0.0, 1.0)
    deltas[0] = min(deltas[0], _total_variation(epsilons, deltas))
    # a bound at a smaller epsilon serves a larger one
    return epsilons, np.minimum.accumulate(deltas)


def _total_variation(epsilons, deltas):
    """The least distance that one of the pairs allows, both orders being bounded.

    With p = P(S), q = Q(S) where P is larger: p <= e^eps q + delta and 1 - q <= e^eps (1 - p) + delta. The sum
    says (p - q) (1 + e^eps) <= e^eps - 1 + 2 delta.
    """
    # divided by e^eps, which alone may overflow; rounded up
    shrunk = np.exp(-epsilons)
    values = (-np.expm1(-epsilons) + 2 * deltas * shrunk) / (1 + shrunk) * (1 + _ROUNDING)
    return float(min(values.min(), 1.0))


def _pair(curve):
    try:
        pair = curve.pair
    except PricingError:  # a search whose profile is one everywhere has no pair
        return None
    return pair if pair is not None and pair.size else None


def _parts(curve):
    """The curves of which the worst is taken; they are read one by one where the whole has no pair."""
    nodes = curve.node.nodes if isinstance(curve.node, Worst) else ()
    return [PrivacyCurve(node, curve.relation) for node in nodes]


def _profile(curve, epsilons):
    """Upper bounds of the profile at ``epsilons``; never by asking a search, which would price each anew."""
    pair = _pair(curve)
    if pair is not None:
        return np.asarray(pair.worst_delta(epsilons), dtype=float)
    parts = _parts(curve)
    if parts:
        return np.max([_profile(part, epsilons) for part in parts], axis=0)
    orders = np.array([*default_orders(), np.inf])
    return np.asarray(profile_from_rdp(orders, curve.rdp(orders), epsilons, curve.delta_zero), dtype=float)


def _places(curve):
    """Return the epsilons at which a curve is read, ascending from 0."""
    pair = _pair(curve)
    if pair is not None:
        few = pair.size <= _MOST_NODES
        return _atoms(pair.losses) if few else np.union1d(_grid(curve, _MOST_NODES), _atoms(_lumps(pair)))
    parts = _parts(curve)
    if parts:
        return functools.reduce(np.union1d, (_places(part) for part in parts))
    return _grid(curve, _NODES)


def _atoms(losses):
    """Between two atoms of either order a pair's profile is a straight line in e^epsilon: none is missed."""
    size = np.abs(losses)
    return np.unique(np.concatenate([[0.0], size[size <= _LARGEST_EPSILON]]))


def _lumps(pair):
    """The heaviest atoms: there the profile has kinks that a grid would cut off."""
    return pair.losses[np.argsort(pair.p + pair.q)[-_LUMPS:]]


def _grid(curve, count):
    """Evenly spaced epsilons from zero to where almost nothing is left of the profile."""
    for delta in (_LEAST_DELTA, 1e-9, 1e-6, 1e-3, 0.1, 0.5):
        top = curve.epsilon(delta)
        if top <= _LARGEST_EPSILON:
            return np.linspace(0.0, top, count)
    return np.array([0.0])
