"""Whether rows that were passed as public are among the private ones, bit for bit."""

import itertools

import numpy as np
from scipy.sparse import csr_array, issparse

from skdptune._exceptions import InvalidParameterError
from skdptune.model_selection._lists import as_number, is_missing
from skdptune.model_selection._tidy import with_own_cells

__all__ = ["refuse_overlap"]

# Rows that mostly repeat (few categories) coincide by chance; only rows that are mostly distinct are
# compared with the public ones.
_DISTINCT_SHARE = 0.2
_MISSING = float("nan")  # one object, which a tuple finds equal to itself


def refuse_overlap(X, y, X_public, y_public):
    """Refuse public rows that are private ones.

    Raises
    ------
    InvalidParameterError
    """
    with np.errstate(over="ignore"):  # large numbers are equal when they are too large
        overlap = _overlap(X, y, X_public, y_public)
    if overlap:
        raise InvalidParameterError(
            "X_public and y_public must not hold private rows, but some of their rows are in (X, y), bit for bit. "
            "Rows of the private data are private also after a train_test_split: leave X_public out and let the "
            "search hold rows out itself."
        )


def _overlap(X, y, X_public, y_public):
    keys = _sparse_keys if issparse(X) or issparse(X_public) else _row_keys
    private = _with_labels(keys(X), y)
    distinct = set(private)
    if len(distinct) < _DISTINCT_SHARE * len(private):
        return False
    return not distinct.isdisjoint(_with_labels(keys(X_public), y_public))


def _with_labels(rows, y):
    return list(zip(rows, map(_cell_key, np.asarray(y).tolist()), strict=True))


def _sparse_keys(X):
    """Return one comparable object per row of a sparse matrix, or of a table that is compared with one."""
    try:
        csr = csr_array(X if issparse(X) else np.asarray(with_own_cells(X), dtype=np.float64), dtype=np.float64)
    except Exception:  # not all numbers
        return _row_keys(X)
    csr.sum_duplicates()
    values = _in_single_precision(csr.data)
    keys = []
    for start, end in itertools.pairwise(csr.indptr):
        there = values[start:end] != 0
        keys.append((tuple(csr.indices[start:end][there].tolist()), values[start:end][there].tobytes()))
    return keys


def _row_keys(X):
    """Return one comparable object per row; a number is the same however it is held, and text is text."""
    rows = np.asarray(with_own_cells(X))
    rows = rows.reshape(len(rows), -1)
    if rows.dtype.kind in "biuf":
        return [row.tobytes() for row in _in_single_precision(rows)]
    return [_row_key(row) for row in rows]


def _row_key(row):
    cells = tuple(map(_cell_key, row))
    if all(isinstance(cell, float) for cell in cells):  # as a row of an array of numbers
        return np.array(cells, dtype=np.float32).tobytes()
    return cells


def _in_single_precision(numbers):
    """Return numbers such that a converted copy is still a copy: without the sign of zero, and with one NaN."""
    single = np.ascontiguousarray(numbers, dtype=np.float32) + np.float32(0)
    single[np.isnan(single)] = np.nan
    return single


def _cell_key(cell):
    """Return a number in single precision, as a float or, if missing, a NaN that is equal to itself; else text."""
    number = as_number(cell)
    if number is not None and number == number:
        return float(np.float32(number)) + 0.0
    if is_missing(cell):
        return _MISSING
    try:
        return str(cell)
    except Exception:  # what cannot say what it is
        return type(cell).__name__
