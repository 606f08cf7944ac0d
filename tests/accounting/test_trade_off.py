"""The trade-off curve: below the truth, close to it, and right where it is known exactly."""

import numpy as np
import pytest
from scipy import stats

from skdptune._exceptions import InvalidParameterError, InvalidTypeError
from skdptune.accounting import PrivacyCurve, best_of, trade_off
from skdptune.accounting._mechanisms import FromPair
from skdptune.accounting._trade_off import profile_nodes
from skdptune.run_counts import Geometric, Logarithmic, Poisson

ALPHAS = np.concatenate([[0.0, 1.0], np.geomspace(1e-9, 1.0, 60), np.linspace(0.001, 0.999, 60)])


def gaussian_truth(alpha, noise):
    return stats.norm.cdf(stats.norm.isf(alpha) - 1 / noise)


def pure_truth(alpha, epsilon, delta=0.0):
    lines = [1 - delta - np.exp(epsilon) * alpha, np.exp(-epsilon) * (1 - delta - alpha)]
    return np.maximum(0.0, np.max(lines, axis=0))


@pytest.mark.parametrize("noise", [0.3, 1.0, 3.0, 30.0])
def test_gaussian_is_a_close_lower_bound(noise):
    found, truth = trade_off(PrivacyCurve.gaussian(noise), ALPHAS), gaussian_truth(ALPHAS, noise)
    assert np.all(found <= truth)
    assert np.max(truth - found) < 1e-5


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 5.0, 40.0])
def test_pure_and_approximate_are_exact(epsilon):
    found = trade_off(PrivacyCurve.pure(epsilon), ALPHAS)
    truth = pure_truth(ALPHAS, epsilon)
    assert np.all(found <= truth) and np.allclose(found, truth, rtol=1e-9, atol=1e-13 * np.exp(min(epsilon, 5)))
    found = trade_off(PrivacyCurve.approximate(epsilon, 1e-3), ALPHAS)
    truth = pure_truth(ALPHAS, epsilon, 1e-3)
    assert np.all(found <= truth) and np.allclose(found, truth, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("epsilon", [1.0, 31.0, 300.0, 700.0])
def test_large_exponents_round_down_too(epsilon):
    mpmath = pytest.importorskip("mpmath")
    alphas = np.exp(-epsilon) * np.geomspace(1e-3, 0.999, 200)
    found = trade_off(PrivacyCurve.pure(epsilon), alphas)
    with mpmath.workdps(40):
        ratio = mpmath.exp(mpmath.mpf(epsilon))
        for value, alpha in zip(found, map(mpmath.mpf, alphas.tolist()), strict=True):
            assert mpmath.mpf(float(value)) <= max(1 - ratio * alpha, (1 - alpha) / ratio)


def neyman_pearson(pair, alphas):
    """Type II errors of the best tests of P against Q, by adding atoms in order of their ratio."""
    # the test says Q: it takes atoms of the lowest P / Q first, starting with those that P cannot give
    alpha = np.concatenate([[0.0], np.cumsum(pair.p), [1.0]])
    power = np.concatenate([[pair.q_zero], pair.q_zero + np.cumsum(pair.q), [1.0]])
    return 1 - np.interp(alphas, alpha, power)


@pytest.mark.parametrize(
    "curve",
    [
        PrivacyCurve.dp_sgd(1.0, 0.02, 200),
        PrivacyCurve.mixture([PrivacyCurve.pure(0.5), PrivacyCurve.gaussian(2.0)], [0.3, 0.7]),
        PrivacyCurve.approximate(1.0, 1e-4) + PrivacyCurve.pure(0.3),
    ],
    ids=lambda curve: repr(curve)[:40],
)
def test_below_both_directions_of_the_pair(curve):
    """The profile of the pair's worse direction is what is known, so f lies below both trade-off curves."""
    found = trade_off(curve, ALPHAS)
    for pair in (curve.pair, curve.pair.swap()):
        assert np.all(found <= neyman_pearson(pair, ALPHAS) + 1e-9)
    if curve.pair.symmetric:
        assert np.allclose(found, neyman_pearson(curve.pair, ALPHAS), atol=1e-5)


def test_the_order_of_the_two_neighbours_does_not_matter():
    pair = PrivacyCurve.dp_sgd(1.0, 0.02, 200).pair
    assert not pair.symmetric
    one, other = (PrivacyCurve(FromPair(each)) for each in (pair, pair.swap()))
    assert np.allclose(trade_off(one, ALPHAS), trade_off(other, ALPHAS), atol=1e-12)


@pytest.mark.parametrize("run_count", [Geometric(5), Poisson(4), Logarithmic(10)], ids=repr)
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_below_a_real_search(run_count, epsilon):
    """Best of K answers of randomised response, yes before no: three outputs, whose laws are known."""
    found = trade_off(best_of(PrivacyCurve.pure(epsilon), run_count), ALPHAS)
    rates = np.array([1 / (1 + np.exp(-epsilon)), 1 / (1 + np.exp(epsilon))])
    with_row, without = (
        np.array([run_count.p_zero, run_count.attainment(r), 1 - run_count.p_zero - run_count.attainment(r)])
        for r in rates
    )
    for p, q in ((with_row, without), (without, with_row)):
        order = np.argsort(np.where(q > 0, p / np.maximum(q, 1e-300), np.inf))
        alpha, power = (np.concatenate([[0.0], np.cumsum(mass[order])]) for mass in (p, q))
        assert np.all(found <= 1 - np.interp(ALPHAS, alpha, power) + 1e-12)


def test_without_a_pair_it_stays_below_the_mechanism():
    """zCDP of rho holds for the Gaussian of that rho, whose trade-off is known."""
    noise = 2.0
    found = trade_off(PrivacyCurve.zcdp(1 / (2 * noise**2)), ALPHAS)
    truth = gaussian_truth(ALPHAS, noise)
    assert np.all(found <= truth) and np.max(truth - found) < 0.25 and found[ALPHAS == 1e-9][0] > 0.99


@pytest.mark.parametrize("curve", [PrivacyCurve.gaussian(2.0), PrivacyCurve.pure(1.0)])
def test_shape_of_the_curve(curve):
    alphas = np.linspace(0, 1, 301)
    for each in (curve, best_of(curve, Logarithmic(10)), best_of(curve, Logarithmic(10)) + curve):
        beta = trade_off(each, alphas)
        assert np.all(np.diff(beta) <= 1e-12) and np.all(np.diff(beta, 2) >= -1e-9)  # falling and convex
        assert np.all(beta <= 1 - alphas) and np.all(beta >= 0)
        # symmetric: f(f(a)) <= a, with equality where f is not flat
        assert np.all(trade_off(each, beta) <= alphas + 1e-9)
    single, whole = trade_off(curve, alphas), trade_off(best_of(curve, Logarithmic(10)), alphas)
    assert np.all(whole <= single + 1e-9)


def test_worst_is_below_each_part():
    parts = [PrivacyCurve.pure(1.0), PrivacyCurve.gaussian(1.5), PrivacyCurve.zcdp(0.2)]
    for chosen in (parts[:2], parts):
        worst = trade_off(PrivacyCurve.worst(chosen), ALPHAS)
        assert all(np.all(worst <= trade_off(part, ALPHAS) + 5e-4) for part in chosen)


def test_nodes_hold_and_their_lines_make_the_curve():
    curve = best_of(PrivacyCurve.gaussian(3.0), Logarithmic(10))
    epsilons, deltas = profile_nodes(curve)
    assert epsilons[0] == 0 and np.all(np.diff(epsilons) >= 0) and np.all(np.diff(deltas) <= 0)
    for i in (0, 20, 60):
        assert deltas[i] >= curve.delta(float(epsilons[i])) * 0.99  # the pair's profile is an upper bound
    assert deltas[0] <= 2 * stats.norm.cdf(0.5 / 3.0) - 1 + 0.12  # and it is no trivial one
    assert profile_nodes(PrivacyCurve.pure(0.0))[1][0] < 1e-12
    lines = [pure_truth(ALPHAS, e, d) for e, d in zip(epsilons, deltas, strict=True)]
    assert np.allclose(np.max(lines, axis=0), trade_off(curve, ALPHAS), atol=1e-13)


@pytest.mark.parametrize(
    "curve",
    [
        PrivacyCurve.from_rdp([2.0], [np.inf]),
        PrivacyCurve.approximate(1.0, 1.0),
        PrivacyCurve.pure(1e5),
        PrivacyCurve.from_rdp([2.0], [1e9]),
    ],
)
def test_nothing_known_leaves_nothing(curve):
    assert np.all(trade_off(curve, ALPHAS[1:]) == 0)


def test_scalars_arrays_and_complaints():
    curve = PrivacyCurve.gaussian(1.0)
    assert isinstance(trade_off(curve, 0.05), float)
    assert trade_off(curve, [[0.1, 0.2], [0.3, 0.4]]).shape == (2, 2)
    assert trade_off(curve, []).shape == (0,)
    assert trade_off(curve, 1) == 0.0
    for wrong in (-0.1, 1.1, np.nan, [0.5, 2.0]):
        with pytest.raises(InvalidParameterError, match="alpha must be in"):
            trade_off(curve, wrong)
    with pytest.raises(InvalidTypeError, match="alpha"):
        trade_off(curve, "many")
    with pytest.raises(InvalidTypeError, match="curve"):
        trade_off(1.0, 0.5)
