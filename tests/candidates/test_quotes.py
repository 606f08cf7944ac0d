"""Complaints about rows: markers are planted in cells, and no message may hold one, whoever words it."""

import datetime
import decimal
import re
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from skdptune.candidates._quotes import _SAID, without_cells
from skdptune.exceptions import InvalidParameterError, InvalidTypeError, SkdptuneError

TEXT, NUMBER, WHOLE, DAY = "Zq7319x", 73.19731973, 7319731973197319, datetime.datetime(2073, 1, 9, 7, 31)
MARKS = re.compile("Zq7319|73[.]19|73197|2073")


class Shown:
    """A cell of no known kind, which shows itself."""

    def __repr__(self):
        return TEXT


class Stubborn(Shown):
    def __float__(self):
        raise ValueError(f"no number: {TEXT}")


CELLS = {
    "text": TEXT, "bytes": TEXT.encode(), "half a pair": f"\ud800{TEXT}", "number": NUMBER, "whole": WHOLE,
    "huge": 10**400 + WHOLE, "complex": NUMBER * (1 + 1j), "day": DAY, "day64": np.datetime64(DAY, "D"),
    "span": np.timedelta64(WHOLE, "s"), "decimal": decimal.Decimal("73.1973"), "dict": {"a": TEXT},
    "list": [NUMBER] * 2, "tuple": (TEXT,), "set": {TEXT}, "object": Shown(), "stubborn": Stubborn(),
    "array": np.array([NUMBER]), "error": KeyError(TEXT), "none": None, "nan": float("nan"), "inf": float("inf"),
}  # fmt: skip


def _objects(cell, shape):
    values = np.full(shape, 1.0, dtype=object)
    values.flat[1 if values.size > 1 else 0] = cell
    return values


def _framed(build):
    def built(cell):
        return build(pytest.importorskip("pandas"), cell)

    return built


SHAPES = {
    "one value": lambda cell: cell,
    "a list": lambda cell: [cell, cell, cell],
    "a mixed list": lambda cell: [cell, 1.0, "b"],
    "lists": lambda cell: [[1.0, cell], [2.0, 3.0], [4.0, 5.0]],
    "ragged lists": lambda cell: [[cell], [cell, cell], cell],
    "objects": lambda cell: _objects(cell, (3, 2)),
    "one column of objects": lambda cell: _objects(cell, 3),
    "deep objects": lambda cell: _objects(cell, (3, 2, 2)),
    "an object": lambda cell: _objects(cell, ()),
    "an array": lambda cell: np.array([[cell] * 2] * 3),
    "one column": lambda cell: np.array([cell] * 3),
    "no dimension": np.array,
    "sparse": lambda cell: sparse.csr_matrix(np.array([[cell] * 2] * 3)),
    "records": lambda cell: np.array([(cell, cell)] * 3, dtype=[("a", "O"), ("b", "O")]),
    "a set": lambda cell: {cell, 1},
    "a dict": lambda cell: {"a": [cell]},
    "a frame": _framed(lambda pd, cell: pd.DataFrame({"a": [cell] * 3, "b": 1.0})),
    "a frame of categories": _framed(lambda pd, cell: pd.DataFrame({"a": pd.Series([cell, None], dtype="category")})),
    "a frame of strings": _framed(lambda pd, cell: pd.DataFrame({"a": pd.Series([cell, None], dtype="string")})),
    "a series": _framed(lambda pd, cell: pd.Series([cell] * 3)),
    "odd names": _framed(lambda pd, cell: pd.DataFrame([[cell, cell]] * 3, columns=["a", 3])),
}

CHECKS = {
    "numbers": lambda v: without_cells(check_array, v, accept_sparse="csr", input_name="X", estimator="Search"),
    "doubles": lambda v: without_cells(check_array, v, dtype=np.float64, input_name="X"),
    "integers": lambda v: without_cells(check_array, v, dtype=np.int64, ensure_all_finite=False),
    "targets": lambda v: without_cells(check_array, v, ensure_2d=False, dtype=None, input_name="y"),
    "a column": lambda v: without_cells(column_or_1d, v, about="y"),
    "lengths": lambda v: without_cells(check_consistent_length, [1] * 9, v),
    "labels": lambda v: without_cells(check_classification_targets, v, about="y"),
    "columns": lambda v: without_cells(validate_data, BaseEstimator(), v),
    "conversion": lambda v: without_cells(lambda rows: np.asarray(rows, dtype=np.float64), v),
}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("cell", CELLS)
def test_no_complaint_holds_a_marker(cell, check):
    for name, build in SHAPES.items():
        try:
            value = build(CELLS[cell])
        except (TypeError, ValueError, OverflowError):
            continue  # no such container holds such a cell
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            try:
                CHECKS[check](value)
            except SkdptuneError as error:
                assert error.__context__ is None and error.__cause__ is None
                said = str(error)
                assert len(said) < 500 and not re.search(r"\{\w+\}", said), said
                assert not MARKS.search(said + repr(error.args)), (name, said)
        assert not any(MARKS.search(str(each.message)) for each in heard), name


class OddError(Exception):
    """Not known to anybody."""


@pytest.mark.parametrize("kind", [ValueError, TypeError, KeyError, RuntimeError, OverflowError, OddError])
@pytest.mark.parametrize(
    "words", [f"new words: {TEXT}", TEXT, f"Found {TEXT}", f"Input {TEXT} contains NaN", f"X has {TEXT} features", ""]
)
def test_words_that_are_not_on_the_list_are_never_passed_on(kind, words):
    def check(rows):
        try:
            raise ZeroDivisionError(TEXT)
        except ZeroDivisionError:
            error = kind(words)
            error.__notes__ = [TEXT]
            raise error from KeyError(TEXT)

    with pytest.raises(SkdptuneError, match=f"X cannot be read.* {kind.__name__}, whose words") as caught:
        without_cells(check, [1])
    error = caught.value
    assert isinstance(error, TypeError if kind is TypeError else ValueError)
    assert not MARKS.search(str(error)) and error.__context__ is error.__cause__ is None
    assert not getattr(error, "__notes__", [])


def test_an_error_that_cannot_be_written_is_reworded_too():
    class MuteError(Exception):
        def __str__(self):
            raise ValueError(TEXT)

    def check(rows):
        raise MuteError

    with pytest.raises(InvalidParameterError, match="MuteError, whose words") as caught:
        without_cells(check, [1])
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    "words",
    [
        "Found array with 0 sample(s) (shape=(0, 2)) while a minimum of 1 is required by Search.",
        "Found array with dim 3, while dim <= 2 is required by Search.",
        "Found array with dim 3. Search expected <= 2.",
        "Input X contains NaN.",
        "Input X contains infinity or a value too large for dtype('float64').",
        "X has 3 features, but Search is expecting 2 features as input.",
        "y should be a 1d array, got an array of shape (3, 2) instead.",
        "Sparse data was passed for X, but dense data is required. Use '.toarray()' to convert to a dense numpy array.",
        "Unknown label type: continuous.",
        "float() argument must be a string or a real number, not 'Timestamp'",
        "Expected a 2-dimensional container but got <class 'pandas.core.series.Series'> instead.",
    ],
)
def test_what_is_on_the_list_is_passed_on_and_no_word_after_it(words):
    def check(rows):
        raise ValueError(f"{words} {TEXT}")

    with pytest.raises(InvalidParameterError) as caught:
        without_cells(check, [1])
    assert str(caught.value).startswith(words.rstrip(".")) and TEXT not in str(caught.value)


def test_no_pattern_of_the_list_matches_anything_but_names_of_columns():
    loose = [pattern for pattern, says in _SAID if "{said}" in says and re.search(r"(?<!\\)\.[*+]|\[\^", pattern)]
    assert [pattern[:22] for pattern in loose] == ["The feature names shou"]  # names of columns are public


def test_every_pattern_is_a_pattern_and_every_sentence_can_be_filled_in():
    for pattern, says in _SAID:
        re.compile(pattern.replace("NAME", re.escape("X['a (b']")))
        assert says.format(said="said", name="X", shape="shape (1,)", where=" in column 0")


HELPFUL = [
    (lambda: without_cells(check_array, [[TEXT, "b"]]), InvalidParameterError, "X must be numeric; it holds text"),
    (lambda: without_cells(check_array, np.zeros(3)), InvalidParameterError, r"got shape \(3,\). Reshape your data"),
    (lambda: without_cells(check_array, [1j], input_name="y", ensure_2d=False), InvalidParameterError, "Complex.*: y "),
    (lambda: without_cells(check_array, [[1], [1, 2]]), InvalidParameterError, "inhomogeneous.*same number of columns"),
    (lambda: without_cells(check_array, _objects({}, (3, 2))), InvalidTypeError, "not 'dict'. X must be numeric"),
    (lambda: without_cells(check_array, _objects(10**400, (3, 2))), InvalidParameterError, "whole numbers too large"),
    (lambda: without_cells(column_or_1d, np.zeros((3, 2)), about="y"), InvalidParameterError, "y should be a 1d array"),
    (lambda: without_cells(check_consistent_length, [1], [1, 2]), InvalidParameterError, r"samples: \[1, 2\]"),
    (lambda: without_cells(check_consistent_length, [1], np.array(3), about="y"), InvalidTypeError, "a single value"),
]


@pytest.mark.parametrize(("call", "kind", "words"), HELPFUL)
def test_messages_help(call, kind, words):
    with pytest.raises(kind, match=words):
        call()


def test_other_errors_and_what_is_returned_are_left_alone():
    own = InvalidParameterError("ours")

    def check(rows, error=None):
        if error is not None:
            raise error
        return rows

    assert without_cells(check, 3) == 3
    with pytest.raises(InvalidParameterError) as caught:
        without_cells(check, 3, error=own)
    assert caught.value is own
    with pytest.raises(UserWarning, match="loud"):  # a filter made an error of it
        without_cells(check, 3, error=UserWarning("loud"))
    with pytest.raises(KeyboardInterrupt):
        without_cells(check, 3, error=KeyboardInterrupt())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("Unable to allocate 74.5 GiB for an array with shape (100000, 100000) and more", r"74.5 GiB.*100000\)\.$"),
        (TEXT, "X takes more memory"),
    ],
)
def test_too_little_memory_stays_what_it_is(words, said):
    def check(rows):
        raise MemoryError(words)

    with pytest.raises(MemoryError, match=said):
        without_cells(check, [1])
