"""Dominating pairs against brute force on few atoms, closed forms and mpmath."""

import pickle

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as plds
from scipy.stats import binom

from skdptune._exceptions import InvalidParameterError
from skdptune.accounting import _noise_pairs
from skdptune.accounting._compose import compose_pairs, nothing_pair
from skdptune.accounting._pair_builders import (
    mixture_pair,
    pair_from_pmf,
    pair_from_profile,
    pair_from_two_pmfs,
    pair_from_two_profiles,
    worst_pair,
)
from skdptune.accounting._pairs import DominatingPair

EPSILONS = np.concatenate([np.linspace(-6, 6, 241), [-30.0, 30.0, 1e-9]])


def random_pair(rng, singular=False):
    """A pair of a few atoms with random masses, perhaps with mass where only one measure is."""
    n = rng.integers(1, 6)
    p, q = rng.dirichlet(np.full(n + 1, 0.7)), rng.dirichlet(np.full(n + 1, 0.7))
    p, q = np.maximum(p, 1e-9), np.maximum(q, 1e-9)
    if not singular:
        p[-1] = q[-1] = 0.0
    p, q = p / p.sum(), q / q.sum()
    losses = np.log(p[:n] / q[:n])
    order = np.argsort(losses)
    return DominatingPair(losses[order], p[:n][order], q[:n][order], p[-1], q[-1])


def profile(pair, epsilons):
    """The hockey-stick divergence, atom by atom."""
    gaps = pair.p[None, :] - np.exp(epsilons)[:, None] * pair.q[None, :]
    return np.maximum(gaps, 0).sum(axis=1) + pair.p_infinite


def dominates(upper, lower, slack=1e-12):
    for a, b in ((upper, lower), (upper.swap(), lower.swap())):
        assert np.all(a.delta(EPSILONS) >= profile(b, EPSILONS) - slack)


def randomised_response(epsilon):
    return _noise_pairs.randomised_response_pair(epsilon)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("singular", [False, True])
def test_delta_is_the_hockey_stick(seed, singular):
    pair = random_pair(np.random.default_rng(seed), singular)
    np.testing.assert_allclose(pair.delta(EPSILONS), profile(pair, EPSILONS), atol=1e-14)
    flipped = profile(pair.swap(), EPSILONS)
    np.testing.assert_allclose(pair.swap().delta(EPSILONS), flipped, atol=1e-14)
    # duality of the two orders
    near = EPSILONS[np.abs(EPSILONS) <= 6]
    dual = 1 - np.exp(near) + np.exp(near) * pair.swap().delta(-near)
    np.testing.assert_allclose(pair.delta(near), dual, atol=2e-11)
    assert pair.swap().swap().cache_key == pair.cache_key


@pytest.mark.parametrize("seed", range(20))
def test_epsilon_inverts_delta_on_the_safe_side(seed):
    pair = random_pair(np.random.default_rng(seed), singular=seed % 2 == 1)
    for delta in (0.0, 1e-12, 1e-6, 1e-3, 0.05, 0.5, 1.0):
        epsilon = pair.epsilon(delta)
        if np.isinf(epsilon):
            assert max(pair.p_infinite, pair.q_zero) > delta
            continue
        assert pair.worst_delta(epsilon) <= delta
        if epsilon > 1e-9:
            assert pair.worst_delta(epsilon * (1 - 1e-9) - 1e-12) > delta * (1 - 1e-6)


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("spacing", [0.01, 0.3, 2.0])
def test_coarsening_keeps_both_masses_and_dominates(seed, spacing):
    pair = random_pair(np.random.default_rng(seed), singular=seed % 2 == 1)
    coarse = pair.coarsen(spacing)
    assert coarse.p.sum() == pytest.approx(pair.p.sum(), abs=1e-14)
    assert coarse.q.sum() == pytest.approx(pair.q.sum(), abs=1e-14)
    assert (coarse.p_infinite, coarse.q_zero) == (pair.p_infinite, pair.q_zero)
    np.testing.assert_allclose(coarse.losses / spacing, np.rint(coarse.losses / spacing), atol=1e-9)
    np.testing.assert_allclose(np.log(coarse.p / coarse.q), coarse.losses, atol=1e-9)
    dominates(coarse, pair)
    again = coarse.coarsen(spacing)
    assert again.cache_key == coarse.cache_key


def test_coarsening_converges():
    pair = _noise_pairs.laplace_pair(1.0)
    gaps = [pair.coarsen(h).delta(0.37) - pair.delta(0.37) for h in (0.1, 0.05, 0.025)]
    assert gaps[0] > gaps[1] > gaps[2] >= 0
    assert gaps[2] < 1e-4


@pytest.mark.parametrize("seed", range(20))
def test_mixture_is_the_weighted_profile(seed):
    rng = np.random.default_rng(seed)
    pairs = [random_pair(rng, singular=k == 1) for k in range(3)]
    weights = rng.dirichlet(np.ones(3))
    mixed = mixture_pair(pairs, weights)
    expected = sum(w * profile(p, EPSILONS) for w, p in zip(weights, pairs, strict=True))
    np.testing.assert_allclose(mixed.delta(EPSILONS), expected, atol=1e-12)
    same = mixture_pair([pairs[0]] * 3, weights)
    np.testing.assert_allclose(same.delta(EPSILONS), pairs[0].delta(EPSILONS), atol=1e-12)


@pytest.mark.parametrize("seed", range(40))
def test_worst_is_the_largest_profile(seed):
    rng = np.random.default_rng(seed)
    pairs = [random_pair(rng, singular=k == 2) for k in range(3)]
    top = worst_pair(pairs)
    for side, others in ((top, pairs), (top.swap(), [p.swap() for p in pairs])):
        expected = np.max([profile(p, EPSILONS) for p in others], axis=0)
        np.testing.assert_allclose(side.delta(EPSILONS), expected, atol=1e-11)
    assert top.p.sum() + top.p_infinite == pytest.approx(1, abs=1e-9)
    assert top.q.sum() + top.q_zero == pytest.approx(1, abs=1e-9)


def test_worst_of_a_pair_and_itself_is_itself():
    pair = _noise_pairs.gaussian_pair(3.0)
    assert worst_pair([pair, pair]) is pair
    assert worst_pair([pair, _noise_pairs.gaussian_pair(2.0)]).delta(1.0) == pytest.approx(
        _noise_pairs.gaussian_pair(2.0).delta(1.0)
    )


@pytest.mark.parametrize("seed", range(20))
def test_profile_of_a_pair_gives_the_pair_back(seed):
    pair = random_pair(np.random.default_rng(seed), singular=seed % 2 == 1)
    rebuilt = pair_from_profile(pair.losses, profile(pair, pair.losses))
    np.testing.assert_allclose(rebuilt.delta(EPSILONS), profile(pair, EPSILONS), atol=1e-10)
    dominates(rebuilt, pair, slack=1e-10)
    eps = np.unique(np.append(np.abs(pair.losses), 0.0))
    rebuilt = pair_from_two_profiles(eps, profile(pair, eps), profile(pair.swap(), eps))
    np.testing.assert_allclose(rebuilt.delta(EPSILONS), profile(pair, EPSILONS), atol=1e-10)
    dominates(rebuilt, pair, slack=1e-10)


def test_profile_between_its_nodes_lies_above_the_truth():
    losses = np.linspace(-3, 3, 25)
    exact = _noise_pairs.gaussian_pair(1.0)
    joined = pair_from_profile(losses, exact.delta(losses))
    dominates(joined, exact.coarsen(1e-2), slack=2e-5)
    assert joined.delta(0.0) == pytest.approx(exact.delta(0.0), rel=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_exact_composition_of_few_atoms(seed):
    rng = np.random.default_rng(seed)
    one, two = random_pair(rng, singular=True), random_pair(rng)
    both = compose_pairs([(one, 1), (two, 2)])
    p = q = np.ones(1)
    for pair in (one, two, two):
        p = np.multiply.outer(p, np.append(pair.p, [pair.p_infinite, 0])).ravel()
        q = np.multiply.outer(q, np.append(pair.q, [0, pair.q_zero])).ravel()
    for e in (-1.0, 0.0, 0.7, 2.0):
        assert both.delta(e) == pytest.approx(np.maximum(p - np.exp(e) * q, 0).sum(), abs=1e-12)
        backwards = np.maximum(q - np.exp(e) * p, 0).sum()
        assert both.swap().delta(e) == pytest.approx(backwards, abs=1e-12)


@pytest.mark.parametrize(("runs", "epsilon"), [(60, 0.3), (7031, 0.01), (100000, 0.005)])
def test_composition_is_relatively_accurate_and_never_below(runs, epsilon):
    pair = compose_pairs([(randomised_response(epsilon), runs)])
    k = np.rint(pair.losses / epsilon).astype(int) + runs
    # the atoms next to zero gave up the excess of all others
    real = (k % 2 == 0) & (pair.p > 1e-30) & (pair.q > 1e-30) & (np.abs(k - runs) > 4)
    for mass, light in ((pair.p, -epsilon), (pair.q, epsilon)):
        truth = binom.logpmf(k[real] // 2, runs, 1 / (1 + np.exp(light)))
        gap = np.log(mass[real]) - truth
        assert gap.min() > -2e-10  # the reference itself is good to about 1e-10
        assert gap.max() < 1e-5
    # the other parity is impossible: only noise, rounded up
    assert pair.p[k % 2 == 1].sum() < 5e-14 * runs
    assert 0 <= pair.p.sum() + pair.p_infinite - 1 < 1e-8


def test_composition_of_different_pairs_matches_the_product():
    one, two = _noise_pairs.laplace_pair(0.5), randomised_response(1.0)
    both = compose_pairs([(one, 1), (two, 1)])
    assert both.epsilon(0.0) == pytest.approx(1.5, abs=1e-9)
    # conditioned on the coin's answer the rest is Laplace
    heavy = 1 / (1 + np.exp(-1.0))
    for e in (0.2, 0.9):
        expected = heavy * one.delta(e - 1) + (1 - heavy) * one.delta(e + 1)
        assert both.delta(e) == pytest.approx(expected, rel=1e-9)


def test_composition_edges():
    pair = randomised_response(1.0)
    assert compose_pairs([]).delta(0.0) == pytest.approx(0.0, abs=1e-15)
    assert compose_pairs([(pair, 0)]).epsilon(0.0) == 0.0
    assert compose_pairs([(pair, 1)]) is pair
    assert compose_pairs([(nothing_pair(), 5), (pair, 1)]).epsilon(0.0) == pytest.approx(1.0)
    lost = DominatingPair([], [], [], 1.0, 1.0)
    assert compose_pairs([(lost, 3), (pair, 2)]).delta(50.0) == 1.0
    with pytest.raises(InvalidParameterError):
        compose_pairs([(pair, -1)])
    singular = compose_pairs([(_noise_pairs.randomised_response_pair(1.0, 1e-3), 10)])
    assert singular.p_infinite == pytest.approx(1 - 0.999**10, rel=1e-9)


def test_long_composition_gains_no_mass_in_either_direction():
    step = _noise_pairs.subsampled_gaussian_pair(1.0, 256 / 60000, False)
    pair = step.self_compose(7031)
    for side in (pair, pair.swap()):
        # dp_accounting's add direction gains 1.1e-4 here
        assert abs(side.p.sum() + side.p_infinite - 1) < 1e-9
    assert pair.epsilon(1e-5) == pytest.approx(1.9418424, abs=2e-6)
    # independent of how it is grouped
    halves = compose_pairs([(step.self_compose(3000), 1), (step.self_compose(4031), 1)])
    assert halves.epsilon(1e-5) == pytest.approx(pair.epsilon(1e-5), abs=1e-5)


def gaussian_delta(noise, epsilon):
    """Balle and Wang 2018, arXiv 1805.06530v2, Theorem 8, with mpmath."""
    with mpmath.workdps(60):
        s, e = mpmath.mpf(noise), mpmath.mpf(epsilon)
        above = mpmath.ncdf(1 / (2 * s) - e * s)
        return float(above - mpmath.exp(e) * mpmath.ncdf(-1 / (2 * s) - e * s))


@pytest.mark.parametrize("noise", [0.05, 0.3, 1.0, 3.0, 30.0, 1e4])
def test_gaussian_profile(noise):
    pair = _noise_pairs.gaussian_pair(noise)
    for deviations in (-3.0, 0.5, 3.0, 7.0, 10.0):
        epsilon = 1 / (2 * noise**2) + deviations / noise
        truth = gaussian_delta(noise, epsilon)
        assert truth * (1 - 1e-14) <= pair.delta(epsilon) <= truth * (1 + 2e-4) + 1e-40


def test_subsampled_gaussian_dominates_every_smaller_shift():
    """The replace pair against pairs with other shifts, by their half-line tests."""
    noise, rate = 0.8, 0.2
    pair = _noise_pairs.subsampled_gaussian_pair(noise, rate, True)
    x = np.linspace(-12, 12, 20001)

    def density(shift):
        return (1 - rate) * np.exp(-(x**2) / (2 * noise**2)) + rate * np.exp(
            -((x - shift) ** 2) / (2 * noise**2)
        )

    scale = (x[1] - x[0]) / (noise * np.sqrt(2 * np.pi))
    for u, v in ((1, 0), (0, 1), (1, -0.5), (0.3, -1), (1, 1), (-1, 1), (1, -1)):
        for e in (-1.0, 0.0, 0.3, 1.0, 2.5):
            got = scale * np.maximum(density(u) - np.exp(e) * density(v), 0).sum()
            assert pair.delta(e) >= got - 1e-9
    full = scale * np.maximum(density(1) - np.exp(0.3) * density(-1), 0).sum()
    assert pair.delta(0.3) == pytest.approx(full, rel=1e-6)


def test_replace_pair_in_the_plane():
    """Two contributions at an angle are dominated too (quadrature on a plane)."""
    noise, rate = 1.0, 0.3
    pair = _noise_pairs.subsampled_gaussian_pair(noise, rate, True)
    axis = np.linspace(-8, 8, 801)
    x, y = np.meshgrid(axis, axis)

    def density(a, b):
        centre = np.exp(-(x**2 + y**2) / 2)
        return (1 - rate) * centre + rate * np.exp(-((x - a) ** 2 + (y - b) ** 2) / 2)

    cell = (axis[1] - axis[0]) ** 2 / (2 * np.pi)
    for angle in (0.5, 1.5, 2.5):
        moved = density(np.cos(angle), np.sin(angle))
        for e in (0.0, 0.4, 1.0):
            got = cell * np.maximum(density(1, 0) - np.exp(e) * moved, 0).sum()
            assert pair.delta(e) >= got - 1e-8


def test_laplace_profile():
    pair = _noise_pairs.laplace_pair(1.0)
    for e in (0.0, 0.31, 0.9):
        assert pair.delta(e) == pytest.approx(1 - np.exp((e - 1) / 2), rel=1e-7)
        assert pair.delta(e) >= 1 - np.exp((e - 1) / 2)
    assert pair.epsilon(0.0) == 1.0


def test_discrete_noise_pairs_by_enumeration():
    scale, parameter, steps = 1.7, 0.4, 3
    x = np.arange(-60, 61)
    weight = np.exp(-(x**2) / (2 * scale**2))
    weight /= weight.sum()
    moved = np.roll(weight, 1)
    for e in (0.0, 0.4, 1.0):
        got = _noise_pairs.discrete_gaussian_pair(scale).delta(e)
        assert got == pytest.approx(np.maximum(weight - np.exp(e) * moved, 0).sum(), rel=1e-9)
    x = np.arange(-200, 201)
    weight = np.exp(-parameter * np.abs(x))
    weight /= weight.sum()
    moved = np.roll(weight, steps)
    for e in (0.0, 0.4, 1.0, 1.2):
        got = _noise_pairs.discrete_laplace_pair(parameter, steps).delta(e)
        expected = np.maximum(weight - np.exp(e) * moved, 0).sum()
        assert got == pytest.approx(expected, rel=1e-9, abs=4e-14)


def test_pmf_of_dp_accounting():
    pld = plds.from_gaussian_mechanism(1.0, value_discretization_interval=1e-2)
    pair = pair_from_pmf(pld._pmf_remove)
    for e in (0.0, 0.5, 3.0):
        assert pair.delta(e) == pytest.approx(pld.get_delta_for_epsilon(e), rel=1e-9)
    step = plds.from_gaussian_mechanism(1.0, sampling_prob=256 / 60000)
    composed = step.self_compose(7031)
    gained = composed._pmf_add.to_dense_pmf()._probs.sum() - 1
    assert gained > 1e-5  # the fault this guards against
    both = pair_from_two_pmfs(composed._pmf_remove, composed._pmf_add)
    for e in (0.0, 0.5, 1.9):
        assert both.delta(e) >= composed._pmf_remove.get_delta_for_epsilon(e) * (1 - 1e-12)
        assert both.swap().delta(e) >= composed._pmf_add.get_delta_for_epsilon(e) * (1 - 1e-12)
    assert both.epsilon(1e-5) == pytest.approx(composed.get_epsilon_for_delta(1e-5), rel=1e-6)
    trimmed = pair_from_pmf(composed._pmf_add)
    assert trimmed.p.sum() + trimmed.p_infinite == pytest.approx(1, abs=1e-9)
    assert trimmed.delta(1.0) >= composed._pmf_add.get_delta_for_epsilon(1.0) * (1 - 1e-9)


def test_rdp_of_pairs():
    pair = randomised_response(1.0)
    p = 1 / (1 + np.exp(-1.0))
    for a in (1.5, 2.0, 30.0):
        exact = np.log(p**a * (1 - p) ** (1 - a) + (1 - p) ** a * p ** (1 - a)) / (a - 1)
        assert pair.rdp([a])[0] == pytest.approx(exact, rel=1e-9)
    assert pair.conditional_rdp(np.array([np.inf]))[0] == pytest.approx(1.0)
    singular = _noise_pairs.randomised_response_pair(1.0, 1e-3)
    assert np.all(np.isinf(singular.rdp([2.0, 8.0])))
    assert singular.aside == 1e-3
    np.testing.assert_allclose(singular.conditional_rdp([2.0]), pair.rdp([2.0]), rtol=1e-9)


def test_trim_dominates():
    pair = _noise_pairs.gaussian_pair(1.0).coarsen(0.01)
    cut = pair.trim(1e-4)
    assert cut.size < pair.size
    assert cut.p_infinite <= 2.1e-4
    dominates(cut, pair)


def test_bad_pairs_are_refused():
    for arguments in (
        ([0.0, 0.0], [0.5, 0.5], [0.5, 0.5]),
        ([0.0, np.inf], [0.5, 0.5], [0.5, 0.5]),
        ([0.0, 1.0], [-0.5, 1.5], [0.5, 0.5]),
        ([0.0, 1.0], [0.5, 0.4], [0.5, 0.5]),
        ([0.0, 1.0], [0.5, np.nan], [0.5, 0.5]),
        ([0.0], [0.5, 0.5], [1.0]),
    ):
        with pytest.raises(InvalidParameterError):
            DominatingPair(*arguments)
    with pytest.raises(InvalidParameterError):
        randomised_response(1.0).coarsen(0.0)


def test_missing_mass_goes_to_the_private_side():
    pair = DominatingPair([0.0], [1 - 1e-10], [1 - 2e-10])
    assert pair.p_infinite == pytest.approx(1e-10, rel=1e-5)
    assert pair.q_zero == pytest.approx(2e-10, rel=1e-5)
    rounded = DominatingPair([0.0], [1 - 1e-14], [1.0])
    assert rounded.p_infinite == 0 and rounded.p[0] >= 1 - 1e-15


def test_pickle_and_key():
    pair = _noise_pairs.laplace_pair(0.5)
    copy = pickle.loads(pickle.dumps(pair))
    assert copy.cache_key == pair.cache_key
    assert copy.delta(0.1) == pair.delta(0.1)
    assert pair.cache_key != _noise_pairs.laplace_pair(0.6).cache_key
    with pytest.raises(ValueError):
        pair.p[0] = 1.0
