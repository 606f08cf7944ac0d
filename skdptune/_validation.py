"""One wording for every complaint about an argument: what was expected, what came, what to do."""

import math
import numbers

from skdptune._exceptions import InvalidParameterError, InvalidTypeError

__all__ = [
    "check_choice",
    "check_instance",
    "check_integer",
    "check_real",
    "check_seed",
    "describe",
    "invalid_type",
    "invalid_value",
]

_REPR_LIMIT = 60
_LARGEST_SEED = 2**32 - 1


def describe(value):
    """Return a short, safe description of ``value`` for an error message.

    Arrays and frames are described by type and shape, never by their content, which may be private.

    Examples
    --------
    >>> describe(3)
    '3 (int)'
    >>> import numpy as np
    >>> describe(np.zeros((2, 3)))
    'an ndarray of shape (2, 3)'
    """
    kind = type(value).__name__
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape != ():
        article = "an" if kind[0].lower() in "aeioun" else "a"
        return f"{article} {kind} of shape {shape}"
    if kind == "ndarray":
        return "a single value (ndarray)"
    if isinstance(value, (list, tuple, set, frozenset, dict)):
        return f"a {kind} of length {len(value)}"
    try:
        text = repr(value)
    except ValueError:  # Python writes no integer of more than some thousand digits
        return f"a number of {value.bit_length()} bits ({kind})" if isinstance(value, int) else f"a value ({kind})"
    if len(text) > _REPR_LIMIT:
        text = text[: _REPR_LIMIT - 3] + "..."
    return f"{text} ({kind})"


def _sentence(name, expected, value, advice):
    text = f"{name} must be {expected}; got {describe(value)}"
    return f"{text}. {advice}" if advice else f"{text}."


def invalid_value(name, expected, value, advice=""):
    """Return the error for a value outside its range (the caller raises it).

    Examples
    --------
    >>> str(invalid_value("delta", "in (0, 1)", 2.0, "Pass e.g. delta=1e-6."))
    'delta must be in (0, 1); got 2.0 (float). Pass e.g. delta=1e-6.'
    """
    return InvalidParameterError(_sentence(name, expected, value, advice))


def invalid_type(name, expected, value, advice=""):
    """Return the error for a value of the wrong type (the caller raises it).

    Examples
    --------
    >>> str(invalid_type("mean", "a real number", True))
    'mean must be a real number; got True (bool).'
    """
    return InvalidTypeError(_sentence(name, expected, value, advice))


def _interval(low, high, low_open, high_open):
    if low is None and high is None:
        return ""
    left = "(" if low_open or low is None else "["
    right = ")" if high_open or high is None else "]"
    return f" in {left}{'-inf' if low is None else low}, {'inf' if high is None else high}{right}"


def check_real(
    name, value, *, low=None, high=None, low_open=False, high_open=False, allow_inf=False, advice=""
):
    """Return ``value`` as a float, or raise one clear error.

    Booleans, strings, arrays and NaN are refused. ``low`` and ``high`` bound the range, closed unless
    ``low_open`` or ``high_open``.

    Raises
    ------
    InvalidTypeError, InvalidParameterError

    Examples
    --------
    >>> check_real("delta", 1e-6, low=0, high=1)
    1e-06
    """
    expected = f"a real number{_interval(low, high, low_open, high_open)}"
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise invalid_type(name, expected, value, advice)
    try:
        number = float(value)
    except OverflowError:  # an integer or a fraction beyond every double
        number = math.inf if value > 0 else -math.inf
    bad = math.isnan(number) or (math.isinf(number) and not allow_inf)
    if low is not None:
        bad = bad or number < low or (low_open and number == low)
    if high is not None:
        bad = bad or number > high or (high_open and number == high)
    if bad:
        if math.isinf(number) and low is None and high is None:  # the range does not say it
            expected = "a finite real number"
        raise invalid_value(name, expected, value, advice)
    return number


def check_integer(name, value, *, low=None, high=None, advice=""):
    """Return ``value`` as an int, or raise one clear error (booleans and floats are refused).

    Examples
    --------
    >>> check_integer("steps", 3, low=1)
    3
    """
    integral = type(value) is int or (isinstance(value, numbers.Integral) and not isinstance(value, bool))
    number = int(value) if integral else None
    if integral and (low is None or number >= low) and (high is None or number <= high):
        return number
    complain = invalid_value if integral else invalid_type
    raise complain(name, f"an integer{_interval(low, high, False, False)}", value, advice)


def check_seed(name, value, advice="Leave it at None for a release."):
    """Return ``value`` if it can seed NumPy: None, an integer in [0, 2**32 - 1], or a RandomState.

    Examples
    --------
    >>> check_seed("random_state", 7)
    7
    """
    from numpy.random import RandomState  # here: the command line's help loads this file, and no NumPy

    expected = f"None, an integer in [0, {_LARGEST_SEED}] or a numpy RandomState"
    if value is None or isinstance(value, RandomState):
        return value
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise invalid_type(name, expected, value, advice)
    if not 0 <= value <= _LARGEST_SEED:
        raise invalid_value(name, expected, value, advice)
    return value


def check_choice(name, value, choices, advice=""):
    """Return ``value`` if it is one of ``choices`` (compared by equality with strings only).

    Examples
    --------
    >>> check_choice("refit", "winner", ("winner", True, False))
    'winner'
    """
    for choice in choices:
        if value is choice or (isinstance(choice, str) and isinstance(value, str) and value == choice):
            return choice
    expected = "one of " + ", ".join(repr(choice) for choice in choices)
    raise invalid_value(name, expected, value, advice)


def check_instance(name, value, kinds, expected, advice=""):
    """Return ``value`` if it is an instance of ``kinds``; ``expected`` words the complaint.

    Examples
    --------
    >>> check_instance("level", 3, int, "an int")
    3
    """
    if not isinstance(value, kinds):
        raise invalid_type(name, expected, value, advice)
    return value
