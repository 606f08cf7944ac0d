"""The true price of best-of-K for small pairs, by going through every order of the outputs.

A pair has a handful of outputs with masses p (under x) and q (under x'). Best-of-K publishes output i
with probability G(r + p_i) - G(r), where r is the P-mass of the outputs ranked above it and
G(r) = 1 - f(1 - r). That mass depends on the *set* ranked above and not on its inner order, so the
maximum over all n! orders of sum_i (A_i - e^epsilon A'_i)_+ is a longest path through the lattice of
the 2^n sets: exact, nothing merged, nothing divided.

Run ``python -m tests.accounting.brute_force --instances 50000`` for the long check.
"""

import argparse
import itertools
import math
import time
from dataclasses import dataclass
from unittest import mock

import numpy as np

from skdptune.accounting import _profile_bound, _rdp_region, _selection_bounds
from skdptune.accounting._mechanisms import FromPair, Mechanism
from skdptune.accounting._pair_builders import pair_from_atoms
from skdptune.run_counts import (
    AtMost,
    BetaBinomial,
    Binomial,
    Finite,
    Fixed,
    Geometric,
    Logarithmic,
    Poisson,
    TruncatedNegativeBinomial,
    ZeroTruncatedPoisson,
)

__all__ = [
    "RdpOnly",
    "check_group",
    "dominating_pair",
    "random_pair",
    "random_run_count",
    "rdp_of_pair",
    "true_delta",
    "true_delta_by_permutations",
    "true_rdp",
]


def _subset_sums(masses):
    """Sums of ``masses (..., n)`` over all 2^n subsets: shape (..., 2^n), bit i of the index = atom i."""
    sums = np.zeros((*masses.shape[:-1], 1))
    for i in range(masses.shape[-1]):
        sums = np.concatenate([sums, sums + masses[..., i : i + 1]], axis=-1)
    return np.minimum(sums, 1.0)


def _attainment(run_count, mass):
    return np.asarray(run_count.attainment(mass.ravel())).reshape(mass.shape)


def true_delta(p, q, run_count, epsilon):
    """The largest hockey-stick divergence over all orders, one direction (P against Q).

    Parameters
    ----------
    p, q : ndarray (batch, n)
        Masses of the outputs; rows sum to one.
    run_count : RunCount
    epsilon : ndarray (n_epsilon,) or (batch, n_epsilon)

    Returns
    -------
    ndarray (batch, n_epsilon)
    """
    p, q = np.atleast_2d(p), np.atleast_2d(q)
    with np.errstate(over="ignore"):
        scale = np.exp(np.atleast_1d(np.asarray(epsilon, dtype=float)))
    scale = np.minimum(np.broadcast_to(scale, (len(p), scale.shape[-1])), 1e300)
    n = p.shape[1]
    sums_p, sums_q = _subset_sums(p), _subset_sums(q)
    won_p, lost_p = _attainment(run_count, sums_p), _missed(run_count, sums_p)
    won_q, lost_q = _attainment(run_count, sums_q), _missed(run_count, sums_q)
    value = np.full((2**n, *scale.shape), -np.inf)
    value[-1] = 0.0
    for subset in range(2**n - 2, -1, -1):
        for i in range(n):
            bigger = subset | (1 << i)
            if bigger == subset:
                continue
            gain = _cell(won_p, lost_p, subset, bigger, -1.0)
            loss = _cell(won_q, lost_q, subset, bigger, 1.0)
            reward = np.maximum(gain - scale * loss, 0.0)
            np.maximum(value[subset], value[bigger] + reward, out=value[subset])
    # K = 0 publishes the same default on both sides: mass p_zero on each.
    return value[0] + run_count.p_zero * np.maximum(1.0 - scale, 0.0)


def _missed(run_count, sums):
    """f(mass not in the subset): the complement of subset i has index 2^n - 1 - i."""
    return np.asarray(run_count.pgf(sums[..., ::-1].ravel())).reshape(sums.shape)


def _cell(won, missed, subset, bigger, sign):
    """G(r + p_i) - G(r) = f(1 - r) - f(1 - r - p_i), from the smaller numbers, moved by their error.

    The error matters because e^epsilon multiplies it: the result rounds the *truth* down.
    """
    by_won = won[:, bigger] - won[:, subset]
    by_missed = missed[:, subset] - missed[:, bigger]
    low = won[:, bigger] <= missed[:, subset]
    error = 4e-15 * np.where(low, won[:, bigger], missed[:, subset])
    return np.maximum(np.where(low, by_won, by_missed) + sign * error, 0.0)[:, None]


def true_delta_by_permutations(p, q, run_count, epsilon):
    """The same by listing all n! orders: slow, and so simple that it checks :func:`true_delta`."""
    p, q = np.asarray(p, dtype=float), np.asarray(q, dtype=float)
    best = -math.inf
    for order in itertools.permutations(range(len(p))):
        won_p = _attainment(run_count, np.minimum(np.append(0.0, np.cumsum(p[list(order)])), 1.0))
        won_q = _attainment(run_count, np.minimum(np.append(0.0, np.cumsum(q[list(order)])), 1.0))
        cells = np.diff(won_p) - math.exp(epsilon) * np.diff(won_q)
        best = max(best, float(np.maximum(cells, 0.0).sum()))
    return best + run_count.p_zero * max(1.0 - math.exp(epsilon), 0.0)


def true_rdp(p, q, run_count, order):
    """The largest Renyi divergence of ``order`` over all orders of the outputs, one direction.

    The K = 0 atom enters with p_zero^a p_zero^(1 - a) = p_zero.
    """
    p, q = np.asarray(p, dtype=float), np.asarray(q, dtype=float)
    best = -math.inf
    for ranking in itertools.permutations(range(len(p))):
        won_p = _cells(run_count, p[list(ranking)])
        best = max(best, _log_power_sum(won_p, _cells(run_count, q[list(ranking)]), order))
    log_zero = math.log(run_count.p_zero) if run_count.p_zero > 0.0 else -math.inf
    return float(np.logaddexp(best, log_zero)) / (order - 1.0)


def _cells(run_count, masses):
    """G(r + p_i) - G(r) along one order, from whichever of G and 1 - G = f is smaller."""
    above = np.minimum(np.append(0.0, np.cumsum(masses)), 1.0)
    below = np.minimum(np.append(np.cumsum(masses[::-1])[::-1], 0.0), 1.0)
    won = np.diff(_attainment(run_count, above))
    rest = -np.diff(np.asarray(run_count.pgf(below)))
    return np.maximum(np.where(above[:-1] < below[:-1], won, rest), 0.0)


def _log_power_sum(p, q, order):
    """log sum p^a q^(1 - a): the logarithm of the Renyi moment."""
    live = p > 0.0
    if np.any(q[live] <= 0.0):
        return math.inf
    terms = order * np.log(p[live]) + (1.0 - order) * np.log(q[live])
    return float(np.logaddexp.reduce(terms))


def rdp_of_pair(p, q, orders):
    """Renyi divergences of one run, the larger of both directions: ndarray (n_orders,)."""
    return np.array(
        [
            max(_log_power_sum(p, q, a), _log_power_sum(q, p, a), 0.0) / (a - 1.0)
            for a in np.asarray(orders, dtype=float)
        ]
    )


def dominating_pair(p, q):
    """The pair of an instance as the package holds it."""
    both = (p > 0) & (q > 0)
    return pair_from_atoms(
        np.log(p[both]) - np.log(q[both]),
        p[both],
        q[both],
        p_infinite=float(p[q == 0].sum()),
        q_zero=float(q[p == 0].sum()),
    )


@dataclass(frozen=True)
class RdpOnly(Mechanism):
    """A node that keeps the exact Renyi curve of another, its aside included, and hides the pair."""

    node: Mechanism

    @property
    def delta_zero(self):
        return self.node.delta_zero

    def rdp(self, orders):
        return self.node.rdp(orders)


def random_pair(rng, n_atoms=None, *, infinite=None, zero=None):
    """Draw masses (p, q) of up to 6 outputs: flat, peaked, with tied ratios, infinite or zero ratios."""
    n = int(rng.integers(2, 7)) if n_atoms is None else n_atoms
    concentration = rng.choice([0.2, 1.0, 5.0])
    p = np.maximum(rng.dirichlet(np.full(n, concentration)), 1e-12)
    style = rng.integers(4)
    if style == 0:
        q = np.maximum(rng.dirichlet(np.full(n, concentration)), 1e-12)
    elif style == 1:  # few ratios: ties that must not be merged
        q = p * np.exp(rng.choice([-1.0, 0.0, 1.0], size=n) * rng.uniform(0.1, 3.0))
    elif style == 2:
        q = p * np.exp(rng.normal(size=n) * rng.uniform(0.02, 2.0))
    else:  # randomised response with the halves cut in pieces
        q = p * np.exp(np.where(np.arange(n) % 2 == 0, 1.0, -1.0) * rng.uniform(0.05, 4.0))
    if n > 2 and (rng.random() < 0.25 if infinite is None else infinite):
        q[int(rng.integers(n))] = 0.0
    if n > 2 and (rng.random() < 0.25 if zero is None else zero):
        p[int(rng.integers(n))] = 0.0
    if q.sum() <= 0.0 or p.sum() <= 0.0:
        return random_pair(rng, n_atoms, infinite=infinite, zero=zero)
    return p / p.sum(), q / q.sum()


def _random_finite(rng):
    support = np.unique(rng.choice([0, 1, 2, 3, 7, 20, 100], size=int(rng.integers(1, 4))))
    if support.max() == 0:
        support = np.append(support, 1)
    weights = rng.dirichlet(np.ones(len(support)))
    return Finite({int(k): float(w) for k, w in zip(support, weights / weights.sum(), strict=True)})


def random_run_count(rng):
    """Draw one distribution of K of any family, P(K = 0) > 0 and bounded ones among them."""
    mean = float(np.exp(rng.uniform(0.01, 4.0)))
    builders = (
        lambda: Poisson(mean * rng.choice([0.05, 1.0])),
        lambda: ZeroTruncatedPoisson(mean),
        lambda: TruncatedNegativeBinomial(mean, float(rng.choice([-0.5, 0.5, 2.0, 4.0]))),
        lambda: Logarithmic(mean),
        lambda: Geometric(mean),
        lambda: Binomial(int(rng.integers(1, 40)), float(rng.uniform(0.01, 1.0))),
        lambda: BetaBinomial(int(rng.integers(1, 40)), *rng.uniform(0.2, 4.0, size=2)),
        lambda: Fixed(int(rng.integers(1, 6))),
        lambda: _random_finite(rng),
        lambda: AtMost(Geometric(mean), int(rng.integers(1, 30))),
        lambda: AtMost(Poisson(mean), int(rng.integers(1, 30))),
    )
    return builders[int(rng.integers(len(builders)))]()


# -- soundness -------------------------------------------------------------------------------

FEW_ORDERS = (1.3, 2.0, 3.0, 5.0, 9.0, 20.0, 60.0)
_MASS_SLACK = 3e-13  # sums of G(r + p) - G(r) in double precision
_SCALED_SLACK = 1e-9


def _bounds_of(node, run_count, rng, methods, count):
    """``count`` of the bounds that apply, over the pair or over the Renyi curve alone."""
    choices = [
        (f"{method} of {label}", base, method)
        for method in methods
        for label, base in (("pair", node), ("curve", RdpOnly(node)))
        if _selection_bounds.BOUNDS[method].unavailable(base, run_count) is None
    ]
    picked = rng.choice(len(choices), size=min(count, len(choices)), replace=False)
    return [
        (choices[i][0], _selection_bounds.BOUNDS[choices[i][2]](choices[i][1], run_count))
        for i in picked
    ]


def check_group(rng, n_pairs, n_counts, *, methods, per_instance=2):
    """Check ``n_pairs * n_counts`` instances; return a list of descriptions of violations.

    Per instance and bound: delta at two epsilons, and epsilon at one delta, in the worse direction.
    """
    n_atoms = int(rng.integers(2, 7))
    pairs = [random_pair(rng, n_atoms) for _ in range(n_pairs)]
    nodes = [FromPair(dominating_pair(p, q)) for p, q in pairs]
    p, q = (np.array(side) for side in zip(*pairs, strict=True))
    broken = []
    for _ in range(n_counts):
        run_count = random_run_count(rng)
        asked, claims, names = [], [], []
        for node in nodes:
            epsilons, deltas, labels = [], [], []
            for name, bound in _bounds_of(node, run_count, rng, methods, per_instance):
                for epsilon in rng.choice([0.0, 0.01, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0], size=2):
                    epsilons.append(epsilon)
                    deltas.append(bound.delta(float(epsilon)))
                    labels.append(name)
                delta = float(10.0 ** rng.uniform(-9, -0.1))
                epsilon = bound.epsilon(delta)
                if math.isfinite(epsilon):
                    epsilons.append(epsilon)
                    deltas.append(delta)
                    labels.append(name + " (epsilon)")
            width = 3 * per_instance - len(epsilons)
            asked.append(epsilons + [0.0] * width)
            claims.append(deltas + [1.0] * width)
            names.append(labels + ["-"] * width)
        truth = np.maximum(
            true_delta(p, q, run_count, np.array(asked)),
            true_delta(q, p, run_count, np.array(asked)),
        )
        short = truth - np.array(claims) * (1.0 + _SCALED_SLACK) - _MASS_SLACK
        for i, j in zip(*np.nonzero(short > 0.0), strict=True):
            broken.append(
                f"{names[i][j]}: K ~ {run_count!r}, P={p[i].tolist()}, Q={q[i].tolist()}, "
                f"epsilon={asked[i][j]!r}: claims {claims[i][j]!r}, truth {truth[i, j]!r}"
            )
    return broken


def check_many(seed, instances, *, methods=("rdp", "closed_form", "profile", "composition")):
    """Check at least ``instances`` instances, few Renyi orders and coarse grids (all are sound)."""
    rng = np.random.default_rng(seed)
    done, broken = 0, []
    few_orders = mock.patch.object(_selection_bounds, "default_orders", lambda: FEW_ORDERS)
    few_nodes = mock.patch.multiple(_rdp_region, _GRID=120, _PRECISION=0.02)
    rough_gap = mock.patch.object(_profile_bound, "_GAP_TOLERANCE", 0.02)
    # Convolving pairs has its own tests and takes a hundred times as long as the rest.
    no_convolution = mock.patch.object(_selection_bounds, "_LARGEST_COMPOSITION", 0)
    with few_orders, few_nodes, rough_gap, no_convolution:
        while done < instances:
            broken += check_group(rng, 10, 10, methods=methods, per_instance=1)
            done += 100
    return done, broken


def main():
    """Command line of the long check."""
    parser = argparse.ArgumentParser(description="Soundness of best_of against every order.")
    parser.add_argument("--instances", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    start = time.process_time()
    done, broken = check_many(arguments.seed, arguments.instances)
    print(f"{done} instances, {len(broken)} violations, {time.process_time() - start:.0f} s of CPU")
    for line in broken[:20]:
        print(line)


if __name__ == "__main__":
    main()
