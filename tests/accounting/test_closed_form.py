"""Theorems 2 and 6 of arXiv 2110.03620v2 against dp_accounting, and their special cases."""

import math

import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant as theirs

from skdptune._exceptions import PricingError
from skdptune.accounting._closed_form import (
    closed_form,
    has_log_convex_weight,
    poisson_rdp,
    truncated_negative_binomial_rdp,
    truncated_negative_binomial_zcdp,
)
from skdptune.accounting.curve import PrivacyCurve
from skdptune.accounting.selection import best_of
from skdptune.run_counts import (
    AtMost,
    Binomial,
    Fixed,
    Geometric,
    Logarithmic,
    Poisson,
    TruncatedNegativeBinomial,
    ZeroTruncatedPoisson,
)

ORDERS = np.array(theirs.DEFAULT_RDP_ORDERS)
FEW = np.array([1.5, 2.0, 3.5, 8.0, 32.0, 200.0])
CURVES = {
    "dp_sgd": PrivacyCurve.dp_sgd(1.0, 256 / 60000, 7031),
    "gaussian": PrivacyCurve.gaussian(3.0),
    "laplace": PrivacyCurve.laplace(0.7),
}
FAMILIES = {
    0.0: Logarithmic,
    0.5: lambda mean: TruncatedNegativeBinomial(mean, 0.5),
    1.0: Geometric,
    math.inf: Poisson,
}


@pytest.mark.parametrize("orders", [ORDERS, FEW], ids=["default", "few"])
@pytest.mark.parametrize("mean", [1.5, 10.0, 1000.0])
@pytest.mark.parametrize("shape", FAMILIES)
@pytest.mark.parametrize("name", CURVES)
def test_agrees_with_dp_accounting(name, shape, mean, orders):
    curve = CURVES[name]
    ours = best_of(curve, FAMILIES[shape](mean), method="closed_form").rdp(orders)
    expected = theirs._compute_rdp_repeat_and_select(orders, curve.rdp(orders), mean, shape)
    np.testing.assert_allclose(ours, expected, rtol=1e-9)


@pytest.mark.parametrize("shape", [0.0, 0.5, 1.0])
def test_theorem_two_with_their_gamma(shape):
    gamma = theirs._gamma_truncated_negative_binomial(shape, 10.0)
    ours = truncated_negative_binomial_rdp(ORDERS, ORDERS / 18, mean=10.0, gamma=gamma, eta=shape)
    expected = theirs._compute_rdp_repeat_and_select(ORDERS, ORDERS / 18, 10.0, shape)
    np.testing.assert_allclose(ours, expected, rtol=1e-14)


@pytest.mark.parametrize("eta", [-0.5, 0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("mean", [1.5, 10.0, 1e4])
def test_pure_dp_costs_two_plus_eta(eta, mean):
    search = best_of(PrivacyCurve.pure(0.8), TruncatedNegativeBinomial(mean, eta), "closed_form")
    assert search.epsilon(0.0) == pytest.approx((2.0 + eta) * 0.8, rel=1e-12)
    assert search.delta((2.0 + eta) * 0.8 * (1 + 1e-12)) == 0.0


def test_pure_dp_with_poisson():
    search = best_of(PrivacyCurve.pure(1.0), Poisson(10.0), method="closed_form")
    assert search.epsilon(0.0) == pytest.approx(1.0 + 10.0 * math.tanh(0.5), rel=1e-12)


@pytest.mark.parametrize("eta", [-0.5, 0.0, 1.0, 3.0])
@pytest.mark.parametrize("rho", [0.001, 0.05, 0.4, 30.0])
def test_zcdp_branches_are_theorem_two_at_the_best_order(eta, rho):
    count = TruncatedNegativeBinomial(12.0, eta)
    orders = np.concatenate([1.0 + np.geomspace(1e-4, 1e4, 30_001)])
    fine = truncated_negative_binomial_rdp(
        orders, rho * orders, mean=count.mean, gamma=count.gamma, eta=eta
    )
    exact = truncated_negative_binomial_zcdp(
        orders, rho, mean=count.mean, gamma=count.gamma, eta=eta
    )
    assert np.all(exact <= fine * (1 + 1e-12))
    inside = orders < 5e3  # larger orders have no room above them in ``fine``
    np.testing.assert_allclose(exact[inside], fine[inside], rtol=2e-3)


def test_zcdp_written_out():
    count, rho = Geometric(10.0), 0.05
    search = best_of(PrivacyCurve.zcdp(rho), count, method="closed_form")
    turn = 1.0 + math.sqrt(math.log(count.mean) / rho)
    constant = 4.0 * math.sqrt(rho * math.log(1.0 / count.gamma)) - rho
    low = 2.0 * math.sqrt(rho * math.log(count.mean)) + constant
    high = rho * 19.0 + math.log(count.mean) / 19.0 + constant
    assert 2.0 < turn < 20.0
    np.testing.assert_allclose(search.rdp([2.0, 20.0]), [low, high], rtol=1e-12)


def test_approximate_dp_sets_more_aside():
    count, delta = Logarithmic(10.0), 1e-8
    search = best_of(PrivacyCurve.approximate(1.0, delta), count, method="closed_form")
    aside = 1.0 - count.pgf(1.0 - delta)
    assert search.delta_zero == pytest.approx(aside, rel=1e-6)
    assert search.delta_zero == pytest.approx(count.mean * delta, rel=1e-3)
    assert search.epsilon(0.9 * aside) == math.inf
    assert search.epsilon(1.1 * aside) <= 2.0
    assert search.delta(2.0) == pytest.approx(aside, rel=1e-6)


def test_cap_is_priced_from_the_mass_beyond_it():
    base, single = Logarithmic(10.0), PrivacyCurve.gaussian(3.0)
    free = best_of(single, base, method="closed_form")
    tail = base.sf(400)
    capped = best_of(single, AtMost(base, 400), method="closed_form")
    for epsilon in (1.0, 2.0, 3.0):
        expected = (free.delta(epsilon) + math.exp(epsilon) * tail) / (1.0 - tail)
        assert capped.delta(epsilon) == pytest.approx(min(expected, 1.0), rel=1e-9)
    epsilon = capped.epsilon(1e-3)
    assert free.epsilon(1e-3) < epsilon < math.inf
    assert capped.delta(epsilon) <= 1e-3
    assert capped.epsilon(tail * 0.5) == math.inf  # no epsilon can pay for what was cut
    assert np.all(np.isinf(capped.rdp(FEW)))


@pytest.mark.parametrize(
    "count", [Fixed(3), Binomial(10, 0.5), ZeroTruncatedPoisson(4.0)], ids=repr
)
def test_other_counts_are_refused(count):
    with pytest.raises(PricingError, match="closed form is known for"):
        closed_form(count)
    with pytest.raises(PricingError, match='method="closed_form" cannot price this search'):
        best_of(PrivacyCurve.gaussian(3.0), count, method="closed_form")


def test_poisson_below_one_is_refused():
    with pytest.raises(PricingError, match="a mean of at least 1; got 0.5"):
        closed_form(Poisson(0.5))
    with pytest.raises(PricingError, match="a mean of at least 1; got 0.5"):
        poisson_rdp(FEW, FEW, mean=0.5)
    assert math.isfinite(best_of(PrivacyCurve.gaussian(3.0), Poisson(0.5), "rdp").epsilon(1e-5))


def test_epsilon_hat_too_large_is_refused():
    limit = math.log1p(1.0 / 7.0)
    value = poisson_rdp([2.0, 8.0], [0.1, 0.4], mean=5.0, epsilon_hat=limit, delta_hat=0.01)
    assert value[1] == pytest.approx(0.4 + 0.05 + math.log(5.0) / 7.0)
    with pytest.raises(PricingError, match=r"exp\(epsilon_hat\) <= 1 \+ 1/\(order - 1\)"):
        poisson_rdp([2.0, 8.0], [0.1, 0.4], mean=5.0, epsilon_hat=1.1 * limit, delta_hat=0.01)


def test_infinite_and_low_orders():
    orders = np.array([1.0, 2.0, 4.0])
    value = truncated_negative_binomial_rdp(
        orders, [0.1, np.inf, 0.4], mean=5.0, gamma=0.2, eta=1.0
    )
    assert value[0] == value[1] == value[2] < math.inf  # what holds at 4 holds below
    nothing = truncated_negative_binomial_rdp(orders, [np.inf] * 3, mean=5.0, gamma=0.2, eta=1.0)
    assert np.all(np.isinf(nothing))
    assert np.isinf(poisson_rdp(orders, [0.1, 0.2, np.inf], mean=5.0)[[0, 2]]).all()


def test_log_convexity_is_claimed_only_where_it_holds():
    r = np.linspace(0.0, 1.0, 101)
    for count in (Poisson(3.0), ZeroTruncatedPoisson(3.0), Geometric(9.0), Logarithmic(9.0)):
        assert has_log_convex_weight(count)
        assert np.all(np.diff(count.log_weight(r), 2) >= -1e-12)
    for count in (Fixed(3), Binomial(10, 0.5), AtMost(Geometric(9.0), 5)):
        assert not has_log_convex_weight(count)
