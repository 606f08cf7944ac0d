"""The search itself: estimator, splits, and what was spent."""

from skdptune.model_selection._final_score import ReleasedScore, release_test_score
from skdptune.model_selection._padding import FixedTimeError, PaddedRandomSearchCV, fixed_time
from skdptune.model_selection._search import PrivateRandomSearchCV
from skdptune.model_selection._spent import PrivacySpent
from skdptune.model_selection._splits import Holdout, IndependentHoldout

__all__ = [
    "FixedTimeError",
    "Holdout",
    "IndependentHoldout",
    "PaddedRandomSearchCV",
    "PrivacySpent",
    "PrivateRandomSearchCV",
    "ReleasedScore",
    "fixed_time",
    "release_test_score",
]
