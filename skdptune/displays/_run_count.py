"""RunCountDisplay: how many tries a search makes, and what they buy."""

import math

import numpy as np

from skdptune._exceptions import InvalidParameterError
from skdptune._rounding import significant_down
from skdptune._validation import check_choice, check_instance, invalid_type, invalid_value
from skdptune.accounting import PrivacyCurve
from skdptune.displays import _drawing as drawing
from skdptune.displays import _sources as sources
from skdptune.run_counts import RunCount, as_run_count

__all__ = ["RunCountDisplay"]

KINDS = ("pmf", "tail", "quantile")
_FEW = 80  # up to this many runs every number of them is a point
_MOST = 10**7  # the axis of a heavy tail ends here
_SHARES = np.geomspace(0.5, 1e-3, 121)


class RunCountDisplay:
    """Distributions of the number of tries K: probabilities, tail, and the quantile that the best try reaches.

    Parameters
    ----------
    counts : dict of str to dict
        For each name ``"runs"`` (numbers of runs k, ascending), ``"pmf"`` (P(K = k)), ``"tail"`` (P(K > k)),
        ``"share"`` (shares of settings, falling), ``"success"`` (the probability that some try is among the
        best ``share``), ``"expected_quantile"``, ``"mean"`` and ``"runs_99"`` (99 % quantile of K).

    Attributes
    ----------
    ax_ : matplotlib Axes, or ndarray of three of them
    axes_ : dict of str to Axes
        By kind.
    lines_ : dict of (str, str) to Line2D
        By kind and name.
    line_ : matplotlib Line2D
        The first.
    figure_ : matplotlib Figure

    Notes
    -----
    The third panel is 1 - f(1 - share), f the generating function of K. Expected quantiles are in its legend, rounded
    down, as means are in names. They are about tries: where the best try stands among all tries by its own score, the
    noise of training and scoring included. Among *settings*, by what each is worth, the winner stands lower on average;
    the panel likewise says how likely a good setting is tried, not how likely it wins.

    References
    ----------
    Papernot and Steinke, arXiv 2110.03620v2, on the utility of random numbers of runs.

    Examples
    --------
    >>> from skdptune.displays import RunCountDisplay
    >>> from skdptune.run_counts import Geometric, Poisson
    >>> display = RunCountDisplay.from_run_count([Geometric(mean=10), Poisson(10)])
    >>> sorted(display.axes_)
    ['pmf', 'quantile', 'tail']
    >>> round(display.counts["Poisson(mean=10)"]["expected_quantile"], 3)
    0.9
    """

    def __init__(self, counts):
        self.counts = counts

    @classmethod
    def from_estimator(cls, estimator, *, n_samples=None, kind=None, ax=None, **plot_options):
        """Draw the distribution that a search draws its number of tries from: ``n_iter``, after a fit what that was.

        Parameters
        ----------
        estimator : PrivateRandomSearchCV or PrivacySpent
            Fitted or not; how many tries were drawn is not known to anybody and not drawn.
        n_samples : int, optional
            Not needed: the number of tries does not depend on the number of rows. Taken as by the other displays.
        kind, ax, **plot_options
            See :meth:`plot`.

        Returns
        -------
        RunCountDisplay
        """
        drawing.pyplot(f"{cls.__name__}.from_estimator")
        sources.check_search(estimator, n_samples)
        spent = getattr(estimator, "privacy_spent_", estimator)  # fitted: what was drawn from, whatever was set since
        count = spent.run_count if hasattr(spent, "run_count") else as_run_count(estimator.n_iter)
        return cls.from_run_count(count, kind=kind, ax=ax, **plot_options)

    @classmethod
    def from_curve(cls, curve, *, kind=None, ax=None, **plot_options):
        """Draw the distribution of the search that a curve prices.

        Parameters
        ----------
        curve : PrivacyCurve
            Made by ``best_of``.
        kind, ax, **plot_options
            See :meth:`plot`.

        Returns
        -------
        RunCountDisplay
        """
        if not hasattr(curve, "run_count"):
            advice = "from_run_count draws any distribution of tries: pass e.g. search.n_iter or Geometric(5)."
            if isinstance(curve, PrivacyCurve):
                advice = f"This one is a curve without tries: that of one mechanism, or of exactly one try. {advice}"
            elif isinstance(curve, RunCount):
                advice = "This is a distribution of tries itself: from_run_count draws it."
            raise invalid_type("curve", "the curve of a search, made by best_of", curve, advice)
        return cls.from_run_count(curve.run_count, kind=kind, ax=ax, **plot_options)

    @classmethod
    def from_run_count(cls, run_count, *, max_runs=None, kind=None, ax=None, **plot_options):
        """Draw one distribution or several.

        Parameters
        ----------
        run_count : RunCount, sequence of RunCount, or dict of str to RunCount
        max_runs : int, optional
            Where the axis of k ends. None: the largest 99 % quantile, cut at ten million.
        kind, ax, **plot_options
            See :meth:`plot`.

        Returns
        -------
        RunCountDisplay

        Raises
        ------
        InvalidTypeError, InvalidParameterError, MissingDependencyError
        """
        drawing.pyplot(f"{cls.__name__}.from_run_count")
        named = _named(run_count)
        if max_runs is None:
            max_runs = max(_far(count) for count in named.values())
        runs = _run_numbers(int(max_runs))
        return cls({name: _data(count, runs) for name, count in named.items()}).plot(kind=kind, ax=ax, **plot_options)

    def plot(self, ax=None, *, kind=None, stacked=False, legend=True, **line_kwargs):
        """Draw the distributions.

        Parameters
        ----------
        ax : matplotlib Axes, or sequence of three of them, optional
            Where to draw; None: in a new figure. One for each panel.
        kind : {"pmf", "tail", "quantile"}, optional
            One panel. None: all three.
        stacked : bool, default=False
            In a new figure, three panels below one another instead of side by side: for narrow pages and phones.
        legend : bool, default=True
        **line_kwargs
            For every line.

        Returns
        -------
        RunCountDisplay

        Raises
        ------
        InvalidParameterError, InvalidTypeError
            If the number of axes does not fit ``kind``, or they are no straight axes of a figure.
        MissingDependencyError
            Without matplotlib.
        """
        plt = drawing.pyplot(f"{type(self).__name__}.plot")
        kinds = KINDS if kind is None else (check_choice("kind", kind, KINDS, "None draws all three."),)
        own = ax is None
        if own:
            rows, columns = (len(kinds), 1) if stacked else (1, len(kinds))
            size = (3.9 * columns, 3.9) if columns > 1 else (5.6, 4.2 * rows)
            _, ax = plt.subplots(rows, columns, figsize=size, squeeze=False)
        axes = np.ravel(np.asarray(ax, dtype=object))
        if axes.size != len(kinds):
            expected = f"{len(kinds)} axes, one for each of {', '.join(kinds)}"
            raise invalid_value("ax", expected, ax, "Pass kind= for one panel." if len(kinds) > 1 else "Pass ax[0].")
        for axis in axes:
            drawing.check_axes(axis)
        self.axes_ = dict(zip(kinds, axes, strict=True))
        self.lines_ = {}
        for each, axis in self.axes_.items():
            draw = {"pmf": self._draw_runs, "tail": self._draw_runs, "quantile": self._draw_quantile}[each]
            draw(axis, each, line_kwargs)
            drawing.legend_for(axis, legend)
        self.line_ = next(iter(self.lines_.values()))
        self.ax_ = axes[0] if len(kinds) == 1 else axes
        self.figure_ = axes[0].figure
        if own:
            drawing.tighten(self.figure_)
        return self

    def _draw_runs(self, ax, kind, line_kwargs):
        for name, data in self.counts.items():
            runs, values = data["runs"], data[kind]
            few = runs.size <= 25
            # between whole numbers nothing is defined: a tail stays, probabilities are as wide as their number
            shape = {"drawstyle": "steps-post"} if kind == "tail" else {"drawstyle": "steps-mid", "linewidth": 1.0}
            label = name if kind == "pmf" else self._remark(name, _within(data["runs_99"]))
            self.lines_[kind, name] = drawing.one_line(
                ax, runs, values, label, line_kwargs, **shape, **({"markevery": 1} if few else {})
            )
        if max(data["runs"][-1] for data in self.counts.values()) > _FEW:
            ax.set_xscale("symlog", linthresh=1)
            ax.set_xlim(left=0)
        ax.set_xlabel("number of tries k")
        if kind == "tail":
            ax.set_yscale("log")
            ax.set_ylim(1e-4, 1.5)
            ax.set_ylabel("P(K > k)")
            drawing.titled(ax, "How long a search may get")
        else:
            top = max(float(np.max(data["pmf"])) for data in self.counts.values())
            ax.set_ylim(0, 1.3 * top if top > 0 else 1.0)  # with room for the names
            ax.set_ylabel("P(K = k)")
            drawing.titled(ax, "How many tries a search makes")

    def _remark(self, name, remark):
        """A panel beside others needs no names: dash patterns and markers are those of the first."""
        return f"{name}, {remark}" if len(self.axes_) == 1 else remark

    def _draw_quantile(self, ax, kind, line_kwargs):
        from matplotlib.ticker import NullLocator

        for name, data in self.counts.items():
            quantile = drawing.label_down(data["expected_quantile"])  # not better than it is
            label = self._remark(name, f"expected quantile {quantile}")
            self.lines_[kind, name] = drawing.one_line(ax, data["share"], data["success"], label, line_kwargs)
        ax.set_xscale("log")
        ax.invert_xaxis()
        ax.set_ylim(0, 1.03)
        shares = [0.5, 0.1, 0.01, 0.001]
        ax.set_xticks(shares, labels=[f"{100 * share:g} %" for share in shares])
        ax.xaxis.set_minor_locator(NullLocator())
        ax.set_xlabel("share of the settings that are good enough")
        ax.set_ylabel("P(some try is good enough)")
        drawing.titled(ax, "What the tries buy")


def _within(runs):
    return f"99 % within {runs} tries" if math.isfinite(runs) else "99 % within: not known"


def _named(run_count):
    expected = "a RunCount, or several in a list or dictionary"
    if isinstance(run_count, RunCount):
        return {_short(run_count): run_count}
    if not hasattr(run_count, "__iter__") or isinstance(run_count, (str, bytes)):
        raise invalid_type("run_count", expected, run_count, "Pass e.g. Geometric(mean=10).")
    items = run_count.items() if hasattr(run_count, "items") else ((None, count) for count in run_count)
    named = {}
    for name, count in items:
        check_instance("an item of run_count", count, RunCount, "a distribution from skdptune.run_counts")
        named[_free(str(name) if name is not None else _short(count), named)] = count
    if not named:
        raise invalid_value("run_count", expected, run_count)
    return named


def _free(name, taken):
    """A name that hides no other one."""
    if name not in taken:
        return name
    return next(f"{name} ({i})" for i in range(2, len(taken) + 3) if f"{name} ({i})" not in taken)


def _short(count):
    """A name that fits into a legend: large tables of probabilities are left out."""
    arguments = {name: value for name, value in count._arguments().items() if name not in ("pmf", "wishes")}
    inside = ", ".join(f"{n}={_written(n, v)}" for n, v in arguments.items())
    text = f"{type(count).__name__}({inside})"
    return text if len(text) <= 60 else type(count).__name__


def _written(name, value):
    if not isinstance(value, float):
        return repr(value)
    return significant_down(value, 4) if name == "mean" else f"{value:.4g}"  # a mean down, as in every table


def _far(count):
    if count.support_max is not None and count.support_max <= _FEW:
        return count.support_max
    return int(min(_runs_99(count), _MOST))


def _runs_99(count):
    try:
        return count.quantile(0.99)
    except InvalidParameterError:
        return math.inf


def _run_numbers(most):
    """All numbers of runs from 0, or a few per decade where there are many."""
    most = max(most, 1)
    if most <= _FEW:
        return np.arange(most + 1)
    far = np.geomspace(20, most, 120).round().astype(np.int64)
    return np.unique(np.concatenate([np.arange(20), far]))


def _data(count, runs):
    return {
        "runs": runs,
        "pmf": np.asarray(count.pmf(runs)),
        "tail": np.asarray(count.sf(runs)),
        "share": _SHARES,
        "success": np.asarray(count.success_probability(_SHARES)),
        "expected_quantile": float(count.expected_quantile()),
        "mean": float(count.mean),
        "runs_99": _runs_99(count),
    }
