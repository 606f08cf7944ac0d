"""What a search asks of a candidate, and how an estimator finds its adapter.

A search never talks to an estimator directly: it asks an adapter what one fit costs, trains through
it, and publishes through it. One adapter class per kind of estimator; none of them touches the
template it was built from.
"""

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass

from skdptune._exceptions import CandidateRefusedError, PricingError
from skdptune.accounting._relations import check_relation
from skdptune.candidates._kept_fits import refuse_kept_fits
from skdptune.candidates._row_safe import finite_rows

__all__ = ["CandidateAdapter", "LevelFamily", "find_adapter", "largest_below", "register"]


@dataclass(frozen=True)
class LevelFamily:
    """Budgets a candidate can be asked to stay below, indexed by one positive number.

    Parameters
    ----------
    curve : callable
        ``curve(x)`` is the PrivacyCurve of the level at ``x``, for ``low <= x <= high``.
    low, high : float
        Positive finite ends of the range of ``x``.
    increasing : bool
        True if a larger ``x`` is a more expensive level (an epsilon), False if it is a cheaper one
        (a noise multiplier).
    name : str, default="level"
        What ``x`` is called in reports.

    Examples
    --------
    >>> family = LevelFamily(curve=lambda x: x, low=0.5, high=2.0, increasing=True, name="epsilon")
    >>> family.cheapest, family.dearest
    (0.5, 2.0)
    """

    curve: Callable
    low: float
    high: float
    increasing: bool
    name: str = "level"

    @property
    def cheapest(self):
        """The end of the range that costs least."""
        return self.low if self.increasing else self.high

    @property
    def dearest(self):
        """The end of the range that costs most."""
        return self.high if self.increasing else self.low


def largest_below(family, level, *, rtol=1e-4):
    """Return the dearest ``x`` of ``family`` whose curve lies below ``level``, or None.

    The value returned has been verified (``family.curve(x).lies_below(level)`` held), so bisection
    errs to the private side.

    Parameters
    ----------
    family : LevelFamily
    level : PrivacyCurve
    rtol : float, default=1e-4
        Relative width in ``x`` at which the bisection stops.

    Returns
    -------
    float or None
        None if not even the cheapest member lies below ``level``.

    Examples
    --------
    >>> class Number(float):
    ...     def lies_below(self, other):
    ...         return self <= other
    >>> family = LevelFamily(curve=Number, low=1e-3, high=1e3, increasing=True)
    >>> 0.4999 < largest_below(family, 0.5) <= 0.5
    True
    >>> largest_below(family, 1e-4) is None
    True
    """
    good, bad = family.cheapest, family.dearest
    if family.curve(bad).lies_below(level):
        return bad
    if not family.curve(good).lies_below(level):
        return None
    while abs(math.log(bad / good)) > rtol:  # bisection on a log scale: x may span decades
        middle = math.sqrt(good * bad)
        if family.curve(middle).lies_below(level):
            good = middle  # only verified values are ever returned: the private side
        else:
            bad = middle
    return good


class CandidateAdapter:
    """What the search needs to know about one estimator.

    Parameters
    ----------
    estimator : estimator
        An unfitted template. It is read, cloned, and never changed.

    Notes
    -----
    Subclasses implement :meth:`privacy_curve`, :meth:`fit` and :meth:`publish`; the rest has safe
    defaults: every searched parameter may change the cost, and no target can be calibrated.

    *Guarantee* (to be kept by subclasses): the pair (returned model, anything it predicts) is a
    mechanism on the training rows whose cost under ``relation`` lies below
    ``privacy_curve(n_samples, relation)``, for independent noise in every call of ``fit``.

    Examples
    --------
    >>> adapter = CandidateAdapter(object())
    >>> adapter.may_change_cost("anything")
    True
    """

    free = False  # True for steps that learn nothing from the rows

    def __init__(self, estimator):
        self.estimator = estimator

    @property
    def name(self):
        """The name of the estimator's class, for messages."""
        return type(self.estimator).__name__

    def check(self, relation):
        """Refuse, without data, what cannot be vouched for under ``relation``.

        Raises
        ------
        CandidateRefusedError
            Naming the parameter and its repair.
        """
        check_relation(relation)

    def check_data(self, n_samples, n_features, classes):
        """Refuse a schema the candidate cannot be trained on; sees shapes and labels, never rows.

        Parameters
        ----------
        n_samples, n_features : int
            Public shape of the training part.
        classes : ndarray of shape (n_classes,) or None
            The public label set; None for regressors and transformers.
        """

    def n_features_out(self, n_features):
        """Return how many columns a transformer makes of ``n_features``, or None if that is unknown."""
        return None

    def privacy_curve(self, n_samples, relation):
        """Return the PrivacyCurve of one fit on ``n_samples`` rows under ``relation``."""
        raise NotImplementedError

    def privacy_params(self):
        """Return the names of the parameters that can change the cost.

        Returns
        -------
        frozenset of str, or None
            None: any searched parameter may change it.
        """
        return None

    def may_change_cost(self, name):
        """Return whether searching the parameter ``name`` (``a__b`` for nested ones) can change the cost.

        A parameter below one that matters (``base__s`` where ``base`` matters) matters too.
        """
        params = self.privacy_params()
        if params is None:
            return True
        parts = name.split("__")
        return any("__".join(parts[: i + 1]) in params for i in range(len(parts)))

    def level_family(self, n_samples, relation):
        """Return the :class:`LevelFamily` used to meet a target, or None if there is none."""
        return None

    def calibration_refusal(self):
        """Return the sentence that says why :meth:`level_family` is None."""
        return (
            f"{self.name} cannot be calibrated to a target: it offers no with_budget(level); "
            "set its noise by hand and leave epsilon=None."
        )

    def with_budget(self, level, n_samples, relation):
        """Return a new unfitted estimator whose cost lies below ``level`` everywhere.

        Raises
        ------
        PricingError
            If the candidate cannot be calibrated, or not to this level.
        """
        raise PricingError(self.calibration_refusal())

    def assumptions(self, relation):
        """Return the sentences (a tuple of str) a report must list for this candidate."""
        return ()

    def fit(self, X, y, *, classes, seed):
        """Train a clone and return the fitted, curator-only object.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or None
        classes : ndarray of shape (n_classes,) or None
            The public label set.
        seed : int or None
            None: all noise comes from the operating system. An integer of 128 bits or more: all of
            it is derived from that integer.
        """
        raise NotImplementedError

    def made_finite(self, X):
        """Return rows that another step has made, as :meth:`fit` takes them: 0 in place of values that are not finite.

        Each value by itself: whether a fit fails must not depend on one row. Override it where ``fit`` takes them all.
        """
        return finite_rows(X, self.estimator)

    def transform_released(self, fitted, X):
        """Return the rows of X as the *published* part of a fitted transformer leaves them.

        Later steps of a pipeline are trained on this, so it may use nothing of ``fitted`` that the
        price does not cover. Override it where the fitted object is known to hold nothing else.
        """
        return self.publish(fitted).transform(X)

    def publish(self, fitted):
        """Return a fresh object that holds an allow-list of the private outputs of ``fitted``."""
        raise NotImplementedError

    def published_names(self, fitted):
        """Return the names of the fitted attributes that :meth:`publish` passes on."""
        return ()


_LOADERS = {}


def register(module_prefix, loader):
    """Register adapters for the estimators of a third-party library.

    Parameters
    ----------
    module_prefix : str
        Top of the class path, e.g. ``"diffprivlib"``: an estimator whose own class is defined in that
        package or below is handed to ``loader``. Subclasses defined elsewhere are not: they may
        have changed what is released.
    loader : callable or str
        ``loader(estimator) -> CandidateAdapter``, or ``"package.module:function"``, imported on first
        use so that heavy libraries stay unloaded.

    Examples
    --------
    >>> class Model:
    ...     __module__ = "somelib.models"
    >>> register("somelib", CandidateAdapter)
    >>> type(find_adapter(Model())).__name__
    'CandidateAdapter'
    >>> unregister("somelib")
    """
    _LOADERS[module_prefix] = loader


def unregister(module_prefix):
    """Forget a registration (for tests)."""
    _LOADERS.pop(module_prefix, None)


def _registered_loader(estimator):
    path = type(estimator).__module__ or ""
    for prefix, loader in _LOADERS.items():
        if path == prefix or path.startswith(prefix + "."):
            if isinstance(loader, str):
                module, function = loader.split(":")
                return getattr(importlib.import_module(module), function)
            return loader
    return None


def has_adapter(estimator):
    """Return whether ``estimator`` states a cost in one of the ways :func:`find_adapter` knows.

    Examples
    --------
    >>> has_adapter(object())
    False
    """
    return (
        hasattr(type(estimator), "__skdptune_adapter__")
        or _registered_loader(estimator) is not None
        or hasattr(estimator, "rdp_curve")
        or hasattr(estimator, "privacy_curve")
    )


def find_adapter(estimator):
    """Return the adapter of ``estimator``.

    Looked up in this order: the estimator's own ``__skdptune_adapter__()``; scikit-learn's
    ``Pipeline`` (exactly); a registered library (:func:`register`); an object with ``rdp_curve`` or
    ``privacy_curve``.

    Parameters
    ----------
    estimator : estimator
        An unfitted instance.

    Returns
    -------
    CandidateAdapter

    Raises
    ------
    CandidateRefusedError
        If nothing states what a fit would cost, naming the private alternative where one is known; or if a part stays
        as it was trained when it is cloned (``sklearn.frozen.FrozenEstimator``).

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> find_adapter(LogisticRegression())
    Traceback (most recent call last):
    ...
    skdptune._exceptions.CandidateRefusedError: LogisticRegression has no privacy cost: ...
    """
    if isinstance(estimator, type):
        raise CandidateRefusedError(
            f"estimator must be an instance; got the class {estimator.__name__}: write {estimator.__name__}(...)."
        )
    refuse_kept_fits(estimator)
    hook = getattr(type(estimator), "__skdptune_adapter__", None)
    if hook is not None:
        return hook(estimator)
    for finder in (_pipeline_adapter, _library_adapter, _native_adapter):
        adapter = finder(estimator)
        if adapter is not None:
            return adapter
    from skdptune.candidates._stateless import private_alternative

    raise CandidateRefusedError(
        f"{type(estimator).__name__} has no privacy cost: it defines neither rdp_curve(orders) nor "
        f"privacy_curve, so no price can be stated; {private_alternative(estimator)}."
    )


def _pipeline_adapter(estimator):
    from skdptune.candidates._pipeline import PipelineAdapter

    return PipelineAdapter(estimator) if PipelineAdapter.accepts(estimator) else None


def _library_adapter(estimator):
    loader = _registered_loader(estimator)
    return None if loader is None else loader(estimator)


def _native_adapter(estimator):
    from skdptune.candidates._native import NativeAdapter

    return NativeAdapter(estimator) if NativeAdapter.accepts(estimator) else None


# Adapters shipped with this package whose library is optional: imported on first use only.
register("diffprivlib", "skdptune.candidates._diffprivlib:adapter_for")
