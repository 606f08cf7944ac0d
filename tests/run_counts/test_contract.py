"""What every distribution of the number of runs promises, against 50 digits."""

import json
import math
import pickle

import mpmath as mp
import numpy as np
import pytest
import scipy.stats

import skdptune.run_counts as run_counts
from skdptune.run_counts import RunCount, from_dict
from tests.run_counts.oracles import (
    LARGE,
    SMALL,
    exact_functions,
    exact_pmf,
    log_or_minus_inf,
    name_of,
)

EVERY = SMALL + LARGE
PROBABILITIES = [0.0, 1e-300, 1e-30, 1e-15, 1e-9, 1e-4, 0.01, 0.2, 0.5, 0.75, 0.99, 1.0]
POINTS = [0.0, 1e-200, 1e-9, 0.03, 0.4, 0.5, 0.77, 0.999, 1 - 1e-9, 1 - 1e-15, 1.0]


def digits(small):
    """Enough digits for 1 - small, and for what cancels after that."""
    return 700 if small < 1e-40 else 60


def close_logs(got, wanted, relative=3e-12):
    """Logs agree up to rounding of themselves, or of the number whose log it is."""
    if wanted == -math.inf:
        return got == -math.inf
    return abs(got - wanted) <= relative * max(1.0, abs(wanted))


@pytest.fixture(params=EVERY, ids=name_of)
def run_count(request):
    return request.param


@pytest.fixture(params=SMALL, ids=name_of)
def small(request):
    return request.param


def test_attainment_keeps_relative_accuracy(run_count):
    for r in PROBABILITIES:
        with mp.workdps(digits(r)):
            f, *_ = exact_functions(run_count)
            wanted = float(1 - f(1 - mp.mpf(r))) if r > 0.0 else 0.0
        got = run_count.attainment(r)
        assert got == pytest.approx(wanted, rel=3e-12, abs=0.0), r
        assert run_count.success_probability(r) == got


def test_weight_and_slope(run_count):
    for r in PROBABILITIES:
        with mp.workdps(digits(r)):
            _, first, second = exact_functions(run_count)
            x = 1 - mp.mpf(r)
            assert close_logs(run_count.log_weight(r), log_or_minus_inf(first(x))), r
            if r > 1e-100 or not name_of(run_count).startswith("FromScipy"):
                wanted = log_or_minus_inf(second(x))
                assert close_logs(run_count.log_weight_slope(r), wanted), r


def test_generating_function_and_derivative(run_count):
    for x in POINTS:
        hidden = x < 1 - 1e-6 if getattr(run_count, "eta", 0) > 1e3 else x < 1e-6
        if hidden and run_count.mean > 1e5 and not isinstance(run_count, run_counts.Fixed):
            continue  # f(x) far below what 700 digits resolve after a subtraction
        exact = mp.mpf(x)
        with mp.workdps(digits(x)):  # the textbook formulas cancel where f is tiny
            f, first, _ = exact_functions(run_count)
            slope = log_or_minus_inf(first(exact))
            wanted = log_or_minus_inf(f(exact) if x > 0 else mp.mpf(run_count.p_zero))
        assert close_logs(run_count.log_pgf_derivative(x), slope), x
        assert close_logs(run_count.log_pgf(x), wanted), x
        assert run_count.pgf(x) == pytest.approx(math.exp(wanted), rel=1e-9, abs=1e-320)


def test_ends(run_count):
    assert run_count.attainment(0.0) == 0.0
    assert run_count.attainment(1.0) == pytest.approx(1.0 - run_count.p_zero, rel=1e-14)
    assert run_count.log_weight(0.0) == pytest.approx(math.log(run_count.mean), abs=1e-13)
    one = run_count.pmf(1)
    if one > 1e-290:
        assert run_count.log_weight(1.0) == pytest.approx(math.log(one), rel=1e-12, abs=1e-12)
    assert run_count.pgf(1.0) == pytest.approx(1.0, rel=1e-14)
    assert run_count.pgf(0.0) == pytest.approx(run_count.p_zero, rel=1e-12)
    assert run_count.pmf(0) == pytest.approx(run_count.p_zero, rel=1e-13)


def test_probabilities_match_the_definition(small):
    last = 60 if small.support_max is None else small.support_max + 2
    wanted = np.array([float(p) for p in exact_pmf(small, last)])
    k = np.arange(last + 1)
    np.testing.assert_allclose(small.pmf(k), wanted, rtol=2e-12, atol=0.0)
    np.testing.assert_allclose(1.0 - small.sf(k), np.cumsum(wanted), rtol=1e-12, atol=1e-15)


def test_survival_and_probabilities_are_consistent(run_count):
    places = {0, 1, 2, 5, 100, 10**6}
    places |= {run_count.quantile(p) for p in (0.001, 0.3, 0.9, 1 - 1e-9, 1 - 1e-14)}
    for k in sorted(places):
        mass = run_count.pmf(k)
        drop = run_count.sf(k - 1) - run_count.sf(k)
        assert mass == pytest.approx(drop, rel=1e-9, abs=1e-12), k
        # the relative size of the tail: sf(k - 1) = sf(k) + pmf(k) far out too
        assert run_count.sf(k - 1) == pytest.approx(run_count.sf(k) + mass, rel=2e-8, abs=1e-300)


def test_nothing_below_zero_and_nothing_above_the_top(run_count):
    assert run_count.pmf(-1) == 0.0 and run_count.sf(-1) == 1.0
    assert run_count.pmf(10**400) == 0.0 and run_count.sf(10**400) == 0.0
    if run_count.support_max is not None:
        assert run_count.sf(run_count.support_max) == 0.0
        assert run_count.quantile(1.0) == run_count.support_max
        assert run_count.pmf(run_count.support_max + 1) == 0.0


@pytest.mark.parametrize("p", [1e-6, 0.01, 0.25, 0.5, 0.9, 0.99, 1 - 1e-6, 1 - 1e-12])
def test_quantile_is_the_smallest_that_suffices(run_count, p):
    k = run_count.quantile(p)
    assert isinstance(k, int)
    assert run_count.sf(k) <= (1 - p) * (1 + 1e-14)
    assert k == 0 or run_count.sf(k - 1) > (1 - p) * (1 - 1e-14)


def test_quantile_zero_is_the_least_possible(run_count):
    least = run_count.quantile(0.0)
    assert run_count.sf(least) < 1.0
    assert least == 0 or run_count.sf(least - 1) == 1.0


def test_expected_quantile(small):
    if isinstance(small, run_counts.FromScipy):
        k = np.arange(30_000)
        wanted = float(np.sum(small.pmf(k) * k / (k + 1.0)))
        assert small.expected_quantile() == pytest.approx(wanted, rel=1e-11)
        return
    # E[K / (K + 1)] is the integral of 1 - f
    f, *_ = exact_functions(small)
    with mp.workdps(30):
        knots = [0] + [mp.mpf(10) ** -j for j in range(15, -1, -1)]
        wanted = mp.quad(lambda r: 1 - f(1 - r), knots)
    assert small.expected_quantile() == pytest.approx(float(wanted), rel=1e-11)


def test_mean_is_the_slope_at_one(run_count):
    _, first, _ = exact_functions(run_count)
    assert run_count.mean == pytest.approx(float(first(mp.mpf(1))), rel=1e-12)


def test_weight_falls_and_is_convex_and_attainment_grows(run_count):
    r = np.concatenate([[0.0], np.logspace(-12, 0, 400)])
    weight = np.exp(run_count.log_weight(r))
    assert np.all(np.diff(weight) <= 1e-12 * weight[:-1])
    slope = np.exp(run_count.log_weight_slope(r[1:]))
    assert np.all(np.diff(slope) <= 1e-11 * slope[:-1])
    assert np.all(np.diff(run_count.attainment(r)) >= -1e-15)


def test_shapes_and_types(run_count):
    grid = np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 1.0]])
    for function in (
        run_count.pgf,
        run_count.log_pgf,
        run_count.log_pgf_derivative,
        run_count.attainment,
        run_count.success_probability,
        run_count.log_weight,
        run_count.log_weight_slope,
    ):
        values = function(grid)
        assert values.shape == grid.shape
        assert type(function(0.3)) is float
        assert function(np.empty(0)).shape == (0,)
        assert function(0.3) == pytest.approx(values[0, 2], rel=1e-13)
    ks = np.array([[0, 1], [2, 30]])
    assert run_count.pmf(ks).shape == run_count.sf(ks).shape == (2, 2)
    assert type(run_count.pmf(3)) is float and type(run_count.sf(np.int64(3))) is float
    assert isinstance(run_count.mean, float) and isinstance(run_count.p_zero, float)
    assert run_count.support_max is None or isinstance(run_count.support_max, int)


def test_values_compare_hash_pickle_print_and_write(run_count):
    run_count.log_weight(0.5), run_count.expected_quantile()
    scope = {**vars(run_counts), "scipy": scipy}
    copies = [
        eval(repr(run_count), scope),
        pickle.loads(pickle.dumps(run_count)),
        from_dict(json.loads(json.dumps(run_count.to_dict()))),
        type(run_count).from_dict(run_count.to_dict()),
        RunCount.from_dict(run_count.to_dict()),
    ]
    for copy in copies:
        assert copy == run_count and hash(copy) == hash(run_count)
        assert repr(copy) == repr(run_count)
        assert copy.log_weight(0.3) == run_count.log_weight(0.3)
    assert len(pickle.dumps(run_count)) < 20_000  # tables stay behind
    assert run_count != "a string"
    assert sum(run_count == other for other in EVERY) == 1


def test_frozen(run_count):
    with pytest.raises(AttributeError):
        run_count.anything = 1


def test_large_arrays_stay_in_bounded_memory():
    import tracemalloc

    table = run_counts.AtMost(run_counts.Logarithmic(1e4), 20_000)
    r = np.linspace(0, 1, 200_000)
    table.log_weight(0.5)
    tracemalloc.start()
    table.log_weight(r)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 80e6


def test_capped_sums_far_below_the_largest_term():
    # P(K = 1) is e^-990 of the largest probability: the sums switch to log-sum-exp
    capped = run_counts.AtMost(run_counts.Poisson(1000), 100_000)
    base = run_counts.Poisson(1000)
    r = np.array([0.0, 0.03, 0.1, 0.5, 0.9, 0.99, 1.0])
    np.testing.assert_allclose(capped.log_weight(r), base.log_weight(r), rtol=1e-12)


def test_caps_of_a_hundred_thousand():
    capped = run_counts.AtMost(run_counts.Logarithmic(1e4), 10**5)
    share = mp.mpf(capped.base.odds) / (1 + mp.mpf(capped.base.odds))
    k = np.arange(1, 10**5 + 1)
    terms = [share**i for i in (1, 2)]
    assert capped.pmf(2) / capped.pmf(1) == pytest.approx(float(terms[1] / 2 / terms[0]), rel=1e-13)
    for r in (1e-300, 1e-12, 1e-5, 1e-3, 0.3):
        log_x = math.log1p(-r)
        mass = capped.pmf(k)
        assert capped.attainment(r) == pytest.approx(-np.sum(mass * np.expm1(k * log_x)), rel=1e-12)
        wanted = math.log(np.sum(mass * k * np.exp((k - 1) * log_x)))
        assert capped.log_weight(r) == pytest.approx(wanted, rel=1e-12, abs=1e-12)
