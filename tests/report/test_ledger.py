"""A report of a search that a ledger was charged for: which one, how much, and how the numbers belong together."""

import copy
import json
import pickle
from dataclasses import replace

import pytest

from skdptune._rounding import nats_up
from skdptune.exceptions import InvalidParameterError, InvalidTypeError, LedgerError
from skdptune.ledger import PrivacyLedger
from skdptune.model_selection import release_test_score
from skdptune.report import PrivacyReport, card, json_schema, round_down
from tests.model_selection.estimators import PrivateMajority
from tests.report.cases import Level, rows, search

SPACE = {"scale": [10.0]}  # a tenth of epsilon for a try: the ledgers below hold several


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("ledgers")


@pytest.fixture(scope="module", params=[9.0, float("inf")], ids=str)
def case(request, folder):
    """A search without a delta of its own, and the ledger of another delta that was charged for it."""
    ledger = PrivacyLedger(folder / f"{request.param}.ledger", 3.0, 1e-6, order=request.param, dataset="ward 7")
    fitted = search(Level(), space=SPACE, ledger=ledger).fit(*rows())
    return ledger, fitted


def test_both_numbers_stand_in_one_report(case):
    ledger, fitted = case
    spent, [entry] = fitted.privacy_spent_, ledger.entries()
    assert spent.default_delta != ledger.delta
    report = spent.report(ledger=ledger)
    values = report.to_dict()
    assert values["ledger"]["identity"] == ledger.identity and values["ledger"]["dataset"] == "ward 7"
    [charged] = values["ledger"]["entries"]
    assert (charged["entry"], charged["charged"], charged["epsilon"]) == (1, entry.rdp, spent.epsilon(ledger.delta))
    assert ledger.delta in [row["delta"] for row in values["prices"]]  # the bridge: one curve, both points
    for text in (report.to_markdown(), report.to_html()):
        assert f"epsilon {nats_up(spent.epsilon(ledger.delta))} at delta 0.000001" in text
        assert nats_up(values["epsilon"]) in text and "do not contradict each other" in text
    pytest.importorskip("jsonschema").validate(json.loads(report.to_json()), json_schema())


def test_what_is_spent_and_left_and_the_words_at_one_delta(case):
    ledger, fitted = case
    report = fitted.privacy_spent_.report(ledger=ledger.path)
    found = report.to_dict()["ledger"]
    assert (found["spent"], found["remaining"], found["n_entries"]) == (ledger.spent, ledger.remaining, 1)
    text = report.to_markdown()
    assert f"epsilon {nats_up(ledger.spent)} at delta 0.000001, in 1 entry" in text
    assert f"epsilon {round_down(ledger.remaining)} at delta 0.000001 (rounded down)" in text
    same = fitted.privacy_spent_.report(ledger=ledger, delta=ledger.delta).to_markdown()
    assert "do not contradict" not in same and "both read prices at delta = 0.000001" in same


def test_the_searchs_own_ledger_is_found(case):
    ledger, fitted = case
    report = fitted.privacy_spent_.report(published=fitted)
    assert report.to_dict()["ledger"]["identity"] == ledger.identity
    assert pickle.loads(pickle.dumps(report)).to_dict() == report.to_dict()
    assert replace(report, title="B").to_dict()["ledger"] == report.to_dict()["ledger"]


def test_a_test_score_and_its_entry(folder):
    ledger = PrivacyLedger(folder / "both.ledger", 3.0, 1e-6)
    fitted = search(space=SPACE, ledger=ledger).fit(*rows())
    released = release_test_score(fitted, *rows(37, 1))
    assert "The test score has no entry of its own" in released.report().to_markdown()
    fitted = copy.copy(fitted)
    del fitted._test_scores_released  # as if this were the first one
    released = release_test_score(fitted, *rows(37, 1), ledger=ledger)
    found = released.report(ledger=ledger).to_dict()["ledger"]["entries"]
    assert [(entry["what"], entry["entry"]) for entry in found] == [("search", 1), ("test score", 2)]


def test_a_ledger_that_was_not_charged_is_refused(case, folder):
    ledger, fitted = case
    other = PrivacyLedger(folder / f"other-{ledger.order}.ledger", 3.0, 1e-6)
    with pytest.raises(InvalidParameterError, match="none of its entries is of this price"):
        fitted.privacy_spent_.report(ledger=other)
    with pytest.raises(InvalidTypeError, match="ledger must be a PrivacyLedger"):
        fitted.privacy_spent_.report(ledger=7)
    with pytest.raises(LedgerError, match=r"ward7\.ledger"):
        fitted.privacy_spent_.report(ledger="ward7.ledger")
    with pytest.raises(InvalidParameterError, match="a quote has charged nothing"):
        PrivacyReport(fitted.privacy_cost(n_samples=60), ledger=ledger)
    assert fitted.privacy_spent_.report().to_dict()["ledger"] is None
    fitted.set_params(ledger=other)  # one that was put there after the fit says nothing about it
    try:
        assert fitted.privacy_spent_.report(published=fitted).to_dict()["ledger"] is None
    finally:
        fitted.set_params(ledger=ledger)


def test_a_released_reservation_has_paid_for_nothing(folder):
    ledger = PrivacyLedger(folder / "held.ledger", 3.0, 1e-6)
    fitted = search(space=SPACE).fit(*rows())
    ledger.reserve("anna", fitted.privacy_cost(n_samples=60))
    ledger.release("anna", "not needed")
    with pytest.raises(InvalidParameterError, match="none of its entries"):
        fitted.privacy_spent_.report(ledger=ledger)


def test_what_the_search_published_stands_beside_the_test_score():
    fitted = search(space=SPACE).fit(*rows())
    released = release_test_score(fitted, *rows(37, 1))
    values = released.report().to_dict()["published"]
    assert values["best_params"] == [{"parameter": "scale", "value": "10.0"}]
    assert values["best_score"] == fitted.best_score_
    text = replace(released, published=None).report().to_markdown()
    assert "its settings and its noisy score were released as well" in text  # a list that says so is not short of two


def test_a_score_that_drowns_in_noise_is_called_so():
    loud = search(PrivateMajority(), {"scale": [1000.0]})
    quote, fitted = loud.privacy_cost(n_samples=60), loud.fit(*rows())
    released = release_test_score(fitted, *rows(37, 1))
    for spent in (quote, fitted.privacy_spent_):
        [warning] = [text for text in spent.report().to_dict()["warnings"] if "drowns" in text]
        assert warning.startswith("The noise drowns the score of the best try: its standard deviation is")
        assert "drowns" in card(spent) and "TOO MUCH" in " ".join(str(spent).split())
    assert sum("drowns" in text for text in released.report().to_dict()["warnings"]) == 2
    quiet = search(PrivateMajority(), {"scale": [1.0]}).privacy_cost(n_samples=600)
    assert "drowns" not in card(quiet) + quiet.report().to_markdown() and "TOO MUCH" not in " ".join(str(quiet).split())
