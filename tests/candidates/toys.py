"""Test candidates. None of them looks at the rows unless its name says so."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

ORDERS = np.array([1.1, 1.5, 2.0, 4.0, 8.0, 16.0, 64.0, 256.0])


class Toy(ClassifierMixin, BaseEstimator):
    """Ignores the data: draws z ~ N(0, s^2) and predicts ``int(z > 0)`` for every row."""

    privacy_params = ("s",)
    published_attributes = ("z_", "classes_", "n_features_in_", "feature_names_in_")

    def __init__(self, s=1.0, random_state=None):
        self.s = s
        self.random_state = random_state

    def rdp_curve(self, orders):
        return np.asarray(orders, dtype=float) / (2 * self.s**2)

    def with_budget(self, level):
        # the least s with a / (2 s^2) <= level at every order a
        needed = np.sqrt(np.max(ORDERS / (2 * level.rdp(ORDERS))))
        return clone(self).set_params(s=float(needed) * (1 + 1e-9))

    def _draw(self):
        return check_random_state(self.random_state).normal(0.0, self.s)

    def fit(self, X, y=None):
        validate_data(self, X, dtype=None, accept_sparse=True, ensure_all_finite=False)
        self.classes_ = np.array([0, 1])
        self.z_ = float(self._draw())
        return self

    def predict(self, X):
        check_is_fitted(self, "z_")
        return np.full(np.shape(X)[0], self.classes_[int(self.z_ > 0)])

    def predict_proba(self, X):
        check_is_fitted(self, "z_")
        share = 1 / (1 + np.exp(-self.z_))
        return np.tile([1 - share, share], (np.shape(X)[0], 1))


class GlobalToy(Toy):
    """A Toy that draws from numpy's global generator."""

    def _draw(self):
        return np.random.normal(0.0, self.s)


class UndeclaredToy(Toy):
    """A Toy that names neither its cost parameters nor its outputs."""

    privacy_params = None
    published_attributes = None


class RelationToy(Toy):
    """A Toy that vouches for two relations only."""

    privacy_relations = ("zero-out", "add-remove")


class FixedToy(ClassifierMixin, BaseEstimator):
    """States a cost but cannot be calibrated."""

    def __init__(self, s=1.0):
        self.s = s

    def rdp_curve(self, orders):
        return np.asarray(orders, dtype=float) / (2 * self.s**2)


class CurveToy(Toy):
    """A Toy whose ``rdp_curve`` returns whatever the test gives it."""

    def __init__(self, curve=None, s=1.0, random_state=None):
        self.curve = curve
        super().__init__(s=s, random_state=random_state)

    def rdp_curve(self, orders):
        return self.curve(np.asarray(orders, dtype=float))


class GaussianToy(Toy):
    """A Toy with a dominating pair: one Gaussian mechanism."""

    @property
    def privacy_curve(self):
        from skdptune.accounting import PrivacyCurve

        return PrivacyCurve.gaussian(self.s)

    def with_budget(self, level):
        from skdptune.accounting import PrivacyCurve
        from skdptune.candidates import LevelFamily, largest_below

        family = LevelFamily(PrivacyCurve.gaussian, 1e-2, 1e4, increasing=False)
        return clone(self).set_params(s=largest_below(family, level))


class SizedToy(Toy):
    """A Toy whose cost depends on the number of rows and on the relation."""

    def privacy_curve(self, n_samples, relation="zero-out"):
        from skdptune.accounting import PrivacyCurve

        factor = 2.0 if relation == "replace-one" else 1.0
        return PrivacyCurve.zcdp(factor * 10.0 / n_samples / self.s**2, relation=relation)


class FailingToy(Toy):
    """Raises in a share of the fits (by its own coin, not by the rows)."""

    def __init__(self, s=1.0, share=0.5, random_state=None):
        self.share = share
        super().__init__(s=s, random_state=random_state)

    def fit(self, X, y=None):
        rng = check_random_state(self.random_state)
        if rng.uniform() < self.share:
            raise RuntimeError(f"a row was {np.asarray(X)[0]!r}")
        return super().fit(X, y)


class PlantedToy(Toy):
    """Keeps everything it should not beside its one private output."""

    published_attributes = None

    def fit(self, X, y=None):
        super().fit(X, y)
        self.X_ = np.array(X)
        self.view_ = np.asarray(X)[:1]
        self.y_ = np.array(y)
        self.n_iter_ = 12
        self.history_ = [{"loss": 3.5}]
        self.generator_ = np.random.default_rng(0)
        self.state_ = {"inner": [np.random.RandomState(0)]}
        self.module_ = np
        self.method_ = self.fit
        self.inner_ = Toy(random_state=11).fit(X)
        self._hidden = np.array(X)
        self.scratch = 1
        return self


class SmugglingToy(Toy):
    """Declares a generator as a private output."""

    published_attributes = ("z_", "generator_")

    def fit(self, X, y=None):
        super().fit(X, y)
        self.generator_ = np.random.default_rng(0)
        return self


class ClassesToy(Toy):
    """Takes its label set as a parameter."""

    def __init__(self, s=1.0, classes=None, random_state=None):
        self.classes = classes
        super().__init__(s=s, random_state=random_state)

    def fit(self, X, y=None):
        super().fit(X, y)
        self.classes_ = np.asarray(self.classes)
        return self


class ToyRegressor(RegressorMixin, Toy):
    """Predicts its own noise."""

    def predict(self, X):
        check_is_fitted(self, "z_")
        return np.full(np.shape(X)[0], self.z_)


class ToyScaler(TransformerMixin, BaseEstimator):
    """A transformer with a cost: shifts all columns by noise."""

    privacy_params = ("s",)
    published_attributes = ("shift_", "n_features_in_", "feature_names_in_")

    def __init__(self, s=1.0, random_state=None):
        self.s = s
        self.random_state = random_state

    rdp_curve = Toy.rdp_curve
    with_budget = Toy.with_budget

    def fit(self, X, y=None):
        validate_data(self, X, dtype=None)
        self.shift_ = float(check_random_state(self.random_state).normal(0.0, self.s))
        return self

    def transform(self, X):
        check_is_fitted(self, "shift_")
        return np.asarray(X, dtype=float) + self.shift_
