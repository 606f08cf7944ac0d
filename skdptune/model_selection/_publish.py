"""What leaves a search: an allow-list, and one default where there is nothing to leave."""

import contextlib
import math
import warnings

import numpy as np
from sklearn.base import is_regressor
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.exceptions import NotFittedError

__all__ = ["ALLOWED", "NotPublished", "default_model", "publish"]

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


def default_model(estimator, classes, n_features):
    """Return the model published when no run succeeded: a constant that no row has touched.

    Parameters
    ----------
    estimator : estimator
        The template, asked only whether it is a regressor.
    classes : ndarray of shape (n_classes,) or None
    n_features : int

    Returns
    -------
    DummyClassifier or DummyRegressor
        Always predicts the first class, or zero.
    """
    if is_regressor(estimator) or classes is None:
        model = DummyRegressor(strategy="constant", constant=0.0)
        return model.fit(np.zeros((1, n_features)), np.zeros(1))
    model = DummyClassifier(strategy="constant", constant=classes[0])
    return model.fit(np.zeros((len(classes), n_features)), classes)


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
