"""Rows that no try can change for another, and how much room they take."""

import sys

import numpy as np
import scipy.sparse

__all__ = ["own", "size_of"]


def own(value):
    """Return ``value`` such that no try can change it for another: read-only, or a cheap copy.

    Parameters
    ----------
    value : ndarray, sparse matrix, DataFrame, Series, list, dict of such, or anything else
        Arrays become read-only views and sparse matrices get read-only parts, without a copy. Tables are
        copied, lazily where pandas can, and so are lists. Anything else is returned as it is.
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
        return value.copy(deep=not _pandas_copies_on_write())
    return value


def _read_only(array):
    if not array.flags.writeable:
        return array
    view = array.view()
    view.flags.writeable = False
    return view


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


def _pandas_copies_on_write():
    pandas = sys.modules.get("pandas")
    return pandas is not None and int(pandas.__version__.split(".")[0]) >= 3


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
