"""The charge that fits a budget only by itself: what it closes, who decides, and that nobody gains by it."""

import csv
import functools
import io
import json
import math
import pickle
import re
import sqlite3
import threading
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdptune import PrivateRandomSearchCV
from skdptune._exceptions import (
    BudgetExceededError,
    InvalidParameterError,
    LedgerClosedWarning,
    LedgerError,
    PricingError,
    RelationMismatchError,
)
from skdptune.accounting import PrivacyCurve
from skdptune.ledger import PrivacyLedger
from tests.candidates.toys import GaussianToy
from tests.ledger.test_filter import filter_of, leak, mechanisms, response, worst_strategy

ROWS = np.zeros((40, 2)), np.arange(40) % 2
EPSILON, DELTA = 1.0, 1e-6
BIG = PrivacyCurve.gaussian(4.4)  # epsilon 0.96 by itself, 1.04 at the ledger's order
SMALL = PrivacyCurve.gaussian(60.0)


@pytest.fixture
def ledger(tmp_path):
    return PrivacyLedger(tmp_path / "a.ledger", EPSILON, DELTA)


def refused(ledger, *curves):
    for curve in curves:
        assert ledger.affordable(curve) == 0 and not ledger.can_afford(curve)
        with pytest.raises(BudgetExceededError, match="closed it. Nothing was charged"):
            ledger.charge(curve)
        with pytest.raises(BudgetExceededError, match="closed it"):
            ledger.reserve("later", curve)


def test_a_search_whose_target_is_the_whole_budget_fits(ledger):
    search = PrivateRandomSearchCV(GaussianToy(), {}, n_iter=3, epsilon=EPSILON, delta=DELTA, ledger=ledger)
    price = search.privacy_cost(40)
    assert 0.99 < price.epsilon(DELTA) <= EPSILON and ledger.affordable(price) == 1
    search.fit(*ROWS)
    [entry] = ledger.entries()
    assert entry.method == "sole" and entry == ledger.sole_charge and ledger.spent == price.epsilon(DELTA)
    with pytest.raises(BudgetExceededError, match="entry 1 .*closed it"):
        search.fit(*ROWS)
    assert len(ledger.entries()) == 1 and not ledger.can_afford(price)


def test_it_closes_the_ledger_for_good(ledger):
    assert ledger.affordable(BIG) == 1 and ledger.sole_charge is None
    entry = ledger.charge_once("first", BIG)
    assert (entry.method, ledger.spent, ledger.remaining) == ("sole", BIG.epsilon(DELTA), 0.0)
    assert (ledger.rdp_spent, ledger.aside_spent) == (ledger.rdp_budget, ledger.delta_aside)
    for again in (ledger, PrivacyLedger.open(ledger.path), PrivacyLedger(ledger.path, EPSILON, DELTA),
                  pickle.loads(pickle.dumps(ledger))):  # fmt: skip
        refused(again, BIG, SMALL, PrivacyCurve.pure(0.0), PrivacyCurve.pure(1e-300))
        assert again.charge_once("first", BIG) == entry == again.sole_charge
        assert again.verify() == entry.hash
        with pytest.raises(InvalidParameterError, match="must come first"):
            again.register_plan([SMALL])
    assert len(ledger.entries()) == 1


def test_what_has_no_price_at_the_order_does_not_close_the_ledger_unasked(tmp_path):
    curve = PrivacyCurve.from_rdp([2, 3, 4, 6], [0.02, 0.03, 0.04, 0.06])  # known at four orders, none the ledger's
    ledger = PrivacyLedger(tmp_path / "first", 3.0, 1e-5, order=11.0)
    for using in (ledger.affordable, ledger.charge):
        with pytest.raises(PricingError, match="finite Renyi divergence at order 11.*Pass delta="):
            using(curve)
    assert ledger.entries() == () and ledger.affordable(curve, delta=1e-7) == 1
    with pytest.warns(LedgerClosedWarning):
        assert ledger.charge(curve, delta=1e-7).method == "sole"


def test_who_is_about_to_close_a_large_ledger_is_told(tmp_path):
    for order, noise, advice in ((200.0, 2.5, "best_order finds the one"), (math.inf, 2.0, "at a delta of its own")):
        curve = PrivacyCurve.gaussian(noise)
        ledger = PrivacyLedger(tmp_path / str(order), 4.0, 1e-6, order=order)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(LedgerClosedWarning, match=f"closes the ledger. .*{advice}"):
                ledger.charge(curve)
        assert ledger.entries() == ()  # where warnings are errors, nothing was charged
        with pytest.warns(LedgerClosedWarning):
            assert ledger.charge(curve).method == "sole"


def test_what_fits_the_filter_leaves_the_ledger_open(ledger):
    assert ledger.charge(SMALL).method == "renyi" and ledger.sole_charge is None
    assert ledger.affordable(BIG) == 0
    with pytest.raises(BudgetExceededError, match="stays used up"):
        ledger.charge(BIG)
    assert ledger.affordable(SMALL) > 1


def test_what_costs_more_than_the_budget_by_itself_is_refused(ledger):
    for curve in (PrivacyCurve.gaussian(4.2), PrivacyCurve.pure(1.0001), PrivacyCurve.approximate(0.1, 1.01e-6)):
        assert ledger.affordable(curve) == 0
        with pytest.raises(BudgetExceededError):
            ledger.charge(curve)
    assert ledger.entries() == ()
    # by one digit in the last place: decimals are compared
    exact = PrivacyLedger(ledger.path + "-exact", BIG.epsilon(DELTA), DELTA)
    below = PrivacyLedger(ledger.path + "-below", math.nextafter(BIG.epsilon(DELTA), 0), DELTA)
    assert (exact.affordable(BIG), below.affordable(BIG)) == (1, 0)


@pytest.mark.parametrize("order", [None, 5000.0, math.inf])
def test_at_every_order(tmp_path, order):
    curve = PrivacyCurve.approximate(0.9, 9e-7)
    ledger = PrivacyLedger(tmp_path / "a", EPSILON, DELTA, order=order)
    entry = ledger.charge(curve)
    # at infinity the promise fits the sums as it stands; elsewhere its delta is more than is kept for promises
    assert entry.method == ("sole" if order != math.inf else entry.method) and ledger.remaining <= 0.11
    assert (ledger.sole_charge is None) == (order == math.inf)


def test_pure_ledgers_need_no_sole_charge(tmp_path):
    ledger = PrivacyLedger(tmp_path / "a", 1.0, 0)
    ledger.charge(PrivacyCurve.pure(1.0))
    assert ledger.sole_charge is None and ledger.remaining == 0.0
    with pytest.raises(BudgetExceededError):
        PrivacyLedger(tmp_path / "b", 1.0, 0).charge(PrivacyCurve.pure(math.nextafter(1.0, 2)))


def test_another_relation_is_no_sole_charge(ledger):
    with pytest.raises(RelationMismatchError):
        ledger.charge(PrivacyCurve.gaussian(4.4, relation="replace-one"))


# ---------------------------------------------------------------------- reservations and plans


def test_a_reservation_that_was_given_back_leaves_a_new_ledger(ledger):
    ledger.reserve("anna", SMALL)
    assert ledger.affordable(BIG) == 0  # it may be claimed at any moment
    with pytest.raises(BudgetExceededError):
        ledger.charge(BIG)
    ledger.release("anna", "not begun")
    assert ledger.affordable(BIG) == 1 and ledger.charge(BIG).method == "sole"
    refused(ledger, SMALL)
    assert ledger.verify()


def test_a_sole_reservation_closes_until_it_is_given_back(ledger):
    held = ledger.reserve("anna", BIG)
    assert held.method == "sole" and ledger.sole_charge == held
    refused(ledger, SMALL, BIG)
    assert "closed while it is held, and for good once it is claimed" in " ".join(ledger.remarks())
    with pytest.raises(BudgetExceededError, match=r"release\('anna', reason\) opens"):
        ledger.charge(SMALL)
    ledger.release("anna", "not begun")
    assert (ledger.sole_charge, ledger.spent, ledger.remaining) == (None, 0.0, 1.0)
    ledger.reserve("ben", BIG)
    ledger.claim("ben").charge_once("run", BIG)
    assert ledger.claim("ben").charge_once("run", BIG).kind == "claim"
    with pytest.raises(InvalidParameterError, match="it was claimed"):
        ledger.release("ben", "too late")
    refused(ledger, SMALL)
    assert "closed for good" in " ".join(ledger.remarks())
    assert [entry.kind for entry in ledger.entries()] == ["reserve", "release", "reserve", "claim"]


def test_a_claimed_reservation_is_no_new_ledger(ledger):
    ledger.reserve("anna", SMALL)
    ledger.claim("anna").charge(SMALL)
    assert ledger.affordable(BIG) == 0
    with pytest.raises(BudgetExceededError):
        ledger.charge(BIG)


def test_a_plan_and_a_sole_charge_exclude_each_other(ledger):
    ledger.register_plan([SMALL])
    assert ledger.affordable(BIG) == 0
    with pytest.raises(BudgetExceededError, match="not among the planned"):
        ledger.charge(BIG)
    assert ledger.sole_charge is None


def test_a_plan_may_follow_what_was_given_back(ledger):
    ledger.reserve("anna", BIG)
    with pytest.raises(InvalidParameterError, match="must come first"):
        ledger.register_plan([SMALL])
    ledger.release("anna", "a plan instead")
    assert ledger.register_plan([BIG]) == BIG.epsilon(DELTA)
    assert ledger.charge(BIG).kind == "planned" and ledger.verify()


def test_of_many_at_once_one_is_admitted(ledger):
    admitted, gate = [], threading.Barrier(6)

    def spend(which):
        gate.wait()
        try:
            admitted.append(ledger.charge([BIG, SMALL][which % 2]).method)
        except BudgetExceededError:
            admitted.append("refused")

    threads = [threading.Thread(target=spend, args=(which,)) for which in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # either one big charge and nothing else, or the small ones and none of the big
    assert sorted(admitted) in (["refused"] * 5 + ["sole"], ["refused"] * 3 + ["renyi"] * 3)
    assert ledger.verify()


# ---------------------------------------------------------------------- what is said


def test_texts_say_that_it_is_closed(ledger):
    ledger.charge(BIG, description="one net")
    text = " ".join(ledger.summary().split())
    assert "Entry 1 is the only charge: it fits epsilon 1 at delta 1e-06 by itself" in text
    assert "the ledger is closed for good" in text and "left: 0.0000" in text
    exported = json.loads(ledger.to_json())
    assert exported["remarks"] == list(ledger.remarks()) and exported["remaining"] == 0
    assert [row["method"] for row in csv.DictReader(io.StringIO(ledger.to_csv()))] == ["sole"]


def test_texts_say_why_more_seems_spent_than_was_charged(tmp_path):
    ledger = PrivacyLedger(tmp_path / "a", 3.0, 1e-6)
    [remark] = ledger.remarks()
    assert "best_order" in remark and "spent" not in remark
    ledger.charge(BIG)
    assert ledger.spent > 1.2 * BIG.epsilon(1e-6)
    text = " ".join(ledger.summary().split())
    assert "added up at one Renyi order" in text
    assert "the first one also pays for the conversion" in text and "is epsilon 3 at delta 1e-06" in text
    ledger.reserve("x", BIG)
    infinite = PrivacyLedger(tmp_path / "b", 3.0, 0)
    infinite.charge(PrivacyCurve.pure(1.0))
    assert "Promises add up" in infinite.summary()


def test_a_description_cannot_pose_as_a_sole_charge(tmp_path):
    ledger = PrivacyLedger(tmp_path / "a", 3.0, 1e-6)
    ledger.charge_curve(SMALL, 'x", "method": "sole", "y": "')
    assert ledger.sole_charge is None and ledger.affordable(SMALL) > 0


# ---------------------------------------------------------------------- the history is checked against the rules


def rewritten(ledger, edit):
    """Rewrite the history with all hashes in order, as another program could."""
    from skdptune.ledger._store import chain

    connection = sqlite3.connect(ledger.path)
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    terms = connection.execute("SELECT body FROM terms").fetchone()[0]
    rows = [json.loads(body) for (body,) in connection.execute("SELECT body FROM entries ORDER BY seq")]
    edit(rows)
    connection.execute("DELETE FROM entries")
    previous = chain("", terms)
    for seq, row in enumerate(rows, start=1):
        row["seq"] = seq
        body = json.dumps(row, sort_keys=True)
        previous = chain(previous, body)
        columns = (seq, *(row[name] for name in ("kind", "token", "rdp", "aside")), body, previous)
        connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)", columns)
    connection.commit()
    connection.close()


def _second_copy(rows):
    rows.append({**rows[0], "token": "second", "rdp": "0.0", "aside": "0.0", "method": "renyi"})


def _swap(rows):
    rows.insert(0, {**rows[0], "token": "other", "rdp": "0.0", "aside": "0.0", "method": "renyi"})


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (_second_copy, "entry 2 .*closed the ledger"),
        (_swap, "entry 2 .*has to be the first"),
        (lambda rows: rows[0].update(epsilon="1.0000001"), "entry 1 .*more than the budget"),
        (lambda rows: rows[0].update(method="renyi", rdp="9.9"), "entry 1 .*passes the budget"),
        (lambda rows: rows[0].update(rdp="-0.5"), "entry 1 .*wrong sign"),
        (lambda rows: rows[0].update(kind="planned"), "entry 1 .*not an unused search"),
        (lambda rows: rows[0].update(kind="release"), "entry 1 .*no open reservation"),
        (lambda rows: rows[0].update(kind="gift"), "entry 1 .*kind is unknown"),
        (lambda rows: rows[0].update(rdp="much"), "damaged .an entry is not what"),
    ],
)
def test_a_history_that_no_ledger_writes_is_found(ledger, edit, reason):
    ledger.charge(BIG)
    rewritten(ledger, lambda rows: None)
    assert ledger.verify() and len(ledger.entries()) == 1
    rewritten(ledger, edit)
    for reading in (ledger.verify, ledger.entries, ledger.to_csv):
        with pytest.raises(LedgerError, match=reason):
            reading()


# ---------------------------------------------------------------------- the adversary


def with_sole(menu, epsilon, delta, order, *, closing=True):
    """What the ledger admits; ``closing=False`` lets other charges follow a sole one."""
    filtered = filter_of(menu, epsilon, delta, order)
    alone = [curve.epsilon(delta) <= epsilon for _, curve in menu]

    @functools.cache
    def admits(spent):
        if filtered(spent) or (len(spent) == 1 and alone[spent[0]]):
            return True
        if closing:
            return False
        return any(alone[first] and not filtered((first,)) and filtered(_without(spent, first)) for first in spent)

    return admits


def _without(spent, first):
    rest = list(spent)
    rest.remove(first)
    return tuple(rest)


def _tight(epsilon, delta):
    """The strongest randomised response and leak that cost (epsilon, delta) by themselves."""
    low, high = epsilon, epsilon + 4
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if response(middle)[1].epsilon(delta) <= epsilon else (low, middle)
    return [response(low), leak(delta)]


@pytest.mark.parametrize("order", [3.0, 6.0, 20.0, math.inf])
def test_no_strategy_gains_by_sole_charges(order):
    epsilon, delta = 1.0, 0.05
    menu = [*_tight(epsilon, delta), response(0.2), leak(0.002)]
    assert any(curve.epsilon(delta) <= epsilon for _, curve in menu[:2])
    admits = with_sole(menu, epsilon, delta, order)
    assert admits((0,)) and admits((1,)) and not admits((0, 2)) and not admits((0, 1))
    reached = worst_strategy(menu, epsilon, admits, 4)
    assert 0.99 * delta < reached <= delta * (1 + 1e-9)
    # a sole charge that did not close the ledger would break the promise
    assert worst_strategy(menu, epsilon, with_sole(menu, epsilon, delta, order, closing=False), 3) > 1.03 * delta


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    menu=st.lists(mechanisms(), min_size=2, max_size=3),
    epsilon=st.floats(0.3, 2.5),
    delta=st.floats(0.005, 0.3),
    order=st.sampled_from([1.5, 3.0, 6.0, 20.0, math.inf]),
)
def test_no_strategy_gains_over_mechanisms_at_random(menu, epsilon, delta, order):
    assert worst_strategy(menu, epsilon, with_sole(menu, epsilon, delta, order), 3) <= delta * (1 + 1e-9)


def test_the_file_admits_what_the_arithmetic_admits(tmp_path):
    epsilon, delta, rng = 1.0, 0.05, np.random.default_rng(3)
    menu = [*_tight(epsilon, delta), response(0.2), leak(0.002)]
    admits = with_sole(menu, epsilon, delta, 6.0)
    soles = 0
    for trial in range(4):
        ledger, spent = PrivacyLedger(tmp_path / f"{trial}", epsilon, delta, order=6.0), ()
        for which in rng.integers(4, size=6).tolist():
            wanted = tuple(sorted((*spent, which)))
            assert ledger.can_afford(menu[which][1]) == admits(wanted)
            if admits(wanted):
                ledger.charge_curve(menu[which][1], "release")
                spent = wanted
        assert len(ledger.entries()) == len(spent) and ledger.spent <= epsilon
        soles += ledger.sole_charge is not None
    assert 0 < soles < 4


def test_messages_are_one_sentence_after_the_other(ledger):
    ledger.charge(BIG, description="one net")
    with pytest.raises(BudgetExceededError) as caught:
        ledger.charge(SMALL, description="a sum")
    assert re.search(r"entry 1 \(one net\).*Nothing was charged for a sum\. To run several", str(caught.value))
