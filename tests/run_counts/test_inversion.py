"""The mean asked for is reached from above, and price and draw share one distribution."""

import math

import mpmath as mp
import numpy as np
import pytest

from skdptune.run_counts import (
    Geometric,
    Logarithmic,
    TruncatedNegativeBinomial,
    ZeroTruncatedPoisson,
    as_run_count,
)
from tests.run_counts.oracles import exact_functions

MEANS = [1 + 1e-12, 1 + 1e-6, 1.0001, 1.5, 2, 3.7, 10, 99.9, 1234.5, 1e4, 1e6, 1e9]
ETAS = [-0.9, -0.5, -1e-3, -1e-14, 0.0, 1e-300, 1e-10, 0.5, 1.0, 2.0, 17.3, 1e4, 1e8]


def realised_mean(run_count):
    with mp.workdps(60):
        return exact_functions(run_count)[1](mp.mpf(1))


@pytest.mark.parametrize("eta", ETAS)
def test_mean_is_never_below_the_asked_one(eta):
    for mean in MEANS:
        run_count = TruncatedNegativeBinomial(mean, eta)
        excess = realised_mean(run_count) / mp.mpf(mean) - 1
        assert 0 <= excess < (1e-14 if eta > -0.4 else 5e-13), (mean, eta)
        assert run_count.mean == pytest.approx(float(realised_mean(run_count)), rel=2e-13)
        assert run_count.mean >= run_count.asked_mean == mean


@pytest.mark.parametrize("kind", [Logarithmic, ZeroTruncatedPoisson, Geometric])
def test_mean_of_the_named_kinds_is_never_below_the_asked_one(kind):
    for mean in MEANS:
        excess = realised_mean(kind(mean)) / mp.mpf(mean) - 1
        assert -1e-45 <= excess < 1e-14, mean  # the oracle itself has 50 digits


@pytest.mark.parametrize("eta", [-0.5, 0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("mean", [1.5, 10, 1000])
def test_gamma_read_off_is_conservative_too(mean, eta):
    run_count = TruncatedNegativeBinomial(mean, eta)
    with mp.workdps(60):
        gamma, shape = mp.mpf(run_count.gamma), mp.mpf(eta)
        if eta == 0:
            realised = (1 / gamma - 1) / mp.log(1 / gamma)
        else:
            realised = shape * (1 - gamma) / (gamma * (1 - gamma**shape))
    assert 0 <= realised / mp.mpf(mean) - 1 < 1e-13


@pytest.mark.parametrize("mean", [1.0001, 1.003, 1.7, 3.3, 10.0])
def test_gamma_near_one_is_rounded_down(mean):
    eta = 1e4  # gamma lies within 1e-3 of 1, where its own spacing is felt
    run_count = TruncatedNegativeBinomial(mean, eta)
    with mp.workdps(60):
        gamma = mp.mpf(run_count.gamma)
        realised = eta * (1 - gamma) / (gamma * (1 - gamma**eta))
    assert 0 <= realised / mp.mpf(mean) - 1 < 1e-10


def test_random_means_and_shapes():
    rng = np.random.default_rng(5)
    for _ in range(300):
        mean = 1 + 10 ** rng.uniform(-8, 7)
        eta = -0.95 + 10 ** rng.uniform(-2, 4)
        excess = realised_mean(TruncatedNegativeBinomial(mean, eta)) / mp.mpf(mean) - 1
        assert 0 <= excess < 1e-12, (mean, eta)


def test_mean_one_is_one_run():
    for run_count in (
        TruncatedNegativeBinomial(1, -0.5),
        TruncatedNegativeBinomial(1, 2),
        Logarithmic(1),
        Geometric(1.0),
        ZeroTruncatedPoisson(1),
    ):
        rng = np.random.default_rng(0)
        assert [run_count.sample(rng) for _ in range(20)] == [1] * 20
        assert run_count.mean == 1.0 and run_count.support_max == 1
        assert run_count.quantile(0.999) == run_count.quantile(1.0) == 1
        r = np.array([0.0, 1e-300, 0.3, 1.0])
        np.testing.assert_array_equal(run_count.attainment(r), r)
        np.testing.assert_array_equal(run_count.log_weight(r), np.zeros(4))
        np.testing.assert_array_equal(run_count.log_weight_slope(r), np.full(4, -np.inf))
        assert getattr(run_count, "gamma", 1.0) == 1.0


def test_logarithmic_and_geometric_are_members_of_the_family():
    r = np.linspace(0, 1, 11)
    for mean in (1.5, 20.0, 1e5):
        for named, eta in ((Logarithmic(mean), 0), (Geometric(mean), 1)):
            member = TruncatedNegativeBinomial(mean, eta)
            np.testing.assert_allclose(named.log_weight(r), member.log_weight(r), rtol=1e-13)
            np.testing.assert_allclose(named.attainment(r), member.attainment(r), rtol=1e-13)


def test_eta_zero_is_reached_smoothly_from_both_sides():
    r = np.array([1e-9, 1e-3, 0.1, 0.7])
    for mean in (1.5, 20.0, 1e5):
        middle = Logarithmic(mean).attainment(r)
        for eta in (-1e-8, -1e-15, 1e-15, 1e-8):
            near = TruncatedNegativeBinomial(mean, eta).attainment(r)
            np.testing.assert_allclose(near, middle, rtol=1e-6)
            np.testing.assert_allclose(
                TruncatedNegativeBinomial(mean, eta).sf([1, 10, 1000]),
                Logarithmic(mean).sf([1, 10, 1000]),
                rtol=1e-6,
                atol=1e-100,
            )


def test_large_eta_approaches_the_truncated_poisson():
    k = np.arange(40)
    near = TruncatedNegativeBinomial(10, 1e9).pmf(k)
    np.testing.assert_allclose(near, ZeroTruncatedPoisson(10).pmf(k), rtol=1e-6)


def test_a_number_stands_for_the_default():
    run_count = as_run_count(20)
    assert run_count == TruncatedNegativeBinomial(mean=20, eta=2)
    assert as_run_count(np.int64(20)) == as_run_count(np.float32(20)) == run_count
    assert as_run_count(run_count) is run_count
    assert as_run_count(1).support_max == 1


def test_reference_means_for_an_expected_quantile():
    # means needed for an expected quantile of 0.9, two or three digits
    assert Geometric(24.26).expected_quantile() == pytest.approx(0.9, abs=2e-4)
    assert TruncatedNegativeBinomial(16.2, 2).expected_quantile() == pytest.approx(0.9, abs=2e-4)
    assert TruncatedNegativeBinomial(45, 0.5).expected_quantile() == pytest.approx(0.9, abs=2e-4)
    assert Logarithmic(2194).expected_quantile() == pytest.approx(0.9, abs=2e-4)


def test_success_probability_counts_no_run_as_failure():
    from skdptune.run_counts import Poisson

    assert Poisson(2).success_probability(1.0) == pytest.approx(1 - math.exp(-2), rel=1e-15)
