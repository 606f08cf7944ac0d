"""Modules whose forward is known to treat each row by itself, by exact type and setting.

For these, and only for these, rows cannot meet in a batch because of what the module *is*: a tree of torch's own
layers, each of which works along the dimensions of one row. Everything else is code we have not read.
"""

import functools

import numpy as np
import torch
from opacus.grad_sample import GradSampleModule
from torch import nn

from skdptune._exceptions import CandidateRefusedError

__all__ = ["TOGETHER", "has_global_hooks", "is_known", "register", "resolve_mode", "row_by_row", "watch_shapes"]

GRAD_SAMPLERS = GradSampleModule.GRAD_SAMPLERS
TOGETHER = ("hooks", "ghost")  # modes in which the rows of a batch go through forward as one


def _always(layer):
    return True


def _after_the_rows(*names):
    """Return a condition: the dimensions named are given from the front, behind the rows."""
    return lambda layer: all(isinstance(getattr(layer, name), int) and getattr(layer, name) >= 1 for name in names)


def _not_the_rows(layer):
    return isinstance(layer.dim, int) and layer.dim != 0  # counted from the end: see _least_dimensions


def _plain_convolution(layer):
    one_dimensional = type(layer) is nn.Conv1d
    return layer.padding_mode == "zeros" and (one_dimensional or not isinstance(layer.padding, str))


def _has_bias_or_nothing(layer):
    return layer.weight is None or layer.bias is not None


# type -> (condition on its settings, least number of dimensions of its input, rows included). With fewer, torch
# takes the rows for channels, or normalises over them.
_LAYERS = {
    nn.Identity: (_always, 1),
    nn.Linear: (_always, 2),
    nn.Conv1d: (_plain_convolution, 3),
    nn.Conv2d: (_plain_convolution, 4),
    nn.Conv3d: (_plain_convolution, 5),
    nn.Embedding: (lambda layer: layer.max_norm is None and not layer.sparse, 1),
    nn.GroupNorm: (_always, 2),
    nn.Flatten: (_after_the_rows("start_dim"), 2),
    nn.Unflatten: (_after_the_rows("dim"), 2),
    nn.Softmax: (_not_the_rows, 2),
    nn.LogSoftmax: (_not_the_rows, 2),
    nn.GLU: (_not_the_rows, 2),
    nn.Dropout1d: (_always, 3),
    nn.Dropout2d: (_always, 4),
    nn.Dropout3d: (_always, 5),
    nn.FeatureAlphaDropout: (_always, 3),
    **dict.fromkeys((nn.Dropout, nn.AlphaDropout), (_always, 1)),
    **dict.fromkeys((nn.MaxPool1d, nn.AvgPool1d, nn.AdaptiveAvgPool1d, nn.AdaptiveMaxPool1d), (_always, 3)),
    **dict.fromkeys((nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d), (_always, 4)),
    **dict.fromkeys((nn.MaxPool3d, nn.AvgPool3d, nn.AdaptiveAvgPool3d, nn.AdaptiveMaxPool3d), (_always, 5)),
    **dict.fromkeys(
        (
            *(nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.CELU, nn.SELU, nn.GELU, nn.SiLU, nn.Mish, nn.Hardtanh),
            *(nn.Hardswish, nn.Hardsigmoid, nn.Sigmoid, nn.LogSigmoid, nn.Tanh, nn.Tanhshrink, nn.Softplus),
            *(nn.Softsign, nn.Softshrink, nn.Hardshrink, nn.Threshold),
        ),
        (_always, 1),
    ),
}

_CRITERIA = {
    *(nn.CrossEntropyLoss, nn.NLLLoss, nn.BCELoss, nn.BCEWithLogitsLoss, nn.MultiMarginLoss, nn.SoftMarginLoss),
    *(nn.MSELoss, nn.L1Loss, nn.SmoothL1Loss, nn.HuberLoss, nn.PoissonNLLLoss),
}


_HOOKS = (
    *("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"),
    *("_state_dict_hooks", "_load_state_dict_pre_hooks"),
)
# What runs, as it was when this was read; torch's classes may be patched since.
_FORWARDS = {kind: kind.forward for kind in (*_LAYERS, nn.LayerNorm, nn.Sequential, *_CRITERIA)}
# A rule may be registered in place of Opacus' own.
_RULES = {kind: rule for kind, rule in GRAD_SAMPLERS.items() if rule.__module__.partition(".")[0] == "opacus"}
_CALL = nn.Module.__call__, nn.Module._call_impl
_GLOBAL_HOOKS = tuple(
    getattr(nn.modules.module, f"_global_{name}")
    for name in ("forward_hooks", "forward_pre_hooks", "backward_hooks", "backward_pre_hooks")
)
_PLAIN = (int, float, bool, str, type(None))
# What passes rows on to its children: type -> (condition on its settings, least number of dimensions of its input).
_OWN = {nn.Sequential: (_always, 1)}


def register(kind, least, condition):
    """Make a module of this package known: its forward as it is now, on instances that meet ``condition``."""
    _OWN[kind] = condition, least
    _FORWARDS[kind] = kind.forward


def has_global_hooks():
    """Return whether hooks are laid on all modules of the process."""
    return any(_GLOBAL_HOOKS)


def _is_setting(value):
    """Return whether a value is a plain one: anything else could run when it is computed with."""
    if type(value) in (tuple, list, torch.Size):
        return all(map(_is_setting, value))
    return type(value) in _PLAIN or (isinstance(value, np.generic) and type(value).__module__ == "numpy")


def _is_patched(layer):
    """Return whether what a call of the layer runs is not what was read: on the instance, its class or all modules."""
    kind = type(layer)
    if (kind in _FORWARDS and kind.forward is not _FORWARDS[kind]) or (kind.__call__, kind._call_impl) != _CALL:
        return True
    if any(type(buffer) is not torch.Tensor for buffer in layer._buffers.values() if buffer is not None):
        return True
    held = vars(layer).items()
    # on the instance: in place of a method of the class, or of a layer that forward calls
    strange = any(callable(getattr(kind, k, None)) or not (k.startswith("_") or _is_setting(v)) for k, v in held)
    return strange or has_global_hooks()


def _least_dimensions(layer):
    """Return the least number of dimensions of the layer's input, or None where its forward is not known."""
    kind = type(layer)
    if _is_patched(layer) or any(getattr(layer, name, None) for name in _HOOKS):
        return None
    if trains(layer) and GRAD_SAMPLERS.get(kind) is not _RULES.get(kind):
        return None
    if any(type(p) is not nn.Parameter for p in layer._parameters.values() if p is not None):
        return None
    if kind is nn.LayerNorm:  # with no dimension to spare it would normalise over the rows
        return len(layer.normalized_shape) + 1 if _has_bias_or_nothing(layer) else None
    if kind in _LAYERS:
        condition, least = _LAYERS[kind]
        if not condition(layer):
            return None
        return max(least, 1 - layer.dim) if isinstance(getattr(layer, "dim", None), int) else least
    condition, least = _OWN.get(kind, (None, None))
    return least if condition is not None and condition(layer) else None


def is_known(module, criterion=None):
    """Return whether rows cannot meet in ``module`` and ``criterion``, whatever they hold.

    Examples
    --------
    >>> is_known(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)), nn.CrossEntropyLoss())
    True
    >>> is_known(nn.Sequential(nn.Flatten(0), nn.Linear(3, 2)))
    False
    """
    if criterion is not None and (type(criterion) not in _CRITERIA or _is_patched(criterion)):
        return False
    return all(_least_dimensions(layer) is not None for layer in module.modules())


def watch_shapes(module):
    """Make every layer of a known module check its input's number of dimensions; return what removes it again."""
    handles = []
    for layer in module.modules():
        check = functools.partial(_check_shape, _least_dimensions(layer))
        handles.append(layer.register_forward_pre_hook(check, with_kwargs=True))
        if type(layer) is nn.Embedding:
            outside = []
            handles.append(layer.register_forward_pre_hook(functools.partial(_take_inside, outside), with_kwargs=True))
            handles.append(layer.register_forward_hook(functools.partial(_mark_outside, outside)))
    return handles


def _check_shape(least, layer, args, kwargs):
    x = next(iter((*args, *kwargs.values())))  # rows in a dict come by the name of forward's argument
    if x.dim() < least:
        raise CandidateRefusedError(
            f"a {type(layer).__name__} of the module must get inputs of {least} dimensions, the rows first; got "
            f"{x.dim()}: it would take the rows for something else. Put nn.Unflatten(1, ...) before it."
        )


def _take_inside(outside, layer, args, kwargs):
    """Replace codes outside the table, for which the whole batch would fail (on a GPU, the process)."""
    (name, codes), *_ = [*enumerate(args), *kwargs.items()]
    outside[:] = [(codes < 0) | (codes >= layer.num_embeddings)]
    codes = codes.masked_fill(outside[0], 0)
    return ((codes,), {}) if name == 0 else ((), {name: codes})


def _mark_outside(outside, layer, args, output):
    """Give such codes no number, so that the row has no finite gradient, and counts zero."""
    return output.masked_fill(outside.pop().unsqueeze(-1), float("nan"))


def resolve_mode(mode, module, criterion):
    """Return the way to per-row gradients that ``grad_sample_mode`` stands for.

    "auto" is "hooks" for known modules, and "functorch" for all others.
    """
    if mode != "auto":
        return mode
    trained = all(has_rule(layer) for layer in module.modules() if trains(layer))
    return "hooks" if trained and is_known(module, criterion) else "functorch"


def row_by_row(mode, module, criterion=None):
    """Return whether forward must see every row by itself, on a copy of its own."""
    return mode == "rows" and not is_known(module, criterion)


def trains(layer):
    """Return whether the layer itself has a parameter to train."""
    return any(p is not None and p.requires_grad for p in layer._parameters.values())


def has_rule(layer):
    """Return whether Opacus has a rule for the per-row gradients of this very type, one row of inputs per row."""
    return type(layer) in GRAD_SAMPLERS and type(layer) is not torch.nn.EmbeddingBag
