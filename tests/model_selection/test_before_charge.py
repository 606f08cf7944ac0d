"""What one row, or a trained or seeded part of a model, must not decide after the charge: refused before it."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, OneHotEncoder, OrdinalEncoder

from skdptune import PrivateRandomSearchCV
from skdptune._exceptions import CandidateRefusedError, InvalidParameterError, SkdptuneError, SplitRefusedError
from skdptune.candidates import row_wise
from skdptune.model_selection import Holdout
from skdptune.model_selection._numbers import NO_NUMBERS, NumberColumns, number_columns
from skdptune.scoring import AbsoluteErrorScorer
from tests.model_selection.estimators import PrivateMajority, PrivateMean

N = 40
Y = np.arange(N) % 2
CATEGORIES = {"categories": [["a", "b"]]}


class Ledger:
    charged = 0

    def charge(self, spent, delta):
        self.charged += 1


def refused(estimator, X, y, match, error=InvalidParameterError, space=None, **options):
    """Fit; expect a refusal that costs nothing, quotes no cell and hangs on no error that does."""
    ledger = Ledger()
    search = PrivateRandomSearchCV(estimator, space or {}, n_iter=3, ledger=ledger, delta=1e-5, **options)
    with pytest.raises(error, match=match) as caught:
        search.fit(X, y)
    assert ledger.charged == 0
    told = caught.value
    while told is not None:  # errors of libraries quote cells
        assert isinstance(told, SkdptuneError)
        told = told.__context__


# ---- targets


@pytest.mark.parametrize(
    ("kind", "cell", "words"),
    [
        (object, float("inf"), "contains infinity"),
        (object, Decimal("Infinity"), "contains infinity"),
        (object, Decimal("NaN"), "contains NaN"),
        (object, 10**400, "y must be numeric for a regressor"),
        (object, "ward", "y must be numeric for a regressor"),
        (str, "inf", "contains infinity"),
        (str, "nan", "contains NaN"),
        (str, "1e400", "contains infinity"),
        (str, "ward", "y must be numeric for a regressor"),
    ],
)
def test_a_target_that_becomes_infinite_is_refused(kind, cell, words):
    y = np.array(["0.5" if kind is str else 0.5] * (N - 1) + [cell], dtype=kind)
    refused(PrivateMean(), np.zeros((N, 1)), y, words, scoring=AbsoluteErrorScorer(0, 1))


@pytest.mark.skipif(np.finfo(np.longdouble).max <= np.finfo(float).max, reason="no wider numbers here")
def test_a_wide_target_beyond_doubles_is_refused():
    y = np.full(N, 0.5, dtype=np.longdouble)
    y[3] = np.finfo(np.longdouble).max
    refused(PrivateMean(), np.zeros((N, 1)), y, "contains infinity", scoring=AbsoluteErrorScorer(0, 1))


@pytest.mark.parametrize("cell", [Decimal("0.25"), "0.25", True, np.float32(0.25)])
def test_targets_that_are_numbers_are_taken(cell):
    y = np.array([0.5] * (N - 1) + [cell], dtype=object)
    search = PrivateRandomSearchCV(PrivateMean(), {}, n_iter=3, scoring=AbsoluteErrorScorer(0, 1))
    assert search.fit(np.zeros((N, 1)), y).best_params_ == {}


# ---- cells


def objects(cell):
    X = np.ones((N, 2), dtype=object)
    X[7, 1] = cell
    return X


def mixed(cell):
    cells = pd.Series([1.0] * 9 + [cell] + [1.0] * (N - 10), dtype=object)
    return pd.DataFrame({"word": ["a", "b"] * (N // 2), "cell": cells})


def beside(name, step):
    """Return a pipeline in which one column is encoded and the rest passes."""
    columns = ColumnTransformer([(name, step, ["word"])], remainder="passthrough", sparse_threshold=0)
    return make_pipeline(columns, PrivateMajority())


def to_floats(X):
    return np.asarray(X, dtype=float)


PIPELINES = {
    "private alone": (Pipeline([("m", PrivateMajority())]), objects),
    "passing": (Pipeline([("p", "passthrough"), ("m", PrivateMajority())]), objects),
    "nested": (make_pipeline(make_pipeline(PrivateMajority())), objects),
    "normalizer": (make_pipeline(Normalizer(), PrivateMajority()), objects),
    "ufunc": (make_pipeline(FunctionTransformer(np.abs), PrivateMajority()), objects),
    "numpy's": (make_pipeline(FunctionTransformer(row_wise(np.negative)), PrivateMajority()), objects),
    "one-hot": (beside("o", OneHotEncoder(**CATEGORIES, handle_unknown="ignore")), mixed),
    "ordinal": (beside("o", OrdinalEncoder(**CATEGORIES, handle_unknown="use_encoded_value", unknown_value=-1)), mixed),
}
CELLS = [np.inf, "nan", "ward", "1e400", 10**400, Decimal("Infinity"), None, np.nan]


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: str(cell)[:9])
@pytest.mark.parametrize("kind", PIPELINES)
def test_one_cell_that_is_no_number_is_refused(kind, cell):
    pipeline, make = PIPELINES[kind]
    refused(pipeline, make(cell), Y, "X|sparse", classes=[0, 1])


@pytest.mark.parametrize("cell", [np.inf, np.nan, None], ids=str)
def test_infinite_objects_are_refused_in_front_of_a_function_too(cell):
    own = make_pipeline(FunctionTransformer(row_wise(to_floats)), PrivateMajority())
    refused(own, objects(cell), Y, "contains (infinity|NaN)", classes=[0, 1])


@pytest.mark.parametrize("cell", [2, 2.5, "2.5", Decimal("2.5"), True], ids=str)
@pytest.mark.parametrize("kind", PIPELINES)
def test_cells_that_are_numbers_are_taken(kind, cell):
    pipeline, make = PIPELINES[kind]
    search = PrivateRandomSearchCV(pipeline, {}, n_iter=3, classes=[0, 1])
    assert search.fit(make(cell), Y).best_params_ == {}


def test_which_columns_must_hold_numbers_is_told_without_the_cells():
    def of(kind, cell):
        pipeline, make = PIPELINES[kind]
        return number_columns(PrivateRandomSearchCV(pipeline, {}), make(cell))

    for cell in (1.0, "ward", None):
        assert of("private alone", cell) == of("normalizer", cell) == NumberColumns(frozenset({0, 1}), True)
        assert of("one-hot", cell) == of("ordinal", cell) == NumberColumns(frozenset({1}), False)
    own = make_pipeline(FunctionTransformer(row_wise(to_floats)), PrivateMajority())  # may read words of its own
    assert number_columns(PrivateRandomSearchCV(own, {}), objects("ward")) == NO_NUMBERS
    assert number_columns(PrivateRandomSearchCV(own, {}), np.zeros((N, 2))) == NO_NUMBERS


class Reader(ClassifierMixin, BaseEstimator):
    """Reads words."""

    def rdp_curve(self, orders):
        return np.full(len(np.atleast_1d(orders)), 0.1)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        return tags

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        return self

    def predict(self, X):
        return np.zeros(len(X), dtype=int)


def test_a_private_step_that_takes_text_gets_it():
    search = PrivateRandomSearchCV(make_pipeline(Reader()), {}, n_iter=3, classes=[0, 1])
    assert search.fit(objects("ward"), Y).best_params_ == {}


def test_public_rows_are_looked_at_as_well():
    pipeline, _ = PIPELINES["one-hot"]
    search = PrivateRandomSearchCV(pipeline, {}, n_iter=3, classes=[0, 1])
    with pytest.raises(InvalidParameterError, match="X_public must hold finite numbers in columns 1"):
        search.fit(mixed(2.0), Y, X_public=mixed("ward"), y_public=Y)


def test_an_unlisted_category_does_not_become_a_missing_value():
    step = OrdinalEncoder(**CATEGORIES, handle_unknown="use_encoded_value", unknown_value=np.nan)
    refused(beside("o", step), mixed(2.0), Y, "unknown_value=nan", CandidateRefusedError, classes=[0, 1])


# ---- parts of a model


class Based(PrivateMajority):
    def __init__(self, base=None, noise_seed=None, noise=None, scale=1.0, random_state=None):
        self.base, self.noise_seed, self.noise = base, noise_seed, noise
        super().__init__(scale, random_state)


X = np.zeros((N, 1))
FITTED = PrivateMajority().fit(X, Y)


class Forgetless(PrivateMajority):
    def __sklearn_clone__(self):
        return clone(PrivateMajority(self.scale)).fit(X, Y)


KEPT = {
    "estimator": (FrozenEstimator(FITTED), {}),
    "clone": (Forgetless(), {}),
    "step": (make_pipeline(Normalizer(), FrozenEstimator(FITTED)), {}),
    "member": (Based(FrozenEstimator(FITTED)), {}),
    "space": (Based(), {"base": [None, FrozenEstimator(FITTED)]}),
    "space of a step": (make_pipeline(Based()), {"based": [Based(), FrozenEstimator(FITTED)]}),
    "inner search": (PrivateRandomSearchCV(FrozenEstimator(FITTED), {}, n_iter=2), {}),
    "inner space": (PrivateRandomSearchCV(Based(), {"base": [FrozenEstimator(FITTED)]}, n_iter=2), {}),
}


@pytest.mark.parametrize("place", KEPT)
def test_what_stays_trained_is_refused_before_the_charge(place):
    estimator, space = KEPT[place]
    refused(estimator, X, Y, "stays as it was trained when it is", CandidateRefusedError, space, classes=[0, 1])


def test_a_template_that_was_trained_is_trained_anew():
    search = PrivateRandomSearchCV(Based(FITTED), {"base": [FITTED, None]}, n_iter=3, classes=[0, 1])
    assert search.fit(X, Y).best_estimator_ is not None


SEEDED = {
    "seed": (Based(noise_seed=3), {}),
    "seed in the space": (Based(), {"noise_seed": [None, 3]}),
    "frozen distribution": (Based(noise=stats.norm(0.0, 1.0)), {}),
    "frozen distribution in the space": (Based(), {"noise": [stats.norm(0.0, 1.0)]}),
    "step": (make_pipeline(Normalizer(), Based(noise_seed=3)), {}),
}


@pytest.mark.parametrize("place", SEEDED)
def test_seeds_under_other_names_are_refused_before_the_charge(place):
    estimator, space = SEEDED[place]
    either = (CandidateRefusedError, InvalidParameterError)
    refused(estimator, X, Y, r"noise(_seed)?\b.* must not", either, space, classes=[0, 1])


# ---- splits


class Everything(Holdout):
    def draw(self, n_samples, random_state):
        return [(np.arange(n_samples), np.arange(n_samples))]


def test_a_holdout_of_ones_own_is_refused_before_the_charge():
    refused(PrivateMajority(), X, Y, "cv=Everything is refused", SplitRefusedError, cv=Everything(), classes=[0, 1])
