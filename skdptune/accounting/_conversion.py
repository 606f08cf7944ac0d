"""From Renyi divergences to (epsilon, delta), with every input of dp_accounting fenced.

dp_accounting 0.6.0 returns epsilon 0 for a negative divergence, and its formulas mean nothing at
order 1, at infinite order or for NaN. Only finite orders above 1.01 with finite divergences that
are not negative reach it here; all else counts as no information, which is ``inf``.
"""

import functools

import numpy as np

from skdptune._exceptions import PricingError
from skdptune._validation import invalid_type, invalid_value

__all__ = [
    "check_orders",
    "check_rdp",
    "default_orders",
    "delta_from_rdp",
    "epsilon_from_rdp",
    "profile_from_rdp",
    "refine_orders",
]

_LEAST_ORDER = 1.01  # below it the conversion loses its digits, above it nothing is lost
_LEAST_RDP = 1e-15  # nats


@functools.cache
def default_orders():
    """Return dp_accounting's default orders, a tuple of floats.

    Examples
    --------
    >>> default_orders()[0], default_orders()[-1]
    (1.1, 1024.0)
    """
    from dp_accounting.rdp.rdp_privacy_accountant import DEFAULT_RDP_ORDERS

    return tuple(float(order) for order in DEFAULT_RDP_ORDERS)


def check_orders(orders, name="orders"):
    """Return Renyi orders as a float vector, or raise one clear error.

    Orders lie in [1, inf]. What is asked at order 1 is answered at order 1.01, and at infinite
    order by the pure bound: both are upper bounds.

    Raises
    ------
    InvalidTypeError, InvalidParameterError
        For an empty vector, NaN, or an order below one.

    Examples
    --------
    >>> check_orders([2, 8, 32])
    array([ 2.,  8., 32.])
    """
    expected = "a sequence of numbers, each at least 1"
    advice = "Pass e.g. [2, 8, 32]."
    try:
        values = np.asarray(orders, dtype=np.float64)
    except (TypeError, ValueError):
        raise invalid_type(name, expected, orders, advice) from None
    values = np.atleast_1d(values)
    if values.ndim != 1 or values.size == 0:
        raise invalid_value(name, expected, orders, advice)
    if np.any(np.isnan(values)) or np.any(values < 1):
        raise invalid_value(name, expected, orders, advice)
    return values


def check_rdp(rdp, shape, name="rdp"):
    """Return Renyi divergences as a float vector of ``shape``; NaN and negatives are refused.

    A negative value, however small, means that the code behind it lost its digits: it is not
    taken for zero, because zero divergence would be priced as epsilon 0.

    Raises
    ------
    PricingError

    Examples
    --------
    >>> check_rdp([0.5, 2.0], (2,))
    array([0.5, 2. ])
    """
    try:
        values = np.asarray(rdp, dtype=np.float64)
    except (TypeError, ValueError):
        raise invalid_type(name, "a vector of numbers", rdp) from None
    if values.shape != tuple(shape):
        raise PricingError(
            f"{name} must hold one value per order, shape {tuple(shape)}; "
            f"got shape {values.shape}. Return an array as long as the orders."
        )
    if np.any(np.isnan(values)) or np.any(values < 0):
        raise PricingError(
            f"{name} must not be negative or NaN; got {values[~(values >= 0)][0]}. "
            "Round a divergence up, and use inf where it is unknown."
        )
    return values


def _usable(orders, rdp):
    keep = np.isfinite(orders) & (orders > _LEAST_ORDER) & np.isfinite(rdp) & (rdp >= 0)
    return orders[keep], rdp[keep]


def _left_over(delta, delta_zero):
    """Return the delta left for the divergence once the mass set aside is paid for."""
    # the whole costs delta_zero + (1 - delta_zero) delta': rounded down by one part in 1e15
    return (delta - delta_zero) / (1.0 - delta_zero) * (1 - 1e-15) if delta_zero < 1 else -1.0


def epsilon_from_rdp(orders, rdp, delta, delta_zero=0.0):
    """Return the least epsilon that the divergences give at ``delta``; ``inf`` if none.

    Parameters
    ----------
    orders, rdp : ndarray of shape (n_orders,)
        Divergences in nats. An infinite order states a pure bound.
    delta : float in [0, 1]
    delta_zero : float in [0, 1]
        Mass outside which the divergences hold (Bun and Steinke, arXiv 1605.02065v1, section 8).

    Returns
    -------
    epsilon : float

    References
    ----------
    Canonne, Kamath and Steinke, arXiv 2004.00010v5, Proposition 12, through
    ``dp_accounting.rdp.compute_epsilon``.

    Examples
    --------
    >>> round(epsilon_from_rdp(np.array([8.0]), np.array([0.4]), 1e-5), 4)
    1.6141
    """
    from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon

    orders, rdp = np.asarray(orders, dtype=float), np.asarray(rdp, dtype=float)
    left = _left_over(delta, delta_zero)
    if delta >= 1:
        return 0.0
    pure = rdp[np.isinf(orders)]
    # at delta = delta_zero only a pure bound is left
    best = float(pure.min()) if pure.size and (left > 0 or delta >= delta_zero) else np.inf
    orders, rdp = _usable(orders, rdp)
    if left > 0 and orders.size:
        best = min(best, float(compute_epsilon(orders, rdp, left)[0]))
    return max(best, 0.0)


def delta_from_rdp(orders, rdp, epsilon, delta_zero=0.0):
    """Return the least delta in [0, 1] that the divergences give at ``epsilon`` >= 0.

    See :func:`epsilon_from_rdp`.

    Examples
    --------
    >>> round(delta_from_rdp(np.array([8.0]), np.array([0.4]), 2.0), 9)
    6.71e-07
    """
    from dp_accounting.rdp.rdp_privacy_accountant import compute_delta

    orders, rdp = np.asarray(orders, dtype=float), np.asarray(rdp, dtype=float)
    pure = rdp[np.isinf(orders)]
    if pure.size and pure.min() <= epsilon:
        return min(delta_zero, 1.0)
    best = 1.0
    orders, rdp = _usable(orders, rdp)
    # rounded up: compute_delta takes 1 - e^-r by a subtraction, which loses all digits of a tiny r
    rdp = np.maximum(rdp, _LEAST_RDP) + 4e-16
    if orders.size:
        best = min(best, float(compute_delta(orders, rdp, max(epsilon, 0.0))[0]))
    # the event set aside is charged in full
    return min(delta_zero + (1 - delta_zero) * best, 1.0)


def profile_from_rdp(orders, rdp, epsilons, delta_zero=0.0):
    """Return :func:`delta_from_rdp` at many epsilons >= 0 (Proposition 12 alone, vectorised).

    Examples
    --------
    >>> profile_from_rdp(np.array([8.0]), np.array([0.4]), np.array([2.0])).round(9)
    array([6.71e-07])
    """
    orders, rdp = _usable(np.asarray(orders, dtype=float), np.asarray(rdp, dtype=float))
    epsilons = np.asarray(epsilons, dtype=float)
    least = np.zeros(epsilons.shape)
    for a, r in zip(orders, rdp, strict=True):
        # log of e^{(a-1)(r - eps)} (1 - 1/a)^a / (a - 1)
        np.minimum(least, (a - 1) * (r - epsilons + np.log1p(-1 / a)) - np.log(a), out=least)
    return np.minimum(delta_zero + (1 - delta_zero) * np.exp(least), 1.0)


def refine_orders(rdp, orders, score, rounds=2, points=9):
    """Return ``orders`` with more orders near the one where ``score(orders, rdp)`` is least.

    ``rdp`` is a function of orders. Every order gives a valid bound, so any choice is sound.
    """
    orders = np.sort(np.asarray(orders, dtype=float))
    values = rdp(orders)
    for _ in range(rounds):
        scores = [score(orders[i : i + 1], values[i : i + 1]) for i in range(orders.size)]
        best = int(np.argmin(scores))
        if not np.isfinite(scores[best]):
            break
        low = orders[max(best - 1, 0)]
        high = orders[min(best + 1, orders.size - 1)]
        extra = np.linspace(low, high if np.isfinite(high) else 2 * low, points + 2)[1:-1]
        extra = np.setdiff1d(extra, orders)
        if extra.size == 0:
            break
        merged = np.concatenate([orders, extra])
        values = np.concatenate([values, rdp(extra)])
        sort = np.argsort(merged)
        orders, values = merged[sort], values[sort]
    return orders, values
