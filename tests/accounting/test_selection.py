"""best_of: dispatch, laws, values, and the numbers it has to reach."""

import copy
import math
import pickle

import numpy as np
import pytest

from skdptune._exceptions import InvalidParameterError, InvalidTypeError, PricingError
from skdptune.accounting._conversion import default_orders
from skdptune.accounting._exact import exact_delta
from skdptune.accounting._pair_builders import pair_from_atoms
from skdptune.accounting._selection_bounds import ExactBound, RdpBound
from skdptune.accounting.curve import PrivacyCurve
from skdptune.accounting.selection import METHODS, best_of
from skdptune.run_counts import (
    AtMost,
    Binomial,
    Finite,
    Fixed,
    Geometric,
    Logarithmic,
    Poisson,
    TruncatedNegativeBinomial,
    ZeroTruncatedPoisson,
)

ORDERS = np.array(default_orders())
GAUSSIAN = PrivacyCurve.gaussian(3.0)
DP_SGD = PrivacyCurve.dp_sgd(1.0, 256 / 60000, 7031)
CURVE_ONLY = PrivacyCurve.from_rdp_function(lambda orders: orders / 18.0)
COUNTS = [
    Logarithmic(10),
    Geometric(4),
    TruncatedNegativeBinomial(5, 2),
    Poisson(10),
    ZeroTruncatedPoisson(3),
    Binomial(12, 0.4),
    AtMost(Geometric(6), 20),
    Finite([0.1, 0.5, 0.0, 0.4]),
]
PUBLIC = [None, "exact", "rdp", "closed_form", "profile"]


@pytest.fixture(scope="module")
def dp_sgd_curve_only():
    return PrivacyCurve.from_rdp(ORDERS, DP_SGD.rdp(ORDERS))


def test_dp_sgd_targets(dp_sgd_curve_only):
    count = Logarithmic(10)
    assert best_of(DP_SGD, count, "closed_form").epsilon(1e-5) == pytest.approx(3.5919, abs=1e-4)
    assert 3.07 < best_of(dp_sgd_curve_only, count, "rdp").epsilon(1e-5) <= 3.09
    assert 2.74 < best_of(DP_SGD, count, "rdp").epsilon(1e-5) <= 2.94
    assert 2.74 < best_of(DP_SGD, count, "profile").epsilon(1e-5) <= 2.85


@pytest.mark.parametrize(
    ("count", "expected"),
    [(Logarithmic(10), 2.028), (Geometric(10), 2.179), (Poisson(10), 2.917)],
    ids=repr,
)
def test_gaussian_values_from_the_curve_alone(count, expected):
    assert best_of(CURVE_ONLY, count, "rdp").epsilon(1e-5) == pytest.approx(expected, abs=7e-4)
    assert best_of(GAUSSIAN, count, "rdp").epsilon(1e-5) < expected


@pytest.mark.parametrize("count", COUNTS[:4], ids=repr)
@pytest.mark.parametrize(
    "curve",
    [
        GAUSSIAN,
        CURVE_ONLY,
        PrivacyCurve.laplace(0.7),
        PrivacyCurve.zcdp(0.05),
        PrivacyCurve.pure(2),
    ],
    ids=repr,
)
def test_rdp_never_exceeds_the_closed_form(curve, count):
    tight, paper = best_of(curve, count, "rdp"), best_of(curve, count, "closed_form")
    assert np.all(tight.rdp(ORDERS) <= paper.rdp(ORDERS) * (1 + 1e-12))
    for delta in (1e-3, 1e-5, 1e-9):
        assert tight.epsilon(delta) <= paper.epsilon(delta) * (1 + 1e-12)


@pytest.mark.parametrize("method", PUBLIC)
@pytest.mark.parametrize(
    "curve", [GAUSSIAN, PrivacyCurve.pure(1.0), PrivacyCurve.approximate(1, 1e-7)]
)
def test_one_run_costs_exactly_one_run(curve, method):
    for count in (Logarithmic(1), Geometric(1), TruncatedNegativeBinomial(1, 3), Fixed(1)):
        assert best_of(curve, count, method) is curve


@pytest.mark.parametrize("method", ["rdp", "profile", "closed_form"])
@pytest.mark.parametrize("family", [Logarithmic, Geometric, Poisson])
def test_dearer_with_more_runs_and_with_a_dearer_run(family, method):
    prices = [best_of(GAUSSIAN, family(mean), method).epsilon(1e-5) for mean in (1.5, 4, 40)]
    assert prices == sorted(prices) and prices[0] > GAUSSIAN.epsilon(1e-5)
    noises = [PrivacyCurve.gaussian(noise) for noise in (5.0, 3.0, 2.0)]
    prices = [best_of(curve, family(5), method).epsilon(1e-5) for curve in noises]
    assert prices == sorted(prices)


@pytest.mark.parametrize("count", COUNTS, ids=repr)
def test_default_takes_the_least_and_says_which(count):
    search = best_of(CURVE_ONLY, count)
    singles = {m: best_of(CURVE_ONLY, count, m) for m in METHODS if m in search.methods}
    for delta in (1e-2, 1e-6):
        prices = {method: one.epsilon(delta) for method, one in singles.items()}
        assert search.epsilon(delta) == min(prices.values())
        assert prices[search.method] == min(prices.values())
        assert search.delta(search.epsilon(delta)) <= delta * (1 + 1e-9)
    assert "exact" not in search.methods
    assert np.all(np.isfinite(search.rdp([1.5, 2, 8, 32])))


def test_method_is_readable_before_any_question():
    assert best_of(CURVE_ONLY, Geometric(5)).method == "rdp"
    assert best_of(CURVE_ONLY, Geometric(5), "profile").method == "profile"


def test_rdp_of_a_search_with_no_run_possible():
    """K ~ Bernoulli(.1): w is constant, and the exact value is log(.9 + .1 e^D)."""
    p = np.array([0.4, 0.6])
    pair = pair_from_atoms(np.log(p / p[::-1]), p, p[::-1])
    curve = PrivacyCurve.from_rdp([2.0], pair.rdp([2.0]))
    value = best_of(curve, Finite([0.9, 0.1]), "rdp").rdp([2.0])[0]
    assert value == pytest.approx(math.log(0.9 + 0.1 * math.exp(pair.rdp([2.0])[0])), rel=1e-9)
    assert value >= 0.0165


@pytest.mark.parametrize("k", [2, 3, 7])
def test_fixed_count_costs_at_most_all_runs(k):
    search = best_of(CURVE_ONLY, Fixed(k))
    np.testing.assert_allclose(search.rdp([2.0, 8.0]), k * CURVE_ONLY.rdp([2.0, 8.0]), rtol=1e-11)
    assert search.epsilon(1e-5) == pytest.approx((k * CURVE_ONLY).epsilon(1e-5), rel=5e-3)
    assert search.method == "composition"
    assert best_of(PrivacyCurve.pure(0.3), Fixed(k), "composition").epsilon(0) == pytest.approx(
        k * 0.3
    )


def test_fixed_count_uses_the_pair_of_all_runs():
    search = best_of(GAUSSIAN, Fixed(2), "composition")
    assert search.epsilon(1e-5) == pytest.approx((2 * GAUSSIAN).epsilon(1e-5), rel=1e-9)
    whole = best_of(GAUSSIAN, Fixed(2)).epsilon(1e-5)
    assert GAUSSIAN.epsilon(1e-5) < whole <= search.epsilon(1e-5)


def test_pure_run_at_delta_zero():
    """epsilon + log w(r*) - log w(s*) at r* = 1/(1 + e^epsilon); 1.93924 for Logarithmic mean 10."""
    single, count = PrivacyCurve.pure(1.0), Logarithmic(10)
    r = 1 / (1 + math.e)
    expected = 1.0 + count.log_weight(r) - count.log_weight(1 - r)
    assert expected == pytest.approx(1.93924, abs=1e-5)
    for method in ("rdp", "profile"):
        price = best_of(single, count, method).epsilon(0.0)
        assert expected <= price <= expected + 3e-4
        assert (
            best_of(single, count, method).rdp([np.inf])[0] <= expected + 3e-4
            or method == "profile"
        )


def test_approximate_run_sets_the_searches_share_aside():
    single, count = PrivacyCurve.approximate(0.5, 1e-7), Geometric(8)
    for method in ("rdp", "closed_form"):
        search = best_of(single, count, method)
        aside = count.attainment(1e-7)
        assert aside <= search.delta_zero <= aside * (1 + 1e-9)
        assert search.epsilon(0.99 * aside) == math.inf
        assert search.epsilon(2 * aside) <= 1.5
        assert search.delta(50.0) >= aside
    hidden = PrivacyCurve.worst([single, PrivacyCurve.zcdp(0.001)])
    assert hidden.pair is None
    search = best_of(hidden, count)
    assert "profile" not in search.methods
    assert math.isfinite(search.epsilon(1e-5)) and search.epsilon(1e-8) == math.inf


def test_composes_with_what_follows():
    search = best_of(CURVE_ONLY, Logarithmic(10))
    total = search + CURVE_ONLY
    orders = np.array([2.0, 8.0])
    np.testing.assert_allclose(total.rdp(orders), search.rdp(orders) + CURVE_ONLY.rdp(orders))
    assert search.epsilon(1e-5) < total.epsilon(1e-5) < math.inf
    nested = best_of(search, Geometric(3))
    assert nested.epsilon(1e-5) > search.epsilon(1e-5)
    assert (search + search).relation == search.relation


@pytest.mark.parametrize("method", ["profile", None])
def test_a_search_has_a_pair_where_the_run_has_one(method):
    for curve in (GAUSSIAN, PrivacyCurve.approximate(0.5, 1e-6)):
        search = best_of(curve, Geometric(5), method)
        pair = search.pair
        for epsilon in (0.3, 1.0, 2.0):
            upper = best_of(curve, Geometric(5), "profile").delta(epsilon)
            # The pair joins the bounds by a convex line, which may lie below a single bound.
            lower = exact_delta(curve.pair, Geometric(5), epsilon).lower
            assert lower <= pair.worst_delta(epsilon) <= upper * 1.05 + 1e-12
        total = search + curve
        assert search.epsilon(1e-4) < total.epsilon(1e-4) < search.epsilon(1e-4) + 2.5
    assert best_of(CURVE_ONLY, Geometric(5)).pair is None


def test_relation_is_kept_and_converted():
    curve = PrivacyCurve.zcdp(0.05, relation="add-remove")
    search = best_of(curve, Geometric(5))
    assert search.relation == "add-remove"
    swapped = search.to_relation("replace-one")
    assert swapped.epsilon(1e-5) > search.epsilon(1e-5)
    assert swapped == best_of(curve.to_relation("replace-one"), Geometric(5))


@pytest.mark.parametrize("method", [None, "rdp", "closed_form", "profile"])
def test_is_a_value(method):
    search = best_of(PrivacyCurve.zcdp(0.05), Geometric(5), method)
    price = search.epsilon(1e-5)
    for other in (
        best_of(PrivacyCurve.zcdp(0.05), Geometric(5), method),
        pickle.loads(pickle.dumps(search)),
        copy.deepcopy(search),
    ):
        assert other == search and hash(other) == hash(search) and other is not search
        assert other.epsilon(1e-5) == price
    assert search != best_of(PrivacyCurve.zcdp(0.05), Geometric(6), method)
    assert search != best_of(PrivacyCurve.zcdp(0.06), Geometric(5), method)
    assert "Geometric(mean=5.0)" in repr(search)
    assert search.single_run == PrivacyCurve.zcdp(0.05) and search.run_count == Geometric(5)


def test_what_cannot_be_priced_is_refused():
    with pytest.raises(PricingError, match="no dominating pair"):
        best_of(CURVE_ONLY, Geometric(5), "exact")
    with pytest.raises(PricingError, match="not bounded"):
        best_of(GAUSSIAN, Geometric(5), "composition")
    with pytest.raises(PricingError, match="no method can price this search"):
        best_of(PrivacyCurve.from_rdp_function(lambda orders: orders + np.inf), Geometric(5))
    with pytest.raises(InvalidTypeError, match="curve must be a PrivacyCurve; got 3"):
        best_of(3, Geometric(5))
    with pytest.raises(InvalidTypeError, match="run_count must be a distribution"):
        best_of(GAUSSIAN, 10)
    with pytest.raises(InvalidParameterError, match="method must be one of 'exact', 'rdp'"):
        best_of(GAUSSIAN, Geometric(5), "pld")
    with pytest.raises(InvalidParameterError, match="delta must be"):
        best_of(CURVE_ONLY, Geometric(5)).epsilon(-1.0)


def test_extreme_deltas():
    search = best_of(CURVE_ONLY, Geometric(5))
    assert search.epsilon(1.0) == 0.0
    assert search.epsilon(0.0) == math.inf
    assert math.isfinite(search.epsilon(1e-300))
    assert search.delta(math.inf) == 0.0 or search.delta(math.inf) < 1e-200
    np.testing.assert_array_equal(search.delta([1.0, 2.0]), [search.delta(1.0), search.delta(2.0)])


def test_orders_asked_for_are_answered():
    search = best_of(GAUSSIAN, Geometric(5), "rdp")
    orders = np.array([7.77, 2.0, np.inf, 1.0, 2.0])
    value = search.rdp(orders)
    assert value[1] == value[4] and np.isinf(value[2]) and value[3] <= value[1] <= value[0]
    given = best_of(PrivacyCurve.from_rdp([1.05, 2.5], [0.01, 0.1]), Geometric(5), "rdp")
    assert np.isfinite(given.rdp([1.05, 2.5])).all() and np.isinf(given.rdp([2.6])).all()


def test_swapping_the_neighbours_changes_nothing():
    p, q = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.3, 0.3, 0.2, 0.2])
    losses = np.log(p / q)
    one = PrivacyCurve(_node(pair_from_atoms(losses, p, q)))
    two = PrivacyCurve(_node(pair_from_atoms(-losses, q, p)))
    for method in ("rdp", "profile", "closed_form"):
        first, second = best_of(one, Geometric(5), method), best_of(two, Geometric(5), method)
        assert first.epsilon(1e-2) == pytest.approx(second.epsilon(1e-2), rel=1e-9)


def _node(pair):
    from skdptune.accounting._mechanisms import FromPair

    return FromPair(pair)


def test_each_direction_has_its_own_divergence():
    """DP-SGD: the add direction is far below the curve, and is not priced by the region alone."""
    bound = RdpBound(DP_SGD.node, Logarithmic(10))
    assert len(bound._directions) == 2
    both = [min(len(curves) for curves in bound._directions)]
    assert both == [2]


def test_exact_is_taken_where_a_pair_is_known():
    if ExactBound.unavailable(GAUSSIAN.node, Logarithmic(10)) is not None:
        pytest.skip("no exact price in this build")
    search = best_of(GAUSSIAN, Logarithmic(10))
    assert search.methods[0] == "exact"
    assert 1.835 <= search.epsilon(1e-5) <= 1.8412
    assert search.method == "exact"
    assert search.epsilon(1e-5) <= best_of(GAUSSIAN, Logarithmic(10), "profile").epsilon(1e-5)
    assert np.all(np.isfinite(search.rdp([2, 8])))
