"""At which order a new ledger admits the most charges of one kind."""

import math
import sys

import numpy as np

from skdptune._exceptions import PricingError
from skdptune._rounding import as_given
from skdptune._validation import check_real
from skdptune.ledger._costs import cost_of
from skdptune.ledger._filter import budget_at, choose, exact, kinds_of, prices_of, rounded, split_delta

__all__ = ["best_order", "number_at", "whole_charges"]

_ORDERS = np.unique(np.concatenate([np.geomspace(1.05, 2.0, 15), np.geomspace(2.0, 4096.0, 90)]))


def best_order(epsilon, delta, curve=None, *, delta_aside=None, charge_delta=None):
    """Return the order at which a new ledger admits the most charges like ``curve``.

    It depends on no data, and has to be chosen before the ledger's first charge: a ledger whose order
    followed what it had seen would have no guarantee.

    Parameters
    ----------
    epsilon : float > 0
        The ledger's, in nats.
    delta : float in [0, 1)
        The ledger's. At 0 only order infinity (sums of pure epsilons) is left.
    curve : PrivacyCurve or PrivacySpent, optional
        A typical charge, such as ``search.privacy_cost(n)``. None: Gaussian noise.
    delta_aside : float, optional
        As for :class:`PrivacyLedger`.
    charge_delta : float in [0, delta], optional
        The delta of each charge, which order infinity needs. Defaults to the search's own; where there is none,
        ``delta`` is taken to be shared equally among the charges.

    Returns
    -------
    order : float in (1, inf]
        Infinity only where it admits more whole charges than every finite order. Then each charge needs its delta:
        ``delta=`` of the search, or of ``charge``.

    Raises
    ------
    InvalidParameterError, InvalidTypeError
    PricingError
        If no order admits anything and none can be told to come closest.

    References
    ----------
    Feldman and Zrnic, arXiv 2008.11193 (a filter at one order).

    Examples
    --------
    >>> best_order(3.0, 1e-5)
    7.6
    >>> best_order(3.0, 0)
    inf
    """
    epsilon = check_real("epsilon", epsilon, low=0, low_open=True)
    delta = check_real("delta", delta, low=0, high=1, high_open=True)
    if delta == 0:
        return math.inf
    aside = split_delta(delta, 2.0, delta_aside)
    if curve is None:
        # charges cost rho a: the sum of all may reach budget(a), so budget(a) / a is their number
        orders = 1 + np.geomspace(1e-2, 1e7, 4000)
        return _short(float(orders[int(np.argmax([budget_at(a, epsilon, delta - aside) / a for a in orders]))]))
    cost = cost_of(curve, None)
    each = cost.delta if charge_delta is None else check_real("charge_delta", charge_delta, low=0, high=delta)
    order = _best_finite(epsilon, delta, aside, cost.curve)
    whole = 0 if order is None else number_at(order, epsilon, delta, aside, cost.curve, each)
    alone = cost.curve.epsilon(delta) <= epsilon
    if _infinity_admits(max(whole, int(alone)) + 1, epsilon, delta, cost.curve, each) or (order is None and alone):
        return math.inf
    if order is None:
        raise PricingError(
            f"no order serves epsilon={as_given(epsilon)} at delta={as_given(delta)}: this curve has no finite "
            "divergence where the budget is positive. Use a larger epsilon, or order=inf with (epsilon, delta) "
            "promises."
        )
    for digits in range(2, 17):  # any order is sound: a short one that admits as many reads well
        short = _short(order, digits)
        if short > 1 and number_at(short, epsilon, delta, aside, cost.curve, each) >= whole:
            return short
    return order


def number_at(order, epsilon, delta, aside, curve, charge_delta):
    """Return how many charges of ``curve`` the filter of a new ledger admits at ``order``."""
    budget = budget_at(order, epsilon, (delta - aside) * (1 - 1e-15))
    if not budget > 0:
        return 0
    try:
        prices = prices_of(curve, order, aside, charge_delta)
    except PricingError:
        return 0
    return whole_charges(prices, exact(budget), exact(aside))


def whole_charges(prices, rdp, aside):
    """Return how many charges at these ``prices`` fit what is left of both totals (Fractions), one after another."""
    total = 0
    while True:
        # the same price is chosen until what is left for masses has become too small for it
        price = choose(prices, aside)
        counts = [left // exact(part) for left, part in ((rdp, price.rdp), (aside, price.aside)) if part > 0]
        number = max(0, int(min(counts, default=sys.maxsize)))
        if number in (0, sys.maxsize):
            return min(total + number, sys.maxsize)
        total, rdp, aside = total + number, rdp - number * exact(price.rdp), aside - number * exact(price.aside)


def _short(order, digits=2):
    return float(f"{order:.{digits if order > 1.5 else digits + 1}g}")


def _best_finite(epsilon, delta, aside, curve):
    """Return the order with the largest budget per charge, or None if no order has both."""
    orders = _ORDERS
    for _ in range(2):  # once more between the neighbours of the best
        budgets = np.array([budget_at(order, epsilon, delta - aside) for order in orders])
        number = budgets / _cost_at(curve, orders, aside)
        if not np.any(number > 0):
            return None
        best = int(np.nanargmax(number))
        order = float(orders[best])
        orders = np.linspace(orders[max(best - 1, 0)], orders[min(best + 1, len(orders) - 1)], 33)
    return order


def _cost_at(curve, orders, aside):
    """Return the least price at many orders at once that sets no more than ``aside`` aside; NaN where there is none."""
    cost = np.zeros(len(orders))
    for kind in kinds_of(curve):
        one = np.full(len(orders), np.inf)
        if kind.delta_zero <= aside:
            one = np.minimum(one, kind.rdp(orders))
        if kind.pair is not None and kind.pair.aside <= aside:
            one = np.minimum(one, kind.pair.conditional_rdp(orders))
        cost = np.maximum(cost, one)
    return np.where((cost > 0) & (cost < np.inf), cost, np.nan)


def _infinity_admits(number, epsilon, delta, curve, each):
    """Return whether so many charges fit as (epsilon, delta) promises."""
    shares = (None, rounded(exact(delta) / number, -math.inf)) if each is None else (each,)
    return any(number_at(math.inf, epsilon, delta, delta, curve, share) >= number for share in shares)
