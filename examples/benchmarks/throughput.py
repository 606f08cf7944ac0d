"""How many tries a second a search gets through, and what memory it holds while it does.

A candidate that takes one millisecond is tried 10,000 times with two workers (and 2,000 times with one),
and beside it, in the same process and in turn, joblib alone calls the same one-millisecond function
as often. The ideal is one try a millisecond and worker. Then a candidate that costs nothing is tried 1,000,
10,000 and 100,000 times, and the memory of the parent and of its workers is read.

Run with ``python examples/benchmarks/throughput.py [--tries 10000] [--most 100000] [--repeats 3]``.
"""

import argparse
import contextlib
import os
import statistics
import threading
import time

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, ClassifierMixin

from skdptune import PrivateRandomSearchCV
from skdptune.run_counts import Fixed


def one_millisecond():
    """Keep the processor busy for a millisecond."""
    until = time.perf_counter() + 1e-3
    while time.perf_counter() < until:
        pass


class Timed(ClassifierMixin, BaseEstimator):
    """A noisy majority of the labels; a fit takes one millisecond, or as little as it can."""

    privacy_params = ("noise_multiplier",)

    def __init__(self, noise_multiplier=5.0, busy=True, shift=0.0, random_state=None):
        self.noise_multiplier = noise_multiplier
        self.busy = busy
        self.shift = shift
        self.random_state = random_state

    def rdp_curve(self, orders):
        return np.asarray(orders, dtype=float) / (2 * self.noise_multiplier**2)

    def fit(self, X, y):
        until = time.perf_counter() + 1e-3
        noise = self.random_state.normal(scale=self.noise_multiplier)
        self.majority_ = int(np.sum(y == 1) - len(y) / 2 + self.shift + noise > 0)
        self.classes_ = np.array([0, 1])
        while self.busy and time.perf_counter() < until:
            pass
        return self

    def predict(self, X):
        return np.full(len(X), self.majority_)


def search(tries, n_jobs, busy=True):
    """Return a search of exactly ``tries`` tries, priced already."""
    space = {"shift": list(np.linspace(-3.0, 3.0, 50))}
    made = PrivateRandomSearchCV(Timed(busy=busy), space, n_iter=Fixed(tries), n_jobs=n_jobs, refit="winner")
    made.privacy_cost(n_samples=100)
    return made


def seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def peer(tries, n_jobs):
    """joblib alone, results taken as they come."""
    for _ in Parallel(n_jobs, return_as="generator_unordered")(delayed(one_millisecond)() for _ in range(tries)):
        pass


def rate(X, y, tries, n_jobs, repeats):
    ours, theirs = [], []
    made = search(tries, n_jobs)
    search(20, n_jobs).fit(X, y)  # starts the workers and imports there
    peer(20, n_jobs)
    for _ in range(repeats):
        ours.append(seconds(lambda: made.fit(X, y)))
        theirs.append(seconds(lambda: peer(tries, n_jobs)))
    ideal = tries * 1e-3 / n_jobs
    own, alone = statistics.median(ours), statistics.median(theirs)
    print(
        f"n_jobs={n_jobs}, {tries} tries of 1 ms: search {own:.2f} s = {ideal / own:.0%} of the ideal rate "
        f"({tries / own:.0f} a second; best {ideal / min(ours):.0%}), joblib alone {alone:.2f} s = {ideal / alone:.0%}"
    )


class Watch:
    """Reads the resident memory of this process and of its children, ten times a second."""

    def __enter__(self):
        self.before, self.peaks = resident(os.getpid()), {}
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()
        return self

    def _watch(self):
        while not self.over.wait(0.1):
            for pid in (os.getpid(), *children(os.getpid())):
                with contextlib.suppress(OSError):
                    self.peaks[pid] = max(self.peaks.get(pid, 0), resident(pid))

    def __exit__(self, *exc_info):
        self.over.set()
        self.thread.join()
        self.parent = self.peaks.pop(os.getpid(), self.before)
        self.after = resident(os.getpid())
        self.worker = max(self.peaks.values(), default=0)


def resident(pid):
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]


def memory(X, y, most, n_jobs):
    tries = 1000
    search(100, n_jobs, busy=False).fit(X, y)
    while tries <= most:
        made = search(tries, n_jobs, busy=False)
        with Watch() as watch:
            took = seconds(lambda made=made: made.fit(X, y))
        print(
            f"n_jobs={n_jobs}, {tries} tries that cost nothing: {took:.1f} s, {took / tries * 1e6:.0f} us each; "
            f"parent {watch.before:.1f} MB before, {watch.parent:.1f} MB at most, {watch.after:.1f} MB after"
            + (f"; largest worker {watch.worker:.1f} MB" if n_jobs > 1 else "")
        )
        tries *= 10


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tries", type=int, default=10_000)
    parser.add_argument("--most", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 5))
    y = (X[:, 0] > 0).astype(int)
    rate(X, y, args.tries // 5, 1, args.repeats)
    rate(X, y, args.tries, 2, args.repeats)
    if os.path.exists("/proc/self/statm"):
        for n_jobs in (1, 2):
            memory(X, y, args.most, n_jobs)


if __name__ == "__main__":
    main()
