"""PlanDisplay: what each distribution of the number of tries buys for its epsilon."""

import math
import re

import numpy as np

from skdptune._validation import check_choice, check_instance, invalid_value
from skdptune.accounting import Plan, PrivacyCurve, plan
from skdptune.accounting._optimal import NAMED
from skdptune.displays import _drawing as drawing

__all__ = ["PlanDisplay"]

GAINS = {"expected_quantile": "expected quantile of the best try", "success_probability": "probability of a good try"}
COSTS = {"search_epsilon": "epsilon of the whole search (nats)", "single_run_epsilon": "epsilon of a single run (nats)"}
_MEANS = (1.5, 2, 3, 5, 8, 13, 20, 35, 60)


class PlanDisplay:
    """What is gained against what it costs, for each distribution of the number of tries.

    Parameters
    ----------
    rows : list of dict
        As in :class:`~skdptune.accounting.Plan`: ``distribution``, ``kind``, ``mean``, ``runs_99``,
        ``expected_quantile``, ``success_probability``, ``single_run_epsilon``, ``search_epsilon``.
    delta : float, optional
        For the title.
    relation : str, optional
        For the title.
    best : int, optional
        Which row is the best.
    gain : {"expected_quantile", "success_probability"}, default="expected_quantile"
    cost : {"search_epsilon", "single_run_epsilon"}, default="search_epsilon"
    share : float, default=0.05
        The share of good settings that ``success_probability`` is about.

    Attributes
    ----------
    lines_ : dict of str to Line2D
        By distribution; for rows, one line with all points under ``"rows"``.
    line_ : matplotlib Line2D
        The first.
    labels_ : list of matplotlib Text
        Names or numbers beside lines and points.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Notes
    -----
    *Guarantee.* Every marker is computed: its epsilon is an upper bound, written numbers are rounded up. Lines between
    markers only guide the eye; nothing is claimed there.

    References
    ----------
    Papernot and Steinke, arXiv 2110.03620v2: the figure that compares distributions of the number of runs.

    Examples
    --------
    >>> from skdptune.accounting import PrivacyCurve, plan
    >>> from skdptune.displays import PlanDisplay
    >>> from skdptune.run_counts import Geometric, Poisson
    >>> single = PrivacyCurve.gaussian(3.0)
    >>> display = PlanDisplay.from_curve(single, 1e-5, run_counts=[Geometric, Poisson], means=[2, 5, 10])
    >>> list(display.lines_)
    ['Geometric', 'Poisson']
    >>> table = plan(single, None, 1e-5, run_counts=[Geometric, Poisson], expected_quantile=0.8, optimise=False)
    >>> [text.get_text()[:3] for text in PlanDisplay.from_plan(table, delta=1e-5).labels_]
    ['1.8', '1.9']
    """

    def __init__(
        self, rows, *, delta=None, relation=None, best=None, gain="expected_quantile", cost="search_epsilon", share=0.05
    ):
        self.rows = rows
        self.delta = delta
        self.relation = relation
        self.best = best
        self.gain = gain
        self.cost = cost
        self.share = share

    @classmethod
    def from_plan(cls, table, *, delta=None, relation=None, gain="expected_quantile", cost=None, share=0.05, ax=None,
                  **plot_options):
        """Draw a table made by :func:`~skdptune.accounting.plan`.

        Parameters
        ----------
        table : Plan
        delta, relation : float, str, optional
            What the table was made for, for the title.
        gain : {"expected_quantile", "success_probability"}
        cost : {"search_epsilon", "single_run_epsilon"}, optional
            None: the search's, or the single run's where the table was calibrated to a target, so that all searches
            cost the same.
        share : float
            The ``success_share`` of the table.
        ax, **plot_options
            See :meth:`plot`.

        Returns
        -------
        PlanDisplay
        """
        drawing.pyplot(f"{cls.__name__}.from_plan")
        check_instance("table", table, Plan, "a Plan", "Make one with skdptune.accounting.plan.")
        rows = list(table)
        if not rows:
            raise invalid_value("table", "a plan of at least one row", table)
        if cost is None:
            cost = "single_run_epsilon" if any("setting" in row for row in rows) else "search_epsilon"
        best = table.best
        return cls(
            rows, delta=delta, relation=relation, gain=check_choice("gain", gain, tuple(GAINS)),
            cost=check_choice("cost", cost, tuple(COSTS)), share=share,
            best=None if best is None else next(i for i, row in enumerate(rows) if row == best),
        ).plot(ax=ax, **plot_options)

    @classmethod
    def from_curve(cls, curve, delta, *, run_counts=None, means=_MEANS, gain="expected_quantile", share=0.05,
                   rtol=5e-3, ax=None, **plot_options):
        """Price several distributions at several means, and draw what they buy.

        Parameters
        ----------
        curve : PrivacyCurve
            Of one run.
        delta : float in [0, 1)
        run_counts : sequence, optional
            Functions ``mean -> RunCount`` such as the class ``Geometric``, and run counts (single points). None: the
            named distributions, but for the zero-truncated Poisson, which is hardly told from Poisson.
        means : sequence of float of at least 1
        gain : {"expected_quantile", "success_probability"}
        share : float in [0, 1], default=0.05
            The share of good settings for the success probability.
        rtol : float, default=0.005
            Relative precision of epsilons.
        ax, **plot_options
            See :meth:`plot`.

        Returns
        -------
        PlanDisplay

        Raises
        ------
        InvalidTypeError, InvalidParameterError, MissingDependencyError
        """
        drawing.pyplot(f"{cls.__name__}.from_curve")
        check_instance("curve", curve, PrivacyCurve, "the PrivacyCurve of one run")
        if run_counts is None:
            run_counts = [build for name, build in NAMED.items() if name != "ZeroTruncatedPoisson"]
        table = plan(
            curve, None, delta, run_counts=run_counts, means=means, success_share=share, optimise=False, rtol=rtol
        )
        plot_options = {"kind": "lines", **plot_options}
        display = cls.from_plan(
            table, delta=delta, relation=curve.relation, gain=gain, share=share, ax=ax, **plot_options
        )
        display.best = None  # the criterion of a plan is a quantile, which nobody asked for here
        return display

    def plot(self, ax=None, *, kind=None, legend=None, **line_kwargs):
        """Draw gain against epsilon, or a row for each distribution.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; None: in a new figure.
        kind : {"lines", "rows"}, optional
            "lines": one line for each distribution through its means. "rows": one row for each entry, epsilons as
            points with their numbers. None: rows where every distribution comes once.
        legend : bool, optional
            For lines; None: names stand at the ends of the lines, and in a legend only where the axes are small.
        **line_kwargs
            For every line.

        Returns
        -------
        PlanDisplay
        """
        names = [row["distribution"] for row in self.rows]
        if kind is None:
            entries = {(row["distribution"], row["kind"]) for row in self.rows}
            kind = "rows" if len(entries) == len(names) else "lines"
        check_choice("kind", kind, ("lines", "rows"))
        own = ax is None
        ax = drawing.axes_for(f"{type(self).__name__}.plot", ax)
        if own:
            height = 1.4 + 0.45 * len(names) if kind == "rows" else 4.8
            ax.figure.set_size_inches(7.5, height)
        ax.set_xlabel(COSTS[self.cost])
        if kind == "rows":
            self._draw_rows(ax, line_kwargs)
        else:
            self._draw_lines(ax, legend, line_kwargs)
        drawing.titled(ax, self._title())
        self.line_ = next(iter(self.lines_.values()))
        self.ax_, self.figure_ = ax, ax.figure
        if own:
            drawing.tighten(self.figure_)
        return self

    def _title(self):
        text = "What the number of tries buys"
        known = [] if self.delta is None else [f"delta {drawing.number(self.delta)}"]
        known += [self.relation] if self.relation else []
        return f"{text}\n{', '.join(known)}" if known else text

    def _draw_lines(self, ax, legend, line_kwargs):
        self.lines_, self.labels_, ends = {}, [], []
        for name in dict.fromkeys(row["distribution"] for row in self.rows):
            rows = sorted((row for row in self.rows if row["distribution"] == name), key=lambda row: row["mean"])
            x = np.array([row[self.cost] for row in rows], dtype=float)
            y = np.array([row[self.gain] for row in rows], dtype=float)
            line = drawing.one_line(ax, x, y, _spoken(name), line_kwargs, markevery=1)
            self.lines_[name] = line
            known = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
            if known.size:
                ends.append((float(x[known[-1]]), float(y[known[-1]]), line))
        if self.cost == "search_epsilon":
            single = self.rows[0]["single_run_epsilon"]
            if math.isfinite(single) and len({row["single_run_epsilon"] for row in self.rows}) == 1:
                ax.axvline(single, color=drawing.foreground(ax), label="a single run", **drawing.HAIRLINE)
        _scales(ax, [row[self.gain] for row in self.rows], [row[self.cost] for row in self.rows])
        label = GAINS[self.gain]
        if self.gain == "success_probability":
            label += f" (best {100 * self.share:g} %)"
        ax.set_ylabel(label)
        width, height = drawing.room(ax)
        if legend is None:
            legend = width < 3 or height < 2.2
        if legend:
            drawing.legend_for(ax, legend)
        else:
            self.labels_ = _label_ends(ax, ends)

    def _draw_rows(self, ax, line_kwargs):
        x = np.array([row[self.cost] for row in self.rows], dtype=float)
        y = np.arange(x.size)
        best = "single_run_epsilon" == self.cost
        word = drawing.round_down if best else drawing.round_up  # what is left down, what is charged up
        line = drawing.one_line(ax, x, y, "_rows", line_kwargs, linestyle="none", markevery=1, markersize=7)
        self.lines_ = {"rows": line}
        colour = drawing.foreground(ax)
        if self.best is not None and math.isfinite(x[self.best]):
            ax.plot([x[self.best]], [self.best], marker="*", markersize=16, linestyle="none", color=line.get_color())
        ax.set_yticks(y, labels=[_row_name(row, i == self.best) for i, row in enumerate(self.rows)], fontsize="small")
        ax.set_ylim(x.size - 0.4, -0.6)
        ax.margins(x=0.15)
        ax.grid(axis="y", linestyle=":", linewidth=0.6, alpha=0.6)
        self.labels_ = [
            ax.annotate(
                word(value), (value if math.isfinite(value) else 0.5, at), xytext=(11, 0), textcoords="offset points",
                xycoords="data" if math.isfinite(value) else ax.get_yaxis_transform(), va="center", fontsize="small",
                color=colour,
            )
            for value, at in zip(x, y, strict=True)
        ]


def _spoken(name):
    """A distribution's name as words."""
    text = re.sub(r"^TruncatedNegativeBinomial\(eta=([^)]*)\)$", r"negative binomial, eta \1", name)
    return {"ZeroTruncatedPoisson": "Poisson above 0"}.get(text, text)


def _row_name(row, best):
    kind = "" if row["kind"] == "named" or row["kind"] in row["distribution"] else f" ({row['kind']})"
    mark = "best: " if best else ""
    mean = f"{row['mean']:.3g}" if row["mean"] < 100 else f"{row['mean']:,.0f}"
    return f"{mark}{_spoken(row['distribution'])}{kind}\nmean {mean}, 99 % within {row['runs_99']:,} tries"


def _scales(ax, gains, costs):
    """Stretch high gains and small costs, where the choice is made, with ticks that are read as they are."""
    from matplotlib.ticker import NullLocator

    gains, costs = (np.array([v for v in values if 0 < v < math.inf], dtype=float) for values in (gains, costs))
    if gains.size and gains.max() < 1:
        ax.set_yscale("logit")
        low, high = 0.9 * gains.min(), 1 - 0.8 * (1 - gains.max())
        ticks = [t for t in (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999) if low <= t <= high]
        ax.set_ylim(low, high)
        ax.set_yticks(ticks, labels=[f"{tick:g}" for tick in ticks])
        ax.yaxis.set_minor_locator(NullLocator())
    if costs.size and costs.max() > 2 * costs.min():
        ax.set_xscale("log")
        ticks = [t for t in (m * 10.0**e for e in range(-4, 4) for m in (1, 1.5, 2, 3, 5, 7))
                 if costs.min() / 1.2 <= t <= costs.max() * 1.1]
        ax.set_xticks(ticks, labels=[f"{tick:g}" for tick in ticks])
        ax.xaxis.set_minor_locator(NullLocator())


def _label_ends(ax, ends):
    """Write the lines' names beside the axes, each as high as its line ends or moved apart, with a thin pointer."""
    if not ends:
        return []
    to_axes = ax.transAxes.inverted()
    ends = sorted(ends, key=lambda end: end[1])
    wanted = [float(to_axes.transform(ax.transData.transform((x, y)))[1]) for x, y, _ in ends]
    places = _apart(wanted, 0.21 / max(drawing.room(ax)[1], 0.5))
    return [
        ax.annotate(
            line.get_label(), (x, y), xytext=(1.03, place), textcoords="axes fraction", va="center", ha="left",
            fontsize="small", color=drawing.foreground(ax), annotation_clip=False,
            arrowprops={
                "arrowstyle": "-", "color": line.get_color(), "linewidth": 0.7, "alpha": 0.7, "shrinkA": 1, "shrinkB": 4
            },
        )
        for (x, y, line), place in zip(ends, places, strict=True)
    ]


def _apart(wanted, least):
    """Return ascending places near ``wanted`` (ascending) with a distance of at least ``least``."""
    places = list(wanted)
    for _ in range(500):
        moved = False
        for i in range(1, len(places)):
            gap = places[i] - places[i - 1]
            if gap < least - 1e-9:
                shift = 0.5 * (least - gap)
                places[i - 1], places[i], moved = places[i - 1] - shift, places[i] + shift, True
        if not moved:
            break
    return places
