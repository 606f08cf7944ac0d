"""What is refused before a row is read, and by what it can be replaced. Sees parameters only."""

import numpy as np
import torch
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.parameter import UninitializedParameter, is_lazy
from torch.nn.utils.parametrize import is_parametrized

from skdptune._exceptions import CandidateRefusedError, InvalidParameterError, InvalidTypeError
from skdptune._validation import check_choice, check_integer, check_real, invalid_type, invalid_value
from skdptune.candidates._generators import SharedProcessError, shares_its_process
from skdptune.candidates.nets._callbacks import check_callbacks, runs_own_callbacks
from skdptune.candidates.nets._catches import check_catches
from skdptune.candidates.nets._copies import check_copies
from skdptune.candidates.nets._known import TOGETHER, has_global_hooks, is_known
from skdptune.candidates.nets._losses import build_criterion, takes_scaled_targets
from skdptune.candidates.nets._per_sample import MODES
from skdptune.candidates.nets._rows import input_dtype_of

__all__ = [
    "PREFIXES", "as_bounds", "check_apart", "check_code", "check_module", "check_net", "check_parameters",
    "is_component_param",
]  # fmt: skip

PREFIXES = ("module__", "criterion__", "optimizer__")

LEAST_NORM = 1e-12

# skorch's parameters that would break the price at any other value than these -> what to do instead.
_FIXED = {
    "train_split": (
        None,
        "it would read private rows that nobody priced: set train_split=None; the search holds rows out",
    ),
    "iterator_train": (
        None,
        "rows are drawn by independent coins, as priced: set iterator_train=None and choose sample_rate= or "
        "expected_batch_size=",
    ),
    "iterator_valid": (None, "there is no validation inside a training: set iterator_valid=None"),
    "dataset": (None, "rows are read by index: set dataset=None and pass arrays, frames, tensors or a dict"),
    "warm_start": (
        False,
        "a second training would start from the first and cost its own price: set warm_start=False and ask for more "
        "steps=",
    ),
    "compile": (False, "compiled modules give no per-row gradients: set compile=False"),
}

# Names that people bring along -> what to use.
_RENAMED = {
    "batch_size": "expected_batch_size= (rows per step, on average) and physical_batch_size= (rows in memory)",
    "poisson_sampling": "nothing: rows are always drawn by independent coins",
    "accumulate_grad_batches": "physical_batch_size=, which bounds memory without changing the batch",
    "accumulation_steps": "physical_batch_size=, which bounds memory without changing the batch",
    "gradient_accumulation_steps": "physical_batch_size=, which bounds memory without changing the batch",
    "class_weight": "criterion__weight= (a tensor with one public weight for each class)",
    "verbose": "nothing: what a training would print was computed from private rows",
    "target_epsilon": "epsilon= and delta= of the search, or with_budget(level)",
}


def is_component_param(name):
    """Return whether ``name`` is a parameter of the module, the criterion or the optimizer."""
    return name.startswith(PREFIXES) and len(name.split("__", 1)[1]) > 0


def _check_param_name(net, name):
    """Refuse an unknown constructor parameter, with the name to use where it is known."""
    if name in net._declared() or (net._takes_components() and is_component_param(name)):
        return
    kind = type(net).__name__
    if name in _RENAMED:
        raise InvalidTypeError(f"{kind} takes no {name!r}; use {_RENAMED[name]}.")
    first = name.split("__")[0].split("_")[0]
    guess = f"; did you mean {first}__{name[len(first) :].lstrip('_')}?" if f"{first}__" in PREFIXES else ""
    raise InvalidTypeError(f"{kind} got an unexpected parameter {name!r}{guess}.")


def check_net(net):
    """Refuse every setting of ``net`` that is known to break the price; no row, no shape is needed.

    Raises
    ------
    CandidateRefusedError, InvalidParameterError, InvalidTypeError
        Naming the parameter and the repair.
    """
    for name in net._get_param_names():
        _check_param_name(net, name)
    _check_fixed(net)
    _check_numbers(net)
    _check_can_be_pickled(net)
    check_callbacks(net)
    _check_optimizer(net)
    criterion = build_criterion(net)
    if getattr(net, "target_bounds", None) is not None and not takes_scaled_targets(criterion):
        raise CandidateRefusedError(
            f"target_bounds of {type(net).__name__} must be None with {type(criterion).__name__}: they scale targets "
            "to [-1, 1], and this loss wants probabilities or counts as they are. Clip y to a public range beforehand."
        )
    module = net._new_module(None, None, seed=0)
    if module is not None:  # else its shape must be known first: the dry run checks it
        check_module(net, module)


def _check_fixed(net):
    for name, (only, advice) in _FIXED.items():
        value = getattr(net, name)
        if value is not only:
            came = getattr(value, "__name__", type(value).__name__) if value is not True else "True"
            raise CandidateRefusedError(f"{name} of {type(net).__name__} must be {only}; got {came}: {advice}.")


def _check_can_be_pickled(net):
    """Refuse instances that would train, and then could not be stored or sent to a worker."""
    for name, value in net.get_params().items():
        if isinstance(value, torch.nn.Module) and any(map(is_parametrized, value.modules())):
            raise CandidateRefusedError(
                f"{name} of {type(net).__name__} must be one that can be pickled; got an instance with "
                "parametrizations (weight_norm, spectral_norm, orthogonal), which cannot. Pass the function that makes "
                "it: def make(): return ..."
            )


def _check_numbers(net):
    check_choice("clipping", net.clipping, ("flat", "per_layer"), _clipping_advice(net))
    check_choice("grad_sample_mode", net.grad_sample_mode, ("auto", *MODES))
    if net.clipping == "per_layer" and net.grad_sample_mode == "ghost":
        raise InvalidParameterError(
            "clipping must be 'flat' with grad_sample_mode='ghost'; got 'per_layer'. Use grad_sample_mode='hooks'."
        )
    norms = as_bounds(net.max_grad_norm)
    if isinstance(norms, (list, tuple)):
        if net.clipping != "per_layer" or not norms:
            raise invalid_type(
                "max_grad_norm", "one number", norms, "A list of bounds goes with clipping='per_layer'."
            )
    for norm in norms if isinstance(norms, (list, tuple)) else [norms]:
        check_real("max_grad_norm", norm, low=0, low_open=True, advice="It is chosen without the data.")
        if norm < LEAST_NORM:  # squares of shorter gradients vanish in single precision, and they would pass unclipped
            raise invalid_value("max_grad_norm", f"at least {LEAST_NORM:g}", norm, "Raise it, and lower lr as much.")
    check_integer("physical_batch_size", net.physical_batch_size, low=1)
    check_real("lr", net.lr, low=0)
    if "alpha" in net._declared():
        check_real("alpha", net.alpha, low=0, advice="It is the strength of the penalty on the weights.")
    input_dtype_of(net.input_dtype)
    how = getattr(net, "predict_nonlinearity", None)
    if not (how is None or callable(how) or (isinstance(how, str) and how == "auto")):
        raise invalid_type("predict_nonlinearity", "'auto', None or a callable", how, "E.g. a function of tensors.")
    try:
        torch.device(net.device)
    except (RuntimeError, TypeError):
        raise invalid_type("device", "a torch device such as 'cpu' or 'cuda'", net.device) from None


def as_bounds(norms):
    """Return ``max_grad_norm`` with an array as a list."""
    return norms.tolist() if isinstance(norms, np.ndarray) else norms


def _clipping_advice(net):
    if net.clipping == "adaptive":
        return (
            "Adaptive clipping divides by the number of rows that were drawn and moves the bound by what it saw; "
            "search max_grad_norm instead."
        )
    return ""


def _check_optimizer(net):
    maker = net.optimizer
    kind = type(net).__name__
    if not (isinstance(maker, type) and issubclass(maker, torch.optim.Optimizer)):
        from opacus.optimizers import DPOptimizer

        why = "the net adds the noise itself" if isinstance(maker, type) and issubclass(maker, DPOptimizer) else ""
        raise CandidateRefusedError(
            f"optimizer of {kind} must be a class of torch.optim such as torch.optim.SGD; got "
            f"{getattr(maker, '__name__', type(maker).__name__)}{': ' + why if why else ''}."
        )
    if maker.__module__.startswith("opacus"):
        raise CandidateRefusedError(
            f"optimizer of {kind} must be a plain class of torch.optim; got {maker.__name__} of Opacus: the net clips "
            "and adds noise itself. Pass the optimizer that it would wrap."
        )
    if issubclass(maker, (torch.optim.LBFGS, torch.optim.SparseAdam)):
        raise CandidateRefusedError(
            f"optimizer of {kind} must take one step per noisy gradient; got {maker.__name__}, which evaluates the "
            "loss again or wants sparse gradients. Use torch.optim.SGD or Adam."
        )


def check_module(net, module):
    """Refuse layers that mix rows, carry state, or have no per-row gradients."""
    kind = type(net).__name__
    if has_global_hooks():
        raise CandidateRefusedError(
            f"module of {kind} must run without hooks; some are laid on all modules of the process "
            "(torch.nn.modules.module.register_module_forward_hook and the like), and see single rows. Remove them."
        )
    for name, layer in module.named_modules():
        where = f"layer {name!r} ({type(layer).__name__}) of the module"
        if hasattr(layer, "_orig_mod") or getattr(layer, "_compiled_call_impl", None) is not None:
            raise CandidateRefusedError(
                f"{where} must not be compiled: what torch.compile makes of a call depends on the calls before it. "
                "Pass the module as it was."
            )
        if isinstance(layer, _BatchNorm):
            raise CandidateRefusedError(
                f"{where} must go: BatchNorm normalises a row by the others. Replace it with "
                "opacus.validators.ModuleValidator.fix(module), or write nn.GroupNorm or nn.LayerNorm."
            )
        if isinstance(layer, _InstanceNorm) and layer.track_running_stats:
            raise CandidateRefusedError(
                f"{where} must not keep running statistics of private rows: set track_running_stats=False "
                "(opacus.validators.ModuleValidator.fix does)."
            )
        if isinstance(layer, (torch.nn.Embedding, torch.nn.EmbeddingBag)) and layer.max_norm is not None:
            raise CandidateRefusedError(
                f"{where} must have max_norm=None: it rewrites the weights of the words that occur in the rows, "
                "without noise. Bound gradients by max_grad_norm instead."
            )
        if _has_hooks(layer):
            raise CandidateRefusedError(
                f"{where} must have no hooks: they see single rows. Put what they do into forward."
            )
    _check_trained(kind, module)
    _check_by_opacus(net, module)
    if not any(map(is_lazy, module.parameters())):  # else the dry run asks
        check_code(net, module, build_criterion(net))


def check_apart(net, module, criterion):
    """Refuse code of one's own where several tries share a process.

    Raises
    ------
    SharedProcessError
        Its masks, and whether a row fails, would depend on what other threads draw; it would fix what they draw.
    """
    if shares_its_process() and (runs_own_callbacks(net) or not is_known(module, criterion)):
        raise SharedProcessError


def check_code(net, module, criterion):
    """Refuse what copies of module and criterion would share, and code that catches the errors of a batch."""
    check_apart(net, module, criterion)
    kind, known = type(net).__name__, is_known(module, criterion)
    check_copies(kind, module, criterion, whole=not known)
    if not known and net.grad_sample_mode != "rows":
        check_catches(kind, net.grad_sample_mode, module, criterion)


def _has_hooks(layer):
    names = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    lazy = is_lazy(next(iter(layer._parameters.values()), None)) if layer._parameters else False
    return not lazy and any(getattr(layer, name, None) for name in names)


def _check_trained(kind, module):
    trainable = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
    if not trainable:
        raise CandidateRefusedError(f"module of {kind} must have a parameter to train; it has none with requires_grad.")
    check_parameters(module)


def check_parameters(module):
    """Refuse parameters to train whose gradients could not be clipped as they are."""
    for name, p in module.named_parameters():
        if not p.requires_grad:
            continue
        if not isinstance(p, UninitializedParameter) and p.dtype not in (torch.float32, torch.float64):
            raise CandidateRefusedError(
                f"parameter {name!r} of the module must be float32 or float64; got {p.dtype}: norms computed in less "
                "precision do not bound a row. Train in float32."
            )
        if not isinstance(p, UninitializedParameter) and not p.numel():
            raise CandidateRefusedError(
                f"parameter {name!r} of the module must hold at least one number; it has shape {tuple(p.shape)}, as in "
                "a layer of width 0. Give every layer a width of 1 or more, or leave it out."
            )
        if getattr(p, "_backward_hooks", None) or getattr(p, "_post_accumulate_grad_hooks", None):
            raise CandidateRefusedError(
                f"parameter {name!r} of the module must have no hooks: they see gradients before clipping and noise. "
                "Remove them; change gradients in an optimizer of your own."
            )
        if getattr(p, "grad_sample", None) is not None:
            raise CandidateRefusedError(
                f"parameter {name!r} of the module must be plain; it carries Opacus' grad_sample. Pass the module "
                "before PrivacyEngine or GradSampleModule wrapped it."
            )


def _check_by_opacus(net, module):
    from opacus.grad_sample import AbstractGradSampleModule
    from opacus.validators import ModuleValidator

    if isinstance(module, AbstractGradSampleModule):
        raise CandidateRefusedError(
            f"module of {type(net).__name__} must be plain; got {type(module).__name__}: pass the module inside it."
        )
    if net.grad_sample_mode not in TOGETHER or any(map(is_lazy, module.parameters())):
        return
    errors = ModuleValidator.validate(module.train(), strict=False)
    if errors:
        raise CandidateRefusedError(
            f"module of {type(net).__name__} holds a layer without per-row gradients: {errors[0]} Replace it with "
            "opacus.validators.ModuleValidator.fix(module), or try grad_sample_mode='functorch' (or 'rows': slow)."
        )

