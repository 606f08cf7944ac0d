"""What publishing the best of K runs costs: ``best_of`` and the bounds it chooses from.

Reading order: :func:`best_of`, then :class:`Selected` (the node of the result), then the bounds.
Every bound is valid by itself, so the least of those that apply is valid too.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np

from skdptune._exceptions import PricingError
from skdptune._validation import check_choice, check_instance, check_real
from skdptune.accounting._closed_form import closed_form, has_log_convex_weight, least_above
from skdptune.accounting._conversion import default_orders, delta_from_rdp, epsilon_from_rdp
from skdptune.accounting._mechanisms import Mechanism, Zcdp
from skdptune.accounting._profile_bound import profile_delta, profile_epsilon, weight_gap
from skdptune.accounting._rdp_region import (
    ConditionedRegion,
    PairRegion,
    RdpRegion,
    one_way_rdp,
    region_rdp,
)
from skdptune.accounting.curve import PrivacyCurve
from skdptune.run_counts import RunCount

__all__ = ["METHODS", "Selected", "SelectedCurve", "best_of"]

METHODS = ("exact", "rdp", "closed_form", "profile", "composition")

_LARGEST_TABLE = 10_000  # numbers of runs whose probabilities are summed one by one
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
    (1.27, 2.03)
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
        return _aside(self.base, self.run_count)

    @functools.cached_property
    def _reasons(self):
        return {name: _BOUNDS[name].unavailable(self.base, self.run_count) for name in METHODS}

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
            built[name] = _BOUNDS[name](self.base, self.run_count)
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

    def _used(self):
        """The bounds to ask: with an exact price only the cheap ones are asked beside it."""
        if self.asked_method is not None:
            return (self.asked_method,)
        if "exact" in self.methods:
            # The exact price is within its tolerance of the least possible number, so a bound that
            # is not exact itself can win by that tolerance at most; these cost next to nothing.
            return tuple(m for m in self.methods if m in ("exact", "closed_form", "profile"))
        return self.methods

    def epsilon(self, delta):
        """Least epsilon (nats) over the bounds in use at ``delta``."""
        return self._least("epsilon", float(delta))

    def delta(self, epsilon):
        """Least delta over the bounds in use at ``epsilon`` (a float)."""
        return self._least("delta", float(epsilon))

    def _least(self, question, at):
        memory = self._memory
        if (question, at) not in memory["answers"]:
            found = [(getattr(self._bound(name), question)(at), name) for name in self._used()]
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
        return np.min([np.full(orders.shape, np.inf), *values], axis=0)

    def _build_pair(self):
        """Dominating pair of the whole search, or None where only RDP is known."""
        if self.asked_method in (None, "exact") and "exact" in self.methods:
            return self._bound("exact").pair()
        return None


# -- helpers ---------------------------------------------------------------------------------


def _aside(base, run_count):
    if base.delta_zero == 0.0:
        return 0.0
    # G is accurate to 1e-12; rounded up: private side
    return min(float(run_count.attainment(base.delta_zero)) * (1.0 + 1e-11), 1.0)


class _ConditionedCount:
    """Law of K given that no run hit an event of mass d: p_k (1 - d)^k / f(1 - d)."""

    def __init__(self, run_count, d):
        self._run_count, self._d = run_count, d
        hit = float(run_count.attainment(d))
        # log f(1 - d), from whichever of f and 1 - f is small
        self._log_total = math.log1p(-hit) if hit < 0.5 else float(run_count.log_pgf(1.0 - d))
        self.p_zero = run_count.p_zero * math.exp(-self._log_total)

    def log_weight(self, r):
        # generating function f((1-d) x) / f(1-d); at x = 1 - r its argument is 1 - (d + (1-d) r)
        d = self._d
        inner = self._run_count.log_weight(np.minimum(d + (1.0 - d) * r, 1.0))
        return inner + (math.log1p(-d) - self._log_total)


def _finite_orders(base):
    """dp_accounting's default orders, and those at which a given curve is known exactly."""
    own = [order for order in getattr(base, "orders", ()) if math.isfinite(order)]
    return np.union1d(default_orders(), own) if own else np.array(default_orders())


@functools.lru_cache(maxsize=64)  # nodes are values: equal ones share an entry
def _rdp_table(base, orders):
    rdp = np.array(base.rdp(np.array(orders)), dtype=float)
    rdp.setflags(write=False)
    return rdp


@functools.lru_cache(maxsize=64)
def _curve_region(base, orders):
    return RdpRegion(np.array(orders), _rdp_table(base, orders))


def _finite_rdp(base):
    orders = _finite_orders(base)
    return orders, _rdp_table(base, tuple(orders))


def _no_rdp(base, run_count):
    """Reason why there is no usable RDP curve of a single run, or of a good search, or None."""
    if _aside(base, run_count) >= 1.0:
        return "the bad event of approximate DP is hit almost surely within the search."
    if not np.isfinite(_finite_rdp(base)[1]).any():
        return "the single run has no finite Renyi divergence: give a curve with an RDP or a pair."
    return None


def _pure_level(base):
    """Infinite-order divergence of the single run (outside its aside); ``inf`` if unknown."""
    return float(np.asarray(base.rdp(np.array([np.inf])))[0])


class _RenyiBound:
    """A bound that is a Renyi curve outside an aside; subclasses give ``rdp(orders)``."""

    def __init__(self, base, run_count):
        self.base, self.run_count = base, run_count
        self.delta_zero = _aside(base, run_count)

    @functools.cached_property
    def _curve(self):
        orders = np.append(_finite_orders(self.base), np.inf)
        return orders, self.rdp(orders)

    def epsilon(self, delta):
        return epsilon_from_rdp(*self._curve, delta, self.delta_zero)

    def delta(self, epsilon):
        if epsilon < 0.0:
            return 1.0  # says nothing there
        return delta_from_rdp(*self._curve, epsilon, self.delta_zero)


# -- the bounds ------------------------------------------------------------------------------


class ClosedFormBound(_RenyiBound):
    """Theorems 2 and 6 on the orders asked for, and their pure, zCDP and capped forms."""

    def __init__(self, base, run_count):
        super().__init__(base, run_count)
        self._form = closed_form(run_count)

    @staticmethod
    def unavailable(base, run_count):
        """Reason why this bound does not apply, or None."""
        try:
            closed_form(run_count)
        except PricingError as error:
            return str(error)
        return _no_rdp(base, run_count)

    def rdp(self, orders):
        """Renyi divergence at ``orders``; infinite for a capped count, whose form is a profile."""
        if self._form.cap_mass > 0.0:
            return np.full(orders.shape, np.inf)
        return self._uncapped_rdp(orders)

    def _uncapped_rdp(self, orders):
        single = np.asarray(self.base.rdp(orders), dtype=float)
        finite = np.isfinite(orders)
        result = np.full(orders.shape, np.inf)
        result[finite] = self._form.rdp(orders[finite], single[finite])
        if isinstance(self.base, Zcdp) and self.base.xi == 0.0:
            special = self._form.zcdp(orders[finite], self.base.rho)
            result[finite] = np.minimum(result[finite], special)
        live = ~finite & np.isfinite(single)
        result[live] = [self._form.pure(value) for value in single[live]]
        return result

    @functools.cached_property
    def _curve(self):
        orders = np.append(_finite_orders(self.base), np.inf)
        return orders, self._uncapped_rdp(orders)

    def epsilon(self, delta):
        if self._form.cap_mass == 0.0:
            return super().epsilon(delta)
        return _first_at_most(self.delta, delta, super().epsilon)

    def delta(self, epsilon):
        value, b = super().delta(epsilon), self._form.cap_mass
        if b == 0.0:
            return value
        if epsilon > 700.0 or b >= 1.0:
            return 1.0
        # (delta + e^eps b) / (1 - b), rounded up: private side
        return min((value + math.exp(epsilon) * b) / (1.0 - b) * (1.0 + 1e-12), 1.0)


def _first_at_most(profile, delta, start):
    """Least epsilon found with profile(epsilon) <= delta, for a profile that falls, then rises."""
    low = start(delta)
    if not math.isfinite(low):
        return math.inf
    grid = low + np.concatenate([[0.0], np.geomspace(1e-4, 60.0, 120)])
    good = [profile(x) <= delta for x in grid]
    if not any(good):
        return math.inf
    first = int(np.argmax(good))
    high, low = float(grid[first]), float(grid[max(first - 1, 0)])
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if profile(middle) <= delta else (middle, high)
    return high  # the end at which the profile was checked: private side


class RdpBound(_RenyiBound):
    """The generic Renyi bound over the region that the pair, or else the curve, allows.

    Each direction of the two neighbours has its own region. Where the pair is not symmetric its
    own divergence in that direction, on condition of a finite loss, is tried as well: it may lie
    far below the curve, which holds for both.
    """

    def __init__(self, base, run_count):
        super().__init__(base, run_count)
        self._convex = has_log_convex_weight(run_count)
        self._given = self._count_outside(base.delta_zero)

    @staticmethod
    def unavailable(base, run_count):
        """Reason why this bound does not apply, or None."""
        if not math.isfinite(run_count.mean):
            return "the mean number of runs is infinite: cap it with AtMost."
        return _no_rdp(base, run_count)

    def _count_outside(self, d):
        return self.run_count if d == 0.0 else _ConditionedCount(self.run_count, d)

    @functools.cached_property
    def _pairs(self):
        pair = self.base.pair()
        if pair is None:
            return []
        return [pair] if pair.symmetric else [pair, pair.swap()]

    @functools.cached_property
    def _regions(self):
        d = self.base.delta_zero
        orders = tuple(_finite_orders(self.base))
        if not self._pairs:
            return [_curve_region(self.base, orders)]
        both = [PairRegion(pair) for pair in self._pairs]
        if d == 0.0:
            return both
        good = _curve_region(self.base, orders)
        return [ConditionedRegion(region, d, good) for region in both]

    @functools.cached_property
    def _grid(self):
        """Orders and, per direction, what the search costs at them."""
        orders = _finite_orders(self.base)
        return orders, self._values(orders, _rdp_table(self.base, tuple(orders)))

    def _values(self, orders, single):
        value = np.array(
            [
                region_rdp(orders, single, region, self._given, log_convex=self._convex)
                for region in self._regions
            ]
        )
        # A closed form is proved from a part of the same region, so it can be less only by the
        # tolerance of the numeric maximum.
        if ClosedFormBound.unavailable(self.base, self.run_count) is None:
            everything = np.concatenate([orders, _finite_orders(self.base)])
            closed = ClosedFormBound(self.base, self.run_count).rdp(everything)
            value = np.minimum(value, least_above(everything, closed)[: len(orders)])
        return value

    def rdp(self, orders):
        """Renyi divergence at ``orders``, each in [1, inf]: the worse direction."""
        known, values = self._grid
        fresh = np.setdiff1d(orders[np.isfinite(orders)], known)
        extra = values[:, :0]
        if fresh.size:
            extra = self._values(fresh, np.asarray(self.base.rdp(fresh), dtype=float))
        everything = np.concatenate([known, fresh, [np.inf]])
        both = np.concatenate([values.max(axis=0), extra.max(axis=0), [max(self._pure)]])
        combined = least_above(everything, both)
        rank = np.argsort(everything, kind="stable")
        return combined[rank][np.searchsorted(everything[rank], orders)]

    @functools.cached_property
    def _pure(self):
        """Order infinity, per direction: the single run's level and sup log w(r) - log w(s)."""
        level = _pure_level(self.base)
        if not math.isfinite(level):
            return [math.inf] * len(self._regions)
        return [level + weight_gap(region, self._given) for region in self._regions]

    @functools.cached_property
    def _directions(self):
        """Per direction the Renyi curves that hold: (orders, values, mass set aside)."""
        orders, values = self._grid
        with_pure = np.append(orders, np.inf)
        found = [
            [(with_pure, np.append(value, pure), self.delta_zero)]
            for value, pure in zip(values, self._pure, strict=True)
        ]
        if len(self._pairs) == 2:
            for curves, pair in zip(found, self._pairs, strict=True):
                curves.extend(self._one_way(orders, pair))
        return found

    def _one_way(self, orders, pair):
        """The curve of one direction from the pair's own divergence, outside infinite losses."""
        d = pair.aside
        aside = min(float(self.run_count.attainment(d)) * (1.0 + 1e-11), 1.0)  # private side
        if aside >= 1.0:
            return []
        single = one_way_rdp(pair, orders)
        region, count = PairRegion(pair), self._count_outside(d)
        if d > 0.0:
            region = ConditionedRegion(region, d)
        return [(orders, region_rdp(orders, single, region, count, log_convex=self._convex), aside)]

    def epsilon(self, delta):
        return max(
            min(epsilon_from_rdp(orders, values, delta, aside) for orders, values, aside in curves)
            for curves in self._directions
        )

    def delta(self, epsilon):
        if epsilon < 0.0:
            return 1.0  # says nothing there
        return max(
            min(delta_from_rdp(orders, values, epsilon, aside) for orders, values, aside in curves)
            for curves in self._directions
        )


class ProfileBound:
    """E[K] * delta(epsilon - c), each direction with its own profile and constant."""

    def __init__(self, base, run_count):
        self.run_count = run_count
        pair = base.pair()
        if pair is None:
            orders, rdp = _finite_rdp(base)
            gap = weight_gap(_curve_region(base, tuple(orders)), run_count)
            self._sides = [
                (
                    lambda e: delta_from_rdp(orders, rdp, e) if e >= 0.0 else 1.0,
                    lambda d: epsilon_from_rdp(orders, rdp, d),
                    gap,
                )
            ]
        else:
            pairs = [pair] if pair.symmetric else [pair, pair.swap()]
            self._sides = [
                (one.delta, one.epsilon_one_way, weight_gap(PairRegion(one), run_count))
                for one in pairs
            ]

    @staticmethod
    def unavailable(base, run_count):
        """Reason why this bound does not apply, or None."""
        if not math.isfinite(run_count.mean):
            return "the mean number of runs is infinite: cap it with AtMost."
        if base.pair() is None:
            if base.delta_zero > 0.0:
                return "without a dominating pair it needs an RDP that sets no mass aside."
            return _no_rdp(base, run_count)
        return None

    def epsilon(self, delta):
        return max(
            profile_epsilon(single, gap, self.run_count, delta) for _, single, gap in self._sides
        )

    def delta(self, epsilon):
        return max(
            profile_delta(single, gap, self.run_count, epsilon) for single, _, gap in self._sides
        )


class CompositionBound(_RenyiBound):
    """All runs released together with K: the best one is post-processing of that.

    e^{(a-1) D_a} <= E[e^{K (a-1) D_a(P|Q)}], as K has the same law on both sides.
    """

    @staticmethod
    def unavailable(base, run_count):
        """Reason why this bound does not apply, or None."""
        if run_count.support_max is None or run_count.support_max > _LARGEST_TABLE:
            return f"the number of runs is not bounded by {_LARGEST_TABLE}: cap it with AtMost."
        return _no_rdp(base, run_count)

    @functools.cached_property
    def _log_pmf(self):
        k = np.arange(self.run_count.support_max + 1)
        with np.errstate(divide="ignore"):
            log_pmf = np.log(self.run_count.pmf(k))
        d = self.base.delta_zero
        if d > 0.0:  # the count given that no run hit the bad event
            log_pmf = log_pmf + k * math.log1p(-d)
            log_pmf -= np.logaddexp.reduce(log_pmf)
        return k, log_pmf

    def rdp(self, orders):
        """Renyi divergence at ``orders``."""
        k, log_pmf = self._log_pmf
        single = np.asarray(self.base.rdp(orders), dtype=float)
        result = np.full(orders.shape, np.inf)
        live = np.isfinite(single) & (orders > 1.0) & np.isfinite(orders)
        scale = orders[live] - 1.0
        exponent = scale[:, None] * single[live, None] * k + log_pmf
        # rounded up: private side
        result[live] = np.logaddexp.reduce(exponent, axis=1) / scale * (1.0 + 1e-12) + 1e-15
        result[np.isinf(orders)] = k[-1] * single[np.isinf(orders)]
        return result


class ExactBound:
    """The worst case over all orders of the outputs, certified from above."""

    def __init__(self, base, run_count):
        self._single, self.run_count = base.pair(), run_count

    @staticmethod
    def unavailable(base, run_count):
        """Reason why this bound does not apply, or None."""
        if base.pair() is None:
            return 'no dominating pair of the single run is known: use method="rdp" or None.'
        return None

    def epsilon(self, delta):
        from skdptune.accounting._exact import exact_epsilon

        return exact_epsilon(self._single, self.run_count, delta).upper

    def delta(self, epsilon):
        from skdptune.accounting._exact import exact_delta

        return exact_delta(self._single, self.run_count, epsilon).upper

    def pair(self):
        """Dominating pair (PLD) of the whole search."""
        from skdptune.accounting._exact import exact_pair

        return exact_pair(self._single, self.run_count)


_BOUNDS = {
    "exact": ExactBound,
    "rdp": RdpBound,
    "closed_form": ClosedFormBound,
    "profile": ProfileBound,
    "composition": CompositionBound,
}
