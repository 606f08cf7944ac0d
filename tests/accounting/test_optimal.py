"""The optimal run count: convexity behind it, exactness on small pairs, wishes, values."""

import itertools
import json
import math
import pickle

import numpy as np
import pytest

from skdptune import run_counts
from skdptune._exceptions import InvalidParameterError, InvalidTypeError, PricingError
from skdptune.accounting import PrivacyCurve, best_of
from skdptune.accounting import _optimal as module
from skdptune.accounting._exact import exact_epsilon
from skdptune.accounting._mechanisms import FromPair
from skdptune.accounting._optimal import OptimalRunCount, mean_for, optimal_run_count
from skdptune.accounting._optimal_orders import worst_orders
from skdptune.run_counts import Finite, Fixed, Geometric, Poisson, TruncatedNegativeBinomial
from tests.accounting.brute_force import dominating_pair, random_pair, true_delta

GAUSSIAN = PrivacyCurve.gaussian(3.0)
TABLE = [  # expected quantile, largest mean, epsilon to reach
    (0.9, 10.5, 2.348),
    (0.9, 16.2, 2.123),
    pytest.param(0.9, 30, 2.067, marks=pytest.mark.slow),
    (0.8, 6.4, 1.808),
    pytest.param(0.95, 36, 2.412, marks=pytest.mark.slow),
]


def curve_of(p, q):
    return PrivacyCurve(FromPair(dominating_pair(np.array(p), np.array(q))))


# -- the theory ------------------------------------------------------------------------------


def _random_masses(rng):
    masses = rng.dirichlet(np.full(6, rng.choice([0.2, 1.0])))
    masses[1] += 1e-9
    return masses / masses.sum()


@pytest.mark.parametrize("seed", range(40))
def test_delta_is_convex_in_the_probabilities(seed):
    """Against every order, K = 0 and negative epsilon included."""
    rng = np.random.default_rng(seed)
    p, q = random_pair(rng)
    counts = np.array([0, 1, 2, 3, 20, 100])
    one, two = _random_masses(rng), _random_masses(rng)
    epsilons = np.array([-1.0, -0.2, 0.0, 0.3, 1.0, 3.0])
    share = rng.uniform(0.05, 0.95)

    def delta(masses):
        k = Finite(dict(zip(counts.tolist(), masses.tolist(), strict=True)))
        return true_delta(p, q, k, epsilons)[0]

    mixed = delta(share * one + (1 - share) * two)
    assert np.all(mixed <= share * delta(one) + (1 - share) * delta(two) + 1e-12)


def test_the_coefficients_of_an_order_are_what_it_attains():
    """A . p - E B . p of an order equals sum of G(r1) - G(r0) - E (G(s1) - G(s0)) for K itself."""
    counts = np.arange(0.0, 41.0)
    oracle = worst_orders(GAUSSIAN.pair, 1e-5, counts)
    k = run_counts.AtMost(Poisson(10), 40)
    masses = np.asarray(k.pmf(np.arange(41)))
    (direction,) = oracle._directions
    direction.weigh(masses)
    order = direction.worst(math.exp(2.0))
    gain, loss = direction.coefficients(order, counts)
    np.testing.assert_allclose([gain @ masses, loss @ masses], direction.attained(order, k), rtol=1e-9)


@pytest.mark.parametrize("count", [Poisson(10), Geometric(24.0), Fixed(3), Finite({1: 0.9, 40: 0.1})])
def test_the_coarse_price_is_a_close_lower_bound(count):
    bounds = exact_epsilon(GAUSSIAN.pair, count, 1e-5)
    low = worst_orders(GAUSSIAN.pair, 1e-5, np.arange(1.0, 101.0)).lower_bound(count)
    assert bounds.upper * 0.99 <= low <= bounds.upper


# -- the optimum -----------------------------------------------------------------------------


@pytest.mark.parametrize("quantile, mean, most", TABLE)
def test_reaches_the_reference_table(quantile, mean, most):
    k = optimal_run_count(GAUSSIAN, 1e-5, expected_quantile=quantile, max_mean=mean)
    assert k.epsilon <= most
    assert k.expected_quantile() >= quantile
    assert k.mean <= mean
    assert k.epsilon == pytest.approx(best_of(GAUSSIAN, k).epsilon(1e-5), rel=1e-9)
    low, high = k.bracket
    assert 0.99 * high <= low <= high


@pytest.mark.parametrize(
    "p, q, delta",
    [
        pytest.param([0.2, 0.3, 0.5], [0.5, 0.3, 0.2], 1e-3, marks=pytest.mark.slow),
        ([0.1, 0.2, 0.7], [0.15, 0.6, 0.25], 0.02),
        ([0.3, 0.7], [0.6, 0.4], 0.0),
    ],
)
def test_no_distribution_on_a_lattice_is_cheaper(p, q, delta):
    """Support 1 to 3, probabilities in steps of 1/6, both orders of a pair that is not symmetric."""
    curve = curve_of(p, q)
    wish = 0.62
    best = optimal_run_count(curve, delta, expected_quantile=wish, max_runs=3)
    prices = []
    for i, j in itertools.product(range(7), repeat=2):
        masses = {1: i / 6, 2: j / 6, 3: (6 - i - j) / 6}
        if i + j > 6 or sum(m * k / (k + 1) for k, m in masses.items()) < wish:
            continue
        prices.append(float(exact_epsilon(curve.pair, Finite(masses), delta, rtol=1e-2).upper))
    assert best.epsilon <= min(prices) * (1 + 5e-3)
    assert best.lower_bound <= min(prices) * (1 + 1e-6)
    assert best.lower_bound >= best.epsilon * 0.98


@pytest.mark.parametrize(
    "curve, delta",
    [
        (PrivacyCurve.pure(1.0), 0.0),
        (PrivacyCurve.pure(1.0), 1e-6),
        (PrivacyCurve.approximate(1.0, 1e-8), 1e-6),
        pytest.param(PrivacyCurve.laplace(0.5), 1e-6, marks=pytest.mark.slow),
    ],
)
def test_cheaper_than_every_named_distribution(curve, delta):
    asked = {"expected_quantile": 0.85}
    named = {name: build(mean_for(build, asked)) for name, build in module.NAMED.items()}
    cap = 11.0
    best = optimal_run_count(curve, delta, expected_quantile=0.85, max_mean=cap)
    for name, k in named.items():
        if k.mean <= cap:
            assert best.epsilon <= best_of(curve, k).epsilon(delta) * (1 + 1e-9), name


@pytest.mark.slow
def test_dp_sgd_in_both_directions():
    curve = PrivacyCurve.dp_sgd(1.0, 256 / 60000, 7031)
    k = optimal_run_count(curve, 1e-5, expected_quantile=0.9, max_mean=16.2)
    assert k.epsilon <= 0.975 * best_of(curve, TruncatedNegativeBinomial(16.2, 2)).epsilon(1e-5)
    assert k.lower_bound >= 0.99 * k.epsilon


def test_falls_back_to_a_named_distribution(monkeypatch):
    """If the cutting planes went wrong, the best named distribution is returned."""

    def poor(oracle, wishes, starts):
        masses = np.zeros(wishes.counts.size)
        masses[wishes.counts == 9] = 1.0
        return masses, 1.0, 1.0

    monkeypatch.setattr(module, "_minimise", poor)
    k = optimal_run_count(GAUSSIAN, 1e-5, expected_quantile=0.9, max_mean=17)
    assert k.epsilon == pytest.approx(2.194, rel=3e-3)  # eta 2, mean 16.2
    assert k.expected_quantile() >= 0.9 - 1e-9
    assert k.p_zero == 0.0


def test_a_fallback_runs_at_least_once_unless_asked():
    named = [module._named_that_meet({"expected_quantile": 0.9, "max_mean": 11.0}, n) for n in (0, 1)]
    assert [[type(k).__name__ for k in found] for found in named] == [
        ["Poisson", "ZeroTruncatedPoisson"],
        ["ZeroTruncatedPoisson"],
    ]


@pytest.mark.slow
def test_more_wishes_never_cost_less():
    slack = 1 + 6e-3  # two certified prices of precision 0.5 %

    def price(**wishes):
        return optimal_run_count(GAUSSIAN, 1e-5, rtol=5e-3, **wishes).epsilon

    free = price(expected_quantile=0.8)
    capped = price(expected_quantile=0.8, max_mean=6)
    tight = price(expected_quantile=0.8, max_mean=4.5)
    assert free <= capped * slack
    assert capped * slack < tight
    assert capped * slack < price(expected_quantile=0.83, max_mean=6)
    assert capped <= price(expected_quantile=0.8, max_mean=6, success=(0.1, 0.45)) * slack
    assert price(expected_quantile=0.8, max_mean=6, min_runs=0) <= capped * slack


@pytest.mark.parametrize("min_runs", [0, 1])
def test_every_wish_is_met(min_runs):
    wishes = {
        "expected_quantile": 0.7,
        "success": (0.1, 0.4),
        "max_mean": 6.0,
        "max_runs": 20,
        "max_runs_99": 15,
    }
    k = optimal_run_count(GAUSSIAN, 1e-5, min_runs=min_runs, **wishes)
    assert k.expected_quantile() >= 0.7 - 1e-12
    assert k.success_probability(0.1) >= 0.4 - 1e-12
    assert k.mean <= 6.0 + 1e-12
    assert k.support_max <= 20
    assert k.sf(15) <= 0.01 + 1e-12
    assert min_runs == 0 or k.p_zero == 0.0
    assert dict(k.wishes) == wishes


def test_wishes_that_leave_no_choice():
    k = optimal_run_count(GAUSSIAN, 1e-5, expected_quantile=0.75, max_mean=3)
    assert k.mean == pytest.approx(3.0, abs=1e-6)
    assert k.epsilon == pytest.approx(best_of(GAUSSIAN, Fixed(3)).epsilon(1e-5), rel=4e-3)


# -- values ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def optimum():
    return optimal_run_count(GAUSSIAN, 1e-5, success=(0.1, 0.4), max_mean=8, max_runs=30)


def test_a_round_trip_through_json(optimum):
    text = json.dumps(optimum.to_dict())
    again = run_counts.from_dict(json.loads(text))
    assert type(again) is OptimalRunCount
    assert again == optimum
    assert (again.bracket, again.delta, again.wishes) == (optimum.bracket, 1e-5, optimum.wishes)


def test_pickle_and_repr(optimum):
    for again in (pickle.loads(pickle.dumps(optimum)), eval(repr(optimum))):
        assert again == optimum
        assert again.bracket == optimum.bracket
        assert again.wishes == optimum.wishes


def test_equals_the_finite_distribution(optimum):
    plain = Finite(dict(optimum.pairs))
    assert optimum == plain
    assert plain == optimum
    assert len({optimum, plain}) == 1
    assert optimum != Finite({1: 0.5, 2: 0.5})
    assert optimum != "optimal"
    assert run_counts.as_run_count(optimum) is optimum


def test_the_same_answer_twice(optimum):
    again = optimal_run_count(GAUSSIAN, 1e-5, success=(0.1, 0.4), max_mean=8, max_runs=30)
    assert again == optimum
    assert again.bracket == optimum.bracket


# -- errors ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wishes, text",
    [
        (
            {"expected_quantile": 0.95, "max_mean": 10},
            "expected_quantile must be at most 0.90909 together with max_mean=10.0; got 0.95. Lower it to that, "
            "or raise max_mean to 19.",
        ),
        (
            {"expected_quantile": 0.999, "max_runs": 100},
            "expected_quantile must be at most 0.990099 together with max_runs=100; got 0.999. Lower it to that, "
            "or raise max_runs to 999.",
        ),
        (
            {"success": (0.05, 0.99), "max_runs": 20},
            "the probability in success=(0.05, 0.99) must be at most 0.641514 together with max_runs=20; got 0.99. "
            "Lower it to that, or raise max_runs to 90.",
        ),
        (
            {"expected_quantile": 0.9, "max_runs_99": 5},
            "expected_quantile must be at most 0.834966 together with max_runs_99=5; got 0.9. Lower it to that.",
        ),
        (
            {},
            "optimal_run_count must be told what K is for: pass expected_quantile or success (without, one run is "
            "best).",
        ),
        (
            {"success": (0.9, True)},
            "success must be a pair (share of good settings, probability), both in (0, 1); got a tuple of length 2. "
            "Pass e.g. success=(0.05, 0.9).",
        ),
        (
            {"expected_quantile": 1.0},
            "expected_quantile must be a real number in (0, 1); got 1.0 (float).",
        ),
    ],
)
def test_conflicts_are_named(wishes, text):
    with pytest.raises(InvalidParameterError) as caught:
        optimal_run_count(GAUSSIAN, 1e-5, **wishes)
    assert str(caught.value) == text


def test_the_nearest_values_named_do_go_together():
    with pytest.raises(InvalidParameterError, match="at most 0.75 together with max_mean=3.0.*max_mean to 4.$"):
        optimal_run_count(GAUSSIAN, 1e-5, expected_quantile=0.8, max_mean=3)
    for quantile, mean in ((0.75, 3), (0.8, 4)):
        k = optimal_run_count(GAUSSIAN, 1e-5, expected_quantile=quantile, max_mean=mean, rtol=0.02)
        assert k.mean <= mean + 1e-9


@pytest.mark.parametrize("bad", [0.9, "ab", None.__class__])
def test_success_must_be_a_pair(bad):
    with pytest.raises((InvalidTypeError, InvalidParameterError), match="success must be a pair"):
        optimal_run_count(GAUSSIAN, 1e-5, success=bad)


def test_what_cannot_be_priced_is_refused():
    with pytest.raises(PricingError, match="needs a curve with a dominating pair"):
        optimal_run_count(PrivacyCurve.zcdp(0.1), 1e-5, expected_quantile=0.9)
    with pytest.raises(PricingError, match="mass at infinite loss"):
        optimal_run_count(PrivacyCurve.approximate(1.0, 1e-6), 1e-6, expected_quantile=0.9)
    with pytest.raises(PricingError, match="mass at infinite loss"):
        optimal_run_count(PrivacyCurve.approximate(1.0, 1e-6), 0.0, expected_quantile=0.9)
