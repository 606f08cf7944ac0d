"""Copies of rows among what a model has learned: they are withheld, whatever they lie in."""


import numpy as np
from scipy.sparse import issparse

from skdptune.candidates._contents import FoundError, is_estimator, is_plain, walk
from skdptune.candidates._row_safe import is_keyed

__all__ = ["RowCopies"]

_CELLS = (type(None), bool, int, float, complex, str, bytes, np.generic)


class RowCopies:
    """What looks like a copy of private rows.

    Parameters
    ----------
    X : array-like, sparse matrix, frame or dict of arrays
    y : array-like of shape (n_samples,) or None
    n_is_public : bool, default=True
        Whether the number of rows is public, so that shapes may be compared with it.

    Notes
    -----
    Found: the rows themselves, whatever shares their memory and, where the number of rows is public, everything of the
    shape of X or y (arrays, frames, sparse matrices, nested lists), whatever it holds.

    *Guarantee*: no value is compared. A private output may equal y by chance; were it withheld then, its absence would
    tell y. And where the number of rows is private, no shape is: its absence would tell that number. Where there are as
    many rows as columns, shapes are not compared, either: coefficients would be taken for labels.

    Examples
    --------
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> copies = RowCopies(X, np.array([0, 1, 1]))
    >>> copies.in_value({"kept": [X.copy()]})[0], copies.in_value({"kept": [np.zeros(4)]})[0]
    (True, False)
    >>> RowCopies(X, None, n_is_public=False).in_value(np.zeros((3, 2)))[0]
    False
    """

    def __init__(self, X, y, *, n_is_public=True):
        parts = list(X.values()) if is_keyed(X) else [X]
        self._whole = [part for part in (X, y, *parts) if part is not None]
        self._memory = [array for part in self._whole for array in _arrays(part)]
        self._shapes, self._lengths = frozenset(), frozenset()
        if n_is_public:
            found = {_shape(part) for part in (y, *parts) if part is not None} - {None, ()}
            if any(len(shape) == 2 and shape[0] == shape[1] for shape in found):
                found = set()  # as many columns as rows: a coefficient for each column looks like a label for each row
            if y is not None:
                found |= {shape[:1] for shape in found}  # also where y is one column, or a list
            self._shapes = frozenset(found)
            self._lengths = frozenset(shape[0] for shape in found)

    def in_value(self, value):
        """Return whether ``value`` holds a copy of rows, and the estimators in it, which are not looked into."""
        members = []
        if is_plain(value):
            return self._is_copy(value), members

        def answer(met):
            if is_estimator(met):
                members.append(met)
                return met
            if self._is_copy(met):
                raise FoundError
            # what numpy writes of a plain array are tuples of its own: no output
            return met if isinstance(met, np.dtype) or is_plain(met) else None

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
            return 1 < len(value) in self._lengths and _listed_shape(value) in self._shapes
        shape = getattr(value, "shape", None)
        if not isinstance(shape, tuple):
            return False
        return shape in self._shapes or any(
            np.may_share_memory(part, rows) for part in _arrays(value) for rows in self._memory
        )


def _shape(rows):
    """Return the shape of rows or labels; of a list, that of the array it would make, told from its first entry."""
    shape = getattr(rows, "shape", None)
    if isinstance(shape, tuple):
        return shape
    return _listed_shape(rows) if isinstance(rows, (list, tuple)) else None


def _listed_shape(rows):
    """Return the shape of a list of cells, or of a list of lists; None of a list of anything else."""
    if not rows:
        return (0,)
    if isinstance(rows[0], (list, tuple)):
        return len(rows), len(rows[0])
    return (len(rows),) if all(isinstance(cell, _CELLS) for cell in rows) else None


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
