"""Estimators that stay as they were trained when they are cloned, wherever they lie in a candidate.

What scikit-learn's ``clone`` opens (estimators, lists, tuples, sets) it makes anew; everything else it copies as it
is: a named tuple, a dataclass, a partial function, the object that a method is bound to. A trained estimator in there
would be used and published as it was trained.
"""

import functools
import types
from collections import deque
from collections.abc import Mapping

import numpy as np
from sklearn.base import BaseEstimator, clone

from skdptune._exceptions import CandidateRefusedError
from skdptune.candidates._contents import is_estimator, is_generator, is_plain, walk
from skdptune.candidates._seeding import is_module_of_torch, params_of

__all__ = ["keeps_its_fit", "refuse_kept_fits"]

_OPENED = (list, tuple, set, frozenset)  # by clone: these exact types, and no subclass


def refuse_kept_fits(estimator):
    """Refuse estimators that stay as they were trained when they are cloned, in any place of ``estimator``.

    Raises
    ------
    CandidateRefusedError
        Naming the place: a ``sklearn.frozen.FrozenEstimator``, an estimator whose ``__sklearn_clone__`` hands out
        itself or something trained, or a trained one inside what ``clone`` copies as it is: a dict, a dataclass, a
        partial function, a bound method, a closure.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> refuse_kept_fits(DummyClassifier().fit([[0.0]], [1]))  # its clones know nothing
    """
    if _is_made_anew(estimator) and all(map(is_plain, params_of(estimator).values())):
        return  # as most are: it has no place for another one
    _refuse_kept(estimator, "estimator", False, {})


def _is_made_anew(estimator):
    """Return whether ``clone`` makes a new instance of the class from the parameters."""
    own = getattr(type(estimator), "__sklearn_clone__", None)
    return own is BaseEstimator.__sklearn_clone__ and "__sklearn_clone__" not in getattr(estimator, "__dict__", {})


def _refuse_kept(value, place, copied, seen):
    """Look through an estimator or a container; ``copied`` says that ``clone`` would copy it as it is."""
    if is_plain(value) or isinstance(value, (type, types.ModuleType)) or (id(value), copied) in seen:
        return
    if _holds_no_estimator(value):
        return
    seen[id(value), copied] = value  # kept alive, so that its id stays its own
    if is_estimator(value):
        if keeps_its_fit(value) or (copied and _is_trained(value)):
            raise CandidateRefusedError(
                f"{place} ({type(value).__name__}) stays as it was trained when it is cloned, so no try would train "
                "it, and what it has learned from rows would be published unpaid: pass the unfitted estimator instead, "
                "or public numbers in its place."
            )
        parts = [(name, part, copied) for name, part in params_of(value).items()]
        parts += [(place, part, True) for part in getattr(value, "__dict__", {}).values()] if copied else []
    else:
        parts = _parts_of(value, place, copied)
    if parts is None:
        _walk_kept(value, place, seen)
    for name, part, as_it_is in parts or ():
        _refuse_kept(part, name, as_it_is, seen)


def _holds_no_estimator(value):
    """Return whether to pass ``value`` over: to pickle a generator may draw from it, and a tensor would be copied."""
    return is_generator(value) or is_module_of_torch(value) or type(value).__module__.partition(".")[0] == "torch"


def _parts_of(value, place, copied):
    """Return (place, part, whether ``clone`` copies it as it is) of what is no estimator; None if that is not known."""
    if isinstance(value, Mapping):
        return [(str(key), part, True) for key, part in value.items()]
    if type(value) is tuple and value and isinstance(value[0], str):  # a named step or member
        return [(value[0], part, copied) for part in value[1:]]
    if isinstance(value, (*_OPENED, deque)):
        return [(place, part, copied or type(value) not in _OPENED) for part in value]
    if isinstance(value, np.ndarray) and value.dtype == object:
        return [(place, part, True) for part in value.flat]
    inside = _inside_function(value)
    return None if inside is None else [(place, part, True) for part in inside]


def _inside_function(value):
    """Return what a function carries along, or None if ``value`` is none."""
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, (types.MethodType, types.BuiltinMethodType)):
        return [value.__self__]
    if getattr(value, "row_wise", None) is True and hasattr(value, "func"):  # declared by row_wise
        return [value.func]
    if not isinstance(value, types.FunctionType):
        return None
    cells = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
    return [*cells, *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values(), *vars(value).values()]


def _is_filled(cell):
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _walk_kept(value, place, seen):
    """Look into an object of a kind that is not known here, as far as pickle goes and among its attributes."""

    def answer(met):
        if met is value:
            return None
        if is_estimator(met) or _inside_function(met) is not None or _holds_no_estimator(met):
            _refuse_kept(met, place, True, seen)
            return met
        return None

    try:
        walk(value, answer)
    except CandidateRefusedError:
        raise
    except Exception:  # a lock, a file: what comes behind it was not met
        for part in getattr(value, "__dict__", {}).values():
            _refuse_kept(part, place, True, seen)


def keeps_its_fit(estimator):
    """Return whether ``clone`` hands out the estimator itself, a part of it, or something that has been trained.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> from sklearn.frozen import FrozenEstimator
    >>> keeps_its_fit(FrozenEstimator(DummyClassifier())), keeps_its_fit(DummyClassifier())
    (True, False)
    """
    own = getattr(estimator, "__sklearn_clone__", None)
    if own is None or (getattr(own, "__func__", None) is BaseEstimator.__sklearn_clone__ and own.__self__ is estimator):
        return False  # made of its class and parameters
    twin = clone(estimator)
    if twin is estimator or _learned(twin):
        return True
    parts = {id(part) for part in getattr(estimator, "__dict__", {}).values() if is_estimator(part)}
    return any(id(part) in parts for part in getattr(twin, "__dict__", {}).values())


def _learned(estimator):
    """Return the names that scikit-learn takes for signs of a fit."""
    return {name for name in getattr(estimator, "__dict__", {}) if name.endswith("_") and not name.startswith("__")}


def _is_trained(estimator):
    """Return whether ``estimator`` has more of such names than a clone made of its class and parameters."""
    learned = _learned(estimator)
    if not learned:
        return False
    try:
        return bool(learned - _learned(clone(estimator)))
    except Exception:  # then nothing speaks against its being trained
        return True
