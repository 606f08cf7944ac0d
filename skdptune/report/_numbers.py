"""Prices and bounds as text for scripts and notebooks: ``f"{epsilon:.2f}"`` rounds half of them the wrong way."""

import math

from skdptune._rounding import decimals
from skdptune._validation import check_integer, check_real

__all__ = ["round_down", "round_up"]


def round_up(value, digits=4):
    """Write a price or another upper bound (an epsilon, an advantage, noise to be used) with decimals, rounded up.

    Parameters
    ----------
    value : float
        May be infinite.
    digits : int in [0, 300], default=4
        Decimals.

    Returns
    -------
    str
        The least number with that many decimals that is not smaller than ``value``. A positive price never reads as
        zero.

    Raises
    ------
    InvalidTypeError, InvalidParameterError

    Notes
    -----
    *Guarantee.* What holds at ``value`` holds at the number that is written: a bound may be weakened and never
    strengthened by printing it.

    Examples
    --------
    >>> from skdptune.report import round_up
    >>> round_up(1.93681), round_up(0.1), round_up(3.60001, 2), round_up(1e-9, 3), round_up(float("inf"))
    ('1.9369', '0.1000', '3.61', '0.001', 'inf')
    """
    return _written(value, digits, up=True)


def round_down(value, digits=4):
    """Write a lower bound (a budget that is left, an attacker's error, a quantile) with decimals, rounded down.

    Parameters
    ----------
    value : float
        May be infinite.
    digits : int in [0, 300], default=4
        Decimals.

    Returns
    -------
    str
        The largest number with that many decimals that is not larger than ``value``.

    Raises
    ------
    InvalidTypeError, InvalidParameterError

    Examples
    --------
    >>> from skdptune.report import round_down
    >>> round_down(0.89999), round_down(0.29, 2), round_down(1.05 - 1e-9, 2)
    ('0.8999', '0.29', '1.04')
    """
    return _written(value, digits, up=False)


def _written(value, digits, up):
    value = check_real("value", value, allow_inf=True, advice="Round one number at a time.")
    text = decimals(value, check_integer("digits", digits, low=0, high=300), up=up)
    return text.removeprefix("-") if float(text) == 0 and math.isfinite(value) else text
