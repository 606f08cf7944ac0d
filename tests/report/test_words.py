"""What an officer reads is words: no code of ours, and the values that were released where they are asked for."""

import re

import pytest
from sklearn.exceptions import NotFittedError

from skdptune._exceptions import InvalidParameterError, InvalidTypeError
from skdptune._rounding import plain_as_given
from skdptune.accounting import PrivacyCurve
from skdptune.model_selection._phrases import cost_in_words, noise_in_words, run_count_in_words, scorer_in_words
from skdptune.report import PrivacyReport, card
from skdptune.run_counts import AtMost, BetaBinomial, Binomial, Finite, Geometric, Logarithmic, Poisson
from skdptune.scoring import ScoreNoise, SquaredErrorScorer
from tests.report.cases import ROWS, Level, quotes, released, rows, search

QUOTES = quotes()

CODE = re.compile(r"PrivacyCurve|Scorer\(|ScoreNoise|kind=|[^-]scale=|TruncatedNeg|Logarithmic\(|eta=|\d\.\d{12}")


@pytest.mark.parametrize("name", ["plain", "target", "folds and refit", "regression", "capped", "finite"])
def test_no_report_shows_code(name):
    spent = QUOTES[name]
    report = spent.report(delta=1e-5)
    for text in (report.to_markdown(), report.to_html(), card(spent), *spent.assumptions):
        found = CODE.search(text)
        assert found is None, text[max(0, found.start() - 60) : found.end() + 60]


def test_a_target_is_explained():
    text = search(Level(), {"random_state": [None]}, epsilon=2.0, delta=1e-6).privacy_cost(ROWS).report().to_markdown()
    assert re.search(r"Every try costs at most \| pure DP at epsilon 1\.\d{4} \(rounded up\), under zero-out", text)
    assert "at delta = 0.000001" in text and "which is 1 in 1,000,000" in text
    assert "library was asked for" not in text  # this candidate has no epsilon of its own


def test_a_candidate_with_an_epsilon_of_its_own_is_explained():
    pytest.importorskip("diffprivlib")
    from diffprivlib.models import GaussianNB

    text = search(GaussianNB(bounds=(0, 1)), {"epsilon": [1.0]}).privacy_cost(ROWS).report().to_markdown()
    assert "LogisticRegression costs half of its epsilon under zero-out" in text


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (Logarithmic(20), "logarithmic, mean 20"),
        (Poisson(3), "Poisson, mean 3"),
        (Binomial(10, 0.5), "binomial, n 10, p 0.5, mean 5"),
        (BetaBinomial(4, 1, 1), "beta binomial, n 4, a 1, b 1, mean 2"),
        (Finite([0.0, 0.5, 0.5]), "finite, pmf a table of 3 probabilities, mean 1.5"),
        (AtMost(Geometric(5), 9), "geometric, mean 5, given that there are at most 9: mean "),
    ],
)
def test_numbers_of_tries(count, words):
    assert run_count_in_words(count).startswith(words)


def test_costs_noise_and_scores():
    sgd = cost_in_words(PrivacyCurve.dp_sgd(2.5, 0.25, 50))
    assert "DP-SGD of 50 steps with noise multiplier 2.5 and sampling rate 0.25" in sgd
    assert cost_in_words(PrivacyCurve.zcdp(0.5)) == "zCDP at rho 0.5, under zero-out"
    assert "epsilon 0.1235 (rounded up)" in cost_in_words(PrivacyCurve.pure(0.12341))
    assert noise_in_words(ScoreNoise.geometric(1.0)) == "two-sided geometric noise of scale 1 row"
    assert noise_in_words(ScoreNoise.discrete_gaussian(1.42799)).endswith("of scale 1.427 rows (rounded down)")
    assert scorer_in_words(SquaredErrorScorer(0, 10)) == "squared error, lower 0, upper 10"


def test_deltas_without_exponents():
    assert [plain_as_given(d) for d in (1e-9, 0.05, 1e-300)] == ["0.000000001", "0.05", "1e-300"]


def test_the_values_that_were_released_are_shown_where_asked_for():
    model = search(delta=1e-5).fit(*rows())
    spent = model.privacy_spent_
    silent = spent.report()
    assert "values that were released" not in silent.to_markdown() and silent.to_dict()["published"] is None
    report = spent.report(published=model)
    found = report.to_dict()["published"]
    assert found == {
        "best_params": [{"parameter": "scale", "value": str(model.best_params_["scale"])}],
        "best_score": model.best_score_,
    }
    for text in (report.to_markdown(), report.to_html()):
        assert "The values that were released" in text and f"{model.best_score_:.6g}" in text
    assert PrivacyReport(spent, published=report.published) == report  # a copy of it, too


def test_only_the_search_of_this_price():
    model = search().fit(*rows())
    with pytest.raises(InvalidParameterError, match="published must be the search whose price is reported"):
        search(n_iter=3).fit(*rows()).privacy_spent_.report(published=model)
    with pytest.raises(InvalidParameterError, match="published must be the search whose price is reported"):
        search().privacy_cost(ROWS).report(published=model)
    with pytest.raises(NotFittedError):
        model.privacy_spent_.report(published=search())
    with pytest.raises(InvalidTypeError, match="published must be a fitted"):
        model.privacy_spent_.report(published=3)


def test_a_test_score_is_shown_and_prints_in_few_lines():
    both = released("search")
    lines = [line for line in both.report().to_markdown().splitlines() if line.startswith("| Test score |")]
    assert any(line.endswith(f"{abs(both.score):.6g} |") for line in lines)  # a minus sign is escaped
    assert both.report().to_dict()["test_score"]["score"] == both.score
    assert len(repr(both)) < 200 and len(both._table().splitlines()) == 6 and "with the search" in str(both)
    assert str(both).splitlines()[1].startswith("  test score") and "Released test score" in both._repr_html_()
    with pytest.raises(InvalidParameterError, match="delta must be given"):
        both.epsilon()


def test_a_card_writes_its_deltas_alike():
    spent = search(Level(), {"random_state": [None]}, epsilon=2.0, delta=1e-6).privacy_cost(ROWS)
    assert "at delta 0.000001" in card(spent) and "1e-06" not in card(spent)
