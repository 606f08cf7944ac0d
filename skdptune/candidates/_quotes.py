"""What libraries complain about in rows, without the cells that some of their complaints quote.

One list serves everybody who checks rows. It says which words are passed on: those that name shapes, types, counts and
columns, all public. Words that are not on it are never passed on, whoever wrote them: scikit-learn, numpy, pandas and
polars have many ways of quoting a cell, and invent new ones.
"""

import re

import numpy as np

from skdptune._exceptions import InvalidParameterError, InvalidTypeError, SkdptuneError
from skdptune._validation import describe

__all__ = ["complex_refusal", "kind_of", "reworded", "without_cells"]

_COMPLEX = (
    "Complex data not supported: {name} must hold real numbers. Pass real and imaginary part as two columns."
)
_FLAT = (
    "{name} must be two-dimensional; got {shape}. Reshape your data: {name}.reshape(-1, 1) if it is one column, "
    "{name}.reshape(1, -1) if it is one row."
)
_TEXT = (
    "{name} must be numeric; it holds text{where}. Encode its columns with public categories, or pass a frame to a "
    "pipeline that does."
)
_SINGLE = "{name} must hold one entry for each row; got {shape}."
_LARGE = "{name} holds whole numbers too large for floating point. Divide its columns by public constants."
_UNKNOWN = (
    "{name} cannot be read as an array of numbers or labels: {error}, whose words are left out since they may quote a "
    "cell. If it holds dates or other objects, turn them into numbers by a public rule."
)

_MOST_NAMED = 5

_SHAPE = r"\([\d, ]*\)"
_TYPE = r"'[\w.]+'"
# How a complaint begins -> what is said instead. {said} is what the pattern matched and no word more, so that a pattern
# alone decides what of a text is passed on; NAME stands for the name of the rows.
_SAID = (
    # shapes and counts
    (rf"Found array with \d+ (sample|feature)\(s\) \(shape={_SHAPE}\) while a minimum of \d+ is required( by \w+)?\.",
     "{said}"),
    (r"Found array with dim \d+(, while dim <= \d+ is required( by \w+)?|\. \w+ expected <= \d+)\.", "{said}"),
    (r"Found input variables with inconsistent numbers of samples: \[[\d, ]*\]", "{said}"),
    (rf"y should be a 1d array, got an array of shape {_SHAPE} instead\.", "{said}"),
    (rf"setting an array element with a sequence\.( The requested array has an inhomogeneous shape after \d+ "
     rf"dimensions\. The detected shape was {_SHAPE} \+ inhomogeneous part\.)?",
     "{said} Every row of {name} must have the same number of columns, and a number in each."),
    (rf"Expected a 2-dimensional container but got <class {_TYPE}> instead\.( Pass a DataFrame containing a single row "
     r"\(i\.e\. single sample\) or a single column \(i\.e\. single feature\) instead\.)?", "{said}"),
    (r"Expected 2D (array|input), got", _FLAT),
    (r"Input should have at least 1 dimension|Expected array-like|Singleton array", _SINGLE),
    # columns
    (r"X has \d+ features, but \w+ is expecting \d+ features as input", "{said}."),
    (r"X does not contain any features, but \w+ is expecting \d+ features", "{said}."),
    (rf"Unable to find the number of features from X of type [\w.]+( with shape {_SHAPE}| where the samples are of "
     r"type \w+)?", "{said}."),
    (r"The feature names should match those that were passed during fit\.(?s:.*)", "{said}"),  # names alone follow
    (r"Feature names are only supported if all input features have string names, but your input has \[[\w', ]*\] as "
     r"feature name / column name types\.", "{said} Turn them all into text: X.columns = X.columns.astype(str)."),
    # kinds of values
    (r"Input( NAME)? contains (NaN|infinity or a value too large for dtype\('\w+'\))",
     "{said}. Replace such cells by public constants."),
    (r"boolean value of NA is ambiguous|cannot convert (float )?(NaN|NA) to integer",
     "Input {name} contains NaN or another mark of a missing value. Replace such cells by public constants."),
    (r"Sparse data was passed( for NAME)?, but dense data is required\.( Use '\.toarray\(\)' to convert to a dense "
     r"numpy array\.)?", "{said}"),
    (r"Only sparse matrices with 32-bit integer indices are accepted\. Got \w+ indices\.", "{said}"),
    (r"np\.matrix is not supported\. Please convert to a numpy array with np\.asarray\.", "{said}"),
    (r"Complex data not supported", _COMPLEX),
    (r"could not convert string to |invalid literal for int\(\)|dtype='numeric' is not compatible with arrays of bytes|"
     r"Unable to convert array of bytes", _TEXT),
    (r"'[\w-]+' codec can't encode ", "{name} holds text that cannot be written as UTF-8. Mend it by a public rule."),
    (r"fill value must be 0 when converting to COO matrix", "{said}: sparse columns of {name} must leave out zeros."),
    (r"int too large to convert to float|Python int too large to convert", _LARGE),
    (rf"(float|int)\(\) argument must be a string[\w, -]* number, not {_TYPE}",
     "{said}. {name} must be numeric: turn other objects into numbers by a public rule."),
    (rf"Expected sequence or array-like, got <class {_TYPE}>", "{said}."),
    # labels
    (r"Unknown label type: [\w-]+\.( Maybe you are trying to fit a classifier, which expects discrete classes on a "
     r"regression target with continuous values\.)?", "{said}"),
    (r"You appear to be using a legacy multi-label data representation\. Sequence of sequences are no longer supported",
     "{said}."),
    (r"Support for labels represented as bytes is not supported\. Convert the labels to a string or integer format\.",
     "{said}"),
    (rf"'[<>]=?' not supported between instances of {_TYPE} and {_TYPE}",
     "{said}: {name} mixes types that have no order. Use labels of one type."),
)  # fmt: skip


def without_cells(check, *args, about=None, **kwargs):
    """Call a check of rows; where it complains, complain in words that quote no cell.

    Parameters
    ----------
    check : callable
        A check of scikit-learn, or a conversion of numpy.
    *args
        Its arguments, the rows last.
    about : str, optional
        What the rows are called. None: the check's ``input_name``, or X.
    **kwargs
        Its further arguments.

    Returns
    -------
    object
        What the check returns.

    Raises
    ------
    InvalidTypeError
        In place of a TypeError.
    InvalidParameterError
        In place of every other error. Both are new errors: nothing of the first one, its cause or its traceback hangs
        on them.

    Examples
    --------
    >>> from sklearn.utils import check_array
    >>> without_cells(check_array, [1j])
    Traceback (most recent call last):
    ...
    skdptune._exceptions.InvalidParameterError: Complex data not supported: X must hold real numbers. ...
    """
    name = about or kwargs.get("input_name") or "X"
    try:
        return check(*args, **kwargs)
    except (SkdptuneError, Warning):  # ours, and what a filter of the caller's made an error
        raise
    except Exception as error:
        said = reworded(error, name, args[-1] if args else None)
    raise said  # here, so that the error above does not hang on it


def reworded(error, name, rows):
    """Return the error to raise in place of ``error``, which a check of ``rows`` ended with.

    Examples
    --------
    >>> str(reworded(ValueError("Found array with dim 3, while dim <= 2 is required. 4711"), "X", None))
    'Found array with dim 3, while dim <= 2 is required.'
    >>> str(reworded(ValueError("4711 is no number"), "y", None))[:59]
    'y cannot be read as an array of numbers or labels: ValueErr'
    """
    text = _words(error)
    if isinstance(error, MemoryError):
        size = re.match(rf"Unable to allocate [\d.]+ \w+ for an array with shape {_SHAPE}", text)
        return MemoryError(f"{size.group()}." if size else f"{name} takes more memory to be checked than there is.")
    kind = InvalidTypeError if isinstance(error, TypeError) else InvalidParameterError
    for pattern, says in _SAID:
        found = re.match(pattern.replace("NAME", re.escape(name)), text)
        if found is not None:
            return kind(says.format(said=found.group(), name=name, shape=_shape_of(rows), where=_Where(rows)))
    return kind(_UNKNOWN.format(name=name, error=type(error).__name__))


def _words(error):
    try:
        return str(error)
    except Exception:  # an error of somebody's own, which cannot say what it is
        return ""


def complex_refusal(name):
    """Return the error for complex rows (the caller raises it).

    Examples
    --------
    >>> str(complex_refusal("y"))[:55]
    'Complex data not supported: y must hold real numbers. P'
    """
    return InvalidParameterError(_COMPLEX.format(name=name))


def kind_of(rows):
    """Return what ``rows`` are, by type and shape; never by what they hold.

    Examples
    --------
    >>> kind_of(np.zeros((2, 3))), kind_of(np.array("4711")), kind_of(4711)
    ('an ndarray of shape (2, 3)', 'a single value (ndarray)', 'a value (int)')
    """
    shape = getattr(rows, "shape", ())
    if rows is None or (isinstance(shape, tuple) and len(shape)) or isinstance(rows, (list, tuple, set, dict)):
        return describe(rows)  # which shows no content of these
    return f"a single value ({type(rows).__name__})" if hasattr(rows, "shape") else f"a value ({type(rows).__name__})"


def _shape_of(rows):
    try:
        shape = rows.shape if hasattr(rows, "shape") else np.shape(rows)
        return f"shape {tuple(map(int, shape))}" if len(shape) else "a single value"
    except Exception:  # ragged, or without a shape
        return kind_of(rows)


class _Where:
    """Which columns of rows are not numbers, by their public names or positions; looked up only where it is said."""

    def __init__(self, rows):
        self._rows = rows

    def __format__(self, spec):
        try:
            found = [repr(name) for name, column in _columns(self._rows) if not _is_numbers(column)]
        except Exception:  # of another kind: nothing is said of it
            found = []
        if not found:
            return ""
        shown = ", ".join(found[:_MOST_NAMED])
        more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
        return f" in column{'s' if len(found) > 1 else ''} {shown}{more}"


def _columns(rows):
    if hasattr(rows, "iloc"):
        return [(str(name), rows.iloc[:, i]) for i, name in enumerate(rows.columns)]
    array = rows if isinstance(rows, np.ndarray) else np.asarray(rows, dtype=object)
    return [(i, array[:, i]) for i in range(array.shape[1])]


def _is_numbers(column):
    try:
        np.asarray(column, dtype=np.float64)
    except Exception:  # what it says may quote a cell
        return False
    return True
