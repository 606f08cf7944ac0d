"""One odd row fails no try: what free steps raise on, and what they make infinite."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, PolynomialFeatures
from sklearn.utils.validation import validate_data

from skdptune import PrivateRandomSearchCV
from skdptune._exceptions import CandidateRefusedError
from skdptune.candidates import find_adapter, row_wise
from skdptune.candidates._rehearsal import quietly
from skdptune.candidates._row_safe import finite_rows, transformed
from skdptune.candidates._stateless import StatelessAdapter, placeholder_like
from tests.candidates.toys import Toy, ToyScaler

N = 12
LABELS = np.arange(N) % 2
SEEN = []


class Strict(Toy):
    """Checks its rows the way scikit-learn's estimators do, and keeps them for the test."""

    def fit(self, X, y=None):
        X = validate_data(self, X, accept_sparse=True)
        SEEN.append(X.toarray() if sparse.issparse(X) else np.array(X))
        self.classes_, self.z_ = np.array([0, 1]), float(self._draw())
        return self


class Tolerant(Strict):
    def fit(self, X, y=None):
        SEEN.append(np.array(X))
        return super().fit(np.nan_to_num(X), y)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def trained_on(pipeline, X):
    SEEN.clear()
    adapter = find_adapter(pipeline)
    adapter.check("zero-out")
    with quietly():  # as in a try
        adapter.fit(X, LABELS, classes=np.array([0, 1]), seed=None)
    return SEEN[0]


ENCODERS = {
    "hash": lambda: make_column_transformer((HashingVectorizer(n_features=4), "c")),
    "onehot": lambda: OneHotEncoder(categories=[["a", "b"]], handle_unknown="ignore"),
    "ordinal": lambda: OrdinalEncoder(categories=[["a", "b"]], handle_unknown="use_encoded_value", unknown_value=-1),
}


@pytest.mark.parametrize("kind", ENCODERS)
@pytest.mark.parametrize("cell", [5, 2.5, ["a"], ("a",), True])
def test_an_odd_cell_blanks_its_row_and_no_other(kind, cell):
    X = pd.DataFrame({"c": ["a", "b"] * (N // 2)}, index=np.arange(N)[::-1] * 3).astype(object)
    regular = trained_on(make_pipeline(ENCODERS[kind](), Strict()), X)
    X.at[X.index[3], "c"] = cell
    odd = trained_on(make_pipeline(ENCODERS[kind](), Strict()), X)
    others = np.arange(N) != 3
    assert odd.shape == regular.shape and np.array_equal(odd[others], regular[others])
    assert odd[3].max() <= 0  # of no category, of no word


def test_a_search_has_a_winner_in_spite_of_an_odd_cell():
    X = pd.DataFrame({"c": ["a", "b"] * (N // 2)}).astype(object)
    X.at[3, "c"] = ["a"]
    pipeline = make_pipeline(ENCODERS["ordinal"](), Strict())
    search = PrivateRandomSearchCV(pipeline, {"strict__s": [1.0]}, n_iter=1, classes=[0, 1])
    assert search.fit(X, LABELS).best_estimator_ is not None


@pytest.mark.parametrize(
    ("step", "value"),
    [
        (FunctionTransformer(np.log1p), -1.0),
        (FunctionTransformer(np.sqrt), -1.0),
        (PolynomialFeatures(2), 1e200),
        (FunctionTransformer(np.exp), 1e9),
    ],
)
@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame, sparse.csr_array])
def test_what_a_free_step_makes_infinite_is_zero_in_training(step, value, kind):
    if kind is sparse.csr_array and getattr(step, "func", None) is np.exp:
        pytest.skip("of no sparse matrix")
    X = np.ones((N, 2))
    regular = trained_on(make_pipeline(step, Strict()), kind(X))
    X[3, 0] = value
    odd = trained_on(make_pipeline(step, Strict()), kind(X))
    assert np.isfinite(odd).all() and np.array_equal(np.delete(odd, 3, 0), np.delete(regular, 3, 0))
    assert 0.0 in odd[3]


def test_missing_values_reach_who_takes_them_and_infinite_ones_nobody():
    X = np.ones((N, 2))
    X[3] = -1.0, -2.0
    odd = trained_on(make_pipeline(FunctionTransformer(np.log1p), Tolerant()), X)
    assert odd[3, 0] == 0 and np.isnan(odd[3, 1])
    inner = make_pipeline(make_pipeline(FunctionTransformer(np.log1p), ToyScaler()), make_pipeline(Strict()))
    assert np.isfinite(trained_on(inner, X)).all()


def test_nullable_columns_are_made_finite():
    frame = pd.DataFrame({"a": [1.0, np.inf], "b": [1, 2]}).astype({"a": "Float64"})
    out = finite_rows(frame, LogisticRegression())
    assert out["a"].tolist() == [1.0, 0.0] and list(map(str, out.dtypes)) == ["Float64", "int64"]
    assert frame["a"].tolist() == [1.0, np.inf]


@row_wise
def parsed(X):
    return np.array([[float(cell) for cell in row] for row in X])


def half(X):
    return np.asarray(X)[: len(X) // 2]


def test_rows_that_a_declared_function_raises_on_are_blanked():
    X = np.ones((N, 2), dtype=object)
    X[[2, 7], 1] = "x"
    out = transformed(parsed, X, lambda X: np.zeros((1, 2)))
    assert np.flatnonzero(~out.any(axis=1)).tolist() == [2, 7] and X[2, 1] == "x"


@pytest.mark.parametrize("kind", [list, lambda rows: np.array([*rows, None], dtype=object)[:-1], pd.Series])
@pytest.mark.parametrize(
    ("step", "document"),
    [
        (HashingVectorizer(n_features=4), "a word"),
        (FeatureHasher(n_features=4), {"a": 1.0}),
        (FeatureHasher(n_features=4, input_type="string"), ["a", "word"]),
        (FeatureHasher(n_features=4, input_type="pair"), [("a", 1.0)]),
    ],
)
@pytest.mark.parametrize("place", [0, 4])
def test_documents_of_another_kind_are_blanked(kind, step, document, place):
    documents = [document] * 6
    documents[place] = 3
    adapter, rows = StatelessAdapter(step), kind(documents)
    out = adapter.transform_released(adapter.fit(rows, None, classes=None, seed=None), rows)
    assert [out[[i]].nnz > 0 for i in range(6)] == [i != place for i in range(6)]


def test_what_fails_for_no_row_alone_fails_as_it_did():
    def never(X):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        transformed(never, np.ones((4, 2)), placeholder_like)
    with pytest.raises(CandidateRefusedError, match="changed the number of rows"):
        transformed(row_wise(half), np.ones((4, 2)), placeholder_like)


@row_wise
def adults(X):
    return X[X["age"] >= 0] / 100


@row_wise
def repeats(X):
    return np.repeat(X, np.where(X[:, 0] > 50, 2, 1), axis=0)


@pytest.mark.parametrize("inside", [False, True])
def test_a_row_that_a_declared_function_leaves_out_is_blanked_and_no_other(inside):
    X = pd.DataFrame({"age": np.arange(1.0, N + 1), "x": 1.0})
    step = FunctionTransformer(adults)
    step = make_column_transformer((step, ["age"]), ("passthrough", ["x"])) if inside else step
    pipeline = make_pipeline(step, Strict())
    regular = trained_on(pipeline, X)
    X.loc[[3, 8], "age"] = -1.0
    odd = trained_on(pipeline, X)
    assert np.array_equal(np.delete(odd, [3, 8], 0), np.delete(regular, [3, 8], 0)) and not odd[[3, 8], 0].any()
    made = PrivateRandomSearchCV(pipeline, {"strict__s": [1.0]}, n_iter=1, classes=[0, 1]).fit(X, LABELS)
    with pytest.raises(CandidateRefusedError, match="changed the number of rows"):
        made.predict(X)  # what is released leaves no row out in silence


def test_a_row_of_which_a_declared_function_makes_two_is_blanked():
    X = np.arange(1.0, 9.0)[:, None]
    X[2] = 99
    assert transformed(repeats, X, placeholder_like).ravel().tolist() == [1, 2, 0, 4, 5, 6, 7, 8]


def test_what_leaves_rows_out_because_of_others_is_refused():
    with pytest.raises(CandidateRefusedError, match="changed the number of rows"):
        transformed(row_wise(lambda X: np.unique(X)[:, None]), np.array([[1.0], [2.0], [1.0]]), placeholder_like)
