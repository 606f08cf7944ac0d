"""One Renyi order, fixed when a ledger is made, and what a charge costs at it.

Paper <-> code: a, alpha <-> ``order``; epsilon_j <-> ``Price.rdp``; delta_j <-> ``Price.aside``; B <->
``budget_at``. The proof is doc/theory/filter.rst: Lemma F1 (prices), Theorem F2 (Feldman and Zrnic, arXiv 2008.11193;
Lecuyer, arXiv 2103.01379, with masses set aside), Theorem F3 (conversion), and why both totals need their own caps.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from skdptune._exceptions import PricingError
from skdptune._rounding import as_given
from skdptune._validation import check_real, invalid_value
from skdptune.accounting import PrivacyCurve
from skdptune.accounting._combinations import Worst
from skdptune.accounting._mechanisms import pure_rdp

__all__ = ["Price", "budget_at", "choose", "exact", "kinds_of", "prices_of", "rounded", "split_delta"]

_ASIDE_SHARE = 10  # by default one part in ten of delta is kept for masses set aside
_ULP = 4e-16  # relative; covers the rounding of a few operations


def exact(value):
    """Return a float as the decimal number it is printed as, exactly.

    Totals are sums of these: what a reader adds up with pencil and paper is what was compared, and five
    charges of 0.2 fit a budget of 1.

    Examples
    --------
    >>> sum(exact(0.1) for _ in range(3)) == exact(0.3)
    True
    """
    return Fraction(repr(float(value)))


def rounded(value, towards):
    """Return a Fraction as a float, rounded towards plus or minus infinity."""
    number = float(value)
    while exact(number) < value if towards > 0 else exact(number) > value:
        number = math.nextafter(number, towards)
    return number


def split_delta(delta, order, aside=None):
    """Return the part of ``delta`` kept for masses set aside.

    At order infinity there is nothing else to spend delta on: sums of (epsilon, delta) promises.
    """
    if math.isinf(order):
        if aside not in (None, delta):
            raise invalid_value("delta_aside", "delta itself (or None) at order infinity", aside)
        return delta
    if aside is None:
        return float(f"{delta / _ASIDE_SHARE:.6g}")
    return check_real("delta_aside", aside, low=0, high=delta, high_open=True)


def budget_at(order, epsilon, delta):
    """Return the largest Renyi divergence at ``order`` that implies (epsilon, delta), rounded down.

    (x - e^eps)_+ <= x^a e^{-(a-1) eps} (1 - 1/a)^{a-1} / a for x >= 0, so a moment E[x^a] <= e^{(a-1) B} gives
    delta once B = eps - log(1 - 1/a) + log(a delta) / (a - 1). Canonne, Kamath and Steinke, arXiv 2004.00010v5,
    Proposition 12, solved for the divergence.

    Parameters
    ----------
    order : float in (1, inf]
    epsilon : float > 0
        In nats.
    delta : float in [0, 1)
        What is left for the divergence; unused at order infinity.

    Returns
    -------
    float
        In nats; not positive where the order cannot serve this (epsilon, delta).

    Examples
    --------
    >>> budget_at(math.inf, 1.0, 0.0)
    1.0
    >>> round(budget_at(8.0, 3.0, 1e-5), 3)
    1.786
    """
    if math.isinf(order):
        return epsilon
    if delta <= 0:
        return -math.inf
    parts = (epsilon, -math.log1p(-1 / order), (math.log(order) + math.log(delta)) / (order - 1))
    # rounded down: each part and their sum lose a few units in the last place
    return sum(parts) - 4 * _ULP * sum(abs(part) for part in parts)


@dataclass(frozen=True)
class Price:
    """What one mechanism costs at a ledger's order.

    Parameters
    ----------
    rdp : float
        Renyi divergence in nats, both directions, outside the mass set aside.
    aside : float in [0, 1]
    method : {"renyi", "pair", "basic"}
        The mechanism's own Renyi curve; its dominating pair without the infinite losses; or an
        (epsilon, delta) promise.
    """

    rdp: float
    aside: float
    method: str

    def is_finite(self):
        """Return whether this is a price at all."""
        return bool(self.rdp >= 0 and math.isfinite(self.rdp) and 0 <= self.aside < 1)


def _up(value, order):
    # rounded up; at order infinity the number is a promise stated as such and added as it stands
    return float(value) if math.isinf(order) else float(np.nextafter(value * (1 + _ULP), np.inf))


def _renyi(curve, order):
    return Price(_up(curve.rdp([order])[0], order), curve.delta_zero, "renyi")


def _from_pair(curve, order):
    pair = curve.pair
    if pair is None:
        return None
    return Price(_up(pair.conditional_rdp([order])[0], order), float(pair.aside) * (1 + _ULP), "pair")


def _basic(curve, order, delta):
    """An (epsilon, delta) promise: outside delta it is dominated by randomised response."""
    epsilon = float(curve.epsilon(delta))
    if math.isinf(order) or not math.isfinite(epsilon):
        return Price(epsilon, delta, "basic")
    rdp = float(pure_rdp(epsilon, np.array([order]))[0])
    return Price(min(_up(rdp * (1 + 1e-13), order), epsilon), delta, "basic")


def _finite(options):
    return [option for option in options if option is not None and option.is_finite()]


def _options(curve, order, cap, delta, promise):
    """Return the finite prices of one kind of row."""
    found = _finite([_renyi(curve, order), _from_pair(curve, order)])
    # At a finite order a promise would use up delta that other charges may need: only where nothing else is finite.
    if math.isinf(order) or (delta > 0 and not any(option.aside <= cap for option in found)):
        found += _finite([_basic(promise, order, delta)])
    return tuple(found)


def kinds_of(curve):
    """Return the curve of every kind of row.

    Each is priced by itself; a search costs the worst of them (Theorem F2 needs one number that holds for every pair
    of neighbours).
    """
    node = curve.node
    return [PrivacyCurve(part, curve.relation) for part in node.nodes] if isinstance(node, Worst) else [curve]


def prices_of(curve, order, cap, delta=None, promise=None):
    """Return the finite prices of a mechanism at ``order``: for each kind of row, those to choose from.

    Parameters
    ----------
    curve : PrivacyCurve
        The whole mechanism: for a search, every kind of row.
    order : float in (1, inf]
    cap : float
        How much mass may be set aside at all.
    delta : float, optional
        Allows the price of an (epsilon, delta) promise at this delta.
    promise : Promise, optional
        What such a promise is read from, where that is not ``curve``: the sum of releases that may have been chosen
        one after another.

    Returns
    -------
    tuple of tuple of Price

    Raises
    ------
    PricingError
        If some kind of row has no finite price.

    Examples
    --------
    >>> [[price]] = prices_of(PrivacyCurve.zcdp(0.5), 8.0, 0.0)
    >>> price.method, round(price.rdp, 12)
    ('renyi', 4.0)
    """
    delta = 0.0 if delta is None else delta
    found = tuple(_options(kind, order, cap, delta, promise or kind) for kind in kinds_of(curve))
    if not all(found):
        promise = f", and no finite epsilon at delta={as_given(delta)}" if delta > 0 else ""
        raise PricingError(
            f"curve must have a finite Renyi divergence at order {as_given(order)}, at which this ledger counts; it "
            f"has none{promise}. Pass delta= (taken from the ledger's delta_aside) to charge it as an (epsilon, delta) "
            "promise, use a candidate with a finite divergence, or make the ledger at another order "
            "(best_order helps)."
        )
    return found


def choose(prices, left):
    """Return the cheapest price whose mass is at most ``left`` (a Fraction), or the one of least mass.

    Examples
    --------
    >>> choose(((Price(1.0, 0.0, "renyi"), Price(0.5, 1e-9, "pair")),), exact(1e-8)).method
    'pair'
    """
    found = []
    for options in prices:
        fitting = [option for option in options if exact(option.aside) <= left]
        if fitting:
            found.append(min(fitting, key=lambda option: option.rdp))
        else:
            found.append(min(options, key=lambda option: option.aside))
    dearest = max(found, key=lambda price: price.rdp)
    return Price(dearest.rdp, max(price.aside for price in found), dearest.method)
