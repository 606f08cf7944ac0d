"""Checks of a model's parameters, made without data; each says which parameter and how to mend it."""

import math
import numbers

import numpy as np

from skdptune._exceptions import CandidateRefusedError
from skdptune._validation import describe
from skdptune.candidates._diffprivlib._rows import LIMIT

__all__ = [
    "bounds_arrays",
    "check_bounds",
    "check_bounds_width",
    "check_declared_classes",
    "check_integer_parameter",
    "check_positive",
    "check_size",
    "check_spans_zero",
    "refusal",
]


# Sizes whose squares, divided by a number of rows and by an epsilon, neither vanish nor overflow.
SMALLEST, LARGEST = 1e-100, 1e100


def refusal(model, name, expected, value, advice):
    """Return the error for a parameter that cannot be vouched for (the caller raises it).

    Examples
    --------
    >>> print(refusal("GaussianNB", "bounds", "given", None, "Pass e.g. bounds=(-1, 1)."))
    GaussianNB: bounds must be given; got None (NoneType). Pass e.g. bounds=(-1, 1).
    """
    return CandidateRefusedError(
        f"{model}: {name} must be {expected}; got {describe(value)}. {advice}"
    )


def check_size(model, name, sizes, value, advice, low=SMALLEST, high=LARGEST):
    """Refuse sizes that floating-point numbers cannot carry through a fit: noise scaled to them would vanish.

    Parameters
    ----------
    model, name : str
    sizes : array-like
        Bounds, widths, norms or budgets that follow from ``value``; 0 passes.
    value : object
        The parameter, for the message.
    advice : str
    low, high : float
        The sizes that can be computed with.

    Raises
    ------
    CandidateRefusedError

    Examples
    --------
    >>> check_size("StandardScaler", "bounds", [0.0, 3.5], (0, 3.5), "")
    >>> check_size("StandardScaler", "bounds", [3e-160], (0, 3e-160), "Use other units.")
    Traceback (most recent call last):
    ...
    skdptune._exceptions.CandidateRefusedError: StandardScaler: bounds must be of a size between 1e-100 and 1e+100 ...
    """
    sizes = np.abs(np.asarray(sizes, dtype=np.float64))
    if not np.all((sizes == 0) | ((sizes >= low) & (sizes <= high))):
        which = " (each end, if it is not 0, and each width)" if sizes.ndim else ""
        raise refusal(
            model,
            name,
            f"of a size between {low:g} and {high:g}{which}",
            value,
            f"Beyond that, floating-point numbers lose the noise of a fit, or the fit does not end. {advice}",
        )


def check_positive(model, name, value, advice, low=SMALLEST, high=LARGEST):
    """Return ``value`` as a float if it is a positive real number of a size that can be computed with, else refuse.

    Examples
    --------
    >>> check_positive("PCA", "epsilon", 2, "")
    2.0
    """
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not real or not math.isfinite(value) or not value > 0:
        raise refusal(model, name, "a positive finite number", value, advice)
    check_size(model, name, float(value), value, advice, low, high)
    return float(value)


def check_integer_parameter(model, name, value, low, high, advice):
    """Return ``value`` as an int if it lies in [low, high], else refuse.

    Examples
    --------
    >>> check_integer_parameter("DecisionTreeClassifier", "max_depth", 5, 1, 20, "")
    5
    """
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or not low <= value <= high:
        raise refusal(model, name, f"an integer in [{low}, {high}]", value, advice)
    return int(value)


def bounds_arrays(bounds, n_features):
    """Return ``bounds`` as two float64 arrays of shape (n_features,).

    Examples
    --------
    >>> bounds_arrays((-1, 2), 2)
    (array([-1., -1.]), array([2., 2.]))
    """
    lower, upper = (np.ravel(np.asarray(end, dtype=np.float64)) for end in bounds)
    shape = (n_features,)
    return np.broadcast_to(lower, shape).copy(), np.broadcast_to(upper, shape).copy()


def _numeric_ends(bounds):
    if not isinstance(bounds, tuple) or len(bounds) != 2:
        return None
    try:
        ends = [np.asarray(end, dtype=np.float64) for end in bounds]
    except (TypeError, ValueError):
        return None
    if any(end.ndim > 1 or end.size == 0 for end in ends):
        return None
    lower, upper = (np.ravel(end) for end in ends)
    return (lower, upper) if lower.shape == upper.shape else None


def check_bounds(model, name, bounds):
    """Return ``(lower, upper)`` as one-dimensional arrays, or refuse what would not bound the rows.

    Examples
    --------
    >>> check_bounds("GaussianNB", "bounds", (-1, 1))
    (array([-1.]), array([1.]))
    """
    advice = (
        f"Pass {name}=(min, max), numbers or one array each with an entry per column, "
        "chosen without looking at the private rows."
    )
    if bounds is None:
        raise refusal(model, name, "given", None, f"{advice} Without it, it is read off the rows.")
    ends = _numeric_ends(bounds)
    if ends is None:
        raise refusal(model, name, "a tuple (min, max) of numbers", bounds, advice)
    lower, upper = ends
    # not (a < b) also catches NaN
    if not (np.all(np.abs(lower) <= LIMIT) and np.all(np.abs(upper) <= LIMIT)):
        raise refusal(model, name, "finite", bounds, advice)
    if not np.all(lower < upper):
        raise refusal(model, name, "ordered, min < max in every column", bounds, advice)
    check_size(model, name, np.concatenate([lower, upper, upper - lower]), bounds, "Use other units for the columns.")
    return lower, upper


def check_spans_zero(model, name, bounds, reason):
    """Refuse bounds of which a column does not contain 0; ``reason`` says why 0 matters.

    Examples
    --------
    >>> import numpy as np
    >>> check_spans_zero("GaussianNB", "bounds", (np.array([-1.0]), np.array([1.0])), "")
    """
    lower, upper = bounds
    if not (np.all(lower <= 0) and np.all(upper >= 0)):
        raise CandidateRefusedError(
            f"{model}: {name} must contain 0 in every column; {reason}. Subtract public constants "
            "from the columns first, or widen the bounds to include 0."
        )


def check_bounds_width(model, name, bounds, n_features):
    """Refuse bounds given for another number of columns.

    Examples
    --------
    >>> check_bounds_width("GaussianNB", "bounds", (-1, 1), 30)
    """
    size = np.size(bounds[0])
    if size not in (1, n_features):
        raise CandidateRefusedError(
            f"{model}: {name} must have one entry or one per column; got {size} entries for "
            f"{n_features} columns. Pass one entry for each column of X."
        )


def check_declared_classes(model, classes, minimum=1):
    """Return the declared classes, sorted, or refuse what is not a set of labels.

    Examples
    --------
    >>> check_declared_classes("DecisionTreeClassifier", ["b", "a"])
    array(['a', 'b'], dtype='<U1')
    """
    advice = "Pass classes=[...], every label that can occur, known without the private rows."
    if classes is None:
        raise refusal(
            model, "classes", "given", None, f"{advice} Without it, it is read off the rows."
        )
    try:
        labels = np.ravel(np.asarray(classes))
        distinct = np.unique(labels)
    except TypeError:
        distinct = labels = None
    if distinct is None or distinct.size != labels.size or distinct.size < minimum:
        expected = f"a list of at least {minimum} different labels of one type"
        raise refusal(model, "classes", expected, classes, advice)
    return distinct
