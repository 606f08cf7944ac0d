"""
Faults of diffprivlib 0.6.6, measured
=====================================

Each check trains diffprivlib's own models (not skdptune's adapters) on two neighbouring data sets many times,
counts how often an event happens on each, and prints the log-ratio. A model that keeps its epsilon
keeps every such ratio below it (up to the sampling error, which is printed). Other checks show a fault
by one exact computation.

``doc/adapters.rst`` says what skdptune's adapters do about each.

Run::

    python examples/audits/diffprivlib_faults.py            # all, some minutes
    python examples/audits/diffprivlib_faults.py --only kmeans --runs 2000
"""

import argparse
import pickle
import warnings

import diffprivlib
import numpy as np
from diffprivlib import models
from diffprivlib.mechanisms import Bingham
from diffprivlib.mechanisms.base import DPMechanism
from diffprivlib.validation import clip_to_bounds
from sklearn.base import clone

warnings.simplefilter("ignore")


def report(title, epsilon, first, second, runs):
    """Print the log-ratio of two counts of one event beside the epsilon that should bound it."""
    ratio = np.log(max(first, 0.5) / max(second, 0.5))
    error = np.sqrt(1 / max(first, 1) + 1 / max(second, 1))
    verdict = "EXCEEDED" if ratio - 3 * error > epsilon else "kept"
    print(
        f"  {title}: {first} against {second} in {runs} fits, log-ratio {ratio:.2f} +- {error:.2f}, "
        f"epsilon {epsilon}: {verdict}"
    )


def count(make, X, y, event, runs, seed):
    """Count the fits of ``make(random_state)`` in which ``event(model)`` holds."""
    state = np.random.RandomState(seed)
    return sum(bool(event(make(state).fit(X, y))) for _ in range(runs))


def logistic_intercept(runs):
    """The intercept is left out of the penalty that the proof rests on."""

    def make(state):
        return models.LogisticRegression(epsilon=1.0, data_norm=1.0, random_state=state)

    def event(model):
        w, b = model.coef_[0, 0], model.intercept_[0]
        return 3 < w < 14 and abs(w + b) < 1.5

    y = np.array([1, 0])
    first = count(make, np.array([[1.0], [0.0]]), y, event, runs, 1)
    second = count(make, np.array([[0.0], [0.0]]), y, event, runs, 2)
    report("LogisticRegression, default intercept", 1.0, first, second, runs)


def logistic_curvature(runs):
    """The curvature of a row is at most norm squared / 4; the code takes norm / 4."""

    def make(state):
        return models.LogisticRegression(
            epsilon=1.0, data_norm=20.0, fit_intercept=False, random_state=state
        )

    def event(model):
        return abs(model.coef_[0, 0]) < 0.02

    y = np.array([1, 0])
    first = count(make, np.array([[20.0], [0.0]]), y, event, runs, 3)
    second = count(make, np.array([[0.0], [0.0]]), y, event, runs, 4)
    report("LogisticRegression, data_norm=20, no intercept", 1.0, first, second, runs)


def logistic_residual(runs):
    """The default tol stops far from the minimum that the proof speaks of."""
    rng = np.random.RandomState(0)
    X = rng.uniform(-1, 1, (20_000, 5)) / np.sqrt(5)
    y = (X[:, 0] + 0.1 * rng.normal(size=len(X)) > 0).astype(int)
    grads = []
    for k in range(5):
        make = {
            "epsilon": 1.0,
            "data_norm": 1.0,
            "fit_intercept": False,
            "random_state": k,
        }
        coarse = models.LogisticRegression(**make).fit(X, y).coef_[0]
        fine = models.LogisticRegression(**make, tol=1e-14, max_iter=10_000).fit(X, y).coef_[0]
        gradients = []
        for w in (coarse, fine):
            share = 1 / (1 + np.exp(-X @ w))
            gradients.append(X.T @ (share - y) + w)
        grads.append(np.linalg.norm(gradients[0] - gradients[1]))
    print(
        "  LogisticRegression, default tol, 20,000 rows: the gradient left over is up to "
        f"{max(grads):.2f} times the most that one row can change it"
    )


def leaf(runs):
    """A leaf costs epsilon when a row goes, and two epsilon when a row changes."""

    def make(state):
        return models.DecisionTreeClassifier(
            epsilon=1.0, bounds=(0, 1), classes=[0, 1], max_depth=1, random_state=state
        )

    def event(model):
        return model.predict([[0.0]])[0] == 0

    X = np.zeros((13, 1))
    runs = min(runs, 5000)
    ones = count(make, X, np.repeat([0, 1], [5, 8]), event, runs, 5)
    more = count(make, X, np.repeat([0, 1], [6, 7]), event, runs, 6)
    report("DecisionTree leaf, one row changed (replace-one)", 1.0, more, ones, runs)
    gone = count(make, X[:12], np.repeat([0, 1], [5, 7]), event, runs, 7)
    report("DecisionTree leaf, one row dropped", 1.0, gone, ones, runs)


def forest_seeds(runs):
    """Published trees hold 31-bit seeds that replay their noise, thresholds included."""
    rng = np.random.RandomState(0)
    X, y = rng.uniform(0, 1, (200, 2)), rng.randint(0, 2, 200)
    params = {"epsilon": 1.0, "bounds": (0, 1), "classes": [0, 1], "max_depth": 4}
    model = models.RandomForestClassifier(n_estimators=4, **params).fit(X, y)
    seeds = [tree.random_state for tree in model.estimators_]
    part = slice(0, 50)  # the rows of the first tree
    again = models.DecisionTreeClassifier(random_state=seeds[0], **params).fit(
        X[part].astype(np.float32), y[part]
    )
    same = np.array_equal(again.tree_.value, model.estimators_[0].tree_.value)
    print(f"  RandomForest publishes the seeds {seeds}; first tree replayed exactly: {same}")
    fits = []
    for _ in range(2):
        np.random.seed(0)
        fits.append(models.RandomForestClassifier(n_estimators=4, **params).fit(X, y))
    equal = all(
        np.array_equal(a.tree_.value, b.tree_.value)
        for a, b in zip(fits[0].estimators_, fits[1].estimators_, strict=True)
    )
    print(f"  RandomForest(random_state=None) after np.random.seed(0), twice: same noise: {equal}")


def forest_partition(runs):
    """Dropping one row moves others from tree to tree, so add-remove is not one row's cost."""
    n, trees = 1000, 10
    before = (np.arange(n) // (n / trees)).astype(int)
    after = (np.arange(n - 1) // ((n - 1) / trees)).astype(int)
    moved = int((before[1:] != after).sum())
    print(f"  RandomForest, first of {n} rows dropped: {moved} other rows change their tree")


def forest_memory(runs):
    """Pickled trees carry bytes that were never written."""
    rng = np.random.RandomState(0)
    X, y = rng.uniform(0, 1, (200, 2)), rng.randint(0, 2, 200)
    dirty = 0
    for k in range(20):
        model = models.DecisionTreeClassifier(
            epsilon=1.0, bounds=(0, 1), classes=[0, 1], max_depth=6, random_state=k
        ).fit(X, y)
        nodes = pickle.loads(pickle.dumps(model.tree_)).__getstate__()["nodes"]
        raw = np.frombuffer(nodes.tobytes(), dtype=np.uint8).reshape(len(nodes), -1)
        dirty += int((raw[:, 57:] != 0).sum())
    print(f"  DecisionTree: {dirty} non-zero bytes of stale memory in the padding of 20 pickled trees")


def naive_bayes(runs):
    """Sums of rows far from 0 have noise for the width of the bounds only; absent classes get none."""

    def make(state):
        return models.GaussianNB(epsilon=1.0, bounds=(100.0, 101.0), random_state=state)

    def event(model):
        return model.class_count_[0] == 5 and 100 < model.theta_[0, 0] < 101

    X = np.full((10, 1), 100.5)
    runs = min(runs, 3000)
    first = count(make, X, np.repeat([0, 1], 5), event, runs, 8)
    second = count(make, X[:9], np.repeat([0, 1], [4, 5]), event, runs, 9)
    report("GaussianNB, bounds=(100, 101), a row dropped", 1.0, first, second, runs)
    alone = models.GaussianNB(epsilon=1.0, bounds=(0, 1)).fit(np.ones((6, 1)), [0] * 5 + [1])
    none = models.GaussianNB(epsilon=1.0, bounds=(0, 1)).fit(np.ones((6, 1)), [0] * 6)
    print(f"  GaussianNB, one label changed: classes_ {alone.classes_} against {none.classes_}")


def close_bounds(runs):
    """Bounds within 1e-8, or a relative 1e-5, of each other are taken for the widest of them."""
    bounds = (np.array([1.6e9, 1.600012e9]), np.array([1.600003e9, 1.600015e9]))
    clipped = clip_to_bounds(np.array([[2e9, 2e9]]), bounds)
    print(
        f"  clip_to_bounds, upper bounds {bounds[1].tolist()}: a row is clipped to {clipped[0].tolist()}; "
        "the first column may stray 5 times as far as its width of 3000"
    )


def linear_regression(runs):
    """The lower bound is squared twice; several targets overspend; rows are not clipped."""
    rng = np.random.RandomState(0)
    X, y = rng.uniform(0, 100, (50, 1)), rng.uniform(0, 1, 50)
    params = {"epsilon": 1.0, "bounds_X": (0, 100), "bounds_y": (0, 1), "fit_intercept": False}
    model = models.LinearRegression(**params).fit(X, y)
    exact = float((X**2).sum())
    released = float(model._obj_coefs[2][0, 0])
    print(f"  LinearRegression, bounds_X=(0, 100): sum of squares released without noise: {released == exact}")
    spent = _spent(
        lambda: models.LinearRegression(
            epsilon=1.0, bounds_X=(-1, 1), bounds_y=([0] * 5, [1] * 5), fit_intercept=False
        ).fit(X / 100, np.tile(y[:, None], 5))
    )
    print(f"  LinearRegression, 5 targets, 1 column, epsilon 1: queries spend {spent:.2f}")
    wild = X.copy()
    wild[0] = 1e6
    params["bounds_X"] = (-100, 100)
    big = models.LinearRegression(**params).fit(wild, y)._obj_coefs[2][0, 0]
    print(f"  LinearRegression, a row of 1e6 under bounds_X=(-100, 100): sum of squares {big:.3g}")


def _spent(run):
    """Add up the epsilon of every mechanism built by ``run()``."""
    total = [0.0]
    constructor = DPMechanism.__init__

    def watched(self, *, epsilon, delta, random_state=None):
        total[0] += epsilon
        constructor(self, epsilon=epsilon, delta=delta, random_state=random_state)

    DPMechanism.__init__ = watched
    try:
        run()
    finally:
        DPMechanism.__init__ = constructor
    return total[0]


def kmeans(runs):
    """The shares of the count and of the columns are exchanged."""
    for dims in (2, 5, 20, 100):
        model = models.KMeans(3, epsilon=1.0, bounds=(0, 1))
        iterations = 7
        to_count, to_column = model._split_epsilon(dims, iterations)
        print(
            f"  KMeans, {dims} columns, epsilon 1: each cluster spends "
            f"{iterations * (to_count + dims * to_column):.3f} in {iterations} iterations"
        )


def bingham(runs):
    """The eigenvector sampler accepts with the wrong power of its envelope."""
    epsilon, runs = 2.0, min(runs, 10_000)
    moments = np.diag([8.0, 0.0])
    angle = (np.arange(20_000) + 0.5) * np.pi / 20_000
    density = np.exp(epsilon / 4 * 8 * np.cos(angle) ** 2)
    exact = density[np.abs(np.cos(angle)) > 0.8].sum() / density.sum()
    mechanism = Bingham(epsilon=epsilon, random_state=np.random.RandomState(0))
    hits = sum(abs(mechanism.randomise(moments)[0]) > 0.8 for _ in range(runs))
    print(
        f"  Bingham in the plane: |u_1| > 0.8 came with probability {hits / runs:.3f}; its density says "
        f"{exact:.3f}"
    )
    # Two leading directions, then one row along the first of them goes; the d - 2 others are far behind.
    # With A = 1 + epsilon cos^2 / (2 b), the code draws the angle on the leading circle with density
    # exp(-epsilon cos^2 / 4) times the integral of exp(-b x / 2) (A + x)^-d x^((d - 4) / 2) over x > 0.
    b = (1.5 + np.sqrt(1.5**2 + 2)) / 2  # 1/b + 1/(b + 1/2) = 1, for epsilon 1
    cos2 = np.cos(angle[::50]) ** 2
    x = np.geomspace(1e-6, 1e3, 4000)
    for d in (10, 20, 30):
        inner = np.exp(-b * x / 2) * x ** ((d - 4) / 2)
        drawn = np.exp(-cos2 / 4) * [np.trapezoid(inner * (1 + c / (2 * b) + x) ** -d, x) for c in cos2]
        ratio = np.log((cos2 > 0.9).mean() / (drawn[cos2 > 0.9].sum() / drawn.sum()))
        print(f"  Bingham, {d} columns, epsilon 1, a row dropped: exact log-ratio of an event {ratio:.2f}")


def accountants(runs):
    """A cloned model charges a copy of the accountant."""
    mine = diffprivlib.BudgetAccountant()
    base = models.GaussianNB(epsilon=1.0, bounds=(0, 1), accountant=mine)
    for _ in range(5):
        clone(base).fit(np.ones((4, 1)), [0, 0, 1, 1])
    print(f"  BudgetAccountant after five fits of clones at epsilon 1: total {mine.total()[0]}")


CHECKS = {
    check.__name__: check
    for check in (
        logistic_intercept,
        logistic_curvature,
        logistic_residual,
        leaf,
        forest_seeds,
        forest_partition,
        forest_memory,
        naive_bayes,
        close_bounds,
        linear_regression,
        kmeans,
        bingham,
        accountants,
    )
}


def main():
    """Run the checks named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[1])
    parser.add_argument("--only", choices=sorted(CHECKS), action="append")
    parser.add_argument("--runs", type=int, default=20_000, help="fits of each data set")
    arguments = parser.parse_args()
    for name in arguments.only or CHECKS:
        print(f"{name}: {CHECKS[name].__doc__.splitlines()[0]}")
        CHECKS[name](arguments.runs)


if __name__ == "__main__":
    main()
