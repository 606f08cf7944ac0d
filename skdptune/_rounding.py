"""Numbers as printed: never on the wrong side of the number they stand for.

A double is taken for the shortest decimal that reads back as it, as Python prints it: 0.1 is a tenth here, whatever
the sum of powers of two that is nearest to a tenth. Every function below rounds from that one number, so the same
price reads alike wherever it is printed, and what was typed with few digits is printed as it was typed.
"""

import math
from decimal import MAX_EMAX, ROUND_CEILING, ROUND_FLOOR, Context, Decimal

__all__ = [
    "as_given",
    "decimals",
    "delta_up",
    "nats_up",
    "number",
    "one_in",
    "plain_as_given",
    "percent_as_given",
    "percent_down",
    "percent_up",
    "power_up",
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


def _shortest(value):
    """Return the shortest decimal that reads back as the double ``value``, as a Decimal."""
    return Decimal(repr(float(value)))


def _significant(value, digits, up):
    if value == 0:
        return value
    return to_places(value, digits - 1 - value.adjusted(), up=up)


def decimals(value, places, *, up):
    """Write a number with ``places`` decimals, rounded up or down.

    Examples
    --------
    >>> decimals(1.8361, 3, up=True), decimals(0.8999, 3, up=False), decimals(0.1, 3, up=True)
    ('1.837', '0.899', '0.100')
    >>> decimals(1.0000000000000002, 3, up=True), decimals(float("inf"), 3, up=True)
    ('1.001', 'inf')
    """
    if not math.isfinite(value):
        return str(value)
    return format(to_places(_shortest(value), places, up=up), "f")


def as_given(value):
    """Write a number that somebody chose (a delta, a target, an order) whole, with every digit it has.

    A delta that was asked about is part of the claim: rounded down it would claim more than was proved.

    Examples
    --------
    >>> as_given(1e-6), as_given(0.00012345678), as_given(1.23456789e-5), as_given(8), as_given(0.0)
    ('1e-06', '0.00012345678', '1.23456789e-05', '8', '0')
    >>> as_given(0.9999999999999999), as_given(float("inf"))
    ('0.9999999999999999', 'inf')
    """
    text = repr(float(value))
    return text.removesuffix(".0") if value else "0"


def plain_as_given(value):
    """Write a delta that somebody chose as people write it, without an exponent, with every digit it has.

    Deltas below 1e-12 are written as :func:`as_given` writes them: nobody counts so many zeros.

    Examples
    --------
    >>> plain_as_given(1e-6), plain_as_given(0.00012345678), plain_as_given(0.0), plain_as_given(1e-20)
    ('0.000001', '0.00012345678', '0', '1e-20')
    """
    if not 1e-12 <= value < math.inf:
        return as_given(value)
    return _plain(_shortest(value))


def delta_up(value, digits=3):
    """Write a delta (or a mass) that was computed, rounded up to ``digits`` significant digits.

    Written as :func:`as_given` writes numbers; only a zero is written as ``0``.

    Examples
    --------
    >>> delta_up(1.2340001e-9), delta_up(1e-6), delta_up(0.0), delta_up(5e-324), delta_up(0.99999)
    ('1.24e-09', '1e-06', '0', '5e-324', '1')
    """
    if not math.isfinite(value):
        return as_given(value)
    rounded = _significant(_shortest(value), digits, True)  # up: a smaller delta would be a stronger claim
    return as_given(rounded)


def significant_up(value, digits=3):
    """Write a number >= 0 with ``digits`` significant digits, rounded up.

    Examples
    --------
    >>> significant_up(0.00123401), significant_up(2.0), significant_up(12345.6), significant_up(float("inf"))
    ('0.00124', '2', '12400', 'infinite')
    >>> significant_up(1.234e-9)
    '1.24e-09'
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
    return _notation(_significant(_shortest(value), digits, up))


def _notation(rounded):
    if rounded and not -4 <= rounded.adjusted() < 7:
        exponent = rounded.adjusted()
        # two digits after a minus, as Python writes them: 1e-06 reads alike wherever it comes from
        return f"{_plain(rounded.scaleb(-exponent))}e{exponent:0{3 if exponent < 0 else 1}d}"
    return _plain(rounded)


def _plain(value):
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def nats_up(value):
    """Write an epsilon with four decimals, rounded up; very small and very large ones with three digits.

    Examples
    --------
    >>> nats_up(1.93690001), nats_up(2.0), nats_up(0.1), nats_up(0.0), nats_up(1e-6), nats_up(float("inf"))
    ('1.9370', '2.0000', '0.1000', '0.0000', '1e-06', 'infinite')
    """
    if value == 0 or 1e-3 <= value < 1e6:
        return decimals(value, 4, up=True)
    return significant_up(value)


def one_in(share):
    """Write the number N of the largest "1 in N" chance that a share > 0 stands for: N is rounded down.

    Examples
    --------
    >>> one_in(1e-5), one_in(0.3), one_in(0.00012345), one_in(1e-5 * (1 + 1e-11)), one_in(5e-324)
    ('100000', '3.33', '8100', '99900', '2e323')
    """
    # digits cut off twice are still rounded down: a smaller N is a larger chance
    whole = Context(prec=60, rounding=ROUND_FLOOR, Emin=-1200, Emax=1200).divide(Decimal(1), _shortest(share))
    return _notation(_significant(whole, 3, False))


def percent_as_given(share):
    """Write a share that somebody chose as a percentage, with every digit it has.

    Examples
    --------
    >>> percent_as_given(0.2), percent_as_given(0.07), percent_as_given(0.0051234567891), percent_as_given(1 / 3)
    ('20 %', '7 %', '0.51234567891 %', '33.33333333333333 %')
    """
    return f"{_notation(_EXACT.multiply(_shortest(share), Decimal(100)))} %"


def percent_up(share):
    """Write a share in [0, 1] as a percentage, rounded up.

    Examples
    --------
    >>> percent_up(0.24015), percent_up(0.038946), percent_up(0.00499), percent_up(1.0), percent_up(0.0)
    ('24.1 %', '3.90 %', '0.50 %', '100 %', '0 %')
    """
    return _percent(share, up=True)


def power_up(exponent):
    """Write e to the power of a finite number >= 0 with three significant digits, rounded up.

    Examples
    --------
    >>> power_up(0.0), power_up(1.0), power_up(20.0), power_up(1000.0)
    ('1', '2.72', '4.86e8', '1.98e434')
    """
    context = Context(prec=40, Emin=-MAX_EMAX, Emax=MAX_EMAX)
    power = context.next_plus(context.exp(_shortest(exponent))) if exponent else Decimal(1)  # rounded up
    return _notation(_significant(power, 3, True))


def percent_down(share):
    """Write a share in [0, 1] as a percentage, rounded down.

    Examples
    --------
    >>> percent_down(0.9610546), percent_down(1.0), percent_down(0.99999999)
    ('96.1 %', '100 %', '99.9 %')
    """
    return _percent(share, up=False)


def _percent(share, up):
    value = _EXACT.multiply(_shortest(share), Decimal(100))
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
