"""PlanDisplay: what each distribution of the number of tries buys for its epsilon."""

import math
import numbers
import re
import textwrap

import numpy as np

from skdptune._exceptions import PricingError
from skdptune._rounding import percent_as_given, significant_down
from skdptune._validation import check_choice, check_instance, invalid_type, invalid_value
from skdptune.accounting import Plan, PrivacyCurve, plan
from skdptune.accounting._optimal import NAMED
from skdptune.displays import _drawing as drawing
from skdptune.displays import _sources as sources
from skdptune.run_counts import Fixed

__all__ = ["PlanDisplay"]

GAINS = {
    "expected_quantile": "expected quantile of the best try (by its own score)",
    "success_probability": "probability of a good try",
}
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
    unpriced : dict of str to str, optional
        Distributions that are not among the rows because they cannot be priced at all, and why.
    target : float, optional
        The epsilon that whole searches were to meet, for the title.

    Attributes
    ----------
    note_ : str or None
        Names what has no finite price, and so no place among the points; stands below the axis.
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

    The expected quantile ranks tries by their own (noisy) scores, not settings by their worth: see
    :meth:`RunCount.expected_quantile <skdptune.run_counts.RunCount.expected_quantile>`.

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
        self, rows, *, delta=None, relation=None, best=None, gain="expected_quantile", cost="search_epsilon",
        share=0.05, unpriced=None, target=None,
    ):
        self.rows = rows
        self.delta = delta
        self.relation = relation
        self.best = best
        self.gain = gain
        self.cost = cost
        self.share = share
        self.unpriced = unpriced
        self.target = target

    @classmethod
    def from_estimator(cls, estimator, *, n_samples=None, delta=None, ax=None, **options):
        """Draw what other distributions of the number of tries would buy for the runs of a search.

        Parameters
        ----------
        estimator : PrivateRandomSearchCV or PrivacySpent
            A search that is fitted, or whose price at ``n_samples`` rows is meant. One with ``refit=True`` costs a
            training more whatever the number of tries, and is refused.
        n_samples : int, optional
            The public number of rows, before a fit.
        delta : float in [0, 1), optional
            None: ``default_delta`` of what the search spends, at which its report states the price: its own ``delta``,
            else the largest power of ten that is at most 1 / (10 n_samples).
        ax, **options
            See :meth:`from_curve`.

        Returns
        -------
        PlanDisplay

        Raises
        ------
        InvalidTypeError, InvalidParameterError, PricingError, MissingDependencyError

        Examples
        --------
        >>> from skdptune.accounting import PrivacyCurve, best_of
        >>> from skdptune.displays import PlanDisplay
        >>> from skdptune.model_selection import PrivacySpent
        >>> from skdptune.run_counts import Geometric, Poisson
        >>> run = PrivacyCurve.gaussian(3.0)
        >>> spent = PrivacySpent(curve=best_of(run, Geometric(5)), single_run=run,
        ...                      selection=best_of(run, Geometric(5)), refit=None, run_count=Geometric(5),
        ...                      row_curves=(run,), relation="zero-out", n_samples=100,
        ...                      score_noise=None, assumptions=())
        >>> display = PlanDisplay.from_estimator(spent, run_counts=[Geometric, Poisson], means=[2, 5])
        >>> display.delta
        0.001
        """
        drawing.pyplot(f"{cls.__name__}.from_estimator")
        spent = sources.spent_by(estimator, n_samples)
        if spent.refit is not None:
            advice = "Draw one run with from_curve(search.privacy_cost().single_run, delta)."
            raise invalid_value("estimator", "a search without refit=True, whose refit is not drawn", estimator, advice)
        delta = spent.default_delta if delta is None else delta
        return cls.from_curve(PrivacyCurve.worst(list(spent.row_curves)), delta, ax=ax, **options)

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
            target=table.target_epsilon,
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
            Functions ``mean -> RunCount`` such as the class ``Geometric``, and run counts (single points). ``Fixed``
            is drawn at the whole numbers among ``means``. None: the named distributions, but for the zero-truncated
            Poisson, which is hardly told from Poisson.
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
        PricingError
            If no distribution has a finite price at ``delta``. Where some have none, the figure names them.
        """
        drawing.pyplot(f"{cls.__name__}.from_curve")
        check_instance("curve", curve, PrivacyCurve, "the PrivacyCurve of one run")
        check_choice("gain", gain, tuple(GAINS))
        if run_counts is None:
            run_counts = [build for name, build in NAMED.items() if name != "ZeroTruncatedPoisson"]
        if hasattr(means, "__iter__") and not isinstance(means, (str, bytes)):
            means = list(means)  # asked for again for each distribution
        rows, unpriced = [], {}
        for counts in _whole_numbers(run_counts, means):
            try:
                rows += plan(
                    curve, None, delta, run_counts=counts, means=means, success_share=share, optimise=False, rtol=rtol
                )
            except PricingError as error:
                unpriced[_name_of(counts[0])] = str(error)
        if not any(math.isfinite(row["search_epsilon"]) for row in rows):
            _refuse_to_draw_nothing(delta, unpriced)
        # no best row: the criterion of a plan is a quantile, which nobody asked for here
        display = cls(rows, delta=delta, relation=curve.relation, gain=gain, share=share, unpriced=unpriced)
        return display.plot(ax=ax, **{"kind": "lines", **plot_options})

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

        Raises
        ------
        InvalidTypeError, InvalidParameterError
            If there are no rows, or ``ax`` is not one pair of axes with straight scales in a figure.
        MissingDependencyError
            Without matplotlib.
        """
        if not self.rows:
            raise invalid_value("rows", "a list of at least one row of a plan", self.rows)
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
        self.note_ = self._note()
        ax.set_xlabel("\n".join([COSTS[self.cost], *_lines(self.note_, drawing.room(ax)[0])]))
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
        known += [] if self.target is None else [f"target epsilon {drawing.number(self.target)}"]
        return f"{text}\n{', '.join(known)}" if known else text

    def _draw_lines(self, ax, legend, line_kwargs):
        width, height = drawing.room(ax)
        if legend is None:
            legend = width < 3 or height < 2.2
        self.lines_, self.labels_, ends = {}, [], []
        for name in dict.fromkeys(_line_of(row) for row in self.rows):
            rows = sorted((row for row in self.rows if _line_of(row) == name), key=lambda row: row["mean"])
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
                colour = drawing.foreground(ax)
                ax.axvline(single, color=colour, label="a single run", **drawing.HAIRLINE)
                if not legend and drawing.room(ax)[1] > 1.5:
                    ax.annotate(
                        "a single run", (single, 0.97), xycoords=ax.get_xaxis_transform(), xytext=(4, 0), va="top",
                        textcoords="offset points", rotation=90, fontsize="small", color=colour,
                    )
        _scales(ax, [row[self.gain] for row in self.rows], [row[self.cost] for row in self.rows])
        label = GAINS[self.gain]
        if self.gain == "success_probability":
            label += f" (best {percent_as_given(self.share)})"
        ax.set_ylabel(label)
        if legend:
            drawing.legend_for(ax, legend)
        else:
            self.labels_ = _label_ends(ax, ends)

    def _note(self):
        """Name what has no finite price, and so no place among the points; None if everything has one."""
        endless = {}
        for row in self.rows:
            if not math.isfinite(row[self.cost]):
                endless.setdefault(_line_of(row), []).append(row["mean"])
        names = []
        for name, means in endless.items():
            every = len(means) == sum(_line_of(row) == name for row in self.rows)
            names.append(_spoken(name) if every else f"{_spoken(name)} (mean {', '.join(f'{m:.3g}' for m in means)})")
        names += [_spoken(name) for name in self.unpriced or ()]
        return f"no finite epsilon: {', '.join(names)}" if names else None

    def _draw_rows(self, ax, line_kwargs):
        x = np.array([row[self.cost] for row in self.rows], dtype=float)
        y = np.arange(x.size)
        best = "single_run_epsilon" == self.cost
        word = drawing.label_down if best else drawing.label_up  # what is left down, what is charged up
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


def _whole_numbers(run_counts, means):
    """Yield lists of run counts, one for each item; ``Fixed`` for each whole number of tries among the means."""
    if isinstance(run_counts, (str, bytes)) or not hasattr(run_counts, "__iter__"):
        expected = "a sequence of run counts or of functions mean -> RunCount"
        raise invalid_type("run_counts", expected, run_counts, "Pass e.g. [Poisson, Geometric].")
    items = list(run_counts)
    if not items:
        raise invalid_value("run_counts", "at least one run count or function mean -> RunCount", run_counts)
    for item in items:
        if item is not Fixed:
            yield [item]
            continue
        reals = [float(mean) for mean in means if isinstance(mean, numbers.Real)]
        whole = [int(mean) for mean in reals if mean.is_integer() and mean >= 1]
        if not whole:
            raise invalid_value("means", "a sequence with a whole number in it, for Fixed", means)
        yield [Fixed(mean) for mean in whole]


def _name_of(item):
    return getattr(item, "__name__", repr(item))


def _refuse_to_draw_nothing(delta, unpriced):
    why = f"every epsilon is infinite at delta {drawing.number(delta)}. Ask for a larger delta."
    raise PricingError(f"nothing to draw, no distribution has a finite price: {next(iter(unpriced.values()), why)}")


def _lines(text, inches):
    """Break a text into lines that fit below axes of this width."""
    return textwrap.wrap(text, max(int(11 * inches), 20)) if text else []


def _line_of(row):
    """Whose line a row is on: fixed numbers of tries share one."""
    return "Fixed" if isinstance(row.get("run_count"), Fixed) else row["distribution"]


def _spoken(name):
    """A distribution's name as words."""
    text = re.sub(r"^TruncatedNegativeBinomial\(eta=([^)]*)\)$", r"negative binomial, eta \1", name)
    return {"ZeroTruncatedPoisson": "Poisson above 0"}.get(text, text)


def _row_name(row, best):
    kind = "" if row["kind"] == "named" or row["kind"] in row["distribution"] else f" ({row['kind']})"
    mark = "best: " if best else ""
    mean = significant_down(float(f"{row['mean']:.12g}"))  # down: at a smaller mean the epsilon beside it still holds
    return f"{mark}{_spoken(row['distribution'])}{kind}\nmean {mean}, 99 % within {row['runs_99']:,} tries"


def _scales(ax, gains, costs):
    """Stretch high gains and small costs, where the choice is made, with ticks that are read as they are."""
    from matplotlib.ticker import NullLocator

    gains, costs = (np.array([v for v in values if 0 < v < math.inf], dtype=float) for values in (gains, costs))
    if gains.size and gains.max() < 1:
        ax.set_yscale("logit")
        low, high = 0.9 * gains.min(), 1 - 0.8 * (1 - gains.max())
        ticks = [t for t in (0.05, 0.1, 0.2, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999) if low <= t <= high]
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
