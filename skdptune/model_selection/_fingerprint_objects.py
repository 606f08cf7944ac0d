"""Containers, estimators, distributions and any other object in a fingerprint."""

import collections
import contextvars
import copyreg
import dataclasses
import enum
import functools
import logging
import os
import random
import sys
import threading
import types
import weakref

import numpy as np

from skdptune.model_selection import _fingerprint_code as code
from skdptune.model_selection._fingerprint_tables import UnknownError, writer_of_table

__all__ = ["write_any"]

_GENERATORS = (
    np.random.RandomState,
    np.random.Generator,
    np.random.BitGenerator,
    np.random.bit_generator.ISeedSequence,
    random.Random,
)
# they say who may go on, and set nothing
_INERT = (
    type(threading.Lock()),
    type(threading.RLock()),
    threading.Event,
    threading.Condition,
    threading.Semaphore,
    threading.Barrier,
)


def write_any(value, out):
    """Write a value that is not plain.

    Raises
    ------
    UnknownError
    """
    write = _EXACT.get(type(value)) or writer_of_table(value)
    if write is None:
        write = next((each for applies, each in _BY_SHAPE if applies(value)), _write_object)
    write(value, out)


# ---------------------------------------------------------------------- containers


def _write_sequence(value, out):
    out.text(type(value).__name__, len(value))
    for item in value:
        out.value(item)


def _write_set(value, out):
    out.value(type(value))
    out.text(len(value))
    for item in sorted(value, key=out.order_of):
        out.value(item)
    if type(value) not in (set, frozenset):
        out.mapping(vars(value).items() if hasattr(value, "__dict__") else ())


def _write_dict(value, out):
    out.text("dict")
    out.mapping(value.items())


def _write_range(value, out):
    out.text("range", value.start, value.stop, value.step)


# ---------------------------------------------------------------------- any object


def _write_object(value, out):
    """Write any other object: its class, and what a pickle of it would hold."""
    if code.library_name(value) is not None or _is_compiled(value):
        code.write_builtin(value, out)
        return
    reduce = copyreg.dispatch_table.get(type(value))
    try:
        reduced = reduce(value) if reduce is not None else value.__reduce_ex__(4)
    except Exception:
        raise UnknownError(type(value).__name__) from None
    out.text("object")
    out.value(type(value))
    if isinstance(reduced, str):  # the only one of its name
        out.text(reduced)
        return
    make, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
    out.value(make)
    # the class itself comes first, and has been written
    out.value(tuple(argument for argument in arguments if argument is not type(value)))
    _write_state(value, state, out)
    out.value(None if items is None else list(items))
    if pairs is not None:
        pairs = list(pairs)
        out.mapping(pairs)
        if isinstance(value, collections.OrderedDict):
            out.value([key for key, _ in pairs])


def _is_compiled(value):
    return callable(value) and type(value).__module__ == "builtins" and hasattr(value, "__name__")


def _write_state(value, state, out):
    if isinstance(state, tuple) and len(state) == 2 and all(part is None or type(part) is dict for part in state):
        state = {**(state[0] or {}), **(state[1] or {})}
    if state is None:
        state = {}  # what was computed on demand may be all that there is
    if type(state) is not dict:
        out.value(state)
        return
    # what was computed on demand may be there or not
    cached = _cached_names(type(value))
    kept = [(name, item) for name, item in state.items() if name not in cached]
    out.mapping(kept, _label_of(value))


def _label_of(value):
    kind = type(value).__name__
    return lambda name: f"attribute {name} of {kind}"


def _cached_names(kind):
    return {n for each in kind.__mro__ for n, m in vars(each).items() if isinstance(m, functools.cached_property)}


def _write_estimator(value, out):
    kind = type(value).__name__
    out.text("estimator")
    out.value(type(value))
    params = value.get_params(deep=False)
    out.mapping(params.items(), lambda name: f"parameter {name} of {kind}")
    cached = _cached_names(type(value))
    rest = {n: v for n, v in vars(value).items() if n not in params and n not in cached}
    out.mapping(rest.items(), _label_of(value))


def _write_dataclass(value, out):
    out.text("dataclass")
    out.value(type(value))
    names = {each.name for each in dataclasses.fields(value)}
    if not code.is_library(type(value).__module__) and hasattr(value, "__dict__"):
        # in a library's own, what is no field is computed from the fields
        names |= vars(value).keys() - _cached_names(type(value))
    out.mapping(((n, getattr(value, n)) for n in names if hasattr(value, n)), _label_of(value))


def _write_distribution(value, out):
    """Write a distribution of scipy, frozen or not: its kind, its parameters and the tables that it holds."""
    dist = getattr(value, "dist", value)
    out.text("distribution")
    out.value(type(value))
    out.value(type(dist))
    if dist is not value:
        out.labelled("its parameters", (tuple(value.args), dict(value.kwds)))
    kept = {name: item for name, item in vars(dist).items() if name not in _DERIVED and not _is_rule(item)}
    out.mapping(kept.items(), lambda name: f"attribute {name} of the distribution")


# how it was made, what it draws from when nothing else is given, and its documentation
_DERIVED = frozenset({"_ctor_param", "_random_state", "__doc__", "_parse_arg_template", "_stats_has_moments"})


def _is_rule(item):
    return isinstance(item, (types.MethodType, np.vectorize))


# ---------------------------------------------------------------------- what needs a word of its own


def _write_generator(value, out):
    # every run gets its own randomness, whatever generator a setting holds
    out.text("generator")
    out.value(type(value))


def _write_inert(value, out):
    out.text("inert", type(value).__name__)


def _write_logger(value, out):
    out.text("logger", value.name)


_STREAMS = ("stdout", "__stdout__", "stderr", "__stderr__", "stdin", "__stdin__")


def _write_stream(value, out):
    out.text("stream", next(name for name in _STREAMS if value is getattr(sys, name)).strip("_"))


def _write_environment(value, out):
    out.text("environment")


def _write_enum(value, out):
    out.text("member", value.name)
    out.value(type(value))
    out.value(value.value)


def _write_partial(value, out):
    out.text("partial")
    out.value(type(value))
    out.value((value.func, value.args, value.keywords))


def _write_property(value, out):
    out.text("property")
    out.value((value.fget, value.fset, value.fdel))


def _write_held(value, out):
    out.text(type(value).__name__)
    out.value(value.__func__)


def _write_cached_property(value, out):
    out.text("cached_property")
    out.value(value.func)


def _write_cached(value, out):
    out.text("lru_cache", sorted(value.cache_parameters().items()))
    out.value(value.__wrapped__)


def _write_vectorized(value, out):
    out.text("vectorize")
    out.value((value.pyfunc, value.otypes, value.signature, value.excluded, value.cache))


def _write_context_variable(value, out):
    out.text("context variable", value.name)
    try:
        out.value(value.get())
    except LookupError:
        out.text("not set")


def _write_weak(value, out):
    out.text("weak")
    out.value(value())


def _write_proxy(value, out):
    out.text("proxy")
    out.mapping(value.items())


def _write_compiled_on_use(value, out):
    """Write a function that numba compiles: the Python function that it was made from."""
    out.text("compiled on use")
    out.value(type(value))
    out.value(value.py_func)


def _write_code(value, out):
    code.write_code(value, out)


_EXACT = {
    list: _write_sequence,
    tuple: _write_sequence,
    set: _write_set,
    frozenset: _write_set,
    dict: _write_dict,
    range: _write_range,
    types.FunctionType: code.write_function,
    types.MethodType: code.write_method,
    types.BuiltinFunctionType: code.write_builtin,
    types.CodeType: _write_code,
    types.MethodDescriptorType: code.write_descriptor,
    types.WrapperDescriptorType: code.write_descriptor,
    types.ClassMethodDescriptorType: code.write_descriptor,
    types.GetSetDescriptorType: code.write_descriptor,
    types.MemberDescriptorType: code.write_descriptor,
    types.MethodWrapperType: code.write_builtin,
    types.MappingProxyType: _write_proxy,
    np.ufunc: code.write_builtin,
    np.vectorize: _write_vectorized,
    property: _write_property,
    staticmethod: _write_held,
    classmethod: _write_held,
    functools.cached_property: _write_cached_property,
    type(functools.lru_cache(len)): _write_cached,
    contextvars.ContextVar: _write_context_variable,
    weakref.ref: _write_weak,
    type(os.environ): _write_environment,
}


def _is_generator(value):
    torch = sys.modules.get("torch")
    return isinstance(value, _GENERATORS) or (torch is not None and isinstance(value, torch.Generator))


def _is_distribution(value):
    if all(hasattr(value, name) for name in ("dist", "args", "kwds")):
        return hasattr(value.dist, "_ctor_param")
    return hasattr(value, "_ctor_param") and hasattr(value, "rvs")


_BY_SHAPE = (
    (lambda value: isinstance(value, type), code.write_class),
    (lambda value: isinstance(value, types.ModuleType), code.write_module),
    (lambda value: isinstance(value, enum.Enum), _write_enum),
    (_is_generator, _write_generator),
    (lambda value: isinstance(value, _INERT), _write_inert),
    (lambda value: isinstance(value, logging.Logger), _write_logger),
    (lambda value: any(value is getattr(sys, name) for name in _STREAMS), _write_stream),
    (lambda value: isinstance(value, functools.partial), _write_partial),
    (lambda value: isinstance(value, (set, frozenset)), _write_set),
    (_is_distribution, _write_distribution),
    (lambda value: isinstance(getattr(value, "py_func", None), types.FunctionType), _write_compiled_on_use),
    (lambda value: hasattr(value, "get_params"), _write_estimator),
    (dataclasses.is_dataclass, _write_dataclass),
)
