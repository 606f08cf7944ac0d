"""Small private estimators that look at their rows: well-behaved scikit-learn citizens."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data


class _Laplace(BaseEstimator):
    privacy_params = ("scale",)

    def rdp_curve(self, orders):
        return np.full(len(np.atleast_1d(orders)), 1 / self.scale)


class PrivateMajority(ClassifierMixin, _Laplace):
    """Predicts the label with the largest noisy count; one row moves one count by at most 1."""

    published_attributes = ("classes_", "counts_", "n_features_in_", "feature_names_in_")

    def __init__(self, scale=1.0, random_state=None):
        self.scale = scale
        self.random_state = random_state

    def fit(self, X, y):
        X, y = validate_data(self, X, y)
        check_classification_targets(y)
        self.classes_, counts = np.unique(y, return_counts=True)
        noise = check_random_state(self.random_state).laplace(scale=self.scale, size=counts.size)
        self.counts_ = counts + noise
        return self

    def predict(self, X):
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        return np.repeat(self.classes_[[np.argmax(self.counts_)]], len(X))


class PrivateMean(RegressorMixin, _Laplace):
    """Predicts a noisy mean of the clipped targets."""

    def __init__(self, lower=0.0, upper=1.0, scale=1.0, random_state=None):
        self.lower = lower
        self.upper = upper
        self.scale = scale
        self.random_state = random_state

    def fit(self, X, y):
        X, y = validate_data(self, X, y, y_numeric=True)
        width = self.upper - self.lower
        noise = check_random_state(self.random_state).laplace(scale=self.scale * width / len(y))
        self.mean_ = float(np.clip(y, self.lower, self.upper).mean() + noise)
        return self

    def predict(self, X):
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        return np.full(len(X), self.mean_)
