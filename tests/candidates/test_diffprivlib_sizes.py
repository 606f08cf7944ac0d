"""Bounds, norms and budgets with which floating-point numbers lose the noise, or a fit does not end: refused."""

import numpy as np
import pytest

from skdptune._exceptions import CandidateRefusedError
from skdptune.candidates import find_adapter
from skdptune.candidates._diffprivlib import _library
from skdptune.candidates._diffprivlib._logistic import minimise

_complaint = _library._complaint(_library._installed("diffprivlib"), _library._installed("scikit-learn"))
if _complaint is not None:
    pytest.skip(_complaint, allow_module_level=True)

from diffprivlib.models import (  # noqa: E402
    PCA,
    DecisionTreeClassifier,
    GaussianNB,
    LinearRegression,
    LogisticRegression,
    RandomForestClassifier,
    StandardScaler,
)

ROWS = np.random.RandomState(0).normal(size=(60, 2))
LABELS = np.arange(60) % 2
CLASSES = np.array([0, 1])


def sized(w, epsilon=1.0):
    """Return a model of each kind that takes bounds or norms of the size ``w``."""
    both = (-w, w)
    return {
        "scaler": StandardScaler(bounds=(0, w), epsilon=epsilon),
        "naive bayes": GaussianNB(bounds=both, epsilon=epsilon),
        "linear": LinearRegression(fit_intercept=False, bounds_X=both, bounds_y=(-1, 1), epsilon=epsilon),
        "linear, y": LinearRegression(fit_intercept=False, bounds_X=(-1, 1), bounds_y=both, epsilon=epsilon),
        "tree": DecisionTreeClassifier(bounds=both, classes=[0, 1], epsilon=epsilon),
        "forest": RandomForestClassifier(bounds=both, classes=[0, 1], epsilon=epsilon),
        "components": PCA(1, data_norm=1.0, bounds=both, epsilon=epsilon),
        "components, norm": PCA(1, data_norm=w, centered=True, epsilon=epsilon),
        "logistic": LogisticRegression(data_norm=w, fit_intercept=False, epsilon=epsilon),
        "logistic, C": LogisticRegression(data_norm=1.0, C=w, fit_intercept=False, epsilon=epsilon),
    }


KINDS = list(sized(1.0))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [3e-160, 1e-200, 1e-300, 5e-324])
def test_sizes_that_vanish_in_arithmetic_are_refused(kind, size):
    with pytest.raises(CandidateRefusedError, match=r"must be of a size between 1e-100 and 1e\+100"):
        find_adapter(sized(size)[kind]).check("zero-out")


@pytest.mark.parametrize("kind", ["components, norm", "logistic", "logistic, C"])
def test_norms_that_overflow_are_refused(kind):
    with pytest.raises(CandidateRefusedError, match=r"must be of a size between 1e-100 and 1e\+100"):
        find_adapter(sized(1e101)[kind]).check("zero-out")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epsilon", [1e-300, 1e-10, 1e10, 1e300])
def test_an_epsilon_beyond_use_is_refused(kind, epsilon):
    with pytest.raises(CandidateRefusedError, match=r"epsilon must be of a size between 1e-09 and 1e\+09"):
        find_adapter(sized(1.0, epsilon)[kind]).check("zero-out")


@pytest.mark.parametrize("bounds", [(0.0, 1e-101), (-1e-101, 1.0), ([0, 0], [1, 1e-120]), (2e-100, 2e-100 + 1e-110)])
def test_ends_and_widths_are_both_looked_at(bounds):
    with pytest.raises(CandidateRefusedError, match="each end, if it is not 0, and each width"):
        find_adapter(StandardScaler(bounds=bounds)).check("replace-one")


@pytest.mark.parametrize("size", [1e-100, 1e37])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("error")
def test_at_the_ends_of_the_range_noise_is_drawn(kind, size):
    adapter = find_adapter(sized(size)[kind])
    adapter.check("zero-out")
    target = LABELS.astype(float) if kind.startswith("linear") else LABELS
    fits = [adapter.fit(ROWS, target, classes=CLASSES, seed=None) for _ in range(4)]
    noisy = {"scaler": "var_", "naive bayes": "theta_", "components, norm": "explained_variance_"}
    name = noisy.get(kind, "n_features_in_")
    values = {np.asarray(getattr(fitted.model, name)).tobytes() for fitted in fits}
    assert len(values) == (1 if name == "n_features_in_" else 4)


def test_an_objective_too_flat_to_minimise_is_refused():
    for epsilon, C in ((1.0, 1e90), (40.0, 1e8)):
        find_adapter(LogisticRegression(data_norm=1.0, C=C, epsilon=epsilon, fit_intercept=False)).check("zero-out")
    with pytest.raises(CandidateRefusedError, match="C must be at most 1e12 / data_norm"):
        find_adapter(LogisticRegression(data_norm=10.0, C=1e13, epsilon=100.0, fit_intercept=False)).check("zero-out")


def test_parallel_rows_with_next_to_no_penalty_are_fitted():
    rows = np.full((200, 3), 0.5)
    target, noise = (np.arange(200) % 4 == 0).astype(float), np.full(3, 1e-3)  # along the rows: there is a minimum
    w = minimise(rows, target, 1e-30, noise)
    margin = rows @ w
    gradient = rows.T @ (1 / (1 + np.exp(-margin)) - target) + 1e-30 * w + noise
    assert np.linalg.norm(gradient) < 1e-6
