"""Rows, targets and labels that come as lists: numbers or refused, and no cell decides how another one is seen."""

import collections
import fractions
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from skdptune import PrivateRandomSearchCV
from skdptune._exceptions import InvalidParameterError, InvalidTypeError
from skdptune.candidates import row_wise
from skdptune.model_selection import release_test_score
from skdptune.model_selection._lists import each_label, each_row, found_labels, is_listed, listed_rows
from skdptune.model_selection._missing import missing
from skdptune.model_selection._overlap import refuse_overlap
from skdptune.run_counts import Fixed
from skdptune.scoring import AbsoluteErrorScorer, PrivateScorer
from tests.model_selection import test_row_forms
from tests.model_selection.test_row_forms import SPLIT, N, Y

KINDS = [list, tuple, collections.deque, collections.UserList]
FILL = SimpleImputer(strategy="constant", fill_value=0, keep_empty_features=True)


class Seen(test_row_forms.Seen):
    """Keeps what it is trained on."""

    rows, labels = [], []

    def fit(self, X, y):
        Seen.labels.append(y)
        return super().fit(np.asarray(X), y)

    def predict(self, X):
        X = np.asarray(X)
        if np.isnan(X).any():
            raise ValueError
        return (X[:, 0] > 0.4).astype(int)


class SeenTargets(RegressorMixin, BaseEstimator):
    targets = []

    def __init__(self, scale=4.0):
        self.scale = scale

    def rdp_curve(self, orders):
        return np.asarray(orders) / (2 * self.scale**2)

    def fit(self, X, y):
        SeenTargets.targets.append(y)
        return self

    def predict(self, X):
        return np.zeros(len(X))


def fitted(X, y=Y, *steps, **options):
    Seen.rows.clear()
    Seen.labels.clear()
    model = make_pipeline(*steps, Seen()) if steps else Seen()
    options = {"n_iter": Fixed(1), "classes": [0, 1], "cv": SPLIT, **options}
    return PrivateRandomSearchCV(model, {"seen__scale" if steps else "scale": [4.0]}, **options).fit(X, y)


def whole():
    return [[2, 3] for _ in range(N)]


def with_cell(rows, cell, column=0):
    rows[0][column] = cell
    return rows


# ---------------------------------------------------------------------- rows


@pytest.mark.parametrize("cell", ["a", np.timedelta64(1, "D"), np.datetime64("2021"), pd.NaT, Decimal("sNaN"), [1]])
def test_a_column_whose_only_known_cell_is_no_number_is_refused(cell):
    rows = with_cell([[1, None] for _ in range(N)], cell, 1)
    with pytest.raises(InvalidParameterError, match=r"column 1 \(counted from 0\) holds something else.*frame"):
        fitted(rows, Y, FILL)
    fitted(with_cell(rows, 5.0, 1), Y, FILL)
    assert Seen.rows[0].dtype == np.float64 and Seen.rows[0][1].tolist() == [1.0, 0.0]


def test_columns_of_text_are_refused_in_rows_and_in_public_rows():
    encode = OneHotEncoder(categories=[["a"]], handle_unknown="ignore", sparse_output=False)
    with pytest.raises(InvalidParameterError, match="X given as a list must hold numbers"):
        fitted([["a"]] * N, Y, encode)
    frame = pd.DataFrame({"a": ["a"] * N})
    fitted(frame, Y, encode)
    with pytest.raises(InvalidParameterError, match="X_public given as a list must hold numbers"):
        PrivateRandomSearchCV(
            make_pipeline(encode, Seen()), {"seen__scale": [4.0]}, classes=[0, 1]
        ).fit(frame, Y, X_public=[["a"]], y_public=[1])


@pytest.mark.parametrize("unit", ["D", "h"])
@pytest.mark.parametrize("of", [np.timedelta64(3, "D"), np.datetime64("2020")])
def test_lists_of_times_are_no_numbers(unit, of):
    rows = with_cell([[of] for _ in range(N)], of.astype(f"{of.dtype.kind}8[{unit}]"))
    with pytest.raises(InvalidParameterError, match="must hold numbers; column 0"):
        fitted(rows)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cell", [2, 2.5, Decimal("2.5"), fractions.Fraction(5, 2), np.float32(2.5)])
def test_every_sequence_is_read_as_a_list(kind, cell):
    fitted(kind(map(kind, with_cell(whole(), cell))), Y, FunctionTransformer(np.reciprocal))
    assert Seen.rows[0][1].tolist() == [1 / 2, 1 / 3]


def test_what_has_a_type_is_no_list():
    typed = [np.zeros(2), pd.Series([1]), pd.DataFrame({"a": [1]}), sp.eye(2).tolil(), "ab", b"ab", {"a": [1]}, 3, None]
    assert not any(map(is_listed, typed))


def test_a_list_that_is_no_table_keeps_its_complaint():
    for rows, error, words in (
        ([[1, 2]] * (N - 1) + [[1]], InvalidParameterError, "inhomogeneous"),
        (["a b"] * N, InvalidTypeError, "documents"),
        (collections.deque(["a b"] * N), InvalidTypeError, "documents"),
        ([1] * N, InvalidParameterError, "Reshape your data"),
        ([[[1, 2], [3, 4]]] * N, InvalidParameterError, "dim 3"),
        ([[10**400, 1]] * N, InvalidParameterError, "infinity"),
    ):
        with pytest.raises(error, match=words):
            fitted(rows)


def test_numbers_too_large_keep_their_sign():
    assert listed_rows([[10**400, -(10**400)]]).tolist() == [[np.inf, -np.inf]]


class Odd:
    def __init__(self, error):
        self.error = error

    def _speak(self, *args):
        raise self.error("secret 7319")

    __ne__ = __eq__ = __float__ = __hash__ = __str__ = __repr__ = _speak


@pytest.mark.parametrize("error", [RuntimeError, ArithmeticError, TypeError])
def test_no_cell_speaks_in_a_complaint(error):
    for cell in (Odd(error), Decimal("sNaN")):
        table = np.array(with_cell(whole(), 2.0), dtype=object)
        table[0, 0] = cell
        for X, y in ((with_cell(whole(), cell), Y), (table, Y), (np.ones((N, 1)), [cell, *Y[1:].tolist()])):
            for classes in (None, [0, 1]):
                with pytest.raises((InvalidParameterError, InvalidTypeError)) as caught:
                    fitted(X, y, classes=classes)
                assert "7319" not in str(caught.value) and caught.value.__cause__ is None
    assert missing(np.array([Odd(RuntimeError), Decimal("sNaN"), None], dtype=object)).tolist() == [False, False, True]


# ---------------------------------------------------------------------- targets and labels


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cell", [1, 1.0, True, np.float32(1), Decimal(1)])
def test_targets_of_a_list_are_floats(kind, cell):
    SeenTargets.targets.clear()
    scorer = AbsoluteErrorScorer(lower=0, upper=2)
    search = PrivateRandomSearchCV(SeenTargets(), {"scale": [4.0]}, n_iter=Fixed(1), cv=SPLIT, scoring=scorer)
    search.fit(np.ones((N, 1)), kind([cell, *np.full(N - 1, 0.1, np.float32)]))
    assert SeenTargets.targets[0].dtype == np.float64
    with pytest.raises(InvalidParameterError, match="numeric for a regressor"):
        search.fit(np.ones((N, 1)), kind(["1", *np.full(N - 1, 0.1)]))


@pytest.mark.parametrize("classes", [[0, 1], np.array([0, 1], dtype=object), np.array([0.0, 1.0]), [False, True], None])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cell", [0, 0.0, np.int8(0), np.float32(0), Decimal(0)])
def test_one_label_decides_no_type(classes, kind, cell):
    fitted(np.ones((N, 1)), kind([cell, *Y[1:].tolist()]), classes=classes)
    expected = np.int64 if classes is None else np.asarray(np.asarray(classes).tolist()).dtype
    assert Seen.labels[0].dtype == expected


def test_labels_are_mapped_exactly():
    labels = [2**53 + 1] * (N - 1) + [float(2**53)]
    fitted(np.ones((N, 1)), labels, classes=[2**53, 2**53 + 1])
    assert Seen.labels[0][:2].tolist() == [2**53 + 1] * 2


@pytest.mark.parametrize("labels", [[1, "1"], [True, 2], [True, 1.0], [2**63, 1], ["a", b"a"]])
def test_lists_of_labels_of_several_kinds_are_refused(labels):
    with pytest.raises((InvalidParameterError, InvalidTypeError), match="one kind|64 bits|bytes"):
        fitted(np.ones((N, 1)), labels * (N // 2), classes=None)


def test_found_labels_hang_on_no_single_cell():
    cells = np.array([1, 2.0, np.float32(3)], dtype=object)
    assert found_labels(cells).dtype == np.int64
    assert found_labels(np.array(["a", np.str_("b")], dtype=object)).tolist() == ["a", "b"]
    with pytest.raises(InvalidParameterError, match="continuous"):
        fitted(np.ones((N, 1)), [2.5, *Y[1:].tolist()], classes=None)


def test_declared_labels_are_of_one_kind():
    with pytest.raises(InvalidTypeError, match="one kind"):
        fitted(np.ones((N, 1)), Y.tolist(), classes=[0, "1"])


class Table(PrivateScorer):
    """Score by a public table of gains, which takes whole numbers only."""

    resolution = 1

    def row_scores(self, estimator, X, y):
        return np.eye(2)[y, estimator.predict(X)]


@pytest.mark.parametrize("cell", [1, 1.0, np.float32(1), True, 7, "x"])
def test_labels_of_test_rows_are_those_of_the_search(cell):
    search = fitted(np.ones((N, 1)), Y.tolist(), scoring=Table())
    score = release_test_score(search, np.ones((N, 1)), [cell] + [1] * (N - 1), score_noise=0.04).score
    assert score >= 1 - 2.5 / N


def test_arrays_of_test_labels_are_read_one_by_one():
    search = fitted(np.ones((N, 1)), scoring=Table())
    labels = np.ones(N)
    labels[0] = 7.0
    assert release_test_score(search, np.ones((N, 1)), labels, score_noise=0.04).score >= 1 - 2.5 / N


@pytest.mark.parametrize("cell", [0, 0.0, np.float32(0)])
def test_labels_of_public_rows_are_those_of_the_search(cell):
    for labels in ([cell] + [1] * 8, np.array([cell] + [1] * 8)):
        search = PrivateRandomSearchCV(Seen(), {"scale": [4.0]}, n_iter=Fixed(1), classes=[0, 1], scoring=Table())
        search.fit(np.ones((N, 1)), Y, X_public=np.zeros((9, 1)), y_public=labels)
        assert search.best_score_ == pytest.approx(1 / 9)
    with pytest.raises(InvalidParameterError, match="y_public must hold labels"):
        search.fit(np.ones((N, 1)), Y, X_public=np.zeros((2, 1)), y_public=[0, "1"])


@pytest.mark.parametrize(
    "classes",
    [np.array([0, 1]), np.array([-128, 127], dtype=np.int8), np.array([0.0, 1.0]), np.array(["a", "?"]),
     np.array([True])],
)  # fmt: skip
def test_the_mark_of_other_labels_is_none_of_them(classes):
    known = classes.tolist()
    labels = each_label([*known, None, object()], classes)
    assert labels[: len(known)].tolist() == known and not set(labels[len(known) :].tolist()) & set(known)
    assert labels.dtype == each_label(known, classes).dtype


def test_text_is_no_label_of_numbers():
    with pytest.raises(InvalidParameterError, match="kind that the search was fitted on"):
        each_label(["0", "1"], np.array([0, 1]))


# ---------------------------------------------------------------------- test rows and predictions


@pytest.mark.parametrize(
    "row", [["x", 3], [None, 3], [1], "ab", 5, [[1, 2], [3, 4]], {"a": 1}, [b"1", 2], [10**400, 1], [[1, 2], 3]]
)
def test_an_odd_test_row_costs_its_own_point_and_no_other(row):
    # whole numbers have other reciprocals than floats, which would cost all points
    search = fitted(whole(), Y, FunctionTransformer(np.reciprocal))
    rows = [row, *whole()[1:]]
    released = release_test_score(search, rows, [1] * N, score_noise=0.04)
    assert 1 - 2.5 / N <= released.score <= 1 + 1.5 / N


def test_an_empty_column_of_test_rows_is_taken():
    search = fitted([[2, None]] * (N - 1) + [[2, 3]], Y, FILL)
    assert release_test_score(search, [[2, None]] * N, [1] * N, score_noise=0.04).score >= 1 - 1.5 / N


def test_test_rows_of_text_are_refused():
    with pytest.raises(InvalidParameterError, match="column 1 .counted from 0. holds none"):
        release_test_score(fitted(whole()), [[1, "a"]] * N, Y)
    with pytest.raises(ValueError, match="3 features"):
        release_test_score(fitted(whole()), [[1, 2, 3]] * N, Y)


def test_each_row_is_read_by_itself():
    read = each_row([[True, Decimal("0.5")], np.array([1, 2], dtype=np.int8), pd.Series([3, 4]), (5, np.array(6.0))], 2)
    assert read.tolist() == [[1.0, 0.5], [1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]


def test_test_rows_of_images_are_read_as_those_of_the_search():
    class Images(Seen):
        def __sklearn_tags__(self):
            tags = super().__sklearn_tags__()
            tags.input_tags.three_d_array = True
            return tags

        def predict(self, X):
            return np.ones(len(X), dtype=int)

    search = PrivateRandomSearchCV(Images(), {"scale": [4.0]}, n_iter=Fixed(1), classes=[0, 1], cv=SPLIT)
    images = [[[1, 2], [3, 4]] for _ in range(N)]
    search.fit(images, Y)
    assert release_test_score(search, images, [1] * N, score_noise=0.04).score >= 1 - 1.5 / N
    with pytest.raises(InvalidParameterError, match="must hold numbers"):
        release_test_score(search, [[[1, 2], [3, "x"]], *images[1:]], [1] * N)
    search.fit(whole(), Y)
    assert np.isfinite(release_test_score(search, with_cell(whole(), "x"), [1] * N, score_noise=0.04).score)


class TakesDicts(Seen):
    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        return self

    def predict(self, X):
        return np.full(len(X["word"]), int(X["word"].dtype.kind == "i"))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.dict = True
        return tags


def test_a_test_score_takes_dicts_of_arrays():
    search = PrivateRandomSearchCV(TakesDicts(), {"scale": [4.0]}, n_iter=Fixed(1), classes=[0, 1], cv=SPLIT)
    X = {"word": np.ones((N, 1), dtype=int), "age": np.ones((N, 2))}
    search.fit(X, Y)
    assert release_test_score(search, X, [1] * N, score_noise=0.04).score >= 1 - 1.5 / N
    for kind in KINDS:
        with pytest.raises(InvalidParameterError, match="must hold arrays; one is a list"):
            release_test_score(search, {**X, "word": kind([[1]] * N)}, Y)
    with pytest.raises(InvalidParameterError, match="same number of rows"):
        release_test_score(search, {**X, "age": X["age"][1:]}, Y)
    for kind in KINDS:
        with pytest.raises(InvalidParameterError, match="must hold arrays; one is a list"):
            search.fit({**X, "word": kind([[1]] * N)}, Y)


@pytest.mark.parametrize("kind", KINDS)
def test_lists_are_predicted_as_they_were_trained_on(kind):
    rows, step = kind(whole()), FunctionTransformer(np.reciprocal)
    search = fitted(rows, Y, step)
    assert search.predict(rows).tolist() == [1] * N
    assert search.score(rows, np.ones(N, dtype=int)) == 1.0
    model = PrivateRandomSearchCV(make_pipeline(step, Seen()), {"seen__scale": [4.0]}, n_iter=Fixed(1), classes=[0, 1])
    scores = cross_val_score(model, whole(), [1] * (N - 1) + [0], error_score="raise", cv=[SPLIT[0]])
    assert scores == [1 - 1 / (N - 30)]


@row_wise
def lengths(X):
    return np.array([[len(cell) for cell in row] for row in X], dtype=float)


def test_other_lists_are_predicted_as_they_come():
    search = fitted(pd.DataFrame({"a": ["x"] * N}).to_numpy(dtype=object), Y, FunctionTransformer(lengths))
    assert search.predict([["x"], [""]]).tolist() == [1, 0]


# ---------------------------------------------------------------------- public rows that are private ones

NUMBERS = np.arange(2.0 * N).reshape(N, 2) + 0.1
MIXED = np.array([[int(i), f"t{i}"] for i in range(N)], dtype=object)
HELD = {
    "double": NUMBERS, "single": NUMBERS.astype(np.float32), "objects": NUMBERS.astype(object),
    "decimals": np.vectorize(Decimal, otypes=[object])(NUMBERS), "frame": pd.DataFrame(NUMBERS),
    "nullable": pd.DataFrame(NUMBERS).astype("Float64"), "sparse": sp.csr_array(NUMBERS),
}  # fmt: skip
MIXED_HELD = {
    "objects": MIXED, "floats": np.array([[float(a), b] for a, b in MIXED], dtype=object),
    "frame": pd.DataFrame({"a": MIXED[:, 0].astype(np.int8), "b": MIXED[:, 1]}),
    "single": np.array([[np.float32(a), np.str_(b)] for a, b in MIXED], dtype=object),
}  # fmt: skip


@pytest.mark.parametrize("held", [HELD, MIXED_HELD])
def test_a_private_row_is_found_however_it_is_held(held):
    for private in held.values():
        for public in held.values():
            part = public.iloc[3:9] if hasattr(public, "iloc") else public[3:9]
            for labels in (Y[3:9], Y[3:9].astype(float), Y[3:9].astype(bool)):
                with pytest.raises(InvalidParameterError, match="private rows"):
                    refuse_overlap(private, Y, part, labels)
                refuse_overlap(private, Y, part, 1 - labels.astype(int))


def test_a_missing_cell_is_equal_to_one_and_text_to_no_number():
    table = NUMBERS.copy()
    table[:, 1] = np.nan
    objects = table.astype(object)
    objects[:, 1] = None
    with pytest.raises(InvalidParameterError, match="private rows"):
        refuse_overlap(table, Y, objects, Y)
    refuse_overlap(NUMBERS, Y, NUMBERS.astype(str).astype(object), Y)
    refuse_overlap(NUMBERS, Y, NUMBERS, Y.astype(str))


def test_numbers_that_fit_reads_out_of_text_are_compared_as_numbers():
    text = NUMBERS.astype(str).astype(object)
    text[0, 0] = 0.1  # or scikit-learn would take it for text
    piped = make_pipeline(FunctionTransformer(np.negative), Seen())
    for model, name in ((Seen(), "scale"), (piped, "seen__scale")):
        search = PrivateRandomSearchCV(model, {name: [4.0]}, n_iter=Fixed(1), classes=[0, 1])
        for private, public in ((text, NUMBERS), (NUMBERS, text), (text, text), (NUMBERS, NUMBERS.tolist())):
            with pytest.raises(InvalidParameterError, match="private rows"):
                search.fit(private, Y, X_public=public, y_public=Y)
    encode = OneHotEncoder(categories=[["t1"]], handle_unknown="ignore", sparse_output=False)
    piped = make_pipeline(make_column_transformer((encode, [1]), ("passthrough", [0])), Seen())
    search, text = PrivateRandomSearchCV(piped, {"seen__scale": [4.0]}, n_iter=Fixed(1), classes=[0, 1]), MIXED.copy()
    text[:, 0] = text[:, 0].astype(str)
    for private, public in ((text, MIXED), (MIXED, text), (text, text)):
        with pytest.raises(InvalidParameterError, match="private rows"):
            search.fit(private, Y, X_public=public, y_public=Y)


@pytest.mark.parametrize(
    "classes",
    [
        np.array([False, True]),
        np.arange(-128, 128, dtype=np.int8),
        np.array([0, "a"], dtype=object),
        np.array([0.5, 1.5]),
    ],
    ids=["flags", "full", "objects", "floats"],
)
def test_an_unknown_label_of_any_label_set_costs_its_own_row(classes):
    cells = [*classes.tolist(), 300.25]
    labels = each_label(cells, classes)
    assert labels[:-1].tolist() == classes.tolist()
    assert labels[-1] not in classes.tolist()
    assert each_label(classes.tolist(), classes).dtype == labels.dtype  # whether there is one must not show
