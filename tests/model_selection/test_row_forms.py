"""Rows in one form before a try sees them: no label of a row, doubled entry, object in a cell or empty part shows."""

import pickle
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, OneHotEncoder
from sklearn.utils.validation import validate_data

from skdptune import PrivateRandomSearchCV
from skdptune._exceptions import InvalidParameterError, InvalidTypeError
from skdptune.accounting import PrivacyCurve
from skdptune.candidates import row_wise
from skdptune.model_selection import IndependentHoldout, release_test_score
from skdptune.model_selection._read_only import has_objects, own
from skdptune.run_counts import Fixed
from skdptune.scoring import PrivateScorer

N = 40
Y = np.arange(N) % 2
SPLIT = [(np.arange(30), np.arange(30, N))]


class Seen(ClassifierMixin, BaseEstimator):
    """Looks at its rows, for the test, and predicts the first class."""

    privacy_params = ("scale",)
    rows = []

    def __init__(self, scale=4.0, k=1, random_state=None):
        self.scale = scale
        self.k = k
        self.random_state = random_state

    def rdp_curve(self, orders):
        return np.asarray(orders) / (2 * self.scale**2)

    def fit(self, X, y):
        type(self).rows.append(X)
        self.classes_ = np.array([0, 1])
        return self

    def predict(self, X):
        return np.zeros(X.shape[0], dtype=int)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def search_of(model=None, **options):
    Seen.rows.clear()
    model = Seen() if model is None else model
    name = next((key for key in model.get_params() if key.endswith("seen__k")), "k")
    options = {"n_iter": Fixed(1), "classes": [0, 1], **options}
    return PrivateRandomSearchCV(model, {name: [1]}, **options)


# ---- labels of rows


@row_wise
def _new_frame(X):
    return pd.DataFrame(np.clip(np.asarray(X), 0, 1), columns=X.columns)


@row_wise
def _by_cell(X):
    return X.set_index(X.columns[0], drop=False)


@pytest.mark.parametrize("function", [_new_frame, _by_cell])
@pytest.mark.parametrize("union", [False, True])
@pytest.mark.parametrize("cv", [SPLIT, None])
def test_a_row_meets_no_cell_of_another_one_where_frames_are_joined(function, union, cv):
    X = pd.DataFrame({"a": np.zeros(N), "b": np.zeros(N)}, index=np.random.RandomState(0).permutation(N) * 3)
    X.iloc[0] = 1.0
    step = FunctionTransformer(function)
    front = FeatureUnion([("p", "passthrough"), ("f", step)]) if union else make_column_transformer(
        ("passthrough", ["a"]), (step, ["b"])
    )  # fmt: skip
    search = search_of(make_pipeline(front.set_output(transform="pandas"), Seen()), cv=cv)
    search.fit(X, Y)
    if cv is not None:
        (rows,) = Seen.rows
        assert len(rows) == 30 and np.asarray(rows).any(axis=1).tolist() == [True] + 29 * [False]
    released = release_test_score(search, X, Y)
    assert np.isfinite(released.score)


def test_the_callers_frame_keeps_its_labels():
    X = pd.DataFrame({"a": np.zeros(N)}, index=np.arange(N)[::-1])
    search_of().fit(X, Y)
    assert X.index[0] == N - 1


# ---- cells


def test_a_cell_that_a_sparse_row_names_often_is_one_cell():
    doubled = csr_matrix((np.ones(N + 99), np.zeros(N + 99, int), np.r_[0, 100 + np.arange(N)]), shape=(N, 2))
    for X in (doubled, doubled.tocsc(), doubled.tocoo()):
        search_of(make_pipeline(Normalizer(), Seen()), cv=SPLIT).fit(X, Y)
        assert np.linalg.norm(Seen.rows[0].toarray(), axis=1).max() <= 1 + 1e-12
    assert doubled.nnz == N + 99  # the caller's


class TakesMissing(Seen):
    def fit(self, X, y):
        validate_data(self, X, y, ensure_all_finite="allow-nan")
        return super().fit(X, y)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def test_who_takes_missing_cells_takes_no_infinite_ones():
    X = np.zeros((N, 2))
    X[3, 0] = np.nan
    search_of(TakesMissing()).fit(X, Y)
    X[3, 0] = np.inf
    with pytest.raises(InvalidParameterError, match="contains infinity"):
        search_of(TakesMissing()).fit(X, Y)
    with pytest.raises(InvalidParameterError, match="contains infinity"):
        search_of(TakesMissing()).fit(np.ones((N, 2)), Y, X_public=X, y_public=Y)


def test_cells_are_looked_at_even_if_scikit_learn_is_told_not_to():
    X = np.zeros((N, 2))
    X[3, 0] = np.nan
    with sklearn.config_context(assume_finite=True), pytest.raises(InvalidParameterError, match="contains NaN"):
        search_of().fit(X, Y)


@pytest.mark.parametrize("piped", [False, True])
@pytest.mark.parametrize("framed", [False, True])
@pytest.mark.parametrize("cell", ["0.5", Decimal("0.5")])
def test_a_cell_that_can_be_read_as_a_number_reaches_the_try_as_one(piped, framed, cell):
    X = pd.DataFrame({"a": np.zeros(N), "b": pd.Series([0.0] * N, dtype=object)})
    X.loc[3, "b"] = cell
    model = make_pipeline(FunctionTransformer(np.negative), Seen()) if piped else None
    search_of(model, cv=SPLIT).fit(X if framed else X.to_numpy(dtype=object), Y)
    assert np.asarray(Seen.rows[0])[3, 1] == (-0.5 if piped else 0.5)
    assert X.loc[3, "b"] is cell


@row_wise
def _one_more(X):
    cells = X.iloc[:, 0] if hasattr(X, "columns") else X[:, 0]
    lists = [cell if isinstance(cell, list) else [] for cell in cells]
    for each in lists:
        each.append("today")
    return np.array([[float(len(each))] for each in lists])


@pytest.mark.parametrize("framed", [False, True])
@pytest.mark.parametrize("refit", ["winner", True])
def test_what_a_try_does_to_a_cell_no_other_try_sees(framed, refit):
    same = ["jan", "feb"]  # one list in all rows
    X = pd.DataFrame({"visits": [same for _ in range(N)]})
    model = make_pipeline(FunctionTransformer(_one_more), Seen())
    search_of(model, n_iter=Fixed(3), refit=refit).fit(X if framed else X.to_numpy(), Y)
    assert {float(np.max(rows)) for rows in Seen.rows} == {3.0}
    assert same == ["jan", "feb"]


def test_only_cells_that_can_be_changed_are_copied():
    text = np.array([["a", None, 1.5, pd.Timestamp(0), np.float32(1)]], dtype=object)
    assert not has_objects(text) and not has_objects(pd.DataFrame(text)) and not has_objects(np.zeros(3))
    mutable = np.array([[{"a": 1}, "b"]], dtype=object)
    for table in (mutable, pd.DataFrame(mutable), pd.DataFrame(mutable)[0], {"x": mutable}, [{"a": 1}]):
        assert has_objects(table)
        twin = own(table, deep=True)
        cells = [np.asarray(each, dtype=object).ravel()[0] for each in (table, twin) if not isinstance(each, dict)]
        assert not cells or (cells[0] == cells[1] and cells[0] is not cells[1])


# ---- labels


class Label(str):
    pass


class Copies(Seen):
    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.repeat(self.classes_[:1], len(X))


def test_what_hangs_on_a_label_is_not_published():
    labels = [Label("ab"[i % 2]) for i in range(N)]
    for i, label in enumerate(labels):
        label.note = f"patient {i}"
    search = search_of(Copies(), classes=None).fit(np.zeros((N, 1)), np.array(labels, dtype=object))
    assert b"patient" not in pickle.dumps(search)
    assert {type(label) for label in (*search.classes_, *search.best_estimator_.classes_)} == {str}
    noted = Y.astype(np.dtype(int, metadata={"source": "row 4711"}))
    search = search_of(Copies(), classes=None).fit(np.zeros((N, 1)), noted)
    assert search.classes_.dtype.metadata is None and search.best_estimator_.classes_.dtype.metadata is None


def test_a_test_score_takes_the_labels_that_fit_takes():
    X = np.zeros((N, 1))
    search = search_of().fit(X, Y)
    for labels, error, words in (
        (np.c_[Y, Y], InvalidParameterError, "1d array"),
        (Y.astype(str), InvalidParameterError, "text and numbers are never equal"),
        (np.ma.array(Y, mask=Y > 0), InvalidTypeError, "without a mask"),
    ):
        with pytest.raises(error, match=words):
            release_test_score(search, X, labels)


# ---- parts without rows


class Silent(Seen):
    published_attributes = ("classes_",)


@pytest.mark.parametrize("test_size", [1e-9, 1 - 1e-9])  # the one row is trained on, or scored
@pytest.mark.parametrize("nested", [False, "winner", True])
def test_an_empty_part_does_not_show(nested, test_size):
    options = {"relation": "add-remove", "cv": IndependentHoldout(10, test_size=test_size), "classes": [0, 1]}
    model = make_pipeline(Normalizer(), Silent())
    search = PrivateRandomSearchCV(model, {"silent__k": [1]}, n_iter=Fixed(1), refit=nested or "winner", **options)
    if nested:
        search = PrivateRandomSearchCV(search, {}, n_iter=Fixed(1), **options)
    X = pd.DataFrame({"a": np.ones(1), "b": np.ones(1)})
    search.fit(X, np.zeros(1, int))
    assert search.best_params_ is not None
    released = release_test_score(search, X.iloc[:0], np.zeros(0, int), n_rows=5)
    assert np.isfinite(released.score)


# ---- what learned before


class Curved(Seen):
    """States its cost by a method of its own, and has learned from rows before the search."""

    rdp_curve = property()
    published_attributes = ("classes_",)

    def rdp(self, orders):
        return np.asarray(orders) / (2 * self.scale**2)

    def privacy_curve(self, n_samples, *, relation):
        return PrivacyCurve.from_rdp_function(self.rdp, relation=relation)

    def with_budget(self, level):
        for scale in np.geomspace(0.5, 500, 60):
            twin = clone(self).set_params(scale=float(scale))
            if twin.privacy_curve(1, relation="zero-out").lies_below(level):
                return twin
        return None


class Learned(Seen):
    published_attributes = ("classes_",)


@pytest.mark.parametrize("target", [False, True])
def test_what_a_template_learned_before_is_in_no_price_and_no_scorer(target):
    model = Curved() if target else Learned()
    X, options = np.zeros((N, 2)), {"epsilon": 3.0, "delta": 1e-5} if target else {}
    model.fit(X, Y).secret_mean_ = 4711.5
    search = search_of(model, **options)
    assert b"secret_mean_" not in pickle.dumps(search.privacy_cost(N))
    search.fit(X, Y, X_public=np.ones((4, 2)), y_public=[0, 1, 0, 1])
    assert b"secret_mean_" not in pickle.dumps((search.privacy_spent_, search.scorer_, search.best_estimator_))
    assert b"secret_mean_" not in pickle.dumps(search)


class Wide(PrivateScorer):
    """Its range follows the rows that it has met."""

    resolution = 1

    def row_scores(self, estimator, X, y):
        self.maximum = 1000.0 * float(np.sum(y))
        return np.ones(len(y))


def test_a_score_is_released_in_the_range_that_was_priced():
    search = search_of(scoring=Wide(), cv=SPLIT, score_noise=0.5).fit(np.zeros((N, 1)), Y)
    assert abs(search.best_score_) < 100


def test_a_clone_keeps_its_requests():
    with sklearn.config_context(enable_metadata_routing=True):
        search = search_of().set_fit_request(X_public=True, y_public=True)
        assert clone(search).get_metadata_routing().fit.requests == search.get_metadata_routing().fit.requests


# ---- columns


@pytest.mark.parametrize("kind", ["interval", "period"])
def test_periods_and_intervals_are_refused_in_words(kind):
    column = pd.interval_range(0, N, periods=N) if kind == "interval" else pd.period_range("2020", periods=N, freq="D")
    X = pd.DataFrame({"a": np.zeros(N), "c": column})
    with pytest.raises(InvalidParameterError):
        search_of(make_pipeline(FunctionTransformer(), Seen())).fit(X, Y)


@pytest.mark.parametrize("outer", [{"n_iter": [2, 3]}, {"estimator__seen__k": [1]}])
def test_a_search_within_a_search_takes_the_columns_that_it_takes_alone(outer):
    X = pd.DataFrame({"c": ["u", "v"] * (N // 2)})
    encode = OneHotEncoder(categories=[["u", "v"]], handle_unknown="ignore", sparse_output=False)
    inner = search_of(make_pipeline(encode, Seen()))
    search = PrivateRandomSearchCV(inner, outer, n_iter=Fixed(1), classes=[0, 1])
    if "n_iter" in outer:
        search.fit(X, Y)
    else:  # what the inner one's steps will be is not known
        with pytest.raises(InvalidParameterError):
            search.fit(X, Y)


def test_names_of_columns_survive_a_private_step_in_frames():
    models = pytest.importorskip("diffprivlib.models")
    X = pd.DataFrame(np.random.RandomState(0).rand(60, 2), columns=["a", "b"])
    pipeline = make_pipeline(models.StandardScaler(epsilon=1.0, bounds=(-1, 1)), models.GaussianNB(bounds=(-3, 3)))
    with sklearn.config_context(transform_output="pandas"):
        search = PrivateRandomSearchCV(pipeline, {"gaussiannb__epsilon": [0.5]}, n_iter=Fixed(1), classes=[0, 1])
        search.fit(X, np.arange(60) % 2)
        assert search.predict(X).shape == (60,)
