"""Schema checks of rows, made once, before anything is spent. Errors never quote a cell."""

import contextlib
import functools
import math
from collections.abc import Mapping

import numpy as np
import sklearn
from scipy.sparse import issparse
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, check_array, check_consistent_length, column_or_1d, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from skdptune._exceptions import InvalidParameterError, InvalidTypeError
from skdptune._validation import invalid_type, invalid_value
from skdptune.candidates._quotes import complex_refusal, kind_of, without_cells
from skdptune.candidates._row_safe import is_keyed
from skdptune.candidates._stateless import placeholder_like
from skdptune.model_selection._autologging import refuse_autologging
from skdptune.model_selection._columns import check_columns
from skdptune.model_selection._lists import found_labels, is_listed, label_cells, labels_among, listed_targets
from skdptune.model_selection._missing import (
    NO_CELLS,
    cells_taken,
    missing,
    missing_refusal,
    refuse_other_cells,
    searched_inside,
)
from skdptune.model_selection._numbers import NO_NUMBERS, number_columns, refuse_words
from skdptune.model_selection._overlap import refuse_overlap
from skdptune.model_selection._rehearsal import rehearse
from skdptune.model_selection._tidy import (
    as_declared,
    canonical,
    double,
    fresh_index,
    plain_labels,
    row_count,
    with_numbers,
    with_own_cells,
    with_own_types,
    without_mask,
    without_metadata,
)
from skdptune.scoring import refuse_sample_weight

__all__ = [
    "check_labels",
    "check_public_rows",
    "check_rows",
    "check_same_columns",
    "declared_classes",
    "label_set",
    "made_up_rows",
    "number_of_rows",
    "refuse_fit_params",
    "refuse_lists_in",
    "row_shape",
    "same_kind",
    "take_rows",
]

_MOST_FOUND = 20  # labels found in y and published; more only where rows are many: the square root of their number
_UNDECLARED = (
    "classes must hold every label of y; y has a label that was not declared. Declare it, or map the "
    "labels of y to the declared ones before the search."
)
_RESHAPE = "Reshape your data: X.reshape(-1, 1) if it is one column, X.reshape(1, -1) if it is one row."


def number_of_rows(X, fewest=1):
    """Return the (public) number of rows of X, at least ``fewest``.

    Raises
    ------
    InvalidTypeError, InvalidParameterError
    """
    if is_keyed(X):
        X = next(iter(X.values()), ())  # that all have as many rows is checked with the rows
    if not hasattr(X, "shape") and hasattr(X, "__array__"):
        X = without_cells(np.asarray, X)
    try:
        count = X.shape[0] if hasattr(X, "shape") else len(X)
    except (TypeError, IndexError):
        advice = "Call .collect() first." if hasattr(X, "collect") else ""  # a query of polars that has not run
        expected = "an array-like of shape (n_samples, n_features)"
        raise InvalidTypeError(f"X must be {expected}; got {kind_of(X)}. {advice}".rstrip()) from None
    if count < fewest:
        raise invalid_value("X", "an array-like with at least one row", X)
    return int(count)


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
    return fresh_index(_safe_indexing(X, indices))


def made_up_rows(X):
    """Yield a few single rows with the columns, names and types of checked X, and no value of it.

    Examples
    --------
    >>> [row["a"].tolist() for row in made_up_rows({"a": np.array([7, 8])})]
    [[0], [1], [0], [30], [100]]
    """
    for shift in (0, 1, 0.5, 30, 100):  # ages and percentages among them: a model may refuse impossible values
        row = None
        with contextlib.suppress(Exception):  # text, categories and sparse rows cannot be shifted
            row = _made_up(X, shift)
        if row is not None:
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
        return
    _refuse_kind(X, "X")
    if getattr(X, "ndim", 2) == 1:
        raise invalid_value("X", "two-dimensional", X, _RESHAPE)  # scikit-learn's complaint shows the row
    if getattr(X, "ndim", 2) == 2:  # other shapes get the model's own complaint
        without_cells(validate_data, search, X, reset=False, skip_check_array=True)


def _check_keyed(search, X, input_name="X"):
    """Return a dict of arrays, each checked as a table is, and set the fitted names."""
    tags = get_tags(search.estimator).input_tags
    if not tags.dict:
        raise invalid_type(input_name, "one array-like of shape (n_samples, n_features)", X)
    if not X or not all(isinstance(name, str) for name in X):
        raise invalid_value(input_name, "a dict of arrays by the names of arguments of the module's forward", list(X))
    refuse_lists_in(X, input_name)
    checked = {name: _numeric(search, part, tags, f"{input_name}[{name!r}]", keyed=True)[0] for name, part in X.items()}
    without_cells(check_consistent_length, *checked.values())
    return checked


def refuse_lists_in(X, name):
    """Refuse a dict that holds lists.

    Raises
    ------
    InvalidParameterError
    """
    if any(map(is_listed, X.values())):
        raise InvalidParameterError(
            f"{name} given as a dict must hold arrays; one is a list, in which a single cell would decide whether the "
            "numbers of all rows are whole. Make it an array: numpy.asarray(..., dtype=...)."
        )


def _looking(check):
    """Let scikit-learn look at the cells in ``check`` even where it was told to take them to be finite."""

    @functools.wraps(check)
    def looking(*args):
        with sklearn.config_context(assume_finite=False):
            return check(*args)

    return looking


@_looking
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
        Lists become arrays; frames stay frames, so that candidates see their column names, with rows numbered anew.

    Raises
    ------
    ValueError, TypeError
        scikit-learn's usual errors.
    """
    refuse_autologging()
    X = with_own_types(X)
    if row_count(X) == 0:
        return _check_empty(search, X, y)
    check_columns(search, X)
    for name, rows in (X.items() if is_keyed(X) else (("X", X),)):
        _refuse_kind(rows, name)
    tags = get_tags(search.estimator).input_tags
    framed = hasattr(X, "columns")
    if is_keyed(X):
        checked = rows = _check_keyed(search, X)
        search.n_features_in_ = len(checked)
        search.feature_names_in_ = np.array(list(checked), dtype=object)
    else:
        checked, columns = _numeric(search, X, tags, "X")
        rows = fresh_index(with_numbers(X if framed else checked, columns))
        without_cells(validate_data, search, rows, skip_check_array=True)
    if y is None:
        raise InvalidParameterError(
            f"{type(search).__name__} requires y to be passed, but the target y is None. Scores compare "
            "predictions with y; pass y to fit."
        )
    y = check_labels(search, checked, y)
    if not is_keyed(rows):
        rehearse(search, rows, len(y), label_set(search, y))
    return rows, y


def _check_empty(search, X, y):
    """Set the fitted names of a part without rows that an outer search, which has checked all rows, has cut."""
    if is_keyed(X):
        search.n_features_in_, search.feature_names_in_ = len(X), np.array(list(X), dtype=object)
    else:
        validate_data(search, X, skip_check_array=True)
    return X, y


@_looking
def check_labels(search, X, y):
    """Return labels or targets of checked X as an array.

    Raises
    ------
    ValueError, TypeError
    """
    _refuse_kind(y, "y")
    listed = is_listed(y)
    y = label_cells(y) if listed else without_cells(column_or_1d, without_mask(y), warn=True, about="y")
    without_cells(check_consistent_length, next(iter(X.values())) if is_keyed(X) else X, y, about="y")
    _refuse_missing_labels(y)
    y = _of_own_type(search, y) if listed else double(y)
    y = without_cells(check_array, y, ensure_2d=False, dtype=None, input_name="y", estimator=type(search).__name__)
    if is_classifier(search.estimator):
        without_cells(check_classification_targets, y, about="y")
    elif not np.issubdtype(y.dtype, np.number):
        y = _targets(y)
    return plain_labels(y)


def _of_own_type(search, cells):
    """Return labels or targets of a list in a type that none of them decides."""
    if not is_classifier(search.estimator):
        return listed_targets(cells)
    declared = declared_classes(search)
    labels = found_labels(cells) if declared is None else labels_among(cells, _declared_set(declared))
    if labels is None:
        raise InvalidParameterError(_UNDECLARED)
    return labels


def _targets(y):
    """Return targets that came as objects or text as finite numbers; no cell hangs on what is said of others."""
    try:
        numbers = y.astype(np.float64)
    except Exception:  # whatever an object says when it is asked for a number
        numbers = None
    if numbers is None:
        raise InvalidParameterError("y must be numeric for a regressor; it holds something else.")
    return without_cells(check_array, numbers, ensure_2d=False, input_name="y")


def _numeric(search, X, tags, name, keyed=False):
    """Return X as an array or sparse matrix that can be cut by rows, and which columns must be made numbers.

    Complaints quote no cell.
    """
    inside = searched_inside(search)
    piped = type(inside.estimator) is Pipeline
    cells = cells_taken(inside, X) if piped and not keyed else NO_CELLS
    numbers = number_columns(inside, X) if piped and not keyed else NO_NUMBERS
    # a pipeline may start with columns of text
    textual = tags.string or (isinstance(inside.estimator, Pipeline) and not numbers.whole)
    try:
        checked = without_cells(
            check_array,
            double(with_own_cells(canonical(X)) if textual else canonical(X)),
            accept_sparse=tags.sparse,
            dtype=None if textual else "numeric",
            ensure_all_finite=cells.checked_before if piped else _finite(tags),
            ensure_2d=not keyed,
            allow_nd=tags.three_d_array,
            input_name=name,
            estimator=type(search).__name__,
        )
        if not textual and checked.dtype == object:  # of a list, of which scikit-learn makes no numbers
            checked = without_cells(check_array, checked, dtype=np.float64, ensure_2d=False, allow_nd=True, about=name)
    except (InvalidParameterError, InvalidTypeError) as error:
        if name != "X" or "contains NaN" not in str(error):
            raise
    else:
        refuse_other_cells(cells, checked, name)
        refuse_words(numbers, checked, name)
        # coordinates and diagonals cannot be cut by rows
        rows = checked.tocsr() if issparse(checked) and checked.format in ("coo", "dia", "bsr") else checked
        return without_metadata(rows), (numbers.columns if textual or piped else range(np.shape(rows)[-1]))
    raise missing_refusal(name, piped)


def _finite(tags):
    """Return what scikit-learn is to check: who takes missing cells does not take infinite ones."""
    return "allow-nan" if tags.allow_nan else True


def _refuse_kind(rows, name):
    """Refuse arrays whose kind alone, which is public, says that they cannot be used; before scikit-learn shows them.

    Raises
    ------
    InvalidTypeError, InvalidParameterError
    """
    if np.ma.isMaskedArray(rows):
        raise invalid_type(
            name, "an array without a mask", rows, "Masked cells would be used as data: fill them with .filled(value)."
        )
    dtype = getattr(rows, "dtype", None)
    kind = getattr(dtype, "kind", "O")
    if kind == "c":
        raise complex_refusal(name)
    if kind in "mMV" and isinstance(dtype, np.dtype):
        raise InvalidTypeError(
            f"{name} must hold numbers or text; got {kind_of(rows)} of {dtype}. Turn times into numbers by a public "
            "rule, e.g. days since a fixed date."
        )


def _refuse_missing_labels(y):
    if y.dtype == object and missing(y).any():
        raise InvalidParameterError(
            "y must have a label in every row, but Input y contains NaN or another mark of a missing one. Leave rows "
            "without a label out before the search."
        )


def label_set(search, y):
    """Return the public label set, declared or found in y; None for regressors.

    Raises
    ------
    InvalidParameterError
        If y holds a label that was not declared, or nearly a label of its own for every row and none was declared.
    """
    if not is_classifier(search.estimator):
        return None
    given = declared_classes(search)
    if given is None:
        found = np.unique(y)
        _refuse_label_per_row(found.size, len(y))
        return found + 0.0 if found.dtype.kind == "f" else found  # -0.0 would be the zero of one row
    classes = _declared_set(given)
    if not _all_known(y, classes):
        raise InvalidParameterError(_UNDECLARED)
    return classes


def _declared_set(given):
    """Return declared labels in order, each once, and in one of numpy's types if there is one for them."""
    try:
        if is_listed(given) and len({isinstance(label, str) for label in given}) > 1:
            raise TypeError  # numpy would make text of all
        declared = np.asarray(given)
        if declared.dtype == object:
            plain = np.asarray(declared.tolist())
            declared = plain if plain.tolist() == declared.tolist() else declared
        classes = np.unique(declared)
    except (TypeError, ValueError):
        raise invalid_type("classes", "a list of labels of one kind", given) from None
    if declared.ndim != 1 or classes.size < 1 or classes.size != declared.size:
        raise invalid_value("classes", "a non-empty list of distinct labels", given)
    return classes


def _refuse_label_per_row(n_labels, n_rows):
    """Refuse to publish a label set that is found in y where its labels may be told from one person each."""
    most = max(_MOST_FOUND, math.isqrt(n_rows))
    if n_labels > most:
        raise InvalidParameterError(
            f"classes must be declared where y has so many labels: more than {most} different ones in {n_rows} rows. "
            "Without it the labels found in y are taken to be public and are published, and such as belong to a few "
            "persons tell of them. Pass classes=[...], written down without looking at y, or, if y is a number to be "
            "predicted, search a regressor."
        )


def declared_classes(search):
    """Return the label set that was declared, to the search or else to the model in it, or None.

    A model's parameter ``classes`` is as public as the search's: both are written down without the rows. One that is
    itself searched declares nothing.

    Examples
    --------
    >>> from skdptune import PrivateRandomSearchCV
    >>> from skdptune._cli._centroids import NoisyCentroids
    >>> declared_classes(PrivateRandomSearchCV(NoisyCentroids(), {"radius": [1.0]}, classes=[0, 1]))
    [0, 1]
    """
    if search.classes is not None or not is_classifier(search.estimator):
        return search.classes
    model, path = search.estimator, ""
    while isinstance(model, Pipeline) and model.steps:
        name, model = model.steps[-1]
        path += f"{name}__"
    if not hasattr(model, "get_params") or _is_searched(search.param_distributions, path):
        return None
    return model.get_params(deep=False).get("classes")


def _is_searched(spaces, path):
    """Return whether the classes of the model at ``path``, or the model itself, are drawn."""
    spaces = [spaces] if isinstance(spaces, Mapping) else spaces
    whole = f"{path}classes"
    return any(whole == name or whole.startswith(f"{name}__") or name == "steps" for space in spaces for name in space)


def same_kind(labels, known):
    """Return whether both are text, or both are not, as far as their types tell."""
    kinds = labels.dtype.kind, known.dtype.kind
    return "O" in kinds or (kinds[0] in "US") == (kinds[1] in "US")


def _all_known(labels, known):
    """Return whether every label is a known one; text is never equal to a number."""
    labels, known = np.asarray(labels), np.asarray(known)
    return same_kind(labels, known) and bool(np.isin(labels, known).all())


@_looking
def check_public_rows(search, X, y, X_public, y_public, classes):
    """Check the public validation rows against the schema of the private ones, whose label set is ``classes``.

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
    y_public = _public_labels(y_public, classes)
    if is_keyed(X) or is_keyed(X_public):
        return _check_public_keyed(search, X, y, X_public, y_public)
    _refuse_kind(X_public, "X_public")
    X_public = with_own_types(X_public, "X_public")
    checked, columns = _numeric(search, X_public, tags, "X_public")
    without_cells(check_consistent_length, checked, y_public, about="y_public")
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
    rows = fresh_index(with_numbers(X_public if hasattr(X_public, "columns") else checked, columns))
    refuse_overlap(X, y, rows, y_public)
    return rows, y_public


def _check_public_keyed(search, X, y, X_public, y_public):
    if not (is_keyed(X) and is_keyed(X_public)):
        raise invalid_type("X_public", "a dict of arrays exactly where X is one", X_public)
    checked = _check_keyed(search, X_public, "X_public")
    without_cells(check_consistent_length, next(iter(checked.values())), y_public, about="y_public")
    if {name: shape for name, (shape, _) in row_shape(checked).items()} != {
        name: shape for name, (shape, _) in row_shape(X).items()
    }:
        raise InvalidParameterError("X_public must have the arrays of X, by name and by the shape of one row.")
    refuse_overlap(_flat(X), y, _flat({name: checked[name] for name in X}), y_public)
    return checked, y_public


def _flat(X):
    """Return the arrays of a dict side by side, one row of numbers per row."""
    parts = [part.toarray() if issparse(part) else part for part in X.values()]
    return np.hstack([np.asarray(part, dtype=float).reshape(len(part), -1) for part in parts])


def _public_labels(y_public, classes):
    """Return labels or targets of public rows in the type of those of the private ones."""
    listed = is_listed(y_public)
    y_public = (
        label_cells(y_public, "y_public") if listed else without_cells(column_or_1d, y_public, about="y_public")
    )
    if classes is None:
        return listed_targets(y_public, "y_public") if listed else y_public
    if listed:
        y_public = labels_among(y_public, classes)
    elif not _all_known(y_public, classes):
        y_public = None
    if y_public is None:
        raise InvalidParameterError(
            "y_public must hold labels of the label set of y (same type, too); it has others. Map its labels first."
        )
    return as_declared(y_public, classes)


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
