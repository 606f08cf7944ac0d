"""Numbers to text, rounded to the private side, and plain tables that fit the terminal."""

import math
import shutil
import textwrap
from decimal import Decimal

from skdptune._rounding import to_places
from skdptune._writing import plain

__all__ = ["down", "noted", "notes_on", "plain", "round_safely", "table", "up", "width", "wrapped"]

_DECIMALS = 2
_SIGNIFICANT = 3
_LARGE = 9  # numbers of more digits, or decimals, get an exponent


def width():
    """Columns to fill: those of the terminal, and 80 where there is none."""
    try:
        return max(40, shutil.get_terminal_size((80, 24)).columns)
    except (ValueError, OSError):
        return 80


def up(value, significant=_SIGNIFICANT):
    """Return ``value`` as text, rounded up: at least two decimals and three significant digits.

    Examples
    --------
    >>> up(3.5919), up(0.00123456), up(2.0), up(float("inf"))
    ('3.60', '0.00124', '2.00', 'inf')
    >>> up(0.99996), up(1e-12), up(0.0), up(0.1)
    ('1.00', '1.00e-12', '0.00', '0.100')
    """
    return _text(value, significant, up=True)


def down(value, significant=_SIGNIFICANT):
    """Return ``value`` as text, rounded down; for lower bounds and for what is left.

    Examples
    --------
    >>> down(2.7409), down(0.99999)
    ('2.74', '0.999')
    """
    return _text(value, significant, up=False)


def _text(value, significant, *, up):
    value = float(value)
    if not math.isfinite(value):
        return str(value)
    exact = Decimal(repr(value))  # the number that --json prints, and no other: a tenth is a tenth
    rounded = _quantized(exact, exact.adjusted(), significant, up=up)
    if rounded.adjusted() > exact.adjusted():  # 0.9999 became 1.000: one digit too many
        rounded = _quantized(exact, rounded.adjusted(), significant, up=up)
    if abs(rounded.adjusted()) < _LARGE:
        return f"{rounded:f}"
    return f"{rounded:.{significant - 1}e}"  # has no more digits than that: nothing is rounded here


def _quantized(exact, magnitude, significant, *, up):
    decimals = significant - 1 - magnitude
    if exact == 0 or abs(magnitude) < _LARGE:
        decimals = _DECIMALS if exact == 0 else max(_DECIMALS, decimals)
    return to_places(exact, decimals, up=up)


def round_safely(value, significant, upwards):
    """Return the nearest float with ``significant`` digits that is not below (``upwards``) or not above ``value``.

    Examples
    --------
    >>> round_safely(1.23456789, 4, True), round_safely(1.23456789, 4, False)
    (1.235, 1.234)
    """
    exact = Decimal(repr(float(value)))
    rounded = float(to_places(exact, significant - 1 - exact.adjusted(), up=upwards))
    # the nearest float of a decimal may lie on the other side of the value
    return max(rounded, value) if upwards else min(rounded, value)


def wrapped(text, indent=0, first=None, columns=None):
    """Return ``text`` broken at spaces, later lines indented; ``first`` starts the first line."""
    lead = " " * indent if first is None else first
    return textwrap.fill(
        text, (columns or width()) - 1, initial_indent=lead, subsequent_indent=" " * indent, break_on_hyphens=False
    )


def notes_on(curve, delta):
    """Return what must be said beside this price, in the words of reports."""
    from skdptune.report._notes import price_notes

    return price_notes(curve, delta)


def noted(data):
    """Return the lines of ``data["notes"]``, below a table; none where there is nothing to say."""
    lines = [wrapped(f"NOTE: {text}", 6, "") for text in data["notes"]]
    return ["", *lines] if lines else []


def table(headers, rows, sides, columns=None):
    """Return a plain table; the last column that is text ("<") is broken if it would not fit.

    Parameters
    ----------
    headers : sequence of str
        A newline in a header makes a second line of it.
    rows : sequence of sequences of str
    sides : str
        One of "<" and ">" per column.
    columns : int, optional
        Width to fill; None: that of the terminal.
    """
    columns = columns or width()
    cells = [[[*cell.split("\n")] for cell in line] for line in (headers, *rows)]
    widths = [max(len(part) for line in cells for part in line[i]) for i in range(len(sides))]
    elastic = max((i for i, side in enumerate(sides) if side == "<"), key=lambda i: widths[i], default=None)
    spare = columns - 1 - sum(widths) - 2 * (len(sides) - 1)
    if spare < 0 and elastic is not None:
        words = [word for line in cells for part in line[elastic] for word in part.split()]
        # a name is broken only where it alone would take a third of the page
        longest = min(2 + max(map(len, words), default=0), columns // 3)
        widths[elastic] = min(widths[elastic], max(12, longest, widths[elastic] + spare))
        for line in cells:
            line[elastic] = [
                piece
                for part in line[elastic]
                for piece in (
                    textwrap.wrap(part, widths[elastic], subsequent_indent="  ", break_on_hyphens=False) or [""]
                )
            ]
    return "\n".join(_lines(line, sides, widths) for line in cells)


def _lines(cells, sides, widths):
    height = max(len(cell) for cell in cells)
    padded = [cell + [""] * (height - len(cell)) for cell in cells]
    return "\n".join(
        "  ".join(f"{cell[n]:{side}{w}}" for cell, side, w in zip(padded, sides, widths, strict=True)).rstrip()
        for n in range(height)
    )
