"""What a private search costs in time and memory beside scikit-learn's.

Prints the ratio of 200 runs of a cheap candidate to ``RandomizedSearchCV(n_iter=200)`` with the same single
split and number of jobs, both timed in turn in one process (pricing is timed apart), and the growth of
the parent's memory from 100 to 10,000 runs.

Run with ``python examples/benchmarks/search_overhead.py [--pairs 5]``.
"""

import argparse
import resource
import sys
import time

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import RandomizedSearchCV, ShuffleSplit

from skdptune import PrivateRandomSearchCV
from skdptune.run_counts import Fixed


class CheapCandidate(ClassifierMixin, BaseEstimator):
    """Class means with Gaussian noise of known cost; a few hundred microseconds a fit."""

    privacy_params = ("noise_multiplier",)

    def __init__(self, noise_multiplier=5.0, shrink=0.0, random_state=None):
        self.noise_multiplier = noise_multiplier
        self.shrink = shrink
        self.random_state = random_state

    def rdp_curve(self, orders):
        return np.asarray(orders, dtype=float) / (2 * self.noise_multiplier**2)

    def fit(self, X, y):
        rng = np.random.default_rng(self.random_state if isinstance(self.random_state, int) else None)
        rows = X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
        sums = np.stack([rows[y == label].sum(axis=0) for label in (0, 1)])
        self.means_ = sums + rng.normal(scale=self.noise_multiplier, size=sums.shape)
        self.classes_ = np.array([0, 1])
        return self

    def predict(self, X):
        return (X @ (self.means_[1] - (1 - self.shrink) * self.means_[0]) > 0).astype(int)


SPACE = {"shrink": list(np.linspace(0.0, 1.0, 400))}


def private(n_runs, n_jobs):
    return PrivateRandomSearchCV(CheapCandidate(), SPACE, n_iter=Fixed(n_runs), n_jobs=n_jobs)


def seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def compare(X, y, n_jobs, pairs):
    n_runs = 200
    pricing = seconds(lambda: private(n_runs, n_jobs).privacy_cost(len(X)))
    ratios = []
    for _ in range(pairs + 1):
        plain = RandomizedSearchCV(
            CheapCandidate(), SPACE, n_iter=n_runs, cv=ShuffleSplit(1, test_size=0.2), refit=False, n_jobs=n_jobs
        )
        peer = seconds(lambda search=plain: search.fit(X, y))
        priced = seconds(lambda: private(n_runs, n_jobs).privacy_cost(len(X)))  # answered from the caches
        own = seconds(lambda: private(n_runs, n_jobs).fit(X, y)) - priced
        ratios.append((own / peer, own, peer))
    ratios = sorted(ratios[1:])
    ratio, own, peer = ratios[len(ratios) // 2]
    print(
        f"n_jobs={n_jobs}: first pricing {pricing:.2f} s; {n_runs} runs {own:.3f} s against {peer:.3f} s; "
        f"ratio median {ratio:.2f}, from {ratios[0][0]:.2f} to {ratios[-1][0]:.2f}"
    )


def memory(X, y):
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize() / 2**20

    private(100, None).fit(X, y)
    private(10_000, None).privacy_cost(len(X))
    before, peak = resident(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    took = seconds(lambda: private(10_000, None).fit(X, y))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"parent memory, 100 to 10,000 runs: resident {resident() - before:+.1f} MB, peak {after - peak:+.1f} MB "
        f"({took:.1f} s)"
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=5)
    pairs = parser.parse_args().pairs
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 20))
    y = (X[:, 0] + rng.normal(size=2000) > 0).astype(int)
    for n_jobs in (None, 2):
        compare(X, y, n_jobs, pairs)
    if sys.platform == "linux":
        memory(X, y)



if __name__ == "__main__":
    main()
