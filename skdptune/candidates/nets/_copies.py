"""That copies of a module share nothing with it: what one row leaves behind must go with the copy that saw it.

``copy.deepcopy`` does not copy functions, and with them not what their closures, defaults or owners refer to; nor
what a class with a ``__deepcopy__`` of its own keeps for all copies.
"""

import copy
import enum
import functools
import types
import weakref

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from skdptune._exceptions import CandidateRefusedError
from skdptune.candidates.nets._catches import _cells

__all__ = ["check_copies"]

_PLAIN = (str, bytes, int, float, complex, bool, type(None), type, types.ModuleType, torch.dtype, torch.device)
_CACHE = type(functools.lru_cache(len))
_KEPT = (types.FunctionType, types.BuiltinFunctionType, _CACHE, weakref.ref)  # by deepcopy, as they are
_PROXIES = (weakref.ProxyType, weakref.CallableProxyType)
_INNER = ("_parameters", "_buffers", "_modules")


def check_copies(kind, *roots, whole=True):
    """Refuse modules that share something with their copies.

    Parameters
    ----------
    kind : str
        The name of the net.
    *roots : torch.nn.Module
        Not lazy.
    whole : bool, default=True
        False asks only what the functions they hold refer to, and makes no copy.

    Raises
    ------
    CandidateRefusedError
        Naming what is shared, and the repair.
    """
    _check_overlap(kind, roots)
    held = dict(_walk(roots))
    for path, value in held.values():
        if _is_kept(value):
            _check_kept(kind, path, value)
    if not whole:
        return
    try:
        twins = copy.deepcopy(roots)
    except Exception as error:
        raise CandidateRefusedError(
            f"module of {kind} must be one that copy.deepcopy can copy; it raised {type(error).__name__}. Build in the "
            "constructor nothing that is open or running: files, locks, generators."
        ) from error
    copies = dict(_walk(twins))
    storages = {_storage(value) for _, value in copies.values() if isinstance(value, torch.Tensor)} - {None}
    for key, (path, value) in held.items():
        if (key in copies and _counts(value)) or (isinstance(value, torch.Tensor) and _storage(value) in storages):
            raise CandidateRefusedError(
                f"module of {kind} must share nothing with its copies; copy.deepcopy of it keeps {path or 'itself'!r} "
                f"(a {type(value).__name__}), so that what forward writes there would outlive the batch. Drop the "
                "__deepcopy__ of its class, or copy everything in it."
            )


def _check_overlap(kind, roots):
    """Refuse buffers that lie in a parameter's memory: training writes to them."""
    trained = {_storage(p) for root in roots for p in root.parameters()} - {None}
    for root in roots:
        for name, buffer in root.named_buffers():
            if _storage(buffer) in trained:
                raise CandidateRefusedError(
                    f"buffer {name!r} of the module of {kind} must have memory of its own; it shares that of a "
                    "parameter, and buffers are published as they were at the start. Register a .clone()."
                )


def _storage(tensor):
    if is_lazy(tensor) or tensor.layout != torch.strided or tensor.is_meta:
        return None
    return tensor.untyped_storage().data_ptr() or None


def _counts(value):
    """Return whether it matters that an object is shared between copies."""
    if isinstance(value, (nn.Module, torch.Tensor)):
        return True
    own = getattr(value, "__dict__", None) and hasattr(type(value), "__deepcopy__")
    return bool(own) and not isinstance(value, (enum.Enum, *_KEPT))


def _is_kept(value):
    return type(value) in _PROXIES or isinstance(value, _KEPT)


def _check_kept(kind, path, value):
    reached = [part for _, (_, part) in _walk([value], everything=True)]
    what = next((part for part in reached if isinstance(part, (nn.Module, torch.Tensor))), None)
    cached = type(value) is _CACHE
    if what is None and not cached:
        return
    why = "keeps what it was called with" if cached else f"refers to a {type(what).__name__} outside it"
    raise CandidateRefusedError(
        f"module of {kind} must hold no function that is shared between its copies; {path!r} (a "
        f"{type(value).__name__}) {why}, so that what a row leaves there would outlive its batch. Write it as a method "
        "of the class (def ... in place of a lambda), without a cache, and register tensors with register_buffer."
    )


def _behind(value):
    """Return what a function or a reference leads to."""
    if type(value) in _PROXIES:
        return []  # it passes for what it stands for
    if isinstance(value, weakref.ref):
        return [value()]
    parts = [getattr(value, name, None) for name in ("__self__", "__wrapped__")]
    parts += getattr(value, "__dict__", {}).values()
    if isinstance(value, types.FunctionType):
        parts += [*_cells(value), *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
    return parts


def _walk(roots, everything=False):
    """Yield ``(id, (path, object))`` for all that the objects hold and deepcopy follows, or ``everything``."""
    seen, todo = set(), [("", root) for root in roots]
    while todo:
        path, value = todo.pop()
        if isinstance(value, _PLAIN) or id(value) in seen:
            continue
        seen.add(id(value))
        yield id(value), (path, value)
        if _is_kept(value):
            inner = [("", part) for part in _behind(value)] if everything else []
        else:
            inner = _inside(value)
        todo += [(f"{path}.{name}" if path and name else path or name, part) for name, part in inner]


def _inside(value):
    """Return pairs (name, object) of what an object holds."""
    if isinstance(value, torch.Tensor):
        return []
    if isinstance(value, dict):
        return [*((str(k), v) for k, v in value.items()), *(("", k) for k in value)]
    if isinstance(value, (list, tuple, set, frozenset)):
        return [(str(i), part) for i, part in enumerate(value)]
    if isinstance(value, functools.partial):
        return [("", value.func), ("", value.args), ("", value.keywords)]
    if isinstance(value, types.MethodType):
        return [("", value.__self__), ("", value.__func__)]
    if type(value).__module__.partition(".")[0] == "torch" and not isinstance(value, nn.Module):
        return []  # torch's own bookkeeping, which knows how to copy itself
    held = dict(getattr(value, "__dict__", {}))
    if isinstance(value, nn.RNNBase):
        held.pop("_flat_weight_refs", None)  # torch asks of them only whether the weights are still there
    for base in type(value).__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, name):
                held[name] = getattr(value, name)
    return [("" if name in _INNER else name, part) for name, part in held.items()]
