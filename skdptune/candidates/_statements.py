"""What estimators say about their cost, checked for form: ``rdp_curve(orders)`` and ``privacy_curve``."""

import inspect

import numpy as np

from skdptune._exceptions import CandidateRefusedError, SkdptuneError
from skdptune.accounting import PrivacyCurve
from skdptune.candidates._seeding import params_of, quick_clone

__all__ = ["CurveRdp", "RdpStatement", "ScaledRdp", "stated_curve", "stated_rdp"]

# Orders at which two statements are compared by value; they need not be those of a conversion.
PROBE_ORDERS = np.array([1.05, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 16.0, 32.0, 64.0, 256.0, 1024.0])
_TINY = 1e-12  # what rounding may leave below zero
_RISE = 1e-9  # relative fall with the order that rounding may leave


class RdpStatement:
    """An estimator's ``rdp_curve`` as a checked function that compares by value.

    Parameters
    ----------
    estimator : estimator
        Cloned, and the clone freed of seeds: a curve may be published.

    Notes
    -----
    Two statements are equal if their classes are and if they agree at a fixed set of orders.

    Examples
    --------
    >>> class Model:
    ...     def rdp_curve(self, orders):
    ...         return 0.5 * orders
    >>> RdpStatement(Model())([2.0, 8.0])
    array([1., 4.])
    >>> RdpStatement(Model()) == RdpStatement(Model())
    True
    """

    def __init__(self, estimator):
        first = self.probe(estimator)
        self._estimator = quick_clone(estimator) if hasattr(estimator, "get_params") else estimator
        if first != self.probe(self._estimator):
            raise _bad_curve(estimator, "two calls disagree", "make it a function of parameters alone")
        # Agreement at finitely many orders is not equality: the parameters that may matter are compared too.
        self._key = (_class_path(estimator), _cost_params(estimator), first)

    @staticmethod
    def probe(estimator):
        """Return the checked values of ``rdp_curve`` at the fixed orders, as a tuple."""
        return tuple(_evaluate(estimator, PROBE_ORDERS).tolist())

    def __call__(self, orders):
        return _evaluate(self._estimator, np.asarray(orders, dtype=float))

    def __eq__(self, other):
        return isinstance(other, RdpStatement) and self._key == other._key

    def __hash__(self):
        return hash(self._key)

    @property
    def __name__(self):
        return f"{type(self._estimator).__name__}.rdp_curve"

    def __repr__(self):
        return self.__name__


_STATED = {}
_STATED_LIMIT = 4096
_SIMPLE = (type(None), bool, int, float, str)


def _cost_params(estimator):
    """Return the parameters that may change the cost as a hashable value, or None if they are not plain."""
    if not hasattr(estimator, "get_params"):
        return ()
    params = params_of(estimator, deep=True)
    declared = getattr(estimator, "privacy_params", None)
    if declared is not None and not isinstance(declared, str):
        params = {name: params[name] for name in declared if name in params}
    named = []
    for name in sorted(params):
        if name == "random_state" or name.endswith("__random_state"):
            continue
        if not isinstance(params[name], _SIMPLE):
            return None
        named.append((name, type(params[name]).__name__, params[name]))
    return tuple(named)


def stated_rdp(estimator, relation):
    """Return the curve of ``rdp_curve``; one statement serves all estimators of a class that agree with it.

    Every call evaluates the estimator's own function at the probe orders: nothing is assumed of it.
    """
    params = _cost_params(estimator)
    if params is None:
        return PrivacyCurve.from_rdp_function(RdpStatement(estimator), relation=relation)
    key = (type(estimator), params, RdpStatement.probe(estimator), relation)
    found = _STATED.get(key)  # looked up once: another thread may empty it
    if found is None:
        found = PrivacyCurve.from_rdp_function(RdpStatement(estimator), relation=relation)
        if len(_STATED) >= _STATED_LIMIT:
            _STATED.clear()
        _STATED[key] = found
    return found


def _class_path(estimator):
    return f"{type(estimator).__module__}.{type(estimator).__qualname__}"


def _evaluate(estimator, orders):
    try:
        values = estimator.rdp_curve(orders.copy())
        values = np.asarray(values, dtype=float)
    except SkdptuneError:
        raise
    except Exception as error:
        raise _bad_curve(
            estimator, f"it raised {type(error).__name__} before fit", "compute it from parameters alone"
        ) from error
    return _checked(estimator, orders, values)


def _bad_curve(estimator, came, advice):
    return CandidateRefusedError(
        f"rdp_curve of {type(estimator).__name__} must return one finite or infinite, non-negative "
        f"value in nats per order, nondecreasing in the order; {came}: {advice}."
    )


def _checked(estimator, orders, values):
    if values.shape != orders.shape:
        raise _bad_curve(
            estimator,
            f"{values.shape} came for orders of shape {orders.shape}",
            "return an array like orders",
        )
    climbs = values.ndim == 1 and values.size and (orders[1:] > orders[:-1]).all() and (values[1:] >= values[:-1]).all()
    if climbs and values[0] >= 0 and values[-1] < np.inf:
        return values  # as nearly always
    if np.isnan(values).any():
        raise _bad_curve(estimator, "nan came", "return inf where no bound is known")
    if (values < 0).any():  # also by rounding: what is true of the value is not known
        raise _bad_curve(estimator, f"{values.min():g} came", "check the formula, or round it up")
    rank = np.argsort(orders, kind="stable")
    climbing = np.maximum.accumulate(values[rank])
    with np.errstate(invalid="ignore"):
        fallen = climbing - values[rank] > _RISE * climbing + _TINY
    if (fallen | (np.isinf(climbing) & np.isfinite(values[rank]))).any():
        raise _bad_curve(estimator, "a larger order got a smaller value", "check the formula")
    return values


def stated_curve(estimator, n_samples, relation):
    """Return what ``privacy_curve`` states, called as its signature asks."""
    stated = estimator.privacy_curve
    if isinstance(stated, PrivacyCurve) or not callable(stated):
        return stated
    try:
        parameters = inspect.signature(stated).parameters
    except (TypeError, ValueError):
        parameters = {}
    keywords = {"relation": relation} if "relation" in parameters else {}
    return stated(n_samples, **keywords)


class ScaledRdp:
    """``factor`` times a statement, comparable by value."""

    def __init__(self, statement, factor):
        self.statement, self.factor = statement, factor

    def __call__(self, orders):
        return self.factor * self.statement(orders)

    def __eq__(self, other):
        return isinstance(other, ScaledRdp) and (self.statement, self.factor) == (
            other.statement,
            other.factor,
        )

    def __hash__(self):
        return hash((self.statement, self.factor))

    def __repr__(self):
        return f"{self.factor!r} * {self.statement!r}"


class CurveRdp:
    """The RDP of a curve as a function that compares by the curve's value."""

    def __init__(self, curve):
        self.curve = curve

    def __call__(self, orders):
        return self.curve.rdp(orders)

    def __eq__(self, other):
        return isinstance(other, CurveRdp) and self.curve == other.curve

    def __hash__(self):
        return hash(self.curve)
