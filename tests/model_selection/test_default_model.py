"""What is published where no try succeeds or none is drawn: one constant, for whatever labels and rows a fit takes."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone, is_classifier, is_regressor
from sklearn.utils import estimator_html_repr

from skdptune import PrivateRandomSearchCV
from skdptune._exceptions import AllRunsFailedError
from skdptune.ledger import PrivacyLedger
from skdptune.model_selection._publish import ConstantClassifier, ConstantRegressor, default_model
from skdptune.run_counts import Finite, Fixed
from skdptune.scoring import AbsoluteErrorScorer, ClippedLogLossScorer

HALF = np.arange(40) % 2
NONE = Finite([1 - 1e-12, 1e-12])  # no try at all, but once in a lifetime


class Fails(ClassifierMixin, BaseEstimator):
    privacy_params = ()

    def __init__(self, random_state=None):
        self.random_state = random_state

    def rdp_curve(self, orders):
        return np.asarray(orders) / 32

    def fit(self, X, y):
        raise ValueError

    def predict(self, X):
        raise ValueError

    predict_proba = predict

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.dict = tags.input_tags.three_d_array = True
        return tags


class FailsToo(RegressorMixin, Fails):
    _estimator_type = "regressor"


def labels(*two, **how):
    return np.array(two, **how)[HALF]


LABELS = [
    labels(0, 1),
    labels(3, -1),
    labels(0, 200, dtype=np.uint8),
    labels(0.0, 1.0),
    labels(0, 1, dtype=np.float32),
    labels(0, 1, dtype=np.float16),
    labels(False, True),
    labels("no", "yes"),
    labels("no", "a longer yes", dtype=object),
    pd.Series(labels("no", "yes")),
    pd.Series(labels("no", "yes"), dtype="category"),
    labels(0, 1).tolist(),
    labels(0.0, 1.0).tolist(),
    labels(False, True).tolist(),
    labels("no", "yes").tolist(),
]


def fitted(tries, X=None, y=HALF, estimator=None, **params):
    params.setdefault("n_iter", NONE if tries == "none" else Fixed(2))
    search = PrivateRandomSearchCV(estimator or Fails(), {"random_state": [None]}, **params)
    X = np.ones((40, 2)) if X is None else X
    if tries == "none":
        return search.fit(X, y)
    with pytest.raises(AllRunsFailedError):
        search.fit(X, y)
    return search


def check(search, X, ledger=None):
    model, first = search.best_estimator_, search.classes_[0]
    assert search.best_params_ is None
    assert np.isnan(search.best_score_)
    assert is_classifier(model)
    assert model.classes_.dtype == search.classes_.dtype
    assert model.classes_.tolist() == search.classes_.tolist()
    assert model.classes_ is not search.classes_
    for each in (search, model, pickle.loads(pickle.dumps(model))):
        predicted = each.predict(X)
        assert predicted.shape == (40,)
        assert predicted.dtype == search.classes_.dtype
        assert all(type(label) is type(first) and label == first for label in predicted)
        assert each.predict_proba(X).tolist() == [[1.0] + [0.0] * (len(search.classes_) - 1)] * 40
        assert np.array_equal(np.exp(each.predict_log_proba(X)), each.predict_proba(X))
    assert search.privacy_spent_.stage == "spent"
    if ledger is not None:
        assert len(ledger.entries()) == 1


@pytest.mark.parametrize("tries", ["none", "failing"])
@pytest.mark.parametrize("y", LABELS, ids=lambda y: f"{type(y).__name__} {getattr(y, 'dtype', type(y[0]).__name__)}")
def test_every_label_set_has_its_default(tries, y, tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger.json", epsilon=50, delta=1e-3)
    search = fitted(tries, y=y, ledger=ledger)
    check(search, np.ones((40, 2)), ledger)
    assert search.score(np.ones((40, 2)), np.asarray(y)) == 0.5
    declared = fitted(tries, y=y, classes=search.classes_.tolist())
    check(declared, np.ones((40, 2)))


@pytest.mark.parametrize("tries", ["none", "failing"])
@pytest.mark.parametrize(
    ("classes", "y"), [([0.0, 1.0], HALF), ([0, 1], HALF.astype(float)), (np.array([0, 1], dtype=object), HALF)]
)
def test_declared_labels_of_another_type(tries, classes, y):
    check(fitted(tries, y=y, classes=classes), np.ones((40, 2)))


@pytest.mark.parametrize("tries", ["none", "failing"])
@pytest.mark.parametrize(
    "X",
    [
        np.ones((40, 2), dtype=np.float32),
        np.ones((40, 2)).tolist(),
        pd.DataFrame(np.ones((40, 2)), columns=["a", "b"]),
        csr_matrix((40, 2**31), dtype=float),
        np.ones((40, 1, 4, 4)),
        {"a": np.ones((40, 2)), "b": np.ones((40, 3))},
    ],
    ids=["array", "list", "frame", "very wide", "images", "dict"],
)
def test_every_kind_of_rows_has_its_default(tries, X):
    check(fitted(tries, X), X)


@pytest.mark.parametrize("tries", ["none", "failing"])
@pytest.mark.parametrize("y", [np.linspace(-1, 1, 40), np.arange(40), np.linspace(0, 1, 40).astype(np.float32)])
def test_regressors_predict_zero(tries, y):
    search = fitted(tries, y=y, estimator=FailsToo(), scoring=AbsoluteErrorScorer(lower=0, upper=2))
    model = pickle.loads(pickle.dumps(search.best_estimator_))
    assert is_regressor(model)
    assert search.predict(np.ones((3, 2))).tolist() == model.predict(np.ones((3, 2))).tolist() == [0.0] * 3
    assert not hasattr(search, "classes_")


def test_the_default_is_scored_and_shown_as_any_model():
    search = fitted("none", y=HALF.astype(float), scoring=ClippedLogLossScorer(clip=4.0))
    assert search.score(np.ones((40, 2)), HALF.astype(float)) == -2.0
    assert "ConstantClassifier" in repr(search.best_estimator_)
    assert "ConstantClassifier" in estimator_html_repr(search.best_estimator_)
    assert search.best_estimator_.n_features_in_ == 2
    again = clone(search.best_estimator_).fit([[0.0]], ["b"])
    assert again.predict([[1.0], [2.0]]).tolist() == ["b", "b"]
    assert ConstantRegressor().fit([[0.0]], [1.0]).score([[0.0], [0.0]], [1.0, -1.0]) == 0.0


def test_labels_are_neither_compared_nor_sorted():
    odd = np.array([("b", 1), None, 2.5], dtype=object)
    model = default_model(Fails(), odd, None)
    assert isinstance(model, ConstantClassifier)
    assert model.predict([[0.0]])[0] == ("b", 1)
    assert model.classes_.tolist() == odd.tolist()


def test_the_sign_of_a_zero_in_one_row_is_not_published():
    search = fitted("none", y=labels(-0.0, 1.0))
    assert not np.signbit(search.classes_).any() and not np.signbit(search.best_estimator_.predict([[0.0]])).any()
