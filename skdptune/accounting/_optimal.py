"""The run-count distribution that costs least for what a user wants from it.

Setting (paper <-> code). p_k = P(K = k) <-> ``masses`` on ``counts``; G(r) = sum p_k (1 - (1-r)^k);
E = e^epsilon. An order of one run's outputs, and the set S of outputs that distinguish, give

    J = sum over S of  G(r1) - G(r0) - E ( G(s1) - G(s0) )  =  A . p - E B . p,

linear in p. So delta(epsilon; p), the largest J, is convex in p (the atom K = 0 adds
p_0 (1 - E)_+, linear too), and "delta(epsilon; p) <= delta for all p of a segment" is a convex
condition: the least epsilon is quasi-convex in p. It equals the largest ratio
(A . p - delta) / (B . p) over orders, so that minimising it is a generalised fractional program.

Method. Orders found so far give a master program, solved by Dinkelbach's iteration, one linear
program each (Crouzeix, Ferland and Schaible 1985, "An algorithm for generalized fractional
programs"); a point between its solution and the best point so far is priced, and its worst orders
join the master ("in-out" damping). No bisection on epsilon is needed. The atoms are merged to a
coarse grid while optimising, which is post-processing: every order of the merged atoms is one of
the real run, so the master's value bounds the optimum from below. The result is priced by the
certified bound, like any other distribution.
"""

import dataclasses
import math
import numbers

import numpy as np

from skdptune._exceptions import InvalidParameterError, PricingError
from skdptune._validation import (
    check_instance,
    check_integer,
    check_real,
    invalid_type,
    invalid_value,
)
from skdptune.accounting._exact import DEFAULT_RTOL, exact_epsilon
from skdptune.accounting._optimal_orders import worst_orders
from skdptune.accounting._optimal_wishes import Wishes, least_runs
from skdptune.accounting.curve import PrivacyCurve
from skdptune.run_counts import (
    AtMost,
    Finite,
    Geometric,
    Logarithmic,
    Poisson,
    TruncatedNegativeBinomial,
    ZeroTruncatedPoisson,
)

__all__ = ["NAMED", "OptimalRunCount", "mean_for", "optimal_run_count"]

NAMED = {
    "Logarithmic": Logarithmic,
    "TruncatedNegativeBinomial(eta=0.5)": lambda mean: TruncatedNegativeBinomial(mean, 0.5),
    "Geometric": Geometric,
    "TruncatedNegativeBinomial(eta=2)": lambda mean: TruncatedNegativeBinomial(mean, 2.0),
    "TruncatedNegativeBinomial(eta=4)": lambda mean: TruncatedNegativeBinomial(mean, 4.0),
    "Poisson": Poisson,
    "ZeroTruncatedPoisson": ZeroTruncatedPoisson,
}

_DEFAULT_RUNS = 300  # support where no ``max_runs`` was asked, unless the wishes need more
_MOST_RUNS = 100_000  # support is never taken beyond this by itself
_GAP = 5e-4  # relative gap in epsilon at which the cutting planes stop
_MAX_ROUNDS = 150
_SHARE = 0.4  # how far a query point lies from the best point towards the master's solution
_LEAST_MASS = 1e-11  # smaller probabilities are dropped from the result


@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class OptimalRunCount(Finite):
    """A finite run-count distribution made by :func:`optimal_run_count`, with its price.

    It equals (and hashes like) a ``Finite`` of the same probabilities and is used like one.

    Parameters
    ----------
    pmf : as in Finite
    delta : float
        The delta for which it was made.
    epsilon : float
        Price of the whole search at ``delta``, in nats: the certified bound.
    lower_bound : float
        No distribution on the numbers of runs considered that meets the wishes costs less (up to
        the tolerance 1e-6 of a linear program).
    wishes : mapping
        What was asked for.

    Examples
    --------
    >>> k = OptimalRunCount({1: 0.5, 9: 0.5}, 1e-5, 2.0, 1.99, {"expected_quantile": 0.7})
    >>> k == Finite({1: 0.5, 9: 0.5}), k.mean, k.bracket
    (True, 5.0, (1.99, 2.0))
    """

    delta: float
    epsilon: float
    lower_bound: float
    wishes: tuple

    def __init__(self, pmf, delta, epsilon, lower_bound, wishes):
        super().__init__(pmf)
        pairs = wishes.items() if hasattr(wishes, "items") else wishes
        kept = tuple((name, tuple(v) if np.ndim(v) else v) for name, v in pairs)
        values = {"delta": delta, "epsilon": epsilon, "lower_bound": lower_bound}
        for name, value in values.items():
            object.__setattr__(self, name, float(value))
        object.__setattr__(self, "wishes", kept)

    def __eq__(self, other):
        return self.pairs == other.pairs if isinstance(other, Finite) else NotImplemented

    def __hash__(self):
        return hash(Finite(dict(self.pairs)))

    @property
    def bracket(self):
        """(lower bound of the optimum, price of this distribution), in nats."""
        return self.lower_bound, self.epsilon

    def _arguments(self):
        return {
            **super()._arguments(),
            "delta": self.delta,
            "epsilon": self.epsilon,
            "lower_bound": self.lower_bound,
            "wishes": dict(self.wishes),
        }

    def _json_arguments(self):
        wishes = {name: list(v) if np.ndim(v) else v for name, v in self.wishes}
        return {**self._arguments(), **super()._json_arguments(), "wishes": wishes}

    @classmethod
    def _from_json(cls, arguments):
        pmf = {k: value for k, value in arguments["pmf"]}
        return cls(**{**arguments, "pmf": pmf})


def optimal_run_count(
    curve,
    delta,
    *,
    expected_quantile=None,
    success=None,
    max_mean=None,
    max_runs=None,
    max_runs_99=None,
    min_runs=1,
    rtol=DEFAULT_RTOL,
):
    """Return the finite distribution of K whose search costs least and that meets the wishes.

    Parameters
    ----------
    curve : PrivacyCurve
        Cost of one run; a dominating pair must be known (``curve.pair`` is not None).
    delta : float
        In [0, 1): where epsilon is minimised.
    expected_quantile : float, optional
        In (0, 1): E[K / (K + 1)] must be at least this.
    success : pair of float, optional
        ``(share, probability)``: if a share of all settings is good, some run must try a good one
        with at least this probability.
    max_mean : float, optional
        E[K] must be at most this.
    max_runs : int, optional
        No more runs than this, ever. None: 300, or more if the wishes are large: ten times the
        least mean that a named distribution needs, or 30 times ``max_mean``, up to 100,000.
    max_runs_99 : int, optional
        With probability 0.99 or more, no more runs than this.
    min_runs : {0, 1}, default=1
        1: the search always runs at least once. 0 allows K = 0, which publishes the
        data-independent default model; it costs no privacy and counts as quantile 0.
    rtol : float, default=0.002
        Relative precision of the final price.

    Returns
    -------
    OptimalRunCount
        A run count like any other, with ``epsilon`` (certified), ``lower_bound``, ``bracket`` and
        ``wishes``. Never dearer than the best of the named distributions that meets the same
        wishes (``min_runs`` included; checked up to 200,000 runs). Numbers of runs above 150 are
        taken from a list 3 % apart.

    Raises
    ------
    InvalidParameterError, InvalidTypeError
        For wishes that contradict each other; the message names the conflict and the nearest
        values that go together.
    PricingError
        If no dominating pair is known, or nothing that meets the wishes has a finite price.

    Notes
    -----
    *Guarantee.* ``best_of(curve, result)`` is (``result.epsilon``, ``delta``)-DP. *Assumes* that
    the wishes do not depend on private rows. The distribution is best at this ``curve`` and
    ``delta``; elsewhere it is priced honestly and need not be best.

    References
    ----------
    Papernot and Steinke, arXiv 2110.03620v2, for expected quantile and success probability.

    Examples
    --------
    >>> from skdptune.accounting import best_of
    >>> from skdptune.run_counts import TruncatedNegativeBinomial
    >>> single = PrivacyCurve.gaussian(3.0)
    >>> k = optimal_run_count(single, 1e-5, expected_quantile=0.8, max_mean=6.4)
    >>> k.epsilon < best_of(single, TruncatedNegativeBinomial(6.4, 2)).epsilon(1e-5) - 0.06
    True
    """
    check_instance("curve", curve, PrivacyCurve, "a PrivacyCurve")
    delta = check_real("delta", delta, low=0, high=1, high_open=True)
    rtol = check_real("rtol", rtol, low=0, high=1, low_open=True)
    asked = _check_wishes(expected_quantile, success, max_mean, max_runs, max_runs_99)
    min_runs = check_integer("min_runs", min_runs, low=0, high=1)
    pair = curve.pair
    if pair is None:
        raise PricingError(
            "optimal_run_count needs a curve with a dominating pair; only Renyi divergences are known of this one. "
            "Build it by gaussian, dp_sgd, pure, from_pld, ..."
        )
    named = _named_that_meet(asked, min_runs)
    counts = candidate_counts(asked, named, min_runs)
    wishes = Wishes(asked, counts)
    wishes.forbid_infinite_loss(pair, delta)
    wishes.check()
    oracle = worst_orders(pair, delta, counts)
    masses, _, low = _minimise(oracle, wishes, _starts(named, wishes))
    found = _as_mapping(counts, masses)
    price = float(exact_epsilon(pair, Finite(found), delta, rtol=rtol).upper)
    found, price = _not_worse_than_named(found, price, named, oracle, pair, delta, rtol)
    if not math.isfinite(price):
        raise PricingError(
            f"no distribution that meets the wishes has a finite epsilon at delta={delta:g}: raise delta."
        )
    return OptimalRunCount(found, delta, price, min(math.log(low), price), asked)


def _check_wishes(expected_quantile, success, max_mean, max_runs, max_runs_99):
    """Return the wishes that were made, as a dictionary of plain values."""
    asked = {}
    if expected_quantile is not None:
        asked["expected_quantile"] = check_real(
            "expected_quantile", expected_quantile, low=0, high=1, low_open=True, high_open=True
        )
    if success is not None:
        asked["success"] = _check_success(success)
    if not asked:
        raise InvalidParameterError(
            "optimal_run_count must be told what K is for: pass expected_quantile or success (without, one run is "
            "best)."
        )
    if max_mean is not None:
        asked["max_mean"] = check_real("max_mean", max_mean, low=1)
    for name, value in (("max_runs", max_runs), ("max_runs_99", max_runs_99)):
        if value is not None:
            asked[name] = check_integer(name, value, low=1, high=10**6)
    return asked


def _check_success(success):
    expected = "a pair (share of good settings, probability), both in (0, 1)"
    if not hasattr(success, "__len__") or isinstance(success, (str, bytes)):
        raise invalid_type("success", expected, success, "Pass e.g. success=(0.05, 0.9).")
    values = list(success)
    if len(values) != 2 or not all(
        isinstance(v, numbers.Real) and not isinstance(v, bool) and 0 < v < 1 for v in values
    ):
        raise invalid_value("success", expected, success, "Pass e.g. success=(0.05, 0.9).")
    return tuple(float(v) for v in values)


# -- named distributions under the same wishes -------------------------------------------------


def mean_for(build, asked):
    """Return the least mean at which ``build(mean)`` reaches the wished quantile and success.

    Parameters
    ----------
    build : callable
        ``build(mean) -> RunCount``.
    asked : dict
        Of ``expected_quantile`` and ``success``, those that are wished.

    Returns
    -------
    float
        In [1, 1e6]; ``inf`` if not even a mean of 1e6 reaches them.
    """

    def reached(mean):
        count = build(mean)
        enough = True
        if "expected_quantile" in asked:
            enough = count.expected_quantile() >= asked["expected_quantile"]
        if enough and "success" in asked:
            share, probability = asked["success"]
            enough = count.success_probability(share) >= probability
        return enough

    low, high = 1.0, 2.0
    if reached(low):
        return low
    while not reached(high):
        low, high = high, 2 * high
        if high > 1e6:
            return math.inf
    while high - low > 1e-9 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high  # the end that reaches them


def _named_that_meet(asked, min_runs):
    """Return the named distributions, each at its least mean, that meet all wishes."""
    cap = asked.get("max_runs")
    found = []
    for build in NAMED.values():
        capped = build if cap is None else (lambda mean, b=build: AtMost(b(mean), cap))
        mean = mean_for(capped, asked)
        if not math.isfinite(mean):
            continue
        count = capped(mean)
        fits = count.mean <= asked.get("max_mean", math.inf) * (1 + 1e-9)
        fits = fits and (min_runs == 0 or count.p_zero == 0.0)
        if fits and "max_runs_99" in asked:
            fits = count.sf(asked["max_runs_99"]) <= 0.01 * (1 + 1e-9)
        if fits:
            found.append(count)
    return found


def candidate_counts(asked, named, min_runs):
    """Return the numbers of runs to choose from: all up to 150, then 3 % apart."""
    most = asked.get("max_runs")
    if most is None:
        least = [count.mean for count in named if math.isfinite(count.mean)]
        needed = max(10 * min(least, default=0), 30 * asked.get("max_mean", 0))
        needed = max(needed, least_runs(asked) + 1)
        most = min(max(_DEFAULT_RUNS, math.ceil(needed)), _MOST_RUNS)
    first = np.arange(min_runs, min(most, 150) + 1)
    if most <= 150:
        return first.astype(float)
    far = np.geomspace(150, most, math.ceil(math.log(most / 150) / 0.03) + 1)
    return np.union1d(first, np.rint(far)).astype(float)


def _starts(named, wishes):
    """Return masses on the counts near the named distributions, where these meet the wishes."""
    starts = [wishes.plain_point()]
    for count in named:
        masses = _on_counts(count, wishes.counts)
        if wishes.met_by(masses):
            starts.append(masses)
    return starts


def _on_counts(count, counts):
    """Return the distribution on ``counts``, each gap's mass at its upper end, cut at the end."""
    masses = np.diff(np.concatenate([[0.0], 1.0 - np.asarray(count.sf(counts.astype(int)))]))
    masses = np.maximum(masses, 0.0)
    return masses / masses.sum()


def _not_worse_than_named(found, price, named, oracle, pair, delta, rtol):
    """Return the cheapest of what was found and the named distributions that meet the wishes.

    ``oracle.lower_bound`` is a lower bound of a distribution's price: most named ones are ruled
    out by it without an exact price.
    """
    for count in named:
        if oracle.lower_bound(count) >= price:
            continue
        other = float(exact_epsilon(pair, count, delta, rtol=rtol).upper)
        table = _tabulated(count) if other < price else None
        if table is not None:
            value = float(exact_epsilon(pair, Finite(table), delta, rtol=rtol).upper)
            if value < price:
                found, price = table, value
    return found, price


def _tabulated(count):
    """Return the probabilities of a named distribution as a mapping, its far tail as one atom.

    The tail beyond the quantile 1 - 1e-10 is moved to one atom above its mean there, so neither
    quantile nor success falls.
    """
    last = count.support_max if count.support_max is not None else count.quantile(1 - 1e-10)
    if last > 200_000:
        return None
    masses = np.asarray(count.pmf(np.arange(last + 1)))
    masses[last] += max(1.0 - masses.sum(), 0.0)
    return {int(k): float(m) for k, m in enumerate(masses / masses.sum()) if m > 0}


def _as_mapping(counts, masses):
    kept = masses > _LEAST_MASS
    masses = masses[kept] / masses[kept].sum()
    return {int(k): float(m) for k, m in zip(counts[kept], masses, strict=True)}


# -- cutting planes ----------------------------------------------------------------------------


def _minimise(oracle, wishes, starts):
    """Return (masses, E of their price, lower bound of E) for E = e^epsilon, on the coarse grid."""
    best, best_e, low = None, math.inf, 1.0
    for masses in starts:
        value = oracle.price(masses, 1.0 if best is None else min(best_e, 1e300))
        if best is None or value < best_e:
            best, best_e = masses, value
    for _ in range(_MAX_ROUNDS):
        if best_e <= 1.0:  # nothing is cheaper than epsilon 0
            return best, 1.0, 1.0
        solution, bound = _master(oracle, wishes, best, best_e)
        low = max(low, min(bound, best_e))
        if math.log(best_e) - math.log(low) <= _GAP * math.log(best_e):
            break
        query = _SHARE * solution + (1 - _SHARE) * best
        value = oracle.price(query, max(low, 1.0))
        if value < best_e:
            best, best_e = query, value
    return best, best_e, low


def _master(oracle, wishes, best, best_e):
    """Minimise the largest ratio (A . p - delta) / (B . p) over the orders known.

    Dinkelbach: at E, minimise the largest of (A . p - delta - E B . p) / scale; if it is negative,
    the largest ratio at the minimiser is a smaller E. Converges from above; the last E at which
    nothing was gained is the value.
    """
    gains, losses, target = oracle.gains, oracle.losses, oracle.delta
    e, solution = best_e, best
    for _ in range(12):
        scale = np.maximum(e * (losses @ solution), 1e-300)
        rows = (gains - e * losses) / scale[:, None]
        candidate, slack = wishes.least_maximum(rows, target / scale)
        if candidate is None:
            return solution, 1.0  # the linear program failed: claim nothing
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = (gains @ candidate - target) / (losses @ candidate)
        value = max(float(np.nanmax(ratios)), 1.0)
        if slack >= -1e-6 or value >= e * (1 - 1e-6):
            # no p brings every row below slack: E may still fall by that share, not more
            return (candidate if value <= e else solution), min(e, value) * (1 - abs(slack) - 1e-6)
        e, solution = value, candidate
        if e <= 1.0:
            return solution, 1.0
    return solution, 1.0
