"""Prices of every kind that a report must survive."""

from dataclasses import replace

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdptune import PrivateRandomSearchCV
from skdptune.accounting import PrivacyCurve, best_of
from skdptune.model_selection import IndependentHoldout, PrivacySpent, release_test_score
from skdptune.run_counts import AtMost, Finite, Fixed, FromScipy, Geometric, Logarithmic, Poisson
from skdptune.scoring import ScoreNoise
from tests.model_selection.estimators import PrivateMajority, PrivateMean

ROWS = 60


class Level(PrivateMajority):
    """A majority that can be calibrated."""

    def privacy_curve(self, n_samples=None):
        return PrivacyCurve.pure(1 / self.scale)

    def with_budget(self, level):
        return type(self)(scale=1 / level.epsilon(0.0))


def rows(n=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    return rng.random((n, 2)), np.arange(n) % 2


def search(estimator=None, space=None, **options):
    options.setdefault("n_iter", Logarithmic(5))
    estimator = PrivateMajority() if estimator is None else estimator
    return PrivateRandomSearchCV(estimator, {"scale": [1.0, 2.0]} if space is None else space, **options)


def released(dearer, **options):
    """Return a test score of a search, where the "search" or the "score" is the dearer one."""
    noise = {"search": 20.0, "score": ScoreNoise.geometric(0.1)}[dearer]
    number = {"n_rows": 40} if options.get("relation") == "add-remove" else {}
    fitted = search(**options).fit(*rows())
    return release_test_score(fitted, *rows(37, 1), score_noise=noise, **number)


def handmade(curve, run_count=None, relation="zero-out", n_samples=100, **more):
    """A price that no search made."""
    run_count = Geometric(5) if run_count is None else run_count
    whole = best_of(curve, run_count)
    return PrivacySpent(
        curve=whole,
        single_run=curve,
        selection=whole,
        refit=None,
        run_count=run_count,
        row_curves=(curve,),
        relation=relation,
        n_samples=n_samples,
        score_noise=None,
        **more,
    )


def _zipf():
    from scipy import stats

    return FromScipy(stats.zipf(1.8))


def quotes():
    """Return names and prices: one of every kind."""
    wide = {"scale": [1.0 + i / 7 for i in range(43)]}
    pipeline = make_pipeline(FunctionTransformer(), PrivateMajority())
    nested = search(search(n_iter=Geometric(2)), {"n_iter": [2, 3]})
    return {
        "plain": search().privacy_cost(ROWS),
        "without n": search(score_noise=5.0).privacy_cost(),
        "folds and refit": search(cv=3, refit=True).privacy_cost(ROWS),
        "replace-one": search(Level(), relation="replace-one").privacy_cost(ROWS),
        "add-remove": search(relation="add-remove", cv=IndependentHoldout(70)).privacy_cost(ROWS),
        "public validation": search().privacy_cost(ROWS, public_validation=True),
        "target": search(Level(), {"random_state": [None]}, epsilon=3.0, delta=0.0, refit=False).privacy_cost(ROWS),
        "delta of its own": search(delta=1e-7).privacy_cost(ROWS),
        "regression": search(PrivateMean(), scoring=_bounded(), n_iter=Poisson(3)).privacy_cost(ROWS),
        "many values": search(space=wide).privacy_cost(ROWS),
        "several spaces": search(space=[{"scale": [1.0]}, {"scale": [2.0]}]).privacy_cost(ROWS),
        "pipeline": search(pipeline, {"privatemajority__scale": [1.0, 2.0]}).privacy_cost(ROWS),
        "nested": nested.privacy_cost(ROWS),
        "seeded": search(random_state=3).privacy_cost(ROWS),
        "one sure run": search(n_iter=Fixed(1)).privacy_cost(ROWS),
        "capped": search(n_iter=AtMost(Logarithmic(5), 8)).privacy_cost(ROWS),
        "finite": search(n_iter=Finite(np.full(20, 0.05))).privacy_cost(ROWS),
        "no cost": handmade(PrivacyCurve.pure(0.0)),
        "huge": handmade(PrivacyCurve.pure(750.0), Fixed(1)),
        "large": handmade(PrivacyCurve.pure(20.0)),
        "infinite": handmade(PrivacyCurve.approximate(1.0, 0.3), n_samples=None),
        "hopeless": handmade(PrivacyCurve.approximate(1.0, 1.0), relation="add-remove", n_samples=None),
        # pricing an infinite mean takes a minute; what is said about the tries does not need it
        "infinite mean": replace(handmade(PrivacyCurve.pure(0.5)), run_count=_zipf()),
        "no versions": handmade(PrivacyCurve.zcdp(0.1), versions=()),
    }


def _bounded():
    from skdptune.scoring import AbsoluteErrorScorer

    return AbsoluteErrorScorer(lower=0.0, upper=1.0)
