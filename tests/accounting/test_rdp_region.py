"""The generic Renyi bound over the feasible region, and its form for log-convex weights."""

import math

import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant

from skdptune.accounting._rdp_region import (
    ConditionedRegion,
    PairRegion,
    RdpRegion,
    one_way_rdp,
    peak_weight,
    region_rdp,
)
from skdptune.run_counts import (
    Finite,
    Fixed,
    Geometric,
    Logarithmic,
    Poisson,
    TruncatedNegativeBinomial,
)
from tests.accounting.brute_force import dominating_pair, random_pair, rdp_of_pair, true_rdp

ORDERS = np.array(rdp_privacy_accountant.DEFAULT_RDP_ORDERS)


def epsilon_of(rdp, delta=1e-5):
    return rdp_privacy_accountant.compute_epsilon(ORDERS, rdp, delta)[0]


@pytest.mark.parametrize(
    ("run_count", "expected"),
    [(Logarithmic(10), 2.028), (Geometric(10), 2.179), (Poisson(10), 2.917)],
)
def test_gaussian_reference_values(run_count, expected):
    rdp = ORDERS / 18.0
    value = region_rdp(ORDERS, rdp, RdpRegion(ORDERS, rdp), run_count, log_convex=False)
    assert epsilon_of(value) == pytest.approx(expected, abs=7e-4)


def test_boundary_is_feasible_only_just():
    rdp = ORDERS / 18.0
    region = RdpRegion(ORDERS, rdp)
    r = np.array([1e-12, 1e-6, 1e-3, 0.1, 0.5, 0.9, 0.999])
    s = region.boundary(r)
    assert np.all(s >= r)
    for low, high in zip(r, s, strict=True):
        two_point = rdp_of_pair(np.array([low, 1 - low]), np.array([high, 1 - high]), ORDERS)
        # On the boundary some order is met, and none is broken by more than the chord's error.
        assert np.max(two_point - rdp) == pytest.approx(0.0, abs=2e-3)


def test_boundary_never_below_a_feasible_point():
    rng = np.random.default_rng(7)
    for _ in range(30):
        p, q = random_pair(rng, n_atoms=5, infinite=False, zero=False)
        orders = np.array([1.2, 2.0, 4.0, 16.0])
        region = RdpRegion(orders, rdp_of_pair(p, q, orders))
        sets = rng.integers(0, 2, size=(20, 5)).astype(bool)
        r = np.array([p[chosen].sum() for chosen in sets])
        s = np.array([q[chosen].sum() for chosen in sets])
        assert np.all(region.boundary(np.minimum(r, 1.0)) >= s - 1e-12)
        assert np.all(region.boundary(np.minimum(s, 1.0)) >= r - 1e-12)
        vertices = PairRegion(dominating_pair(p, q))
        assert np.all(vertices.boundary(np.minimum(r, 1.0)) >= s - 1e-12)


def test_region_without_a_curve_allows_everything():
    region = RdpRegion([2.0, 3.0], [np.inf, np.inf])
    np.testing.assert_array_equal(region.boundary(np.array([0.0, 0.5, 1.0])), 1.0)


@pytest.mark.parametrize("kind", ["curve", "pair"])
def test_peak_is_above_and_close_to_a_dense_search(kind):
    p, q = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.3, 0.3, 0.2, 0.2])
    region = RdpRegion(ORDERS, rdp_of_pair(p, q, ORDERS)) if kind == "curve" else None
    region = region or PairRegion(dominating_pair(p, q))
    run_count = Poisson(7.0)
    r = np.linspace(0.0, 1.0, 200_001)
    s = region.boundary(r)
    for order in (1.5, 4.0, 64.0):
        dense = np.max(order * run_count.log_weight(r) - (order - 1) * run_count.log_weight(s))
        value = peak_weight(region, run_count.log_weight, order, order - 1, 1e-4)[0]
        assert dense - 1e-12 <= value <= dense + 3e-4 * order


def test_bound_needs_the_mass_of_no_run():
    """K ~ Bernoulli(.1): without P(K=0) the bound is negative, the truth is .0165."""
    p, q = np.array([0.4, 0.6]), np.array([0.6, 0.4])
    run_count = Finite([0.9, 0.1])
    single = rdp_of_pair(p, q, [2.0])[0]
    truth = true_rdp(p, q, run_count, 2.0)
    assert truth == pytest.approx(0.0165, abs=1e-4)
    assert single + math.log(0.1) == pytest.approx(-2.148, abs=1e-3)  # w is flat here: M = .1
    value = region_rdp(
        [2.0], [single], PairRegion(dominating_pair(p, q)), run_count, log_convex=False
    )
    assert value[0] >= truth
    assert value[0] == pytest.approx(math.log(0.9 + 0.1 * math.exp(single)), rel=1e-9)


def test_poisson_with_mean_below_one():
    p, q = np.array([0.4, 0.6]), np.array([0.6, 0.4])
    single = rdp_of_pair(p, q, [2.0])[0]
    truth = true_rdp(p, q, Poisson(0.5), 2.0)
    for log_convex in (False, True):
        region = PairRegion(dominating_pair(p, q))
        assert region_rdp([2.0], [single], region, Poisson(0.5), log_convex=log_convex)[0] >= truth


@pytest.mark.parametrize(
    "run_count",
    [
        Poisson(0.05),
        Poisson(1.0),
        Poisson(12.0),
        Logarithmic(3.0),
        Geometric(20.0),
        TruncatedNegativeBinomial(5.0, -0.7),
        TruncatedNegativeBinomial(8.0, 3.0),
    ],
    ids=repr,
)
def test_log_convex_form_holds_for_every_order_of_the_outputs(run_count):
    rng = np.random.default_rng(11)
    for _ in range(8):
        p, q = random_pair(rng, n_atoms=4, infinite=False)
        for order in (1.3, 2.0, 9.0):
            if np.any(q[p > 0] <= 0):
                continue
            live = p > 0
            single = math.log(np.sum(p[live] ** order * q[live] ** (1 - order))) / (order - 1)
            region = PairRegion(dominating_pair(p, q))
            value = region_rdp([order], [single], region, run_count, log_convex=True)[0]
            assert value >= true_rdp(p, q, run_count, order) - 1e-12


def test_poisson_theorem_holds_without_the_mass_of_no_run_from_mean_one_on():
    """1 + M (E - 1) <= M E once M >= 1, which is why the paper's Theorem 6 may drop P(K=0)."""
    rng = np.random.default_rng(5)
    for mean in (1.0, 1.5, 4.0):
        for _ in range(20):
            p, q = random_pair(rng, n_atoms=4, infinite=False, zero=False)
            single = math.log(np.sum(p**2 / q))
            gap = np.maximum(q - 2.0 * p, 0.0).sum()  # delta-hat at e^epsilon-hat = 2
            assert (
                single + mean * gap + math.log(mean) >= true_rdp(p, q, Poisson(mean), 2.0) - 1e-12
            )


def test_one_run_costs_one_run():
    rdp = ORDERS / 18.0
    for run_count in (Logarithmic(1), Fixed(1)):
        value = region_rdp(ORDERS, rdp, RdpRegion(ORDERS, rdp), run_count, log_convex=False)
        np.testing.assert_allclose(value, rdp, rtol=1e-11)


def test_useless_orders_cost_infinity():
    rdp = np.array([0.1, 0.2, np.inf, 0.3])
    orders = np.array([1.0, 2.0, 3.0, np.inf])
    value = region_rdp(orders, rdp, RdpRegion(orders, rdp), Geometric(3), log_convex=True)
    assert np.isfinite(value).tolist() == [False, True, False, False]


def test_no_mass_on_one_run_and_no_room_gives_infinity():
    rdp = ORDERS / 18.0
    region = RdpRegion(ORDERS, rdp)
    assert np.all(np.isinf(region_rdp(ORDERS, rdp, region, Fixed(3), log_convex=False)))


def test_conditioned_region_contains_every_good_part():
    """P = (1-d) P_good + d P_bad for an event of mass d that the pair does not show."""
    rng = np.random.default_rng(19)
    d = 0.03
    for _ in range(30):
        good_p, good_q = random_pair(rng, n_atoms=4, infinite=False, zero=False)
        bad_p, bad_q = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4))
        p, q = (1 - d) * good_p + d * bad_p, (1 - d) * good_q + d * bad_q
        region = ConditionedRegion(PairRegion(dominating_pair(p, q)), d)
        for chosen in rng.integers(0, 2, size=(16, 4)).astype(bool):
            r, s = min(good_p[chosen].sum(), 1.0), good_q[chosen].sum()
            assert region.boundary(np.array([r]))[0] >= s - 1e-12


def test_one_way_divergence_of_a_pair():
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
    orders = np.array([1.5, 2.0, 40.0])
    direct = [math.log(np.sum(p**a * q ** (1 - a))) / (a - 1) for a in orders]
    np.testing.assert_allclose(one_way_rdp(dominating_pair(p, q), orders), direct, rtol=1e-10)
    # On condition of a finite loss: atoms 0..2 of a pair with mass at infinity and at zero ratio.
    p, q = np.array([0.5, 0.3, 0.2, 0.0]), np.array([0.2, 0.5, 0.0, 0.3])
    inner = [
        math.log(np.sum((p[:2] / 0.8) ** a * (q[:2] / 0.7) ** (1 - a))) / (a - 1) for a in orders
    ]
    np.testing.assert_allclose(one_way_rdp(dominating_pair(p, q), orders), inner, rtol=1e-10)


def test_pair_region_starts_with_the_outputs_of_zero_ratio():
    p, q = np.array([0.6, 0.4, 0.0]), np.array([0.2, 0.5, 0.3])
    region = PairRegion(dominating_pair(p, q))
    np.testing.assert_allclose(
        region.boundary(np.array([0.0, 0.4, 1.0])), [0.3, 0.8, 1.0], rtol=1e-9
    )
    swapped = PairRegion(dominating_pair(q, p))  # now the same output has infinite loss
    np.testing.assert_allclose(
        swapped.boundary(np.array([0.0, 0.2, 0.7])), [0.0, 0.6, 1.0], rtol=1e-9
    )
