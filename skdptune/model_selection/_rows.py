"""Schema checks of rows, made once, before anything is spent. Errors never quote a cell."""

from collections.abc import Mapping

import numpy as np
from scipy.sparse import issparse
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, check_array, check_consistent_length, column_or_1d, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from skdptune._exceptions import InvalidParameterError
from skdptune._validation import invalid_type, invalid_value
from skdptune.candidates._stateless import placeholder_like
from skdptune.model_selection._autologging import refuse_autologging
from skdptune.model_selection._columns import check_columns
from skdptune.scoring import refuse_sample_weight

__all__ = [
    "check_public_rows",
    "check_rows",
    "check_same_columns",
    "is_keyed",
    "label_set",
    "made_up_rows",
    "number_of_rows",
    "refuse_fit_params",
    "row_shape",
    "take_rows",
]

# Rows that mostly repeat (few categories) coincide by chance; only rows that are mostly distinct are
# compared with the public ones.
_DISTINCT_SHARE = 0.2


def number_of_rows(X):
    """Return the (public) number of rows of X; at least 1, so that an empty X fails later, as X.

    Raises
    ------
    InvalidTypeError
    """
    if is_keyed(X):
        X = next(iter(X.values()), ())  # that all have as many rows is checked with the rows
    if not hasattr(X, "shape") and hasattr(X, "__array__"):
        X = np.asarray(X)
    try:
        count = X.shape[0] if hasattr(X, "shape") else len(X)
    except (TypeError, IndexError):
        advice = "Call .collect() first." if hasattr(X, "collect") else ""  # a query of polars that has not run
        raise invalid_type("X", "an array-like of shape (n_samples, n_features)", X, advice) from None
    return max(1, int(count))


def is_keyed(X):
    """Return whether X is a dict of arrays (some sparse matrices are dicts too).

    Examples
    --------
    >>> is_keyed({"table": [[1.0], [2.0]]}), is_keyed([[1.0]])
    (True, False)
    """
    return isinstance(X, Mapping) and not issparse(X)


def row_shape(X):
    """Return what is public about one row of checked X: the shape a candidate rehearses on.

    Returns
    -------
    int, tuple or dict
        The number of columns of a table; the shape of one row of other arrays; for a dict of arrays, the shape of
        one row of each and whether its numbers are whole.

    Examples
    --------
    >>> row_shape(np.zeros((5, 3))), row_shape(np.zeros((5, 1, 8, 8)))
    (3, (1, 8, 8))
    >>> row_shape({"word": np.zeros((5, 2), dtype=int)})
    {'word': ((2,), True)}
    """
    if is_keyed(X):
        return {name: (tuple(part.shape[1:]), part.dtype.kind in "iub") for name, part in X.items()}
    shape = np.shape(X) if not hasattr(X, "shape") else X.shape
    return shape[1] if len(shape) == 2 else tuple(shape[1:])


def take_rows(X, indices):
    """Return the rows ``indices`` of X, in the same kind of container.

    Examples
    --------
    >>> take_rows({"a": np.arange(3)}, [2])
    {'a': array([2])}
    """
    if is_keyed(X):
        return {name: take_rows(part, indices) for name, part in X.items()}
    return _safe_indexing(X, indices)


def made_up_rows(X):
    """Yield a few single rows with the columns, names and types of checked X, and no value of it.

    Examples
    --------
    >>> [row["a"].tolist() for row in made_up_rows({"a": np.array([7, 8])})]
    [[0], [1], [0]]
    """
    for shift in (0, 1, 0.5):
        try:
            row = _made_up(X, shift)
        except (TypeError, NotImplementedError):  # text and sparse rows cannot be shifted
            continue
        yield row


def _made_up(X, shift):
    if is_keyed(X):
        return {name: _made_up(part, shift) for name, part in X.items()}
    if isinstance(X, np.ndarray) and X.ndim != 2 and X.dtype.kind in "biuf":
        return np.full((1, *X.shape[1:]), shift).astype(X.dtype)
    blank = placeholder_like(X)
    return blank if shift == 0 else blank + shift


def check_same_columns(search, X):
    """Check rows to predict against the schema that ``search`` was fitted on.

    Raises
    ------
    ValueError
    """
    if is_keyed(X):
        names = list(vars(search).get("feature_names_in_", ()))
        if sorted(map(str, X)) != sorted(names):
            raise InvalidParameterError(
                f"X must hold the rows of fit, by name ({', '.join(names) or 'one array'}); got a dict of "
                f"{', '.join(map(str, X))}."
            )
    elif getattr(X, "ndim", 2) == 2:  # other shapes get the model's own complaint
        validate_data(search, X, reset=False, skip_check_array=True)


def _check_keyed(search, X, input_name="X"):
    """Return a dict of arrays, each checked as a table is, and set the fitted names."""
    tags = get_tags(search.estimator).input_tags
    if not tags.dict:
        raise invalid_type(input_name, "one array-like of shape (n_samples, n_features)", X)
    if not X or not all(isinstance(name, str) for name in X):
        raise invalid_value(input_name, "a dict of arrays by the names of arguments of the module's forward", list(X))
    checked = {name: _numeric(search, part, tags, f"{input_name}[{name!r}]", keyed=True) for name, part in X.items()}
    check_consistent_length(*checked.values())
    return checked


def check_rows(search, X, y):
    """Check the private rows and set ``n_features_in_`` and ``feature_names_in_``.

    Parameters
    ----------
    search : PrivateRandomSearchCV
    X : array-like or sparse matrix of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)

    Returns
    -------
    X, y
        Lists become arrays; frames stay frames, so that candidates see their column names.

    Raises
    ------
    ValueError, TypeError
        scikit-learn's usual errors.
    """
    refuse_autologging()
    check_columns(search, X)
    tags = get_tags(search.estimator).input_tags
    framed = hasattr(X, "columns")
    if is_keyed(X):
        checked = _check_keyed(search, X)
        search.n_features_in_ = len(checked)
        search.feature_names_in_ = np.array(list(checked), dtype=object)
    else:
        checked = _numeric(search, X, tags, "X")
        validate_data(search, X if framed else checked, skip_check_array=True)
    if y is None:
        raise InvalidParameterError(
            f"{type(search).__name__} requires y to be passed, but the target y is None. Scores compare "
            "predictions with y; pass y to fit."
        )
    y = column_or_1d(y, warn=True)
    check_consistent_length(next(iter(checked.values())) if is_keyed(checked) else checked, y)
    y = check_array(y, ensure_2d=False, dtype=None, input_name="y", estimator=type(search).__name__)
    if is_classifier(search.estimator):
        check_classification_targets(y)
    elif not np.issubdtype(y.dtype, np.number):
        try:
            y = y.astype(np.float64)
        except (TypeError, ValueError):
            raise InvalidParameterError("y must be numeric for a regressor; it holds something else.") from None
    return (X if framed else checked), y


def _numeric(search, X, tags, name, keyed=False):
    """Return X as an array or sparse matrix that can be cut by rows; complaints quote no cell."""
    textual = tags.string or isinstance(search.estimator, Pipeline)  # a pipeline may start with columns of text
    try:
        checked = check_array(
            X,
            accept_sparse=tags.sparse,
            dtype=None if textual else "numeric",
            ensure_all_finite=not tags.allow_nan,
            ensure_2d=not keyed,
            allow_nd=tags.three_d_array,
            input_name=name,
            estimator=type(search).__name__,
        )
        # coordinates and diagonals cannot be cut by rows
        return checked.tocsr() if issparse(checked) and checked.format in ("coo", "dia", "bsr") else checked
    except ValueError as error:
        if "could not convert" not in str(error):
            raise
    # raised here: the message above quotes a private cell, and must not hang on ours
    raise InvalidParameterError(
        f"{name} must be numeric; it holds text. Encode its columns with public categories, or pass a frame to a "
        "pipeline that does."
    )


def label_set(search, y):
    """Return the public label set, declared or found in y; None for regressors.

    Raises
    ------
    InvalidParameterError
        If y holds a label that was not declared.
    """
    if not is_classifier(search.estimator):
        return None
    if search.classes is None:
        return np.unique(y)
    try:
        declared = np.asarray(search.classes)
        classes = np.unique(declared)
    except (TypeError, ValueError):
        raise invalid_type("classes", "a list of labels of one kind", search.classes) from None
    if declared.ndim != 1 or classes.size < 1 or classes.size != declared.size:
        raise invalid_value("classes", "a non-empty list of distinct labels", search.classes)
    if not _all_known(y, classes):
        raise InvalidParameterError(
            "classes must hold every label of y; y has a label that was not declared. Declare it, or map the "
            "labels of y to the declared ones before the search."
        )
    return classes


def _all_known(labels, known):
    """Return whether every label is a known one; text is never equal to a number."""
    labels, known = np.asarray(labels), np.asarray(known)
    if (labels.dtype.kind in "US") != (known.dtype.kind in "US") and "O" not in (labels.dtype.kind, known.dtype.kind):
        return False
    return bool(np.isin(labels, known).all())


def check_public_rows(search, X, y, X_public, y_public):
    """Check the public validation rows against the schema of the private ones.

    Raises
    ------
    InvalidParameterError
        If one of the two is missing, the shapes differ, or rows are private rows.
    """
    if X_public is None or y_public is None:
        raise InvalidParameterError(
            "X_public and y_public must be given together; got only one of them. Pass both, or neither."
        )
    tags = get_tags(search.estimator).input_tags
    y_public = column_or_1d(y_public)
    if is_keyed(X) or is_keyed(X_public):
        return _check_public_keyed(search, X, y, X_public, y_public)
    checked = check_array(
        X_public,
        accept_sparse=tags.sparse,
        dtype=None,
        ensure_all_finite=not tags.allow_nan,
        allow_nd=tags.three_d_array,
        input_name="X_public",
    )
    check_consistent_length(checked, y_public)
    if checked.shape[1:] != np.shape(X)[1:]:
        raise InvalidParameterError(
            f"X_public must have the columns of X, {np.shape(X)[1]}; got {checked.shape[1]}."
        )
    names, public = getattr(X, "columns", None), getattr(X_public, "columns", None)
    if (names is None) != (public is None) or (names is not None and list(names) != list(public)):
        raise InvalidParameterError(
            "X_public must have the columns of X, by name and in the same order; the two differ. Pass both as frames "
            "with the same columns, or both as arrays."
        )
    _check_public_labels(search, y, y_public)
    _refuse_overlap(X, y, checked, y_public)
    return (X_public if hasattr(X_public, "columns") else checked), y_public


def _check_public_keyed(search, X, y, X_public, y_public):
    if not (is_keyed(X) and is_keyed(X_public)):
        raise invalid_type("X_public", "a dict of arrays exactly where X is one", X_public)
    checked = _check_keyed(search, X_public, "X_public")
    check_consistent_length(next(iter(checked.values())), y_public)
    if {name: shape for name, (shape, _) in row_shape(checked).items()} != {
        name: shape for name, (shape, _) in row_shape(X).items()
    }:
        raise InvalidParameterError("X_public must have the arrays of X, by name and by the shape of one row.")
    _check_public_labels(search, y, y_public)
    _refuse_overlap(_flat(X), y, _flat({name: checked[name] for name in X}), y_public)
    return checked, y_public


def _flat(X):
    """Return the arrays of a dict side by side, one row of numbers per row."""
    parts = [part.toarray() if issparse(part) else part for part in X.values()]
    return np.hstack([np.asarray(part, dtype=float).reshape(len(part), -1) for part in parts])


def _check_public_labels(search, y, y_public):
    known = y if search.classes is None else search.classes
    if is_classifier(search.estimator) and not _all_known(y_public, known):
        raise InvalidParameterError(
            "y_public must hold labels of the label set of y (same type, too); it has others. Map its labels first."
        )


def _refuse_overlap(X, y, X_public, y_public):
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
    rows = np.asarray(X)
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


def refuse_fit_params(fit_params):
    """Refuse per-row arguments of ``fit`` by name; None values pass.

    Raises
    ------
    InvalidParameterError
    """
    if not fit_params:
        return
    refuse_sample_weight(fit_params.get("sample_weight"))
    given = {name: value for name, value in fit_params.items() if value is not None}
    if given:
        raise InvalidParameterError(
            f"fit takes X, y, X_public and y_public; got {', '.join(sorted(given))}. Weights, groups and other "
            "per-row arguments of private rows are not priced: leave them out."
        )
