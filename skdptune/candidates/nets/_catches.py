"""Code of one's own that catches errors, found by reading it.

Under ``vmap``, and wherever the rows of a batch go through forward together, one row's error is the whole batch's:
an ``except`` sends all rows another way because of one. What is read is what forward can get at: the methods of
classes outside the libraries by the names that are used, and functions by global, closure, default and attribute.
"""

import contextlib
import dis
import functools
import inspect
import sys
import types

import torch

from skdptune._exceptions import CandidateRefusedError

__all__ = ["catches", "check_catches", "is_own"]

# Read by others, and not row by row: what these catch is their own affair.
_LIBRARIES = frozenset(
    {*sys.stdlib_module_names, "torch", "opacus", "numpy", "scipy", "sklearn", "skorch", "skdptune"} - {"__main__"}
)
# Methods that run without being named. Those that build, store and show an object do not run with rows.
_UNNAMED = {"forward", "backward", "setup_context", "vmap", "jvp"}
_APART = {
    *("__init__", "__new__", "__init_subclass__", "__repr__", "__str__", "__dir__", "__del__", "__doc__"),
    *("__copy__", "__deepcopy__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__getnewargs__"),
}
_CATCHING = (contextlib.suppress,)
# Of what a library's base has, and calls by itself, these see no rows.
_BUILDING = {"extra_repr", "reset_parameters", "_reset_parameters", "_init_weights"}
_CALLED = {"_call_impl", "_wrapped_call_impl", "_slow_forward", "_get_backward_hooks", "_get_backward_pre_hooks"}


def is_own(name):
    """Return whether a module of this name is none of the libraries'."""
    return str(name).partition(".")[0] not in _LIBRARIES


def catches(code):
    """Return whether a code object goes on after an error: ``except`` that raises again, ``finally`` and ``with`` not.

    Examples
    --------
    >>> catches(compile("try: f()\\nexcept KeyError: pass", "", "exec"))
    True
    >>> catches(compile("try: f()\\nfinally: g()", "", "exec"))
    False
    """
    leaves_with = 0
    steps = [step.opname for step in dis.get_instructions(code)]
    for step, following in zip(steps, [*steps[1:], ""], strict=True):
        if step == "CHECK_EG_MATCH":
            return True
        if step == "WITH_EXCEPT_START":
            leaves_with += 1  # it has a way out of its own, for what __exit__ silences
        elif step == "POP_EXCEPT" and following != "RERAISE":
            if not leaves_with:
                return True
            leaves_with -= 1
    return False


def check_catches(kind, mode, *roots):
    """Refuse modules whose own code catches errors.

    Parameters
    ----------
    kind : str
        The name of the net.
    mode : str
        Its ``grad_sample_mode``.
    *roots : torch.nn.Module

    Raises
    ------
    CandidateRefusedError
    """
    name = _Reader().first_that_catches(roots)
    if name is not None:
        raise CandidateRefusedError(
            f"module and criterion of {kind} must catch no errors with grad_sample_mode={mode!r}; {name} does. In a "
            "batch the error of one row would send all others into the except. Set grad_sample_mode='rows' (each row "
            "by itself, slow), or test for what goes wrong, e.g. by torch.where or torch.linalg.inv_ex."
        )


class _Reader:
    """Follows what forward can get at, by name."""

    def __init__(self):
        self._seen, self._names, self._waiting, self._todo = set(), set(), {}, []

    def first_that_catches(self, roots):
        for root in roots:
            for layer in root.modules():
                self._add_object(layer)
        while self._todo:
            function = self._todo.pop()
            for code in _codes(function.__code__):
                if catches(code):
                    return getattr(function, "__qualname__", code.co_name)
                found = self._use(function, code)
                if found is not None:
                    return found
        return None

    def _use(self, function, code):
        """Follow the names in ``code``; return one that catches by itself."""
        texts = {text for text in code.co_consts if isinstance(text, str) and text.isidentifier()}  # getattr
        names = {*code.co_names, *texts}
        for name in names - self._names:
            self._names.add(name)
            for method in self._waiting.pop(name, ()):
                self._add(method)
        known = function.__globals__
        values = [known[name] for name in code.co_names if name in known]
        for module in [value for value in values if isinstance(value, types.ModuleType)]:
            values += [vars(module)[name] for name in code.co_names if name in vars(module)]
        for value in values:
            if any(value is catching for catching in _CATCHING):
                return f"{value.__name__} in {function.__qualname__}"
            self._add(value)
        return None

    def _first(self, value):
        new = id(value) not in self._seen
        self._seen.add(id(value))
        return new

    def _add(self, value):
        """Follow a value that code or an object refers to."""
        if isinstance(value, (torch.Tensor, types.ModuleType, str, bytes, int, float, type(None))):
            return
        if isinstance(value, (list, tuple, set, frozenset)):
            parts = value if self._first(value) else ()
        elif isinstance(value, dict):
            parts = value.values() if self._first(value) else ()
        else:
            parts = _parts(value) if self._first(value) else ()
            if isinstance(value, types.FunctionType) and parts and is_own(value.__globals__.get("__name__")):
                self._todo.append(value)
            elif isinstance(value, type):
                self._add_class(value, called=True)
            elif is_own(type(value).__module__):
                self._seen.discard(id(value))
                self._add_object(value)
        for part in list(parts):
            self._add(part)

    def _add_object(self, value):
        if not self._first(value):
            return
        self._add_class(type(value))
        for held in list(getattr(value, "__dict__", {}).values()):
            self._add(held)

    def _add_class(self, cls, called=False):
        """Take in the methods of a class; those that nothing names yet wait."""
        for base in cls.__mro__:
            key = (id(base), called)
            if not is_own(base.__module__) or key in self._seen:
                continue
            self._seen.add(key)
            called_by_base = _names_of_libraries(cls)
            for name, method in vars(base).items():
                unnamed = name in _UNNAMED or name in called_by_base or (name.startswith("__") and name.endswith("__"))
                runs = name in ("__init__", "__new__") if called and name in _APART else unnamed
                if (runs and (called or name not in _APART)) or name in self._names:
                    self._add(method)
                else:
                    self._waiting.setdefault(name, []).append(method)


def _names_of_libraries(cls):
    """Return the names that library bases of a class have: their code may call what stands there now."""
    names = set()
    for base in cls.__mro__:
        if base is torch.nn.Module:
            names |= _CALLED  # the rest builds, moves and stores modules
        elif base is not object and not is_own(base.__module__):
            names |= set(vars(base)) - _BUILDING
    return names


def _codes(code):
    yield code
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _codes(inner)


def _parts(value):
    """Return what a function, or what wraps one, holds."""
    if isinstance(value, property):
        return [value.fget, value.fset, value.fdel]
    if isinstance(value, functools.cached_property):
        return [value.func]
    if isinstance(value, (functools.partial, functools.partialmethod)):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, (staticmethod, classmethod, types.MethodType)):
        return [value.__func__, *([value.__self__] if isinstance(value, types.MethodType) else [])]
    parts = [inspect.getattr_static(value, "__wrapped__", None)]
    if isinstance(value, types.FunctionType):
        parts += [*_cells(value), *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
    elif hasattr(value, "__wrapped__") and not isinstance(value, type):
        parts.append(value.__wrapped__)  # lru_cache
    return parts


def _cells(function):
    """Return what the closure of ``function`` holds."""
    held = []
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # not filled yet
            held.append(cell.cell_contents)
    return held
