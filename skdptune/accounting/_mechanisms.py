"""Cost of one mechanism, in two currencies: a dominating pair and a Renyi curve.

Each node answers for itself; there is no ladder of types. A node must never understate: where
it knows nothing its divergence is ``inf`` and its pair is ``None``.
"""

import contextlib
import functools
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
from scipy.special import ndtr

from skdptune._rounding import as_given
from skdptune.accounting import _noise_pairs
from skdptune.accounting._compose import compose_pairs, nothing_pair
from skdptune.accounting._conversion import check_rdp
from skdptune.accounting._pairs import DominatingPair

__all__ = [
    "Approximate",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "DpSgd",
    "FromPair",
    "FromRdp",
    "FromRdpFunction",
    "Gaussian",
    "Laplace",
    "Mechanism",
    "NonPrivate",
    "Nothing",
    "Pure",
    "Zcdp",
]

_CACHE_BYTES = 2**27


class _PairCache:
    """Least recently used pairs, by value of the node, bounded by their size in memory."""

    def __init__(self, limit):
        self.limit = limit
        self._pairs = OrderedDict()
        self._lock = threading.Lock()

    @staticmethod
    def _size(pair):
        # three arrays, and as much again for the tail sums and the swapped pair
        return 256 if pair is None else 256 + 9 * pair.losses.nbytes

    def get(self, key, build):
        with self._lock:
            if key in self._pairs:
                self._pairs.move_to_end(key)
                return self._pairs[key]
        pair = build()
        with self._lock:
            self._pairs[key] = pair
            total = sum(self._size(p) for p in self._pairs.values())
            while total > self.limit and len(self._pairs) > 1:
                total -= self._size(self._pairs.popitem(last=False)[1])
        return pair


_PAIRS = _PairCache(_CACHE_BYTES)


class Mechanism:
    """Base of all nodes: frozen values with a cost.

    Subclasses are frozen dataclasses. They override ``_build_pair`` (a :class:`DominatingPair`,
    or None where none is known), ``rdp`` and ``describe``; ``delta_zero`` is the mass of an
    event outside which ``rdp`` holds.
    """

    delta_zero = 0.0
    # nodes of one family compose to a single node, exactly: see ``gather``
    family = None
    # one over the squared noise of a pure Gaussian: precisions of a composition add up
    precision = 0.0
    # True for a node with methods ``epsilon(delta)`` and ``delta(epsilon)`` that beat its pair
    answers_itself = False

    def gather(self, counted):
        """Return one node equal to the composition of ``counted``, all of this family."""
        raise NotImplementedError

    @property
    def key(self):
        """A hashable value: equal nodes have equal keys."""
        parts = (getattr(self, field.name) for field in fields(self))
        return (type(self).__name__, *(_key_of(part) for part in parts))

    def pair(self):
        """Return the dominating pair, or None; cached by value."""
        return _PAIRS.get(self.key, self._build_pair)

    def _build_pair(self):
        return None

    def pair_parts(self):
        """Return [(pair, count), ...] whose composition is this node's pair, or None."""
        pair = self.pair()
        return None if pair is None else [(pair, 1)]

    def rdp(self, orders):
        """Return the Renyi divergence at each order in (1, inf], shape (n_orders,), in nats."""
        return np.full(np.shape(orders), np.inf)

    def two_steps(self):
        """Return the cost between two datasets that are both neighbours of a third."""
        from skdptune.accounting._combinations import TwoSteps

        return TwoSteps(self)

    def describe(self):
        """Return a short text that names the mechanism and its parameters."""
        parts = (f"{field.name}={getattr(self, field.name)!r}" for field in fields(self))
        return f"{type(self).__name__.lower()}({', '.join(parts)})"


def _key_of(part):
    if isinstance(part, tuple):
        return tuple(_key_of(item) for item in part)
    return getattr(part, "key", part)


@dataclass(frozen=True)
class Nothing(Mechanism):
    """A mechanism that reads no data."""

    def _build_pair(self):
        return nothing_pair()

    def rdp(self, orders):
        return np.zeros(np.shape(orders))

    def two_steps(self):
        return self

    def describe(self):
        return "nothing"


@dataclass(frozen=True)
class NonPrivate(Mechanism):
    """A mechanism without any guarantee."""

    def _build_pair(self):
        empty = np.array([])
        return DominatingPair(empty, empty, empty, 1.0, 1.0, None, True)

    def two_steps(self):
        return self

    def describe(self):
        return "non-private"


@dataclass(frozen=True)
class Gaussian(Mechanism):
    """Gaussian noise; ``noise`` is its standard deviation over the distance of the two means."""

    noise: float

    @property
    def precision(self):
        return 1 / self.noise**2

    def _build_pair(self):
        return None if self.noise < _noise_pairs.LEAST_NOISE else _noise_pairs.gaussian_pair(self.noise)

    def rdp(self, orders):
        # a / (2 s^2): Mironov, arXiv 1702.07476v3, Proposition 7
        return np.asarray(orders, dtype=float) / (2 * self.noise**2)

    def two_steps(self):
        # two distances add up: the trade-off functions compose to one Gaussian (Dong, Roth and
        # Su, arXiv 1905.02383v3, Theorem 2.14 and the text after it)
        return Gaussian(self.noise / 2)

    def describe(self):
        return f"gaussian(noise {as_given(self.noise)})"


@dataclass(frozen=True)
class Pure(Mechanism):
    """A pure epsilon promise."""

    epsilon: float

    def _build_pair(self):
        return _noise_pairs.randomised_response_pair(self.epsilon)

    def rdp(self, orders):
        return pure_rdp(self.epsilon, orders)

    def two_steps(self):
        return Pure(2 * self.epsilon)

    def describe(self):
        return f"pure(epsilon {as_given(self.epsilon)})"


def pure_rdp(epsilon, orders):
    """Return the divergence of randomised response, the largest that epsilon allows.

    With p = e^eps / (1 + e^eps): e^{(a-1) D} = p^a (1-p)^{1-a} + (1-p)^a p^{1-a}
    = 1 + (e^{a eps} - 1)(1 - e^{(1-a) eps}) / (1 + e^eps).
    """
    a = np.asarray(orders, dtype=float)
    finite = np.where(np.isfinite(a), a, 2.0)
    with np.errstate(divide="ignore", over="ignore"):
        log_gain = (
            _log_expm1(finite * epsilon)
            + np.log(-np.expm1((1 - finite) * epsilon))
            - np.logaddexp(0.0, epsilon)
        )
    # rounded up: next to a large epsilon the last digits weigh whole nats
    value = np.logaddexp(0.0, log_gain) / (finite - 1) * (1 + 2e-15)
    return np.where(np.isfinite(a), np.minimum(value, epsilon), epsilon)


def _log_expm1(x):
    return np.where(x > 30, x + np.log1p(-np.exp(-x)), np.log(np.expm1(np.minimum(x, 30.0))))


@dataclass(frozen=True)
class Approximate(Mechanism):
    """An (epsilon, delta) promise: Renyi divergence only outside an event of mass delta."""

    epsilon: float
    delta: float

    @property
    def delta_zero(self):
        return self.delta

    def _build_pair(self):
        return _noise_pairs.randomised_response_pair(self.epsilon, self.delta)

    def rdp(self, orders):
        return pure_rdp(self.epsilon, orders)

    def two_steps(self):
        # P0(S) <= e^eps (e^eps P2(S) + delta) + delta
        delta = self.delta * (1 + np.exp(min(self.epsilon, 700.0)))
        return Approximate(2 * self.epsilon, float(min(delta, 1.0)))

    def describe(self):
        return f"approximate(epsilon {as_given(self.epsilon)}, delta {as_given(self.delta)})"


@dataclass(frozen=True)
class Laplace(Mechanism):
    """Laplace noise; ``epsilon`` is the distance of the two centres over the scale."""

    epsilon: float

    def _build_pair(self):
        return None if self.epsilon > _noise_pairs.LARGEST_LOSS else _noise_pairs.laplace_pair(self.epsilon)

    def rdp(self, orders):
        # Mironov, arXiv 1702.07476v3, Proposition 6:
        # e^{(a-1) D} = a/(2a-1) e^{(a-1) eps} + (a-1)/(2a-1) e^{-a eps}
        #             = 1 + the same with e^x - 1 for e^x
        a = np.asarray(orders, dtype=float)
        b = np.where(np.isfinite(a), a, 2.0)
        with np.errstate(over="ignore"):
            gain = b * np.expm1((b - 1) * self.epsilon) + (b - 1) * np.expm1(-b * self.epsilon)
            small = np.log1p(np.maximum(gain, 0.0) / (2 * b - 1)) / (b - 1)
        log_sum = np.logaddexp(np.log(b) + (b - 1) * self.epsilon, np.log(b - 1) - b * self.epsilon)
        large = (log_sum - np.log(2 * b - 1)) / (b - 1)
        value = np.where((b - 1) * self.epsilon < 1, small, large)
        # rounded up: for a small epsilon the two terms of the gain cancel
        value = value * (1 + 2e-15) + 4e-16 / (b - 1)
        return np.where(np.isfinite(a), np.minimum(value, self.epsilon), self.epsilon)

    def describe(self):
        return f"laplace(epsilon {as_given(self.epsilon)})"


@dataclass(frozen=True)
class DiscreteLaplace(Mechanism):
    """Two-sided geometric noise of weight e^{-parameter |x|} on an integer of that sensitivity."""

    parameter: float
    sensitivity: int = 1

    def _build_pair(self):
        return _noise_pairs.discrete_laplace_pair(self.parameter, self.sensitivity)

    def rdp(self, orders):
        return _rdp_within(self.pair(), orders, self.parameter * self.sensitivity)

    def describe(self):
        return f"discrete_laplace(parameter {as_given(self.parameter)}, sensitivity {self.sensitivity})"


def _rdp_within(pair, orders, epsilon):
    """Return the divergence of a pair without singular mass, never above its pure bound."""
    orders = np.asarray(orders, dtype=float)
    values = np.full(orders.shape, float(epsilon))
    finite = np.isfinite(orders)
    values[finite] = np.minimum(pair.conditional_rdp(orders[finite]), epsilon)
    return values


@dataclass(frozen=True)
class DiscreteGaussian(Mechanism):
    """Discrete Gaussian noise on an integer that neighbours change by at most one."""

    scale: float

    def _build_pair(self):
        return None if self.scale > _noise_pairs.LARGEST_SCALE else _noise_pairs.discrete_gaussian_pair(self.scale)

    def rdp(self, orders):
        # a / (2 s^2): Canonne, Kamath and Steinke, arXiv 2004.00010v5, Theorem 4
        return np.asarray(orders, dtype=float) / (2 * self.scale**2)

    def describe(self):
        return f"discrete_gaussian(scale {as_given(self.scale)})"


@dataclass(frozen=True)
class Zcdp(Mechanism):
    """Concentrated DP: divergence at most xi + rho a at every order a."""

    rho: float
    xi: float = 0.0

    def rdp(self, orders):
        orders = np.asarray(orders, dtype=float)
        if self.rho == 0:  # at order infinity too
            return np.full(orders.shape, float(self.xi))
        return self.xi + self.rho * orders

    def two_steps(self):
        # (2 k)^2 / k^2 for k = 1: Bun and Steinke, arXiv 1605.02065v1, Proposition 1.9
        return Zcdp(4 * self.rho) if self.xi == 0 else super().two_steps()

    def describe(self):
        return f"zcdp(rho {as_given(self.rho)}" + (f", xi {as_given(self.xi)})" if self.xi else ")")


@dataclass(frozen=True)
class DpSgd(Mechanism):
    """Poisson-subsampled Gaussian steps; ``replace`` tells one row swapped from one row blanked."""

    noise: float
    rate: float
    steps: int
    replace: bool = False

    @property
    def family(self):
        return ("dp_sgd", self.noise, self.rate, self.replace)

    def gather(self, counted):
        steps = sum(count * node.steps for node, count in counted)
        return DpSgd(self.noise, self.rate, steps, self.replace)

    def _step_pair(self):
        return _noise_pairs.subsampled_gaussian_pair(self.noise, self.rate, self.replace)

    def _build_pair(self):
        parts = self.pair_parts()
        return None if parts is None else compose_pairs(parts)

    def pair_parts(self):
        return None if self.noise < _noise_pairs.LEAST_NOISE else [(self._step_pair(), self.steps)]

    def rdp(self, orders):
        orders = np.asarray(orders, dtype=float)
        values = np.full(orders.shape, np.inf)
        finite = np.isfinite(orders)
        step = self._replace_rdp if self.replace else self._remove_rdp
        values[finite] = self.steps * step(orders[finite])
        return values

    def _remove_rdp(self, orders):
        # Mironov, Talwar and Zhang, arXiv 1908.10530v1, Theorem 4 and section 3.3; the remove
        # direction is the larger (Theorem 5 there)
        values = self._step_rdp(orders)
        broken = orders != np.round(orders)
        if np.any(broken):
            # The series of a broken order adds up absolute values, which is too much where the noise is large,
            # and may not converge. For fixed P and Q, (a - 1) D_a = log E_Q[(dP/dQ)^a] is convex in a (Hoelder) and
            # zero at a = 1 (van Erven and Harremoes, arXiv 1206.2459v2, Corollary 2), so it lies under its chord
            # between the whole orders on either side. Both bound the one pair that is the worst: the less holds.
            whole = np.unique(np.concatenate([np.floor(orders[broken]), np.ceil(orders[broken])]))
            x = np.union1d(whole, [1.0])
            y = np.append(0.0, (x[1:] - 1) * self._step_rdp(x[1:]))
            # beyond the last whole order whose series is finite nothing is known
            chord = np.interp(orders[broken], x, y) / (orders[broken] - 1) * (1 + 1e-12)  # rounded up
            values[broken] = np.fmin(values[broken], np.where(np.isnan(chord), np.inf, chord))
        return values

    def _step_rdp(self, orders):
        return np.array(_sampled_gaussian_rdp(self.noise, self.rate, tuple(np.asarray(orders, dtype=float).tolist())))

    def _replace_rdp(self, orders):
        """Divergence of the step's own pair, its upper tail bounded in closed form.

        dp_accounting has no such curve. Renyi divergence grows with domination, so the atoms'
        sum p^a q^(1-a) bounds all cells but the two tails. Beyond the top cell at x = t,
        Q >= (1 - q) N(0) and P <= c N(1), so the integral of P^a Q^(1-a) is at most
        c^a (1 - q)^(1-a) e^{a(a-1)/(2 s^2)} N(a, s^2)(x > t); below the bottom P <= Q.
        """
        if self.noise < _noise_pairs.LEAST_NOISE:
            return np.full(np.shape(orders), np.inf)
        pair, s, rate = self._step_pair(), self.noise, self.rate
        t = 1.0 + _noise_pairs._TAIL_SIGMAS * s
        # c: N(0)/N(1) = e^{-(x - 1/2)/s^2} is falling, so t is its worst point
        c = rate + (1 - rate) * np.exp(-(t - 0.5) / s**2)
        a = np.asarray(orders, dtype=float)
        with np.errstate(divide="ignore", over="ignore"):
            log_tail = a * np.log(c) + (1 - a) * np.log1p(-rate) + a * (a - 1) / (2 * s**2)
            log_tail = log_tail + np.log(ndtr((a - t) / s) + 1e-300)
            inner = np.array([_log_moment(pair, order) for order in a])
        total = np.logaddexp(np.logaddexp(inner, log_tail), np.log(max(pair.q_zero, 1e-300)))
        return np.maximum(total, 0.0) / (a - 1)

    def two_steps(self):
        if self.replace:
            return super().two_steps()
        # blanking is one end of a swap: the pair for swaps is the tight answer
        return DpSgd(self.noise, self.rate, self.steps, True)

    def describe(self):
        parts = f"noise {as_given(self.noise)}, rate {as_given(self.rate)}, steps {self.steps}"
        return f"dp_sgd({parts})"


@functools.lru_cache(maxsize=1024)
def _sampled_gaussian_rdp(noise, rate, orders):
    """Return the divergences of one step at ``orders``, a tuple, as a tuple."""
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(list(orders), dp_accounting.NeighboringRelation.REPLACE_SPECIAL)
    with _quiet_series():
        accountant.compose(dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise)))
    # what lost its digits counts as unknown
    return tuple(np.where(accountant.rdp >= 0, accountant.rdp, np.inf).tolist())


@contextlib.contextmanager
def _quiet_series():
    """Drop dp_accounting's log line about a series that does not converge: it is dealt with."""

    def keep(record):
        return "_compute_log_a_frac" not in str(record.msg)

    logger = logging.getLogger("absl")
    logger.addFilter(keep)
    try:
        yield
    finally:
        logger.removeFilter(keep)


def _log_moment(pair, order):
    """log sum p^a q^(1-a) over the atoms."""
    with np.errstate(divide="ignore"):
        log_p = np.where(pair.losses >= 0, np.log(pair.p), np.log(pair.q) + pair.losses)
    exponent = log_p + (order - 1) * pair.losses
    top = exponent.max()
    return top + np.log(np.exp(exponent - top).sum())


@dataclass(frozen=True)
class FromPair(Mechanism):
    """A mechanism known by its dominating pair alone."""

    given: DominatingPair

    @property
    def key(self):
        return ("FromPair", self.given.cache_key)

    @property
    def delta_zero(self):
        return self.given.aside

    def pair(self):
        return self.given

    def rdp(self, orders):
        orders = np.asarray(orders, dtype=float)
        values = np.empty(orders.shape)
        finite = np.isfinite(orders)
        values[finite] = self.given.conditional_rdp(orders[finite])
        values[~finite] = self.given.conditional_rdp(orders[~finite])
        return values

    def describe(self):
        return f"pair({self.given.size} atoms)"


@dataclass(frozen=True)
class FromRdp(Mechanism):
    """A Renyi curve known at some orders (ascending, above 1, the last may be infinite)."""

    orders: tuple
    values: tuple

    def pair(self):
        return None

    def rdp(self, orders):
        """Bound every order from the given ones.

        D_a never falls in a, and (a - 1) D_a is convex and zero at a = 1 (van Erven and
        Harremoes, arXiv 1206.2459v2, Theorem 3 and Corollary 2), so between two given orders
        the chord of (a - 1) D_a is an upper bound. Beyond the last one nothing is known.
        """
        asked = np.asarray(orders, dtype=float)
        nodes, values = np.array(self.orders), np.array(self.values)
        # what holds at a higher order holds at a lower one
        values = np.minimum.accumulate(values[::-1])[::-1]
        pure = values[-1] if np.isinf(nodes[-1]) else np.inf
        keep = np.isfinite(nodes) & np.isfinite(values)
        nodes, values = nodes[keep], values[keep]
        result = np.full(asked.shape, np.inf)
        if nodes.size:
            inside = asked <= nodes[-1]
            x = np.concatenate([[1.0], nodes])
            y = np.concatenate([[0.0], (nodes - 1) * values])
            at = asked[inside]
            chord = np.interp(at, x, y) / (at - 1)
            # a given order is answered with the given value, digit for digit
            place = np.minimum(np.searchsorted(nodes, at), nodes.size - 1)
            result[inside] = np.where(nodes[place] == at, values[place], chord * (1 + 1e-15))
        return np.minimum(result, pure)

    def describe(self):
        return f"rdp({len(self.orders)} orders)"


@dataclass(frozen=True)
class FromRdpFunction(Mechanism):
    """A Renyi curve given by a function of an array of orders."""

    function: Callable
    values: tuple  # at the default orders: part of the key

    def pair(self):
        return None

    def rdp(self, orders):
        asked = np.asarray(orders, dtype=float)
        finite = np.isfinite(asked)
        values = np.full(asked.shape, np.inf)  # no order is infinite for a function
        if np.any(finite):
            given = self.function(asked[finite])
            values[finite] = check_rdp(given, asked[finite].shape, "the value of the rdp function")
        return values

    def describe(self):
        return f"rdp({getattr(self.function, '__name__', 'function')})"
