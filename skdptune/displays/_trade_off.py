"""TradeOffDisplay: what an attacker's test can reach (f-DP)."""

import numpy as np

from skdptune._validation import check_real
from skdptune.accounting._trade_off import profile_nodes, trade_off
from skdptune.accounting.selection import SelectedCurve
from skdptune.displays import _drawing as drawing
from skdptune.displays import _sources as sources
from skdptune.displays._base import CurvesDisplay

__all__ = ["TradeOffDisplay", "trade_off_points"]

def trade_off_points(curve):
    """Return the corners of the trade-off curve: straight lines between them are the curve itself.

    The bound is the largest of finitely many straight lines, one pair for each (epsilon, delta) that is known. Its
    corners are where one line takes over from the next; between corners nothing is rounded or interpolated.

    Parameters
    ----------
    curve : PrivacyCurve

    Returns
    -------
    alpha : ndarray of shape (n,), ascending from 0 to 1
        Type I errors.
    beta : ndarray of shape (n,), not rising
        Lower bounds of the type II error.
    """
    epsilons, deltas = profile_nodes(curve)
    # every line, however steep: the curve is convex, so a chord that leaves a corner out would lie above it
    slopes, heights = _hull(np.exp(epsilons), 1 - deltas)
    corners = np.diff(heights) / np.diff(slopes) if slopes.size > 1 else np.empty(0)
    corners = np.unique(np.clip(corners, 0.0, 1.0))
    mirrored = np.clip(trade_off(curve, np.append(0.0, corners)), 0.0, 1.0)  # the curve is its own inverse
    alpha = np.unique(np.concatenate([[0.0, 1.0], corners, mirrored]))
    # towards zero, the private side: what lies between two points that differ by rounding alone
    return alpha, np.minimum.accumulate(trade_off(curve, alpha))


def _hull(slopes, heights):
    """Return the lines height - slope * alpha that are the largest somewhere, slopes ascending."""
    kept = []
    for slope, height in zip(slopes.tolist(), heights.tolist(), strict=True):
        if kept and height <= kept[-1][1]:
            continue  # steeper and not higher: below the last one everywhere
        while len(kept) > 1:
            (s0, h0), (s1, h1) = kept[-2:]
            # the middle line is the largest nowhere if the new one overtakes it before it overtakes the first
            if (height - h1) * (s1 - s0) < (h1 - h0) * (slope - s1):
                break
            kept.pop()
        kept.append((slope, height))
    found = np.array(kept).reshape(-1, 2)
    return found[:, 0], found[:, 1]


class TradeOffDisplay(CurvesDisplay):
    """Trade-off curves: the least type II error that an attacker can reach at each type I error.

    The attacker sees what was published and decides whether a person's row is in it. Along a curve no test does
    better; on the diagonal it is blind.

    Parameters
    ----------
    curves : dict of str to (ndarray of shape (n,), ndarray of shape (n,))
        For each name type I errors (ascending) and lower bounds of type II errors. The first is the main one.
    relation : str, optional
        The neighbouring relation, for the title.
    marked_alpha : float, optional
        A type I error at which type II errors are written in the legend.
    marks : dict of str to float, optional
        The type II errors there.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The main curve.
    lines_ : dict of str to Line2D
    reference_ : matplotlib Line2D
        The blind attacker.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Notes
    -----
    *Guarantee.* Every point of every line is a lower bound of the type II error, for both orders of two neighbours:
    the corners of the bound are drawn, and between them it is straight. Numbers in the legend are rounded down.

    References
    ----------
    Dong, Roth and Su, arXiv 1905.02383v3.

    Examples
    --------
    >>> from skdptune.accounting import PrivacyCurve, best_of
    >>> from skdptune.displays import TradeOffDisplay
    >>> from skdptune.run_counts import Logarithmic
    >>> search = best_of(PrivacyCurve.gaussian(3.0), Logarithmic(mean=10))
    >>> display = TradeOffDisplay.from_curve(search)
    >>> {name: round(beta, 2) for name, beta in display.marks.items()}
    {'whole search': 0.85, 'single run': 0.91}
    >>> display.ax_.get_ylabel()
    'type II error (missed rows)'
    """

    def __init__(self, curves, *, relation=None, marked_alpha=None, marks=None):
        self.curves = curves
        self.relation = relation
        self.marked_alpha = marked_alpha
        self.marks = marks

    @classmethod
    def from_estimator(cls, estimator, *, n_samples=None, alpha=0.05, single_run=True, ax=None, **plot_options):
        """Draw the whole search and a single run of a search.

        Parameters
        ----------
        estimator : PrivateRandomSearchCV or PrivacySpent
            A search that is fitted, or whose price at ``n_samples`` rows is meant.
        n_samples : int, optional
            The public number of rows, before a fit.
        alpha, single_run, ax, **plot_options
            See :meth:`from_curve`.

        Returns
        -------
        TradeOffDisplay
        """
        drawing.pyplot(f"{cls.__name__}.from_estimator")
        spent = sources.spent_by(estimator, n_samples)
        curves = sources.curves_of(spent, single_run=single_run, closed_form=False)
        return cls.from_curve(curves, alpha=alpha, ax=ax, **plot_options)

    @classmethod
    def from_curve(cls, curve, *, name=None, alpha=0.05, single_run=True, ax=None, **plot_options):
        """Draw the trade-off of one curve, or of several.

        Parameters
        ----------
        curve : PrivacyCurve or dict of str to PrivacyCurve
            All under one relation. Beside a single curve made by ``best_of`` its single run is drawn.
        name : str, optional
            Of a single curve.
        alpha : float in [0, 1] or None, default=0.05
            Type I error at which type II errors are stated.
        single_run : bool, default=True
        ax : matplotlib Axes, optional
        **plot_options
            See :meth:`plot`.

        Returns
        -------
        TradeOffDisplay

        Raises
        ------
        RelationMismatchError, InvalidTypeError, InvalidParameterError, MissingDependencyError
        """
        drawing.pyplot(f"{cls.__name__}.from_curve")
        curves = sources.named_curves(curve, name)
        if isinstance(curve, SelectedCurve) and single_run:
            curves = sources.beside(curves, **{"single run": curve.single_run})
        relation = sources.common_relation(curves.values())
        marks = None
        if alpha is not None:
            alpha = check_real("alpha", alpha, low=0, high=1)
            marks = {label: float(trade_off(each, alpha)) for label, each in curves.items()}
        points = {label: trade_off_points(each) for label, each in curves.items()}
        return cls(points, relation=relation, marked_alpha=alpha, marks=marks).plot(ax=ax, **plot_options)

    _LEGEND_PLACE = "upper right"

    def _draw(self, ax, prefix, line_kwargs):
        colour = drawing.foreground(ax)
        lines = {}
        for label, (alpha, beta) in self.curves.items():
            stated = f", at least {drawing.label_down(self.marks[label])}" if self.marks else ""  # private side
            line = drawing.one_line(ax, alpha, beta, prefix + label + stated, line_kwargs)
            lines[label] = line
            if self.marks:
                ax.plot(
                    [self.marked_alpha], [self.marks[label]], linestyle="none", marker=line.get_marker(),
                    markersize=9, color=line.get_color(), markerfacecolor="none", markeredgewidth=1.6,
                )
        blind = {"color": colour, "label": _once(ax, "blind attacker"), **drawing.HAIRLINE}
        (self.reference_,) = ax.plot([0, 1], [1, 0], **blind)
        title = "Best attack on one row" + (f", {self.relation}" if self.relation else "")
        if self.marked_alpha is not None:
            ax.axvline(self.marked_alpha, color=colour, **drawing.HAIRLINE)
            title += f"\ntype II errors at type I error {drawing.number(self.marked_alpha)}"
        ax.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), aspect="equal")
        ax.set_xlabel("type I error (false alarms)")
        ax.set_ylabel("type II error (missed rows)")
        drawing.titled(ax, title)
        return lines


def _once(ax, label):
    """Return a label that the legend does not have yet, else one that it leaves out."""
    return f"_{label}" if label in ax.get_legend_handles_labels()[1] else label
