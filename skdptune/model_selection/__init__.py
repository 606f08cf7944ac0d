"""The search itself: estimator, splits, and what was spent."""

from skdptune.model_selection._search import PrivateRandomSearchCV
from skdptune.model_selection._spent import PrivacySpent
from skdptune.model_selection._splits import Holdout, IndependentHoldout

__all__ = ["Holdout", "IndependentHoldout", "PrivacySpent", "PrivateRandomSearchCV"]
