"""Reports of every kind of price: valid, escaped, on the private side, and silent about runs."""

import html
import json
import math
import pickle
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from skdptune._exceptions import AllRunsFailedError, InvalidParameterError, InvalidTypeError
from skdptune.accounting import PrivacyCurve
from skdptune.model_selection import IndependentHoldout
from skdptune.report import PrivacyReport, card, json_schema, round_down, round_up
from skdptune.run_counts import Finite, Fixed, Geometric, from_dict
from tests.model_selection.estimators import PrivateMajority
from tests.report.cases import ROWS, handmade, quotes, rows, search

QUOTES = quotes()
VOID = {"meta", "br"}


class Checked(HTMLParser):
    """Collects tags and text, and fails on tags that are not closed in order."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.text = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.text.append(data)


def parsed(text):
    found = Checked()
    found.feed(text)
    found.close()
    assert not found.open
    return found


@pytest.fixture(scope="module")
def validator():
    jsonschema = pytest.importorskip("jsonschema", reason="validates the JSON form")
    jsonschema.Draft202012Validator.check_schema(json_schema())
    return jsonschema.Draft202012Validator(json_schema())


@pytest.mark.parametrize("name", QUOTES)
def test_every_kind_of_price_makes_every_form(name, validator):
    spent = QUOTES[name]
    report = spent.report(title=name)
    values = json.loads(report.to_json())
    validator.validate(values)
    assert values == report.to_dict() and values["stage"] == "quote"
    for text in (report.to_html(), report._repr_html_(), card(spent)):
        found = parsed(text)
        assert not [tag for tag, _ in found.tags if tag in ("script", "link", "img", "iframe")]
        assert "://" not in text.split("</style>")[-1] and "url(" not in text and "@import" not in text
        assert all(attrs.get("scope") in ("col", "row") for tag, attrs in found.tags if tag == "th")
        assert [tag for tag, _ in found.tags].count("caption") == [tag for tag, _ in found.tags].count("table")
    assert "quote" in report.to_markdown() and str(report) == report.to_markdown()
    assert spent.summary().isascii() and str(spent) == spent.summary()


@pytest.mark.parametrize("name", QUOTES)
def test_numbers_are_the_prices_and_printed_above_them(name):
    spent = QUOTES[name]
    report = spent.report()
    values = report.to_dict()
    for row in values["prices"]:
        assert float(row["whole_search"]) == spent.epsilon(row["delta"])
        assert float(row["single_run"]) == spent.single_run.epsilon(row["delta"])
        closed = spent.closed_form_epsilon(row["delta"])
        assert (row["closed_form"] is None) == (closed is None)
    assert values["prices"][[row["delta"] for row in values["prices"]].index(values["delta"])]["whole_search"] == (
        values["epsilon"]
    )
    headline = re.search(r'class="headline">.*?<strong>([^<]+)<', report.to_html()).group(1)
    if headline == "infinite":
        assert values["epsilon"] == "inf" and "NO GUARANTEE" in values["warnings"][0]
    else:
        assert float(values["epsilon"]) <= float(headline) <= float(values["epsilon"]) * 1.01 + 1e-4
    found = values["attacker"]["whole_search"]
    assert found["advantage"] <= 1.01 * spent.delta(0.0) + 1e-12
    for row in found["true_positive_rates"]:
        assert row["true_positive_rate"] - row["false_positive_rate"] <= found["advantage"] + 1e-9


def printed(text):
    text = text.replace("\xa0", " ").removesuffix(" %")
    return {"infinite": math.inf, "no limit": 100.0}.get(text) if not text[0].isdigit() else float(text)


@pytest.mark.parametrize("name", QUOTES)
def test_every_printed_number_is_on_the_private_side(name):
    """Read from the page as a reader does, and compared with the unrounded bounds."""
    report = QUOTES[name].report()
    tables = {}
    for table in re.findall(r"<table class=\"numbers\">(.*?)</table>", report.to_html(), re.S):
        caption = html.unescape(re.search(r"<caption>(.*?)</caption>", table).group(1))
        body = table.split("<tbody>")[1]
        rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr.*?>(.*?)</tr>", body)]
        tables[caption.split()[0]] = [[printed(html.unescape(cell)) for cell in row[1:]] for row in rows]
    values = report.to_dict()
    whole, single = values["attacker"]["whole_search"], values["attacker"]["single_run"]
    for index, key in enumerate(("advantage", "correct_guesses")):
        assert tables["An"][index] == pytest.approx([100 * whole[key], 100 * single[key]], abs=0.11)
        assert np.all(np.array(tables["An"][index]) >= [100 * whole[key], 100 * single[key]])
    for row, ours, theirs in zip(tables["f-DP"], whole["trade_off"], single["trade_off"], strict=True):
        truth = np.array([100 * ours["type_two"], 100 * theirs["type_two"]])
        assert np.all(np.array(row) <= truth) and np.all(np.array(row) >= 0.9 * truth - 0.1)
    for row, prior in zip(tables["Belief"], (0.01, 0.1, 0.5), strict=True):
        truth = [100 * each["posterior"] for each in whole["beliefs"] if each["prior"] == prior]
        assert np.all(np.array(row) >= truth) and np.all(np.array(row) <= 1.01 * np.array(truth) + 0.1)
    for row, price in zip(tables["epsilon"], values["prices"], strict=True):
        assert row[0] >= float(price["whole_search"]) and row[1] >= float(price["single_run"])


def test_an_inner_search_is_published_as_such():
    outer = search(search(n_iter=Geometric(2)), {"n_iter": [2, 3]}).fit(*rows())
    assert outer.privacy_spent_.stage == "spent"
    inner = outer.best_estimator_.privacy_spent_
    assert inner.stage == "inner" and "file that report instead" in inner.report().to_html()


def test_a_fit_gives_the_quote_but_for_its_status():
    model = search()
    quote = model.privacy_cost(ROWS)
    spent = model.fit(*rows()).privacy_spent_
    assert spent == quote and (quote.stage, spent.stage) == ("quote", "spent")
    before, after = quote.report().to_dict(), spent.report().to_dict()
    assert {key for key in before if before[key] != after[key]} == {"stage", "warnings", "settings"}
    assert before["settings"].pop("labels") is None
    assert after["settings"].pop("labels") == {"number": 2, "declared": False}  # a fit publishes the label set
    assert before["settings"] == after["settings"]
    assert "before any data was used" in before["warnings"][0]
    assert all("drowns" in text for text in after["warnings"]) and before["warnings"][1:] == after["warnings"]
    assert "Price quoted before" in str(quote) and str(spent).startswith("Privacy spent")
    assert "before any" in card(quote) and "before any" not in card(spent)


def test_reports_say_nothing_about_the_runs():
    """The same settings give the same report whatever was drawn, also where no try succeeded or none was made."""
    texts = set()
    for seed in range(4):
        spent = search().fit(*rows(seed=seed)).privacy_spent_
        texts.add(spent.report().to_json() + spent.report().to_html() + spent.report().to_markdown())
    assert len(texts) == 1
    assert not any(word in next(iter(texts)) for word in ("n_runs", "n_tries", "position", "winner_index"))


class Broken(PrivateMajority):
    def fit(self, X, y):
        raise ValueError("rows")


def test_failed_and_empty_searches_report_the_same():
    none = Finite([1 - 1e-9, 1e-9])  # a try is made once in a billion fits
    empty = search(n_iter=none).fit(*rows())
    assert empty.best_params_ is None
    expected = search(n_iter=none).privacy_cost(ROWS).report().to_dict()
    found = empty.privacy_spent_.report().to_dict()
    expected["settings"]["labels"] = {"number": 2, "declared": False}
    assert {key for key in found if found[key] != expected[key]} == {"stage", "warnings"}
    assert found["tries"]["none_at_all"] > 0.9
    broken = search(Broken())
    with pytest.raises(AllRunsFailedError):
        broken.fit(*rows())
    text = broken.privacy_spent_.report().to_html()
    for general in ("Whether a run fails", "or every try fails"):
        text = text.replace(general, "")
    assert "ValueError" not in text and "fail" not in text


def test_add_remove_keeps_the_number_of_rows():
    model = search(relation="add-remove", cv=IndependentHoldout(70))
    forms = set()
    for n in (ROWS, ROWS + 1):
        spent = model.fit(*rows(n)).privacy_spent_
        forms.add((str(spent), card(spent), spent.report().to_json(), spent.report().to_html()))
    assert len(forms) == 1
    values = json.loads(next(iter(forms))[2])
    assert values["n_samples"] is None and values["delta"] == 1e-6
    assert str(ROWS) not in re.sub(r"[\d.]+e?-?\d+ ?%?", lambda m: "" if "." in m.group() else m.group(), str(spent))


@pytest.mark.filterwarnings("ignore:random_state was given")
def test_a_seed_is_loud_everywhere():
    spent = search(random_state=0).fit(*rows()).privacy_spent_
    report = spent.report()
    assert "A SEED WAS GIVEN" in report.to_dict()["warnings"][0]
    assert report.to_html().index("A SEED WAS GIVEN") < report.to_html().index("headline\">")
    assert "SEED GIVEN" in str(spent) and "seed was given" in card(spent)
    assert report.to_dict()["settings"]["seeded"] is True
    unseeded = search().fit(*rows()).privacy_spent_
    assert "seed was" not in (str(unseeded) + card(unseeded) + unseeded.report().to_html()).lower()


def test_settings_that_change_the_story():
    found = {name: QUOTES[name].report().to_dict() for name in QUOTES}
    assert found["public validation"]["score_noise"] is None
    assert "public rows, without noise" in found["public validation"]["released"][1]
    assert found["target"]["settings"]["target"] == {
        "epsilon": 3.0, "delta": 0.0, "level": found["target"]["settings"]["target"]["level"]
    }
    assert found["target"]["delta"] == 0.0 and found["target"]["epsilon"] <= 3.0
    assert found["target"]["settings"]["released_model"] == "none"
    assert found["delta of its own"]["delta"] == 1e-7
    assert found["folds and refit"]["prices"][0]["refit"] > 0
    assert found["folds and refit"]["settings"]["released_model"] == "refit"
    assert found["nested"]["settings"]["estimator"] == "PrivateRandomSearchCV of PrivateMajority"
    assert found["pipeline"]["settings"]["estimator"].startswith("Pipeline (functiontransformer")
    assert found["one sure run"]["tries"]["certain"] is True and found["plain"]["tries"]["certain"] is False
    assert found["infinite mean"]["tries"]["mean"] == "inf"
    assert "and 3 more" in found["many values"]["settings"]["space"][0]["drawn_from"]
    assert [row["parameter"] for row in found["several spaces"]["settings"]["space"]] == ["1. scale", "2. scale"]
    assert found["large"]["warnings"][1].startswith("The protection is weak")
    assert found["no cost"]["epsilon"] == 0.0 and found["no cost"]["attacker"]["whole_search"]["advantage"] < 1e-12
    assert "PrivateMean" in found["regression"]["settings"]["estimator"]
    assert "error, lower 0" in found["regression"]["settings"]["scoring"]
    assert all("No assumptions" in found[name]["warnings"][-1] for name in ("huge", "infinite", "no versions"))
    assert "at most 5.26e325 times" in QUOTES["huge"].report().to_html()
    assert "not recorded" in QUOTES["no versions"].report().to_html()
    for name in ("plain", "finite", "capped"):
        assert from_dict(found[name]["tries"]["arguments"]) == QUOTES[name].run_count


@pytest.mark.parametrize("relation, words", [
    ("zero-out", "row blanked out"), ("replace-one", "any other row in its place"), ("add-remove", "and without it"),
])
def test_words_fit_the_relation(relation, words):
    curve = PrivacyCurve.pure(1.0, relation=relation)
    assert words in handmade(curve, relation=relation, n_samples=None).report().to_html()


def test_an_inner_search_says_so():
    text = replace(QUOTES["plain"], stage="inner").report().to_markdown()
    assert "inside another search" in text and "file that report instead" in text


def test_large_deltas_are_questioned():
    warnings = QUOTES["plain"].report(delta=0.5).to_dict()["warnings"]
    assert any("not below 1 / 60" in text for text in warnings)


NASTY = '<script>alert("x")</script> & | *bold* _under_ `code` [a](b)\n# head'


def nasty():
    kind = type("<script>alert(1)</script>", (PrivateMajority,), {})
    return replace(
        QUOTES["plain"],
        assumptions=(NASTY,),
        settings=replace(QUOTES["plain"].settings, estimator=kind.__name__, space=((NASTY, "x" * 900),)),
        versions=((NASTY, NASTY),),
    )


def test_everything_is_escaped():
    report = nasty().report(title=NASTY, prepared_for=NASTY, data=NASTY, notes=NASTY)
    for text in (report.to_html(), report._repr_html_(), card(nasty())):
        found = parsed(text)
        assert not [tag for tag, _ in found.tags if tag in ("script", "a", "em")]
    assert NASTY in "".join(parsed(report.to_html()).text).replace("\r", "")
    markdown = report.to_markdown()
    assert "<script" not in markdown and "\n# head" not in markdown and "\\`code\\`" in markdown
    assert all(line.count("|") - line.count("\\|") in (0, 3, 4, 5) for line in markdown.splitlines())
    assert json.loads(report.to_json())["title"] == NASTY
    assert nasty().summary().isascii()


def test_a_real_class_of_that_name():
    kind = type("<b>Majority</b>", (PrivateMajority,), {})
    spent = search(kind()).privacy_cost(ROWS)
    for text in (spent.report().to_html(), card(spent)):
        assert "<b>" not in text
    assert "&lt;b&gt;Majority&lt;/b&gt;" in spent.report().to_html()


def test_files(tmp_path, validator):
    report = QUOTES["plain"].report(title="Größe \ud800", date="2026-01-31", prepared_by="B", prepared_for="C")
    for name in ("to_html", "to_json", "to_markdown"):
        assert getattr(report, name)(tmp_path / name) is None
        written = (tmp_path / name).read_text("utf-8")
        assert "Größe" in written and len(written) > 1000
        assert getattr(report, name)(str(tmp_path / name)) is None
        with pytest.raises(InvalidTypeError, match="path"):
            getattr(report, name)(3)
    validator.validate(json.loads((tmp_path / "to_json").read_text("utf-8")))


def test_bad_options_are_refused():
    spent = QUOTES["plain"]
    with pytest.raises(InvalidTypeError, match="spent must be a PrivacySpent"):
        PrivacyReport(3.0)
    for wrong in (1.0, -0.1, 2, math.nan):
        with pytest.raises(InvalidParameterError, match="delta"):
            spent.report(delta=wrong)
    for options in ({"title": None}, {"title": 3}, {"prepared_for": b"x"}, {"date": 2026}, {"deltas": "1e-6"},
                    {"deltas": 3}, {"delta": "small"}):
        with pytest.raises(InvalidTypeError):
            spent.report(**options)
    with pytest.raises(InvalidParameterError, match="deltas"):
        spent.report(deltas=np.linspace(0, 0.5, 60))
    prices = spent.report(delta=1e-4, deltas=[1e-6, 0.0]).to_dict()["prices"]
    assert [row["delta"] for row in prices] == [1e-4, 1e-6, 0.0]


def test_reports_are_values():
    one, two = QUOTES["plain"].report(title="a"), QUOTES["plain"].report(title="a")
    one.to_html()
    assert one == two and pickle.loads(pickle.dumps(one)) == two
    assert pickle.loads(pickle.dumps(one)).to_json() == two.to_json()
    assert len(pickle.dumps(one)) == len(pickle.dumps(two))


def test_fixed_numbers_of_tries_hide_nothing():
    spent = handmade(PrivacyCurve.pure(1.0), Fixed(2))
    assert "fixed at 2" in spent.report().to_html()
    assert "how many tries were made" not in spent.report().to_html()
    assert "how many tries were made" in QUOTES["plain"].report().to_html()
    assert "drawn at random" in handmade(PrivacyCurve.pure(1.0), Geometric(2)).report().to_html()


def test_the_schema_notices_what_is_wrong(validator):
    good = QUOTES["plain"].report().to_dict()
    for change in ({"epsilon": -1.0}, {"epsilon": "Infinity"}, {"stage": "done"}, {"n_tries": 7}, {"version": 2}):
        assert not validator.is_valid({**good, **change})
    for missing in good:
        assert not validator.is_valid({key: good[key] for key in good if key != missing})


LONG = 0.00012345678912345  # in six digits 0.000123457: larger; in four 0.0001235; in three 0.000123: smaller


@pytest.mark.parametrize("delta, text", [
    (LONG, "0.00012345678912345"), (1.000000049e-06, "0.000001000000049"), (0.0051234567, "0.0051234567"),
    (1e-300, "1e-300"), (0.9999999999999999, "0.9999999999999999"),
])
def test_a_delta_is_printed_whole_in_every_form(delta, text):
    spent = handmade(PrivacyCurve.gaussian(3.0), Fixed(1), settings=replace(QUOTES["target"].settings, target=(
        1.0000000499, delta), delta=delta))
    report = spent.report(delta=delta)
    for form in (spent.summary(delta), report.to_html(), report.to_markdown(), report._repr_html_(), card(spent)):
        assert f"delta = {text}" in form or f"delta = {delta!r}" in form
        assert f"epsilon 1.0000000499 at delta {text}" in form or f"epsilon 1.0000000499 at delta {delta!r}" in form
    assert report.to_dict()["delta"] == delta
    hopeless = handmade(PrivacyCurve.approximate(1.0, 1.0)).report(delta=delta).to_dict()["warnings"]
    assert f"NO GUARANTEE at delta = {text}:" in hopeless[0]
    if delta * 100 >= 1:
        assert any(f"delta = {text} is not below 1 / 100" in warning for warning in hopeless)


def test_the_chance_in_words_is_not_smaller_than_delta():
    text = handmade(PrivacyCurve.gaussian(3.0)).report(delta=1.00000000049e-5).to_markdown()
    assert "which is 1 in 99,900." in text  # 1 in 100,000 would be less
    text = handmade(PrivacyCurve.gaussian(3.0)).report(delta=0.0051234567).to_markdown()
    assert "in all but 0.51234567 % of releases" in text


def test_sentences_are_true_of_the_search():
    texts = {name: (str(spent), spent.report().to_markdown()) for name, spent in QUOTES.items()}
    for summary, text in (texts["public validation"],):
        assert "noisy score" not in text and "its score on the public rows" in text
        assert "noisy score" not in " ".join(summary.split())
    for text in texts["add-remove"]:
        assert "a public guess of 14 rows" in " ".join(text.split())
    assert "public guess" not in texts["plain"][1]
    assert "Nobody is known to be protected" in texts["infinite"][1] and "is protected" not in texts["infinite"][1]
    assert "the seed excepted" in texts["seeded"][1] and "the seed excepted" not in texts["plain"][1]
    assert "a constant model that no row has touched" in texts["plain"][1]
    assert "constant model" not in texts["target"][1]  # releases no model
    inner = "Inner search: The privacy cost that PrivateMajority states for itself is true"
    assert inner in texts["nested"][1] and inner not in texts["plain"][1]


def test_the_method_is_that_of_the_delta():
    spent = QUOTES["plain"]
    for delta in (0.0, 1e-9, 0.3):
        method = {"whole": spent.report(delta=delta).to_dict()["method"], "shown": dict(spent.facts(delta))["method"]}
        assert method["whole"] == method["shown"] and f"method       {method['shown']}" in spent.summary(delta)


def test_nothing_turns_or_clears_a_terminal():
    nasty = "a\x1b[2Jb\u202ec\x00d\x07"
    spent = replace(QUOTES["plain"], assumptions=(nasty,), versions=((nasty, nasty),))
    report = spent.report(title=nasty, notes=nasty)
    for text in (report.to_html(), report.to_markdown(), report._repr_html_(), card(spent), spent.summary()):
        assert not any(c in text for c in "\x1b\u202e\x00\x07") and "a\\x1b[2Jb" in text.replace("\\\\", "\\").replace(
            "\\[", "[")
    assert json.loads(report.to_json())["title"] == nasty


def test_single_numbers_for_scripts():
    assert round_up(1.93681) == "1.9369" and round_down(1.93689) == "1.9368"
    assert round_up(0.1) == "0.1000" and round_up(3.6, 2) == "3.60" and round_up(1e-300) == "0.0001"
    assert round_down(-1e-9, 2) == "-0.01" and round_up(-1e-9, 2) == "0.00"
    assert round_up(np.float64(2.001), 2) == "2.01" and round_down(math.inf) == "inf" and round_up(3, 0) == "3"
    for function in (round_up, round_down):
        for wrong in ("1", None, True, np.zeros(2), 1j):
            with pytest.raises(InvalidTypeError, match="value must be"):
                function(wrong)
        with pytest.raises(InvalidParameterError, match="value must be"):
            function(math.nan)
        for wrong in (-1, 301):
            with pytest.raises(InvalidParameterError, match="digits must be"):
                function(1.0, wrong)
