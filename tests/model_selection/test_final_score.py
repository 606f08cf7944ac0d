"""A final test score: what it costs, what it refuses, and that one row moves it by one row at most."""

import copy
import math
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError

from skdptune import PrivateRandomSearchCV
from skdptune.accounting import PrivacyCurve
from skdptune.exceptions import (
    BudgetExceededError,
    InvalidParameterError,
    InvalidTypeError,
    ScoringRefusedError,
)
from skdptune.ledger import PrivacyLedger
from skdptune.model_selection import IndependentHoldout, _final_score, release_test_score
from skdptune.model_selection._assumptions import Released, beside_test_score
from skdptune.model_selection._runs import total_count
from skdptune.scoring import ScoreNoise, WeightedAccuracyScorer


class Stump(ClassifierMixin, BaseEstimator):
    """Ignores the rows it is trained on; raises on missing values, like most models."""

    published_attributes = ("classes_", "n_features_in_")
    privacy_relations = ("zero-out", "replace-one", "add-remove")
    privacy_params = ()

    def __init__(self, cut=0.0, epsilon=1.0):
        self.cut = cut
        self.epsilon = epsilon

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        self.n_features_in_ = np.shape(X)[1]
        return self

    def predict(self, X):
        if np.isnan(X).any():
            raise ValueError("X contains NaN")
        return (np.asarray(X)[:, 0] > self.cut).astype(int)

    def privacy_curve(self, n_samples, relation="zero-out"):
        return PrivacyCurve.pure(self.epsilon, relation=relation)


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, (X[:, 0] > 0).astype(int)


def search_over(n=200, **params):
    settings = {"classes": [0, 1], "n_iter": 3, **params}
    return PrivateRandomSearchCV(Stump(), {"cut": [-0.1, 0.0, 0.1]}, **settings).fit(*rows(n))


class CountingLedger:
    """Charges nothing, remembers, or refuses."""

    def __init__(self, refuse=False):
        self.refuse, self.charged = refuse, []

    def charge(self, spent, delta=None):
        if self.refuse:
            raise BudgetExceededError("nothing left")
        self.charged.append(spent)


@pytest.fixture(scope="module")
def fitted():
    return search_over()


@pytest.fixture
def search(fitted):
    return copy.copy(fitted)  # which has released no score yet


def test_matched_noise_adds_nothing_to_the_total(search):
    released = release_test_score(search, *rows(150, 1))
    spent = search.privacy_spent_
    for delta in (0.0, 1e-9, 1e-6, 1e-3):
        assert released.epsilon(delta) == spent.epsilon(delta)
        assert released.curve.epsilon(delta) <= spent.epsilon(delta) + 1e-9
    assert released.n_rows == 150
    assert released.standard_deviation == pytest.approx(released.noise.standard_deviation / 150)


def test_matched_noise_is_that_of_the_whole_search_not_of_one_run(search):
    single = search.privacy_spent_.score_noise
    assert release_test_score(search, *rows(10, 1)).noise.scale < single.scale


def test_less_noise_makes_the_score_the_dearer_part(search):
    noise = ScoreNoise.geometric(0.2)  # epsilon 5
    released = release_test_score(search, *rows(150, 1), score_noise=noise)
    assert released.total.epsilon(0.0) == pytest.approx(5.0)
    assert released.total.epsilon(0.0) >= search.privacy_spent_.epsilon(0.0)


def test_total_is_the_worse_cost_at_every_delta(search):
    released = release_test_score(search, *rows(150, 1), score_noise=3.0)  # a Gaussian never lies below a pure curve
    for epsilon in (0.0, 0.5, 1.0, 2.5, 4.0):
        worse = max(search.privacy_spent_.delta(epsilon), released.curve.delta(epsilon))
        assert released.total.delta(epsilon) >= worse - 1e-12
    assert math.isinf(released.total.epsilon(0.0))


def test_score_is_the_accuracy_plus_noise():
    search = search_over(n_iter=1)
    X, y = rows(2000, 2)
    released = release_test_score(search, X, y, score_noise=1.0)
    assert abs(released.score - search.score(X, y)) < 12 / 2000
    steps = released.score * 2000
    assert steps == pytest.approx(round(steps), abs=1e-6)


def test_one_bad_row_moves_the_count_by_one(search, monkeypatch):
    totals = []

    def counted(*args):
        totals.append(total_count(*args))
        return totals[-1]

    monkeypatch.setattr(_final_score, "total_count", counted)
    X, y = rows(60, 3)
    release_test_score(copy.copy(search), X, y)
    X = X.copy()
    X[5] = np.nan  # the whole batch raises because of it
    release_test_score(search, X, y)
    assert abs(totals[0] - totals[1]) <= 1


def test_the_ledger_is_charged_before_a_row_is_read(search):
    class Refusing(CountingLedger):
        pass

    X, y = rows(50)
    seen = []

    class Watched:
        shape = X.shape
        ndim = 2

        def __len__(self):
            return len(X)

        def __array__(self, *args, **kwargs):
            seen.append("read")
            return X

    with pytest.raises(BudgetExceededError):
        release_test_score(search, Watched(), y, ledger=Refusing(refuse=True))
    assert not seen
    ledger = CountingLedger()
    released = release_test_score(search, X, y, ledger=ledger)
    (charged,) = ledger.charged
    assert charged.epsilon(0.0) == released.curve.epsilon(0.0)


def test_a_ledger_that_takes_curves_gets_the_curve(search):
    class Ledger(CountingLedger):
        def charge_curve(self, curve, description, **details):
            self.charged.append((curve, description, details))

    ledger = Ledger()
    released = release_test_score(search, *rows(50), ledger=ledger)
    ((curve, description, details),) = ledger.charged
    assert curve == released.curve and "AccuracyScorer" in description
    assert details == {"delta": search.delta, "assumptions": released.assumptions, "n_samples": 50}


def test_another_scorer(search):
    scorer = WeightedAccuracyScorer(class_weight={0: 1.0, 1: 3.0})
    released = release_test_score(search, *rows(400, 4), scoring=scorer)
    assert released.scorer is scorer
    assert released.standard_deviation == pytest.approx(3.0 * released.noise.standard_deviation / 400)


def test_public_scores_are_refused_on_private_rows(search):
    with pytest.raises(ScoringRefusedError, match="roc_auc"):
        release_test_score(search, *rows(50), scoring="roc_auc")


def test_a_search_scored_on_public_rows_falls_back_to_accuracy():
    X, y = rows(100)
    search = PrivateRandomSearchCV(Stump(), {"cut": [0.0]}, classes=[0, 1], scoring="f1", n_iter=1)
    search.fit(X, y, X_public=rows(40, 9)[0], y_public=rows(40, 9)[1])
    assert type(release_test_score(search, *rows(50, 5)).scorer).__name__ == "AccuracyScorer"


def test_add_remove_divides_by_a_public_number():
    search = search_over(relation="add-remove", cv=IndependentHoldout(n_public=200), score_noise=2.0, n_iter=2)
    X, y = rows(90, 6)
    with pytest.raises(InvalidParameterError, match="n_rows must be a public number"):
        release_test_score(search, X, y)
    released = release_test_score(search, X, y, n_rows=100)
    assert released.n_rows == 100 and released.total.relation == "add-remove"
    assert any("coin" in sentence for sentence in released.assumptions)
    assert "90" not in repr(released)  # the true number of rows is private


@pytest.mark.parametrize("relation", ["zero-out", "replace-one"])
def test_n_rows_is_refused_where_the_number_is_public(relation):
    search = search_over(relation=relation, n_iter=1)
    with pytest.raises(InvalidParameterError, match="n_rows must be None"):
        release_test_score(search, *rows(50), n_rows=49)


def test_refusals(search):
    X, y = rows(50)
    with pytest.raises(InvalidTypeError, match="search must be a fitted"):
        release_test_score(Stump().fit(X, y), X, y)
    with pytest.raises(NotFittedError):
        release_test_score(PrivateRandomSearchCV(Stump(), {"cut": [0.0]}), X, y)
    with pytest.raises(InvalidParameterError, match="same number of rows"):
        release_test_score(search, X, y[:-1])
    with pytest.raises(ValueError, match="3 features"):
        release_test_score(search, np.zeros((5, 3)), np.zeros(5))
    with pytest.raises(InvalidParameterError, match="exact scores"):
        release_test_score(search, X, y, score_noise=0)
    no_model = search_over(refit=False, n_iter=1)
    with pytest.raises(AttributeError, match="published no model"):
        release_test_score(no_model, X, y)


def test_nothing_about_the_rows_is_kept(search):
    X, y = rows(50)
    released = release_test_score(search, X, y)
    own = {"score", "n_rows", "noise", "scorer", "curve", "total", "assumptions"}
    assert set(vars(released)) == own | {"search_spent", "published", "count", "ledgers"}
    assert (released.count, released.ledgers) == (1, ())
    assert released.search_spent is search.privacy_spent_


@pytest.mark.statistical
def test_noise_has_the_stated_spread(search):
    X, y = rows(100, 7)
    scores = [release_test_score(copy.copy(search), X, y, score_noise=4.0).score for _ in range(300)]
    assert 0.8 < np.std(scores) / 0.04 < 1.2
    assert abs(np.mean(scores) - search.score(X, y)) < 0.012


def test_the_price_of_both_keeps_that_of_the_search(search):
    alone = search.privacy_spent_
    for noise in ("matched", ScoreNoise.geometric(0.2)):
        released = release_test_score(copy.copy(search), *rows(50), score_noise=noise)
        both = released.privacy_spent
        assert both.curve == released.total and both.search_curve == alone.curve and alone.search_curve == alone.curve
        for delta in (0.0, 1e-6):
            assert both.closed_form_epsilon(delta) == alone.closed_form_epsilon(delta)
            prices = dict(both.price_rows(delta))
            assert prices["search"] == prices_of(alone, delta)["whole search"] and "whole search" not in prices
            assert prices["(closed form)"] == prices_of(alone, delta)["(closed form)"]
            assert prices["test score"] == released.curve.epsilon(delta)
            assert prices["together"] == released.epsilon(delta) >= max(prices["search"], prices["test score"]) - 1e-9
        assert both.method == alone.method
        assert "n_test=50" in repr(both) and "n_test" not in repr(alone)
        assert (alone.n_protected, both.n_protected) == (200, 250)
        copied = pickle.loads(pickle.dumps(both))
        assert copied == both and copied.search_curve == alone.curve


def prices_of(spent, delta):
    return dict(spent.price_rows(delta))


def test_the_default_delta_counts_the_test_rows(search):
    for n_rows, delta in ((800, 1e-4), (801, 1e-5)):
        both = release_test_score(copy.copy(search), *rows(n_rows), score_noise=1.0).privacy_spent
        assert both.default_delta == pytest.approx(delta)
    own = search_over(n_iter=1, delta=1e-7)
    assert release_test_score(own, *rows(801)).privacy_spent.default_delta == 1e-7


def test_the_assumptions_of_both(search):
    alone = search.privacy_spent_
    both = release_test_score(search, *rows(50)).privacy_spent
    text = " ".join(both.assumptions)
    assert "The number of rows (200) is public." in alone.assumptions
    assert "The number of rows (200)" not in text and "searched rows (200) and of test rows (50) are public" in text
    assert not [sentence for sentence in both.assumptions if sentence.startswith("Released: ")]
    assert "Released by the search: the winner's parameters" in text and "one noisy score of the published" in text
    kept = {s for s in alone.assumptions if not s.startswith(("Released: ", "The number of rows ("))}
    assert len(kept) == len(alone.assumptions) - 2 and kept <= set(both.assumptions)
    assert len(set(both.assumptions)) == len(both.assumptions)
    assert text.count("predicts for a row depends on that row alone") == 1


@pytest.mark.parametrize("sentence", ["Released: by somebody else.", "The number of rows (9) is public.", "Released"])
def test_a_sentence_that_only_begins_alike_is_left_as_it_is(search, sentence):
    score = release_test_score(search, *rows(50))
    spent = replace(score.search_spent, assumptions=(sentence, *score.search_spent.assumptions))
    both = replace(score, search_spent=spent).privacy_spent
    assert sentence in both.assumptions and "searched rows (200) and of test rows (50)" in " ".join(both.assumptions)
    assert {type(each) for each in (*spent.assumptions, *both.assumptions)} == {str}  # as JSON and files know them


@pytest.mark.parametrize("refit", ["winner", True, False])
@pytest.mark.parametrize("public_score", [False, True])
def test_what_was_released_is_known_whatever_it_was(refit, public_score):
    says = str(Released(refit, public_score))
    assert says.startswith("Released: the winner's parameters")
    assert beside_test_score(("a", says), None, 5) == ("a", says.replace("Released:", "Released by the search:"))


def test_a_search_that_ran_inside_another_one_is_refused():
    outer = PrivateRandomSearchCV(
        PrivateRandomSearchCV(Stump(), {"cut": [0.0]}, n_iter=2, classes=[0, 1]), {"n_iter": [2]}, n_iter=1,
        classes=[0, 1],
    ).fit(*rows(200))
    with pytest.raises(InvalidParameterError, match="Pass the outer search"):
        release_test_score(outer.best_estimator_, *rows(50))
    assert release_test_score(outer, *rows(50)).n_rows == 50


def test_a_score_of_unknown_origin_has_no_report(search):
    released = replace(release_test_score(search, *rows(50)), search_spent=None)
    with pytest.raises(InvalidParameterError, match="release_test_score"):
        released.report()


def test_a_second_score_of_one_fit_warns_before_it_is_charged(search):
    X, y = rows(50)
    first, ledger = release_test_score(search, X, y), CountingLedger()
    with pytest.raises(UserWarning, match=r"test score number 2 of one search.*first\.curve \+ second\.curve"):
        release_test_score(search, X, y, ledger=ledger)
    assert not ledger.charged  # where warnings are errors it can be stopped
    copies = {"pickle": pickle.loads(pickle.dumps(search)), "copy": copy.deepcopy(search), "search": search}
    for name, each in copies.items():
        with pytest.warns(UserWarning, match="test score number 2"):
            second = release_test_score(each, X, y)
        assert (first.count, second.count) == (1, 2), name
        text = " ".join(second.assumptions)
        assert "has released 1 before it" in text and "has released" not in " ".join(first.assumptions)
        for shown in (str(second), second.report().to_markdown(), second._repr_html_()):
            assert "test score number 2 of one search" in " ".join(shown.split())
        assert "number 2" not in str(first) + first.report().to_markdown()


def test_another_fit_and_a_clone_count_anew(search):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            release_test_score(search, *rows(50))
    twin = clone(search).fit(*rows(200))
    assert release_test_score(twin, *rows(50)).count == 1
    assert release_test_score(search.fit(*rows(200)), *rows(50)).count == 1


def test_a_score_says_on_what_its_price_rests(search):
    text = " ".join(str(release_test_score(search, *rows(50))).split())
    assert "if none of these rows was searched and this is the only score of any of them" in text
    assert "greater is better" not in text


def test_a_score_far_outside_its_range_is_called_so():
    fitted = search_over(relation="add-remove", cv=IndependentHoldout(n_public=200), score_noise=2.0, n_iter=2)
    wrong = release_test_score(copy.copy(fitted), *rows(2000, 6), n_rows=40)  # a number for other rows
    right = release_test_score(copy.copy(fitted), *rows(2000, 6), n_rows=2100)
    for text in (str(wrong), wrong.report().to_markdown(), wrong._repr_html_()):
        assert "lies more than ten standard deviations of its noise outside its range, 0 to 1" in " ".join(text.split())
    assert "outside its range" not in str(right) + right.report().to_markdown()
    strange = search_over(relation="add-remove", cv=IndependentHoldout(n_public=2), score_noise=0.5, n_iter=2)
    text = strange.privacy_spent_.report(published=strange).to_markdown()
    assert "The score of the best try (" in text and "outside its range" in text
    assert "outside its range" not in fitted.privacy_spent_.report(published=fitted).to_markdown()


def test_the_ledgers_of_search_and_score_are_in_the_report(tmp_path):
    ledger = PrivacyLedger(tmp_path / "a.ledger", 100.0, 1e-6)
    searched = search_over(ledger=ledger)
    released = release_test_score(searched, *rows(50), ledger=ledger)
    for each in (released, pickle.loads(pickle.dumps(released))):
        found = each.report().to_dict()["ledger"]
        assert [entry["what"] for entry in found["entries"]] == ["search", "test score"]
        assert (found["n_entries"], found["spent"], found["remaining"]) == (2, ledger.spent, ledger.remaining)
    assert released.report(ledger=tmp_path / "a.ledger").to_dict()["ledger"] == found
    other = PrivacyLedger(tmp_path / "b.ledger", 100.0, 1e-6)
    alone = release_test_score(search_over(), *rows(50), ledger=other)
    for report in (alone.report(ledger=other), alone.report()):
        assert [entry["what"] for entry in report.to_dict()["ledger"]["entries"]] == ["test score"]
        assert "The search has no entry of its own in this ledger" in report.to_markdown()
