"""Exact integer noise: the laws, exactly and by chi-squared; independence; extremes."""

import ast
import functools
import inspect
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from skdptune import _integer_noise
from skdptune._integer_noise import (
    BitSource,
    HashedBits,
    SystemBits,
    bernoulli_exp,
    bit_source,
    sample_discrete_gaussian,
    sample_discrete_laplace,
)

SAMPLERS = [sample_discrete_laplace, sample_discrete_gaussian]


def weight(sampler, scale, z):
    """Unnormalised mass of the law that ``sampler`` draws from."""
    if sampler is sample_discrete_laplace:
        return mpmath.exp(-mpmath.mpf(abs(z)) / scale)
    return mpmath.exp(-(mpmath.mpf(z) ** 2) / (2 * mpmath.mpf(scale) ** 2))


@functools.lru_cache
def exact_pmf(sampler, scale, reach):
    z = range(-reach, reach + 1)
    masses = [weight(sampler, scale, k) for k in z]
    total = mpmath.fsum(weight(sampler, scale, k) for k in range(-60 * reach, 60 * reach + 1))
    return dict(zip(z, [float(m / total) for m in masses], strict=True))


class _UndecidedError(Exception):
    pass


class ScriptedBits(BitSource):
    """Plays a script of choices and reports the next choice that the script does not cover."""

    def __init__(self, script):
        self.script = list(script)

    def _next(self, options):
        if not self.script:
            raise _UndecidedError(options)
        return self.script.pop(0)

    def below(self, bound):
        if bound == 1:
            return 0
        return self._next([(Fraction(1, bound), value) for value in range(bound)])

    def bernoulli(self, numerator, denominator):
        p = Fraction(numerator, denominator)
        assert 0 <= p <= 1
        if p in (0, 1):
            return p == 1
        return self._next([(p, True), (1 - p, False)])


def enumerate_law(draw, smallest):
    """Walk through every outcome of the coins down to paths of mass ``smallest``.

    Returns the exact mass found for each result and the mass of the paths left open.
    """
    found, left, stack = {}, 0, [((), 1)]
    while stack:
        script, mass = stack.pop()
        if mass < smallest:
            left += mass
            continue
        try:
            result = draw(ScriptedBits(script))
        except _UndecidedError as undecided:
            stack.extend(((*script, value), mass * p) for p, value in undecided.args[0])
        else:
            found[result] = found.get(result, 0) + mass
    return found, left


@pytest.mark.parametrize("gamma", [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(5, 2)])
def test_bernoulli_exp_law_is_exact(gamma):
    found, left = enumerate_law(
        lambda bits: bernoulli_exp(gamma.numerator, gamma.denominator, bits), Fraction(1, 10**9)
    )
    p = math.exp(-gamma)
    assert float(found.get(True, 0)) <= p + 1e-12 <= float(found.get(True, 0) + left) + 2e-12
    assert float(left) < 1e-6


def exp_as_one_coin(numerator, denominator, bits):
    p = mpmath.exp(-mpmath.mpf(numerator) / denominator)
    if p == 1:
        return True
    return bits._next([(p, True), (1 - p, False)])


def laplace_as_one_choice(scale, bits):
    law = exact_pmf(sample_discrete_laplace, float(scale), 40)
    return bits._next([(mpmath.mpf(p), z) for z, p in law.items()])


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(1), Fraction(7, 3), Fraction(5)])
def test_laplace_law_is_exact_by_enumeration(monkeypatch, scale):
    # Its coins exp(-g) are taken from the test above, so that the tree of one attempt is small.
    monkeypatch.setattr(_integer_noise, "bernoulli_exp", exp_as_one_coin)
    t, s = scale.numerator, scale.denominator
    found, left = enumerate_law(lambda b: _integer_noise._laplace_attempt(t, s, b), 1e-14)
    assert left < 1e-11
    assert_proportional(found, exact_pmf(sample_discrete_laplace, float(scale), 6))


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(1), Fraction(7, 3), Fraction(5)])
def test_gaussian_law_is_exact_by_enumeration(monkeypatch, scale):
    monkeypatch.setattr(_integer_noise, "bernoulli_exp", exp_as_one_coin)
    monkeypatch.setattr(_integer_noise, "sample_discrete_laplace", laplace_as_one_choice)
    a, b, t = scale.numerator**2, scale.denominator**2, math.floor(scale) + 1
    found, _ = enumerate_law(lambda bits: _integer_noise._gaussian_attempt(a, b, t, bits), 0)
    assert_proportional(found, exact_pmf(sample_discrete_gaussian, float(scale), 6))


def assert_proportional(found, pmf):
    """Rejection leaves the law of one attempt's accepted results, whatever their total."""
    accepted = sum(mass for result, mass in found.items() if result is not None)
    assert accepted > 0.1
    for z, mass in pmf.items():
        assert float(found[z] / accepted) == pytest.approx(mass, rel=1e-8, abs=1e-12)


def chi_squared(draws, pmf):
    counts = {z: 0 for z in pmf}
    rest = 0
    for z in draws:
        if z in counts:
            counts[z] += 1
        else:
            rest += 1
    expected = np.array([*pmf.values(), 1 - sum(pmf.values())]) * len(draws)
    observed = np.array([*counts.values(), rest])
    small = expected < 5
    expected = np.append(expected[~small], expected[small].sum())
    observed = np.append(observed[~small], observed[small].sum())
    keep = expected > 0
    statistic = np.sum((observed[keep] - expected[keep]) ** 2 / expected[keep])
    return stats.chi2.sf(statistic, keep.sum() - 1)


@pytest.mark.statistical
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("scale", [0.3, 1.0, 3.7, 20.0])
def test_law_seeded(sampler, scale):
    bits = bit_source(314159265358979323846264338327950288419716939937510)
    draws = [sampler(Fraction(scale), bits) for _ in range(10_000)]
    assert chi_squared(draws, exact_pmf(sampler, scale, max(4, int(5 * scale)))) > 1e-4


@pytest.mark.statistical
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_law_system(sampler):
    draws = [sampler(Fraction(2.5), bit_source()) for _ in range(10_000)]
    assert chi_squared(draws, exact_pmf(sampler, 2.5, 12)) > 1e-7  # unseeded: fails once in 10^7


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_agrees_with_opendp(kind):
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    make = getattr(dp.m, f"make_{kind}")
    theirs = make(dp.atom_domain(T="i64"), dp.absolute_distance(T="i64"), 3.0)
    ours = {"laplace": sample_discrete_laplace, "gaussian": sample_discrete_gaussian}[kind]
    bits = bit_source(2**127 + 1)
    one = np.array([ours(Fraction(3), bits) for _ in range(5000)])
    two = np.array([theirs(0) for _ in range(5000)])
    grid = np.arange(-8, 9)
    table = np.array([[np.sum(np.clip(d, -8, 8) == z) for z in grid] for d in (one, two)])
    table = table[:, table.sum(axis=0) > 0]
    assert stats.chi2_contingency(table).pvalue > 1e-7  # their side is unseeded


@pytest.mark.statistical
def test_below_is_uniform_and_bits_have_the_asked_width():
    bits = HashedBits(5)
    counts = np.bincount([bits.below(6) for _ in range(12_000)], minlength=6)
    assert counts.size == 6
    assert stats.chisquare(counts).pvalue > 1e-4
    assert all(0 <= bits.bits(700) < 2**700 for _ in range(20))
    assert max(bits.bits(700) for _ in range(50)) > 2**690
    assert bits.below(1) == 0


@pytest.mark.statistical
def test_successive_draws_are_uncorrelated():
    bits = bit_source(99)
    draws = np.array([sample_discrete_laplace(3, bits) for _ in range(8000)], dtype=float)
    for lag in (1, 2, 3):
        correlation = np.corrcoef(draws[:-lag], draws[lag:])[0, 1]
        assert abs(correlation) < 4.5 / math.sqrt(8000)


@pytest.mark.statistical
def test_neighbouring_seeds_give_unrelated_noise():
    draws = [sample_discrete_gaussian(5, bit_source(seed)) for seed in range(3000)]
    assert chi_squared(draws, exact_pmf(sample_discrete_gaussian, 5, 20)) > 1e-4


def test_seeded_draws_repeat_and_are_pinned():
    bits, again = bit_source(2**130 + 7), bit_source(2**130 + 7)
    first = [sample_discrete_gaussian(50, bits) for _ in range(8)]
    assert first == [sample_discrete_gaussian(50, again) for _ in range(8)]
    assert len(set(first)) > 4
    other = [sample_discrete_gaussian(50, bit_source(2**130 + 8)) for _ in range(8)]
    assert first != other
    assert HashedBits(3).bits(64) != HashedBits(-3).bits(64)


def test_the_stream_does_not_depend_on_numpy_or_random_state():
    import random

    np.random.seed(0)
    random.seed(0)
    one = [SystemBits().bits(128) for _ in range(3)]
    np.random.seed(0)
    random.seed(0)
    two = [SystemBits().bits(128) for _ in range(3)]
    assert not set(one) & set(two)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_extreme_scales(sampler):
    bits = bit_source(1)
    assert {sampler(Fraction(1e-3), bits) for _ in range(200)} == {0}
    large = [sampler(Fraction(1e6), bits) for _ in range(2000)]
    assert all(type(z) is int for z in large)
    spread = math.sqrt(sum(z * z for z in large) / len(large))
    expected = 1e6 * (math.sqrt(2) if sampler is sample_discrete_laplace else 1)
    assert spread == pytest.approx(expected, rel=0.1)
    huge = [abs(sampler(Fraction(2**80), bits)) for _ in range(20)]
    assert max(huge) > 2**70  # no saturation at the ends of a machine integer


def test_no_floats_and_no_hidden_generators():
    tree = ast.parse(inspect.getsource(_integer_noise))
    for node in ast.walk(tree):
        assert not (isinstance(node, ast.Constant) and isinstance(node.value, float))
        assert not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div))
        if isinstance(node, ast.Import):
            assert {alias.name for alias in node.names} <= {"hashlib", "secrets"}
