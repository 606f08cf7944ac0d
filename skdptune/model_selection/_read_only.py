"""Rows that no try can change for another, and how much room they take."""

import copy
import datetime
import decimal
import fractions
import mmap
import pickle

import numpy as np
import scipy.sparse

from skdptune._exceptions import InvalidParameterError

__all__ = ["has_objects", "own", "refuse_uncopyable", "size_of"]

_FIXED = frozenset(
    {
        *(bool, int, float, complex, str, bytes, type(None), type(NotImplemented), type(Ellipsis)),
        *(decimal.Decimal, fractions.Fraction, datetime.date, datetime.datetime, datetime.timedelta, datetime.time),
    }
)


def has_objects(value):
    """Return whether a table has cells that can be changed in place: lists, dicts, objects of one's own.

    Examples
    --------
    >>> has_objects(np.array(["a", 1.0, None], dtype=object)), has_objects(np.array([{"a": 1}], dtype=object))
    (False, True)
    """
    if scipy.sparse.issparse(value):
        return False
    if isinstance(value, dict):
        return any(map(has_objects, value.values()))
    if isinstance(value, np.ndarray):
        return value.dtype.hasobject and not all(map(_is_fixed, set(map(type, value.ravel().tolist()))))
    if isinstance(value, list):
        return not all(map(_is_fixed, set(map(type, value))))
    if hasattr(value, "iloc"):
        columns = [value] if value.ndim == 1 else [value.iloc[:, i] for i in range(value.shape[1])]
        return any(has_objects(column.to_numpy()) for column in columns if column.dtype == object)
    return False


def _is_fixed(kind):
    if kind.__module__.partition(".")[0] == "pandas":
        return kind.__name__ in ("Timestamp", "Timedelta", "Period", "Interval", "NaTType", "NAType")
    return kind in _FIXED or (issubclass(kind, np.generic) and not issubclass(kind, np.void))


def refuse_uncopyable(**tables):
    """Refuse tables with a cell that no try could get a copy of, before anything is spent; no cell is quoted.

    Raises
    ------
    InvalidParameterError
    """
    for name, value in tables.items():
        failed = False
        if value is not None and has_objects(value):
            try:
                _with_own_cells(value)
            except Exception:
                failed = True
        if failed:  # raised here, so that no error of a cell hangs on it
            raise InvalidParameterError(
                f"{name} must have cells that copy.deepcopy can copy, because each try gets cells of its own; at least "
                "one cannot be copied (it holds a lock or an open file, say). Turn cells into numbers or text first."
            )


def own(value, deep=False):
    """Return ``value`` such that no try can change it for another, not even past numpy: a try's own copy.

    Parameters
    ----------
    value : ndarray, sparse matrix, DataFrame, Series, list, dict of such, or anything else
        Arrays and the parts of sparse matrices become read-only. That is a flag, which a candidate can turn and
        which ``torch.from_numpy`` does not look at, so they are copies as well, unless they are maps of a file that
        the system lets nobody write to. Tables are copied, values included, and so are lists. Anything else is
        returned as it is.
    deep : bool, default=False
        Whether cells that are objects are copied, too: :func:`has_objects` tells whether that matters.
    """
    if deep:
        value = _with_own_cells(value)
    if isinstance(value, np.ndarray):
        return _read_only(value)
    if scipy.sparse.issparse(value):
        return _read_only_sparse(value)
    if isinstance(value, dict):
        return {name: own(part) for name, part in value.items()}
    if isinstance(value, list):
        return list(value)
    if hasattr(value, "iloc") and hasattr(value, "copy"):
        return value.copy(deep=True)  # lazy copies share their values with code that goes past pandas
    if hasattr(value, "clone") and type(value).__module__.partition(".")[0] == "polars":
        return value.clone()  # its columns can be replaced in place; what they hold cannot be changed
    return value


def _with_own_cells(value):
    if scipy.sparse.issparse(value):
        return value
    if isinstance(value, dict):
        return {name: _with_own_cells(part) for name, part in value.items()}
    if isinstance(value, list):
        return [copy.deepcopy(cell) for cell in value]
    if isinstance(value, np.ndarray) and value.dtype.hasobject:
        return _own_each(value)
    if not hasattr(value, "iloc"):
        return value
    if value.ndim == 1:
        return _own_column(value) if value.dtype == object else value
    twin = value.copy(deep=False)
    for i in range(value.shape[1]):
        column = value.iloc[:, i]
        if column.dtype == object:
            twin.isetitem(i, _own_column(column))
    return twin


def _own_column(column):
    return type(column)(_own_each(column.to_numpy()), index=column.index, name=column.name, dtype=object)


def _own_each(cells):
    """Copy each cell by itself: rows that name one object would change it for one another."""
    if cells.dtype != object or not cells.size:
        return copy.deepcopy(cells)
    return np.frompyfunc(copy.deepcopy, 1, 1)(cells)


def _read_only(array):
    if _is_mapped(array):
        return array
    twin = array.copy(order="K")
    twin.flags.writeable = False
    return twin


def _is_mapped(array):
    """Return whether ``array`` lies in a read-only map, as :func:`load_payload` makes them."""
    base = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, pickle.PickleBuffer):
        base = base.raw()
    return isinstance(base, memoryview) and base.readonly and isinstance(base.obj, mmap.mmap)


def _read_only_sparse(matrix):
    twin = matrix.copy() if matrix.format not in ("csr", "csc", "bsr", "coo") else _shallow(matrix)
    for name in ("data", "indices", "indptr", "coords"):
        part = getattr(twin, name, None)
        if isinstance(part, np.ndarray):
            setattr(twin, name, _read_only(part))
        elif isinstance(part, tuple):
            setattr(twin, name, tuple(_read_only(each) for each in part))
    return twin


def _shallow(matrix):
    twin = type(matrix).__new__(type(matrix))
    twin.__dict__.update(matrix.__dict__)
    return twin


def size_of(value, depth=3):
    """Return about how many bytes the arrays in ``value`` hold."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if scipy.sparse.issparse(value):
        return sum(size_of(part) for part in vars(value).values())
    if hasattr(value, "memory_usage"):
        return int(np.sum(value.memory_usage()))
    if type(value).__module__.partition(".")[0] == "polars":  # how long its texts are would tell of cells
        return 8 * int(np.prod(value.shape))
    if depth == 0:
        return 0
    if isinstance(value, (list, tuple, dict)):
        parts = value.values() if isinstance(value, dict) else value
        return sum(size_of(part, depth - 1) for part in parts)
    if hasattr(value, "__dataclass_fields__"):
        return sum(size_of(part, depth - 1) for part in vars(value).values())
    return 0
