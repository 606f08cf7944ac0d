"""The sum over a batch of clipped gradients, one gradient per row.

Three ways to the same sum. ``hooks`` takes per-row gradients from Opacus' layer rules; ``functorch``
differentiates each row by itself (``vmap`` of ``grad``), so that rows cannot meet; ``ghost`` finds each
row's norm first and then one gradient of the weighted losses, in little memory.

A row whose gradient is not finite, or for which the module raises an error, contributes zero: what it
contributes is a function of the row alone, and training does not depend on whether it can be computed.

A matrix product may run in 8 or 10 bits (``torch.set_float32_matmul_precision``, TF32), and a factor rounded up
by one part in 256 breaks the bound: where products are not exact, factors are multiplied in element by element.
"""

import contextlib

import torch
from opacus import GradSampleModule
from opacus.grad_sample.grad_sample_module_fast_gradient_clipping import (
    GradSampleModuleFastGradientClipping,
)
from torch import nn
from torch.func import functional_call, grad, vmap

from skdptune._exceptions import CandidateRefusedError

__all__ = ["MODES", "clipper", "slice_rows"]

# Norms are computed in floating point: what is clipped to this share of the bound lies below it.
_MARGIN = 1 - 1e-5  # the private side
_GHOST_MARGIN_CUDA = 1 - 2e-3  # its two backward passes may round to 10 bits in convolutions
_FATAL = (torch.OutOfMemoryError, MemoryError)
_FULL = (torch.float32, torch.float64)


class _Clipper:
    """Base: batches in, clipped sums out, one tensor per trainable parameter.

    Parameters
    ----------
    module : torch.nn.Module
        In training mode, on its device.
    row_loss : RowLoss
    bounds : list of float
        One clipping bound ("flat"), or one for each trainable parameter ("per_layer").
    strict : bool, default=False
        True raises what a batch raises (the dry run); False leaves out the rows that cause it.
    """

    def __init__(self, module, row_loss, bounds, strict=False):
        self.module = module
        self.row_loss = row_loss
        self.bounds = bounds
        self.strict = strict
        self.named = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
        if not self.named:
            raise CandidateRefusedError(
                "module must have a parameter to train in every epoch; a callback froze the last one. Leave one free."
            )
        self.hold()
        self._setup()

    def _setup(self):
        pass

    def close(self):
        """Take everything off the module again."""

    def reset(self):
        """Forget what a batch that failed has left behind."""

    def clipped_sum(self, x, y):
        """Return the sums of clipped gradients of the rows ``x`` with targets ``y``."""
        try:
            self.restore()
            return self._sum(x, y)
        except (Exception, SystemExit) as error:
            if self.strict:
                raise
            self.reset()
            return self._in_halves(x, y, error)

    def _in_halves(self, x, y, error):
        """Find the rows that fail and leave them out; halve a batch that exhausts the memory."""
        n = y.shape[0]
        fatal = isinstance(error, _FATAL)
        if n <= 1:
            if fatal:
                raise error
            return self.zeros()
        if fatal and torch.cuda.is_available():
            torch.cuda.empty_cache()
        first = self.clipped_sum(slice_rows(x, slice(0, n // 2)), y[: n // 2])
        second = self.clipped_sum(slice_rows(x, slice(n // 2, n)), y[n // 2 :])
        return [a + b for a, b in zip(first, second, strict=True)]

    def zeros(self):
        """Return the sums of an empty batch."""
        return [torch.zeros_like(p, requires_grad=False) for _, p in self.named]

    def hold(self):
        """Take parameters and buffers as they stand, before a step has seen a row."""
        self._held = [(t, t.detach().clone()) for t in (*self.module.parameters(), *self.module.buffers())]

    def restore(self):
        """Put parameters and buffers back: what forward wrote into them it wrote without noise."""
        with torch.no_grad():
            for tensor, start in self._held:
                tensor.copy_(start)

    def gradients(self, x, y):
        """Return unclipped per-row gradients, or None where they are never formed (for the dry run)."""
        return None

    def _losses(self, module, x, y):
        outputs = module(**x) if isinstance(x, dict) else module(x)
        return self.row_loss(outputs, y)


def _factor(bound, norm):
    """Return what brings rows of these norms to the bound: at most 1, and 0 where it cannot be told.

    A factor below the least normal number is kept to a few bits and may be rounded up by half of itself.
    """
    factor = (bound / norm).clamp(max=1.0)  # 1 for a zero gradient
    return factor.masked_fill(~torch.isfinite(norm) | (factor < torch.finfo(norm.dtype).tiny), 0.0)


class _Materialised(_Clipper):
    """Clippers that hold one gradient per row in memory."""

    def _sum(self, x, y):
        return self._clip(self.gradients(x, y), y.shape[0])

    def _clip(self, gradients, n):
        # in the parameter's own precision, whatever autocast made of the gradient
        flat = [g.detach().to(p.dtype).reshape(n, -1) for g, (_, p) in zip(gradients, self.named, strict=True)]
        norms = torch.stack([torch.linalg.vector_norm(g, dim=1) for g in flat])
        bad = ~torch.isfinite(norms).all(dim=0)
        if bool(bad.any()):
            flat = [g.masked_fill(bad[:, None], 0.0) for g in flat]
            norms = norms.masked_fill(bad[None, :], 0.0)
        if len(self.bounds) == 1:
            whole = torch.linalg.vector_norm(norms, dim=0)
            factors = [_factor(self.bounds[0] * _MARGIN, whole)] * len(flat)
        else:
            factors = [
                _factor(bound * _MARGIN, norm) for bound, norm in zip(self.bounds, norms, strict=True)
            ]
        exact = _products_are_exact(norms.device)
        return [
            (factor @ g if exact else (g * factor[:, None]).sum(0)).reshape(p.shape)
            for factor, g, (_, p) in zip(factors, flat, self.named, strict=True)
        ]

    def _check_rows(self, name, gradient, n):
        if gradient is None or gradient.shape[0] != n:
            came = "none" if gradient is None else f"{gradient.shape[0]} for {n} rows"
            raise CandidateRefusedError(
                f"parameter {name!r} of the module must get one gradient per row; got {came}: it is not used "
                "in forward, or a layer sees another number of rows than the module. Freeze it "
                "(requires_grad=False), remove it, keep rows first, or use grad_sample_mode='functorch'."
            )


class HooksClipper(_Materialised):
    """Per-row gradients from Opacus' ``GradSampleModule``."""

    def _setup(self):
        self._wrapped = GradSampleModule(self.module, loss_reduction="sum", strict=False)

    def close(self):
        self.reset()
        self._wrapped.remove_hooks()
        _forget(self.module)

    def reset(self):
        _forget(self.module, keep_counters=True)

    def gradients(self, x, y):
        losses = self._losses(self._wrapped, x, y)
        losses.sum().backward()
        gradients = []
        for name, p in self.named:
            gradient = p.grad_sample if isinstance(p.grad_sample, torch.Tensor) else None
            self._check_rows(name, gradient, y.shape[0])
            gradients.append(gradient)
            p.grad_sample, p.grad = None, None
        return gradients


class FunctorchClipper(_Materialised):
    """Each row differentiated by itself: rows cannot meet, whatever the module does."""

    def _setup(self):
        self._per_row = vmap(
            grad(self._loss_of_one), in_dims=(None, None, 0, 0), randomness="different"
        )

    def _loss_of_one(self, parameters, constants, x, y):
        def module(*args, **kwargs):
            return functional_call(self.module, (parameters, constants), args, kwargs)

        single = {k: v.unsqueeze(0) for k, v in x.items()} if isinstance(x, dict) else x.unsqueeze(0)
        return self._losses(module, single, y.unsqueeze(0)).sum()

    def gradients(self, x, y):
        parameters = {name: p.detach() for name, p in self.named}
        constants = {n: p.detach() for n, p in self.module.named_parameters() if not p.requires_grad}
        constants.update(self.module.named_buffers())
        gradients = self._per_row(parameters, constants, x, y)
        return [gradients[name] for name, _ in self.named]


class GhostClipper(_Clipper):
    """Norms of rows from one backward pass, the clipped sum from a second."""

    def _setup(self):
        if len(self.bounds) > 1:
            raise CandidateRefusedError(
                "clipping must be 'flat' with grad_sample_mode='ghost'; got 'per_layer'. Ghost clipping has "
                "one factor per row: use clipping='flat', or grad_sample_mode='hooks'."
            )
        device = self.named[0][1].device
        if not _products_are_exact(device):
            raise CandidateRefusedError(
                "grad_sample_mode='ghost' needs matrix products in full precision: its sum is one, and the bound of a "
                "row with it. Call torch.set_float32_matmul_precision('highest'), or use grad_sample_mode='hooks'."
            )
        self._wrapped = _GhostModule(
            self.module, loss_reduction="sum", strict=False, max_grad_norm=self.bounds[0]
        )
        cuda = device.type == "cuda"
        self._margin = _GHOST_MARGIN_CUDA if cuda else _MARGIN

    def close(self):
        self.reset()
        self._wrapped.remove_hooks()
        _forget(self.module)

    def reset(self):
        _forget(self.module, keep_counters=True)
        self._wrapped.enable_hooks()

    def norms(self, x, y):
        """Return ``(losses, norms)`` of the rows; the graph of the losses is kept."""
        losses = self._losses(self._wrapped, x, y)
        losses.sum().backward(retain_graph=True)
        found = []
        for name, p in self.named:
            norm = p.__dict__.pop("_norm_sample", None)
            if norm is None or norm.shape[0] != y.shape[0]:
                raise CandidateRefusedError(
                    f"parameter {name!r} of the module must get one gradient norm per row and got none: it is "
                    "not used in forward. Freeze it (requires_grad=False), remove it, or use "
                    "grad_sample_mode='functorch'."
                )
            if norm.dtype not in _FULL:
                raise CandidateRefusedError(
                    f"parameter {name!r} of the module must get its gradient in full precision with "
                    f"grad_sample_mode='ghost'; got {norm.dtype}. Take autocast out of forward, or use "
                    "grad_sample_mode='functorch'."
                )
            found.append(norm.detach().to(p.dtype))
            p.grad = None
        return losses, torch.linalg.vector_norm(torch.stack(found), dim=0)

    def _sum(self, x, y):
        losses, norms = self.norms(x, y)
        finite = torch.isfinite(norms)
        if not bool(finite.all()):  # a weight of zero would not silence an infinite derivative
            self.reset()
            if not bool(finite.any()):
                return self.zeros()
            return self._sum(slice_rows(x, finite), y[finite])
        factor = _factor(self.bounds[0] * self._margin, norms)
        self._wrapped.disable_hooks()
        try:
            (losses * factor).sum().backward()
        finally:
            self._wrapped.enable_hooks()
        sums = []
        for _, p in self.named:
            sums.append(torch.zeros_like(p) if p.grad is None else p.grad.detach().clone())
            p.grad = None
        self.reset()
        return sums


def _linear_norms(layer, activations, backprops):
    """Norms of a linear layer's per-row gradients, without cancellation.

    With one position per row the gradient is an outer product and its norm a product of norms. With
    several positions it is formed: the usual Gram form subtracts large numbers, so that a row could
    pass for short.
    """
    a, b = activations[0], backprops
    if a.dtype not in _FULL or b.dtype not in _FULL:
        return {p: b.new_zeros(len(b)) for p in layer.parameters(recurse=False)}  # refused by its type
    norms = {}
    if layer.weight.requires_grad:
        if a.dim() == 2:
            # in double precision: one factor may under- or overflow where the product does not
            norms[layer.weight] = a.double().norm(dim=1) * b.double().norm(dim=1)
        else:
            gradient = torch.einsum("n...i,n...j->nij", b, a)
            norms[layer.weight] = gradient.flatten(1).norm(dim=1)
    if layer.bias is not None and layer.bias.requires_grad:
        total = b if b.dim() == 2 else b.flatten(1, -2).sum(1)
        norms[layer.bias] = total.norm(dim=1)
    return norms


def _products_are_exact(device):
    """Return whether matrix products on ``device`` keep the bits of single precision."""
    close = torch.full((128, 128), 1 + 2.0**-16, dtype=torch.float32, device=device)  # 1 in 8 or 10 bits
    product = torch.mm(close, close)[0, 0].double().item() / 128
    return abs(product - (1 + 2.0**-16) ** 2) < 1e-5


class _GhostModule(GradSampleModuleFastGradientClipping):
    """Opacus' module with the one norm rule above; other layers form their gradients in turn."""

    NORM_SAMPLERS = {nn.Linear: _linear_norms}


_TRACES = ("grad_sample", "_current_grad_sample", "_norm_sample", "summed_grad")


def _forget(module, keep_counters=False):
    """Remove per-row state from parameters and layers."""
    for p in module.parameters():
        p.grad = None
        for name in _TRACES:
            p.__dict__.pop(name, None)
        if keep_counters:
            p.grad_sample = None
            p._forward_counter = 0
        else:
            p.__dict__.pop("_forward_counter", None)
    for layer in module.modules():
        for name in ("activations", "max_batch_len"):
            layer.__dict__.pop(name, None)


def slice_rows(x, where):
    return {k: v[where] for k, v in x.items()} if isinstance(x, dict) else x[where]


MODES = {"hooks": HooksClipper, "functorch": FunctorchClipper, "ghost": GhostClipper}


@contextlib.contextmanager
def clipper(mode, module, row_loss, bounds, strict=False):
    """Yield the clipper of ``mode`` on ``module`` and take it off again at the end."""
    made = MODES[mode](module, row_loss, bounds, strict)
    try:
        yield made
    finally:
        made.close()
