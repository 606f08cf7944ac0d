"""What a free step makes of rows in training, such that single rows do not fail a try.

A step may raise for one odd cell (a number among texts), leave out the row that has it, or make an infinite or missing
value of a finite one (the logarithm of -1). Each would fail all tries, after the charge, because of one row. In
training such a row is therefore blanked, or such a value is 0: each row by itself, so that neighbours stay neighbours.
A published model does neither: there the row raises, and where rows are scored it scores worst, by itself.

A step that raises on a blank row, too, raises as before; and only plain numbers are looked through for infinite ones.
"""

import contextlib
from collections.abc import Mapping

import numpy as np
from scipy import sparse
from sklearn.utils import _safe_indexing, get_tags

from skdptune._exceptions import CandidateRefusedError

__all__ = ["OtherLengthError", "finite_rows", "is_keyed", "length_of", "transformed"]


class OtherLengthError(CandidateRefusedError):
    """A declared function made more or fewer rows than it got: because it mixes rows, or because of one of them."""


def transformed(transform, X, blank):
    """Return ``transform(X)``; rows that it raises on are ``blank`` rows instead.

    Parameters
    ----------
    transform : callable
        Row-wise.
    X : array-like, sparse matrix, frame or list of documents
    blank : callable
        ``blank(X)`` makes one made-up row like those of X. If ``transform`` raises on it, it raises on X.

    Examples
    --------
    >>> transformed(lambda X: 1 / X.astype(float), np.array([[2.0], ["a"]], dtype=object), lambda X: np.ones((1, 1)))
    array([[0.5],
           [1. ]])
    """
    try:
        return transform(X)
    except BaseException as error:  # Rust raises no Exception
        if not _may_be_of_a_row(error):
            raise
        failure = error
    row = blank(X)
    try:
        transform(row)
    except KeyboardInterrupt:
        raise
    except BaseException:  # not for a value of X: every try ends so
        raise failure from None
    bad = np.array(sorted(_failing(transform, X, np.arange(length_of(X)))), dtype=np.intp)
    return transform(_replaced(X, bad, row))


def _may_be_of_a_row(error):
    """Return whether a single row may be the cause; not of Ctrl-C, nor where rows are seen to be mixed."""
    if isinstance(error, CandidateRefusedError):
        return isinstance(error, OtherLengthError)
    return not isinstance(error, KeyboardInterrupt)


def _failing(transform, X, positions):
    """Return which rows ``transform`` raises on, looking into halves of what fails as a whole."""
    waiting, found = [positions], []
    while waiting:
        part = waiting.pop()
        if not len(part):
            continue
        try:
            transform(_rows(X, part))
        except BaseException as error:
            if not _may_be_of_a_row(error):
                raise
            if len(part) == 1:
                found.append(int(part[0]))
            else:
                waiting += [part[: len(part) // 2], part[len(part) // 2 :]]
    return found


def is_keyed(X):
    """Return whether X is a dict of arrays (some sparse matrices are dicts too).

    Examples
    --------
    >>> is_keyed({"table": [[1.0], [2.0]]}), is_keyed([[1.0]])
    (True, False)
    """
    return isinstance(X, Mapping) and not sparse.issparse(X)


def length_of(X):
    """Return how many rows or documents X has."""
    shape = getattr(X, "shape", None)
    return shape[0] if shape else len(X)


def _rows(X, positions):
    return _safe_indexing(X.tocsr() if sparse.issparse(X) else X, positions)


def _replaced(X, bad, row):
    """Return X with ``row`` in the places ``bad``."""
    if isinstance(X, np.ndarray):
        out = np.array(X, copy=True)
        for place in bad:
            out[place] = row[0]
        return out
    places = np.arange(length_of(X))
    places[bad] = len(places)  # the row behind them all
    if hasattr(X, "iloc"):
        import pandas as pd

        out = pd.concat([X, row]).iloc[places]
        return out.set_axis(X.index, axis=0)
    if sparse.issparse(X):
        return type(X)(sparse.vstack([X, row], format="csr")[places])
    if hasattr(X, "gather_every"):  # polars
        import polars as pl

        return pl.concat([X, row])[places.tolist()]
    return _rows([*X, *row], places)


def finite_rows(X, estimator):
    """Return X with 0 in place of infinite values, and of missing ones that ``estimator`` does not take.

    Parameters
    ----------
    X : array, sparse matrix or frame
        What a step before ``estimator`` made; other kinds come back as they are.
    estimator : estimator

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> finite_rows(np.array([[1.0, -np.inf], [np.nan, 2.0]]), LogisticRegression())
    array([[1., 0.],
           [0., 2.]])
    """
    if hasattr(X, "iloc"):
        return _finite_frame(X, estimator)
    values = X.data if sparse.issparse(X) else X
    if not isinstance(values, np.ndarray) or values.dtype.kind != "f":
        return X
    bad = _not_finite(values, estimator)
    if bad is None:
        return X
    if not sparse.issparse(X):
        return np.where(bad, values.dtype.type(0), values)
    out = X.copy()
    out.data[bad] = 0
    return out


def _not_finite(values, estimator):
    """Return which values are not finite, or None if all are."""
    if np.isfinite(values).all():
        return None
    if _takes_missing(estimator):
        return np.isinf(values)
    return ~np.isfinite(values)


def _takes_missing(estimator):
    with contextlib.suppress(Exception):  # not built on scikit-learn's base class
        return bool(get_tags(estimator).input_tags.allow_nan)
    return False


def _finite_frame(X, estimator):
    out = X
    for i, dtype in enumerate(X.dtypes) if X.ndim == 2 else ():
        if getattr(dtype, "kind", "O") != "f":
            continue
        column = X.iloc[:, i]
        bad = _not_finite(column.to_numpy(dtype=np.float64, na_value=np.nan), estimator)
        if bad is not None:
            out = out.copy() if out is X else out
            out.isetitem(i, column.where(~bad, 0))
    return out
