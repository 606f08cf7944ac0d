"""Numbers as printed: never on the wrong side of the number they stand for."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

__all__ = [
    "decimals",
    "nats_up",
    "number",
    "percent_down",
    "percent_up",
    "significant_down",
    "significant_up",
    "to_places",
]

_DIRECTIONS = {True: ROUND_CEILING, False: ROUND_FLOOR}
# A double is a decimal number of at most 767 digits: nothing is lost before the rounding that is asked for.
_EXACT = Context(prec=1200)


def to_places(value, places, *, up):
    """Return a Decimal with ``places`` decimals (negative: before the point), rounded up or down."""
    return value.quantize(Decimal(1).scaleb(-places), rounding=_DIRECTIONS[up], context=_EXACT)


def _significant(value, digits, up):
    if value == 0:
        return value
    return to_places(value, digits - 1 - value.adjusted(), up=up)


def decimals(value, places, *, up):
    """Write a number with ``places`` decimals, rounded up or down from the shortest decimal that stands for it.

    What has no more decimals than that stays what it is: 0.1 is taken for a tenth.

    Examples
    --------
    >>> decimals(1.8361, 3, up=True), decimals(0.8999, 3, up=False), decimals(0.1, 3, up=True)
    ('1.837', '0.899', '0.100')
    >>> decimals(1.0000000000000002, 3, up=True), decimals(float("inf"), 3, up=True)
    ('1.001', 'inf')
    """
    if not math.isfinite(value):
        return str(value)
    return format(to_places(Decimal(repr(float(value))), places, up=up), "f")


def significant_up(value, digits=3):
    """Write a number >= 0 with ``digits`` significant digits, rounded up.

    Examples
    --------
    >>> significant_up(0.00123401), significant_up(2.0), significant_up(12345.6), significant_up(float("inf"))
    ('0.00124', '2', '12400', 'infinite')
    >>> significant_up(1.234e-9)
    '1.24e-9'
    """
    return _written(value, digits, up=True)


def significant_down(value, digits=3):
    """Write a number >= 0 with ``digits`` significant digits, rounded down.

    Examples
    --------
    >>> significant_down(99999.9), significant_down(0.0012399)
    ('99900', '0.00123')
    """
    return _written(value, digits, up=False)


def _written(value, digits, up):
    if not math.isfinite(value):
        return "infinite"
    return _notation(_significant(Decimal(value), digits, up))


def _notation(rounded):
    if rounded and not -4 <= rounded.adjusted() < 7:
        exponent = rounded.adjusted()
        return f"{_plain(rounded.scaleb(-exponent))}e{exponent}"
    return _plain(rounded)


def _plain(value):
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def nats_up(value):
    """Write an epsilon with four decimals, rounded up; very small and very large ones with three digits.

    Examples
    --------
    >>> nats_up(1.93690001), nats_up(2.0), nats_up(0.0), nats_up(1e-6), nats_up(float("inf"))
    ('1.9370', '2.0000', '0.0000', '1e-6', 'infinite')
    """
    if value == 0 or 1e-3 <= value < 1e6:
        return format(to_places(Decimal(value), 4, up=True), "f")
    return significant_up(value)


def percent_up(share):
    """Write a share in [0, 1] as a percentage, rounded up.

    Examples
    --------
    >>> percent_up(0.24015), percent_up(0.038946), percent_up(0.00499), percent_up(1.0), percent_up(0.0)
    ('24.1 %', '3.90 %', '0.50 %', '100 %', '0 %')
    """
    return _percent(share, up=True)


def percent_down(share):
    """Write a share in [0, 1] as a percentage, rounded down.

    Examples
    --------
    >>> percent_down(0.9610546), percent_down(1.0), percent_down(0.99999999)
    ('96.1 %', '100 %', '99.9 %')
    """
    return _percent(share, up=False)


def _percent(share, up):
    value = _EXACT.multiply(Decimal(share), Decimal(100))
    if value == 0 or value == 100:
        return f"{value:.0f} %"
    if value >= 10:
        value = to_places(value, 1, up=up)
        return f"{value:.0f} %" if value == 100 else f"{value} %"
    if value >= Decimal("0.1"):
        return f"{to_places(value, 2, up=up):f} %"
    return f"{_notation(_significant(value, 2, up))} %"


def number(value, digits=4):
    """Write a public number (a mean, a probability) that needs no direction; None and infinity in words.

    Examples
    --------
    >>> number(20.0), number(None), number(float("inf"))
    ('20', 'not known', 'infinite')
    """
    if value is None:
        return "not known"
    return f"{value:.{digits}g}" if math.isfinite(value) else "infinite"
