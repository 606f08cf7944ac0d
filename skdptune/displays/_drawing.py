"""What all displays share: axes, styles that need no colour, labels, numbers rounded to the private side.

matplotlib is imported inside the functions, so that displays can be imported without it.
"""

import warnings

import numpy as np

from skdptune._exceptions import MissingDependencyError
from skdptune._rounding import as_given, decimals, significant_up
from skdptune._validation import invalid_type, invalid_value

__all__ = [
    "HAIRLINE",
    "STYLES",
    "axes_for",
    "check_axes",
    "foreground",
    "label_down",
    "label_up",
    "legend_above",
    "legend_for",
    "number",
    "one_line",
    "plain_numbers",
    "pyplot",
    "room",
    "style_for",
    "tighten",
    "titled",
]

# Colours tell apart under the common kinds of colour blindness and have a contrast of 3 or more on white and on
# black; each comes with its own dash pattern and marker, so none is needed to read a figure.
STYLES = (
    {"color": "#0072b2", "linestyle": "-", "marker": "o"},
    {"color": "#d55e00", "linestyle": "--", "marker": "s"},
    {"color": "#00906a", "linestyle": "-.", "marker": "^"},
    {"color": "#c0629a", "linestyle": ":", "marker": "D"},
    {"color": "#808080", "linestyle": (0, (7, 2)), "marker": "v"},
    {"color": "#a8741a", "linestyle": (0, (3, 1, 1, 1, 1, 1)), "marker": "P"},
    {"color": "#6a7fd6", "linestyle": (0, (1, 3)), "marker": "X"},
)
HAIRLINE = {"linestyle": (0, (2, 2)), "linewidth": 0.8, "alpha": 0.7}
_COMMON = {"markersize": 5, "linewidth": 1.6}
_OURS = "skdptune"  # group id of the lines that displays drew: the next ones continue the cycle of styles


def pyplot(caller):
    """Return matplotlib.pyplot, or raise naming ``caller`` and the repair."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingDependencyError(
            f"{caller} requires matplotlib. Install it with `pip install matplotlib`, or with `pip install '.[plot]'` "
            "in a clone of the project."
        ) from error
    return plt


def axes_for(caller, ax):
    """Return ``ax`` if a display can draw there, or the axes of a new figure if it is None."""
    plt = pyplot(caller)
    return plt.subplots()[1] if ax is None else check_axes(ax)


def check_axes(ax):
    """Return ``ax`` if it is one pair of straight axes in a figure; else raise, saying what to pass."""
    from matplotlib.axes import Axes

    expected = "one matplotlib Axes"
    if not isinstance(ax, Axes):
        advice = "Pass None for a new figure, or fig.subplots() of a figure or a subfigure."
        if hasattr(ax, "__len__"):
            advice = "Pass one of them, e.g. ax[0]."
        raise invalid_type("ax", expected, ax, advice)
    if ax.name != "rectilinear":
        advice = "Lines would be bent. Make the axes without projection=."
        raise invalid_value("ax", "axes with straight scales", f"{ax.name} axes", advice)
    if ax.figure is None or not _shown(ax, ax.figure.axes):
        advice = "Pass None, or make new ones with fig.subplots()."
        raise invalid_value("ax", "axes of a figure", "axes that were removed from theirs", advice)
    return ax


def _shown(ax, among):
    """Whether axes are among those of a figure, or inside (or on top of) one of them."""
    return any(ax is each or _shown(ax, [*each.child_axes, *getattr(each, "parasites", ())]) for each in among)


def foreground(ax):
    """Return the colour of the axes' text: dark on light figures, light on dark ones."""
    return ax.xaxis.label.get_color()


def style_for(ax, kwargs=None, **changes):
    """Return keyword arguments for the next line on ``ax``: an unused colour, dash pattern and marker together.

    ``kwargs`` wins over ``changes``, both win over the cycle; short names such as ``lw`` are understood.
    """
    from matplotlib import cbook
    from matplotlib.lines import Line2D

    used = sum(line.get_gid() == _OURS for line in ax.get_lines())
    style = {**_COMMON, **STYLES[used % len(STYLES)], "markevery": 0.12, "gid": _OURS, **changes}
    # the second time round, hollow markers tell the lines from those of the first
    style["markerfacecolor"] = "none" if (used // len(STYLES)) % 2 else style["color"]
    given = cbook.normalize_kwargs(kwargs or {}, Line2D)
    if "color" in given and "markerfacecolor" not in given:
        style["markerfacecolor"] = given["color"]
    return {**style, **given}


def one_line(ax, x, y, label, kwargs=None, **changes):
    """Draw one line in the next style; infinite and undefined points are left out without a warning.

    So is a line that has no place on a logarithmic axis because it is 0 everywhere; its label remains.
    """
    y = np.where(np.isfinite(y), y, np.nan)
    x = np.where(np.isfinite(x), x, np.nan)
    if ax.get_yscale() == "log" and not np.any(y > 0):
        y = np.full_like(y, np.nan)
    if not np.any(np.isfinite(x + y)):
        changes["markevery"] = None  # matplotlib cannot space the markers of nothing
    return ax.plot(x, y, label=label, **style_for(ax, kwargs, **changes))[0]


def plain_numbers(axis):
    """Write all ticks of a logarithmic axis alike: 0.2, 1, 40, and 1e-5 where zeros would have to be counted.

    matplotlib writes powers of ten beside multiples of them (10^0 beside 4 x 10^0), and more of them than there is
    room for.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=9))
    axis.set_major_formatter(FuncFormatter(lambda value, _: number(float(f"{value:.6g}"))))
    axis.set_minor_formatter(NullFormatter())


def legend_above(ax, low, high, wanted=True, **kwargs):
    """Draw a legend over all lines of a figure whose y axis is logarithmic, making room for it above ``high``.

    No value is drawn or ticked there. Where lines fill a figure, matplotlib's best place is on one of them.
    """
    legend = legend_for(ax, wanted, loc="upper right", **kwargs)
    if legend is None:
        return
    share = legend.get_window_extent().height / ax.get_window_extent().height + 0.03
    if share < 0.6:
        ax.set_ylim(low, high * (high / low) ** (share / (1 - share)))
        ax.set_yticks([tick for tick in ax.get_yticks() if low <= tick <= high])


def room(ax):
    """Return width and height of the axes in inches."""
    box = ax.get_window_extent()
    return box.width / ax.figure.dpi, box.height / ax.figure.dpi


def titled(ax, title):
    """Write a title, unless the caller has set one."""
    if not ax.get_title():
        ax.set_title(title, fontsize="medium" if room(ax)[0] > 2.5 else "x-small")


def legend_for(ax, wanted=True, **kwargs):
    """Draw a legend with handles long enough to show dash and marker; none where it would hide the figure."""
    width, height = room(ax)
    if not wanted or width < 2 or height < 1.3 or not ax.get_legend_handles_labels()[1]:
        return None
    size = "small" if min(width, 1.3 * height) > 3.2 else "x-small"
    return ax.legend(**{"handlelength": 3.2, "fontsize": size, "framealpha": 0.85, "loc": "best", **kwargs})


def tighten(figure):
    """Lay out a figure that a display has made; too small a figure stays as it is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # matplotlib warns where there is no room for margins
        figure.tight_layout()


def label_up(value):
    """Return a price as text for a figure: three decimals, never smaller than it is, by however little.

    What is smaller than 0.001 has three significant digits instead: an epsilon of 1e-7 is not shown as 0.001. Numbers
    are taken for the shortest decimals that stand for them: 0.1 is a tenth.

    Examples
    --------
    >>> label_up(1.8361), label_up(0.1), label_up(float("inf"))
    ('1.837', '0.100', 'inf')
    >>> label_up(1.0000000000000002), label_up(1.234e-7), label_up(0.0)
    ('1.001', '1.24e-07', '0.000')
    """
    return significant_up(value) if 0 < value < 1e-3 else decimals(value, 3, up=True)


def label_down(value):
    """Return a lower bound as text for a figure: three decimals, never larger than it is, by however little.

    Examples
    --------
    >>> label_down(0.8999), label_down(0.1), label_down(0.9999999999999999), label_down(1e-7)
    ('0.899', '0.100', '0.999', '0.000')
    """
    return decimals(value, 3, up=False)


def number(value):
    """Return a number that was given by the caller as text, e.g. a delta: whole, since nothing else was asked about.

    Examples
    --------
    >>> number(1e-5), number(0.01), number(10.0), number(1.23456789e-5)
    ('1e-5', '0.01', '10', '1.23456789e-5')
    """
    mantissa, _, exponent = as_given(value).partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa
