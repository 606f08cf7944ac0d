"""Rows that no try can change for another, and how much room they take."""

import mmap
import pickle

import numpy as np
import scipy.sparse

__all__ = ["own", "size_of"]


def own(value):
    """Return ``value`` such that no try can change it for another, not even past numpy: a try's own copy.

    Parameters
    ----------
    value : ndarray, sparse matrix, DataFrame, Series, list, dict of such, or anything else
        Arrays and the parts of sparse matrices become read-only. That is a flag, which a candidate can turn and
        which ``torch.from_numpy`` does not look at, so they are copies as well, unless they are maps of a file that
        the system lets nobody write to. Tables are copied, values included, and so are lists. Anything else is
        returned as it is.
    """
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
    return value


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
    if depth == 0:
        return 0
    if isinstance(value, (list, tuple, dict)):
        parts = value.values() if isinstance(value, dict) else value
        return sum(size_of(part, depth - 1) for part in parts)
    if hasattr(value, "__dataclass_fields__"):
        return sum(size_of(part, depth - 1) for part in vars(value).values())
    return 0
