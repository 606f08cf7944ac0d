"""The bounds on best-of-K that ``best_of`` chooses from, one class each.

Every class says why it does not apply (``unavailable``), and else answers ``epsilon(delta)`` and
``delta(epsilon)``; Renyi bounds also ``rdp(orders)`` outside a mass ``delta_zero``, the exact one
``pair()``. Each is valid by itself, so the least of those that apply is valid too.
"""

import functools
import math

import numpy as np

from skdptune._exceptions import PricingError
from skdptune.accounting._closed_form import closed_form, has_log_convex_weight, least_above
from skdptune.accounting._combinations import compose
from skdptune.accounting._conditioned import ConditionedCount
from skdptune.accounting._conversion import default_orders, delta_from_rdp, epsilon_from_rdp
from skdptune.accounting._mechanisms import Zcdp
from skdptune.accounting._pair_builders import pair_from_two_profiles
from skdptune.accounting._profile_bound import profile_delta, profile_epsilon, weight_gap
from skdptune.accounting._rdp_region import (
    ConditionedRegion,
    PairRegion,
    RdpRegion,
    one_way_rdp,
    region_rdp,
)

__all__ = [
    "BOUNDS",
    "ClosedFormBound",
    "CompositionBound",
    "ExactBound",
    "ProfileBound",
    "RdpBound",
    "aside",
]

_LEAST_RDP = 1e-15  # nats; below it 1 - e^-D is rounded to zero in the conversion
_FEW_ATOMS = 5000  # of a pair whose price at delta 0 is soon found
_TIGHT = 0.01  # an exact price this close to its lower bound is not compared with the "rdp" one
_PROFILE_POINTS = 1500  # losses at which a profile is turned into a pair
_LARGEST_COMPOSITION = 16  # pairs are composed with themselves up to this many times
_LARGEST_TABLE = 10_000  # numbers of runs whose probabilities are summed one by one


def aside(base, run_count):
    """Mass that the search sets aside, 1 - f(1 - delta_0), for a run that sets delta_0 aside."""
    if base.delta_zero == 0.0:
        return 0.0
    # G is accurate to 1e-12; rounded up: private side
    return min(float(run_count.attainment(base.delta_zero)) * (1.0 + 1e-11), 1.0)


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
    if aside(base, run_count) >= 1.0:
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
        self.delta_zero = aside(base, run_count)

    @functools.cached_property
    def _curve(self):
        orders = np.append(_finite_orders(self.base), np.inf)
        return orders, self.rdp(orders)

    def epsilon(self, delta):
        orders, values = self._curve
        return epsilon_from_rdp(orders, np.maximum(values, _LEAST_RDP), delta, self.delta_zero)

    def delta(self, epsilon):
        if epsilon < 0.0:
            return 1.0  # says nothing there
        orders, values = self._curve
        return delta_from_rdp(orders, np.maximum(values, _LEAST_RDP), epsilon, self.delta_zero)


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
        return self.run_count if d == 0.0 else ConditionedCount(self.run_count, d)

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
        known = math.inf  # a closed form can be less by the tolerance of the numeric maximum
        if ClosedFormBound.unavailable(self.base, self.run_count) is None:
            known = float(ClosedFormBound(self.base, self.run_count).rdp(np.array([np.inf]))[0])
        return [min(level + weight_gap(region, self._given), known) for region in self._regions]

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
        mass = min(float(self.run_count.attainment(d)) * (1.0 + 1e-11), 1.0)  # private side
        if mass >= 1.0:
            return []
        single = one_way_rdp(pair, orders)
        region, count = PairRegion(pair), self._count_outside(d)
        if d > 0.0:
            region = ConditionedRegion(region, d)
        return [(orders, region_rdp(orders, single, region, count, log_convex=self._convex), mass)]

    def epsilon(self, delta):
        return max(
            min(epsilon_from_rdp(orders, values, delta, mass) for orders, values, mass in curves)
            for curves in self._directions
        )

    def delta(self, epsilon):
        if epsilon < 0.0:
            return 1.0  # says nothing there
        return max(
            min(delta_from_rdp(orders, values, epsilon, mass) for orders, values, mass in curves)
            for curves in self._directions
        )


class ProfileBound:
    """E[K] * delta(epsilon - c), each direction with its own profile and constant."""

    def __init__(self, base, run_count):
        self.run_count = run_count
        pair = base.pair()
        self._top = None if pair is None or pair.size == 0 else float(np.abs(pair.losses).max())
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

    def pair(self):
        """Dominating pair from both directions' bounds on a grid, or None if nothing is finite."""
        if self._top is None or not all(math.isfinite(gap) for _, _, gap in self._sides):
            return None
        # beyond the largest loss plus c the bound is flat: only infinite mass is left
        top = max(self._top + max(gap for _, _, gap in self._sides), 1e-6)
        spacing = top / (_PROFILE_POINTS - 1)
        losses = np.arange(_PROFILE_POINTS + 1) * spacing
        profiles = [
            np.array([profile_delta(single, gap, self.run_count, e) for e in losses])
            for single, _, gap in self._sides
        ]
        pair = pair_from_two_profiles(losses, profiles[0], profiles[-1], spacing)
        return pair if pair.p_infinite < 1.0 or pair.q_zero < 1.0 else None


class CompositionBound(_RenyiBound):
    """All runs released together with K: the best one is post-processing of that.

    e^{(a-1) D_a} <= E[e^{K (a-1) D_a(P|Q)}], as K has the same law on both sides. Where the largest
    number of runs is likely and small, the pair of that many runs is used as well.
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

    @functools.cached_property
    def _pair(self):
        most = self.run_count.support_max
        if most > _LARGEST_COMPOSITION or self.run_count.pmf(most) < 0.5:
            return None
        return compose([(self.base, most)]).pair()

    def epsilon(self, delta):
        value = super().epsilon(delta)
        return value if self._pair is None else min(value, float(self._pair.epsilon(delta)))

    def delta(self, epsilon):
        value = super().delta(epsilon)
        return value if self._pair is None else min(value, float(self._pair.worst_delta(epsilon)))


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

    def _between(self, question, at):
        """Certified upper and lower bound of the answer (kept by content where they are made)."""
        from skdptune.accounting import _exact

        return getattr(_exact, f"exact_{question}")(self._single, self.run_count, at)

    def pure(self):
        """Epsilon at delta 0, which bounds the divergence of every order; ``inf`` where it is not soon found."""
        single = self._single
        if single.size > _FEW_ATOMS or max(single.p_infinite, single.q_zero) > 0:
            return math.inf
        return self._between("epsilon", 0.0).upper

    def is_tight(self, question, at):
        """Whether the answer is within 1 % of the least possible one."""
        found = self._between(question, at)
        if not math.isfinite(found.upper):
            return found.lower == found.upper
        return found.upper - found.lower <= _TIGHT * found.upper

    def epsilon(self, delta):
        return self._between("epsilon", delta).upper

    def delta(self, epsilon):
        return self._between("delta", epsilon).upper

    def pair(self):
        """Dominating pair (PLD) of the whole search, or None where its profile is one up to the largest epsilon.

        Such a search may still have a pure level, which is then all that its composition goes by.
        """
        from skdptune.accounting._exact_profile import exact_pair

        try:
            return exact_pair(self._single, self.run_count)
        except PricingError:
            return None


BOUNDS = {
    "exact": ExactBound,
    "rdp": RdpBound,
    "closed_form": ClosedFormBound,
    "profile": ProfileBound,
    "composition": CompositionBound,
}
