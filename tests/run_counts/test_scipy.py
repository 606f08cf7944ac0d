"""Distributions taken from scipy, their infinite sums, and scipy as a second opinion."""

import math

import mpmath as mp
import numpy as np
import pytest
import scipy.stats

from skdptune._exceptions import InvalidParameterError
from skdptune.accounting import PrivacyCurve, best_of
from skdptune.run_counts import (
    AtMost,
    BetaBinomial,
    Binomial,
    Finite,
    FromScipy,
    Geometric,
    Logarithmic,
    Poisson,
    TruncatedNegativeBinomial,
)
from skdptune.run_counts._tables import WideSum

SMALL_R = [1e-100, 1e-40, 1e-18, 1e-12, 1e-7, 1e-5, 1e-3, 0.1, 0.5, 0.9]


def test_zipf_with_infinite_mean():
    run_count = FromScipy(scipy.stats.zipf(2))
    assert run_count.mean == math.inf
    assert run_count.log_weight(0.0) == math.inf
    assert run_count.log_weight_slope(0.0) == math.inf
    for r in SMALL_R:
        with mp.workdps(150):
            exact, zeta = mp.mpf(r), mp.zeta(2)
            weight = float(mp.log(-mp.log(exact) / zeta / (1 - exact)))
            hit = float(1 - mp.polylog(2, 1 - exact) / zeta)
        assert run_count.log_weight(r) == pytest.approx(weight, abs=2e-11)
        assert run_count.attainment(r) == pytest.approx(hit, rel=2e-11)


def test_rounding_of_infinite_sums_is_to_the_private_side():
    # more runs: a little too much weight at small r
    run_count = FromScipy(scipy.stats.zipf(2))
    for r in (1e-40, 1e-12, 1e-7):
        exact = math.log(-math.log(r) * 6 / math.pi**2 / (1 - r))
        assert run_count.log_weight(r) >= exact - 1e-15


def test_the_weight_at_tiny_r_is_an_upper_bound():
    run_count = FromScipy(scipy.stats.zipf(2.5))
    weight = run_count.log_weight(np.array([0.0, 1e-300, 1e-150, 1e-100]))
    assert weight[0] == weight[1] == math.log(run_count.mean)
    assert np.all(np.diff(weight) <= 1e-10)


def test_wide_sums_where_everything_has_vanished():
    counts = np.array([1e3, 1e6, 1e9, 1e12])
    mass = np.array([-690.0, -500.0, -2.0, -0.2])
    wide = WideSum(mass, counts)
    log_x = -np.array([1e-13, 1e-9, 2.5e-7, 1e-3, 0.9, 300.0])
    for floor in (-np.inf, -800.0):
        with mp.workdps(40):
            terms = [
                mp.exp(floor) + mp.fsum(mp.exp(m + mp.mpf(k) * mp.mpf(x)) for m, k in zip(mass, counts, strict=True))
                for x in log_x
            ]
            wanted = [float(mp.log(term)) for term in terms]
        together = wide.log_power(log_x, np.full(6, floor))
        np.testing.assert_allclose(together, wanted, rtol=1e-13)
        # alone, each point has a window of terms of its own
        alone = [wide.log_power(log_x[i : i + 1], np.full(1, floor))[0] for i in range(6)]
        np.testing.assert_allclose(alone, wanted, rtol=1e-13)


def test_zipf_survival_and_quantiles_far_out():
    run_count = FromScipy(scipy.stats.zipf(2))
    for k in (10, 65_535, 65_536, 70_000, 10**6, 10**9, 10**15):
        wanted = float(mp.zeta(2, k + 1) / mp.zeta(2))
        assert run_count.sf(k) == pytest.approx(wanted, rel=1e-10), k
    k = run_count.quantile(1 - 1e-9)
    assert run_count.sf(k) <= 1e-9 * (1 + 1e-7) < run_count.sf(k - 2) * (1 + 1e-6)


@pytest.mark.parametrize(
    ("ours", "frozen"),
    [
        (Poisson(10), scipy.stats.poisson(10)),
        (Poisson(3e5), scipy.stats.poisson(3e5)),
        (Logarithmic(1e4), None),
        (Geometric(1e5), scipy.stats.geom(1e-5)),
        (Binomial(50, 0.3), scipy.stats.binom(50, 0.3)),
        (BetaBinomial(50, 2, 3), scipy.stats.betabinom(50, 2, 3)),
    ],
    ids=["poisson-10", "poisson-3e5", "logarithmic", "geometric", "binomial", "beta-binomial"],
)
def test_agrees_with_the_closed_forms(ours, frozen):
    if frozen is None:
        frozen = scipy.stats.logser(ours.odds / (1.0 + ours.odds))
    theirs = FromScipy(frozen)
    r = np.array([0.0, 1e-300, 1e-12, 1e-7, 1e-4, 0.01, 0.3, 0.9])
    assert theirs.mean == pytest.approx(ours.mean, rel=1e-9)
    np.testing.assert_allclose(theirs.attainment(r), ours.attainment(r), rtol=3e-9)
    np.testing.assert_allclose(theirs.log_weight(r), ours.log_weight(r), rtol=3e-9, atol=3e-9)
    np.testing.assert_allclose(
        theirs.log_weight_slope(r), ours.log_weight_slope(r), rtol=3e-9, atol=3e-9
    )
    assert theirs.expected_quantile() == pytest.approx(ours.expected_quantile(), rel=1e-9)
    k = np.array([0, 1, 5, 17, 50, 400, 10**5, 10**6])
    np.testing.assert_allclose(theirs.sf(k), ours.sf(k), rtol=1e-8, atol=1e-300)
    np.testing.assert_allclose(ours.pmf(k), frozen.pmf(k), rtol=1e-8, atol=1e-300)
    np.testing.assert_allclose(theirs.pmf(k), frozen.pmf(k), rtol=1e-8, atol=1e-300)
    for p in (0.01, 0.5, 0.99, 1 - 1e-9):
        assert ours.quantile(p) == theirs.quantile(p) == int(frozen.ppf(p))


def test_truncated_negative_binomial_against_scipy():
    run_count = TruncatedNegativeBinomial(1e6, 2)
    plain = scipy.stats.nbinom(2, 1 / (1 + run_count.odds))
    k = np.array([1, 10, 10**5, 10**6, 10**7])
    np.testing.assert_allclose(run_count.pmf(k), plain.pmf(k) / plain.sf(0), rtol=1e-9)
    np.testing.assert_allclose(run_count.sf(k), plain.sf(k) / plain.sf(0), rtol=1e-9)


@pytest.mark.parametrize("eta", [-0.9, -0.3, 0.0, 0.1])
def test_survival_by_integral(eta):
    run_count = TruncatedNegativeBinomial(50, eta)
    c = mp.mpf(run_count.odds)
    z, shape = c / (1 + c), mp.mpf(eta)
    for k in (1, 10, 1000, int(3 * run_count.odds)):
        # P(K > k) = P(K = k + 1) 2F1(1, k + 1 + eta; k + 2; z)
        first = mp.mpf(run_count.pmf(k + 1))
        wanted = float(first * mp.hyp2f1(1, k + 1 + shape, k + 2, z))
        assert run_count.sf(k) == pytest.approx(wanted, rel=1e-11), k


def test_a_cap_makes_an_infinite_mean_finite():
    capped = AtMost(FromScipy(scipy.stats.zipf(2)), 1000)
    k = np.arange(1, 1001)
    assert capped.mean == pytest.approx(np.sum(1 / k) / np.sum(1 / k**2.0), rel=1e-12)


def test_equal_however_the_parameters_are_given():
    one, two = FromScipy(scipy.stats.zipf(2)), FromScipy(scipy.stats.zipf(a=2.0, loc=0))
    assert one == two and hash(one) == hash(two)
    assert one != FromScipy(scipy.stats.zipf(2.5)) != FromScipy(scipy.stats.zipf(2.5, loc=1))


def certain(count):
    class Certain(scipy.stats.rv_discrete):
        def _pmf(self, k):
            return np.where(np.asarray(k) == count, 1.0, 0.0)

    Certain.__module__, Certain.__qualname__ = "__main__", "Certain"
    return FromScipy(Certain(name="certain", a=1, b=60)())


class Uniform(scipy.stats.rv_discrete):
    """Keeps its support in the instance, not in the parameters."""

    def _pmf(self, k):
        return np.full(np.shape(k), 1.0 / (self.b - self.a + 1))


def uniform(top):
    return FromScipy(Uniform(a=1, b=top, name="uniform")())


@pytest.mark.parametrize("made", [certain, uniform])
def test_a_class_of_ones_own_is_known_by_its_probabilities(made):
    few, many = made(2), made(50)
    assert few != many and few == made(2) and hash(few) == hash(made(2))
    one = PrivacyCurve.gaussian(5.0)
    prices = [best_of(one, count).epsilon(1e-5) for count in (few, many)]
    tables = [best_of(one, Finite([count.pmf(k) for k in range(61)])).epsilon(1e-5) for count in (few, many)]
    assert prices == pytest.approx(tables, rel=0.01) and prices[1] > 1.2 * prices[0]


def test_a_named_distribution_with_another_support_cannot_be_written():
    kind = type(scipy.stats.randint)
    with pytest.raises(InvalidParameterError, match="Finite"):
        FromScipy(kind(name="randint", a=1)(1, 9)).to_dict()


def test_a_lumpy_tail_is_refused():
    class Lumpy(scipy.stats.rv_discrete):
        """Powers of two only: no rule can guess them."""

        def _pmf(self, k):
            exponent = np.log2(np.maximum(k, 1))
            return np.where((exponent % 1 == 0) & (k > 1), 0.9**exponent / 9.0, 0.0)

    with pytest.raises(InvalidParameterError, match="summed to 1"):
        FromScipy(Lumpy(a=2, name="lumpy")())


def test_a_distribution_scipy_does_not_name_cannot_be_written():
    class Own(scipy.stats.rv_discrete):
        def _pmf(self, k):
            return 0.5 ** np.maximum(k, 1.0) + 0.0 * k

    run_count = FromScipy(Own(a=1, name="own")())
    assert run_count.mean == pytest.approx(2.0)
    with pytest.raises(InvalidParameterError, match="Finite"):
        run_count.to_dict()
