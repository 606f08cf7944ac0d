"""Rows, targets and labels that come as lists: numbers, or refused; each cell is read by itself.

numpy makes one array of a list, of one type, which the cells decide together: one text makes text of everybody's
numbers, one float makes floats of everybody's whole numbers. What has a type of its own (an array, a frame) was made by
somebody who decided it; a list has none. So every list is read here, and the type of what is made of it hangs on
nothing but what it is for: rows and targets are floats, labels are those of the label set.
"""

import decimal
import numbers
import sys
from collections.abc import Mapping

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from skdptune._exceptions import InvalidParameterError, InvalidTypeError
from skdptune.candidates._quotes import complex_refusal, without_cells

__all__ = [
    "are_flat",
    "as_number",
    "each_label",
    "each_row",
    "found_labels",
    "is_listed",
    "is_missing",
    "label_cells",
    "labels_among",
    "listed_rows",
    "listed_targets",
    "numbers_where_all_are",
]

_TYPED = ("dtype", "shape", "__array__", "__array_interface__", "__array_struct__")
_PASS_TYPES = "Pass a pandas or polars frame, or an array, whose types say what columns hold."
_MOST_NAMED = 5
_LARGEST = 2**63


def is_listed(rows):
    """Return whether numpy would read ``rows`` as a list: a sequence that has no type of its own.

    Examples
    --------
    >>> from collections import deque
    >>> [is_listed(rows) for rows in ([1], (), deque(), range(2), "ab", {"a": [1]}, np.zeros(2))]
    [True, True, True, True, False, False, False]
    """
    if isinstance(rows, (str, bytes, bytearray, Mapping)) or any(hasattr(rows, name) for name in _TYPED):
        return False
    return hasattr(type(rows), "__getitem__") and hasattr(type(rows), "__len__")


def listed_rows(rows, name="X"):
    """Return rows that were given as a list as an array of float64, missing cells as NaN; anything else as it is.

    What is no table (documents, a single column, ragged rows) stays as it is: whoever checks rows will say it better.

    Raises
    ------
    InvalidParameterError
        For a cell that is neither a real number nor missing (None, NaN, pandas' NA): text, times, other objects.

    Examples
    --------
    >>> listed_rows([[1, True], [None, 2.5]])
    array([[1. , 1. ],
           [nan, 2.5]])
    >>> listed_rows([[1, 2], [3, "4"]])
    Traceback (most recent call last):
    ...
    skdptune._exceptions.InvalidParameterError: X given as a list must hold numbers; column 1 (counted from 0) holds ...
    """
    if not is_listed(rows) or not len(rows):
        return rows
    cells = without_cells(_cells, rows, about=name)
    if cells is None:
        return rows
    numbers_, others = without_cells(_read, cells, about=name)
    if not others.any():
        return numbers_
    if without_cells(_any_complex, cells, about=name):
        raise complex_refusal(name)
    raise InvalidParameterError(
        f"{name} given as a list must hold numbers; {_columns_of(others)} something else: text, times or other "
        f"objects. {_PASS_TYPES}"
    )


def numbers_where_all_are(rows):
    """Return rows to predict as training would see them: a list of numbers as floats; anything else as it is.

    Examples
    --------
    >>> numbers_where_all_are([[1, 2]]), numbers_where_all_are([[1, "a"]])
    (array([[1., 2.]]), [[1, 'a']])
    """
    try:
        return listed_rows(rows)
    except (InvalidParameterError, InvalidTypeError):
        return rows


def each_row(rows, width):
    """Return test rows that were given as a list as floats, each row read by itself; anything else as it is.

    A cell that is no number is NaN, and so is every cell of a row that has not ``width`` cells. Where that is so of
    every row, the list comes back as it is, for whoever checks the columns.

    Raises
    ------
    InvalidParameterError
        If a column holds something in every row, and a number in none.

    Examples
    --------
    >>> each_row([[1, "a"], [None, 2], [3]], 2)
    array([[ 1., nan],
           [nan,  2.],
           [nan, nan]])
    """
    if not is_listed(rows) or not len(rows):
        return rows
    read, told = without_cells(_each_row, rows, width, about="X")
    if not told.any():
        return rows
    silent = (np.isnan(read) & told).all(axis=0)
    if silent.any():
        raise InvalidParameterError(
            f"X given as a list must hold numbers; {_columns_of(silent[np.newaxis])} none. {_PASS_TYPES}"
        )
    return read


def are_flat(rows):
    """Return whether no cell of rows given as a list is itself a row, as it is in images and series.

    Examples
    --------
    >>> are_flat([[1, "a"], 3]), are_flat([[1, 2], [1, [2]]])
    (True, False)
    """
    return not without_cells(_any_nested, rows, about="X")


def _any_nested(rows):
    nested = (row for row in rows if is_listed(row) or isinstance(row, np.ndarray))
    return any(is_listed(cell) or len(getattr(cell, "shape", ())) for row in nested for cell in row)


def _each_row(rows, width):
    """Return the numbers of rows, NaN where there are none, and where something stands that is not missing."""
    read, told = np.full((len(rows), width), np.nan), np.zeros((len(rows), width), dtype=bool)
    for i, row in enumerate(rows):
        for j, cell in enumerate(_of_width(row, width)):
            number = as_number(cell)
            read[i, j] = np.nan if number is None else number
            told[i, j] = not is_missing(cell)
    return read, told


def _of_width(row, width):
    if not is_listed(row) and not hasattr(row, "__array__"):
        return ()  # not a row at all
    try:
        cells = list(row)
    except Exception:  # an array of no dimension, or of somebody's own
        return ()
    return cells if len(cells) == width else ()


def listed_targets(y, name="y"):
    """Return targets that were given as a list as float64.

    Raises
    ------
    InvalidParameterError
        If a cell is no real number.

    Examples
    --------
    >>> listed_targets([1, True, np.float32(2)])
    array([1., 1., 2.])
    """
    targets, others = without_cells(_read, label_cells(y, name), about=name)
    if others.any():
        raise InvalidParameterError(f"{name} must be numeric for a regressor; it holds something else.")
    return targets


def label_cells(y, name="y"):
    """Return the cells of labels or targets that were given as a list, each as it is: shape (n_rows,), objects.

    Raises
    ------
    InvalidParameterError
        For several columns, complex numbers and missing cells.
    """
    cells = without_cells(_objects, y, about=name)
    cells = without_cells(column_or_1d, cells, warn=True, about=name)
    if without_cells(_any_complex, cells, about=name):
        raise complex_refusal(name)
    if any(map(is_missing, cells)):
        raise InvalidParameterError(
            f"{name} must have a label in every row, but Input {name} contains NaN or another mark of a missing one. "
            "Leave rows without a label out before the search."
        )
    return cells


def found_labels(cells, name="y"):
    """Return labels of a list, where none are declared, as an array whose type no single row turns.

    All text is text, and all flags (True and False) are flags. Numbers that are whole are whole numbers, however each
    is written; if one is not, none are taken. Lists that mix these kinds are refused.

    Raises
    ------
    InvalidParameterError, InvalidTypeError

    Examples
    --------
    >>> found_labels(np.array([1, 2.0], dtype=object)), found_labels(np.array([True, False], dtype=object))
    (array([1, 2]), array([ True, False]))
    """
    kinds = set(map(_label_kind, set(map(type, cells))))
    if kinds == {"text"}:
        return np.array([str.__str__(cell) for cell in cells])
    if kinds == {"flag"}:
        return cells.astype(bool)
    if kinds == {"number"}:
        return without_cells(_whole, cells, about=name)
    if len(kinds) == 1:  # of a kind that scikit-learn may have words for
        without_cells(_check_kind, cells, about=name)
    raise InvalidParameterError(
        f"{name} given as a list must hold labels of one kind: text, whole numbers, or True and False. It mixes them, "
        "or holds something else. Pass an array, whose type says what its labels are, or declare classes=[...]."
    )


def _check_kind(cells):
    check_classification_targets(np.asarray(cells.tolist()))


def _whole(cells):
    """Return whole numbers as int64; others as floats, which whoever checks labels refuses."""
    whole = []
    for cell in cells:
        number = as_number(cell)
        if number is None or not np.isfinite(number) or int(cell) != cell:
            return np.array([np.nan if number is None else number for number in map(as_number, cells)])
        whole.append(int(cell))
    if whole and not -_LARGEST <= min(whole) <= max(whole) < _LARGEST:
        raise InvalidParameterError(
            "y must hold whole numbers of at most 64 bits as labels; it holds larger ones. Pass classes=[...]."
        )
    return np.array(whole, dtype=np.int64)


def _label_kind(kind):
    if issubclass(kind, str):
        return "text"
    if issubclass(kind, (bool, np.bool_)):
        return "flag"
    return "number" if _is_number_type(kind) else kind


def labels_among(cells, classes):
    """Return each label as the very value of ``classes`` that is equal to it; None if one is equal to none.

    Examples
    --------
    >>> labels_among([1.0, False], np.array([0, 1])).tolist(), labels_among([1, "1"], np.array([0, 1]))
    ([1, 0], None)
    """
    found = without_cells(_positions, classes, cells, about="y")
    return None if (found < 0).any() else classes[found]


def each_label(cells, classes):
    """Return each label of test rows as the value of ``classes`` that is equal to it, and any other as one mark.

    The mark is equal to no class, and of their type: a row with a label that is none of them changes no other one.

    Raises
    ------
    InvalidParameterError
        If no label is of the kind of ``classes``, text or numbers.

    Examples
    --------
    >>> each_label([1.0, 7, "x"], np.array([0, 1])), each_label(["a", "c"], np.array(["a", "b"]))
    (array([1, 2, 2]), array(['a', '??'], dtype='<U2'))
    """
    kinds = {_label_kind(type(cell)) == "text" for cell in cells}
    known = {isinstance(label, str) for label in classes.tolist()}
    if kinds and kinds.isdisjoint(known):
        raise InvalidParameterError(
            "y must hold labels of the kind that the search was fitted on: text and numbers are never equal."
        )
    found = without_cells(_positions, classes, cells, about="y")
    mark, classes = _mark_beside(classes)  # whether it is needed must not show in the type
    labels = classes[found]
    labels[found < 0] = mark
    return labels


def _mark_beside(classes):
    """Return a value that is none of ``classes``, and these in a type that has room for it and is equal to them."""
    kind = classes.dtype.kind
    if kind == "U":
        width = classes.dtype.itemsize // 4 + 1
        return "?" * width, classes.astype(f"U{width}")
    if kind == "b":
        return 2, classes.astype(np.int8)
    if kind in "iu":
        known, limits, largest = set(classes.tolist()), np.iinfo(classes.dtype), int(classes.max())
        beside = range(largest + 1, limits.max + 1) or range(limits.max, limits.min - 1, -1)
        mark = next((number for number in beside if number not in known), None)
        return (limits.max + 1, classes.astype(np.int64)) if mark is None else (mark, classes)
    return (np.nan, classes) if kind == "f" else (None, classes.astype(object))


def _positions(classes, cells):
    """Return the position in ``classes`` of each cell, -1 for those that are equal to none."""
    places = {label: i for i, label in enumerate(classes.tolist())}
    return np.array([_place(places, cell) for cell in cells], dtype=np.intp)


def _place(places, cell):
    try:
        return places.get(_bare(cell), -1)
    except Exception:  # of what cannot be compared
        return -1


# ---------------------------------------------------------------------- cells


def _cells(rows):
    """Return the cells of a table given as a list, as objects; None if it is no table."""
    cells = np.array(rows, dtype=object)
    return cells if cells.ndim >= 2 else None


def _objects(y):
    return np.array(y, dtype=object)


def _read(cells):
    """Return cells as floats, missing ones as NaN, and which are neither numbers nor missing."""
    others = np.zeros(cells.shape, dtype=bool)
    if all(map(_is_number_type, set(map(type, cells.flat)))):
        try:
            return cells.astype(np.float64), others
        except Exception:  # one is too large, say
            pass
    read = np.full(cells.shape, np.nan)
    for position, cell in np.ndenumerate(cells):
        number = as_number(cell)
        if number is None:
            others[position] = not is_missing(cell)
        else:
            read[position] = number
    return read, others


def _is_number_type(kind):
    """Return whether values of a type are real numbers; numpy's durations say so of themselves, and are none."""
    return issubclass(kind, (numbers.Real, decimal.Decimal, np.bool_)) and not issubclass(kind, np.timedelta64)


def as_number(cell):
    """Return a real number as a float (NaN, too); None for anything else, text and times among it.

    Examples
    --------
    >>> as_number(True), as_number(decimal.Decimal("0.5")), as_number("1"), as_number(np.timedelta64(1))
    (1.0, 0.5, None, None)
    """
    cell = _bare(cell)
    if not _is_number_type(type(cell)):
        return None
    try:
        return float(cell)
    except OverflowError:
        return np.inf if cell > 0 else -np.inf  # and refused as such
    except Exception:  # signalling NaN, or a number of somebody's own
        return None


def _bare(cell):
    """Return what an array without dimensions holds."""
    bare = isinstance(cell, np.ndarray) and cell.ndim == 0 and not np.ma.isMaskedArray(cell)
    return cell[()] if bare else cell


def is_missing(cell):
    """Return whether a cell of a list is missing: None, NaN or pandas' NA.

    Examples
    --------
    >>> is_missing(None), is_missing(np.float32("nan")), is_missing("nan")
    (True, True, False)
    """
    cell = _bare(cell)
    if cell is None or cell is getattr(sys.modules.get("pandas"), "NA", None):
        return True
    number = as_number(cell)
    return number is not None and number != number


def _any_complex(cells):
    kinds = set(map(type, cells.flat))
    return any(issubclass(kind, numbers.Complex) and not issubclass(kind, numbers.Real) for kind in kinds)


def _columns_of(marked):
    """Return in words in which columns of a table something is marked."""
    if marked.ndim != 2:
        return "some cell holds"
    found = np.flatnonzero(marked.any(axis=0)).tolist()
    more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    shown = ", ".join(map(str, found[:_MOST_NAMED]))
    if len(found) == 1:
        return f"column {shown} (counted from 0) holds"
    return f"columns {shown}{more} (counted from 0) hold"
