"""No cell of one row decides in what form another row is seen, trained on or scored."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from skdptune import PrivateRandomSearchCV
from skdptune._exceptions import InvalidParameterError, InvalidTypeError
from skdptune.candidates import row_wise
from skdptune.model_selection import release_test_score
from skdptune.model_selection._runs import total_count
from skdptune.model_selection._tidy import with_own_cells, with_own_types
from skdptune.run_counts import Fixed
from skdptune.scoring import AccuracyScorer
from tests.model_selection import test_row_forms
from tests.model_selection.test_row_forms import SPLIT, N, Y


class Seen(test_row_forms.Seen):
    """Keeps the rows that it sees as arrays."""

    rows = []

    def fit(self, X, y):
        return super().fit(X.toarray() if sp.issparse(X) else np.asarray(X), y)


def rows_seen(X, *steps, tries=1, model=None):
    """Return what the model behind ``steps`` was trained on, one array for each try."""
    Seen.rows.clear()
    model = make_pipeline(*steps, Seen()) if steps else Seen() if model is None else model
    name = "seen__scale" if steps else "scale"
    PrivateRandomSearchCV(model, {name: [4.0]}, n_iter=Fixed(tries), classes=[0, 1], cv=SPLIT).fit(X, Y)
    return list(Seen.rows)


@row_wise
def spelled_out(X):
    X = np.array(X)
    X[X == "n"] = "north"
    X[X == "s"] = "south"
    return X


def words():
    return [["n"] if i % 2 else ["s"] for i in range(N)]


def whole():
    return [[2, 3] for _ in range(N)]


ODD_NUMBERS = [2.5, True, 2**63, 2**70, np.float32(0.5), np.longdouble(0.5), Decimal("0.5")]


@pytest.mark.parametrize("cell", ODD_NUMBERS)
@pytest.mark.parametrize("steps", [[FunctionTransformer(np.reciprocal)], []])
def test_one_number_of_another_type_in_a_list_leaves_the_others_alone(cell, steps):
    rows = whole()
    (before,) = rows_seen(rows, *steps)
    rows[0][0] = cell
    (after,) = rows_seen(rows, *steps)
    np.testing.assert_array_equal(before[1:], after[1:])
    assert before.dtype == after.dtype == np.float64


@pytest.mark.parametrize("cell", [1.5, 2**70, None])
def test_one_odd_cell_of_a_list_leaves_the_categories_of_others_alone(cell):
    encode = OneHotEncoder(categories=[[2], [3]], handle_unknown="ignore", sparse_output=False)
    rows = whole()
    (before,) = rows_seen(rows, encode)
    rows[0][1] = cell
    (after,) = rows_seen(rows, encode)
    np.testing.assert_array_equal(before[1:], after[1:])
    assert before[1:].all()


@pytest.mark.parametrize("cell", ["x", "3", b"3", {}, [2], datetime.date(2020, 1, 1), 1j, np.timedelta64(2), pd.NaT])
@pytest.mark.parametrize("y", [Y, Y.tolist()])
def test_a_list_with_a_cell_that_is_no_number_costs_nothing(cell, y):
    rows = whole()
    rows[0][0] = cell
    search = PrivateRandomSearchCV(make_pipeline(FunctionTransformer(np.negative), Seen()), {"seen__scale": [4.0]})
    Seen.rows.clear()
    with pytest.raises((InvalidParameterError, InvalidTypeError)):
        search.fit(rows, y)
    assert not Seen.rows


@pytest.mark.parametrize("cell", ODD_NUMBERS)
def test_one_number_of_a_list_leaves_the_test_score_of_others_alone(cell):
    @row_wise
    def as_text(X):
        return np.array([[str(value) for value in row] for row in X], dtype=object)

    model = make_pipeline(
        FunctionTransformer(as_text),
        OneHotEncoder(categories=[["2.0"], ["3.0"]], handle_unknown="ignore", sparse_output=False),
        North(),
    )
    search = PrivateRandomSearchCV(model, {"north__scale": [4.0]}, n_iter=Fixed(1), classes=[0, 1], cv=SPLIT)
    search.fit(np.array(whole(), dtype=float), Y)
    rows = whole()
    rows[0][0] = cell
    labels = np.ones(N, dtype=int)
    assert release_test_score(search, rows, labels, score_noise=0.04).score >= 1 - 2.5 / N


def test_labels_of_a_list_have_the_type_of_the_declared_ones():
    class Counting(Seen):
        def fit(self, X, y):
            np.bincount(y)
            return super().fit(X, y)

    search = PrivateRandomSearchCV(Counting(), {"scale": [4.0]}, n_iter=Fixed(1), classes=[0, 1], cv=SPLIT)
    search.fit(np.ones((N, 1)), [1.0, *Y[1:].tolist()])
    assert search.best_score_ > -np.inf


def test_one_long_text_leaves_those_of_others_alone():
    encode = OneHotEncoder(categories=[["north", "south"]], handle_unknown="ignore", sparse_output=False)
    rows = words()
    (before,) = rows_seen(np.array(rows), FunctionTransformer(spelled_out), encode)
    rows[0][0] = "south by southwest"
    (after,) = rows_seen(np.array(rows), FunctionTransformer(spelled_out), encode)
    np.testing.assert_array_equal(before[1:], after[1:])
    assert (before.sum(axis=1) == 1).all()


def test_a_test_score_meets_each_row_by_itself():
    encode = OneHotEncoder(categories=[["north", "south"]], handle_unknown="ignore", sparse_output=False)
    model = make_pipeline(FunctionTransformer(spelled_out), encode, North())
    search = PrivateRandomSearchCV(model, {"north__scale": [4.0]}, n_iter=Fixed(1), classes=[0, 1], cv=SPLIT)
    rows = words()
    scores = []
    for first in ("s", "south by southwest"):
        search.fit(np.array(words()), Y)  # learns nothing that matters here; a second score of one fit would warn
        rows[0][0] = first
        scores.append(release_test_score(search, np.array(rows), Y, score_noise=0.04).score)
    assert abs(scores[0] - scores[1]) <= 1.5 / N  # one row; noise of this size is nearly always none


class North(Seen):
    """Predicts 1 where the first of two columns is set."""

    def predict(self, X):
        return (np.asarray(X)[:, 0] > 0).astype(int)


@pytest.mark.parametrize("layout", ["lil", "dok", "csr", "coo"])
@pytest.mark.parametrize("cell", [np.nan, np.inf])
def test_no_sparse_layout_hides_a_cell(layout, cell):
    table = np.ones((N, 2))
    assert rows_seen(sp.csr_array(table).asformat(layout))[0].sum() == 60
    table[5, 0] = cell
    with pytest.raises(InvalidParameterError, match="NaN|infinity"):
        rows_seen(sp.csr_array(table).asformat(layout))


def test_each_try_has_a_frame_of_its_own():
    polars = pytest.importorskip("polars")

    @row_wise
    def ten_times(X):
        X.replace_column(0, X["x"] * 10)
        return X.to_numpy()

    frame = polars.DataFrame({"x": np.ones(N), "z": np.ones(N)})
    assert [rows[:, 0].max() for rows in rows_seen(frame, FunctionTransformer(ten_times), tries=3)] == [10.0] * 3
    assert frame["x"].max() == 1.0


# ---------------------------------------------------------------------- mixed frames


def mixed():
    start = pd.Timestamp("2020-01-01")
    return pd.DataFrame(
        {
            "x": np.linspace(0, 1, N),
            "flag": Y == 1,
            "job": ["a", "b"] * (N // 2),
            "old": pd.Series(["a", "b"] * (N // 2), dtype=object),
            "city": pd.Categorical(["u", "v"] * (N // 2)),
            "count": pd.array(np.arange(N), dtype="Int64"),
            "share": pd.array(np.linspace(0, 1, N), dtype="Float32"),
            "known": pd.array(Y == 1, dtype="boolean"),
            "when": [start + datetime.timedelta(hours=i) for i in range(N)],
            "span": pd.to_timedelta(np.arange(N), unit="h"),
        }
    )


@row_wise
def hours(X):
    return X.apply(lambda column: column.dt.hour / 24)


@row_wise
def seconds(X):
    return X.apply(lambda column: column.dt.total_seconds() / 1e6)


def one_hot(*categories):
    return OneHotEncoder(categories=[[*categories]], handle_unknown="ignore", sparse_output=False)


TREATED = {
    "job": one_hot("a", "b"),
    "old": one_hot("a", "b"),
    "city": one_hot("u", "v"),
    "when": FunctionTransformer(hours),
    "span": FunctionTransformer(seconds),
}


@pytest.mark.parametrize("names", [(a, b) for a in mixed().columns for b in mixed().columns if a < b])
def test_columns_of_any_two_kinds_stand_side_by_side(names):
    parts = [(TREATED.get(name, "passthrough"), [name]) for name in names]
    frame = mixed()[list(names)]
    expected = make_column_transformer(*parts).fit_transform(frame)
    (rows,) = rows_seen(frame, make_column_transformer(*parts))
    np.testing.assert_allclose(rows.astype(float), np.asarray(expected, dtype=float)[:30])


def test_missing_text_beside_a_flag_is_still_seen():
    frame = mixed()[["flag", "job"]]
    frame.loc[3, "job"] = None
    step = make_column_transformer(("passthrough", ["flag"]), (FunctionTransformer(np.negative), ["flag"]))
    with pytest.raises(InvalidParameterError, match="NaN"):
        rows_seen(frame, make_column_transformer(("passthrough", ["flag", "job"])), step)


def test_polars_columns_of_any_two_kinds_are_looked_at():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(
        {"b": Y == 1, "d": polars.Series([1.5] * N).cast(polars.Decimal(10, 2)), "t": [datetime.time(1)] * N}
    )
    assert with_own_cells(frame).shape == (N, 3)
    assert with_own_cells(frame[["b", "d"]])[0].tolist() == [False, 1.5]


def test_what_has_a_type_keeps_it():
    for rows in (np.arange(6).reshape(3, 2), np.zeros((3, 2), dtype=np.float32), sp.eye(3, format="csr"), ["a", "b"]):
        assert with_own_types(rows) is rows
    plain = pd.DataFrame({"a": [1.0], "b": [2]})
    assert with_own_cells(plain) is plain


@pytest.mark.parametrize("dtype, plain", [("Int64", "i"), ("boolean", "b")])
def test_labels_of_a_nullable_type_keep_their_kind(dtype, plain):
    search = PrivateRandomSearchCV(Seen(), {"scale": [4.0]}, n_iter=Fixed(1), cv=SPLIT)
    search.fit(np.ones((N, 1)), pd.Series(Y).astype(dtype))
    assert search.classes_.dtype.kind == plain


# ---------------------------------------------------------------------- scores


class Squeezing(BaseEstimator):
    """Treats rows one by one, but gives a bare number for a single row; impossible values raise."""

    def predict(self, X):
        if (X > 9).any():
            raise ValueError
        return np.array([0, 1])[np.squeeze(X > 0.5).astype(int)]


class Listing(BaseEstimator):
    """Predicts a list whose cells are of several types."""

    def __init__(self, odd):
        self.odd = odd

    def predict(self, X):
        return [self.odd if cell > 9 else int(cell > 0.5) for cell in X[:, 0]]


@pytest.mark.parametrize("place", [0, 7, 39])
@pytest.mark.parametrize(
    "model", [Squeezing(), Listing("unknown"), Listing(2.5), Listing(None), Listing((3,)), Listing((3, 4))]
)
def test_an_odd_row_costs_its_own_point_and_no_other(model, place):
    X = Y[:, None].astype(float)
    scorer = AccuracyScorer()
    assert total_count(scorer, model, X, Y) == N
    X[place] = 10.0
    assert total_count(scorer, model, X, Y) == N - 1


def test_large_whole_numbers_in_a_list_are_compared_as_they_are():
    labels = np.full(N, 2**53)

    class Large(BaseEstimator):
        def predict(self, X):
            return [2.5 if cell > 9 else 2**53 + 1 for cell in X[:, 0]]

    X = np.zeros((N, 1))
    assert AccuracyScorer().count(Large(), X, labels) == 0
    X[0] = 10.0
    assert AccuracyScorer().count(Large(), X, labels) == 0


@pytest.mark.parametrize("predictions", [[[0], [1]], [(0,), (1,)], [np.int64(0), 1.0], (0, 1)])
def test_lists_of_predictions_are_read_as_before(predictions):
    class Told(BaseEstimator):
        def predict(self, X):
            return predictions

    assert AccuracyScorer().count(Told(), np.zeros((2, 1)), np.array([0, 1])) == 2


def test_lists_of_several_outputs():
    class Told(BaseEstimator):
        def predict(self, X):
            return [[0, 1], ["a", None], [1]]

    y = np.array([[0, 1], [1, 1], [1, 1]])
    assert AccuracyScorer().count(Told(), np.zeros((3, 1)), y) == 1


def test_few_odd_rows_take_few_calls():
    class Counting(Squeezing):
        calls = 0

        def predict(self, X):
            Counting.calls += 1
            return super().predict(X)

    X = np.zeros((4096, 1))
    X[1234] = 10.0
    assert total_count(AccuracyScorer(), Counting(), X, np.zeros(4096, dtype=int)) == 4095
    assert Counting.calls < 40
