"""Whether rows that were passed as public are among the private ones, bit for bit."""

import numpy as np

from skdptune._exceptions import InvalidParameterError
from skdptune.model_selection._tidy import with_own_cells

__all__ = ["refuse_overlap"]

# Rows that mostly repeat (few categories) coincide by chance; only rows that are mostly distinct are
# compared with the public ones.
_DISTINCT_SHARE = 0.2


def refuse_overlap(X, y, X_public, y_public):
    """Refuse public rows that are private ones.

    Raises
    ------
    InvalidParameterError
    """
    if _overlap(X, y, X_public, y_public):
        raise InvalidParameterError(
            "X_public and y_public must not hold private rows, but some of their rows are in (X, y), bit for bit. "
            "Rows of the private data are private also after a train_test_split: leave X_public out and let the "
            "search hold rows out itself."
        )


def _overlap(X, y, X_public, y_public):
    if hasattr(X, "tocsr") or hasattr(X_public, "tocsr"):
        X, X_public = _dense_rows(X), _dense_rows(X_public)
    private = _row_keys(X, y)
    distinct = set(private)
    if len(distinct) < _DISTINCT_SHARE * len(private):
        return False
    return not distinct.isdisjoint(_row_keys(X_public, y_public))


def _dense_rows(X):
    """Return one comparable object per row of a sparse matrix."""
    if not hasattr(X, "tocsr"):
        return np.asarray(X)
    csr = X.tocsr().copy()
    csr.sum_duplicates()
    rows = np.empty((csr.shape[0], 1), dtype=object)
    for i in range(csr.shape[0]):
        part = slice(csr.indptr[i], csr.indptr[i + 1])
        rows[i, 0] = (tuple(csr.indices[part]), tuple(csr.data[part]))
    return rows


def _row_keys(X, y):
    rows = np.asarray(with_own_cells(X))
    rows = rows.reshape(len(rows), -1)
    if rows.dtype != object and np.issubdtype(rows.dtype, np.number):
        # in single precision and without the sign of zero, so that a converted copy is still a copy
        with np.errstate(over="ignore"):
            rows = np.ascontiguousarray(rows, dtype=np.float32) + np.float32(0)
        return [(row.tobytes(), _label_key(label)) for row, label in zip(rows, y, strict=True)]
    return [(tuple(map(str, row)), _label_key(label)) for row, label in zip(rows, y, strict=True)]


def _label_key(label):
    try:
        return float(label)
    except (TypeError, ValueError):
        return str(label)
