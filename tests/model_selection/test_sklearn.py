"""scikit-learn's own checks."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from skdptune import PrivateRandomSearchCV
from skdptune.run_counts import Fixed
from skdptune.scoring import AbsoluteErrorScorer
from tests.model_selection.estimators import PrivateMajority, PrivateMean

# Check name -> why it cannot hold. Keep it short.
EXPECTED_FAILURES = {}

SEARCHES = [
    PrivateRandomSearchCV(PrivateMajority(), {"scale": [0.1, 0.2]}, n_iter=Fixed(3)),
    PrivateRandomSearchCV(
        PrivateMean(lower=-10, upper=10),
        {"scale": [0.1, 0.2]},
        n_iter=Fixed(3),
        scoring=AbsoluteErrorScorer(lower=-10, upper=10),
    ),
]


@pytest.mark.filterwarnings("ignore::skdptune._exceptions.PublicSeedWarning")
@parametrize_with_checks(SEARCHES, expected_failed_checks=lambda estimator: EXPECTED_FAILURES)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_expected_failures_are_few():
    assert len(EXPECTED_FAILURES) <= 3 and np.all([len(reason) > 20 for reason in EXPECTED_FAILURES.values()])
