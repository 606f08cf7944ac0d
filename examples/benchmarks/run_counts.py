"""Seconds for one draw of the number of tries, and for its price's ingredients, beside numpy's own sampler.

Run with ``python examples/benchmarks/run_counts.py``.
"""

import time

import numpy as np

from skdptune.run_counts import Geometric, Logarithmic, Poisson, TruncatedNegativeBinomial


def microseconds(work, repeats):
    start = time.perf_counter()
    for _ in range(repeats):
        work()
    return (time.perf_counter() - start) / repeats * 1e6


def main():
    rng = np.random.default_rng(0)
    peer = microseconds(lambda: rng.geometric(1e-4), 20_000)
    points = np.logspace(-12, 0, 100_000)
    for run_count in (
        Logarithmic(1e4),
        TruncatedNegativeBinomial(1e5, -0.5),
        TruncatedNegativeBinomial(10, 2),
        Geometric(1e4),
        Poisson(1e4),
    ):
        draw = microseconds(lambda k=run_count: k.sample(rng), 5_000)
        weight = microseconds(lambda k=run_count: k.log_weight(points), 10) / 1e3
        print(f"{run_count!r:>55}: a draw {draw:6.1f} us ({draw / peer:4.1f} x numpy's), 1e5 weights {weight:5.1f} ms")


if __name__ == "__main__":
    main()
