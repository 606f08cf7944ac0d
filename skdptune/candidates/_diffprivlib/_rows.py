"""Rows in, numbers out, by steps that treat every row by itself and fail on none.

Whether a fit fails must not depend on a row: a missing value, an infinity or an undeclared label makes
the row count as one that contributes nothing, instead of an error.
"""

import numpy as np
from scipy import sparse

from skdptune._exceptions import InvalidTypeError
from skdptune._validation import invalid_type, invalid_value

__all__ = ["LIMIT", "clip_rows", "column_names", "encode_labels", "numeric_rows", "numeric_target"]

LIMIT = 1e37  # finite in float32, with squares and their sums finite in float64


def _as_floats(values):
    to_numpy = getattr(values, "to_numpy", None)
    if to_numpy is not None:
        try:
            return to_numpy(dtype=np.float64, na_value=np.nan)
        except TypeError:  # not pandas' signature
            values = to_numpy()
    return np.array(values, dtype=np.float64)


def _finite(array):
    return np.clip(np.nan_to_num(array, nan=0.0, posinf=LIMIT, neginf=-LIMIT), -LIMIT, LIMIT)


def numeric_rows(X):
    """Return ``X`` as a new float64 array of shape (n_samples, n_features) of finite numbers.

    NaN becomes 0, infinities and numbers beyond 1e37 the nearest of -1e37 and 1e37.

    Raises
    ------
    InvalidTypeError
        If ``X`` is sparse or holds anything but numbers. The message never quotes a cell.

    Examples
    --------
    >>> numeric_rows([[1, float("nan")]])
    array([[1., 0.]])
    """
    if sparse.issparse(X):
        raise invalid_type("X", "dense", X, "Convert it with X.toarray().")
    try:
        rows = _as_floats(X)
    except (TypeError, ValueError):
        rows = None
    if rows is None:  # raised here, so that no exception that quotes a cell hangs on to it
        raise InvalidTypeError(
            "X must hold numbers only; got text or other objects. Encode such columns without using "
            "the private rows, e.g. by OneHotEncoder(categories=[...])."
        )
    if rows.ndim != 2:
        raise invalid_value("X", "two-dimensional", X)
    return np.ascontiguousarray(_finite(rows))  # one order of summation whatever the layout


def numeric_target(y, n_samples):
    """Return ``y`` as a float64 array of shape (n_samples,) of finite numbers (NaN becomes 0)."""
    try:
        target = _as_floats(y)
    except (TypeError, ValueError):
        target = None
    if target is None:
        raise InvalidTypeError("y must hold numbers only; got text or other objects.")
    if target.ndim == 2 and target.shape[1] == 1:
        target = target[:, 0]
    if target.shape != (n_samples,):
        raise invalid_value("y", f"of shape ({n_samples},), one target per row", target)
    return _finite(target)


def clip_rows(rows, bounds):
    """Return ``rows`` clipped column by column to ``bounds``, each column to its own.

    diffprivlib's ``clip_to_bounds`` clips to the widest pair of bounds when all bounds are within a
    relative 1e-5 (absolute 1e-8) of each other, while the noise is scaled to each column's own width.

    Parameters
    ----------
    rows : ndarray of shape (n_samples, n_features) or (n_samples,)
    bounds : tuple (lower, upper)
        Scalars or arrays of shape (n_features,).

    Examples
    --------
    >>> import numpy as np
    >>> clip_rows(np.array([[5e-9, 5e-9]]), (np.zeros(2), np.array([1e-9, 1e-8])))
    array([[1.e-09, 5.e-09]])
    """
    return np.clip(rows, bounds[0], bounds[1])


def encode_labels(y, classes, n_samples):
    """Return the position of each label in ``classes``, or -1 for a label that is not declared.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
    classes : ndarray of shape (n_classes,)

    Returns
    -------
    ndarray of shape (n_samples,), int

    Examples
    --------
    >>> import numpy as np
    >>> encode_labels(["b", "a", "x"], np.array(["a", "b"]), 3)
    array([ 1,  0, -1])
    """
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != (n_samples,):
        raise invalid_value("y", f"of shape ({n_samples},), one label per row", labels)
    position = {label: i for i, label in enumerate(np.asarray(classes).tolist())}
    return np.array([position.get(label, -1) for label in labels.tolist()], dtype=np.intp)


def column_names(X):
    """Return the column names of a DataFrame as scikit-learn keeps them, or None.

    Examples
    --------
    >>> column_names([[1, 2]]) is None
    True
    """
    columns = getattr(X, "columns", None)
    if columns is None or not all(isinstance(name, str) for name in columns):
        return None
    return np.asarray(list(columns), dtype=object)
