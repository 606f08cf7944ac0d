"""What is inside a value, as far as pickle goes; and the same value made anew, with its estimators replaced.

Whatever a container is called (a Bunch, a named tuple, a deque, an object of one's own), pickle knows the way to
everything in it. And what comes out of a pickle shares nothing with what went in: no array is a view of a larger one.
"""

import copy
import copyreg
import io
import pickle
import random
import weakref

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import FeatureUnion, Pipeline

from skdptune.candidates._entropy import HashedSequence

__all__ = [
    "GENERATORS",
    "FoundError",
    "deep_copy",
    "fitted_slots",
    "is_estimator",
    "is_generator",
    "is_plain",
    "rebuilt",
    "walk",
]

GENERATORS = (
    random.Random,
    np.random.RandomState,
    np.random.Generator,
    np.random.BitGenerator,
    np.random.SeedSequence,
    HashedSequence,
)
_ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes})
# Where scikit-learn keeps fitted parts in a parameter.
_FITTED_PARTS = {FeatureUnion: ("transformer_list",), Pipeline: ("steps",)}


class FoundError(Exception):
    """What was looked for was met on the way; raised by whoever looks."""


def is_estimator(value):
    """Return whether ``value`` is an instance with parameters.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> is_estimator(DummyClassifier()), is_estimator(DummyClassifier)
    (True, False)
    """
    return hasattr(value, "get_params") and not isinstance(value, type)


def is_generator(value):
    """Return whether ``value`` draws random numbers from a state of its own."""
    return isinstance(value, GENERATORS) or (type(value).__module__, type(value).__name__) == ("torch._C", "Generator")


def fitted_slots(estimator):
    """Return the names of the parameters in which a pipeline or a union keeps its fitted parts.

    Examples
    --------
    >>> fitted_slots(Pipeline([])), fitted_slots(object())
    (('steps',), ())
    """
    return next((_FITTED_PARTS[kind] for kind in type(estimator).__mro__ if kind in _FITTED_PARTS), ())


def is_plain(value):
    """Return whether ``value`` holds nothing but itself: a number, a text, an array of numbers.

    Structured arrays may have objects among their fields, and the type of an array may carry a dict of anything.

    Examples
    --------
    >>> is_plain(3.0), is_plain(np.zeros(2)), is_plain([3.0])
    (True, True, False)
    >>> is_plain(np.zeros(2, dtype=[("a", object)])), is_plain(np.zeros(2, dtype=np.dtype("f8", metadata={"a": []})))
    (False, False)
    """
    kind = type(value)
    if kind in _ATOMS:
        return True
    if kind is np.ndarray or isinstance(value, np.generic):
        dtype = value.dtype
        return dtype.kind not in "OV" and dtype.metadata is None
    return False


_COPIED_AS_USUAL = weakref.WeakKeyDictionary()  # class -> whether a copy is a new instance with the same attributes


def deep_copy(value):
    """Return ``copy.deepcopy(value)``; faster for an object whose attributes are plain, as models and scorers are.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> model = DummyClassifier().fit([[0.0]], [1])
    >>> twin = deep_copy(model)
    >>> twin.classes_ == model.classes_, twin.classes_ is model.classes_
    (array([ True]), False)
    """
    kind = type(value)
    usual = _COPIED_AS_USUAL.get(kind)
    if usual is None:
        usual = _COPIED_AS_USUAL[kind] = _is_copied_as_usual(kind)
    if not usual:
        return copy.deepcopy(value)
    attributes = vars(value)
    arrays = [id(part) for part in attributes.values() if type(part) is np.ndarray]
    if len(set(arrays)) < len(arrays) or not all(map(is_plain, attributes.values())):
        return copy.deepcopy(value)  # an array under two names stays one
    twin = object.__new__(kind)
    for name, part in attributes.items():
        vars(twin)[name] = part.copy(order="K") if type(part) is np.ndarray else part
    return twin


def _is_copied_as_usual(kind):
    """Return whether neither ``kind`` nor anybody else has said how its instances are copied."""
    if kind.__new__ is not object.__new__ or kind in copyreg.dispatch_table:
        return False
    if not kind.__dictoffset__ or any(vars(part).get("__slots__") for part in kind.__mro__):
        return False
    if kind.__reduce_ex__ is not object.__reduce_ex__ or kind.__reduce__ is not object.__reduce__:
        return False
    if hasattr(kind, "__deepcopy__") or hasattr(kind, "__getnewargs_ex__") or hasattr(kind, "__getnewargs__"):
        return False
    states = (getattr(kind, "__getstate__", None), getattr(kind, "__setstate__", None))
    return states in (_OBJECT_STATES, (BaseEstimator.__getstate__, BaseEstimator.__setstate__))


_OBJECT_STATES = (getattr(object, "__getstate__", None), None)


def _in_main(value):
    """Return whether ``value`` is a class of the main script, which a worker knows without being able to import it."""
    return isinstance(value, type) and value.__module__ == "__main__" and "<locals>" not in value.__qualname__


class _Pickler(pickle.Pickler):
    """Asks about everything it meets; what is answered for goes aside, the rest is written."""

    def __init__(self, file, answer, **options):
        super().__init__(file, **options)
        self._answer = answer
        self.aside = []

    def persistent_id(self, value):
        if type(value) in _ATOMS:
            return None
        answer = value if _in_main(value) else self._answer(value)
        if answer is None:
            return None
        self.aside.append(answer)
        return len(self.aside) - 1


class _Unpickler(pickle.Unpickler):
    def __init__(self, file, aside):
        super().__init__(file)
        self._aside = aside

    def persistent_load(self, position):
        return self._aside[position]


def walk(value, answer):
    """Show ``value`` and everything in it to ``answer``.

    Parameters
    ----------
    value : object
    answer : callable
        Called with each object that is no number or text. Where it returns anything but None, that object is not
        looked into; what it raises comes out.

    Raises
    ------
    Exception
        Of ``answer``, or of pickle, where it cannot look into something.

    Examples
    --------
    >>> from collections import deque
    >>> walk(deque([{"a": np.arange(2)}]), lambda each: print(type(each).__name__) if is_plain(each) else None)
    ndarray
    """
    _Pickler(io.BytesIO(), answer, protocol=5, buffer_callback=lambda buffer: None).dump(value)


def rebuilt(value, answer):
    """Return ``value`` made anew, each object in it that ``answer`` answers for replaced by the answer.

    Parameters
    ----------
    value : object
    answer : callable
        As in :func:`walk`; what it returns takes the place of what it was asked about.

    Examples
    --------
    >>> from collections import OrderedDict
    >>> view = np.arange(1000.0)[:2]
    >>> twin = rebuilt(OrderedDict(view=view), lambda each: None)
    >>> type(twin).__name__, twin["view"].base is None
    ('OrderedDict', True)
    """
    file = io.BytesIO()
    pickler = _Pickler(file, answer, protocol=4)  # with 5, arrays would lie in buffers of pickle's
    pickler.dump(value)
    file.seek(0)
    return _Unpickler(file, pickler.aside).load()
