"""What every diffprivlib adapter shares: price, calibration, training without leaks, publication."""

import copy
import functools

import numpy as np
from sklearn.base import clone

from skdptune._exceptions import CandidateRefusedError, InvalidParameterError, PricingError
from skdptune.candidates._diffprivlib import _checks
from skdptune.candidates._diffprivlib._library import fresh_accountant
from skdptune.candidates._diffprivlib._randomness import ByteRandom
from skdptune.candidates._diffprivlib._rows import (
    column_names,
    encode_labels,
    numeric_rows,
    numeric_target,
)
from skdptune.candidates._protocol import CandidateAdapter, LevelFamily, largest_below

__all__ = ["DiffprivlibAdapter", "TrainedModel", "blank"]

_ASKED_WITH_ROWS = (
    "predict",
    "predict_proba",
    "predict_log_proba",
    "decision_function",
    "transform",
)
_LOWEST_LEVEL, _HIGHEST_LEVEL = 1e-6, 50.0
_EPSILONS = 1e-9, 1e9  # below, noise leaves every bound and counts leave 64 bits; above, it is lost in rounding


def blank(estimator, **params):
    """Return a new estimator of the same class and parameters, without seed and without a shared ledger.

    Parameters
    ----------
    estimator : estimator
    **params
        Parameters to set otherwise.
    """
    kept = {
        name: clone(value, safe=False) for name, value in estimator.get_params(deep=False).items()
    }
    kept["accountant"] = fresh_accountant()
    if "random_state" in kept:
        kept["random_state"] = None
    return type(estimator)(**{**kept, **params})


class TrainedModel:
    """A fitted model in the curator's hands, which answers for every row it is shown.

    Parameters
    ----------
    model : estimator
        A fitted diffprivlib model that holds private outputs only.
    names : ndarray of shape (n_features,) or None
        The column names it was fitted with; kept apart from ``model``, which is asked with bare arrays.

    Notes
    -----
    scikit-learn's ``predict`` and ``transform`` raise if one value is missing or infinite. Here the value
    counts as 0 (or as 1e37), so that whether a run can be scored does not depend on a row.
    """

    def __init__(self, model, names=None):
        self.model = model
        self.names = names

    def __getattr__(self, name):
        if name in ("model", "names") or name.startswith("__"):  # not there yet while unpickling
            raise AttributeError(name)
        found = getattr(self.model, name)  # only what the model has, so that hasattr tells the truth
        return functools.partial(self._answer, name) if name in _ASKED_WITH_ROWS else found

    def __sklearn_is_fitted__(self):
        return True

    def __sklearn_tags__(self):
        return self.model.__sklearn_tags__()

    def _answer(self, method, X):
        rows = numeric_rows(X)
        with np.errstate(all="ignore"):
            return getattr(self.model, method)(rows)


class DiffprivlibAdapter(CandidateAdapter):
    """Base of the adapters of diffprivlib's models.

    A subclass states what one fit costs per unit of ``epsilon`` under each relation, checks its
    parameters, and trains: it returns a dictionary of the private outputs, which is also the allow-list
    of what is published.

    Notes
    -----
    *Guarantee*: one call of :meth:`fit` is ``cost_per_epsilon[relation] * epsilon``-DP under ``relation``,
    for the whole of what :meth:`publish` returns. *Assumes*: bounds, norms and classes chosen without
    the private rows; noise in floating-point numbers.
    """

    #: relation -> cost of one fit divided by the model's epsilon; a string says why there is none
    cost_per_epsilon = {}
    #: "labels", "target" or None: what a subclass wants of y
    wants = None
    #: names of the fitted attributes that are published
    published = ()

    # ---------------------------------------------------------------- what may be asked without data

    def check(self, relation):
        """Refuse, without data, what cannot be vouched for under ``relation``."""
        super().check(relation)
        self._factor(relation)
        self._check_model()
        self._check_relation(relation)

    def _factor(self, relation):
        factor = self.cost_per_epsilon[relation]
        if isinstance(factor, str):
            raise CandidateRefusedError(
                f"{self.name} cannot be priced under relation={relation!r}: {factor}."
            )
        return factor

    def _check_model(self):
        """Check every parameter whatever the relation (subclasses extend)."""
        _checks.check_positive(
            self.name,
            "epsilon",
            getattr(self.estimator, "epsilon", None),
            "Pass e.g. epsilon=1.0.",
            *_EPSILONS,
        )
        if getattr(self.estimator, "warm_start", False):
            raise _checks.refusal(
                self.name,
                "warm_start",
                "False",
                self.estimator.warm_start,
                "Every run trains a fresh model, so there is nothing to start from.",
            )

    def _check_relation(self, relation):
        """Check what only some relations demand (subclasses extend)."""

    def privacy_curve(self, n_samples, relation):
        """Return ``PrivacyCurve.pure(cost_per_epsilon * epsilon)``; the number of rows does not matter."""
        self.check(relation)
        return self._pure(self._factor(relation) * float(self.estimator.epsilon), relation)

    @staticmethod
    def _pure(epsilon, relation):
        from skdptune.accounting import PrivacyCurve

        return PrivacyCurve.pure(epsilon, relation=relation)

    def privacy_params(self):
        """Return ``{"epsilon"}``; all other parameters can make a candidate refused, not dearer."""
        return frozenset({"epsilon"})

    def level_family(self, n_samples, relation):
        """Return the pure curves of epsilon 1e-6 to 50."""
        self._factor(relation)
        return LevelFamily(
            curve=lambda epsilon: self._pure(epsilon, relation),
            low=_LOWEST_LEVEL,
            high=_HIGHEST_LEVEL,
            increasing=True,
            name="epsilon",
        )

    def with_budget(self, level, n_samples, relation):
        """Return a new estimator with the largest ``epsilon`` whose cost lies below ``level``.

        Raises
        ------
        PricingError
            If no epsilon from 1e-6 on lies below ``level``.
        """
        factor = self._factor(relation)
        cost = self._pure_level(level, relation)
        if cost is None:
            cost = largest_below(self.level_family(n_samples, relation), level)
        if cost is None:
            raise PricingError(
                f"{self.name}: no epsilon of {_LOWEST_LEVEL} or more lies below the level asked for; "
                "raise the target or ask for fewer runs."
            )
        return blank(self.estimator, epsilon=cost / factor)

    def _pure_level(self, level, relation):
        """Return the epsilon of a pure level if the pure curve of it is verified to lie below."""
        epsilon = level.epsilon(0.0)
        if not _LOWEST_LEVEL <= epsilon < np.inf:
            return None
        for candidate in (epsilon, epsilon * (1.0 - 1e-12)):  # verified, or a hair less: private side
            if self._pure(candidate, relation).lies_below(level):
                return candidate
        return None

    def assumptions(self, relation):
        """Return what a report must list for this model."""
        own = self._own_assumptions()
        return (
            f"{self.name} (diffprivlib): noise is drawn in floating-point numbers; attacks on their last "
            "digits are outside the guarantee.",
            *(f"{self.name} (diffprivlib): {sentence}" for sentence in own),
        )

    def _own_assumptions(self):
        return ()

    # ---------------------------------------------------------------------------------- training

    def fit(self, X, y, *, classes, seed):
        """Train a new model and return it as a curator-only :class:`TrainedModel`.

        Missing or infinite values count as 0 or as the nearest bound, a row with an undeclared label as
        none; declared classes may be absent; a shared accountant is neither read nor charged.
        """
        self._check_model()
        rows = numeric_rows(X)
        n_samples, n_features = rows.shape
        self.check_data(n_samples, n_features, classes)
        rng = ByteRandom(seed)
        target = self._target(y, classes, n_samples)
        with np.errstate(all="ignore"):  # numpy's warnings would tell of extreme rows
            outputs = self._train(rows, target, classes, rng)
        outputs["n_features_in_"] = n_features
        return TrainedModel(self._model(outputs), column_names(X))

    def _target(self, y, classes, n_samples):
        if self.wants == "labels":
            return encode_labels(y, self._labels(classes), n_samples)
        if self.wants == "target":
            return numeric_target(y, n_samples)
        return None

    def _labels(self, classes):
        """Return the declared labels, sorted."""
        if classes is None:
            raise InvalidParameterError(
                f"classes must be given to train {self.name}; got None. Pass the public label set."
            )
        return np.unique(np.asarray(classes))

    def _train(self, rows, target, classes, rng):
        """Return the private outputs as a dictionary of attributes."""
        raise NotImplementedError

    def _model(self, outputs):
        model = blank(self.estimator)
        for name in (*self.published, "n_features_in_"):
            setattr(model, name, copy.deepcopy(outputs[name]))
        return model

    def made_finite(self, X):
        return X  # fit takes infinite and missing values

    def transform_released(self, fitted, X):
        """Return the transformed rows; ``fitted`` holds private outputs only, and answers for every row."""
        rows = fitted.transform(X)
        if fitted.names is not None and hasattr(rows, "columns"):  # named as the published model names them
            rows.columns = list(self.publish(fitted).get_feature_names_out())
        return rows

    def publish(self, fitted):
        """Return a new diffprivlib model with the allow-listed outputs of ``fitted`` and nothing else."""
        model = self._model(vars(fitted.model))
        if fitted.names is not None:
            model.feature_names_in_ = fitted.names.copy()
        return model

    def published_names(self, fitted):
        """Return the names of the fitted attributes that are passed on."""
        names = () if fitted.names is None else ("feature_names_in_",)
        return (*self.published, "n_features_in_", *names)
