"""Reports of a search and a test score: each by its own price, in every form, whichever of the two is dearer."""

import html
import json
import re

import pytest

from skdptune._rounding import nats_up, percent_down, percent_up, plain_as_given
from skdptune.model_selection import IndependentHoldout
from skdptune.report import card, json_schema
from tests.report.cases import ROWS, released

TESTED = 37
GUESS = 40
KINDS = {
    "zero-out": {},
    "replace-one": {"relation": "replace-one"},
    "refit": {"cv": 3, "refit": True},
    "add-remove": {"relation": "add-remove", "cv": IndependentHoldout(70)},
}


@pytest.fixture(scope="module", params=[(kind, dearer) for kind in KINDS for dearer in ("search", "score")], ids=str)
def case(request):
    kind, dearer = request.param
    return kind, dearer, released(dearer, **KINDS[kind])


@pytest.fixture(scope="module")
def validator():
    jsonschema = pytest.importorskip("jsonschema", reason="validates the JSON form")
    return jsonschema.Draft202012Validator(json_schema())


def cells(text, caption):
    """Return the rows of the table of a page whose caption starts so, as lists of text."""
    for table in re.findall(r"<table.*?</table>", text, re.S):
        if f"<caption>{caption}" in table:
            return [
                [html.unescape(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)]
                for row in re.findall(r"<tr.*?>(.*?)</tr>", table)
            ]
    raise AssertionError(caption)


def forms(both):
    report = both.report()
    spent = both.privacy_spent
    texts = [report.to_html(), report._repr_html_(), report.to_markdown(), card(spent), str(spent)]
    return [" ".join(html.unescape(text).replace("\\", "").split()) for text in texts]


def test_json(case, validator):
    kind, dearer, both = case
    spent, alone = both.privacy_spent, both.search_spent
    values = json.loads(both.report().to_json())
    validator.validate(values)
    plain = alone.report(delta=values["delta"]).to_dict()
    assert plain["test_score"] is None and plain["attacker"]["together"] is None
    for row, search_row in zip(values["prices"], plain["prices"], strict=True):
        delta = row["delta"]
        assert (search_row["test_score"], search_row["together"]) == (None, None)
        assert {**row, "test_score": None, "together": None} == search_row  # method and closed form too
        assert float(row["test_score"]) == both.curve.epsilon(delta)
        assert float(row["together"]) == both.epsilon(delta)
        assert float(row["together"]) >= max(float(row["whole_search"]), float(row["test_score"])) - 1e-9
    first = next(row for row in values["prices"] if row["delta"] == values["delta"])
    assert values["epsilon"] == first["together"]
    assert (first["test_score"] > first["whole_search"]) == (dearer == "score")
    assert (first["together"] == first["whole_search"]) == (dearer == "search")
    assert values["method"] == plain["method"]
    meaning = values["attacker"]
    assert meaning["whole_search"] == plain["attacker"]["whole_search"]
    if dearer == "score":
        assert meaning["together"]["advantage"] > meaning["whole_search"]["advantage"]
    private = kind == "add-remove"
    assert values["n_samples"] == (None if private else ROWS)
    assert values["test_score"]["rows"] == (None if private else TESTED)
    assert values["test_score"]["divisor"] == (GUESS if private else TESTED)
    width = both.scorer.maximum - both.scorer.minimum
    assert values["test_score"]["standard_deviation"] * width == pytest.approx(both.standard_deviation)
    assert spent.assumptions == tuple(values["assumptions"])
    for change in ({"rows": 0}, {"n_tries": 3}, {"divisor": None}):
        assert not validator.is_valid({**values, "test_score": {**values["test_score"], **change}})


def test_pages(case):
    kind, dearer, both = case
    report, alone = both.report(), both.search_spent
    delta, text = report.delta, report.to_html()
    assert f"at delta = {plain_as_given(delta)}, for the search and the test score together" in report.to_markdown()
    head, *body = cells(text, "epsilon of the search, the test score and both together, rounded up")
    assert head == ["delta", "Search", "Test score", "Together"]
    (row,) = [row for row in body if float(row[0]) == delta]
    assert row[1:] == [nats_up(curve.epsilon(delta)) for curve in (alone.curve, both.curve, both.total)]
    head, *body = cells(text, "epsilon of the search alone, rounded up")
    (row,) = [row for row in body if float(row[0]) == delta]
    assert row[1] == nats_up(alone.epsilon(delta)) and (head[1], head[-1]) == ("Whole search", "Closed form")
    closed = alone.closed_form_epsilon(delta)
    assert row[-1] == ("none" if closed is None else nats_up(closed))
    if kind == "refit":
        (row,) = [row for row in cells(text, "Parts of the whole search")[1:] if float(row[0]) == delta]
        assert row[1:] == [nats_up(alone.selection.epsilon(delta)), nats_up(alone.refit.epsilon(delta))]
    for caption in ("An attacker&#x27;s success", "f-DP trade-off"):
        assert cells(text, caption)[0][1:] == ["Search and test score", "One try"]
    meaning = report.to_dict()["attacker"]["together"]
    success = cells(text, "An attacker&#x27;s success")[1:]
    shown = [row[1].replace("\xa0", " ") for row in success]
    truth = [meaning["advantage"], meaning["correct_guesses"]]
    truth += [row["true_positive_rate"] for row in meaning["true_positive_rates"]]
    assert shown == [percent_up(value) for value in truth]
    missed = [row[1].replace("\xa0", " ") for row in cells(text, "f-DP trade-off")[1:]]
    assert missed == [percent_down(row["type_two"]) for row in meaning["trade_off"]]
    beliefs = [row["posterior"] for row in meaning["beliefs"] if row["share_set_aside"] == 0.01]
    shown = [row[1].replace("\xa0", " ") for row in cells(text, "Belief in the truth")[1:]]
    assert shown == ["no limit" if value >= 1 else percent_up(value) for value in beliefs]
    assert "(search and test score)" in text and "search and test score (thick line)" in text
    facts = {row[0]: row[1] for row in cells(text, "What this report is about")}
    private = kind == "add-remove"
    assert facts["Searched rows"] == ("private" if private else str(ROWS)) and "Rows" not in facts
    assert facts["Test rows"] == ("private" if private else str(TESTED))
    assert "The search alone is priced by: " in text and "for the whole search" not in text


def test_every_form_says_the_same(case):
    kind, _, both = case
    spent = both.privacy_spent
    delta = spent.default_delta
    prices = [nats_up(curve.epsilon(delta)) for curve in (both.search_spent.curve, both.curve, both.total)]
    for text in forms(both):
        assert all(price in text for price in prices)
        assert "Released: " not in text and "Released by the search: " in text
        assert "The test score (accuracy) carries exact integer noise" in text
        if kind == "add-remove":
            assert f"a public guess of {GUESS} rows" in text
            assert not re.search(rf"(?<![\d.])({ROWS}|{TESTED}|{ROWS + TESTED}) (searched |test )?rows", text)
            assert "number of test rows is private as well" in text
        else:
            assert "The number of rows (" not in text
            assert f"searched rows ({ROWS}) and of test rows ({TESTED}) are public" in text
    summary = str(spent)
    for name, price in zip(("search", "test score", "together"), prices, strict=True):
        assert re.search(rf"^  {name} +epsilon = {re.escape(price)}$", summary, re.M)
        assert f'<th scope="row">{name}</th><td>{price}</td>' in card(spent)
    assert '<tr class="strong"><th scope="row">together</th>' in card(spent)
    assert summary.startswith("Privacy spent: search and test score, at delta")
    assert "whole search" not in summary + card(spent) and "one fit and the one test score" in " ".join(summary.split())
    assert max(len(line) for line in summary.splitlines()) <= 79


def test_add_remove_tells_no_number_of_rows():
    both = [released("score", **KINDS["add-remove"]) for _ in range(2)]
    assert str(both[0].privacy_spent) == str(both[1].privacy_spent)
    report = both[0].report()
    for text in (report.to_json(), report.to_markdown(), str(both[0].privacy_spent), repr(both[0].privacy_spent)):
        assert not re.search(rf"(?<![\d.]){TESTED}(?![\d.])", text)
    assert "n_test=None" in repr(both[0].privacy_spent)


def test_a_large_delta_is_judged_by_all_rows():
    both = released("score")
    warnings = both.report(delta=0.011).to_dict()["warnings"]  # below 1 / 60, not below 1 / 97
    assert any("not below 1 / 97" in text for text in warnings)
    assert not any("not below" in text for text in both.search_spent.report(delta=0.011).to_dict()["warnings"])
