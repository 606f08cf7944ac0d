"""The arithmetic of a filter: against formulas in many digits, and against an adversary who picks what comes next."""

import functools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdptune._exceptions import InvalidParameterError, PricingError
from skdptune.accounting import PrivacyCurve, best_of
from skdptune.accounting._conversion import epsilon_from_rdp
from skdptune.accounting._mechanisms import FromPair
from skdptune.accounting._pair_builders import pair_from_atoms
from skdptune.ledger import PrivacyLedger, best_order
from skdptune.ledger._filter import Price, budget_at, choose, exact, prices_of, split_delta
from skdptune.run_counts import Logarithmic

# ---------------------------------------------------------------------- numbers


@pytest.mark.parametrize("order", [1.02, 1.5, 2.0, 7.6, 64.0, 4096.0, 1e7])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-12), (1.0, 1e-6), (3.0, 1e-5), (50.0, 0.3), (1e-3, 1e-300)])
def test_budget_is_the_conversion_solved_and_rounded_down(order, epsilon, delta):
    with mpmath.workdps(60):
        a, eps = mpmath.mpf(order), mpmath.mpf(epsilon)
        true = eps - mpmath.log(1 - 1 / a) + (mpmath.log(a) + mpmath.log(mpmath.mpf(delta))) / (a - 1)
        found = mpmath.mpf(budget_at(order, epsilon, delta))
        scale = 1 + abs(mpmath.log(1 - 1 / a)) + abs(mpmath.log(mpmath.mpf(delta)) / (a - 1))
        assert found <= true and true - found < 1e-13 * scale


@pytest.mark.parametrize("order", [7.6, 20.0, 400.0])
def test_a_budget_used_up_converts_to_no_more_than_epsilon(order):
    budget = budget_at(order, 3.0, 1e-6)
    converted = epsilon_from_rdp(np.array([order]), np.array([budget]), 1e-6)
    assert converted <= 3.0 * (1 + 1e-12) and converted == pytest.approx(3.0, rel=1e-12)


def test_the_tangent_behind_the_conversion_touches():
    """(x - e)_+ <= x^a e^(1-a) (1 - 1/a)^(a-1) / a, with equality at x = e a / (a - 1)."""
    for a, e in ((1.1, 0.5), (2.0, 3.0), (9.0, 40.0)):
        x = np.geomspace(1e-6, 1e6, 20_001)
        bound = np.exp(a * np.log(x) + (1 - a) * np.log(e) + (a - 1) * np.log1p(-1 / a) - np.log(a))
        assert np.all(np.maximum(x - e, 0) <= bound * (1 + 1e-12))
        top = e * a / (a - 1)
        assert top - e == pytest.approx(top**a * e ** (1 - a) * (1 - 1 / a) ** (a - 1) / a)


def test_decimals_add_up_as_they_are_printed():
    assert 5 * exact(0.2) == exact(1.0) and sum(exact(0.1) for _ in range(3)) == Fraction(3, 10)


def test_delta_is_split_once():
    assert split_delta(1e-5, 8.0) == 1e-6 and split_delta(1e-5, 8.0, 0.0) == 0.0
    assert split_delta(1e-5, math.inf) == 1e-5
    for aside in (1e-5, 2e-5, -1.0, math.nan):
        with pytest.raises(InvalidParameterError, match="delta_aside"):
            split_delta(1e-5, 8.0, aside)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-9), (3.0, 1e-5), (20.0, 1e-3)])
def test_the_default_order_admits_the_most_gaussian_charges(epsilon, delta):
    left = delta - split_delta(delta, 2.0)

    def number(order):
        return budget_at(order, epsilon, left) / order

    best = best_order(epsilon, delta)
    assert number(best) >= 0.999 * max(number(a) for a in 1 + np.geomspace(0.01, 1e4, 5000))


def test_the_order_for_a_search_admits_more_of_them_than_the_default():
    search = best_of(PrivacyCurve.dp_sgd(1.0, 256 / 60_000, 7_031), Logarithmic(10))
    order, default = best_order(3.0, 1e-5, search), best_order(3.0, 1e-5)

    def number(order):
        price = choose(prices_of(search, order, 1e-6), exact(1e-6))
        return budget_at(order, 3.0, 0.9e-5) // price.rdp

    assert (number(default), number(order)) == (0, 1)
    assert best_order(1.0, 0.0) == math.inf
    with pytest.raises(PricingError, match="order=inf"):
        best_order(1.0, 1e-5, PrivacyCurve.from_rdp([1.2], [5.0]))


# ---------------------------------------------------------------------- prices


def one_price(curve, order, cap=0.0, delta=None):
    return choose(prices_of(curve, order, cap, delta), exact(cap))


def test_the_curve_at_the_order_is_the_price():
    price = one_price(PrivacyCurve.gaussian(2.0), 8.0)
    assert price.rdp == pytest.approx(1.0) and price.rdp > 1.0 and price.aside == 0.0


@pytest.mark.parametrize("order", [2.0, 9.0, math.inf])
def test_approximate_promises_put_their_delta_aside(order):
    price = one_price(PrivacyCurve.approximate(0.5, 1e-7), order, cap=1e-6)
    assert price.rdp <= 0.5 and 1e-7 <= price.aside <= 1.0001e-7


def test_a_search_costs_the_worst_kind_of_row():
    trained, scored = PrivacyCurve.gaussian(3.0), PrivacyCurve.pure(0.8)
    for order in (1.5, 8.0, 50.0):
        both = one_price(PrivacyCurve.worst([trained, scored]), order, cap=1e-9)
        assert both.rdp == max(one_price(kind, order, cap=1e-9).rdp for kind in (trained, scored))


def test_the_pair_without_its_infinite_losses_may_be_cheaper():
    search = best_of(PrivacyCurve.dp_sgd(1.0, 256 / 60_000, 7_031), Logarithmic(10))
    assert search.rdp([20.0])[0] > 1000
    price = one_price(search, 20.0, cap=1e-6)
    assert price.method == "pair" and price.rdp < 5 and 0 < price.aside < 1e-12
    # with nothing to set aside for it, it is refused
    assert one_price(search, 20.0).rdp > 1000


def test_what_has_no_divergence_is_charged_as_a_promise_or_refused():
    curve = PrivacyCurve.from_rdp([1.5, 4.0], [0.2, 0.4])
    with pytest.raises(PricingError, match="Pass delta="):
        prices_of(curve, 8.0, 1e-6)
    price = one_price(curve, 8.0, cap=1e-5, delta=1e-6)
    assert price.method == "basic" and price.aside == 1e-6 and price.rdp <= curve.epsilon(1e-6)
    with pytest.raises(PricingError):
        prices_of(PrivacyCurve.from_rdp([4.0], [math.inf]), 4.0, 1e-6)


def test_at_order_infinity_promises_are_added_up():
    gaussian = PrivacyCurve.gaussian(3.0)
    price = one_price(gaussian, math.inf, cap=1e-5, delta=1e-6)
    assert (price.rdp, price.aside, price.method) == (gaussian.epsilon(1e-6), 1e-6, "basic")
    assert one_price(PrivacyCurve.pure(0.3), math.inf).rdp == 0.3  # the number as it was stated


# ---------------------------------------------------------------------- the adversary
#
# Mechanisms with few outputs. A strategy picks the next one by the outputs so far; the recursion below finds the
# strategy with the largest hockey-stick divergence, exactly, in both directions.


def mechanism(p, q, infinite=0.0, zero=0.0):
    """(outputs as (P, Q) masses, curve) of a mechanism with these masses."""
    losses = [math.log(a / b) for a, b in zip(p, q, strict=True)]
    pair = pair_from_atoms(losses, p, q, infinite, zero)
    outputs = [*zip(p, q, strict=True), (infinite, 0.0), (0.0, zero)]
    return [o for o in outputs if o != (0.0, 0.0)], PrivacyCurve(FromPair(pair))


def response(epsilon):
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    return mechanism([p, 1 - p], [1 - p, p])


def two_point(p, q):
    return mechanism([p, 1 - p], [q, 1 - q])


def leak(delta):
    """Tells all with probability delta and else nothing."""
    return mechanism([1 - delta], [1 - delta], delta, delta)


def worst_strategy(menu, epsilon, admits, depth):
    """The largest delta at ``epsilon`` over all ways to choose up to ``depth`` admitted mechanisms."""
    outputs = [masses for masses, _ in menu]
    swapped = [[(b, a) for a, b in masses] for masses in outputs]
    return max(_largest(side, math.exp(epsilon), admits, depth) for side in (outputs, swapped))


def _largest(outputs, factor, admits, depth):
    @functools.cache
    def value(p, q, spent, depth):
        best = max(p - factor * q, 0.0)
        for which in range(len(outputs) if depth else 0):
            new = tuple(sorted((*spent, which)))
            if admits(new):
                best = max(best, sum(value(p * a, q * b, new, depth - 1) for a, b in outputs[which]))
        return best

    return value(1.0, 1.0, (), depth)


def filter_of(menu, epsilon, delta, order):
    """What the ledger admits: the indices of the mechanisms charged so far."""
    cap = split_delta(delta, order)
    budget = exact(budget_at(order, epsilon, (delta - cap) * (1 - 1e-15)))
    prices = []
    for _, curve in menu:
        try:
            price = one_price(curve, order, cap)
            prices.append((exact(price.rdp), exact(price.aside)))
        except PricingError:
            prices.append((Fraction(10**9), Fraction(0)))

    def admits(spent):
        return sum(prices[i][0] for i in spent) <= budget and sum(prices[i][1] for i in spent) <= exact(cap)

    return admits


def composition_cap(menu, epsilon, delta):
    """No filter: stop when the composition of whatever came up would pass delta (pitfall: it does not hold)."""

    @functools.cache
    def admits(spent):
        whole = functools.reduce(lambda a, b: a + b, [menu[i][1] for i in spent])
        return whole.delta(epsilon) <= delta * (1 + 1e-12)

    return admits


def test_the_adversary_beats_a_composition_cap_but_not_the_filter():
    epsilon, delta = 1.5, 1e-2
    first = response(1.0)
    low, high = 0.5, 1.5
    for _ in range(60):  # the response that, composed with the first, has exactly delta
        middle = 0.5 * (low + high)
        within = (first[1] + response(middle)[1]).delta(epsilon) <= delta
        low, high = (middle, high) if within else (low, middle)
    menu = [first, response(low), leak(delta)]
    assert worst_strategy(menu, epsilon, composition_cap(menu, epsilon, delta), 2) > 1.25 * delta
    for order in (2.0, best_order(epsilon, delta), 30.0, math.inf):
        assert worst_strategy(menu, epsilon, filter_of(menu, epsilon, delta, order), 4) <= delta * (1 + 1e-9)


def test_masses_need_a_cap_of_their_own():
    """Taking masses off delta as they come (one joint test) admits 1.36 delta: why delta_aside is fixed."""
    epsilon, delta, order = 1.5, 0.1, 5.0
    first, second, third = response(0.5), two_point(0.7608, 0.2215), leak(0.0985)
    menu = [first, second, third]
    prices = [one_price(curve, order, 1.0) for _, curve in menu]
    unit = math.exp(-math.log(order) + (order - 1) * math.log1p(-1 / order))

    def joint(spent):
        rdp, aside = sum(prices[i].rdp for i in spent), sum(prices[i].aside for i in spent)
        return aside + unit * math.exp((order - 1) * (rdp - epsilon)) <= delta

    assert worst_strategy(menu, epsilon, joint, 2) > 1.3 * delta
    assert worst_strategy(menu, epsilon, filter_of(menu, epsilon, delta, order), 3) <= delta * (1 + 1e-9)


probability = st.floats(0.02, 0.98)


@st.composite
def mechanisms(draw):
    kind = draw(st.sampled_from(["response", "two", "three", "leak"]))
    if kind == "response":
        return response(draw(st.floats(0.05, 1.5)))
    if kind == "leak":
        return leak(draw(st.floats(1e-4, 0.05)))
    size = 2 if kind == "two" else 3
    p, q = (np.array(draw(st.lists(probability, min_size=size, max_size=size))) for _ in range(2))
    return mechanism((p / p.sum()).tolist(), (q / q.sum()).tolist())


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    menu=st.lists(mechanisms(), min_size=2, max_size=3),
    epsilon=st.floats(0.3, 2.5),
    delta=st.floats(0.005, 0.3),
    order=st.sampled_from([1.5, 3.0, 6.0, 20.0, math.inf]),
)
def test_no_strategy_passes_the_filter(menu, epsilon, delta, order):
    assert worst_strategy(menu, epsilon, filter_of(menu, epsilon, delta, order), 4) <= delta * (1 + 1e-9)


@pytest.mark.parametrize("order", [6.0, math.inf])
def test_the_file_admits_what_the_arithmetic_admits(tmp_path, order):
    epsilon, delta = 2.0, 0.05
    menu = [response(0.4), two_point(0.6, 0.3), leak(0.004)]
    admits, rng = filter_of(menu, epsilon, delta, order), np.random.default_rng(0)
    for trial in range(2):
        ledger, spent = PrivacyLedger(tmp_path / f"{trial}", epsilon, delta, order=order), ()
        for which in rng.integers(3, size=9).tolist():
            wanted = tuple(sorted((*spent, which)))
            assert ledger.can_afford(menu[which][1]) == admits(wanted)
            if admits(wanted):
                ledger.charge_curve(menu[which][1], "release")
                spent = wanted
        assert len(ledger.entries()) == len(spent) and ledger.spent <= epsilon


def test_prices_that_say_nothing_are_no_prices():
    assert not any(Price(rdp, 0.0, "renyi").is_finite() for rdp in (math.inf, math.nan, -1e-15))
    assert not Price(1.0, 1.0, "renyi").is_finite()
