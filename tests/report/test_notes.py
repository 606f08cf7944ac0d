"""What must not be overlooked is said wherever a price is shown, in the same words; and nothing false beside it."""

import math
import re
from datetime import datetime, timezone
from pathlib import Path

import pytest

from skdptune.accounting import PrivacyCurve
from skdptune.exceptions import InvalidTypeError
from skdptune.report import _words, card
from skdptune.report._notes import misfit_score, price_notes
from skdptune.run_counts import AtMost, Fixed, Geometric, Poisson
from tests.model_selection.estimators import PrivateMean
from tests.report.cases import ROWS, handmade, quotes, rows, search

ROOT = Path(__file__).parents[2]
QUOTES = quotes()


def one_line(text):
    return " ".join(re.sub(r"\\|<[^>]*>|&[#\w]+;|> \*\*", " ", text).split())


@pytest.mark.parametrize(
    ("spent", "delta", "begins"),
    [
        (search(delta=0.5).privacy_cost(ROWS), 0.5, "delta = 0.5 is not below 1 / 60"),
        (handmade(PrivacyCurve.pure(1.0), n_samples=None), 0.5, "delta = 0.5 is large"),
        (handmade(PrivacyCurve.pure(20.0)), 1e-3, "The protection is weak: the bound on an attacker"),
        (handmade(PrivacyCurve.approximate(1.0, 0.3)), 1e-6, "NO GUARANTEE at delta = 0.000001"),
    ],
    ids=["delta", "delta without n", "epsilon", "infinite"],
)
def test_a_price_and_its_report_say_the_same(spent, delta, begins):
    [note] = price_notes(spent.curve, delta, spent.n_protected)
    assert note.startswith(begins)
    texts = [spent.summary(delta=delta), spent.report(delta=delta).to_markdown()]
    if spent.default_delta == delta:
        texts += [str(spent), card(spent)]
    for text in texts:
        assert one_line(note) in one_line(text.replace("&#x27;", "'"))
    assert max(len(line) for line in texts[0].splitlines()) <= 79


def test_a_good_price_has_no_note():
    spent = search().privacy_cost(6000)
    assert price_notes(spent.curve, 1e-6, 6000) == [] and "NOTE" not in str(spent) and "Note." not in card(spent)
    assert price_notes(PrivacyCurve.pure(2.9), 0.0) == []  # an advantage below nine tenths


def test_weak_is_judged_by_the_whole_profile():
    for curve in (PrivacyCurve.pure(2.95), PrivacyCurve.pure(60.0), PrivacyCurve.pure(800.0)):
        assert len(price_notes(curve, 1e-6)) == 1
    narrow = PrivacyCurve.gaussian(0.7)
    assert price_notes(narrow, 1e-9) == []  # epsilon is above 8, the advantage is a half


def test_a_reader_can_check_the_factor():
    for name in ("plain", "replace-one", "large", "huge", "no cost"):
        text = QUOTES[name].report().to_markdown()
        factor, epsilon = re.search(r"at most ([\d.e]+) times.*?epsilon = ([\d.e-]+)\.\)", text, re.S).groups()
        assert float(epsilon) > 709 or float(factor) >= math.exp(float(epsilon)), name
    # at these the power of the unrounded epsilon, rounded up, is below that of the printed one
    steps = (handmade(PrivacyCurve.pure(i / 97), Fixed(1)).report(delta=0.0, deltas=()) for i in (130, 133, 199, 229))
    for report in steps:
        found = re.search(r"at most ([\d.]+) times.*?epsilon = ([\d.]+)\.\)", report.to_markdown(), re.S)
        factor, epsilon = found.groups()
        assert math.floor(100 * math.exp(report.to_dict()["epsilon"])) < 100 * float(factor)
        assert float(factor) >= math.exp(float(epsilon))


def test_no_text_says_that_the_number_of_tries_cannot_be_guessed():
    texts = [QUOTES[name].report().to_markdown() for name in ("plain", "one sure run")]
    texts += [text.read_text("utf-8") for text in (ROOT / "README.rst", *(ROOT / "doc").glob("*.rst"))]
    for text in texts:
        assert not re.search(r"nor recoverable|nothing about the other tries|neither is anything about", one_line(text))
    plain = one_line(QUOTES["plain"].report().to_markdown())
    assert "hints at many tries: the price covers the hint" in " ".join(QUOTES["plain"].assumptions)
    assert "hints at how many there were: the price covers what it hints" in plain


def test_what_is_released_where_no_try_succeeded():
    fitted = search(n_iter=Poisson(1e-6), classes=[0, 1]).fit(*rows())
    assert fitted.best_params_ is None
    report = fitted.privacy_spent_.report(published=fitted)
    released = " ".join(report.to_dict()["released"])
    assert "no try succeeded" in released and _words.CONSTANT in released and "best try" not in released
    assert f"| Model released | {_words.CONSTANT} |" in report.to_markdown()
    assert any("make no try at all (at least 99.9 % of them)" in text for text in report.to_dict()["warnings"])
    none = search(n_iter=Poisson(1e-6), classes=[0, 1], refit=False).fit(*rows())
    assert "onstant" not in " ".join(none.privacy_spent_.report(published=none).to_dict()["released"])
    usual = search(n_iter=Poisson(3)).privacy_cost(ROWS).report()
    assert not any("no try at all" in text for text in usual.to_dict()["warnings"])


@pytest.mark.parametrize("count", [Fixed(1), AtMost(Poisson(1), 1)], ids=repr)
def test_one_try_has_no_others_to_hide(count):
    report = search(n_iter=count).privacy_cost(ROWS).report()
    assert report.to_dict()["never_published"] == [_words.PRIVATE]
    assert "never more than one try" in report.to_markdown() and "was the best" not in report.to_markdown()
    several = search(n_iter=Fixed(3)).privacy_cost(ROWS).report().to_dict()["never_published"]
    assert several == [*_words.OTHER_TRIES, _words.PRIVATE]


def test_scores_of_regressions():
    fitted = search(PrivateMean(), scoring=_errors(), n_iter=Geometric(2)).fit(*rows())
    text = fitted.privacy_spent_.report(published=fitted).to_markdown()
    assert "label set" not in text and "greater is better: an error has a minus" in text
    assert "label set of a classifier" in search().fit(*rows()).privacy_spent_.report().to_markdown()


def _errors():
    from skdptune.scoring import AbsoluteErrorScorer

    return AbsoluteErrorScorer(lower=0.0, upper=1.0)


def test_a_report_says_what_it_is_when_and_on_which_proof():
    report = QUOTES["plain"].report(title="Tumours", notes="one\ntwo")
    text = report.to_markdown()
    assert text.splitlines()[2].startswith("A report of differential privacy")
    day = re.fullmatch(r"(\d{4}-\d\d-\d\d) \(UTC\)", report.date)[1]
    assert abs(datetime.fromisoformat(day) - datetime.now(timezone.utc).replace(tzinfo=None)).days <= 1
    assert f"| Date | {report.date} |" in text and "| Notes | one<br>two |" in text
    assert "<td>one<br>two</td>" in report.to_html()
    assert QUOTES["plain"].report(date="May").date == "May"
    page = re.search(r"doc/theory/\w+\.rst", text)[0]
    assert (ROOT / page).read_text("utf-8").count("The exact price")
    assert "in all but 1 in 10,000 releases" in QUOTES["plain"].report(delta=1e-4).to_markdown()


def test_an_unknown_option_of_a_report_is_named():
    with pytest.raises(InvalidTypeError, match="report\\(\\) takes no 'titl'. Did you mean 'title'"):
        QUOTES["plain"].report(titl="A")
    with pytest.raises(InvalidTypeError, match="Pass one of title, delta"):
        QUOTES["plain"].report(x=1)


def test_only_a_score_far_outside_its_range_is_called_so():
    for score, said in ((-0.9, False), (1.9, False), (2.1, True), (-1.1, True), (float("nan"), False)):
        assert bool(misfit_score("score", score, (0.0, 1.0), 0.1)) is said
    assert misfit_score("score", 9.0, None, 0.1) == misfit_score("score", 9.0, (0.0, 1.0), None) == []
