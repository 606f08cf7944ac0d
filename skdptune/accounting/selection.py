"""What publishing the best of K runs costs: ``best_of`` and the bounds it chooses from.

Reading order: :func:`best_of`, :class:`SelectedCurve` (its result), :class:`Selected` (the node of
that), then the bounds in ``_selection_bounds``.
"""

import functools
from dataclasses import dataclass

import numpy as np

from skdptune._exceptions import PricingError
from skdptune._validation import check_choice, check_instance, check_real
from skdptune.accounting._mechanisms import Mechanism
from skdptune.accounting._selection_bounds import BOUNDS, aside
from skdptune.accounting.curve import PrivacyCurve
from skdptune.run_counts import RunCount

__all__ = ["METHODS", "Selected", "SelectedCurve", "best_of"]

METHODS = ("exact", "rdp", "closed_form", "profile", "composition")

_PROBE_DELTA = 1e-6  # where ``method`` is decided before anything was asked


def best_of(curve, run_count, method=None):
    """Return the privacy curve of publishing only the best of K runs.

    Parameters
    ----------
    curve : PrivacyCurve
        Cost of one run, everything that the run could publish included (model, settings, score).
    run_count : RunCount
        Distribution of the hidden number of runs K, independent of the data and of the runs.
    method : {None, "exact", "rdp", "closed_form", "profile", "composition"}, default=None
        ``None`` takes the smallest valid number for each question and records which bound gave it
        (``.method`` of the result). ``"exact"``: the worst case over all orders (needs a dominating
        pair). ``"rdp"``: the generic Renyi bound over the region that the pair, or else the RDP
        curve, allows. ``"closed_form"``: Theorems 2 and 6 and their special cases. ``"profile"``:
        E[K] * delta(epsilon - c). ``"composition"``: all runs released (bounded K only).

    Returns
    -------
    PrivacyCurve
        Under the relation of ``curve``. One sure run gives ``curve`` itself.

    Raises
    ------
    PricingError
        If the method asked for, or with ``None`` every method, cannot price this search.
    InvalidTypeError, InvalidParameterError
        For arguments of the wrong kind.

    Notes
    -----
    Guarantee: the published output of the best of K independent runs under a public fixed order,
    with ties broken by independent marks, or a fixed default if K = 0. Assumes: K, the losers and
    the winner's position stay hidden, and nothing stops the search early.

    With a mass delta_0 set aside (approximate DP), the search sets 1 - f(1 - delta_0) aside: all
    runs avoid the bad event with probability f(1 - delta_0) on both sides, and given that, K has
    law p_k (1 - delta_0)^k / f(1 - delta_0), which is the count then priced.

    References
    ----------
    Papernot and Steinke, arXiv 2110.03620v2; Koskela, Redberg and Wang, arXiv 2402.06701.

    Examples
    --------
    >>> from skdptune.accounting.curve import PrivacyCurve
    >>> from skdptune.run_counts import Logarithmic
    >>> single = PrivacyCurve.gaussian(3.0)
    >>> search = best_of(single, Logarithmic(mean=10), method="rdp")
    >>> round(single.epsilon(1e-5), 2), round(search.epsilon(1e-5), 2)
    (1.27, 1.94)
    """
    check_instance("curve", curve, PrivacyCurve, "a PrivacyCurve")
    check_instance(
        "run_count",
        run_count,
        RunCount,
        "a distribution from skdptune.run_counts",
        "Pass e.g. Logarithmic(mean=10).",
    )
    if method is not None:
        method = check_choice("method", method, METHODS, "None takes the smallest valid bound.")
    if _is_one_run(run_count):
        return curve
    node = Selected(curve.node, run_count, method)
    node.check()
    return SelectedCurve(node, curve.relation)


def _is_one_run(run_count):
    return run_count.support_max == 1 and run_count.p_zero == 0.0


class SelectedCurve(PrivacyCurve):
    """The privacy curve of a whole search: every question goes to the bound that answers it best.

    Attributes
    ----------
    run_count : RunCount
    single_run : PrivacyCurve
        One run, to report beside the whole search.
    method : str
        The bound behind the latest answer.
    methods : tuple of str
        The bounds that can price this search.

    Examples
    --------
    >>> from skdptune.run_counts import Geometric
    >>> search = best_of(PrivacyCurve.zcdp(0.05), Geometric(mean=5))
    >>> search.methods, search.single_run == PrivacyCurve.zcdp(0.05)
    (('rdp', 'closed_form', 'profile'), True)
    """

    @property
    def run_count(self):
        """Distribution of the number of runs."""
        return self.node.run_count

    @property
    def single_run(self):
        """Curve of one run."""
        return PrivacyCurve(self.node.base, self.relation)

    @property
    def method(self):
        """Name of the bound behind the latest answer (before any: behind epsilon(1e-6))."""
        return self.node.method

    @property
    def methods(self):
        """Names of the bounds that can price this search."""
        return self.node.methods

    def epsilon(self, delta):
        """Return the least epsilon (nats) known to hold at ``delta``; see PrivacyCurve.epsilon."""
        delta = check_real("delta", delta, low=0, high=1)
        return 0.0 if delta >= 1.0 else float(self.node.epsilon(delta))

    def delta(self, epsilon):
        """Return the least delta known to hold at ``epsilon``; see PrivacyCurve.delta."""
        if np.ndim(epsilon) > 0:
            return np.array([self.delta(float(value)) for value in np.asarray(epsilon)])
        epsilon = check_real("epsilon", epsilon, low=0, allow_inf=True)
        return float(self.node.delta(epsilon))

    def to_relation(self, relation):
        """Return the cost of the search under a relation that its own implies."""
        curve = super().to_relation(relation)
        return curve if curve is self else SelectedCurve(curve.node, relation)


# -- the node --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Selected(Mechanism):
    """Node of best-of-K: a value made of the single run's node, the run count and the method.

    Parameters
    ----------
    base : Mechanism
        Of one run.
    run_count : RunCount
    asked_method : str or None
    """

    base: Mechanism
    run_count: RunCount
    asked_method: str | None = None
    answers_itself = True

    def __reduce__(self):
        # bounds and answers stay behind: they are rebuilt from the three values
        return type(self), (self.base, self.run_count, self.asked_method)

    def __eq__(self, other):
        return self.key == other.key if isinstance(other, Selected) else NotImplemented

    def __hash__(self):
        return hash(self.key)

    @property
    def key(self):
        """Value of this node: equal nodes have equal keys."""
        return ("Selected", self.base.key, self.run_count, self.asked_method)

    def two_steps(self):
        """Best-of-K between two datasets that are both neighbours of a third."""
        return Selected(self.base.two_steps(), self.run_count, self.asked_method)

    def describe(self):
        """One line for reports."""
        return f"best of K runs, K ~ {self.run_count!r}, of {self.base.describe()}"

    @property
    def delta_zero(self):
        """Mass set aside by :meth:`rdp`: 1 - f(1 - delta_0)."""
        return aside(self.base, self.run_count)

    @functools.cached_property
    def _reasons(self):
        return {name: BOUNDS[name].unavailable(self.base, self.run_count) for name in METHODS}

    @property
    def methods(self):
        """Names of the bounds that can price this search, best first."""
        return tuple(name for name in METHODS if self._reasons[name] is None)

    @functools.cached_property
    def _memory(self):
        """Bounds built and answers given so far; no part of the node's value."""
        return {"bounds": {}, "answers": {}, "last": None}

    def _bound(self, name):
        built = self._memory["bounds"]
        if name not in built:
            built[name] = BOUNDS[name](self.base, self.run_count)
        return built[name]

    def check(self):
        """Raise PricingError if nothing can price this search."""
        if self.asked_method is not None:
            reason = self._reasons[self.asked_method]
            if reason is not None:
                raise PricingError(
                    f'method="{self.asked_method}" cannot price this search: {reason}'
                )
        elif not self.methods:
            raise PricingError(f"no method can price this search: {self._reasons['rdp']}")

    def _used(self, question, at):
        """The bounds to ask. Beside a tight exact price only the cheap ones are asked."""
        if self.asked_method is not None:
            return (self.asked_method,)
        if "exact" not in self.methods or not self._bound("exact").is_tight(question, at):
            return self.methods
        # No bound lies below the exact one's certified lower end, which is close to its upper end.
        return tuple(m for m in self.methods if m != "rdp")

    def epsilon(self, delta):
        """Least epsilon (nats) over the bounds in use at ``delta``."""
        return self._least("epsilon", float(delta))

    def delta(self, epsilon):
        """Least delta over the bounds in use at ``epsilon`` (a float)."""
        return self._least("delta", min(float(epsilon), 1e6))  # what holds there holds beyond

    def _least(self, question, at):
        memory = self._memory
        if (question, at) not in memory["answers"]:
            used = self._used(question, at)
            found = [(getattr(self._bound(name), question)(at), name) for name in used]
            memory["answers"][question, at] = min(found, key=lambda pair: pair[0])
        value, memory["last"] = memory["answers"][question, at]
        return value

    @property
    def method(self):
        """Name of the bound behind the latest answer (before any: behind epsilon(1e-6))."""
        if self.asked_method is not None:
            return self.asked_method
        if self._memory["last"] is None:
            self.epsilon(_PROBE_DELTA)
        return self._memory["last"]

    def rdp(self, orders):
        """Renyi divergence of the search outside ``delta_zero``; the least over the bounds."""
        orders = np.atleast_1d(np.asarray(orders, dtype=float))
        renyi = ("rdp", "closed_form", "composition")
        if self.asked_method in renyi:
            return self._bound(self.asked_method).rdp(orders)
        values = [self._bound(m).rdp(orders) for m in renyi if m in self.methods]
        # no order's divergence exceeds the bound of the ratio
        pure = self._bound("exact").pure() if self.asked_method is None and "exact" in self.methods else np.inf
        return np.min([np.full(orders.shape, pure), *values], axis=0)

    def _build_pair(self):
        """Dominating pair of the whole search, or None where only RDP is known."""
        for name in ("exact", "profile"):
            if self.asked_method in (None, name) and name in self.methods:
                found = self._bound(name).pair()
                if found is not None:
                    return found
        return None
