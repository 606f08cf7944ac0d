"""What a ledger says before it is charged: quotes, the best order, the price of a plan, and why it refuses."""

import functools
import itertools
import math
import re
from types import SimpleNamespace

import numpy as np
import pytest

from skdptune import PrivateRandomSearchCV
from skdptune._exceptions import BudgetExceededError, InvalidParameterError, LedgerClosedWarning, PricingError
from skdptune.accounting import PrivacyCurve, best_of
from skdptune.ledger import AccountantHandle, PrivacyLedger, best_order
from skdptune.ledger._filter import exact
from skdptune.ledger._plans import _share, plan_epsilon
from skdptune.run_counts import Logarithmic, TruncatedNegativeBinomial
from tests.candidates.toys import GaussianToy

ROWS = np.zeros((40, 2)), np.arange(40) % 2
CURVES = {
    "pure": best_of(PrivacyCurve.pure(0.3), TruncatedNegativeBinomial(10, 2)),
    "gaussian": best_of(PrivacyCurve.gaussian(3.0), Logarithmic(10)),
    "dp_sgd": PrivacyCurve.dp_sgd(1.2, 0.1, 6),
    "approximate": PrivacyCurve.approximate(0.4, 3e-7),
    "few orders": PrivacyCurve.from_rdp([3.0, 30.0], [0.2, 2.0]),
}


def quote(curve, delta, target=None):
    """A price as a search states it."""
    own = SimpleNamespace(delta=delta, target=target)
    return SimpleNamespace(curve=curve, run_count=Logarithmic(10), settings=own)


# ---------------------------------------------------------------------- quotes


@pytest.mark.filterwarnings("ignore::skdptune._exceptions.LedgerClosedWarning")
@pytest.mark.parametrize("kind", CURVES)
def test_what_is_affordable_is_what_is_charged(tmp_path, kind):
    number = itertools.count()
    for order, epsilon, delta in itertools.product((None, 3.0, math.inf), (1.0, 4.0), (None, 1e-6, 1e-5)):
        try:
            ledger = PrivacyLedger(tmp_path / f"{next(number)}", epsilon, 1e-5, order=order)
        except InvalidParameterError:
            continue  # no budget at this order
        price, admitted = quote(CURVES[kind], delta), 0
        try:
            fits = ledger.affordable(price)
        except PricingError:
            with pytest.raises(PricingError):
                ledger.charge(price, delta)
            continue
        assert ledger.can_afford(price) == (fits > 0) and fits < 40
        with pytest.raises(BudgetExceededError):  # as fit charges: with the delta of the search
            while True:
                ledger.charge(price, delta)
                admitted += 1
        assert admitted == fits and ledger.affordable(price) == 0


def test_a_quote_knows_its_delta(tmp_path):
    """At order infinity a search is charged at its own delta; its quote was asked about at none."""
    ledger = PrivacyLedger(tmp_path / "a", 4.0, 1e-5, order=math.inf)
    search = PrivateRandomSearchCV(GaussianToy(s=6.0), {"s": [6.0]}, n_iter=3, delta=5e-6, ledger=ledger)
    price = search.privacy_cost(40)
    assert ledger.affordable(price) == 2 == ledger.affordable(price, delta=5e-6)
    for left in (1, 0):
        search.fit(*ROWS)
        assert ledger.affordable(price) == left


# ---------------------------------------------------------------------- the best order


@pytest.mark.parametrize("kind", CURVES)
@pytest.mark.parametrize("epsilon", [1.0, 5.0])
def test_the_best_order_admits_as_many_as_any(tmp_path, kind, epsilon):
    curve, number = CURVES[kind], itertools.count()

    def admits(order, shares):
        try:
            ledger = PrivacyLedger(tmp_path / f"{next(number)}", epsilon, 1e-5, order=order)
        except InvalidParameterError:
            return 0
        found = [0]
        for share in shares:
            try:
                found.append(ledger.affordable(quote(curve, share)))
            except PricingError:
                continue
        return max(found)

    best = best_order(epsilon, 1e-5, quote(curve, 4e-6))
    assert admits(best, [4e-6]) >= max(admits(order, [4e-6]) for order in (None, 3.0, 12.0, 40.0, math.inf))
    shares = [None, *(1e-5 / n for n in (1, 2, 4))]
    assert admits(best_order(epsilon, 1e-5, curve), shares) >= admits(math.inf, shares)


def test_infinity_is_an_order_too():
    # a divergence that is known at low orders only: a promise at each search's delta is all there is
    curve = PrivacyCurve.approximate(0.5, 4e-6)
    assert best_order(1.0, 1e-5, curve) == math.inf
    assert best_order(10.0, 1e-5, PrivacyCurve.approximate(0.5, 0.0)) < math.inf
    with pytest.raises(InvalidParameterError, match="charge_delta"):
        best_order(1.0, 1e-5, curve, charge_delta=2e-5)


# ---------------------------------------------------------------------- plans


@pytest.mark.parametrize("delta", [0.0, 1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize(
    "kinds", [("pure", "pure"), ("pure", "gaussian"), ("approximate",) * 3, ("pure", "dp_sgd", "dp_sgd")]
)
def test_a_plan_never_costs_more_than_the_sum_of_its_parts(kinds, delta):
    curves = [CURVES[kind] for kind in kinds]
    price = plan_epsilon(curves, delta)
    assert price <= sum(curve.epsilon(0.0) for curve in curves) * (1 + 1e-12)
    assert price <= sum(curve.epsilon(delta / len(curves)) for curve in curves) * (1 + 1e-12)
    assert price <= functools.reduce(lambda a, b: a + b, curves).epsilon(delta) * (1 + 1e-12)
    if delta:  # all of delta to the last kind
        free = sum(curve.epsilon(0.0) for curve in curves if curve != curves[-1])
        shared = [curve.epsilon(delta / curves.count(curve)) for curve in curves if curve == curves[-1]]
        assert price <= (free + sum(shared)) * (1 + 1e-12)


def test_a_plan_of_one_costs_what_it_costs():
    for curve in CURVES.values():
        assert plan_epsilon([curve], 1e-5) == curve.epsilon(1e-5)


def test_shares_of_delta_add_up_to_no_more_than_delta():
    assert plan_epsilon([PrivacyCurve.pure(0.1)] * 7, 0.0) == 0.7
    three = [PrivacyCurve.approximate(0.1, 1e-6)] * 3
    assert plan_epsilon(three, 2.9e-6) > 0.3 >= plan_epsilon(three, 3.01e-6) > 0.29
    for delta, number in ((1e-5, 3), (0.1, 7), (1e-300, 49)):
        assert exact(_share(delta, number)) * number <= exact(delta)


def test_a_plan_of_two_pure_searches_is_cheaper_than_both(tmp_path):
    """Once 2.2279 for two of 0.99976, which add up to 2.0055 without any delta."""
    search = best_of(PrivacyCurve.pure(0.325), TruncatedNegativeBinomial(10, 2))
    price = PrivacyLedger(tmp_path / "plan", 3.0, 1e-6).register_plan([search, search])
    assert search.epsilon(1e-6) < price < 2 * search.epsilon(1e-6) <= 2 * search.epsilon(0.0)


# ---------------------------------------------------------------------- refusals


def refusal(ledger, price, delta=None):
    with pytest.raises(BudgetExceededError) as caught:
        ledger.charge(price, delta)
    return str(caught.value)


def test_a_refusal_names_what_the_caller_can_change(tmp_path):
    ledger = PrivacyLedger(tmp_path / "a", 1.0, 1e-6)
    dear = best_of(PrivacyCurve.gaussian(2.0), Logarithmic(10))
    text = refusal(ledger, quote(dear, 1e-6, target=(2.5, 1e-6)))
    assert "Lower the target of the search (epsilon=2.5), or make a ledger with a larger budget." in text
    assert "n_iter" not in text
    assert "Lower the mean of n_iter or the candidates' epsilon" in refusal(ledger, quote(dear, None))
    accountant = AccountantHandle(SimpleNamespace(check=lambda *_: 1 / 0, spend=print))
    dear_quote = SimpleNamespace(epsilon=dear.epsilon, settings=SimpleNamespace(target=(2.5, 1e-6)))
    with pytest.raises(BudgetExceededError, match=r"Lower the target of the search \(epsilon=2.5\), or give"):
        accountant.charge(dear_quote, 1e-6)
    assert "Make the release cheaper" in refusal(ledger, PrivacyCurve.gaussian(1.0))


def test_a_refusal_states_numbers_that_can_be_compared(tmp_path):
    ledger = PrivacyLedger(tmp_path / "a", 3.0, 1e-6)
    one = PrivacyCurve.gaussian(2.2)
    assert ledger.charge(one).method == "renyi"
    text = refusal(ledger, one)
    asked, left, alone = (float(re.search(pattern, text).group(1)) for pattern in (
        r"asks for ([\d.]+) nats", r"and ([\d.]+) nats at Renyi order", r"epsilon=([\d.]+)\)"))  # fmt: skip
    entry = ledger.entries()[0]
    assert asked >= entry.rdp and left <= ledger.rdp_budget - entry.rdp and asked > left
    assert alone >= one.epsilon(1e-6) and "stays used up for this data set" in text


def test_a_refusal_names_infinity_where_it_would_admit_more(tmp_path):
    ledger = PrivacyLedger(tmp_path / "a", 1.0, 1e-5)
    curve = PrivacyCurve.approximate(0.3, 3e-6)
    price = quote(curve, 3e-6)
    with pytest.warns(LedgerClosedWarning, match="epsilon=0.3000 of the ledger's 1, but .* best_order finds"):
        assert ledger.charge(price).method == "sole"
    other = PrivacyLedger(tmp_path / "b", 1.0, 1e-5)
    other.charge(PrivacyCurve.pure(0.01))
    assert "order=math.inf would admit 3 such charges at delta=3e-06 each" in refusal(other, price)
    fresh = PrivacyLedger(tmp_path / "c", 1.0, 1e-5, order=math.inf)
    assert fresh.affordable(price) == 3
    assert "math.inf" not in refusal(other, quote(PrivacyCurve.gaussian(4.0), None))
