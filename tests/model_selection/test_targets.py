"""A target for the whole search: every candidate below one level, and the level is what is priced."""

import numpy as np
import pytest

from skdptune import PrivateRandomSearchCV
from skdptune._exceptions import CandidateRefusedError, PricingError, UnreachableTargetError
from skdptune.accounting import PrivacyCurve
from skdptune.run_counts import Geometric
from tests.candidates.toys import GaussianToy, Toy

ROWS = np.zeros((50, 2)), np.arange(50) % 2


class Uncalibrated(GaussianToy):
    with_budget = None


def search_over(estimator=None, space=None, **params):
    space = {"random_state": [None]} if space is None else space
    defaults = {"epsilon": 2.0, "delta": 1e-5, "n_iter": Geometric(4)}
    return PrivateRandomSearchCV(estimator or GaussianToy(), space, **{**defaults, **params})


@pytest.mark.parametrize("params", [{}, {"refit": True}, {"cv": 3, "refit": True}, {"score_noise": 50.0}])
@pytest.mark.parametrize("toy", [GaussianToy, Toy])
def test_the_target_is_met_from_below(toy, params):
    search = search_over(toy(), **params)
    spent = search.privacy_cost(50)
    assert 2.0 * (1 - 1e-3) <= spent.epsilon(1e-5) <= 2.0
    search.fit(*ROWS)
    assert search.privacy_spent_ == spent
    if not params:
        trained = search.best_estimator_
        curve = PrivacyCurve.gaussian(trained.s) if toy is GaussianToy else None
        if curve is not None:
            assert curve.lies_below(spent.single_run)
            assert not PrivacyCurve.gaussian(trained.s * 0.98).lies_below(spent.single_run)


def test_folds_leave_less_for_each_training():
    holdout = search_over().privacy_cost(50).single_run
    folds = search_over(cv=4, refit=False).privacy_cost(50).single_run
    assert folds.epsilon(1e-5) == pytest.approx(holdout.epsilon(1e-5), rel=0.05)  # a run costs as much in both


def test_a_target_needs_a_delta_and_a_candidate_that_can_be_calibrated():
    with pytest.raises(ValueError, match="delta must be given together with epsilon"):
        search_over(delta=None).privacy_cost(50)
    with pytest.raises(PricingError, match="with_budget"):
        search_over(Uncalibrated()).privacy_cost(50)


def test_an_unreachable_target_states_the_nearest():
    with pytest.raises(UnreachableTargetError, match="cannot be met.*costs"):
        search_over(score_noise=0.5, epsilon=0.5).privacy_cost(50)


def test_the_calibrated_parameter_cannot_be_searched():
    with pytest.raises(CandidateRefusedError, match="'s', which the target epsilon= calibrates"):
        search_over(space={"s": [1.0, 2.0]}).fit(*ROWS)


def test_a_candidate_above_the_level_is_not_trained():
    class Greedy(GaussianToy):
        def with_budget(self, level):
            from sklearn.base import clone

            return clone(self).set_params(s=0.01)

        def fit(self, X, y=None):
            raise AssertionError("trained")

    with pytest.raises(PricingError, match="below the level"):
        search_over(Greedy()).fit(*ROWS)
