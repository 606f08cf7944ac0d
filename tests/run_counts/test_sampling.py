"""Draws follow the probabilities that are priced."""


import numpy as np
import pytest
import scipy.stats

from skdptune.run_counts import (
    AtMost,
    BetaBinomial,
    Binomial,
    Finite,
    Fixed,
    FromScipy,
    Geometric,
    Logarithmic,
    Poisson,
    TruncatedNegativeBinomial,
    ZeroTruncatedPoisson,
)
from skdptune.run_counts._tables import draw_tail_uniform

DRAWN = [
    Poisson(0.5),
    Poisson(40),
    ZeroTruncatedPoisson(1.3),
    ZeroTruncatedPoisson(50),
    TruncatedNegativeBinomial(10, 2),
    TruncatedNegativeBinomial(8, -0.5),
    TruncatedNegativeBinomial(2, -0.9),
    TruncatedNegativeBinomial(1e5, -0.5),
    TruncatedNegativeBinomial(30, 1e4),
    TruncatedNegativeBinomial(20, 0.3),
    Logarithmic(10),
    Logarithmic(1e4),
    Geometric(5),
    Geometric(1e6),
    Binomial(12, 0.3),
    Binomial(1000, 0.4),
    BetaBinomial(40, 0.5, 1.5),
    Finite([0.2, 0.5, 0.0, 0.3]),
    Finite({3: 0.5, 5000: 0.5}),
    AtMost(Logarithmic(1e3), 200),
    AtMost(Poisson(3), 4),
    FromScipy(scipy.stats.nbinom(2, 0.2)),
    FromScipy(scipy.stats.nbinom(0.5, 1e-7)),
    FromScipy(scipy.stats.zipf(1.3)),
]


def cells(run_count, count=25):
    """Right ends of cells of about equal probability."""
    ends = {run_count.quantile(p) for p in np.linspace(0, 1, count + 1)[:-1]}
    return sorted(ends)


@pytest.mark.statistical
@pytest.mark.parametrize("run_count", DRAWN, ids=lambda r: repr(r)[:60])
def test_draws_pass_a_chi_squared_test(run_count):
    rng = np.random.default_rng(20_240_607)
    size = 6_000
    draws = np.array([float(run_count.sample(rng)) for _ in range(size)])
    ends = np.array(cells(run_count), dtype=float)
    survival = np.concatenate([[1.0], run_count.sf(ends), [0.0]])
    wanted = -np.diff(survival)
    seen = np.bincount(np.searchsorted(ends, draws, side="left"), minlength=wanted.size)
    assert np.all(seen[wanted == 0.0] == 0)
    kept = wanted > 1e-4
    statistic = np.sum((seen[kept] - size * wanted[kept]) ** 2 / (size * wanted[kept]))
    assert scipy.stats.chi2.sf(statistic, max(kept.sum() - 1, 1)) > 1e-4


@pytest.mark.statistical
@pytest.mark.parametrize(
    "run_count",
    [Logarithmic(1e4), TruncatedNegativeBinomial(1e5, -0.5), Geometric(50), Poisson(5)],
    ids=repr,
)
def test_the_upper_tail_is_drawn_as_often_as_priced(run_count):
    rng = np.random.default_rng(11)
    size, level = 20_000, 2e-3
    far = run_count.quantile(1 - level)
    hits = sum(run_count.sample(rng) > far for _ in range(size))
    wanted = size * run_count.sf(far)
    assert abs(hits - wanted) < 4.5 * np.sqrt(wanted)


@pytest.mark.statistical
def test_uniforms_resolve_the_tail_below_double_precision():
    class Late:
        """A generator whose exponential lands 60 nats out, once in 1e26 draws."""

        def standard_exponential(self):
            return 60.0

    assert draw_tail_uniform(Late()) == pytest.approx(np.exp(-60))
    rng = np.random.default_rng(3)
    values = np.array([draw_tail_uniform(rng) for _ in range(20_000)])
    assert scipy.stats.kstest(values, "uniform").pvalue > 1e-4


def test_a_draw_beyond_double_precision_lands_in_the_priced_tail():
    class Late(np.random.Generator):
        def standard_exponential(self):
            return 200.0

    rng = Late(np.random.PCG64(0))
    for run_count in (
        Binomial(200, 0.1),
        AtMost(Geometric(10), 5000),
        FromScipy(scipy.stats.poisson(5)),
        FromScipy(scipy.stats.zipf(2.5)),
    ):
        k = run_count.sample(rng)
        # beyond scipy's table a draw is exact only within a block of k to sqrt(2) k
        slack = 2.0 if run_count.mean < 2 else 1 + 1e-9
        assert run_count.sf(k) < np.exp(-200) * slack
        assert run_count.sf(k - 1) * slack >= np.exp(-200)


@pytest.mark.parametrize("run_count", DRAWN, ids=lambda r: repr(r)[:60])
def test_draws_are_integers_in_the_support_and_repeatable(run_count):
    draws = [run_count.sample(np.random.default_rng(seed)) for seed in range(50)]
    assert all(type(k) is int and k >= 0 for k in draws)
    assert draws == [run_count.sample(np.random.default_rng(seed)) for seed in range(50)]
    if run_count.support_max is not None:
        assert max(draws) <= run_count.support_max
    if run_count.p_zero == 0.0:
        assert min(draws) >= 1


def test_fixed_draws_nothing():
    rng = np.random.default_rng(0)
    state = rng.bit_generator.state
    assert Fixed(4).sample(rng) == 4 and rng.bit_generator.state == state


def test_extreme_tails_do_not_overflow():
    run_count = TruncatedNegativeBinomial(1e6, -0.95)
    rng = np.random.default_rng(0)
    assert min(run_count.sample(rng) for _ in range(5_000)) == 1
    assert run_count.quantile(1 - 1e-9) >= 1
