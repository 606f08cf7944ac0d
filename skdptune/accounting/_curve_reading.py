"""How a curve is read: epsilon at delta, delta at epsilon, Renyi divergences.

A node that knows better than its pair is asked first; then the pair answers, and where its far tail
is cut, or where there is none, the Renyi curve too.
"""

import numpy as np

from skdptune._validation import check_real
from skdptune.accounting import _combinations
from skdptune.accounting._conversion import (
    check_orders,
    default_orders,
    delta_from_rdp,
    epsilon_from_rdp,
    refine_orders,
)

__all__ = ["CurveReading"]

_RESOLVED = 1e-18  # a pair's far tail is cut below this: smaller deltas ask the Renyi curve too


class CurveReading:
    """The questions of :class:`PrivacyCurve`, which has a ``node`` and makes curves with ``_curve_of``."""

    @property
    def pair(self):
        """The dominating pair of the mechanism, or None where none is known."""
        return self.node.pair()

    @property
    def delta_zero(self):
        """Mass of the event outside which :meth:`rdp` holds."""
        return float(self.node.delta_zero)

    @property
    def method(self):
        """Which bound gave the numbers: "pair", "rdp", or what a selection recorded."""
        return getattr(self.node, "method", "rdp" if self.pair is None else "pair")

    def rdp(self, orders):
        """Return the Renyi divergence of the worse order of two neighbours.

        Parameters
        ----------
        orders : array-like of shape (n_orders,), each in [1, inf]
            Order 1 is answered at order 1.01, which is larger; order inf by the pure bound.

        Returns
        -------
        rdp : ndarray of shape (n_orders,)
            In nats; ``inf`` where unknown. Holds outside an event of mass ``delta_zero``.

        Examples
        --------
        >>> from skdptune.accounting import PrivacyCurve
        >>> PrivacyCurve.gaussian(2.0).rdp([2, 8, 32])
        array([0.25, 1.  , 4.  ])
        """
        values = self.node.rdp(np.maximum(check_orders(orders), 1.01))
        # a node that cannot tell has told nothing
        return np.where(np.isnan(values) | (values < 0), np.inf, values)

    def epsilon(self, delta):
        """Return the least epsilon known to hold at ``delta``.

        Parameters
        ----------
        delta : float in [0, 1]

        Returns
        -------
        epsilon : float >= 0
            In nats, rounded up; ``inf`` if no finite value is known.

        Examples
        --------
        >>> from skdptune.accounting import PrivacyCurve
        >>> PrivacyCurve.gaussian(1.0).epsilon(0)
        inf
        """
        delta = check_real("delta", delta, low=0, high=1)
        asked = self._asked("epsilon", delta)
        if asked is not None:
            return asked
        pair = self.pair
        best = np.inf if pair is None else pair.epsilon(delta)
        best = min(best, self._pure(delta))
        if pair is None or not np.isfinite(best) or delta < _RESOLVED:
            best = min(best, self._epsilon_from_rdp(delta))
            # a random choice costs no more than the dearest of what may be chosen
            best = min(best, max((part.epsilon(delta) for part in self._parts()), default=best))
        return float(best)

    def _pure(self, delta):
        """The bound that holds at every delta from ``delta_zero`` up.

        A pair joined from few points may lie above it.
        """
        return float(self.rdp([np.inf])[0]) if delta >= self.delta_zero else np.inf

    def _asked(self, question, at):
        """Return the answer of a node that knows better than its pair does, or None.

        The worst of several is the largest of their answers; the best of K runs asks its bounds. Neither
        builds a pair for that.
        """
        if isinstance(self.node, _combinations.Worst):
            curves = [self._curve_of(node) for node in self.node.nodes]
            return max(getattr(curve, question)(at) for curve in curves)
        return float(getattr(self.node, question)(at)) if self.node.answers_itself else None

    def _epsilon_from_rdp(self, delta):
        def score(orders, values):
            return epsilon_from_rdp(orders, values, delta, self.delta_zero)

        orders, values = refine_orders(self.rdp, (*self._orders(), np.inf), score)
        return score(orders, values)

    def _orders(self):
        given = getattr(self.node, "orders", ())
        return sorted({*default_orders(), *(order for order in given if np.isfinite(order))})

    def delta(self, epsilon):
        """Return the least delta known to hold at ``epsilon`` (a float or an array, >= 0).

        Examples
        --------
        >>> from skdptune.accounting import PrivacyCurve
        >>> PrivacyCurve.pure(1.0).delta(1.0)
        0.0
        >>> f"{PrivacyCurve.gaussian(3.0).delta(1.271):.1e}"
        '1.0e-05'
        """
        if np.ndim(epsilon) > 0:
            return np.array([self.delta(float(value)) for value in np.asarray(epsilon)])
        epsilon = check_real("epsilon", epsilon, low=0, allow_inf=True)
        asked = self._asked("delta", epsilon)
        if asked is not None:
            return asked
        pair = self.pair
        best = 1.0 if pair is None else pair.worst_delta(epsilon)
        if epsilon >= self._pure(self.delta_zero) < np.inf:  # unknown at every epsilon is not known at infinity
            best = min(best, self.delta_zero)
        if pair is None or best < _RESOLVED or best >= 1:
            best = min(best, self._delta_from_rdp(epsilon))
            best = min(best, max((part.delta(epsilon) for part in self._parts()), default=best))
        return float(best)

    def _parts(self):
        """Return the curves of which a mixture chooses one; none for other nodes."""
        nodes = self.node.nodes if isinstance(self.node, _combinations.Mixture) else ()
        return [self._curve_of(node) for node in nodes]

    def _delta_from_rdp(self, epsilon):
        def score(orders, values):
            return delta_from_rdp(orders, values, epsilon, self.delta_zero)

        if np.isinf(epsilon):  # only what is set aside may remain at infinite loss
            known = np.any(np.isfinite(self.rdp(self._orders())))
            return self.delta_zero if known else 1.0
        orders, values = refine_orders(self.rdp, (*self._orders(), np.inf), score)
        return score(orders, values)
