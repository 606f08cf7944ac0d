"""Scorers and noises of one's own: what they may change, and what the price would not hold for."""

import types

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier

from skdptune import PrivateRandomSearchCV
from skdptune._exceptions import InvalidTypeError, ScoringRefusedError
from skdptune.accounting import PrivacyCurve
from skdptune.scoring import AccuracyScorer, PrivateScorer, ScoreNoise, as_score_noise, resolve_private_scorer
from tests.candidates.toys import Toy

X, Y = np.zeros((20, 2)), np.arange(20) % 2
MODEL = DummyClassifier().fit(X, Y)


class Exact(AccuracyScorer):
    def release(self, total, n_rows, noise, seed=None, *, multiplicity=1):
        return total / n_rows


class Thousandfold(AccuracyScorer):
    def count(self, estimator, X, y):
        return 1000 * super().count(estimator, X, y)


class Wider(AccuracyScorer):
    def _natural(self, share):
        return 1000 * share


class Unclipped(AccuracyScorer):
    def _sanitised(self, estimator, X, y):
        return np.full(len(X), 50.0)


@pytest.mark.parametrize("kind", [Exact, Thousandfold, Wider, Unclipped])
def test_a_scorer_that_counts_or_releases_in_its_own_way_is_refused(kind):
    with pytest.raises(ScoringRefusedError, match=rf"\({kind.__name__}\) must leave .* no price. Implement row_scores"):
        resolve_private_scorer(kind(), MODEL)
    search = PrivateRandomSearchCV(Toy(), {"s": [1.0]}, n_iter=1, scoring=kind(), classes=[0, 1])
    with pytest.raises(ScoringRefusedError):
        search.fit(X, Y)
    assert not hasattr(search, "privacy_spent_")


def test_a_method_set_on_an_instance_is_refused():
    scorer = AccuracyScorer()
    scorer.release = types.MethodType(Exact.release, scorer)
    with pytest.raises(ScoringRefusedError, match="must leave release"):
        resolve_private_scorer(scorer, MODEL)


class Moody(PrivateScorer):
    """Sets its own range and lattice while it scores."""

    resolution = 4

    def row_scores(self, estimator, X, y):
        self.resolution, self.maximum, self.minimum = 2**20, 1000.0 * float(np.sum(y)), -5.0
        return np.ones(len(y))


def test_what_row_scores_sets_on_its_scorer_changes_no_count_and_no_range():
    scorer = resolve_private_scorer(Moody(), MODEL)
    assert [scorer.count(MODEL, X, Y) for _ in range(3)] == [80] * 3
    assert scorer.release(80, 20, ScoreNoise.none()) == 1.0 == scorer(MODEL, X, Y)
    search = PrivateRandomSearchCV(Toy(), {"s": [1.0]}, n_iter=1, scoring=Moody(), classes=[0, 1], cv=2)
    search.set_params(score_noise=ScoreNoise.geometric(0.05), refit=False)
    assert search.fit(X, Y).best_score_ == pytest.approx(1.0, abs=0.2)


def test_noise_of_a_subclass_is_refused():
    class Silent(ScoreNoise):
        def sample(self, seed=None):
            return 0

    with pytest.raises(InvalidTypeError, match="a ScoreNoise itself, not of a subclass.*Silent"):
        as_score_noise(Silent.geometric(3.0), PrivacyCurve.pure(1.0))
    assert as_score_noise(ScoreNoise.geometric(3.0), PrivacyCurve.pure(1.0)).kind == "geometric"
