"""The profile bound: whole cells, both directions, infinite mass, K = 0."""

import math

import numpy as np
import pytest

from skdptune.accounting._profile_bound import profile_delta, profile_epsilon, weight_gap
from skdptune.accounting._rdp_region import PairRegion
from skdptune.run_counts import Finite, Geometric, Logarithmic, Poisson
from tests.accounting.brute_force import dominating_pair, random_pair, true_delta

LUMPY = Finite({1: 0.099, 100: 0.901})
P, Q = np.array([0.06504, 0.93496]), np.array([0.79159, 0.20841])


def test_vertices_alone_are_wrong():
    """K in {1, 100}: at the vertices c lets the bound claim 0 where the truth is above .44."""
    pair = dominating_pair(P, Q)
    truth = max(_one_order(LUMPY, 4.0, share) for share in np.linspace(0.0, 0.2, 101))
    assert truth > 0.44
    region = PairRegion(pair)
    vertices = LUMPY.log_weight(region._r) - LUMPY.log_weight(region._s)
    assert LUMPY.mean * pair.delta(4.0 - vertices.max()) == pytest.approx(0.0, abs=1e-12)
    assert profile_delta(pair.delta, weight_gap(region, LUMPY), LUMPY, 4.0) >= truth


def _one_order(run_count, epsilon, share, pieces=4000):
    """delta of one order: ``share`` of the low-ratio output by its marks, then the other one."""
    grid = np.linspace(0.0, 1.0, pieces + 1)
    won_p = np.diff(run_count.attainment(share * P[0] + P[1] * grid))
    won_q = np.diff(run_count.attainment(share * Q[0] + Q[1] * grid))
    return np.maximum(won_p - math.exp(epsilon) * won_q, 0.0).sum()


@pytest.mark.parametrize(
    "run_count", [LUMPY, Geometric(6.0), Poisson(0.3), Logarithmic(40.0)], ids=repr
)
def test_gap_covers_the_trade_off_curve(run_count):
    rng = np.random.default_rng(2)
    for _ in range(8):
        p, q = random_pair(rng, n_atoms=5)
        region = PairRegion(dominating_pair(p, q))
        r = np.linspace(0.0, 1.0, 100_001)
        s = region.boundary(r)
        dense = np.max(run_count.log_weight(r) - run_count.log_weight(s))
        gap = weight_gap(region, run_count)
        assert dense - 1e-12 <= gap <= dense + 5e-4


def test_negative_epsilon_holds_the_mass_of_no_run():
    p, q = np.array([0.3, 0.7]), np.array([0.5, 0.5])
    pair, run_count = dominating_pair(p, q), Poisson(0.5)
    gap = weight_gap(PairRegion(pair), run_count)
    for epsilon in (-3.0, -1.0, -0.1):
        truth = true_delta(p, q, run_count, [epsilon])[0, 0]
        assert profile_delta(pair.delta, gap, run_count, epsilon) >= truth


def test_epsilon_inverts_delta():
    p, q = np.array([0.3, 0.5, 0.2]), np.array([0.5, 0.4, 0.1])
    pair, run_count = dominating_pair(p, q), Geometric(5.0)
    gap = weight_gap(PairRegion(pair), run_count)
    for delta in (1e-3, 1e-2, 0.1):
        epsilon = profile_epsilon(pair.epsilon_one_way, gap, run_count, delta)
        assert profile_delta(pair.delta, gap, run_count, epsilon) <= delta * (1 + 1e-9)


def test_infinite_mass_and_infinite_gap():
    p, q = np.array([0.5, 0.5]), np.array([1.0, 0.0])
    pair = dominating_pair(p, q)
    gap = weight_gap(PairRegion(pair), Geometric(5.0))
    assert profile_epsilon(pair.epsilon_one_way, gap, Geometric(5.0), 0.1) == math.inf
    assert profile_delta(pair.delta, math.inf, Geometric(5.0), 1.0) == 1.0
    assert profile_epsilon(pair.epsilon_one_way, math.inf, Geometric(5.0), 0.1) == math.inf
