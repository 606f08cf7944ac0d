"""What a ledger promises its users: terms, charges, tokens, plans, reservations, history."""

import copy
import csv
import io
import json
import math
import os
import pickle
import re
import sqlite3
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pytest
import scipy.stats
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from skdptune import PrivateRandomSearchCV
from skdptune._exceptions import (
    BudgetExceededError,
    InvalidParameterError,
    InvalidTypeError,
    LedgerError,
    PricingError,
    RelationMismatchError,
)
from skdptune.accounting import PrivacyCurve, best_of
from skdptune.ledger import PrivacyLedger, as_ledger, best_order, for_pickling
from skdptune.ledger._digest import curve_digest
from skdptune.run_counts import AtMost, Finite, FromScipy, Geometric, Logarithmic, Poisson
from tests.candidates.toys import GaussianToy

ROWS = np.zeros((40, 2)), np.arange(40) % 2


def search_with(ledger, *, s=4.0, **params):
    return PrivateRandomSearchCV(GaussianToy(s=s), {"s": [s]}, n_iter=3, ledger=ledger, **params)


@pytest.fixture
def pure(tmp_path):
    return PrivacyLedger(tmp_path / "pure.ledger", epsilon=1.0, delta=0, dataset="ward 7")


@pytest.fixture
def ledger(tmp_path):
    return PrivacyLedger(tmp_path / "budget.ledger", epsilon=10.0, delta=1e-5)


# ---------------------------------------------------------------------- terms


def test_it_is_made_once_and_opened_ever_after(tmp_path):
    path = tmp_path / "a.ledger"
    made = PrivacyLedger(path, 2.0, 1e-6, relation="replace-one", order=9, dataset="ward 7", delta_aside=1e-8)
    assert path.stat().st_mode & 0o777 == 0o600 and list(tmp_path.iterdir()) == [path]
    for again in (
        PrivacyLedger(path, 2, 1e-6, relation="replace-one"),
        PrivacyLedger(str(path), 2.0, 1e-6, "replace-one", 9.0, "ward 7", 1e-8),
        PrivacyLedger.open(path),
    ):
        assert again == made and hash(again) == hash(made) and again is not made
        assert (again.order, again.delta_aside, again.dataset) == (9.0, 1e-8, "ward 7")
        assert again.rdp_budget == made.rdp_budget and again.identity == made.identity


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"epsilon": 3.0}, "epsilon=2.0, got epsilon=3.0"),
        ({"delta": 1e-7}, "delta=1e-06, got delta=1e-07"),
        ({"relation": "add-remove"}, "relation='zero-out', got relation='add-remove'"),
        ({"order": 4.0}, "got order=4.0"),
        ({"dataset": "other"}, "dataset='', got dataset='other'"),
        ({"delta_aside": 5e-7}, "got delta_aside=5e-07"),
    ],
)
def test_other_terms_are_refused_naming_the_difference(tmp_path, changed, named):
    path = tmp_path / "a.ledger"
    PrivacyLedger(path, epsilon=2.0, delta=1e-6)
    with pytest.raises(InvalidParameterError, match=named):
        PrivacyLedger(path, **{"epsilon": 2.0, "delta": 1e-6, **changed})


@pytest.mark.parametrize(
    "terms",
    [
        {"epsilon": 0},
        {"epsilon": math.inf},
        {"epsilon": True},
        {"delta": 1.0},
        {"delta": -1e-9},
        {"relation": "swap"},
        {"order": 1.0},
        {"order": math.nan},
        {"order": 2.0, "delta": 0},
        {"order": 2.0},  # no budget is left at this order
        {"delta_aside": 1e-5},
        {"dataset": 7},
        {"dataset": " "},
    ],
)
def test_terms_are_checked_before_a_file_is_made(tmp_path, terms):
    with pytest.raises((InvalidParameterError, InvalidTypeError)):
        PrivacyLedger(tmp_path / "a.ledger", **{"epsilon": 1.0, "delta": 1e-5, **terms})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", [3, "", None])
def test_a_path_is_asked_for(path):
    with pytest.raises(InvalidTypeError, match="path"):
        PrivacyLedger(path, 1.0, 0)


def test_open_makes_nothing(tmp_path):
    with pytest.raises(LedgerError, match="there is no file"):
        PrivacyLedger.open(tmp_path / "none")
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------------- charging


def test_pure_epsilons_add_up_to_the_last_digit(pure):
    for number in range(5):
        assert pure.affordable(PrivacyCurve.pure(0.2)) == 5 - number
        pure.charge_curve(PrivacyCurve.pure(0.2), f"count {number}")
    assert (pure.spent, pure.remaining, pure.can_afford(PrivacyCurve.pure(1e-9))) == (1.0, 0.0, False)
    with pytest.raises(BudgetExceededError, match="asks for 1e-09.*0 is left of epsilon=1 at delta=0.*stays used up"):
        pure.charge_curve(PrivacyCurve.pure(1e-9), "one more")
    assert len(pure.entries()) == 5


def test_searches_are_charged_their_whole_price_before_a_row_is_used(ledger):
    search = search_with(ledger, delta=1e-6)
    price = search.privacy_cost(40)
    search.fit(*ROWS)
    clone(search).fit(*ROWS)
    pickle.loads(pickle.dumps(search)).fit(*ROWS)
    cross_val_score(search, *ROWS, cv=2)
    entries = ledger.entries()
    assert [entry.kind for entry in entries] == ["charge"] * 5
    assert entries[0].epsilon == price.epsilon(1e-5) and entries[0].n_samples == 40
    assert entries[0].assumptions == price.assumptions and "n_iter" not in entries[0].what
    assert entries[0].rdp <= price.rdp([ledger.order])[0] * (1 + 1e-12) and entries[0].rdp > 0
    assert ledger.rdp_spent == pytest.approx(sum(entry.rdp for entry in entries))


def test_a_search_that_does_not_fit_trains_nothing(tmp_path):
    class Never(GaussianToy):
        def fit(self, X, y=None):
            raise AssertionError("trained")

    ledger = PrivacyLedger(tmp_path / "small", epsilon=0.05, delta=1e-5)
    with pytest.raises(BudgetExceededError, match="Lower the mean of n_iter.*larger budget"):
        PrivateRandomSearchCV(Never(s=1.0), {"s": [1.0]}, ledger=ledger).fit(*ROWS)
    assert ledger.entries() == () and ledger.spent == 0.0


def test_a_crashed_search_stays_charged(ledger):
    class Crashes(GaussianToy):
        def fit(self, X, y=None):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        PrivateRandomSearchCV(Crashes(s=4.0), {"s": [4.0]}, ledger=ledger).fit(*ROWS)
    assert len(ledger.entries()) == 1 and ledger.spent > 0


def test_spent_and_remaining_are_rounded_to_the_private_side(ledger):
    rng = np.random.default_rng(1)
    for _ in range(4):
        ledger.charge_curve(PrivacyCurve.gaussian(float(rng.uniform(3, 9))), "sum")
        left = ledger.rdp_budget - sum(entry.rdp for entry in ledger.entries())
        assert ledger.spent == pytest.approx(ledger.epsilon - left, rel=1e-12)
        assert ledger.spent + ledger.remaining <= ledger.epsilon * (1 + 1e-15)
        assert ledger.epsilon_spent() == ledger.spent
        # the conversion of the total, done another way
        total = PrivacyCurve.from_rdp([ledger.order], [ledger.rdp_spent])
        assert total.epsilon(ledger.delta - ledger.delta_aside) <= ledger.spent * (1 + 1e-12)


def test_other_relations_are_refused(ledger):
    with pytest.raises(RelationMismatchError, match="zero-out.*replace-one"):
        ledger.charge_curve(PrivacyCurve.pure(0.1, relation="replace-one"), "count")
    with pytest.raises(RelationMismatchError):
        ledger.can_afford(PrivacyCurve.pure(0.1, relation="add-remove"))
    assert ledger.entries() == ()


def test_infinite_prices_are_refused_unless_a_delta_is_given(tmp_path):
    ledger = PrivacyLedger(tmp_path / "a.ledger", epsilon=10.0, delta=1e-5, order=9)
    curve = PrivacyCurve.from_rdp([8.0], [0.1])
    with pytest.raises(PricingError, match="order 9.*Pass delta="):
        ledger.charge(curve)
    entry = ledger.charge(curve, delta=1e-7)
    assert (entry.method, entry.aside) == ("basic", 1e-7) and ledger.aside_spent == 1e-7
    with pytest.raises(BudgetExceededError, match="a delta of 1e-06 .* 9e-07 for such deltas"):
        ledger.charge(curve, delta=1e-6)


@pytest.mark.parametrize("spent", [3, None, "search", object()])
def test_only_prices_are_charged(ledger, spent):
    with pytest.raises(InvalidTypeError, match="spent"):
        ledger.charge(spent)
    with pytest.raises(InvalidTypeError):
        ledger.charge_curve(spent, "x")


def test_promises_at_order_infinity_spend_both_parts(tmp_path):
    ledger = PrivacyLedger(tmp_path / "basic", epsilon=1.0, delta=1e-5, order=math.inf)
    curve = PrivacyCurve.gaussian(20.0)
    entry = ledger.charge_curve(curve, "sum", delta=4e-6)
    assert (entry.rdp, entry.aside) == (curve.epsilon(4e-6), 4e-6)
    assert ledger.affordable(curve, delta=4e-6) == 1 and ledger.spent == entry.rdp


# ---------------------------------------------------------------------- tokens


def test_a_token_is_charged_once(ledger):
    price = search_with(None).privacy_cost(40)
    first = ledger.charge_once("monday", price, 1e-6)
    assert ledger.charge_once("monday", price, 1e-6) == first
    assert ledger.charge_once("monday", pickle.loads(pickle.dumps(price))) == first
    assert ledger.charge_once("tuesday", price) != first
    assert len(ledger.entries()) == 2
    for other in (search_with(None, s=5.0).privacy_cost(40), PrivacyCurve.pure(0.1)):
        with pytest.raises(InvalidParameterError, match="'monday' names entry 1"):
            ledger.charge_once("monday", other)


def test_a_repeated_token_needs_no_room(pure):
    pure.charge_once("all", PrivacyCurve.pure(1.0))
    assert pure.charge_once("all", PrivacyCurve.pure(1.0)).seq == 1
    with pytest.raises(BudgetExceededError):
        pure.charge_once("more", PrivacyCurve.pure(1.0))


@pytest.mark.parametrize("token", ["", " ", "x" * 501, 3, None])
def test_tokens_are_short_texts(pure, token):
    with pytest.raises((InvalidParameterError, InvalidTypeError), match="token"):
        pure.charge_once(token, PrivacyCurve.pure(0.1))


def test_a_price_without_a_digest_is_recognised_by_its_numbers(pure, monkeypatch):
    monkeypatch.setattr("skdptune.ledger._ledger.curve_digest", lambda curve: None)
    first = pure.charge_once("odd", PrivacyCurve.pure(0.1))
    assert pure.charge_once("odd", PrivacyCurve.pure(0.1)) == first and first.digest is None
    with pytest.raises(InvalidParameterError, match="another one"):
        pure.charge_once("odd", PrivacyCurve.pure(0.2))


# ---------------------------------------------------------------------- digests


def curves():
    single = PrivacyCurve.gaussian(3.0)
    counts = [Logarithmic(10), Poisson(3), Finite([0.5, 0.5]), AtMost(Geometric(4), 9)]
    counts.append(FromScipy(scipy.stats.geom(0.3)))
    return [
        *(best_of(single, count) for count in counts),
        best_of(PrivacyCurve.from_rdp_function(lambda orders: orders / 18), Logarithmic(10)),
        PrivacyCurve.mixture([PrivacyCurve.pure(1.0), PrivacyCurve.laplace(0.5)], [0.25, 0.75]),
        PrivacyCurve.worst([single, PrivacyCurve.approximate(1.0, 1e-6)]) + PrivacyCurve.zcdp(0.1),
        3 * PrivacyCurve.dp_sgd(1.0, 0.01, 10),
        PrivacyCurve.from_rdp([2, 8], [0.1, 0.4]),
        search_with(None).privacy_cost(40).curve,
        PrivacyCurve.pure(1.0, relation="add-remove"),
        PrivacyCurve.pure(1.0),
    ]


def test_digests_are_values():
    found = [curve_digest(curve) for curve in curves()]
    assert None not in found and len(set(found)) == len(found)
    assert found == [curve_digest(curve) for curve in curves()]


def test_digests_are_the_same_in_another_process():
    code = "from tests.ledger.test_ledger import curves, curve_digest; print([curve_digest(c) for c in curves()])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == str([curve_digest(curve) for curve in curves()])


# ---------------------------------------------------------------------- plans


def gaussian_search(noise=3.0):
    return best_of(PrivacyCurve.gaussian(noise), Logarithmic(10))


def test_a_plan_buys_more_searches_than_the_filter(tmp_path):
    search, epsilon, delta = gaussian_search(), 10.0, 1e-5
    order = best_order(epsilon, delta, search)
    adaptive = PrivacyLedger(tmp_path / "adaptive", epsilon, delta, order=order).affordable(search)
    planned = PrivacyLedger(tmp_path / "planned", epsilon, delta, order=order)
    price = planned.register_plan([search] * (adaptive + 1))
    assert price == ((adaptive + 1) * search).epsilon(delta) <= epsilon
    assert planned.spent == price and planned.remaining == 0.0  # nothing but the plan is accepted
    exported = json.loads(planned.to_json())["plan"]
    assert [entry["slot"] for entry in exported] == list(range(1, adaptive + 2)) and not exported[0]["used"]
    for number in range(adaptive + 1):
        assert planned.affordable(search) == adaptive + 1 - number
        assert planned.charge(search).kind == "planned"
    with pytest.raises(BudgetExceededError, match="not among the planned searches still unused .none."):
        planned.charge(search)
    assert planned.spent == price and all(entry.used for entry in planned.plan())


def test_a_plan_admits_its_searches_in_any_order_and_nothing_else(tmp_path):
    ledger = PrivacyLedger(tmp_path / "plan", 10.0, 1e-5)
    forest, net = search_with(None, s=4.0), search_with(None, s=6.0)
    prices = [search.privacy_cost(40) for search in (forest, net)]
    ledger.register_plan(prices, "two models")
    assert [entry.used for entry in ledger.plan()] == [False, False]
    first = ledger.charge_once("b", prices[1])
    assert (first.slot, ledger.charge_once("b", prices[1])) == (2, first)
    clone(forest).set_params(ledger=ledger).fit(*ROWS)
    assert [entry.slot for entry in ledger.entries()] == [None, 2, 1]
    for other in (search_with(None, s=6.0).privacy_cost(41), search_with(None, s=9.0).privacy_cost(40)):
        assert not ledger.can_afford(other)
        with pytest.raises(BudgetExceededError, match="not among the planned"):
            ledger.charge(other)


def test_a_script_that_is_started_anew_finds_its_plan(tmp_path):
    prices = [search_with(None, s=scale).privacy_cost(40) for scale in (4.0, 6.0)]
    ledger = PrivacyLedger(tmp_path / "plan", 10.0, 1e-5)
    whole = ledger.register_plan(prices)
    entry = ledger.charge_once("first", prices[0])
    again = PrivacyLedger(tmp_path / "plan", 10.0, 1e-5)
    assert again.register_plan(prices, "in other words") == whole == again.spent
    assert again.charge_once("first", prices[0]) == entry and not again.can_afford(prices[0])
    other = search_with(None, s=6.0).privacy_cost(41)
    for plan in (prices[::-1], prices[:1], [*prices, prices[0]], [prices[0], other]):
        with pytest.raises(InvalidParameterError, match="must come first"):
            again.register_plan(plan)


def test_a_plan_over_budget_or_after_a_charge_is_refused(ledger):
    search = gaussian_search()
    with pytest.raises(BudgetExceededError, match="Nothing was registered"):
        ledger.register_plan([search] * 40)
    with pytest.raises(InvalidParameterError, match="at least one search"):
        ledger.register_plan([])
    with pytest.raises(RelationMismatchError):
        ledger.register_plan([PrivacyCurve.pure(0.1, relation="replace-one")])
    assert ledger.entries() == ()
    ledger.charge(search)
    with pytest.raises(InvalidParameterError, match="must come first"):
        ledger.register_plan([search])
    assert ledger.plan() == () and len(ledger.entries()) == 1


def test_a_plan_composes_the_worst_kind_of_row_of_each_search(tmp_path):
    """A row may be trained on in one search and scored in the next: the worst of both in each."""
    kinds = [PrivacyCurve.gaussian(2.0), PrivacyCurve.pure(1.2)]
    search = PrivacyCurve.worst(kinds)
    price = PrivacyLedger(tmp_path / "plan", 20.0, 1e-5).register_plan([search, search])
    for first in kinds:
        for second in kinds:
            assert price >= (first + second).epsilon(1e-5) * (1 - 1e-9)


def test_a_plan_needs_searches_that_can_be_recognised(ledger, monkeypatch):
    monkeypatch.setattr("skdptune.ledger._ledger.curve_digest", lambda curve: None)
    with pytest.raises(InvalidParameterError, match="number 1"):
        ledger.register_plan([gaussian_search()])


# ---------------------------------------------------------------------- reservations


def test_a_reservation_counts_until_it_is_released(pure):
    price = PrivacyCurve.pure(0.6)
    pure.reserve("anna", price)
    assert (pure.spent, pure.can_afford(price)) == (0.6, False)
    entry = pure.release("anna", "study cancelled before it began")
    assert (entry.rdp, pure.spent, pure.can_afford(price)) == (-0.6, 0.0, True)
    assert pure.release("anna", "again").seq == entry.seq and len(pure.entries()) == 2
    with pytest.raises(InvalidParameterError, match="'anna' names entry 1"):
        pure.charge_once("anna", price)


def test_only_unclaimed_reservations_are_released(ledger):
    search = search_with(None)
    price = search.privacy_cost(40)
    ledger.reserve("ben", price)
    spent = ledger.spent
    for copied in (copy.deepcopy, clone_through_pickle):
        assert copied(ledger.claim("ben")).token == "ben"
    search.set_params(ledger=ledger.claim("ben")).fit(*ROWS)
    assert ledger.spent == spent and [entry.kind for entry in ledger.entries()] == ["reserve", "claim"]
    with pytest.raises(InvalidParameterError, match="claimed by another search"):
        search.fit(*ROWS)
    with pytest.raises(InvalidParameterError, match="it was claimed"):
        ledger.release("ben", "no")
    charged = ledger.charge(price)
    with pytest.raises(InvalidParameterError, match="it is no reservation"):
        ledger.release(charged.token, "no")


def clone_through_pickle(value):
    return pickle.loads(pickle.dumps(value))


def test_a_claim_is_used_once_for_its_own_price(ledger):
    price = search_with(None).privacy_cost(40)
    ledger.reserve("ben", price)
    claim = ledger.claim("ben")
    with pytest.raises(InvalidParameterError, match="another price"):
        claim.charge(search_with(None, s=9.0).privacy_cost(40))
    first = claim.charge_once("run-1", price)
    assert claim.charge_once("run-1", price) == first
    with pytest.raises(InvalidParameterError, match="another price"):  # the token alone does not say what was paid
        claim.charge_once("run-1", search_with(None, s=9.0).privacy_cost(40))
    with pytest.raises(InvalidParameterError, match="is no reservation"):
        ledger.claim("eve").charge(price)
    ledger.reserve("cy", price)
    ledger.release("cy", "not needed")
    with pytest.raises(InvalidParameterError, match="was released"):
        ledger.claim("cy").charge(price)


# ---------------------------------------------------------------------- copies


def test_copies_are_the_same_budget(pure):
    assert copy.copy(pure) is pure and copy.deepcopy(pure) is pure and clone(pure, safe=False) is pure
    assert as_ledger(pure) is pure and for_pickling(pure) is pure
    twin = pickle.loads(pickle.dumps(pure))
    twin.charge_curve(PrivacyCurve.pure(0.25), "count")
    assert twin == pure and pure.spent == 0.25 and pure != 3


def test_a_pickle_needs_the_file_only_to_spend(pure, tmp_path):
    text = pickle.dumps(pure)
    (tmp_path / "pure.ledger").unlink()
    twin = pickle.loads(text)
    assert twin.epsilon == 1.0
    with pytest.raises(LedgerError, match="there is no file"):
        twin.charge_curve(PrivacyCurve.pure(0.1), "count")


def test_a_file_put_in_place_of_a_ledger_is_not_charged(pure, tmp_path):
    PrivacyLedger(tmp_path / "new", epsilon=1.0, delta=0)
    (tmp_path / "new").rename(tmp_path / "pure.ledger")
    with pytest.raises(LedgerError, match="another one"):
        pure.charge_curve(PrivacyCurve.pure(0.1), "count")


# ---------------------------------------------------------------------- history


def test_exports_hold_everything_and_add_up(ledger, tmp_path):
    ledger.charge(search_with(None).privacy_cost(40))
    ledger.charge_curve(PrivacyCurve.gaussian(7.0), 'a "sum", über', n_samples=40, assumptions=("bounds", "ranges"))
    exported = json.loads(ledger.to_json(tmp_path / "out.json"))
    assert json.loads((tmp_path / "out.json").read_text(encoding="utf-8")) == exported
    assert [entry["what"] for entry in exported["entries"]][1] == 'a "sum", über'
    assert exported["head"] == ledger.verify() and exported["identity"] == ledger.identity
    table = list(csv.DictReader(io.StringIO(ledger.to_csv(tmp_path / "out.csv"))))
    assert [row["assumptions"] for row in table][1] == "bounds | ranges"
    for rows in (exported["entries"], table):
        total = sum(Decimal(str(row["rdp"])) for row in rows)
        assert float(total) == pytest.approx(ledger.rdp_spent, rel=1e-15) and total <= Decimal(repr(ledger.rdp_spent))
    with pytest.raises(LedgerError, match="can be written"):
        ledger.to_json(tmp_path / "no" / "such")


def test_a_public_export_tells_no_times(ledger):
    """From the time between two charges an outsider could read how long a search ran, and guess its tries."""
    ledger.charge(search_with(None).privacy_cost(40))
    entry = ledger.entries()[0]
    for text in (ledger.to_json(public=True), ledger.to_csv(public=True)):
        for secret in (entry.when, entry.token, entry.hash, '"user"', "when", "head"):
            assert secret not in text
        assert entry.digest in text and "zero-out" in text


def test_infinities_are_exported_as_text(tmp_path):
    ledger = PrivacyLedger(tmp_path / "a", 1.0, 0)
    assert json.loads(ledger.to_json())["order"] == "inf"


def test_the_history_cannot_be_edited(pure):
    pure.charge_curve(PrivacyCurve.pure(0.25), "count")
    connection = sqlite3.connect(pure.path)
    for statement in (
        "UPDATE entries SET rdp = '0.0'",
        "DELETE FROM entries",
        "UPDATE terms SET body = '{}'",
        "DELETE FROM terms",
        "INSERT INTO terms VALUES (2, '{}')",
        "INSERT OR REPLACE INTO entries SELECT seq, kind, token, '0.0', aside, body, hash FROM entries",
        "INSERT INTO entries SELECT seq + 5, kind, 'x', rdp, aside, body, hash FROM entries",
    ):
        with pytest.raises(sqlite3.Error):
            connection.execute(statement)
    connection.close()
    assert pure.verify() == pure.entries()[0].hash


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE entries SET rdp = '0.01' WHERE seq = 2",
        "UPDATE entries SET body = replace(body, '0.2', '0.1') WHERE seq = 2",
        "UPDATE entries SET hash = 'x' WHERE seq = 3",
        "DELETE FROM entries WHERE seq = 1",
        "DELETE FROM entries WHERE seq = 2",
        "UPDATE terms SET body = replace(body, 'ward 7', 'ward 8')",
    ],
)
def test_edits_by_other_means_show(pure, edit):
    for number in range(3):
        pure.charge_curve(PrivacyCurve.pure(0.2), f"count {number}")
    connection = sqlite3.connect(pure.path)
    names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")]
    for name in names:
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute(edit)
    connection.commit()
    connection.close()
    for reading in (pure.verify, pure.entries, pure.to_json):
        with pytest.raises(LedgerError, match="was edited"):
            reading()


def test_a_cut_or_rewritten_history_shows_against_a_head_kept_elsewhere(pure, tmp_path):
    pure.charge_curve(PrivacyCurve.pure(0.2), "count")
    old = (tmp_path / "pure.ledger").read_bytes()
    pure.charge_curve(PrivacyCurve.pure(0.2), "count")
    head = pure.verify()
    pure.charge_curve(PrivacyCurve.pure(0.2), "count")
    assert pure.verify(head) != head
    (tmp_path / "pure.ledger").write_bytes(old)  # an older copy: a valid ledger, but not this one's history
    assert pure.verify() and pure.spent == 0.2
    with pytest.raises(LedgerError, match="older copy"):
        pure.verify(head)


def test_texts(pure, ledger):
    pure.charge_curve(PrivacyCurve.pure(0.25), "histogram of ages")
    assert "spent: 0.2500, left: 0.7500, entries: 1" in str(pure) and "ward 7" in str(pure)
    assert "histogram of ages" in pure.summary() and "(not named)" in str(ledger)
    assert "epsilon=1.0" in repr(pure)
    ledger.register_plan([gaussian_search()])
    assert "plan: 0 of 1 searches used" in str(ledger)


def test_an_export_never_costs_a_file(pure, tmp_path, monkeypatch):
    pure.charge_curve(PrivacyCurve.pure(0.25), "histogram of ages")
    (tmp_path / "alias").symlink_to(pure.path)
    for path in (pure.path, tmp_path / "alias", f"{pure.path}-wal", tmp_path / "." / "pure.ledger-shm"):
        with pytest.raises(InvalidParameterError, match="must not be the ledger's own file"):
            pure.to_csv(path)
    out = tmp_path / "out.json"
    pure.to_json(out)
    before = out.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("skdptune._writing.os.fsync", full)
    with pytest.raises(LedgerError, match=r"No space left.*The ledger is unharmed"):
        pure.to_json(out, public=True)
    monkeypatch.undo()
    assert out.read_bytes() == before and sorted(os.listdir(tmp_path)) == sorted({"alias", "out.json", *_ours(pure)})
    assert pure.spent == 0.25


def _ours(ledger):
    folder, name = os.path.split(ledger.path)
    return [entry for entry in os.listdir(folder) if entry.startswith(name)]


def test_a_ledger_prints_its_delta_whole_and_what_is_left_rounded_down(tmp_path):
    ledger = PrivacyLedger(tmp_path / "b", 1.00004, 1.23456789e-05, order=20.0)
    assert "epsilon = 1.00004 at delta = 1.23456789e-05" in ledger.summary()
    with pytest.raises(BudgetExceededError) as caught:
        ledger.charge_curve(PrivacyCurve.gaussian(0.5), "too much")
    text = str(caught.value)
    assert "of epsilon=1.00004 at delta=1.23456789e-05" in text
    asked, left, alone = (float(re.search(pattern, text).group(1)) for pattern in (
        r"asks for ([\d.e-]+)", r"and ([\d.e-]+) nats at Renyi order 20 is left", r"epsilon=([\d.e-]+)\)"))  # fmt: skip
    assert asked > 24.0 and left <= ledger.rdp_budget and ledger.rdp_budget - left < 1e-5
    assert alone >= PrivacyCurve.gaussian(0.5).epsilon(1.23456789e-05)


# ---------------------------------------------------------------------- terms stay


@pytest.mark.parametrize(
    "name", ["epsilon", "delta", "order", "delta_aside", "relation", "dataset", "rdp_budget", "path", "identity"]
)
def test_terms_cannot_be_set(ledger, name):
    before = getattr(ledger, name)
    with pytest.raises(AttributeError, match=f"{name} of a ledger is fixed when it is made"):
        setattr(ledger, name, before)
    assert getattr(pickle.loads(pickle.dumps(ledger)), name) == before


def test_a_reservation_that_could_not_be_claimed_is_refused(ledger):
    class Own(scipy.stats.rv_discrete):
        def _pmf(self, k):
            return 0.5 ** np.maximum(k, 1.0) + 0.0 * k

    search = best_of(PrivacyCurve.gaussian(30.0), FromScipy(Own(a=1, name="own")()))
    with pytest.raises(InvalidParameterError, match="recognised when it claims"):
        ledger.reserve("later", search)
    assert ledger.entries() == () and ledger.charge(search).digest is None


def test_an_entry_names_what_was_searched(ledger):
    entry = ledger.charge(search_with(None).privacy_cost(40))
    assert entry.what.startswith("search of ") and ", tries " in entry.what
