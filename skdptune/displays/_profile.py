"""PrivacyProfileDisplay: delta against epsilon."""

import math

import numpy as np

from skdptune._validation import check_real
from skdptune.accounting.selection import SelectedCurve
from skdptune.displays import _drawing as drawing
from skdptune.displays import _sources as sources
from skdptune.displays._base import CurvesDisplay
from skdptune.displays._points import asked_deltas, profile_points

__all__ = ["PrivacyProfileDisplay"]

_LOWER = "certified lower bound"
_TOP = 1.5  # of the delta axis


class PrivacyProfileDisplay(CurvesDisplay):
    """Privacy profiles: the delta that holds at each epsilon, on a logarithmic scale.

    Make one with :meth:`from_estimator`, :meth:`from_spent` or :meth:`from_curve`; what they compute is stored in
    attributes, and :meth:`plot` draws it again.

    Parameters
    ----------
    profiles : dict of str to (ndarray of shape (n,), ndarray of shape (n,))
        For each name epsilon (nats, ascending) and delta (in [0, 1]). The first is the main one.
    relation : str, optional
        The neighbouring relation, for the title.
    marked_delta : float, optional
        A delta at which epsilons are written beside the lines.
    marks : dict of str to float, optional
        Epsilon of each profile at ``marked_delta``, ``inf`` where there is none.
    lower_bound : (ndarray of shape (m,), ndarray of shape (m,)), optional
        Epsilons below which no analysis can go that knows the search by the dominating pair of one run, and their
        deltas. Drawn as separate points: between them nothing is claimed.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The main profile.
    lines_ : dict of str to Line2D
    marks_ : list of matplotlib Line2D
        The marked points.
    lower_bound_ : matplotlib Line2D or None
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Notes
    -----
    *Guarantee.* Every drawn point (epsilon, delta) of a profile holds for the mechanism; epsilons in the legend are
    rounded up. Points are taken where delta has fallen by equal factors, and what lies between two of them is bounded
    by the straight line in e^epsilon, of which further points are drawn: with the defaults, delta falls by less than
    5 % from one point to the next, so no part of a line is lower than what holds by more than that. A line that leaves
    the figure at the bottom means that delta is smaller from there on than is shown, or 0; one that ends level, that it
    falls no further than that.

    References
    ----------
    Connect the dots: Doroshenko et al., arXiv 2207.04380v1.

    Examples
    --------
    >>> from skdptune.accounting import PrivacyCurve, best_of
    >>> from skdptune.displays import PrivacyProfileDisplay
    >>> from skdptune.run_counts import Logarithmic
    >>> search = best_of(PrivacyCurve.gaussian(3.0), Logarithmic(mean=10))
    >>> display = PrivacyProfileDisplay.from_curve(search, delta=1e-5)
    >>> list(display.profiles), round(display.marks["whole search"], 2)
    (['whole search', 'single run', 'closed form'], 1.84)
    >>> display.ax_.get_xlabel()
    'epsilon (nats)'
    """

    def __init__(self, profiles, *, relation=None, marked_delta=None, marks=None, lower_bound=None):
        self.profiles = profiles
        self.relation = relation
        self.marked_delta = marked_delta
        self.marks = marks
        self.lower_bound = lower_bound

    # Data -----------------------------------------------------------------------------------

    @classmethod
    def from_estimator(cls, estimator, *, n_samples=None, delta=None, ax=None, **options):
        """Draw what a search has spent, or will spend.

        Parameters
        ----------
        estimator : PrivateRandomSearchCV
            Fitted: ``privacy_spent_`` is drawn. Not fitted: ``privacy_cost(n_samples)``.
        n_samples : int, optional
            The public number of rows, before a fit.
        delta, ax, **options
            See :meth:`from_spent`.

        Returns
        -------
        PrivacyProfileDisplay

        Examples
        --------
        >>> from skdptune import PrivateRandomSearchCV
        >>> from sklearn.base import BaseEstimator, ClassifierMixin
        >>> class Toy(ClassifierMixin, BaseEstimator):
        ...     def __init__(self, s=4.0):
        ...         self.s = s
        ...     def rdp_curve(self, orders):
        ...         return orders / (2 * self.s**2)
        ...     def fit(self, X, y):
        ...         return self
        ...     def predict(self, X):
        ...         return [0] * len(X)
        >>> search = PrivateRandomSearchCV(Toy(), {"s": [4.0, 8.0]}, n_iter=5)
        >>> display = PrivacyProfileDisplay.from_estimator(search, n_samples=1000)
        >>> display.marked_delta
        0.0001
        """
        drawing.pyplot(f"{cls.__name__}.from_estimator")
        spent = sources.spent_by(estimator, n_samples)
        return cls.from_spent(spent, delta=delta, ax=ax, **options)

    @classmethod
    def from_spent(
        cls, spent, *, delta=None, single_run=True, closed_form=True, lower_bound=True, ax=None, delta_min=1e-10,
        n_points=33, **plot_options,
    ):
        """Draw a :class:`~skdptune.model_selection.PrivacySpent`: whole search, single run, closed form, lower bound.

        Parameters
        ----------
        spent : PrivacySpent
            One made with a test score (``released.privacy_spent``) is drawn as "search and test score"; closed form and
            lower bound are those of the search, which costs no more.
        delta : float, optional
            Where epsilons are marked. None: ``spent.default_delta``, at which the report states the price: the search's
            own ``delta``, else the largest power of ten that is at most 1 / (10 n_samples). (Of a search with
            ``delta=0``: 1e-6, since the axis has no 0.)
        single_run, closed_form, lower_bound : bool, default=True
            Whether to draw them, where they exist. With ``refit=True`` no lower bound is known.
        ax, delta_min, n_points, **plot_options
            See :meth:`from_curve`.

        Returns
        -------
        PrivacyProfileDisplay
        """
        drawing.pyplot(f"{cls.__name__}.from_spent")
        delta = sources.marked_delta(spent) if delta is None else delta
        curves = sources.curves_of(spent, single_run=single_run, closed_form=closed_form)
        runs = spent.row_curves if lower_bound and spent.refit is None else ()
        display = cls._from_parts(curves, runs, spent.run_count, delta, delta_min, n_points)
        return display.plot(ax=ax, **plot_options)

    @classmethod
    def from_curve(
        cls, curve, *, name=None, delta=None, single_run=True, closed_form=True, lower_bound=True, ax=None,
        delta_min=1e-10, n_points=33, **plot_options,
    ):
        """Draw the profile of one curve, or of several.

        Parameters
        ----------
        curve : PrivacyCurve or dict of str to PrivacyCurve
            All under one relation. Of a single curve made by ``best_of``, single run, closed form and lower bound are
            drawn beside it; of a dictionary the curves alone.
        name : str, optional
            Of a single curve.
        delta : float in (0, 1), optional
            Where epsilons are marked.
        single_run, closed_form, lower_bound : bool, default=True
        ax : matplotlib Axes, optional
        delta_min : float in (0, 1), default=1e-10
            Profiles are followed down to this delta.
        n_points : int, default=33
            How many points of each profile are computed; between them valid bounds are interpolated. A fixed or
            lumpy number of tries may take seconds for each.
        **plot_options
            See :meth:`plot`.

        Returns
        -------
        PrivacyProfileDisplay

        Raises
        ------
        RelationMismatchError
            For curves of several relations.
        InvalidTypeError, InvalidParameterError
            For anything but curves, or a ``delta`` outside (0, 1).
        MissingDependencyError
            Without matplotlib.
        """
        drawing.pyplot(f"{cls.__name__}.from_curve")
        curves = sources.named_curves(curve, name)
        runs, count = (), None
        if isinstance(curve, SelectedCurve):
            single = curve.single_run if single_run else None
            closed = sources.closed_form_of(curve) if closed_form else None
            curves = sources.beside(curves, **{"single run": single, "closed form": closed})
            runs, count = ([curve.single_run], curve.run_count) if lower_bound else ((), None)
        return cls._from_parts(curves, runs, count, delta, delta_min, n_points).plot(ax=ax, **plot_options)

    @classmethod
    def _from_parts(cls, curves, runs, run_count, delta, delta_min, n_points):
        delta_min = check_real("delta_min", delta_min, low=0, high=1, low_open=True, high_open=True)
        if delta is not None:
            delta = check_real("delta", delta, low=0, high=1, low_open=True, high_open=True)
            delta_min = min(delta_min, 0.1 * delta)
        relation = sources.common_relation(curves.values())
        profiles = {
            name: profile_points(each, delta_min=delta_min, n_points=n_points) for name, each in curves.items()
        }
        marks = None if delta is None else {name: each.epsilon(delta) for name, each in curves.items()}
        main, lower = next(iter(profiles.values())), None
        if len(runs):
            at = asked_deltas(*main, n_points)[1 :: max(n_points // 11, 1)]
            values = sources.lower_bound(runs, run_count, at)
            lower = None if values is None else (values, at)
        return cls(profiles, relation=relation, marked_delta=delta, marks=marks, lower_bound=lower)

    # Drawing --------------------------------------------------------------------------------

    def plot(self, ax=None, *, name=None, delta_min=None, legend=True, **line_kwargs):
        """Draw the profiles.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; None: in a new figure. Axes that hold lines of another display get further styles.
        name : str, optional
            Put before every label, to tell several displays on one axes apart.
        delta_min : float, optional
            Lower end of the delta axis; by default the least positive delta of the data.
        legend : bool, default=True
        **line_kwargs
            For every line, e.g. ``linewidth=1``.

        Returns
        -------
        PrivacyProfileDisplay
            With the artists in its attributes.

        Raises
        ------
        InvalidTypeError, InvalidParameterError
            If ``ax`` is not one pair of axes with straight scales in a figure.
        MissingDependencyError
            Without matplotlib.
        """
        return self._plot(ax, name, legend, line_kwargs, delta_min=delta_min)

    def _draw(self, ax, prefix, line_kwargs, delta_min):
        ax.set_yscale("log")
        lines = {}
        for label, (epsilon, delta) in self.profiles.items():
            text = prefix + label + self._price(label) + ("" if np.any(delta > 0) else " (delta 0 everywhere)")
            lines[label] = drawing.one_line(ax, epsilon, delta, text, line_kwargs)
        self.lower_bound_ = self._draw_lower_bound(ax, prefix)
        self.marks_ = self._draw_marks(ax, lines)
        self._frame(ax, delta_min, lines)
        return lines

    def _price(self, label):
        if not self.marks or label not in self.marks:
            return ""
        return f", epsilon {drawing.label_up(self.marks[label])}"  # to the private side

    def _draw_lower_bound(self, ax, prefix):
        if self.lower_bound is None:
            return None
        epsilon, delta = self.lower_bound
        style = {"linestyle": "none", "marker": "|", "markersize": 11, "markeredgewidth": 1.6}
        return ax.plot(epsilon, delta, color=drawing.foreground(ax), label=prefix + _LOWER, **style)[0]

    def _draw_marks(self, ax, lines):
        """Mark where the profiles reach the marked delta."""
        if self.marked_delta is None:
            return []
        ax.axhline(self.marked_delta, color=drawing.foreground(ax), **drawing.HAIRLINE)
        marks = []
        for label, epsilon in (self.marks or {}).items():
            if math.isfinite(epsilon) and label in lines:
                line = lines[label]
                look = {"marker": line.get_marker(), "color": line.get_color(), "markerfacecolor": "none"}
                look |= {"markersize": 9, "markeredgewidth": 1.6, "linestyle": "none"}
                marks += ax.plot([epsilon], [self.marked_delta], **look)
        return marks

    def _draw_legend(self, ax, wanted):
        drawing.legend_above(ax, ax.get_ylim()[0], _TOP, wanted)

    def _frame(self, ax, delta_min, own):
        positive = np.concatenate([delta[delta > 0] for _, delta in self.profiles.values()] or [[]])
        low = delta_min or (float(positive.min()) if positive.size else 1e-10)
        gid = next(iter(own.values())).get_gid()
        lines = [line.get_xdata() for line in ax.get_lines() if line.get_gid() == gid]  # other displays' as well
        right = max([float(np.nanmax(x)) for x in lines if np.size(x)], default=1.0)
        ax.set_xlim(0.0, 1.02 * right if right > 0 else 1.0)
        ax.set_ylim(min(low, ax.get_ylim()[0]) if len(lines) > len(own) else low, _TOP)
        ax.set_xlabel("epsilon (nats)")
        ax.set_ylabel("delta")
        title = f"Privacy profile, {self.relation}" if self.relation else "Privacy profile"
        if self.marked_delta is not None:
            title += f"\nepsilons at delta {drawing.number(self.marked_delta)}"
        drawing.titled(ax, title)
