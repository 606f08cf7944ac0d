"""Checked rows in one form: what a try sees of a row hangs on nothing but that row, and carries nothing beside it."""

import numpy as np
from scipy.sparse import issparse

from skdptune._exceptions import InvalidParameterError
from skdptune.candidates._row_safe import is_keyed, length_of
from skdptune.model_selection._lists import listed_rows
from skdptune.model_selection._missing import missing

__all__ = [
    "as_declared",
    "canonical",
    "double",
    "fresh_index",
    "plain_labels",
    "refuse_speaking_index",
    "row_count",
    "with_numbers",
    "with_own_cells",
    "with_own_types",
    "without_mask",
    "without_metadata",
]


def with_own_types(X, name="X"):
    """Return rows in a form that no cell of one row decides for the others; anything else as it is.

    numpy makes one array of a list, of a type that its cells decide together. A list therefore holds numbers, which
    become floats, or is refused (:mod:`skdptune.model_selection._lists`). What an array holds was decided by whoever
    made it, except for how long a text is: the longest one would decide where those that are written into the array are
    cut. Text is therefore held as objects, each by itself.

    Raises
    ------
    InvalidParameterError
        For a list that holds anything but numbers and missing cells: before anything is spent.

    Examples
    --------
    >>> with_own_types([[1, 2], [3, None]])
    array([[ 1.,  2.],
           [ 3., nan]])
    >>> with_own_types(np.array([["a"], ["b"]])).dtype
    dtype('O')
    """
    if isinstance(X, np.ndarray):
        return X.astype(object) if X.dtype.kind in "US" and X.ndim == 2 else X
    return listed_rows(X, name)


def with_own_cells(X):
    """Return a frame whose columns are not all of numpy's numbers as an array of objects; anything else as it is.

    For checks: as a whole, such a frame has no type that suits every column.
    """
    if not hasattr(X, "columns") or getattr(X, "ndim", 2) != 2:
        return X
    if all(_is_plain_number(dtype) for dtype in X.dtypes):
        return X
    cells = np.empty(X.shape, dtype=object)
    for i, name in enumerate(X.columns):
        column = X.iloc[:, i] if hasattr(X, "iloc") else X.get_column(name)
        cells[:, i] = np.fromiter(column.to_list(), dtype=object, count=len(cells))
    return cells


def _is_plain_number(dtype):
    if isinstance(dtype, np.dtype):
        return dtype.kind in "biuf"
    return hasattr(dtype, "is_decimal") and dtype.is_numeric() and not dtype.is_decimal()  # polars


def without_mask(y):
    """Return a Series of pandas' nullable numbers, if none is missing, as one of numpy's; anything else as it is."""
    plain = getattr(getattr(y, "dtype", None), "numpy_dtype", None)
    if plain is None or not hasattr(y, "isna") or y.isna().any():
        return y
    return y.to_numpy(dtype=plain)


def double(X):
    """Return extended-precision numbers in double precision: libraries of nets and trees take no others.

    Examples
    --------
    >>> double(np.zeros(2, dtype=np.longdouble)).dtype
    dtype('float64')
    """
    if not isinstance(X, np.ndarray) or X.dtype.kind != "f" or X.dtype.itemsize <= 8:
        return X
    with np.errstate(over="ignore"):  # what is beyond doubles becomes infinite, and is refused as such
        return X.astype(np.float64)


def canonical(X):
    """Return a sparse matrix in which no row names a column twice; anything else as it is.

    Steps that treat the entries of a row one by one (Normalizer, Binarizer) would take two entries of one cell for two
    cells, and leave a row longer than they promise. Formats into which no check of cells can look (lists, dicts) become
    compressed rows.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> twice = csr_array((np.ones(2), np.zeros(2, dtype=int), [0, 2]), shape=(1, 3))
    >>> canonical(twice).data
    array([2.])
    """
    if not issparse(X):
        return X
    if X.format in ("lil", "dok"):
        return X.tocsr()
    if X.format not in ("csr", "csc", "coo", "bsr") or X.has_canonical_format:
        return X
    twin = X.tocsr(copy=True) if X.format == "bsr" else X.copy()
    twin.sum_duplicates()
    return twin


def fresh_index(X):
    """Return a frame or Series of pandas with its rows numbered from 0; anything else as it is.

    Steps that put frames side by side join them by the labels of rows. A function that makes a new frame numbers its
    rows from 0, and would then meet another person's cells.

    Examples
    --------
    >>> fresh_index([1, 2])
    [1, 2]
    """
    return X.reset_index(drop=True) if hasattr(X, "iloc") and hasattr(X, "reset_index") else X


def refuse_speaking_index(X):
    """Refuse a frame whose index says something: for declared functions, which could read it and would not find it.

    Raises
    ------
    InvalidParameterError
    """
    index = getattr(X, "index", None)
    if not hasattr(X, "iloc") or not hasattr(index, "nlevels"):
        return
    if index.nlevels > 1 or index.name is not None or index.dtype.kind not in "iu":
        raise InvalidParameterError(
            "X must have plain row numbers as its index where functions declared by row_wise may read it, because rows "
            "are numbered anew in every try. Make the index a column, X.reset_index(), or drop it, "
            "X.reset_index(drop=True), here and where you predict."
        )


def with_numbers(rows, columns):
    """Return rows whose cells of any kind in ``columns`` are floats, except for missing ones, which stay.

    Parameters
    ----------
    rows : ndarray, DataFrame or anything else
        Checked: each cell in these columns can be read as a number, or is missing. Only columns of objects are changed.
    columns : iterable of int

    Examples
    --------
    >>> with_numbers(np.array([["0.5", "a"], [None, "b"]], dtype=object), [0]).tolist()
    [[0.5, 'a'], [None, 'b']]
    """
    if hasattr(rows, "iloc") and rows.ndim == 2:
        twin = rows.copy(deep=False)
        for i in columns:
            column = rows.iloc[:, i]
            if column.dtype == object:
                twin.isetitem(i, type(column)(_numbers(column.to_numpy()), index=column.index, dtype=object))
        return twin
    if isinstance(rows, np.ndarray) and rows.ndim == 2 and rows.dtype == object:
        twin = rows.copy()
        for i in columns:
            twin[:, i] = _numbers(rows[:, i])
        return twin
    return rows


def _numbers(cells):
    numbers, known = cells.copy(), ~missing(cells)
    numbers[known] = cells[known].astype(np.float64).astype(object)
    return numbers


def as_declared(y, classes):
    """Return labels as the very values of ``classes``, in whatever type an array has them.

    Examples
    --------
    >>> as_declared(np.array([0.0, 1.0]), np.array([0, 1]))
    array([0, 1])
    """
    if classes is None or y.dtype == classes.dtype or "O" in (y.dtype.kind, classes.dtype.kind):
        return y
    return classes[np.searchsorted(classes, y)]


def plain_labels(y):
    """Return labels as nothing but text and numbers: what else hangs on a cell would be published with the label set.

    Examples
    --------
    >>> class Label(str):
    ...     pass
    >>> {type(label) for label in plain_labels(np.array([Label("a"), "b"], dtype=object))}
    {<class 'str'>}
    """
    y = without_metadata(y)
    return np.frompyfunc(_plain, 1, 1)(y) if y.dtype == object and y.size else y


def _plain(label):
    if isinstance(label, str):
        return str.__str__(label)  # exactly a str, whatever its class says of it
    return label.item() if isinstance(label, np.generic) else label


def without_metadata(array):
    """Return an array without what numpy lets a type carry along; anything else as it is.

    Examples
    --------
    >>> noted = np.zeros(2, dtype=np.dtype(float, metadata={"source": "a row"}))
    >>> without_metadata(noted).dtype.metadata is None
    True
    """
    if not isinstance(array, np.ndarray) or array.dtype.metadata is None or array.dtype.names:
        return array
    plain = np.empty(array.shape, dtype=np.dtype(array.dtype.str))
    plain[...] = array
    return plain


def row_count(X):
    """Return how many rows X has, none included.

    Examples
    --------
    >>> row_count(np.zeros((0, 3))), row_count([[1.0]])
    (0, 1)
    """
    part = next(iter(X.values()), ()) if is_keyed(X) else X
    if not hasattr(part, "shape") and not hasattr(part, "__len__"):
        part = np.asarray(part)
    return length_of(part)
