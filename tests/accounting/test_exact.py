"""The exact price of best-of-K: against brute force, closed values, laws and reference numbers."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from skdptune._exceptions import InvalidParameterError
from skdptune.accounting._exact import (
    exact_delta,
    exact_delta_one_way,
    exact_epsilon,
    exact_epsilon_one_way,
)
from skdptune.accounting._exact_bounds import Lattice
from skdptune.accounting._exact_grid import (
    Cells,
    cut_cells,
    loss_edges,
    merge_cells,
    pair_cells,
    split_cells,
    weight_of,
)
from skdptune.accounting._exact_profile import exact_pair
from skdptune.accounting._exact_solver import Grids
from skdptune.accounting._pairs import DominatingPair
from skdptune.accounting.curve import PrivacyCurve
from skdptune.run_counts import (
    AtMost,
    Finite,
    Fixed,
    FromScipy,
    Geometric,
    Logarithmic,
    Poisson,
    TruncatedNegativeBinomial,
)
from tests.accounting import exact_oracle

HALF = 1 / (1 + math.e)


def response(epsilon=1.0):
    """The pair of randomised response."""
    low = 1 / (1 + math.exp(epsilon))
    return DominatingPair([-epsilon, epsilon], [low, 1 - low], [1 - low, low], symmetric=True)


@pytest.fixture(scope="module")
def gaussian():
    return PrivacyCurve.gaussian(3.0).pair


@pytest.fixture(scope="module")
def dp_sgd():
    return PrivacyCurve.dp_sgd(1.0, 256 / 60_000, 7_031).pair


# -- brute force -----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_no_order_beats_the_bounds(seed):  # more: python -m tests.accounting.exact_oracle 5000
    assert exact_oracle.compare(seed, 100) == []


def test_finely_cut_orders_do_not_beat_coarse_bounds():
    rng, pool = np.random.default_rng(5), exact_oracle.run_count_pool()
    for _ in range(60):
        pair, _, _, _, run_count, epsilon = exact_oracle.draw_instance(rng, pool)
        value = exact_oracle.lattice_bounds(pair, run_count, epsilon, 0.05)[2]
        for eta in (0.0, 1.0, 0.3):
            w_plus, first, _ = exact_oracle.lattice_bounds(pair, run_count, epsilon, eta)
            assert value <= min(w_plus, first) + 1e-11


def test_first_column_counts_only_its_positive_part():
    # an atom whose integrand is positive on a part only; found by the brute force
    pair = DominatingPair([math.log(1 / 0.85293511)], [1.0], [0.85293511], 0.0, 0.14706489)
    run_count, epsilon = Finite({1: 0.099, 100: 0.901}), 1.5284157432785213
    p, q = pair_cells(pair).p, pair_cells(pair).q
    truth = exact_oracle.best_of_pieces(p, q, [40, 25], run_count, epsilon)
    assert truth > 0.877
    for bound in exact_oracle.lattice_bounds(pair, run_count, epsilon, 0.0)[:2]:
        assert bound >= truth


@pytest.mark.parametrize("epsilon", [-1.0, -0.2, 0.3, 1.5])
def test_brackets_the_best_of_many_pieces(epsilon):
    p, q = np.array([0.3, 0.7]), np.array([0.8, 0.2])
    pair = DominatingPair(np.log(p / q), p, q)
    for run_count in (Poisson(mean=0.5), Geometric(mean=5.0), Fixed(4)):
        bounds = exact_delta_one_way(pair, run_count, epsilon, rtol=5e-3)
        truth = exact_oracle.best_of_pieces(p, q, [40, 40], run_count, epsilon)
        assert truth <= bounds.upper
        assert bounds.lower <= truth + 0.01 * truth + 1e-6  # pieces are coarser than the cells


# -- closed values ---------------------------------------------------------------------------


def test_one_run_is_the_single_run(gaussian, dp_sgd):
    for pair in (response(), gaussian, dp_sgd):
        for run_count in (Fixed(1), TruncatedNegativeBinomial(mean=1.0, eta=2.0)):
            bounds = exact_epsilon(pair, run_count, 1e-5)
            assert bounds.upper == pytest.approx(pair.epsilon(1e-5), rel=1e-9)
            assert bounds.upper >= pair.epsilon(1e-5) * (1 - 1e-15)
        assert exact_pair(pair, Fixed(1)) is pair


def test_pure_value_at_delta_zero():
    run_count = Logarithmic(mean=10)
    bounds = exact_epsilon(response(), run_count, 0.0)
    closed = 1 + run_count.log_weight(HALF) - run_count.log_weight(1 - HALF)
    assert bounds.lower <= closed <= bounds.upper <= closed + 1e-4
    assert bounds.upper == pytest.approx(1.93924, abs=1e-4)


@pytest.mark.parametrize("eta", [0.0, 0.5, 2.0])
def test_pure_value_rises_to_two_plus_eta(eta):
    means = (2.0, 10.0, 100.0, 1e5)
    values = [
        exact_epsilon(response(), TruncatedNegativeBinomial(mean=m, eta=eta), 0.0).upper
        for m in means
    ]
    assert all(a < b for a, b in itertools.pairwise(values))
    assert 0.97 * (2 + eta) < values[-1] <= 2 + eta + 1e-3


@pytest.mark.parametrize("k", [2, 3, 5])
def test_fixed_count_costs_k_fold(k):
    bounds = exact_epsilon(response(), Fixed(k), 0.0)
    assert bounds.lower <= k <= bounds.upper <= k + 1e-3
    at_delta = exact_epsilon(response(), Fixed(k), 1e-6)
    assert 0.9 * k < at_delta.lower <= at_delta.upper <= bounds.upper


def test_never_more_than_one_run():
    maybe = Finite({0: 0.9, 1: 0.1})
    single = response().delta(0.5)
    assert exact_delta(response(), maybe, 0.5).upper == pytest.approx(0.1 * single)
    truth = 0.1 * response().delta(-0.5) + 0.9 * (1 - math.exp(-0.5))
    assert exact_delta(response(), maybe, -0.5).upper == pytest.approx(truth, rel=1e-9)


# -- reference numbers -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "run_count, expected",
    [(Logarithmic(mean=10), 1.8357), (Geometric(mean=10), 1.9445), (Poisson(mean=10), 2.4856)],
)
def test_gaussian_reference(gaussian, run_count, expected):
    bounds = exact_epsilon(gaussian, run_count, 1e-5)
    assert bounds.upper == pytest.approx(expected, rel=3e-3)
    assert bounds.upper - bounds.lower <= 2e-3 * bounds.upper
    fine = exact_epsilon(gaussian, run_count, 1e-5, rtol=2e-4)
    assert bounds.lower <= fine.lower <= fine.upper <= bounds.upper
    assert fine.upper - fine.lower <= 2e-4 * fine.upper


def test_dp_sgd_reference(dp_sgd):
    bounds = exact_epsilon(dp_sgd, Logarithmic(mean=10), 1e-5)
    assert bounds.upper == pytest.approx(2.7417, rel=3e-3)
    assert bounds.upper - bounds.lower <= 2e-3 * bounds.upper


def test_pure_reference():
    bounds = exact_epsilon(response(), Logarithmic(mean=10), 1e-6)
    assert bounds.lower <= 1.9369 <= bounds.upper <= 1.9369 * 1.003


# -- laws ------------------------------------------------------------------------------------


def test_monotone_in_mean_and_in_base(gaussian):
    means = [exact_epsilon(gaussian, Geometric(mean=m), 1e-5).upper for m in (1.5, 3, 10, 40)]
    assert all(a < b for a, b in itertools.pairwise(means))
    bases = [exact_epsilon(response(e), Geometric(mean=5), 1e-6).upper for e in (0.1, 0.5, 1, 2)]
    assert all(a < b for a, b in itertools.pairwise(bases))


def test_swapped_pair_has_the_same_price(dp_sgd):
    run_count = Logarithmic(mean=10)
    assert exact_epsilon(dp_sgd, run_count, 1e-5).upper == pytest.approx(
        exact_epsilon(dp_sgd.swap(), run_count, 1e-5).upper, rel=2e-3
    )
    one = exact_epsilon_one_way(dp_sgd, run_count, 1e-5)
    two = exact_epsilon_one_way(dp_sgd.swap(), run_count, 1e-5)
    both = exact_epsilon(dp_sgd, run_count, 1e-5)
    assert both.upper >= max(one.lower, two.lower)


def test_delta_and_epsilon_agree(gaussian):
    run_count = Geometric(mean=10)
    bounds = exact_epsilon(gaussian, run_count, 1e-5)
    assert exact_delta(gaussian, run_count, bounds.upper * 1.004).upper <= 1e-5
    assert exact_delta(gaussian, run_count, bounds.lower * 0.996).lower >= 1e-5


def test_infinite_mass_and_tiny_delta():
    pair = DominatingPair([-1.0, 1.0], [0.3, 0.69], [0.7, 0.2], 0.01, 0.1)
    run_count = Geometric(mean=10)
    reached = run_count.attainment(0.01)
    assert exact_epsilon_one_way(pair, run_count, 0.9 * reached).upper == math.inf
    bounds = exact_epsilon_one_way(pair, run_count, 1.2 * reached)
    assert math.isfinite(bounds.upper)
    assert exact_epsilon(pair, run_count, 0.0).upper == math.inf
    tiny = exact_epsilon(response(), run_count, 1e-250)
    assert tiny.upper <= exact_epsilon(response(), run_count, 0.0).upper
    assert exact_epsilon(response(), run_count, 1.0).upper == 0.0


def test_tables_serve_slow_weights(gaussian):
    capped = AtMost(Logarithmic(mean=10), 1000)
    plain = exact_epsilon(gaussian, Logarithmic(mean=10), 1e-5)
    bounds = exact_epsilon(gaussian, capped, 1e-5)
    assert bounds.upper == pytest.approx(plain.upper, rel=4e-3)
    weight, r = weight_of(capped), 0.9 * np.random.default_rng(0).random(2000) ** 3
    exact = weight.value(r)
    assert np.all(weight.lower(r) <= exact) and np.all(exact <= weight.upper(r))
    assert np.all(weight.upper(r) <= weight.lower(r) * (1 + 1e-4))
    steep, flat = weight.slope(r)
    slope = np.exp(capped.log_weight_slope(r))
    assert np.all(flat <= slope * (1 + 1e-12)) and np.all(slope <= steep * (1 + 1e-12))


@pytest.mark.slow
def test_infinite_mean():
    run_count = FromScipy(stats.zipf(1.9))
    bounds = exact_epsilon(response(), run_count, 1e-5)
    assert bounds.upper - bounds.lower <= 2e-3 * bounds.upper
    p, q = pair_cells(response()).p, pair_cells(response()).q
    for epsilon in (0.5, 1.2):
        truth = exact_oracle.best_of_pieces(p, q, [30, 30], run_count, epsilon)
        assert truth <= exact_delta(response(), run_count, epsilon).upper


# -- cells -----------------------------------------------------------------------------------


def test_split_keeps_masses_and_dominates_merge_is_dominated(gaussian):
    edges = loss_edges(gaussian, 0.05, -1.2, 1.6)
    split, merged = split_cells(gaussian, edges), merge_cells(gaussian, edges)
    for cells in (split, merged, cut_cells(split, np.array([0.1, 0.5]), np.array([1e-9, 0.2]))):
        assert cells.p.sum() == pytest.approx(1, abs=1e-12)
        assert cells.q.sum() == pytest.approx(1, abs=1e-12)
        finite = cells.losses[np.isfinite(cells.losses)]
        assert np.all(np.diff(finite) > -1e-9)
    for epsilon in np.linspace(-1.5, 1.5, 31):
        stick = lambda c, e=epsilon: np.maximum(c.p - np.exp(e) * c.q, 0).sum()
        exact = gaussian.delta(epsilon)
        assert stick(merged) - 1e-12 <= exact <= stick(split) + 1e-12


def test_constant_weight_gives_the_hockey_stick():
    cells = Cells(np.array([0.0, 0.3, 0.6, 0.1]), np.array([0.1, 0.6, 0.3, 0.0]))
    lattice = Lattice(cells, weight_of(Fixed(1)), 0.2)
    expected = np.maximum(cells.p - np.exp(0.2) * cells.q, 0).sum()
    for bound in (lattice.upper, lattice.first_order, lattice.value):
        assert float(bound(np.array([0.2]))[0]) == pytest.approx(expected, rel=1e-10)


# -- the search as a pair --------------------------------------------------------------------


@pytest.mark.parametrize("make", [response, lambda: PrivacyCurve.gaussian(3.0).pair])
def test_pair_of_the_search_dominates_and_is_tight(make):
    pair, run_count = make(), TruncatedNegativeBinomial(mean=10, eta=2)
    search = exact_pair(pair, run_count)
    for delta in (1e-3, 1e-5, 1e-8):
        bounds = exact_epsilon(pair, run_count, delta)
        assert bounds.lower <= search.epsilon(delta) <= bounds.upper * 1.004
    for epsilon in (-1.3, -0.4, 0.0, 0.7, 1.9):
        bounds = exact_delta_one_way(pair, run_count, epsilon, rtol=1e-3)
        assert search.delta(epsilon) >= bounds.lower


def test_pair_of_an_asymmetric_search():
    pair = DominatingPair([-1.5, 0.5], [0.15, 0.80], [0.5, 0.45], 0.05, 0.05)
    run_count = Poisson(mean=2.0)
    search = exact_pair(pair, run_count)
    for epsilon in (-2.0, -0.5, 0.0, 0.5, 2.0):
        for one, single in ((search, pair), (search.swap(), pair.swap())):
            bounds = exact_delta_one_way(single, run_count, epsilon, rtol=1e-3)
            assert one.delta(epsilon) >= bounds.lower * (1 - 1e-12)
            assert one.delta(epsilon) <= bounds.upper + 0.02


# -- arguments, cache, cost ------------------------------------------------------------------


def test_arguments_are_checked():
    for bad in ({"delta": -0.1}, {"delta": 2.0}, {"delta": 0.1, "rtol": 0.0}):
        with pytest.raises(InvalidParameterError):
            exact_epsilon(response(), Fixed(2), **bad)


def test_equal_questions_are_answered_from_the_cache(gaussian):
    first = exact_epsilon(gaussian, Logarithmic(mean=7.5), 1e-5)
    fields = ("losses", "p", "q", "p_infinite", "q_zero", "spacing", "symmetric")
    copy = DominatingPair(*(getattr(gaussian, name) for name in fields))
    copy.cache_key  # noqa: B018
    assert exact_epsilon(copy, Logarithmic(mean=7.5), 1e-5) is first


@pytest.mark.filterwarnings("ignore:invalid value")
def test_what_is_not_a_number_is_no_bound(monkeypatch):
    # 0 times infinity, as an infinite mean may give: 1 from above and 0 from below
    lattice = Lattice(pair_cells(response()), weight_of(Logarithmic(mean=5)), 0.2)
    monkeypatch.setattr(Lattice, "_columns", lambda self, *args: np.full((2, 1), np.nan))
    monkeypatch.setattr(Lattice, "_recurse", lambda self, *args: np.full(2, np.nan))
    epsilons = np.array([1.0, 2.0])
    assert np.all(lattice.upper(epsilons) == 1.0) and np.all(lattice.first_order(epsilons) == 1.0)
    assert np.all(lattice.value(epsilons) == 0.0)


def test_weights_of_an_infinite_mean_are_bounded_from_above_near_zero():
    weight = weight_of(FromScipy(stats.zipf(1.5)))
    r = np.array([1e-300, 1e-100, 1e-30, 1e-19, 1e-18, 3e-18, 1e-17, 1e-10, 1e-3])
    true = np.exp(np.minimum(weight.run_count.log_weight(r), 690.0))
    assert np.all(weight.upper(r) >= true * (1 - 1e-9)) and np.all(weight.lower(r) <= true * (1 + 1e-9))
    high, low = weight.slope(r)
    assert np.all(high >= low) and np.all(low >= 0)


def test_little_noise_is_priced_on_a_lattice_of_bounded_size(monkeypatch):
    """The first estimate of how fine a lattice must be can be a hundred times too fine: it is widened, not built."""
    asked, upper = [], Lattice.upper

    def watched(self, epsilons):
        asked.append(self.cells.size * self.n_columns)
        return upper(self, epsilons)

    monkeypatch.setattr(Lattice, "upper", watched)
    bounds = exact_epsilon(PrivacyCurve.gaussian(0.19).pair, Geometric(5), 1e-3)
    assert max(asked) < 4_000_000
    single = PrivacyCurve.gaussian(0.19).epsilon(1e-3)
    assert single < bounds.lower <= bounds.upper < 1.3 * single


@pytest.mark.parametrize(
    ("curve", "delta", "most"),
    [
        (PrivacyCurve.pure(1.0), 0.01, 2.85),
        (PrivacyCurve.pure(1.0), 1e-5, 3.345),
        (PrivacyCurve.laplace(0.5), 1e-5, 1.79),
    ],
    ids=["pure-0.01", "pure-1e-5", "laplace-1e-5"],
)
def test_a_count_of_one_or_many_is_priced_tightly(curve, delta, most):
    """w(s) falls steeply where w(r) hardly moves: corner terms alone grow with epsilon there."""
    bounds = exact_epsilon(curve.pair, Finite({1: 0.5, 100: 0.5}), delta)
    assert bounds.lower <= bounds.upper <= min(1.003 * bounds.lower, most)


def test_the_atoms_of_a_run_are_not_all_looked_at(monkeypatch):
    """A composition has a hundred thousand atoms: only cells of a grid are asked which of them are useful."""
    asked, reach = [], Lattice.reach.func

    def watched(self):
        asked.append(self.cells.size)
        return reach(self)

    monkeypatch.setattr(Lattice, "reach", property(watched))
    pair = PrivacyCurve.dp_sgd(1.1, 0.01, 1000).pair
    assert exact_epsilon(pair, Geometric(5), 1.3e-5).upper > 0
    assert 0 < max(asked) < 3000 < pair.size


def test_a_step_of_next_to_nothing_asks_for_no_grid():
    grids = Grids(PrivacyCurve.pure(0.5).pair, weight_of(Geometric(5)), 1e-9)
    assert [cells.size for cells in grids.cells(1e-30, 0.01)] == [2, 2]


# -- weights that end at zero or begin at infinity ---------------------------------------------


def test_a_sure_number_of_runs_is_priced_tightly(gaussian):
    # cuts for T that leaves next to nothing once made 20 times as many cells, then the grid was
    # coarsened in losses until the price was 23.2
    bounds = exact_epsilon(gaussian, Fixed(10), 1e-5)
    assert 3.84 < bounds.lower <= bounds.upper < 3.87


def test_two_sure_runs_of_a_long_composition_at_a_small_delta(dp_sgd):
    # an excess of 1e-9 in the sums of masses, taken for an error of them, once made this infinite
    bounds = exact_epsilon(dp_sgd, Fixed(2), 1e-10)
    assert 4.40 < bounds.lower <= bounds.upper < 4.43


@pytest.mark.parametrize("frozen", [stats.zipf(1.8), stats.yulesimon(1.0)])
def test_infinite_mean_with_a_tiny_infinite_mass(frozen):
    # weights below r = 1e-18 were once taken for infinite: a delta of 1
    q = np.array([0.2, 0.3, 0.5])
    p = q * np.exp([-2.3, -1.4, 0.0])
    p[2] = 1 - p[0] - p[1] - 7e-26
    pair = DominatingPair(np.log(p / q), p, q, 7e-26, 0.0)
    bounds = exact_delta_one_way(pair, FromScipy(frozen), 1.0, rtol=0.01)
    assert 0 < bounds.lower <= bounds.upper < 1.1 * bounds.lower


def test_infinite_mean_with_mass_of_infinite_loss_and_of_zero_ratio():
    # every cell in which w(s) falls steeply takes its constant bound; 0.1 from above once
    q = np.array([0.9125, 0.0867])
    pair = DominatingPair(np.log([0.8314 / q[0], 0.166 / q[1]]), [0.8314, 0.166], q, 0.0026, 0.0008)
    run_count = FromScipy(stats.zipf(1.5))
    bounds = exact_delta_one_way(pair, run_count, 0.5, rtol=0.01)
    assert 0.08 < bounds.lower <= bounds.upper < 1.02 * bounds.lower
    cells = pair_cells(pair)
    assert bounds.upper >= exact_oracle.best_of_subsets(cells.p, cells.q, run_count, 0.5)
    w_plus, first, value = exact_oracle.lattice_bounds(pair, run_count, 0.5, 0.1)
    assert w_plus < 1.02 * value and w_plus < 0.9 * first


@pytest.mark.parametrize("frozen", [stats.zipf(1.5), stats.yulesimon(0.6), stats.zipf(1.4, loc=2)])
def test_delta_zero_with_an_infinite_mean(frozen):
    run_count = FromScipy(frozen)
    bounds = exact_epsilon(response(), run_count, 0.0)
    r = np.geomspace(1e-90, HALF, 4000)
    truth = 1 + np.max(run_count.log_weight(r) - run_count.log_weight(np.e * r))
    # where k P(K = k) falls from the start, w(r) / w(s) <= s / r
    most = 2.0 if run_count.weight_rise < 1e-9 else 1.2 * truth
    assert truth - 1e-6 <= bounds.upper <= most + 1e-6
    assert bounds.lower == pytest.approx(truth, rel=1e-3)


def test_delta_zero_is_unknown_where_a_heavy_tail_may_rise(monkeypatch):
    run_count = FromScipy(stats.zipf(1.55))
    monkeypatch.setitem(run_count.__dict__, "weight_rise", math.inf)
    assert exact_epsilon(response(), run_count, 0.0).upper == math.inf


def test_no_order_beats_the_bounds_of_an_infinite_mean():
    # the most that a column can hold caps its positive part, not what is positive of the whole column
    q = np.array([0.7079563438, 0.2920436562])
    p = q * np.exp([-4.40417142322209, 1.2221573941177648])
    p *= (1 - 1.26e-6) / p.sum()
    pair = DominatingPair(np.log(p / q), p, q, 1.26e-6, 0.0)
    run_count, epsilon = FromScipy(stats.zipf(2.0)), 2.042259006745838
    cells = pair_cells(pair)
    truth = exact_oracle.best_of_pieces(cells.p, cells.q, [22] * 3, run_count, epsilon)
    assert truth > 0.02
    for eta in (0.0, 0.3, 0.06):
        w_plus, first, value = exact_oracle.lattice_bounds(pair, run_count, epsilon, eta)
        assert max(truth, value) <= min(w_plus, first)
