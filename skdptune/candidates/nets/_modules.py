"""Modules: those that come with the package, and what is done with any."""

import contextlib
import copy
import inspect
import numbers

import torch
from torch import nn

from skdptune._exceptions import CandidateRefusedError
from skdptune.candidates._generators import borrowed_global_generators, fix_global_generators
from skdptune.candidates.nets._known import register

__all__ = [
    "MLP",
    "TemperedSigmoid",
    "as_leaves",
    "copied",
    "copy_module",
    "copy_tensors",
    "dtype_of",
    "fixed_torch_seed",
    "parameters_of",
    "plain_torch",
    "run_module",
    "run_module_by_rows",
    "seed_generators",
    "single_rows",
    "slice_rows",
    "tensors_of",
    "waits_for_shapes",
]

_MASK = (1 << 63) - 1


class TemperedSigmoid(nn.Module):
    r"""A bounded activation: :math:`s / (1 + e^{-t x}) - o`, element by element.

    The defaults make it the hyperbolic tangent. Bounded activations keep the norms of gradients
    small, so that clipping takes less of them.

    Parameters
    ----------
    scale, temperature, offset : float, default=2, 2, 1

    References
    ----------
    Papernot, Thakurta, Song, Chien and Erlingsson, arXiv 2007.14191v1.

    Examples
    --------
    >>> import torch
    >>> TemperedSigmoid()(torch.tensor([0.0]))
    tensor([0.])
    """

    def __init__(self, scale=2.0, temperature=2.0, offset=1.0):
        super().__init__()
        self.scale, self.temperature, self.offset = scale, temperature, offset

    def forward(self, x):
        """Apply the activation."""
        return self.scale * torch.sigmoid(self.temperature * x) - self.offset


register(TemperedSigmoid, 1, lambda layer: True)


class MLP(nn.Module):
    """A multilayer perceptron with tempered sigmoids; without hidden layers, a linear model.

    Parameters
    ----------
    n_features_in, n_outputs : int
        Filled in by the net from public shapes, unless given as ``module__n_features_in`` and so on.
    hidden : int or tuple of int, default=(32,)
        Widths of the hidden layers; () for none.

    Examples
    --------
    >>> import torch
    >>> MLP(4, 3)(torch.zeros(2, 4)).shape
    torch.Size([2, 3])
    """

    def __init__(self, n_features_in, n_outputs, hidden=(32,)):
        super().__init__()
        widths = [int(width) for width in ((hidden,) if isinstance(hidden, numbers.Integral) else hidden)]
        layers, width = [], n_features_in
        for following in widths:
            layers += [nn.Linear(width, following), TemperedSigmoid()]
            width = following
        self.layers = nn.Sequential(*layers, nn.Linear(width, n_outputs))

    def forward(self, x):
        """Return one row of outputs for each row of ``x``."""
        return self.layers(x.flatten(1))


register(MLP, 2, lambda layer: [*map(type, layer._modules.values())] == [nn.Sequential])


class fixed_torch_seed:  # noqa: N801
    """Run a block with the global generators seeded, and put their state back afterwards.

    For draws that need not be private: initial weights, dropout masks. Torch's generators; for code of one's own
    Python's and numpy's, too, from which other runs draw noise.

    Raises
    ------
    SharedProcessError
        For code of one's own, if another thread of this process has a run under way.
    """

    def __init__(self, seed, device="cpu", *, own_code):
        self.seed = seed
        self._others = borrowed_global_generators() if own_code else None
        cuda = torch.device(device).type == "cuda" and torch.cuda.is_available()
        self._fork = torch.random.fork_rng(devices=[torch.device(device)] if cuda else [])

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            if self._others is not None:
                stack.enter_context(self._others)
                _seed_others(self.seed)
            stack.enter_context(self._fork)
            torch.manual_seed(self.seed & _MASK)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc_info):
        return self._stack.__exit__(*exc_info)


def _seed_others(seed):
    """Seed Python's and numpy's global generators, from which code of one's own may draw."""
    fix_global_generators(seed & _MASK, (seed ^ seed >> 32) & 0xFFFFFFFF)


def seed_generators(seed, device, own_code=True):
    """Seed the global generators: torch's, and for code of one's own Python's and numpy's.

    Of torch's that of the CPU alone where no other is in use, which takes far less time.

    Raises
    ------
    SharedProcessError
        For code of one's own, if another thread of this process has a run under way.
    """
    alone = torch.device(device).type == "cpu" and not torch.cuda.is_initialized()
    (torch.default_generator if alone else torch).manual_seed(seed & _MASK)
    if own_code:
        _seed_others(seed)


@contextlib.contextmanager
def plain_torch():
    """Run a block with gradients on and autocast off, whatever the caller has set around it.

    Without gradients every row would fail, and would be left out; under autocast sums lose their digits.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        for kind in ("cpu", *(("cuda",) if torch.cuda.is_available() else ())):
            stack.enter_context(torch.autocast(kind, enabled=False))
        if torch.get_default_device().type == "meta":
            stack.enter_context(torch.device("cpu"))
        if hasattr(torch.jit, "optimized_execution"):  # copies of scripted code share what it learns from its calls
            stack.enter_context(torch.jit.optimized_execution(False))
        yield


def run_module(module, x, **more):
    """Return the outputs of ``module`` for rows ``x``, a tensor or a dict of them."""
    return module(**x, **more) if isinstance(x, dict) else module(x, **more)


def run_module_by_rows(module, x, **more):
    """Return the same row by row, each by a copy of ``module`` that never saw another.

    Parameters
    ----------
    module : torch.nn.Module
    x : tensor of shape (n_rows, ...) or dict of such
        At least one row.

    Examples
    --------
    >>> run_module_by_rows(nn.Softmax(0), torch.arange(3.0))
    tensor([1., 1., 1.])
    """
    parts = []
    for row in single_rows(len(next(iter(x.values())) if isinstance(x, dict) else x)):
        outputs = run_module(copy_module(module), copied(slice_rows(x, row)), **more)
        parts.append(outputs if isinstance(outputs, tuple) else (outputs,))
        if any(not isinstance(part, torch.Tensor) or part.shape[:1] != (1,) for part in parts[-1]):
            raise CandidateRefusedError(  # what follows would be taken for other rows' outputs
                "module must return one row of outputs for each row of inputs; for one row by itself it returned "
                "something else. Keep the row in the first dimension."
            )
    joined = tuple(torch.cat(outputs) for outputs in zip(*parts, strict=True))
    return joined if isinstance(outputs, tuple) else joined[0]


def copied(x):
    """Return copies of tensors (a dict of them, or one): of a slice they do not lead back to the other rows."""
    return {k: v.clone() for k, v in x.items()} if isinstance(x, dict) else x.clone()


def slice_rows(x, where):
    """Return the rows ``where`` of a tensor or of a dict of them."""
    return {k: v[where] for k, v in x.items()} if isinstance(x, dict) else x[where]


def single_rows(n):
    """Return the ``n`` slices that are one row each."""
    return [slice(i, i + 1) for i in range(n)]


def dtype_of(module):
    """Return the type of the module's numbers: that of its first parameter with broken ones."""
    return next((p.dtype for p in module.parameters() if p.is_floating_point()), torch.get_default_dtype())


def copy_module(module):
    """Return a deep copy of a module, to be trained or run by itself."""
    return as_leaves(copy.deepcopy(module))


def as_leaves(module):
    """Return ``module``; what copying scripted code made results of a computation are parameters again."""
    for p in module.parameters():
        if not p.is_leaf:
            p.detach_().requires_grad_()
    return module


def waits_for_shapes(net):
    """Return whether the module's constructor is completed with public shapes, which are not known yet."""
    if isinstance(net.module, nn.Module):
        return False
    return bool({"n_features_in", "n_outputs"} & set(parameters_of(net.module)) - set(net.get_params_for("module")))


def parameters_of(maker):
    try:
        return inspect.signature(maker).parameters
    except (TypeError, ValueError):
        return {}


def tensors_of(module):
    """Return all parameters and buffers by name; ``state_dict`` leaves out buffers that are not persistent."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def copy_tensors(values, module):
    """Copy tensors (a dict by name) into the parameters and buffers of ``module``."""
    with torch.no_grad():
        for name, tensor in tensors_of(module).items():
            if name in values:
                tensor.copy_(values[name])
