"""Points of curves, and what a straight line between them may show."""

import math

import numpy as np
import pytest
from scipy import stats

from skdptune.accounting import PrivacyCurve, best_of
from skdptune.accounting._trade_off import trade_off
from skdptune.displays._points import fill_profile, fill_rdp, profile_points, rdp_points
from skdptune.displays._trade_off import _hull, trade_off_points
from skdptune.run_counts import Fixed, Geometric, Logarithmic, Poisson


def gaussian_profile(sigma, epsilon):
    """Closed form: Balle and Wang, arXiv 1805.06530v2, Theorem 8."""
    a = 1 / (2 * sigma) - epsilon * sigma
    b = -1 / (2 * sigma) - epsilon * sigma
    return stats.norm.cdf(a) - np.exp(epsilon + stats.norm.logcdf(b))


CURVES = {
    "gaussian": PrivacyCurve.gaussian(2.0),
    "pure": PrivacyCurve.pure(1.0),
    "approximate": PrivacyCurve.approximate(1.0, 1e-5),
    "zcdp": PrivacyCurve.zcdp(0.1),
    "rdp": PrivacyCurve.from_rdp([2, 8], [0.1, 0.4]),
    "search": best_of(PrivacyCurve.gaussian(3.0), Logarithmic(10)),
    "empty search": best_of(PrivacyCurve.pure(0.5), Poisson(3)),
    "rdp search": best_of(PrivacyCurve.zcdp(0.05), Geometric(5)),
}


@pytest.mark.parametrize("name", CURVES)
def test_profile_points_hold_for_the_curve(name):
    curve = CURVES[name]
    epsilon, delta = profile_points(curve, n_points=9, per_segment=4)
    assert epsilon[0] == 0.0 and delta[0] == curve.delta(0.0)
    assert np.all(np.diff(epsilon) >= 0) and np.all(np.diff(delta) <= 0)
    asked = np.arange(4, 33, 4)  # the points that were asked for, not filled in
    for x, y in zip(epsilon[asked], delta[asked], strict=True):
        assert x <= curve.epsilon(y) * (1 + 1e-12)


def test_profile_points_are_what_the_curve_says():
    curve = CURVES["search"]
    epsilon, delta = profile_points(curve, n_points=6, per_segment=1)
    np.testing.assert_allclose(delta, np.geomspace(curve.delta(0.0), 1e-10, 6))
    np.testing.assert_allclose(epsilon[1:], [curve.epsilon(d) for d in delta[1:]], rtol=1e-12)


@pytest.mark.parametrize("sigma", [0.7, 2.0, 5.0])
def test_no_drawn_line_dips_below_the_profile_by_more_than_is_said(sigma):
    epsilon, delta = profile_points(PrivacyCurve.gaussian(sigma))
    at = np.linspace(0.0, epsilon[-1], 5001)
    drawn = np.exp(np.interp(at, epsilon, np.log(delta)))  # what a logarithmic axis shows
    step = delta[0] / delta[-1]
    allowed = step ** (-1 / (32 * 16))
    assert 0.95 < allowed < 1
    assert np.all(drawn >= allowed * gaussian_profile(sigma, at))
    # the points themselves lie on or above it
    assert np.all(delta >= gaussian_profile(sigma, epsilon) * (1 - 1e-9))
    # and the lines are no looser than a few per cent of delta
    assert np.all(drawn <= 1.15 * gaussian_profile(sigma, at))


def test_few_points_without_filling_would_dip():
    """The filled points matter: straight lines between what was asked alone lie visibly too low."""
    curve = PrivacyCurve.pure(3.0)  # a profile that bends sharply
    coarse, y = profile_points(curve, n_points=5, per_segment=1)
    fine, z = profile_points(curve, n_points=5, per_segment=16)
    at = np.linspace(0.0, 2.999, 2000)
    truth = np.array([curve.delta(float(e)) for e in at])
    dip = np.min(np.exp(np.interp(at, coarse[:-1], np.log(y[:-1]))) / truth)
    filled = np.min(np.exp(np.interp(at, fine[:-1], np.log(z[:-1]))) / truth)
    assert dip < 0.5 < 0.7 < filled


def test_filled_points_lie_on_the_line_in_e_to_the_epsilon():
    epsilon, delta = fill_profile([0.0, 1.0, 2.0], [0.5, 0.1, 1e-6], 8)
    assert epsilon.size == delta.size == 17
    for low, high in ((0, 8), (8, 16)):
        t = (np.exp(epsilon[low:high]) - np.exp(epsilon[low])) / (np.exp(epsilon[high]) - np.exp(epsilon[low]))
        np.testing.assert_allclose(delta[low:high], (1 - t) * delta[low] + t * delta[high], rtol=1e-9)


def test_filling_survives_flat_huge_and_vertical_segments():
    epsilon, delta = fill_profile([0.0, 900.0, 900.0, 2000.0], [0.5, 0.1, 0.01, 0.01], 4)
    assert np.all(np.isfinite(epsilon)) and np.all(np.diff(epsilon) >= 0)
    assert np.all(np.diff(delta) <= 0) and delta[-1] == 0.01 and epsilon[-1] == 2000.0


def test_a_pure_profile_ends_at_zero():
    epsilon, delta = profile_points(PrivacyCurve.pure(1.0))
    assert delta[-1] == 0.0 and epsilon[-1] == pytest.approx(1.0)


def test_an_approximate_profile_stays_flat():
    epsilon, delta = profile_points(PrivacyCurve.approximate(1.0, 1e-5))
    assert epsilon[-1] > 1.2 and delta[-1] == pytest.approx(1e-5, rel=1e-3)


@pytest.mark.parametrize("curve", [PrivacyCurve.pure(0.0), PrivacyCurve.from_rdp([2.0], [math.inf])])
def test_nothing_to_lose_and_nothing_known(curve):
    epsilon, delta = profile_points(curve)
    assert epsilon.shape == delta.shape and np.all(np.isfinite(epsilon))
    assert set(delta.tolist()) <= {0.0, 1.0}


def test_rdp_points_are_what_the_curve_says():
    curve = CURVES["search"]
    order, rdp = rdp_points(curve, [2, 8, 32, 4], per_segment=1)
    np.testing.assert_array_equal(order, [2, 4, 8, 32])
    np.testing.assert_array_equal(rdp, curve.rdp([2, 4, 8, 32]))


def test_filled_rdp_stays_above_the_curve():
    curve = PrivacyCurve.pure(2.0)
    order, rdp = rdp_points(curve, [1.5, 3.0, 20.0, 100.0], per_segment=6)
    assert order.size == 19
    assert np.all(rdp >= curve.rdp(order) * (1 - 1e-9))


def test_filled_rdp_with_unknown_orders():
    order, rdp = fill_rdp(np.array([2.0, 4.0, 8.0]), np.array([0.5, math.inf, math.inf]), 4)
    assert rdp[0] == 0.5 and np.all(np.isinf(rdp[1:]))


@pytest.mark.parametrize("name", ["gaussian", "pure", "approximate", "search"])
def test_trade_off_lines_never_lie_above_the_bound(name):
    curve = CURVES[name]
    alpha, beta = trade_off_points(curve)
    assert alpha[0] == 0.0 and alpha[-1] == 1.0 and np.all(np.diff(alpha) > 0) and np.all(np.diff(beta) <= 0)
    np.testing.assert_allclose(beta, trade_off(curve, alpha), atol=1e-12)
    at = np.linspace(0.0, 1.0, 2003)
    assert np.all(np.interp(at, alpha, beta) <= trade_off(curve, at) + 1e-10)


STEEP = {  # all that is known of these lies above 30 nats
    "pure 31": PrivacyCurve.pure(31.0),
    "pure 40": PrivacyCurve.pure(40.0),
    "pure 700": PrivacyCurve.pure(700.0),
    "pure 800": PrivacyCurve.pure(800.0),
    "zcdp 50": PrivacyCurve.zcdp(50.0),
    "approximate 50": PrivacyCurve.approximate(50.0, 1e-3),
    "search": best_of(PrivacyCurve.pure(20.0), Fixed(5)),
}


@pytest.mark.parametrize("name", STEEP)
def test_steep_trade_off_lines_never_lie_above_the_bound(name):
    curve = STEEP[name]
    alpha, beta = trade_off_points(curve)
    assert np.all(np.diff(alpha) > 0) and np.all(np.diff(beta) <= 0) and np.all(beta >= 0)
    powers = 10 ** np.random.default_rng(0).uniform(-306, 0, 3000)
    at = np.unique(np.concatenate([np.linspace(0, 1, 1001), powers, np.geomspace(1e-20, 1, 2000)]))
    bound = trade_off(curve, at)
    drawn = np.interp(at, alpha, beta)
    # trade_off itself leaves 2e-15 per nat for the rounding of an exponential, at each point drawn and asked for
    assert np.all(drawn <= bound + 2e-12)
    assert np.max(bound - drawn) < 1e-3  # and it is the bound, not merely below it


def test_a_large_epsilon_is_not_drawn_as_a_blind_attacker():
    alpha, beta = trade_off_points(PrivacyCurve.pure(31.0))
    assert np.interp(0.01, alpha, beta) < 1e-13  # it was 0.99


def test_trade_off_against_the_gaussian_closed_form():
    alpha, beta = trade_off_points(PrivacyCurve.gaussian(2.0))
    at = np.linspace(0.001, 0.999, 999)
    truth = stats.norm.cdf(stats.norm.ppf(1 - at) - 1 / 2.0)
    drawn = np.interp(at, alpha, beta)
    assert np.all(drawn <= truth + 1e-12)
    assert np.max(truth - drawn) < 2e-3


def test_the_curve_is_its_own_inverse():
    alpha, beta = trade_off_points(best_of(PrivacyCurve.gaussian(3.0), Fixed(3)))
    inner = (beta > 1e-9) & (alpha > 0)
    np.testing.assert_allclose(np.interp(beta[inner], alpha, beta), alpha[inner], atol=1e-9)


def test_hull_keeps_the_lines_that_matter():
    slopes, heights = _hull(np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.5, 0.55, 0.9, 0.8]))
    np.testing.assert_array_equal(slopes, [1.0, 3.0])
    np.testing.assert_array_equal(heights, [0.5, 0.9])


@pytest.mark.parametrize("name", CURVES)
def test_far_out_a_profile_is_answered_without_complaint(name):
    """Displays ask how much is left at infinity; so may anybody."""
    curve = CURVES[name]
    left = [curve.delta(epsilon) for epsilon in (800.0, 1e5, math.inf)]
    assert all(0 <= value <= 2e-4 for value in left) and left == sorted(left, reverse=True)
