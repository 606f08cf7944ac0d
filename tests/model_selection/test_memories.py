"""Objects that remember: models, functions, scorers and distributions that keep what they were asked about."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdptune import PrivateRandomSearchCV
from skdptune.candidates import row_wise
from skdptune.model_selection import release_test_score
from skdptune.run_counts import Fixed
from skdptune.scoring import AccuracyScorer
from tests.candidates.toys import GaussianToy

Y = np.arange(40) % 2


@pytest.fixture(name="X")
def some_rows():
    return np.random.default_rng(0).normal(size=(40, 3))


def search_over(estimator, space, **params):
    return PrivateRandomSearchCV(estimator, space, **{"n_iter": Fixed(4), **params})


class Remembers(GaussianToy):
    """Keeps the rows that it predicted last, as many a cache does."""

    published_attributes = (*GaussianToy.published_attributes, "notes_")

    def fit(self, X, y=None):
        self.notes_ = []
        return super().fit(X, y)

    def predict(self, X):
        self._last = np.array(X)
        self.notes_.append(self._last[0])
        return super().predict(X)


@pytest.mark.parametrize("params", [{}, {"n_jobs": 2}, {"relation": "replace-one"}, {"run_timeout": 60}])
def test_the_published_model_was_never_asked(X, params):
    for model in (search_over(Remembers(), {"s": [4.0, 8.0]}, **params).fit(X, Y).best_estimator_,):
        for seen in (model, pickle.loads(pickle.dumps(model))):
            assert not hasattr(seen, "_last") and seen.notes_ == []


def test_a_test_score_leaves_no_rows_in_the_model_or_the_scorer(X):
    search = search_over(Remembers(), {"s": [4.0]}).fit(X, Y)
    release_test_score(search, X + 100, Y)
    assert not hasattr(search.best_estimator_, "_last") and search.best_estimator_.notes_ == []
    scorer = Traced()
    released = release_test_score(search.fit(X, Y), X + 100, Y, scoring=scorer)
    assert not hasattr(scorer, "log") and not hasattr(released.scorer, "log")


class Memo:
    """The length of a text; remembers the texts it has met."""

    def __init__(self):
        self.known = {}

    def __call__(self, X):
        return np.array([[self.known.setdefault(text, len(text))] for text in np.asarray(X).ravel()], dtype=float)


FRONTS = {
    "step": lambda step: step,
    "columns": lambda step: ColumnTransformer([("t", step, ["t"])]),
    "union": lambda step: FeatureUnion([("t", step)]),
    "pipeline": lambda step: Pipeline([("t", step)]),
}


@pytest.mark.parametrize("front", FRONTS)
def test_functions_leave_without_what_they_remember(front):
    frame = pd.DataFrame({"t": [f"patient {i}" for i in range(40)]})
    step = FRONTS[front](FunctionTransformer(row_wise(Memo())))
    search = search_over(make_pipeline(step, GaussianToy()), {"gaussiantoy__s": [4.0, 8.0]}).fit(frame, Y)
    assert b"patient" not in pickle.dumps(search) and b"patient" not in pickle.dumps(search.best_estimator_)


class Traced(AccuracyScorer):
    """Keeps what it scored, for a plot afterwards."""

    def row_scores(self, estimator, X, y):
        found = super().row_scores(estimator, X, y)
        vars(self).setdefault("log", []).append((found, np.array(X)))
        return found


class PublicTraced:
    def __init__(self):
        self.log = []

    def __call__(self, estimator, X, y):
        self.log.append(estimator.s)
        return float(np.mean(estimator.predict(X) == y))


def test_a_scorer_tells_nothing_of_the_tries(X):
    scorer = Traced()
    search = search_over(GaussianToy(), {"s": [4.0, 8.0]}, scoring=scorer).fit(X, Y)
    assert not hasattr(scorer, "log") and not hasattr(search.scorer_, "log")
    scorer = PublicTraced()
    search = search_over(GaussianToy(), {"s": [4.0, 8.0]}, scoring=scorer)
    search.fit(X, Y, X_public=X[:7] + 9, y_public=Y[:7])
    assert scorer.log == [] == search.scorer_.log


class Cycle:
    """A sampler with a state, as a low-discrepancy sequence has one."""

    def __init__(self, values):
        self.values, self.drawn = values, 0

    def rvs(self, random_state=None, size=None):
        self.drawn += 1
        return self.values[(self.drawn + random_state.randint(2)) % len(self.values)]


class Shifted(GaussianToy):
    privacy_params = ("s",)

    def __init__(self, s=4.0, shift=0, random_state=None):
        super().__init__(s=s, random_state=random_state)
        self.shift = shift


def test_a_sampler_counts_no_draws_and_draws_independently(X):
    source = Cycle([10, 20, 30, 40])
    found = {search_over(Shifted(), {"shift": source}).fit(X, Y).best_params_["shift"] for _ in range(12)}
    assert source.drawn == 0 and found == {20, 30}  # always from the beginning: each draw by its own coins


def test_a_template_leaves_without_what_it_learned(X):
    fitted = GaussianToy(s=4.0).fit(X, Y)
    fitted.hoard_ = X
    for template, space in (
        (fitted, {"s": [4.0]}),
        (make_pipeline(fitted), {"gaussiantoy__s": [4.0]}),
        (make_pipeline(GaussianToy()), [{"gaussiantoy": [fitted]}, {"gaussiantoy": (fitted, fitted)}]),
    ):
        search = search_over(template, space).fit(X, Y)
        blob = pickle.dumps(search)
        assert b"hoard_" not in blob and X[0].tobytes() not in blob
        again = pickle.loads(blob)
        assert repr(again.estimator) == repr(template) and again.best_params_.keys() == search.best_params_.keys()
    assert hasattr(fitted, "hoard_")  # the user's own object is left alone
