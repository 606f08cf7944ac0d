"""RdpCurveDisplay: Renyi divergence against its order."""

import numpy as np

from skdptune._rounding import delta_up
from skdptune.accounting.selection import SelectedCurve
from skdptune.displays import _drawing as drawing
from skdptune.displays import _sources as sources
from skdptune.displays._base import CurvesDisplay
from skdptune.displays._points import rdp_points

__all__ = ["RdpCurveDisplay"]


class RdpCurveDisplay(CurvesDisplay):
    """Renyi divergences of one mechanism or several, against the order.

    Parameters
    ----------
    curves : dict of str to (ndarray of shape (n,), ndarray of shape (n,))
        For each name orders (ascending, above 1) and divergences in nats, ``inf`` where none is known.
    relation : str, optional
        The neighbouring relation, for the title.
    delta_zero : dict of str to float, optional
        Mass of the event outside which a curve holds, where that is not zero.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The first curve.
    lines_ : dict of str to Line2D
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Notes
    -----
    *Guarantee.* Every drawn point is an upper bound. (order - 1) D is convex in the order, so between orders at which
    a curve was asked the straight line in that quantity is an upper bound too, and points of it are drawn. Orders
    with an infinite divergence are left out; a label says so.

    References
    ----------
    van Erven and Harremoes, arXiv 1206.2459v2, Corollary 2 (convexity of (a - 1) D_a).

    Examples
    --------
    >>> from skdptune.accounting import PrivacyCurve
    >>> from skdptune.displays import RdpCurveDisplay
    >>> display = RdpCurveDisplay.from_curve(PrivacyCurve.gaussian(2.0), orders=[2, 8, 32], name="one sum")
    >>> order, rdp = display.curves["one sum"]
    >>> rdp[order == 8].tolist()
    [1.0]
    """

    def __init__(self, curves, *, relation=None, delta_zero=None):
        self.curves = curves
        self.relation = relation
        self.delta_zero = delta_zero

    @classmethod
    def from_estimator(
        cls, estimator, *, n_samples=None, orders=None, single_run=True, closed_form=True, ax=None, **plot_options
    ):
        """Draw whole search, single run and closed form of a search.

        Parameters
        ----------
        estimator : PrivateRandomSearchCV or PrivacySpent
            A search that is fitted, or whose price at ``n_samples`` rows is meant.
        n_samples : int, optional
            The public number of rows, before a fit.
        single_run, closed_form : bool, default=True
        orders, ax, **plot_options
            See :meth:`from_curve`.

        Returns
        -------
        RdpCurveDisplay
        """
        drawing.pyplot(f"{cls.__name__}.from_estimator")
        spent = sources.spent_by(estimator, n_samples)
        curves = sources.curves_of(spent, single_run=single_run, closed_form=closed_form)
        return cls.from_curve(curves, orders=orders, ax=ax, **plot_options)

    @classmethod
    def from_curve(
        cls, curve, *, name=None, orders=None, single_run=True, closed_form=True, ax=None, **plot_options
    ):
        """Draw the Renyi curve of one curve, or of several.

        Parameters
        ----------
        curve : PrivacyCurve or dict of str to PrivacyCurve
            All under one relation. Beside a single curve made by ``best_of``, single run and closed form are drawn.
        name : str, optional
            Of a single curve.
        orders : array-like of shape (n_orders,), optional
            Finite, above 1. None: 65 orders from 1.1 to 128.
        single_run, closed_form : bool, default=True
        ax : matplotlib Axes, optional
        **plot_options
            See :meth:`plot`.

        Returns
        -------
        RdpCurveDisplay

        Raises
        ------
        RelationMismatchError, InvalidTypeError, InvalidParameterError, MissingDependencyError
        """
        drawing.pyplot(f"{cls.__name__}.from_curve")
        curves = sources.named_curves(curve, name)
        if isinstance(curve, SelectedCurve):
            single = curve.single_run if single_run else None
            closed = sources.closed_form_of(curve) if closed_form else None
            curves = sources.beside(curves, **{"single run": single, "closed form": closed})
        relation = sources.common_relation(curves.values())
        points = {label: rdp_points(each, orders) for label, each in curves.items()}
        aside = {label: each.delta_zero for label, each in curves.items() if each.delta_zero > 0}
        return cls(points, relation=relation, delta_zero=aside).plot(ax=ax, **plot_options)

    def _draw(self, ax, prefix, line_kwargs):
        ax.set_xscale("log")
        ax.set_yscale("log")
        lines = {}
        for label, (order, rdp) in self.curves.items():
            text = prefix + label + self._remark(label, rdp)
            lines[label] = drawing.one_line(ax, order, rdp, text, line_kwargs)
        ax.set_xlabel("order")
        ax.set_ylabel("Rényi divergence (nats)")
        _plain_orders(ax, self.curves)
        drawing.plain_numbers(ax.yaxis)
        drawing.titled(ax, f"Rényi divergence, {self.relation}" if self.relation else "Rényi divergence")
        return lines

    def _remark(self, label, rdp):
        remarks = []
        if self.delta_zero and label in self.delta_zero:
            remarks.append(f"outside mass {delta_up(self.delta_zero[label], 2)}")
        known = np.isfinite(rdp)
        if not known.all():
            remarks.append("infinite at some orders" if known.any() else "infinite at every order")
        if known.any() and not np.any(rdp[known] > 0):  # no place on a logarithmic axis
            remarks.append("0 at every order" if known.all() else "0 at the others")
        return f" ({', '.join(remarks)})" if remarks else ""


def _plain_orders(ax, curves):
    """Write orders as 2, 4, 8, ... where powers of ten would leave one tick."""
    from matplotlib.ticker import NullLocator

    low = min(float(order.min()) for order, _ in curves.values())
    high = max(float(order.max()) for order, _ in curves.values())
    ticks = [float(tick) for tick in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512) if low <= tick <= high]
    if len(ticks) > 1:
        ax.set_xticks(ticks, labels=[f"{tick:g}" for tick in ticks])
        ax.xaxis.set_minor_locator(NullLocator())
