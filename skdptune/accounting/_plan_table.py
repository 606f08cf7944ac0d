"""The rows of a plan, and the table they print as."""

import functools
from collections.abc import Sequence

from skdptune._rounding import decimals

__all__ = ["MEAN_PLACES", "Plan", "mean_down"]

MEAN_PLACES = 3  # decimals of a mean that a plan chooses: what a table shows is then all of it

_UP = functools.partial(decimals, places=4, up=True)  # to the private side
_DOWN = functools.partial(decimals, places=4, up=False)  # what is promised of the best try


def mean_down(mean):
    """Write a mean, rounded down: at a smaller mean the epsilon beside it still holds.

    The mean of a distribution comes out of its parameters with an error of a few 1e-14: that is taken out first.

    Examples
    --------
    >>> mean_down(16.2199), mean_down(16.21), mean_down(7.999999999999986)
    ('16.219', '16.210', '8.000')
    """
    return decimals(float(f"{mean:.12g}"), MEAN_PLACES, up=False)


# What decides comes first: on a narrow page the rest is beyond the edge.
_COLUMNS = (
    ("distribution", "{}".format, "<"),
    ("search_epsilon", _UP, ">"),
    ("single_run_epsilon", _UP, ">"),
    ("setting", "{!r}".format, ">"),
    ("expected_quantile", _DOWN, ">"),
    ("success_probability", _DOWN, ">"),
    ("mean", mean_down, ">"),
    ("runs_99", "{:d}".format, ">"),
    ("kind", "{}".format, "<"),
)


class Plan(Sequence):
    """The rows of :func:`plan`: a sequence of dictionaries that prints as a table.

    ``pandas.DataFrame(plan)`` takes it as it is. The table rounds epsilons up, and means and chances down.

    Attributes
    ----------
    best : dict or None
        The row that is best by ``criterion``; None if no row qualifies.
    criterion : str
        What makes a row the best.
    left_out : tuple of str
        Distributions that do not meet the caps, or cannot reach what was asked.
    target_epsilon : float or None
        The epsilon at which whole searches were to stay, in nats.
    """

    def __init__(self, rows, best, criterion, left_out=(), target_epsilon=None):
        self._rows = tuple(dict(row) for row in rows)
        self._best = best
        self.criterion = criterion
        self.left_out = tuple(left_out)
        self.target_epsilon = target_epsilon

    @property
    def best(self):
        """The best row as a dictionary, or None."""
        return None if self._best is None else dict(self._rows[self._best])

    def __len__(self):
        return len(self._rows)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return [dict(row) for row in self._rows[index]]
        return dict(self._rows[index])

    def __repr__(self):
        return f"<Plan of {len(self)} rows>\n{self}"

    def __str__(self):
        usual = {"kind": "named"}  # a column that says nothing is left out
        kept = [c for c in _COLUMNS if any(row.get(c[0]) not in (None, usual.get(c[0])) for row in self._rows)]
        cells = [[""] + [name for name, _, _ in kept]]
        for number, row in enumerate(self._rows):
            mark = "*" if number == self._best else ""
            values = [row.get(name) for name, _, _ in kept]
            texts = ["-" if v is None else f(v) for v, (_, f, _) in zip(values, kept, strict=True)]
            cells.append([mark, *texts])
        sides = ["<", *(side for _, _, side in kept)]
        widths = [max(len(line[i]) for line in cells) for i in range(len(sides))]
        lines = [
            "  ".join(f"{text:{side}{w}}" for text, side, w in zip(line, sides, widths, strict=True)).rstrip()
            for line in cells
        ]
        notes = [f"{'no row is the best' if self._best is None else '* best'}: {self.criterion}"]
        notes += [f"left out: {'; '.join(self.left_out)}"] if self.left_out else []
        return "\n".join([*lines, *notes])
