"""No bound claims less than the truth found by going through every order of the outputs."""

import numpy as np
import pytest

from skdptune.accounting import _rdp_region, _selection_bounds
from skdptune.accounting._mechanisms import FromPair
from skdptune.run_counts import Finite, Fixed, Geometric, Poisson
from tests.accounting.brute_force import (
    RdpOnly,
    check_group,
    check_many,
    dominating_pair,
    random_pair,
    random_run_count,
    true_delta,
    true_delta_by_permutations,
)


def test_oracle_agrees_with_a_list_of_all_orders():
    rng = np.random.default_rng(23)
    for _ in range(12):
        p, q = random_pair(rng, n_atoms=int(rng.integers(2, 6)))
        run_count = random_run_count(rng)
        for epsilon in (-1.0, 0.0, 1.0):
            listed = true_delta_by_permutations(p, q, run_count, epsilon)
            assert true_delta(p, q, run_count, [epsilon])[0, 0] == pytest.approx(listed, abs=1e-12)


def test_oracle_on_two_outputs():
    """Worked by hand: K = 2, P = (.5, .5), Q = (.25, .75), the first output better."""
    p, q = np.array([0.5, 0.5]), np.array([0.25, 0.75])
    better_first = max(0.75 - (1 - 0.75**2), 0.0)
    better_second = max(0.25 - 0.0625, 0.0)
    assert true_delta(p, q, Fixed(2), [0.0])[0, 0] == pytest.approx(
        max(better_first, better_second)
    )


def test_oracle_counts_the_default():
    same = np.array([0.5, 0.5])
    assert true_delta(same, same, Finite([0.3, 0.7]), [-1.0])[0, 0] == pytest.approx(1 - np.exp(-1))


def test_thousand_instances():
    done, broken = check_many(seed=1, instances=1000)
    assert done == 1000
    assert not broken, "\n".join(broken[:5])


def test_default_orders_and_grids():
    broken = check_group(
        np.random.default_rng(4), 1, 5, methods=("rdp", "closed_form", "profile", "composition")
    )
    assert not broken, "\n".join(broken[:5])


@pytest.mark.slow
def test_many_more_instances():
    done, broken = check_many(seed=2, instances=5000)
    assert not broken, f"{len(broken)} of {done}\n" + "\n".join(broken[:5])


def _drop_p_zero(orders, rdp, region, run_count, *, log_convex):
    """The generic bound as printed in the paper, without P(K=0)."""
    value = _rdp_region.peak_weight(region, run_count.log_weight, orders, orders - 1.0, 1e-4)
    return np.maximum(value + (orders - 1.0) * rdp, 0.0) / (orders - 1.0) + 1e-15


def test_the_check_notices_a_bound_without_the_mass_of_no_run(monkeypatch):
    """P = (.4, .6), Q = (.6, .4), K ~ Bernoulli(.1) and Poisson(.5): the uncorrected form is too low."""
    p, q = np.array([0.4, 0.6]), np.array([0.6, 0.4])
    node = RdpOnly(FromPair(dominating_pair(p, q)))
    for run_count, wrong in (
        (Finite([0.9, 0.1]), True),
        (Poisson(0.5), True),
        (Geometric(3), False),
    ):
        truth = max(true_delta(a, b, run_count, [0.0])[0, 0] for a, b in ((p, q), (q, p)))
        assert _selection_bounds.RdpBound(node, run_count).delta(0.0) >= truth
        with monkeypatch.context() as patch:
            patch.setattr(_selection_bounds, "region_rdp", _drop_p_zero)
            broken = _selection_bounds.RdpBound(node, run_count).delta(0.0) < truth
        assert broken == wrong


def test_the_check_notices_vertices_in_place_of_cells(monkeypatch):
    def nodes_only(ends, region, log_weight, on_r, on_s, group):
        at_r = log_weight(ends)[group]
        at_s = log_weight(np.maximum.accumulate(region.boundary(ends), axis=1))[group]
        with np.errstate(invalid="ignore"):
            value = np.nan_to_num(on_r[:, None] * at_r - on_s[:, None] * at_s, nan=np.inf)
        return value[:, :-1], np.full(len(value), np.inf)

    monkeypatch.setattr(_rdp_region, "_cell_values", nodes_only)
    _selection_bounds._curve_region.cache_clear()
    _, broken = check_many(seed=3, instances=200, methods=("profile",))
    assert broken
