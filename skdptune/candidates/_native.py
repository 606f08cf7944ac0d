"""Estimators that state their own cost: ``rdp_curve(orders)`` or ``privacy_curve``."""

import types

import numpy as np
from sklearn.base import is_classifier

from skdptune._exceptions import CandidateRefusedError, PricingError, SkdptuneError
from skdptune.accounting import PrivacyCurve
from skdptune.candidates._contents import FoundError, fitted_slots, is_estimator, is_generator, is_plain, rebuilt, walk
from skdptune.candidates._kept_fits import keeps_its_fit
from skdptune.candidates._protocol import CandidateAdapter, LevelFamily
from skdptune.candidates._row_copies import RowCopies
from skdptune.candidates._seeding import (
    RunRandomState,
    entropy_for,
    isolated_global_generators,
    quick_clone,
    random_state_names,
    refuse_hidden_seeds,
    strip_seeds,
)
from skdptune.candidates._statements import CurveRdp, RdpStatement, ScaledRdp, stated_curve, stated_rdp

__all__ = ["NativeAdapter"]

# Beside generators, code and frames: nothing that replays noise or leads back to the rows is published.
_LEADS_BACK = (
    types.ModuleType,
    types.FrameType,
    types.TracebackType,
    types.GeneratorType,
    types.CoroutineType,
    BaseException,
)
# Fitted attributes that common estimators set from the rows without any noise.
_NEVER = frozenset(
    {
        "best_loss_",
        "best_validation_score_",
        "cv_results_",
        "history_",
        "loss_",
        "loss_curve_",
        "n_iter_",
        "n_samples_seen_",
        "oob_decision_function_",
        "oob_prediction_",
        "oob_score_",
        "random_state_",
        "t_",
        "train_score_",
        "validation_scores_",
    }
)
_WITHHELD = "_skdptune_withheld"
_DECLARED = "_skdptune_declared"


class NativeAdapter(CandidateAdapter):
    """Adapter of estimators (and transformers) that state their own cost.

    The estimator may define, beside ``rdp_curve(orders)``:

    - ``privacy_curve``: a PrivacyCurve, or a function of ``n_samples`` (and, as a keyword,
      ``relation``); preferred, because it may carry a dominating pair;
    - ``privacy_params``: names of the parameters that can change the cost;
    - ``privacy_relations``: the relations its ``rdp_curve`` holds under;
    - ``with_budget(level)``: a clone whose cost lies below the PrivacyCurve ``level`` everywhere;
    - ``level_family(n_samples, relation)``: the LevelFamily of levels that suit it;
    - ``published_attributes``: the fitted attributes that are private outputs. Absent: all that end
      in an underscore, but for the obvious (iteration counts, losses, whatever has the shape of the training rows
      or labels, wherever it lies). Under add-remove it must be there: the number of rows is private, so shapes tell
      nothing that may be acted on.

    What is published is made anew, whatever it lies in: estimators by their parameters and their own published
    attributes, everything else by way of pickle, so that nothing of a larger array comes along.

    Notes
    -----
    *Assumes* that the statement is true: it is checked for form, never for truth. The fitted object
    must predict from ``published_attributes`` and parameters alone, because nothing else survives.

    Examples
    --------
    >>> from sklearn.base import BaseEstimator
    >>> class Free(BaseEstimator):
    ...     def rdp_curve(self, orders):
    ...         return 0.0 * orders
    >>> NativeAdapter.accepts(Free())
    True
    """

    _n_is_public = True  # until check has been told the relation

    @staticmethod
    def accepts(estimator):
        """Return whether ``estimator`` states a cost itself."""
        return hasattr(estimator, "rdp_curve") or hasattr(estimator, "privacy_curve")

    def check(self, relation):
        super().check(relation)
        declared = getattr(self.estimator, "privacy_relations", None)
        if declared is not None and relation not in declared:
            raise CandidateRefusedError(
                f"{self.name} states its cost under {', '.join(map(repr, declared))}, but the search is "
                f"under {relation!r}: set relation= to one of those."
            )
        if not hasattr(self.estimator, "get_params"):
            raise CandidateRefusedError(
                f"{self.name} must be a scikit-learn estimator; it has no get_params: derive it from "
                "sklearn.base.BaseEstimator."
            )
        self._check_declared(relation)
        refuse_hidden_seeds(self.estimator)
        self._n_is_public = relation != "add-remove"

    def _check_declared(self, relation):
        declared = getattr(self.estimator, "published_attributes", None)
        if isinstance(declared, str):
            raise CandidateRefusedError(
                f"published_attributes of {self.name} must be a sequence of attribute names; the str {declared!r} "
                f"came: write ({declared!r},)."
            )
        if declared is None and relation == "add-remove":
            raise CandidateRefusedError(
                f"{self.name} must declare published_attributes under 'add-remove', the names of its fitted attributes "
                "that are private outputs, e.g. published_attributes = ('coef_', 'classes_'): with a private number of "
                "rows, a copy of rows is not told from an output by its shape. Or set relation='zero-out'."
            )

    def privacy_curve(self, n_samples, relation):
        if hasattr(self.estimator, "privacy_curve"):
            return self._from_privacy_curve(n_samples, relation)
        return stated_rdp(self.estimator, relation)

    def _from_privacy_curve(self, n_samples, relation):
        curve = stated_curve(self.estimator, n_samples, relation)
        if not isinstance(curve, PrivacyCurve):
            raise CandidateRefusedError(
                f"privacy_curve of {self.name} must be a PrivacyCurve or a function of n_samples that "
                f"returns one; a {type(curve).__name__} came: build it with PrivacyCurve.gaussian(...), "
                ".dp_sgd(...), .from_rdp(...) or another constructor."
            )
        if curve.relation == relation:
            return curve
        try:
            return curve.to_relation(relation)
        except PricingError as error:
            raise CandidateRefusedError(
                f"{self.name} states its cost under relation {curve.relation!r}, but the search is under "
                f"{relation!r}: set relation={curve.relation!r}, or let privacy_curve take a "
                "relation keyword."
            ) from error

    def privacy_params(self):
        names = getattr(self.estimator, "privacy_params", None)
        if names is None:
            return None
        if isinstance(names, str):
            raise CandidateRefusedError(
                f"privacy_params of {self.name} must be a sequence of parameter names; the str "
                f"{names!r} came: write ({names!r},)."
            )
        return frozenset(names)

    def _can_be_budgeted(self):
        return callable(getattr(self.estimator, "with_budget", None))

    def level_family(self, n_samples, relation):
        if not self._can_be_budgeted():
            return None
        own = getattr(self.estimator, "level_family", None)
        if callable(own):
            return own(n_samples, relation)
        return self._default_family(n_samples, relation)

    def _default_family(self, n_samples, relation):
        """Levels in the shape of the template's own cost.

        With a dominating pair: pure DP if the template is pure, else Gaussian. With an RDP curve alone:
        that curve times a factor, because a candidate known by RDP only lies below no pair.
        """
        curve = self.privacy_curve(n_samples, relation)
        if curve.pair is None:
            statement = RdpStatement(self.estimator) if self._rdp_only() else CurveRdp(curve)
            return LevelFamily(
                lambda x: PrivacyCurve.from_rdp_function(ScaledRdp(statement, float(x)), relation=relation),
                1e-8,
                1e8,
                True,
                "factor",
            )
        if np.isfinite(curve.epsilon(0.0)):
            return LevelFamily(lambda x: PrivacyCurve.pure(float(x), relation=relation), 1e-4, 1e2, True, "epsilon")
        return LevelFamily(
            lambda x: PrivacyCurve.gaussian(float(x), relation=relation),
            1e-2,
            1e4,
            False,
            "noise_multiplier",
        )

    def _rdp_only(self):
        return not hasattr(self.estimator, "privacy_curve")

    def with_budget(self, level, n_samples, relation):
        if not self._can_be_budgeted():
            raise PricingError(self.calibration_refusal())
        budgeted = self.estimator.with_budget(level)
        if budgeted is self.estimator or type(budgeted) is not type(self.estimator):
            raise CandidateRefusedError(
                f"with_budget of {self.name} must return a new {self.name}; it returned "
                f"{'itself' if budgeted is self.estimator else 'a ' + type(budgeted).__name__}: start it "
                "with sklearn.base.clone(self)."
            )
        curve = NativeAdapter(budgeted).privacy_curve(n_samples, relation)
        if not curve.lies_below(level):  # the estimator's word is not taken for it
            raise PricingError(
                f"with_budget of {self.name} must return a clone whose cost lies below the level at every "
                "order and epsilon, and its clone does not: increase the noise it sets."
            )
        return budgeted

    def assumptions(self, relation):
        sentences = [f"The privacy cost that {self.name} states for itself is true; it was not proved here."]
        if self._rdp_only() and getattr(self.estimator, "privacy_relations", None) is None:
            sentences.append(
                f"{self.name} does not say for which neighbouring relation its rdp_curve holds; it is "
                f"taken to hold for {relation!r}."
            )
        if getattr(self.estimator, "published_attributes", None) is None:
            sentences.append(
                f"Every fitted attribute of {self.name} that ends in an underscore is a private output "
                "(it declares no published_attributes)."
            )
        if is_classifier(self.estimator) and "classes" not in self.estimator.get_params(deep=False):
            sentences.append(
                f"{self.name} takes no classes: every label is assumed to occur in every training part, or its "
                "classes_ not to depend on the rows."
            )
        if random_state_names(self.estimator):
            sentences.append(
                f"{self.name} draws its noise from numpy's generator: seeded with 256 bits in every run, "
                "but neither cryptographic nor exact, so nothing it publishes may reveal raw draws."
            )
        return tuple(sentences)

    def fit(self, X, y, *, classes, seed):
        """Train a clone; its ``classes`` parameter, if it has one left at None, gets the label set."""
        model = quick_clone(
            self.estimator, random_state=lambda name: RunRandomState(entropy_for(seed, "random_state", name))
        )
        if classes is not None and _takes_classes(model):
            model.set_params(classes=np.array(classes, copy=True))  # its own: what it does to them stays with it
        with isolated_global_generators(seed):
            fitted = model.fit(X, y)
        fitted = model if fitted is None else fitted
        _withhold_copies(fitted, RowCopies(X, y, n_is_public=self._n_is_public))
        setattr(fitted, _DECLARED, classes)
        return fitted

    def _declared_names(self, fitted):
        """Return ``published_attributes``, of the template rather than of what a fit may have made of it, or None."""
        declared = getattr(self.estimator, "published_attributes", None)
        return getattr(fitted, "published_attributes", None) if declared is None else declared

    def _names(self, fitted):
        """Return the names of what may be published, not looked into yet."""
        declared = self._declared_names(fitted)
        if declared is not None:
            return tuple(name for name in declared if name in vars(fitted))
        withheld = _NEVER | getattr(fitted, _WITHHELD, frozenset())
        slots = fitted_slots(fitted)
        return tuple(
            name
            for name in vars(fitted)
            if name in slots or (name.endswith("_") and not name.startswith("_") and name not in withheld)
        )

    def published_names(self, fitted):
        names = self._names(fitted)
        if self._declared_names(fitted) is not None:
            return names
        return tuple(name for name in names if _smuggles(vars(fitted)[name]) is None)

    def publish(self, fitted):
        """Return a clone of the template that carries the private outputs of ``fitted``.

        Raises
        ------
        CandidateRefusedError
            If a declared attribute holds a generator, a module, a function, a frame, a frozen estimator, or what pickle
            cannot look into.
        """
        fresh = quick_clone(self.estimator)
        declared = getattr(fitted, _DECLARED, None)
        if declared is not None and _takes_classes(fresh):
            fresh.set_params(classes=np.array(declared, copy=True))  # not the fitted one's: a fit may have changed it
        for name in self._names(fitted):
            value, found = _published_value(vars(fitted)[name])
            if found is None:
                setattr(fresh, name, value)
            elif self._declared_names(fitted) is not None:
                raise CandidateRefusedError(
                    f"published_attributes of {self.name} must name private outputs; {name!r} holds {found}, which "
                    "can replay noise or reach the rows: remove it."
                )
        if declared is not None and _same_labels(getattr(fresh, "classes_", None), declared):
            fresh.classes_ = np.array(declared, copy=True)  # the public array: the type of the learned one is private
        return strip_seeds(fresh)


def _same_labels(learned, declared):
    """Return whether ``learned`` are the declared labels in their order."""
    return isinstance(learned, np.ndarray) and learned.shape == declared.shape and bool((learned == declared).all())


def _takes_classes(model):
    """Return whether ``model`` has a parameter ``classes`` that is left open."""
    return getattr(model, "classes", 0) is None and "classes" in model.get_params(deep=False)


def _withhold_copies(fitted, copies):
    """Note on ``fitted``, and on estimators in its attributes, which attributes hold copies of rows."""
    waiting, seen = [fitted], set()
    while waiting:
        model = waiting.pop()
        if id(model) in seen or not hasattr(model, "__dict__"):
            continue
        seen.add(id(model))
        names = set()
        for name, value in vars(model).items():
            if (is_plain(value) and not isinstance(value, np.ndarray)) or is_generator(value):
                continue  # a generator is never published
            found, members = copies.in_value(value)
            waiting += members
            names |= {name} if found else set()
        vars(model)[_WITHHELD] = frozenset(names)


def _refuse_smuggled(value):
    if is_generator(value) or isinstance(value, _LEADS_BACK):
        raise FoundError(type(value).__name__)
    if is_estimator(value) and keeps_its_fit(value):
        raise FoundError(f"{type(value).__name__}, which keeps its fit when it is cloned,")


def _guarded(value, work):
    """Return ``(work(), None)``, or None and what is in ``value`` that must not be published, in words."""
    name = type(value).__name__
    try:
        return work(), None
    except FoundError as met:
        found = str(met)
    except SkdptuneError:
        raise
    except Exception:
        return None, f"a {name} that pickle cannot look into"
    return None, f"a {found}" if found == name else f"a {name} with a {found} inside"


def _smuggles(value):
    """Return what is in ``value`` that must not be published, in words, or None.

    Walked as far as pickle goes: a frozen distribution of scipy, say, keeps a generator two objects deep.
    """
    if is_plain(value):
        return None
    if isinstance(value, (types.FunctionType, types.MethodType)):
        return f"a {type(value).__name__}"

    def answer(met):
        _refuse_smuggled(met)
        return met if is_estimator(met) else _bare_type(met)  # they are made anew

    return _guarded(value, lambda: walk(value, answer))[1]


def _published_value(value):
    """Return ``value`` made anew and None, or None and what is in it that must not be published.

    Estimators come back by their parameters and published attributes, everything else by way of pickle.
    """
    if isinstance(value, (types.FunctionType, types.MethodType)):
        return None, f"a {type(value).__name__}"
    if is_plain(value):
        return (np.array(value, copy=True) if isinstance(value, np.ndarray) else value), None  # a view has a base
    twins = {}

    def answer(met):
        _refuse_smuggled(met)
        if is_estimator(met):
            if id(met) not in twins:
                twins[id(met)] = NativeAdapter(met).publish(met)
            return twins[id(met)]
        return _own_tensor(met) if _bare_type(met) is None else _bare_type(met)

    return _guarded(value, lambda: rebuilt(value, answer))


def _bare_type(value):
    """Return an array's type without the notes on it, which may be those of the rows; None of anything else."""
    if not isinstance(value, np.dtype) or value.metadata is None:
        return None
    return np.lib.format.drop_metadata(value)


def _own_tensor(value):
    """Return a copy of a torch tensor that is a part of a larger one, which its pickle would hold; else None."""
    storage = getattr(value, "untyped_storage", None)
    if storage is None or type(value).__module__.partition(".")[0] != "torch":
        return None
    return value.detach().clone() if storage().nbytes() > value.numel() * value.element_size() else None
