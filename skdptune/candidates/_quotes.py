"""scikit-learn's complaints about rows, without the cells that some of them quote."""

from skdptune._exceptions import InvalidParameterError

__all__ = ["without_cells"]

# What a complaint that quotes cells contains -> what is said instead.
_SAID = {
    "Complex data": "Complex data not supported: X and y must hold real numbers. Split real and imaginary parts.",
    "Expected 2D": "Expected 2D array, got another number of dimensions instead. Reshape your data: .reshape(-1, 1) "
    "for a single column, .reshape(1, -1) for a single row.",
    "array=": "X must be an array with one row per sample, and y one target per row.",
    "could not convert": "X must be numeric; it holds text. Encode its columns with public categories.",
}
_HARMLESS = "argument must be"  # names a type


def without_cells(check, *args, **kwargs):
    """Call one of scikit-learn's checks; where it complains by quoting cells, complain without them.

    Raises
    ------
    InvalidParameterError
        In place of errors that quote cells; others pass.

    Examples
    --------
    >>> from sklearn.utils import check_array
    >>> without_cells(check_array, [1j])
    Traceback (most recent call last):
    ...
    skdptune._exceptions.InvalidParameterError: Complex data not supported: X and y must hold real numbers. ...
    """
    try:
        return check(*args, **kwargs)
    except (ValueError, TypeError, OverflowError) as error:
        message = str(error)
        said = next((said for mark, said in _SAID.items() if mark in message), None)
        if said is None:
            if isinstance(error, ValueError) or _HARMLESS in message:
                raise
            said = "X must be numeric; it holds dates or other objects. Encode its columns with public categories."
    raise InvalidParameterError(said)  # here, so that the error above does not hang on it
