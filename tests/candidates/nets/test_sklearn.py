"""scikit-learn's own checks of the four nets."""

import pytest

pytest.importorskip("torch")

from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402

from skdptune.candidates.nets import (  # noqa: E402
    DPLinearRegression,
    DPLogisticRegression,
    DPNeuralNetClassifier,
    DPNeuralNetRegressor,
)

# Check name -> why it cannot hold.
EXPECTED_FAILURES = {}

NETS = [
    DPNeuralNetClassifier(steps=20, expected_batch_size=30),
    DPNeuralNetRegressor(steps=20, expected_batch_size=30),
    DPLogisticRegression(steps=20),
    DPLinearRegression(steps=20),
]


@pytest.mark.filterwarnings("ignore::skdptune._exceptions.PublicSeedWarning")
@parametrize_with_checks(NETS, expected_failed_checks=lambda estimator: EXPECTED_FAILURES)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
