"""Copies of rows among what a model has learned: they are withheld, whatever they lie in."""

from collections.abc import Mapping

import numpy as np
from scipy.sparse import issparse

from skdptune.candidates._contents import FoundError, is_estimator, walk

__all__ = ["RowCopies"]


class RowCopies:
    """What looks like a copy of private rows.

    Parameters
    ----------
    X : array-like, sparse matrix, frame or dict of arrays
    y : array-like of shape (n_samples,) or None

    Notes
    -----
    Found: the rows themselves, whatever shares their memory, anything of their shape (arrays, frames, sparse matrices,
    nested lists of equal content), and whatever equals y. A part of them that was copied is not found.

    Examples
    --------
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> copies = RowCopies(X, np.array([0, 1, 1]))
    >>> copies.in_value({"kept": [X.copy()]})[0], copies.in_value({"kept": [np.zeros(4)]})[0]
    (True, False)
    """

    def __init__(self, X, y):
        parts = list(X.values()) if isinstance(X, Mapping) and not issparse(X) else [X]
        self._whole = [part for part in (X, y, *parts) if part is not None]
        self._shapes = {shape for shape in map(_shape, parts) if shape is not None and len(shape) > 1}
        self._rows = parts
        self._y = None if y is None else np.asarray(y)
        self._memory = [array for part in self._whole for array in _arrays(part)]

    def in_value(self, value):
        """Return whether ``value`` holds a copy of rows, and the estimators in it, which are not looked into."""
        members = []

        def answer(met):
            if is_estimator(met):
                members.append(met)
                return met
            if self._is_copy(met):
                raise FoundError
            return None

        try:
            walk(value, answer)
        except FoundError:
            return True, members
        except Exception:  # what pickle cannot look into is not published, either
            return False, members
        return False, members

    def _is_copy(self, value):
        if any(value is whole for whole in self._whole):
            return True
        if type(value) in (list, tuple):
            return len(value) > 1 and self._is_listed(value)
        shape = _shape(value)
        if shape is None:
            return False
        if shape in self._shapes or (self._y is not None and shape == self._y.shape and _equal(value, self._y)):
            return True
        return any(np.may_share_memory(part, rows) for part in _arrays(value) for rows in self._memory)

    def _is_listed(self, value):
        """Return whether a list holds what y or X does."""
        if self._y is not None and len(value) == len(self._y) and _equal(value, self._y):
            return True
        shapes = [shape for shape in self._shapes if len(shape) == 2 and shape[0] == len(value)]
        if not any(isinstance(value[0], (list, tuple)) and len(value[0]) == shape[1] for shape in shapes):
            return False
        return any(_shape(rows) in shapes and _equal(value, rows) for rows in self._rows)


def _shape(value):
    shape = getattr(value, "shape", None)
    return tuple(shape) if isinstance(shape, tuple) else None


def _equal(value, rows):
    try:
        return np.array_equal(np.asarray(value), np.asarray(rows))
    except Exception:  # of cells that cannot be compared
        return False


def _arrays(rows):
    """Return arrays that lie in the memory of ``rows``, if those are an array, a sparse matrix or a frame."""
    if isinstance(rows, np.ndarray):
        return [rows]
    if issparse(rows):
        return [rows.data] if isinstance(getattr(rows, "data", None), np.ndarray) else []
    if hasattr(rows, "iloc"):
        columns = [rows] if rows.ndim == 1 else [rows.iloc[:, i] for i in range(rows.shape[1])]
        found = [np.asarray(column) for column in columns]
        bases = [array if array.base is None else array.base for array in found]
        return list({id(array): array for array in bases if isinstance(array, np.ndarray)}.values())
    return []
