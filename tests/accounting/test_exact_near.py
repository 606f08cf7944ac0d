"""Runs that hardly tell two neighbours apart, counts of infinite mean, prices at delta 0."""

import math

import numpy as np
import pytest
import scipy.stats as st

from skdptune.accounting import PrivacyCurve, best_of, calibrate
from skdptune.accounting import _exact as exact
from skdptune.accounting._conditioned import ConditionedCount, without_singular
from skdptune.accounting._exact_bounds import Lattice
from skdptune.accounting._exact_grid import cut_cells, pair_cells, weight_of
from skdptune.accounting._exact_profile import exact_pair
from skdptune.accounting._exact_solver import solve
from skdptune.accounting._trade_off import trade_off
from skdptune.run_counts import (
    Finite,
    Fixed,
    FromScipy,
    Geometric,
    Logarithmic,
    Poisson,
    TruncatedNegativeBinomial,
)
from tests.accounting.brute_force import dominating_pair
from tests.accounting.exact_oracle import best_of_pieces, best_of_subsets, lattice_bounds

COUNTS = [Logarithmic(10), TruncatedNegativeBinomial(10, 2), Poisson(0.7), Fixed(4), Finite({0: 0.2, 1: 0.3, 40: 0.5})]


def near_pair(rng, size):
    """Masses of a few outputs, and how far their ratios are from one."""
    scale = 10.0 ** rng.uniform(-7, -1)
    p = rng.dirichlet(np.ones(size))
    q = p * np.exp(scale * rng.normal(size=size))
    return p, q / q.sum(), scale


@pytest.mark.parametrize("seed", range(3))
def test_no_order_beats_the_bounds_of_a_pair_that_hardly_tells(seed):
    rng = np.random.default_rng(seed)
    for _ in range(40):
        p, q, scale = near_pair(rng, int(rng.integers(2, 7)))
        run_count, epsilon = COUNTS[rng.integers(len(COUNTS))], float(scale * rng.uniform(0, 2))
        pair = dominating_pair(p, q)
        truth = best_of_subsets(p, q, run_count, epsilon)
        w_plus, _, value = lattice_bounds(pair, run_count, epsilon, float(rng.choice([0.0, 0.5, 0.1])))
        noise = 2e-15 * len(p)  # of the list of orders
        assert w_plus >= truth - noise
        assert value <= w_plus


def test_no_scattered_order_beats_the_bounds_of_a_pair_that_hardly_tells():
    rng = np.random.default_rng(9)
    for _ in range(25):
        p, q, scale = near_pair(rng, 2)
        run_count, epsilon = COUNTS[rng.integers(len(COUNTS))], float(scale * rng.uniform(0, 2))
        truth = best_of_pieces(p, q, (30, 30), run_count, epsilon)
        for eta in (0.3, 0.05):
            w_plus, _, value = lattice_bounds(dominating_pair(p, q), run_count, epsilon, eta)
            assert w_plus >= truth - 1e-13
        assert value >= truth - 0.05 * abs(truth) - 1e-13  # V is an order too, of finer pieces
        # and the two meet to a share of how far P and Q are apart
        assert w_plus <= value + 0.05 * run_count.mean * np.abs(p - q).sum() + 1e-10


def _integrand(run_count, cells, epsilon, r, s, column):
    weight = lambda x: np.exp(run_count.log_weight(np.clip(x, 0.0, 1.0)))
    p, q = cells.p[::-1][column], cells.q[::-1][column]
    return weight(r) * p - np.exp(epsilon) * weight(s) * q


@pytest.mark.parametrize("run_count", [Finite({1: 0.5, 3: 0.5}), Fixed(2), Logarithmic(10)], ids=repr)
def test_every_cell_is_bounded_by_its_corners(run_count):
    """Inside a cell the integrand lies under the interpolated corner terms, and V's gains under its mean."""
    rng = np.random.default_rng(3)
    for _ in range(60):
        p, q, scale = near_pair(rng, 4)
        epsilon = float(scale * rng.choice([0.0, 0.5, 1.0]))
        lattice = Lattice(pair_cells(dominating_pair(p, q)), weight_of(run_count), epsilon)
        assert lattice.near
        cells, columns, e = lattice.cells, lattice.n_columns, math.exp(epsilon)
        if columns == 0:
            continue
        p_near, p_far, q_near, q_far, _, constant = lattice._upper_block(0, columns)
        near, far = p_near - e * q_near, p_far - e * q_far
        gain_p, gain_q = lattice._value_block(0, columns)
        r, s = lattice._positions(0, columns)
        noise = 1e-11 * run_count.mean  # of the weights, on both sides
        for j, k in zip(*np.nonzero(lattice._valid(0, columns)), strict=True):
            step_p, step_q = cells.p[::-1][j], cells.q[::-1][j]
            y = np.linspace(0.0, 1.0, 41)
            middle = (y[:-1] + y[1:]) / 2
            at = r[j, k] + middle * step_p, s[j, k] + middle * step_q
            mean = np.mean(_integrand(run_count, cells, epsilon, *at, j))
            # the midpoint rule itself is off by less than a part in 1e3 of what is allowed for
            assert gain_p[j, k] - e * gain_q[j, k] <= mean + 1e-3 * scale * step_q**2 * run_count.mean + noise
            if k + 1 > lattice.last[j]:
                continue
            x, y = rng.uniform(size=(2, 60))
            at = r[j, k] + x * cells.p[k] + y * step_p, s[j, k] + x * cells.q[k] + y * step_q
            inside = _integrand(run_count, cells, epsilon, *at, j)
            if constant is not None and constant[0][j, k] > 0:  # the cell has a bound of its own
                assert np.all(inside <= constant[0][j, k] - e * constant[1][j, k] + 1e-14)
                continue
            low = (1 - x) * near[j, k] + x * near[j, k + 1]
            high = (1 - x) * far[j, k] + x * far[j, k + 1]
            assert np.all(inside <= (1 - y) * low + y * high + 1e-14)


@pytest.mark.parametrize("noise", [1e3, 1e4, 6e4])
def test_little_loss_is_priced_to_the_same_relative_accuracy(noise):
    bounds = exact.exact_epsilon(PrivacyCurve.gaussian(noise).pair, TruncatedNegativeBinomial(10, 2), 1e-5)
    assert 0 < bounds.lower <= bounds.upper <= 1.003 * bounds.lower


@pytest.mark.parametrize("run_count", [Logarithmic(10), Poisson(5), Fixed(3)], ids=repr)
def test_tiny_pure_runs(run_count):
    large, small = (exact.exact_epsilon(PrivacyCurve.pure(e).pair, run_count, 0.0) for e in (1e-6, 1e-9))
    assert small.lower <= small.upper <= 1.0005 * small.lower
    assert small.upper == pytest.approx(1e-3 * large.upper, rel=1e-4)  # of first order in epsilon
    assert exact.exact_epsilon(PrivacyCurve.pure(1e-9).pair, run_count, 1e-6).upper == 0.0
    search = exact_pair(PrivacyCurve.pure(1e-9).pair, run_count)
    assert search.delta(0.0) >= exact.exact_delta(PrivacyCurve.pure(1e-9).pair, run_count, 0.0).lower
    assert search.delta(0.0) <= 0.51 * small.upper
    assert search.losses[-1] <= 1.2 * small.upper


def test_a_tiny_target_is_met():
    noise = calibrate(PrivacyCurve.gaussian, Geometric(5), 1e-5, 1e-5)
    price = best_of(PrivacyCurve.gaussian(noise), Geometric(5)).epsilon(1e-5)
    assert 0.9995e-5 <= price <= 1e-5


# -- delta 0 and losses beyond every double --------------------------------------------------


@pytest.mark.parametrize("run_count", [Logarithmic(10), Poisson(5), Fixed(3)], ids=repr)
@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 0.7, 100.0, 800.0])
def test_pure_searches_add_up_at_delta_0(epsilon, run_count):
    single = PrivacyCurve.pure(epsilon)
    search = best_of(single, run_count)
    for total, parts in ((search + single, (search, single)), (search + search, (search, search))):
        at_zero = total.epsilon(0)
        assert at_zero == pytest.approx(sum(part.epsilon(0) for part in parts), rel=1e-9)
        assert total.epsilon(1e-6) <= at_zero
        assert total.delta(at_zero) == 0.0


def test_a_search_beyond_every_double_composes_by_its_pure_level():
    single = PrivacyCurve.pure(800.0)
    search = best_of(single, Logarithmic(10))
    assert search.pair is None or search.pair.p_infinite > 0.9
    nested = best_of(search, Geometric(3))
    assert search.epsilon(0) < nested.epsilon(0) < math.inf
    both = PrivacyCurve.mixture([search, single], [0.5, 0.5])
    assert both.epsilon(1e-6) == pytest.approx(search.epsilon(0), rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.0, 1e-12])
@pytest.mark.parametrize("run_count", [Fixed(100), Finite({1: 0.1, 1000: 0.9})], ids=repr)
def test_the_trade_off_of_next_to_nothing_is_the_diagonal(run_count, epsilon):
    beta = trade_off(best_of(PrivacyCurve.pure(epsilon), run_count), [0.05, 0.5])
    assert np.all(beta <= [0.95, 0.5])
    assert beta == pytest.approx([0.95, 0.5], abs=1e-8)


# -- counts of infinite mean -----------------------------------------------------------------


@pytest.mark.parametrize("exponent", [1.3, 1.9])
def test_heavy_tails_cost_hardly_more_for_a_tiny_singular_mass(exponent):
    """With 1e-25 of infinite loss, some run of zipf(1.3) hits it with probability 3e-8."""
    run_count = FromScipy(st.zipf(exponent))
    without = exact.exact_epsilon(PrivacyCurve.pure(0.5).pair, run_count, 1e-5, rtol=1e-2)
    bounds = exact.exact_epsilon(PrivacyCurve.approximate(0.5, 1e-25).pair, run_count, 1e-5, rtol=1e-2)
    assert without.lower <= bounds.upper <= 1.02 * bounds.lower
    assert bounds.upper <= 0.9


def test_setting_singular_mass_aside_agrees_with_the_plain_bounds():
    pair, run_count = PrivacyCurve.approximate(0.5, 1e-12).pair, FromScipy(st.zipf(1.9))
    plain = solve(pair, weight_of(run_count), 1e-5, 5e-3, 0.0)
    apart = exact.exact_epsilon(pair, run_count, 1e-5, rtol=5e-3)
    assert plain.lower <= apart.upper and apart.lower <= plain.upper
    for epsilon in (0.1, 0.6):
        one, two = (f(pair, run_count, epsilon) for f in (_apart_delta, _plain_delta))
        assert one.lower <= two.upper and two.lower <= one.upper


def _apart_delta(pair, run_count, epsilon):
    return exact.exact_delta(pair, run_count, epsilon, rtol=5e-3)


def _plain_delta(pair, run_count, epsilon):
    return exact.evaluate(pair, weight_of(run_count), epsilon, 5e-3, 0.0)


def test_the_price_without_singular_mass_bounds_every_order_with_it():
    rng = np.random.default_rng(5)
    for _ in range(60):
        p, q = rng.dirichlet(np.ones(5), size=2)
        p[0], q[1] = rng.choice([0.0, 1.0]) * p[0], 0.0
        p, q = p / p.sum(), q / q.sum()
        pair, run_count = dominating_pair(p, q), Finite({0: 0.1, 1: 0.4, 5: 0.3, 60: 0.2})
        aside, epsilon = max(pair.p_infinite, pair.q_zero), float(rng.uniform(0, 2))
        rest, count = without_singular(pair, aside), ConditionedCount(run_count, aside)
        truth = best_of_subsets(p, q, run_count, epsilon)
        inner = best_of_subsets(rest.p, rest.q, count, epsilon)
        assert truth <= (1 - count.hit) * inner + count.hit + 1e-12
        assert truth >= (1 - count.hit) * inner - math.exp(epsilon) * count.hit - 1e-12


def test_a_conditioned_count_is_the_count_of_the_tilted_law():
    run_count, mass = Finite({0: 0.1, 1: 0.4, 5: 0.3, 60: 0.2}), 0.03
    k = np.array([0, 1, 5, 60])
    tilted = run_count.pmf(k) * (1 - mass) ** k
    direct = Finite(dict(zip(k.tolist(), (tilted / tilted.sum()).tolist(), strict=True)))
    found, r = ConditionedCount(run_count, mass), np.array([0.0, 1e-9, 0.2, 0.9, 1.0])
    assert found.p_zero == pytest.approx(direct.p_zero, rel=1e-12)
    assert found.log_weight(r) == pytest.approx(direct.log_weight(r), rel=1e-9)
    assert found.log_weight_slope(r) == pytest.approx(direct.log_weight_slope(r), rel=1e-9)
    assert found.log_pgf_derivative(r) == pytest.approx(direct.log_pgf_derivative(r), rel=1e-9)
    assert found.attainment(r) == pytest.approx(direct.attainment(r), rel=1e-9, abs=1e-10)
    assert np.all(found.attainment(r) >= direct.attainment(r) * (1 - 1e-12))


def test_cells_are_cut_at_masses_far_below_one_rounding():
    cells = pair_cells(PrivacyCurve.pure(0.5).pair)
    cuts = np.array([1e-90, 1e-40, 1e-20, 0.01, 0.5])
    cut = cut_cells(cells, cuts, cuts)
    assert cut.p.sum() == pytest.approx(1, abs=1e-15) and cut.q.sum() == pytest.approx(1, abs=1e-15)
    assert np.all(cut.p > 0)
    for wanted in cuts[:4]:
        assert np.min(np.abs(cut.high[0] / wanted - 1)) < 1e-12
        assert np.min(np.abs(cut.low[1] / wanted - 1)) < 1e-12
    assert np.all(np.abs(cut.losses) == pytest.approx(0.5, abs=1e-12))
