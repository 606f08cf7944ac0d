"""Brute force over every order, for the exact price of best-of-K.

The value of an order depends, at each step, only on the masses of what was placed before. So the
best of all n! orders of n atoms is a program over the 2^n sets of placed atoms
(``best_of_subsets``), and the best of all orders of few ratios cut in equal pieces is one over the
numbers of placed pieces (``best_of_pieces``). Nothing here uses the structure of the worst order.

Run as a module for a long comparison: ``python -m tests.accounting.exact_oracle 5000``.
"""

import itertools
import sys
import time

import numpy as np

from skdptune.accounting._exact import exact_delta_one_way
from skdptune.accounting._exact_bounds import Lattice
from skdptune.accounting._exact_grid import cut_cells, pair_cells, weight_of
from skdptune.accounting._pairs import DominatingPair
from skdptune.run_counts import (
    AtMost,
    Binomial,
    Finite,
    Fixed,
    Geometric,
    Logarithmic,
    Poisson,
    TruncatedNegativeBinomial,
    ZeroTruncatedPoisson,
)

ROUNDING = 1e-11  # absolute error of the oracle's own sums


def run_count_pool():
    """Named, lumpy, heavy-tailed and possibly empty distributions of K."""
    heavy = 1.0 / np.arange(1, 401) ** 1.6
    return [
        Fixed(2),
        Fixed(3),
        Fixed(7),
        Logarithmic(mean=4.0),
        Logarithmic(mean=40.0),
        Geometric(mean=6.0),
        TruncatedNegativeBinomial(mean=5.0, eta=-0.5),
        TruncatedNegativeBinomial(mean=12.0, eta=4.0),
        Poisson(mean=0.4),
        Poisson(mean=8.0),
        ZeroTruncatedPoisson(mean=3.0),
        Binomial(n=9, p=0.4),
        AtMost(Logarithmic(mean=10.0), 12),
        Finite({0: 0.9, 1: 0.1}),
        Finite({1: 0.099, 100: 0.901}),
        Finite({2: 0.5, 30: 0.5}),
        Finite({0: 0.3, 3: 0.4, 4: 0.3}),
        Finite({k + 1: m for k, m in enumerate(heavy / heavy.sum())}),
    ]


def random_pair(rng, n_atoms):
    """A pair of ``n_atoms`` atoms, the infinite-loss and the zero-ratio one included."""
    p_infinite = 10 ** rng.uniform(-4, -0.5) if rng.random() < 0.4 else 0.0
    q_zero = 10 ** rng.uniform(-4, -0.5) if rng.random() < 0.4 else 0.0
    inner = max(n_atoms - (p_infinite > 0) - (q_zero > 0), 1)
    spread = rng.choice([0.2, 1.0, 2.5])
    q = np.exp(rng.normal(0, rng.choice([0.3, 1.5]), inner))
    p = q * np.exp(rng.normal(0, spread, inner))
    p *= (1 - p_infinite) / p.sum()
    q *= (1 - q_zero) / q.sum()
    losses = np.log(p) - np.log(q)
    order = np.argsort(losses)
    return DominatingPair(losses[order], p[order], q[order], p_infinite, q_zero)


def _gains(run_count, epsilon, r, s, after_r, after_s):
    """What each step adds: the positive part of its masses' difference."""
    g = run_count.attainment
    clip = lambda x: np.clip(x, 0.0, 1.0)
    gain = g(clip(after_r)) - g(clip(r))
    loss = np.exp(epsilon) * (g(clip(after_s)) - g(clip(s)))
    return np.maximum(gain - loss, 0.0)


def best_of_subsets(p, q, run_count, epsilon):
    """The largest divergence at ``epsilon`` over all orders of the atoms, each kept whole."""
    n = len(p)
    masks = np.arange(2**n)
    bits = (masks[:, None] >> np.arange(n)) & 1
    r, s = bits @ p, bits @ q
    best = np.zeros(2**n)
    count = bits.sum(axis=1)
    for size in range(n - 1, -1, -1):
        here = masks[count == size]
        for i in range(n):
            free = here[(here >> i) & 1 == 0]
            after = free | (1 << i)
            gain = _gains(run_count, epsilon, r[free], s[free], r[after], s[after])
            best[free] = np.maximum(best[free], gain + best[after])
    return best[0] + run_count.p_zero * max(-np.expm1(epsilon), 0.0)


def best_of_pieces(p, q, pieces, run_count, epsilon):
    """The same for atoms cut into equal pieces that any order may scatter."""
    shape = tuple(c + 1 for c in pieces)
    grid = np.indices(shape)
    share = [grid[i] / pieces[i] for i in range(len(p))]
    r = sum(share[i] * p[i] for i in range(len(p)))
    s = sum(share[i] * q[i] for i in range(len(p)))
    best = np.zeros(shape)
    total = grid.sum(axis=0)
    for size in range(sum(pieces) - 1, -1, -1):
        here = np.nonzero(total == size)
        value = np.zeros(len(here[0]))
        for i in range(len(p)):
            free = here[i] < pieces[i]
            now = tuple(h[free] for h in here)
            after = tuple(h[free] + (axis == i) for axis, h in enumerate(here))
            gain = _gains(run_count, epsilon, r[now], s[now], r[after], s[after])
            value[free] = np.maximum(value[free], gain + best[after])
        best[here] = value
    origin = (0,) * len(p)
    return best[origin] + run_count.p_zero * max(-np.expm1(epsilon), 0.0)


def lattice_bounds(pair, run_count, epsilon, eta):
    """W+, U and V of the pair's own atoms, cut at steps ``eta`` of log w (0: uncut)."""
    if epsilon < 0:
        values = lattice_bounds(pair.swap(), run_count, -epsilon, eta)
        return tuple(-np.expm1(epsilon) + np.exp(epsilon) * np.array(values))
    weight, cells = weight_of(run_count), pair_cells(pair)
    if eta > 0:
        cuts = weight.levels(0.0, 0.999, eta)
        cells = cut_cells(cells, cuts, cuts)
    lattice = Lattice(cells, weight, epsilon)
    at = np.array([epsilon])
    return tuple(float(f(at)[0]) for f in (lattice.upper, lattice.first_order, lattice.value))


def draw_instance(rng, pool):
    """Return (pair, p, q, pieces or None, run count, epsilon): pieces None means whole atoms."""
    run_count = pool[rng.integers(len(pool))]
    whole = rng.random() < 0.6
    n_atoms = int(rng.integers(2, 10)) if whole else int(rng.integers(2, 4))
    pair = random_pair(rng, n_atoms)
    p, q = pair_cells(pair).p, pair_cells(pair).q
    pieces = None if whole else [(40, 25)[len(p) == 2 and rng.random() < 0.5], 25][: len(p)]
    if pieces is not None and len(p) > 2:
        pieces = [12] * len(p) if len(p) == 3 else [6] * len(p)
    return pair, p, q, pieces, run_count, float(rng.uniform(-1.5, 3.5))


def compare(seed, count, eta_choices=(0.0, 0.5, 0.1), with_price=True):
    """Compare ``count`` random instances; return the violations found, as readable tuples."""
    rng, pool, wrong = np.random.default_rng(seed), run_count_pool(), []
    for index in range(count):
        pair, p, q, pieces, run_count, epsilon = draw_instance(rng, pool)
        if pieces is None:
            truth = best_of_subsets(p, q, run_count, epsilon)
        else:
            truth = best_of_pieces(p, q, pieces, run_count, epsilon)
        eta = float(rng.choice(eta_choices))
        w_plus, first, value = lattice_bounds(pair, run_count, epsilon, eta)
        bounds = {"W+": w_plus, "U": first}
        if with_price:
            price = exact_delta_one_way(pair, run_count, epsilon, rtol=0.05)
            bounds["price"] = price.upper
            if price.lower > price.upper:
                wrong.append((index, "lower above upper", run_count, epsilon, price))
        if value > min(w_plus, first) + ROUNDING:
            wrong.append((index, "V above W+ or U", run_count, epsilon, value, w_plus, first))
        for name, bound in bounds.items():
            if bound < truth - ROUNDING:
                wrong.append((index, name, run_count, epsilon, bound, truth, eta, pieces))
    return wrong


def main(arguments):
    count = int(arguments[0]) if arguments else 5000
    start = time.perf_counter()
    wrong = compare(seed=20_240_601, count=count)
    seconds = time.perf_counter() - start
    print(f"{count} instances, {len(wrong)} violations, {seconds:.1f} s")
    for line in itertools.islice(wrong, 20):
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
