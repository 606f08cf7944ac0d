"""The search from outside: prices, publication, failures, refits, bad input."""

import math
import pickle
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import scipy.stats
from sklearn.base import clone
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from skdptune import PrivateRandomSearchCV, SkdptuneError
from skdptune._exceptions import (
    AllRunsFailedError,
    CandidateRefusedError,
    InvalidParameterError,
    InvalidTypeError,
    PublicSeedWarning,
    RunFailedError,
    ScoringRefusedError,
    SplitRefusedError,
)
from skdptune.accounting import PrivacyCurve, best_of
from skdptune.model_selection import Holdout, IndependentHoldout
from skdptune.run_counts import Finite, Fixed, Geometric, Logarithmic, Poisson
from skdptune.scoring import AbsoluteErrorScorer, PrivateScorer, ScoreNoise
from tests.candidates.toys import (
    ClassesToy,
    FailingToy,
    GaussianToy,
    RelationToy,
    SizedToy,
    Toy,
    ToyRegressor,
    UndeclaredToy,
)

DELTA = 1e-5
ALLOWED = {
    "best_params_",
    "best_score_",
    "best_estimator_",
    "privacy_spent_",
    "n_features_in_",
    "feature_names_in_",
    "classes_",
    "scorer_",
}


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(60, 3)), np.arange(60) % 2


def search_over(estimator=None, space=None, **params):
    estimator = GaussianToy(s=4.0) if estimator is None else estimator
    return PrivateRandomSearchCV(estimator, {"s": [4.0, 8.0]} if space is None else space, **params)


def epsilon_of(curve, run_count, delta=DELTA):
    return best_of(curve, run_count).epsilon(delta)


# ---------------------------------------------------------------- the price


def test_the_price_before_is_the_price_after(rows):
    for params in ({}, {"cv": 3, "refit": True}, {"refit": False}, {"score_noise": 5.0}):
        search = search_over(n_iter=Logarithmic(4), **params)
        before = search.privacy_cost(n_samples=60)
        after = search.fit(*rows).privacy_spent_
        assert before == after
        assert before.epsilon(DELTA) == after.epsilon(DELTA) > 0


def test_the_price_is_that_of_the_mixture_of_candidates():
    run = PrivacyCurve.mixture([PrivacyCurve.gaussian(4.0), PrivacyCurve.gaussian(8.0)], [0.5, 0.5])
    cost = search_over(n_iter=Geometric(5)).privacy_cost(100)
    assert cost.epsilon(DELTA) == pytest.approx(epsilon_of(run, Geometric(5)), rel=1e-9)
    assert cost.single_run.epsilon(DELTA) == pytest.approx(run.epsilon(DELTA), rel=1e-9)
    assert cost.single_run.epsilon(DELTA) < cost.epsilon(DELTA)


def test_matched_noise_adds_nothing_and_small_noise_is_charged():
    n_iter, space = Geometric(5), {"s": [4.0]}
    free = epsilon_of(PrivacyCurve.gaussian(4.0), n_iter)
    assert search_over(space=space, n_iter=n_iter).privacy_cost(100).epsilon(DELTA) == free
    loud = search_over(space=space, n_iter=n_iter, score_noise=1.0).privacy_cost(100)
    noise = ScoreNoise.discrete_gaussian(1.0).curve()
    assert loud.epsilon(DELTA) == pytest.approx(epsilon_of(noise, n_iter), rel=1e-9)
    assert loud.epsilon(DELTA) > 2 * free


@pytest.mark.parametrize("refit", [True, False])
def test_folds_cost_their_trainings_and_one_score(refit):
    n_iter, one = Geometric(5), PrivacyCurve.gaussian(4.0)
    search = search_over(space={"s": [4.0]}, cv=KFold(4), n_iter=n_iter, refit=refit)
    cost = search.privacy_cost(100)
    run = 3 * one + cost.score_noise.curve()
    expected = best_of(run, n_iter)
    expected = expected + one if refit else expected
    assert cost.epsilon(DELTA) == pytest.approx(expected.epsilon(DELTA), rel=1e-6)


def test_a_run_that_trains_thrice_is_a_mixture_of_compositions():
    # A composition of mixtures would be cheaper, and wrong: the candidate is drawn once a run.
    noise = ScoreNoise.discrete_gaussian(50.0)
    search = search_over(space={"s": [2.0, 50.0]}, cv=4, refit=False, score_noise=noise)
    run = search.privacy_cost(100).single_run
    parts = [3 * PrivacyCurve.gaussian(s) + noise.curve() for s in (2.0, 50.0)]
    right = PrivacyCurve.mixture(parts, [0.5, 0.5])
    wrong = 3 * PrivacyCurve.mixture([PrivacyCurve.gaussian(s) for s in (2.0, 50.0)], [0.5, 0.5]) + noise.curve()
    assert run.epsilon(DELTA) == pytest.approx(right.epsilon(DELTA), rel=1e-6)
    assert wrong.epsilon(DELTA) < run.epsilon(DELTA)


def test_random_splits_cost_their_worst_row():
    cost = search_over(space={"s": [4.0]}, cv=ShuffleSplit(3), refit=False).privacy_cost(100)
    assert cost.single_run.epsilon(DELTA) >= (3 * PrivacyCurve.gaussian(4.0)).epsilon(DELTA) * (1 - 1e-9)


def test_the_refit_costs_the_dearest_candidate_not_the_mixture():
    n_iter = Geometric(5)
    winner = search_over(n_iter=n_iter).privacy_cost(100)
    refit = search_over(n_iter=n_iter, refit=True).privacy_cost(100)
    assert refit.refit == PrivacyCurve.gaussian(4.0)
    expected = (winner.curve + PrivacyCurve.gaussian(4.0)).epsilon(DELTA)
    assert refit.epsilon(DELTA) == pytest.approx(expected, rel=1e-6)


def test_public_validation_costs_the_training_alone(rows):
    X, y = rows
    search = search_over(space={"s": [4.0]}, n_iter=Geometric(3), scoring="roc_auc", cv=StratifiedKFold())
    before = search.privacy_cost(60, public_validation=True)
    search.fit(X, y, X_public=X[:20] + 1.0, y_public=y[:20])
    assert search.privacy_spent_ == before and before.score_noise is None
    assert before.epsilon(DELTA) == epsilon_of(PrivacyCurve.gaussian(4.0), Geometric(3))
    assert search.best_score_ == 0.5  # a constant prediction, scored exactly


def test_private_rows_are_refused_as_public_ones(rows):
    X, y = rows
    with pytest.raises(InvalidParameterError, match="train_test_split"):
        search_over().fit(X, y, X_public=X[:5], y_public=y[:5])
    with pytest.raises(InvalidParameterError, match="given together"):
        search_over().fit(X, y, X_public=X[:5])


def test_costs_that_depend_on_the_rows_are_priced_for_each_size():
    search = search_over(SizedToy(), {"s": [1.0]}, cv=KFold(3), refit=True, relation="replace-one")
    cost = search.privacy_cost(100)
    assert cost.refit == PrivacyCurve.zcdp(0.2, relation="replace-one")
    assert cost.single_run.rdp([2.0])[0] >= 2 * 2 * (20 / 66) * (1 - 1e-12)  # the smallest part, twice
    with pytest.raises(InvalidParameterError, match="n_samples must be given"):
        search.privacy_cost()


def test_relations_are_not_mixed():
    with pytest.raises(CandidateRefusedError, match="replace-one"):
        search_over(RelationToy(), relation="replace-one").privacy_cost(50)
    with pytest.raises(SplitRefusedError, match="IndependentHoldout"):
        search_over(RelationToy(), relation="add-remove").privacy_cost(50)
    cv = IndependentHoldout(n_public=50)
    cost = search_over(RelationToy(), relation="add-remove", cv=cv).privacy_cost(50)
    assert cost.relation == cost.curve.relation == "add-remove"


def test_the_number_of_rows_stays_private_under_add_remove(rows):
    cv = IndependentHoldout(n_public=50)
    costs = [search_over(RelationToy(), relation="add-remove", cv=cv).privacy_cost(n) for n in (60, 61)]
    assert costs[0] == costs[1] and costs[0].n_samples is None
    X, y = rows
    search = search_over(RelationToy(), relation="add-remove", cv=cv).fit(X, y)
    assert search.privacy_spent_ == costs[0]
    assert not any("60" in sentence for sentence in search.privacy_spent_.assumptions)

    class Sized(RelationToy):
        def privacy_curve(self, n_samples, relation="zero-out"):
            return PrivacyCurve.zcdp(1.0 / n_samples, relation=relation)

    with pytest.raises(CandidateRefusedError, match="private under relation='add-remove'"):
        search_over(Sized(), relation="add-remove").fit(X, y, X_public=X + 1, y_public=y)


def test_a_search_is_itself_a_candidate(rows):
    inner = search_over(space={"s": [8.0]}, n_iter=Geometric(2))
    orders = [2, 8, 32]
    assert np.array_equal(inner.rdp_curve(orders), inner.privacy_cost(40).rdp(orders))
    outer = PrivateRandomSearchCV(inner, {"n_iter": [Geometric(2), Geometric(3)]}, n_iter=Geometric(2))
    cost = outer.privacy_cost(60)
    parts = [best_of(PrivacyCurve.gaussian(8.0), Geometric(m)) for m in (2, 3)]
    expected = best_of(PrivacyCurve.mixture(parts, [0.5, 0.5]), Geometric(2))
    assert cost.epsilon(DELTA) == pytest.approx(expected.epsilon(DELTA), rel=1e-2)
    outer.fit(*rows)
    assert outer.best_estimator_.best_params_ == {"s": 8.0}
    assert set(vars(outer.best_estimator_)) - set(outer.best_estimator_.get_params()) <= ALLOWED


# ---------------------------------------------------------------- the bill


class _Ledger:
    def __init__(self):
        self.charges = []

    def __deepcopy__(self, memo):
        return self

    def charge(self, spent, delta=None):
        self.charges.append(spent)


def test_one_charge_for_the_whole_search(rows):
    ledger = _Ledger()
    search = search_over(ledger=ledger).fit(*rows)
    assert ledger.charges == [search.privacy_spent_]


@pytest.mark.parametrize(
    ("params", "error"),
    [
        ({"n_iter": 0}, SkdptuneError),
        ({"n_iter": -3}, SkdptuneError),
        ({"n_iter": math.nan}, SkdptuneError),
        ({"n_iter": True}, SkdptuneError),
        ({"n_iter": "20"}, SkdptuneError),
        ({"n_iter": np.array([3, 4])}, SkdptuneError),
        ({"scoring": "roc_auc"}, ScoringRefusedError),
        ({"cv": StratifiedKFold()}, SplitRefusedError),
        ({"cv": 3}, InvalidParameterError),
        ({"refit": "best"}, InvalidParameterError),
        ({"relation": "swap"}, InvalidParameterError),
        ({"score_noise": 0}, SkdptuneError),
        ({"score_noise": "none"}, SkdptuneError),
        ({"delta": 2.0}, InvalidParameterError),
        ({"epsilon": 1.0}, InvalidParameterError),
        ({"epsilon": -1.0, "delta": 1e-5}, InvalidParameterError),
        ({"error_score": 0.0}, InvalidParameterError),
        ({"run_timeout": 0}, InvalidParameterError),
        ({"run_timeout": np.inf}, InvalidParameterError),
        ({"run_timeout": "3"}, InvalidTypeError),
        ({"checkpoint": 3}, InvalidTypeError),
        ({"checkpoint": b"folder"}, InvalidTypeError),
        ({"checkpoint": ""}, InvalidParameterError),
        ({"classes": [0]}, InvalidParameterError),
        ({"space": {"s": scipy.stats.uniform(0, 1)}}, CandidateRefusedError),
        ({"space": {"unknown": [1]}}, InvalidParameterError),
        ({"space": "s"}, InvalidTypeError),
        ({"estimator": Toy}, InvalidTypeError),
        ({"estimator": make_pipeline(StandardScaler(), Toy()), "space": {"toy__s": [1]}}, CandidateRefusedError),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_spent(rows, params, error):
    ledger = _Ledger()
    search = search_over(**{**params, "ledger": ledger})
    with pytest.raises(error) as caught:
        search.fit(*rows)
    assert ledger.charges == [] and not hasattr(search, "best_score_")
    assert isinstance(caught.value, (ValueError, TypeError)) and len(str(caught.value)) > 30


def test_the_refusal_of_a_scaler_names_step_and_private_alternative(rows):
    search = search_over(make_pipeline(StandardScaler(), Toy()), {"toy__s": [1]})
    with pytest.raises(CandidateRefusedError, match=r"standardscaler.*diffprivlib\.models\.StandardScaler"):
        search.fit(*rows)


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_failing_runs_rank_last_and_are_charged(rows, share, monkeypatch):
    monkeypatch.setattr(PrivateRandomSearchCV, "_draw_run_count", lambda *args: 40)
    ledger = _Ledger()
    search = search_over(FailingToy(share=share), ledger=ledger)
    if share == 1.0:
        with pytest.raises(AllRunsFailedError, match="stays charged") as caught:
            search.fit(*rows)
        assert "a row was" not in str(caught.value) and caught.value.__cause__ is None
        assert math.isnan(search.best_score_) and search.best_params_ is None
        assert set(search.predict(rows[0])) == {0}
    else:
        search.fit(*rows)
        assert math.isfinite(search.best_score_)
    assert len(ledger.charges) == 1


class _BadScorer(PrivateScorer):
    task = "classifier"
    minimum, maximum = 0.0, 1.0

    def __init__(self, kind="nan"):
        self.kind = kind

    def row_scores(self, estimator, X, y):
        if self.kind == "raise":
            raise RuntimeError("no score")
        return np.full(len(y), float(self.kind))


@pytest.mark.parametrize("kind", ["nan", "inf"])
def test_scores_that_are_not_finite_are_the_worst(rows, kind):
    search = search_over(scoring=_BadScorer(kind), n_iter=Fixed(2), score_noise=0.1).fit(*rows)
    assert search.best_score_ < 0.5


def test_a_scorer_that_raises_scores_worst_and_is_told_from_made_up_rows(rows):
    with pytest.warns(UserWarning, match="raised RuntimeError on every row made up"):
        search = search_over(scoring=_BadScorer("raise"), n_iter=Fixed(2), score_noise=0.1).fit(*rows)
    assert search.best_score_ < 0.5


def _infinite(estimator, X, y):
    return math.inf if estimator.z_ > 0 else 0.25


def test_an_infinite_public_score_never_wins(rows, monkeypatch):
    X, y = rows
    monkeypatch.setattr(PrivateRandomSearchCV, "_draw_run_count", lambda *args: 30)
    search = search_over(scoring=_infinite)
    search.fit(X, y, X_public=X[:9] + 1.0, y_public=y[:9])
    assert search.best_score_ == 0.25


def test_no_try_at_all_publishes_the_default(rows):
    X, y = rows
    search = search_over(n_iter=Finite([1.0 - 1e-9, 1e-9])).fit(X, y + 3)
    assert search.best_params_ is None and math.isnan(search.best_score_)
    assert set(search.predict(X)) == {3} and search.predict_proba(X).shape == (60, 2)
    assert search.privacy_spent_.epsilon(DELTA) < search_over().privacy_cost(60).epsilon(DELTA)


def test_error_score_raise_names_only_the_type(rows):
    search = search_over(FailingToy(share=1.0), error_score="raise", n_iter=Fixed(3))
    with pytest.raises(RunFailedError, match="RuntimeError") as caught:
        search.fit(*rows)
    assert "a row was" not in str(caught.value) and not hasattr(search, "best_score_")


def test_a_failed_refit_publishes_nothing(rows):
    class FailsOnAll(Toy):
        def fit(self, X, y=None):
            if len(X) == 60:
                raise RuntimeError("all rows")
            return super().fit(X, y)

    ledger = _Ledger()
    search = search_over(FailsOnAll(), refit=True, ledger=ledger)
    with pytest.raises(RunFailedError, match="refit failed with RuntimeError"):
        search.fit(*rows)
    assert len(ledger.charges) == 1 and not set(vars(search)) & ALLOWED


class Turncoat(Toy):
    """States another cost the second time it is asked."""

    asked = 0

    @property
    def privacy_curve(self):
        Turncoat.asked += 1
        return PrivacyCurve.gaussian(self.s if Turncoat.asked < 3 else self.s / 2)


def test_a_candidate_whose_curve_changes_is_not_trained(rows):
    Turncoat.asked = 0
    ledger = _Ledger()
    with pytest.raises(CandidateRefusedError):
        search_over(Turncoat(), {"s": [4.0]}, ledger=ledger).fit(*rows)


class Undeclared(GaussianToy):
    privacy_params = ("random_state",)


def test_a_parameter_hidden_from_privacy_params_aborts_before_training(rows):
    class Never(Undeclared):
        def fit(self, X, y=None):
            raise AssertionError("trained")

    with pytest.raises(CandidateRefusedError, match="privacy_params"):
        search_over(Never(s=4.0), {"s": [1.0]}).fit(*rows)


def test_without_declared_privacy_params_all_are_priced():
    cost = search_over(UndeclaredToy(), {"s": [1.0, 4.0]}).privacy_cost(50)
    assert cost.refit is None
    assert cost.single_run.rdp([2.0])[0] > UndeclaredToy(4.0).rdp_curve([2.0])[0]


# ---------------------------------------------------------------- what is published


def test_only_the_allow_list_is_published(rows):
    search = search_over().fit(*rows)
    assert set(vars(search)) - set(search.get_params(deep=False)) <= ALLOWED
    with pytest.raises(AttributeError, match="only the winner is published"):
        _ = search.cv_results_
    assert not hasattr(search, "cv_results_")


def test_refit_forms(rows):
    X, y = rows
    for refit in ("winner", True):
        search = search_over(refit=refit).fit(X, y)
        assert search.best_estimator_.random_state is None
        assert search.best_estimator_.s == search.best_params_["s"]
    search = search_over(refit=False).fit(X, y)
    assert not hasattr(search, "best_estimator_") and search.best_params_
    with pytest.raises(AttributeError, match="refit=False"):
        search.predict(X)


def test_delegation_tells_the_truth(rows):
    X, y = rows
    search = search_over()
    assert hasattr(search, "predict_proba") and not hasattr(search, "decision_function")
    search.fit(X, y)
    assert np.array_equal(search.predict(X), search.best_estimator_.predict(X))
    assert search.predict_proba(X).shape == (60, 2)
    assert search.score(X, y) == np.mean(search.predict(X) == y)


@pytest.mark.parametrize(
    "convert",
    [
        np.ndarray.tolist,
        np.asfortranarray,
        scipy.sparse.csr_matrix,
        lambda X: X.astype(np.float32),
        lambda X: pd.DataFrame(X, columns=["a", "b", "c"]),
    ],
    ids=["list", "fortran", "csr", "float32", "frame"],
)
def test_every_container_gives_the_same_search(rows, convert):
    X, y = rows

    class SparseToy(GaussianToy):
        def __sklearn_tags__(self):
            tags = super().__sklearn_tags__()
            tags.input_tags.sparse = True
            return tags

    results = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PublicSeedWarning)
        for data in (X, convert(X)):
            search = search_over(SparseToy(), random_state=3).fit(data, y)
            results.append((search.best_params_, search.best_score_, search.best_estimator_.z_))
    assert results[0] == results[1]
    if convert(X).__class__ is pd.DataFrame:
        assert list(search.feature_names_in_) == ["a", "b", "c"]


def test_string_labels_and_declared_classes(rows):
    X, y = rows
    labels = np.where(y == 0, "no", "yes")
    search = search_over(GaussianToyWithLabels(), classes=["yes", "no", "maybe"], n_iter=Fixed(3)).fit(X, labels)
    assert list(search.classes_) == ["maybe", "no", "yes"]
    assert any("was declared" in s for s in search.privacy_spent_.assumptions)
    found = search_over(GaussianToyWithLabels()).fit(X, labels).privacy_spent_
    assert any("taken to be public" in s for s in found.assumptions)


class GaussianToyWithLabels(GaussianToy):
    def fit(self, X, y=None):
        super().fit(X, y)
        self.classes_ = np.array(["no", "yes"])
        return self


def test_regressors_need_public_bounds(rows):
    X, _ = rows
    y = X[:, 0]
    with pytest.raises(ScoringRefusedError, match="AbsoluteErrorScorer"):
        search_over(ToyRegressor()).fit(X, y)
    search = search_over(ToyRegressor(), scoring=AbsoluteErrorScorer(lower=-3, upper=3)).fit(X, y)
    assert math.isfinite(search.best_score_) and not hasattr(search, "classes_")


def test_weights_of_private_rows_are_refused(rows):
    X, y = rows
    with pytest.raises(InvalidParameterError, match="sample_weight"):
        search_over().fit(X, y, sample_weight=np.ones(60))
    with pytest.raises(InvalidParameterError, match="groups"):
        search_over().fit(X, y, groups=np.ones(60))
    search_over().fit(X, y, sample_weight=None)


def test_a_generator_of_splits_serves_two_fits(rows):
    X, y = rows
    search = search_over(cv=KFold(3).split(X), refit=False)
    first = search.fit(X, y).privacy_spent_
    assert search.fit(X, y).privacy_spent_ == first
    clone(search)


def test_holdout_sizes_can_be_chosen(rows):
    search = search_over(cv=Holdout(0.5)).fit(*rows)
    assert any("50 %" in sentence for sentence in search.privacy_spent_.assumptions)


# ---------------------------------------------------------------- manners


def test_seeds_repeat_warn_and_are_reported(rows):
    results = []
    for _ in range(2):
        with pytest.warns(PublicSeedWarning, match="do not know the seed"):
            results.append(search_over(random_state=1).fit(*rows))
    assert results[0].best_estimator_.z_ == results[1].best_estimator_.z_
    assert results[0].best_score_ == results[1].best_score_
    assert any("must stay" in sentence for sentence in results[0].privacy_spent_.assumptions)
    free = [search_over().fit(*rows).best_estimator_.z_ for _ in range(2)]
    assert free[0] != free[1]


def test_clone_set_params_pickle(rows):
    search = search_over().fit(*rows)
    twin = clone(search)
    assert not hasattr(twin, "best_score_") and twin.get_params()["estimator__s"] == 4.0
    twin.set_params(estimator__s=2.0, n_iter=3)
    assert search.estimator.s == 4.0
    again = pickle.loads(pickle.dumps(search))
    assert np.array_equal(again.predict(rows[0]), search.predict(rows[0]))
    assert again.privacy_spent_ == search.privacy_spent_


@pytest.mark.parametrize("backend", ["loky", "threading", "multiprocessing"])
def test_backends(rows, backend):
    with joblib.parallel_config(backend=backend, n_jobs=2):
        search = search_over(n_iter=Fixed(12)).fit(*rows)
    assert math.isfinite(search.best_score_)


@pytest.mark.parametrize("backend", [None, "loky", "threading", "multiprocessing"])
def test_a_seed_gives_the_same_search_on_every_backend(rows, backend):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PublicSeedWarning)
        serial = search_over(n_iter=Fixed(9), random_state=5).fit(*rows)
        with joblib.parallel_config(backend=backend or "loky", n_jobs=2):
            other = search_over(n_iter=Fixed(9), random_state=5).fit(*rows)
    assert other.best_score_ == serial.best_score_ and other.best_estimator_.z_ == serial.best_estimator_.z_


def test_as_a_step_of_a_pipeline_and_inside_cross_val_score(rows):
    X, y = rows
    pipeline = make_pipeline(Normalizer(), search_over(n_iter=Fixed(2)))
    assert pipeline.fit(X, y).predict(X).shape == (60,)
    assert cross_val_score(search_over(n_iter=Fixed(2)), X, y, cv=2).shape == (2,)


def test_over_a_pipeline(rows):
    search = search_over(make_pipeline(Normalizer(), Toy()), {"toy__s": [4.0, 8.0], "normalizer__norm": ["l1", "l2"]})
    search.fit(*rows)
    assert set(search.best_params_) == {"toy__s", "normalizer__norm"}
    assert search.predict(rows[0]).shape == (60,)


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.zeros((1, 2)), [0]),
        (np.zeros((0, 2)), []),
        (np.zeros((5, 0)), [0, 1, 0, 1, 0]),
        (np.zeros((4, 2)), [0.1, 0.2, 0.3, 0.5]),
        (np.zeros((4, 2)), [0, 1, 0]),
        (np.full((4, 2), np.nan), [0, 1, 0, 1]),
        (pd.DataFrame(), []),
        (np.zeros((4, 2)), None),
    ],
)
def test_unusable_rows_get_the_usual_errors(X, y):
    ledger = _Ledger()
    with pytest.raises((ValueError, TypeError)):
        search_over(ledger=ledger).fit(X, y)
    assert ledger.charges == []


def test_poisson_and_numbers_as_n_iter(rows):
    assert search_over(n_iter=5).privacy_cost(60).run_count.eta == 2
    search_over(n_iter=Poisson(5)).fit(*rows)


def test_undeclared_label(rows):
    with pytest.raises(InvalidParameterError, match="was not declared"):
        search_over(ClassesToy(classes=[0, 1]), classes=[0, 5]).fit(*rows)
