"""Powers of laws by Fourier transform: the proven error against exact and extended precision sums."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import fft
from scipy.stats import binom

from skdptune.accounting import _noise_pairs
from skdptune.accounting._compose import compose_pairs
from skdptune.accounting._pair_builders import without_excess
from skdptune.accounting._pairs import DominatingPair
from skdptune.accounting._transforms import UNIT, convolved_powers, good_length, transform_error

LENGTHS = [1, 2, 3, 5, 8, 60, 243, 625, 960, 1024, 1500]


def exact_power(masses, count, length):
    """The law of a sum modulo ``length``, in exact arithmetic."""
    law = [Fraction(1)] + [Fraction(0)] * (length - 1)
    steps = [(place, Fraction(float(mass))) for place, mass in enumerate(masses) if mass]
    for _ in range(count):
        after = [Fraction(0)] * length
        for start, mass in enumerate(law):
            if mass:
                for place, share in steps:
                    after[(start + place) % length] += mass * share
        law = after
    return law


@pytest.mark.parametrize("length", LENGTHS)
def test_transforms_err_less_than_their_bound(length):
    assert good_length(length) == length
    rng = np.random.default_rng(length)
    k, j = np.meshgrid(np.arange(length // 2 + 1), np.arange(length), indexing="ij")
    # long double is wide enough to show an error of a double transform
    angle = 2 * np.arccos(np.longdouble(-1)) * ((k * j) % length) / np.longdouble(length)
    cosine, sine = np.cos(angle), np.sin(angle)
    inputs = [rng.random(length), np.eye(length)[length // 3], rng.standard_normal(length), np.ones(length)]
    inputs.append(10.0 ** rng.uniform(-12, 0, length))
    for a in inputs:
        found, bound = fft.rfft(a), transform_error(length) * np.abs(a).sum()
        exact_real, exact_imag = cosine @ a.astype(np.longdouble), -(sine @ a.astype(np.longdouble))
        assert np.max(np.hypot(found.real - exact_real, found.imag - exact_imag)) <= bound + 1e-300
        # and back: the exact inverse of the computed spectrum is a, up to the forward error
        back = fft.irfft(found, length)
        full = 2 * np.abs(found).sum() / length
        assert np.max(np.abs(back - a)) <= transform_error(length) * (full + np.abs(a).sum())


def test_roots_of_unity_are_as_good_as_assumed():
    # a unit impulse goes through every pass alone: products of at most log2(N) roots and additions of zero
    for length in (2**18, 3**10, 5**7, 2**9 * 3**5, 786_432):
        for place in (1, 7, length // 2 + 1, length - 1):
            impulse = np.zeros(length)
            impulse[place] = 1.0
            found = fft.rfft(impulse)
            k = np.random.default_rng(place).integers(0, found.size, 200)
            with mpmath.workdps(30):
                exact = [mpmath.expjpi(mpmath.mpf(-2 * int((int(i) * place) % length)) / length) for i in k]
                worst = max(abs(mpmath.mpc(complex(found[i])) - e) for i, e in zip(k, exact, strict=True))
            assert float(worst) <= transform_error(length)
            assert float(worst) <= 12 * UNIT * math.log2(length) / 1.58  # passes are at least of radix 3 there


@pytest.mark.parametrize("length, count", [(12, 2), (20, 5), (30, 9), (64, 7), (25, 12)])
def test_powers_against_exact_fractions(length, count):
    rng = np.random.default_rng(count)
    for masses in (rng.random(length), 10.0 ** rng.uniform(-9, 0, length), np.eye(length)[1] + 1e-12):
        masses = masses / masses.sum()
        law, error = convolved_powers([(np.arange(length), masses, 0.0, count)], length)
        exact = exact_power(masses, count, length)
        worst = max(abs(Fraction(float(a)) - b) for a, b in zip(law, exact, strict=True))
        assert float(worst) <= error < 1e-12 * count


def test_powers_of_two_laws_against_a_direct_sum_in_extended_precision():
    length, rng = 2000, np.random.default_rng(0)
    one, two = rng.random(300), rng.random(500)
    one, two = one / one.sum(), two / two.sum()
    law, error = convolved_powers([(np.arange(300), one, 0.0, 3), (np.arange(500), two, 0.0, 1)], length)
    exact = np.zeros(length, np.longdouble)
    exact[0] = 1
    for step in (one, one, one, two):
        direct = np.zeros(length, np.longdouble)
        for place, mass in enumerate(step):
            direct += mass * np.roll(exact, place)
        exact = direct
    assert np.max(np.abs(law - exact)) <= error < 1e-12


@pytest.mark.parametrize("count", [7031, 10**6, 10**9])
def test_long_powers_against_the_binomial_law(count):
    # two atoms, most of the mass on one: the law of the sum is binomial, and mpmath has its masses
    share = min(0.3, 200 / count)
    masses = np.array([1 - share, share])
    length = good_length(4096)
    law, error = convolved_powers([(np.arange(2), masses, 0.0, count)], length)
    mean, spread = count * share, math.sqrt(count * share)
    with mpmath.workdps(40):
        lost = 1 - mpmath.mpf(masses[0]) - mpmath.mpf(masses[1])
        for k in {int(mean + z * spread) for z in (-5, -1, 0, 1, 2, 6)}:
            p, q = mpmath.mpf(masses[1]), mpmath.mpf(masses[0])
            exact = mpmath.binomial(count, k) * p**k * q ** (count - k)
            assert abs(mpmath.mpf(float(law[k % length])) - exact) <= error
        assert abs(lost) < 1e-16
    assert error < 1e-14 * count


def test_error_of_the_masses_is_carried_along():
    masses = np.array([0.5, 0.5])
    _, none = convolved_powers([(np.arange(2), masses, 0.0, 10)], 16)
    _, some = convolved_powers([(np.arange(2), masses, 1e-9, 10)], 16)
    moved, _ = convolved_powers([(np.arange(2), masses + [5e-10, -5e-10], 0.0, 10)], 16)
    law, _ = convolved_powers([(np.arange(2), masses, 0.0, 10)], 16)
    assert none < 1e-13 < np.max(np.abs(law - moved)) <= some < 2e-8


def test_composition_bounds_every_cell_from_above():
    # against the binomial law in exact powers: with an estimated error this held by calibration only
    runs, epsilon = 20_000, 0.02
    pair = compose_pairs([(_noise_pairs.randomised_response_pair(epsilon), runs)])
    base = _noise_pairs.randomised_response_pair(epsilon)
    k = np.rint(pair.losses / epsilon).astype(int) + runs
    keep = np.flatnonzero((k % 2 == 0) & (np.abs(pair.losses) > 10 * epsilon))[::150]
    with mpmath.workdps(40):
        p, q = mpmath.mpf(float(base.p[1])), mpmath.mpf(float(base.p[0]))
        for i in keep:
            up = int(k[i]) // 2
            exact = mpmath.binomial(runs, up) * p**up * q ** (runs - up)
            assert mpmath.mpf(float(pair.p[i])) >= exact
            if exact > 1e-30:
                assert mpmath.mpf(float(pair.p[i])) <= exact * (1 + mpmath.mpf(1e-6))
    truth = binom.sf(runs // 2, runs, float(p))
    assert pair.delta(0.0) >= truth - binom.sf(runs // 2, runs, float(q)) - 1e-12


def test_long_compositions_hold_no_excess():
    step = _noise_pairs.subsampled_gaussian_pair(1.0, 256 / 60000, False)
    coin = _noise_pairs.randomised_response_pair(1e-3)
    for pair in (step.self_compose(7031), coin.self_compose(10**6)):
        for mass, rest in ((pair.p, pair.p_infinite), (pair.q, pair.q_zero)):
            assert abs(float(np.sum(mass, dtype=np.longdouble)) + rest - 1) < 1e-15


@pytest.mark.parametrize("seed", range(20))
def test_taking_excess_away_dominates_what_was_rounded_up(seed):
    rng = np.random.default_rng(seed)
    losses = np.linspace(-3, 3, 121)
    q = np.exp(-((losses + 0.4) ** 2)) * rng.uniform(0.5, 1, losses.size)
    q /= q.sum()
    p = q * np.exp(losses)
    q, p = q * 0.9 / max(1, p.sum()), p * 0.9 / max(1, p.sum())
    p_infinite, q_zero = 1 - p.sum(), 1 - q.sum()
    truth = DominatingPair(losses, p, q, p_infinite, q_zero)
    raised = 1 + 10.0 ** rng.uniform(-9, -5, losses.size)
    masses = without_excess(losses, p * raised, q * raised, p_infinite, q_zero)
    new = DominatingPair(losses, *masses, p_infinite, q_zero)
    assert abs(new.p.sum() + p_infinite - 1) < 1e-15 and abs(new.q.sum() + q_zero - 1) < 1e-15
    for epsilon in np.linspace(-3.5, 3.5, 300):
        for one, other in ((new, truth), (new.swap(), truth.swap())):
            assert one.delta(epsilon) >= other.delta(epsilon) - 1e-13
            assert one.delta(epsilon) <= other.delta(epsilon) * (1 + 1e-2)  # the atoms are 0.05 apart


def test_nothing_in_excess_is_left_alone():
    losses, p, q = np.array([-1.0, 0.0, 1.0]), np.array([0.1, 0.3, 0.6]), np.array([0.6, 0.3, 0.1])
    same = without_excess(losses, p, q)
    assert same[0] is p and same[1] is q
