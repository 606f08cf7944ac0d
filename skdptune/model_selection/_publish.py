"""What leaves a search: an allow-list, and one default where there is nothing to leave."""

import contextlib
import math
import warnings

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from skdptune.model_selection._tidy import row_count

__all__ = ["ALLOWED", "ConstantClassifier", "ConstantRegressor", "NotPublished", "default_model", "publish"]

ALLOWED = (
    "best_params_",
    "best_score_",
    "best_estimator_",
    "privacy_spent_",
    "n_features_in_",
    "feature_names_in_",
    "classes_",
    "scorer_",
)


class NotPublished:
    """What stands in for an attribute that is absent, and says why; the attribute itself takes precedence.

    Parameters
    ----------
    name : str
    reason : str
        A clause.

    Examples
    --------
    >>> class Search:
    ...     best_index_ = NotPublished("best_index_", "it is not published")
    >>> hasattr(Search(), "best_index_")
    False
    """

    def __init__(self, name, reason):
        self._name, self._reason = name, reason

    def __get__(self, search, kind=None):
        if search is None:
            return self
        if "best_score_" not in vars(search):
            raise NotFittedError(
                f"this {type(search).__name__} has no {self._name}: it is not fitted yet. Call fit(X, y) first; "
                "privacy_cost(n_samples=...) states the price before."
            )
        raise AttributeError(f"this search published no {self._name}: {self._reason}.")


class ConstantClassifier(ClassifierMixin, BaseEstimator):
    """Predicts the first of its classes for every row, whatever kind of label that is and however rows are given.

    scikit-learn's own takes no numbers with a point and no truth values for its constant, and counts the rows of a dict
    of arrays by its keys.

    Examples
    --------
    >>> model = ConstantClassifier().fit([[0.0], [0.0]], [1.5, 0.5])
    >>> model.predict([[7.0]]), model.predict_proba([[7.0]])
    (array([0.5]), array([[1., 0.]]))
    """

    def fit(self, X, y):
        """Take the distinct labels of ``y`` for the classes; X is not looked at."""
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        """Return the first class for every row of X, shape (n_samples,)."""
        check_is_fitted(self)
        return self.classes_[np.zeros(row_count(X), dtype=np.intp)]

    def predict_proba(self, X):
        """Return 1 for the first class and 0 for the others, shape (n_samples, n_classes)."""
        check_is_fitted(self)
        probabilities = np.zeros((row_count(X), len(self.classes_)))
        probabilities[:, 0] = 1.0
        return probabilities

    def predict_log_proba(self, X):
        """Return 0 for the first class and minus infinity for the others, shape (n_samples, n_classes)."""
        return np.where(self.predict_proba(X) == 1.0, 0.0, -np.inf)

    def __sklearn_tags__(self):
        return _any_rows(super().__sklearn_tags__())


class ConstantRegressor(RegressorMixin, BaseEstimator):
    """Predicts zero for every row.

    Examples
    --------
    >>> ConstantRegressor().fit([[1.0]], [2.0]).predict([[1.0], [2.0]])
    array([0., 0.])
    """

    def fit(self, X, y):
        """Learn nothing."""
        self.constant_ = 0.0
        return self

    def predict(self, X):
        """Return zeros, shape (n_samples,)."""
        check_is_fitted(self)
        return np.full(row_count(X), self.constant_)

    def __sklearn_tags__(self):
        return _any_rows(super().__sklearn_tags__())


def _any_rows(tags):
    """Say of a model that it looks at no row."""
    tags.no_validation = True
    tags.input_tags.sparse = tags.input_tags.allow_nan = tags.input_tags.string = True
    for kind in (tags.classifier_tags, tags.regressor_tags):
        if kind is not None:
            kind.poor_score = True
    return tags


def default_model(estimator, classes, n_features):
    """Return the model published when no run succeeded: a constant that no row has touched.

    It is made after the charge, and nothing in it can fail: no table is made of the number of columns, and labels are
    not compared, sorted or converted.

    Parameters
    ----------
    estimator : estimator
        The template, asked only whether it is a regressor.
    classes : ndarray of shape (n_classes,) or None
    n_features : int or None

    Returns
    -------
    ConstantClassifier or ConstantRegressor
        Always predicts the first class, or zero.
    """
    if classes is None or is_regressor(estimator):
        model = ConstantRegressor()
        model.constant_ = 0.0
    else:
        model = ConstantClassifier()
        model.classes_ = classes.copy()
    if n_features is not None:
        model.n_features_in_ = n_features
    return model


def publish(search, outputs):
    """Set the published attributes of ``search``: exactly those of the allow-list, nothing else.

    Parameters
    ----------
    search : PrivateRandomSearchCV
    outputs : dict
        Attribute names to values; None values are left out for optional attributes.
    """
    unknown = set(outputs) - set(ALLOWED)
    if unknown:
        raise AssertionError(f"not on the list of published attributes: {sorted(unknown)}")
    for name in ALLOWED:
        if name in outputs:
            setattr(search, name, outputs[name])


def withdraw(search):
    """Remove every published attribute, so that a fit that fails leaves an unfitted estimator."""
    for name in ALLOWED:
        if name in vars(search):
            delattr(search, name)


def tell(text, stacklevel):
    """Warn; where warnings are errors, say nothing: what was paid for is published already, and must not be lost."""
    with contextlib.suppress(Exception):  # of a showwarning of somebody's own, as well
        warnings.warn(text, UserWarning, stacklevel=stacklevel)


def no_winner():
    """Return the published parameters and score where no run succeeded."""
    return {"best_params_": None, "best_score_": math.nan}
