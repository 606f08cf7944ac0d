"""The sum over a batch of clipped gradients, one gradient per row.

Four ways to the same sum. ``functorch`` differentiates each row by itself (``vmap`` of ``grad``), so that rows meet
in no number; ``rows`` does so in a plain loop, in which they cannot meet at all, and takes modules that ``vmap`` does
not; ``hooks`` makes per-row gradients by Opacus' rules from what each layer saw of the row; ``ghost`` makes them
twice, a few rows at a time, to keep little in memory: for their norms, and for their sum.

A row whose gradient is not finite, or for which the module raises an error, contributes zero: what it
contributes is a function of the row and its masks alone (see ``_failing``), and training does not depend on whether it
can be computed. Every call runs on a fresh copy of a module that is not known, on its own copy of the rows and from its
own seed of all global generators: how many calls were made before, and for which rows, leaves no trace.

Norms of blocks are taken in the parameters' precision and joined in double: a block of m numbers has a norm that is
wrong by at most a share (m + 2) u / 2 (a sum of m squares in any order; u = 2^-24), here 3.9e-6, inside the margin.
Sums over rows are in double precision throughout, products included.
"""

import contextlib
import copy

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from skdptune._exceptions import CandidateRefusedError
from skdptune.candidates.nets._captured import capture, check_rules, groups_of
from skdptune.candidates.nets._failing import RowsThatFail
from skdptune.candidates.nets._known import is_known, resolve_mode, watch_shapes
from skdptune.candidates.nets._modules import (
    as_leaves,
    copied,
    plain_torch,
    run_module,
    seed_generators,
    single_rows,
    slice_rows,
)

__all__ = ["MODES", "clipper"]

# Norms are computed in floating point: what is clipped to this share of the bound lies below it.
_MARGIN = 1 - 1e-5  # the private side
_BLOCK = 128  # numbers whose squares are added in single precision
_CHUNK = 1 << 17  # numbers that are widened at a time
_FORMED = 1 << 20  # numbers of per-row gradients that the ghost mode holds at a time


class _Clipper(RowsThatFail):
    """Base: batches in, clipped sums out, one tensor (in double precision) per trainable parameter.

    Parameters
    ----------
    module : torch.nn.Module
        In training mode, on its device. Where it is not known it never runs itself; copies of it do.
    row_loss : RowLoss
    bounds : list of float
        One clipping bound ("flat"), or one for each trainable parameter ("per_layer").
    strict : bool, default=False
        True raises what a batch raises (the dry run); False leaves out the rows that cause it.
    seeds : numpy.random.Generator, optional
        Gives every batch a seed for the global generators; None leaves them as they are.
    """

    def __init__(self, module, row_loss, bounds, strict=False, seeds=None):
        self.module, self.row_loss, self.bounds = module, row_loss, bounds
        self.strict, self._seeds, self._seed = strict, seeds, None
        self.named = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
        if not self.named:
            raise CandidateRefusedError(
                "module must have a parameter to train in every epoch; a callback froze the last one. Leave one free."
            )
        self.known = is_known(module, row_loss.criterion)
        self._handles = watch_shapes(module) if self.known else []
        self._setup()

    def _setup(self):
        pass

    def close(self):
        """Take everything off the module again."""
        for handle in self._handles:
            handle.remove()

    def clipped_sum(self, x, y):
        """Return the sums of clipped gradients of the rows ``x`` with targets ``y``."""
        self._seed = None if self._seeds is None else int(self._seeds.integers(2**62))
        return self._whole(x, y)

    def _attempt(self, x, y, fine=None, path=()):
        with plain_torch():
            if self._seed is not None:
                seed_generators(_piece_seed(self._seed, path), self.named[0][1].device, own_code=not self.known)
            return self._sum(copied(x), copied(y), fine)

    def zeros(self):
        """Return the sums of an empty batch."""
        return [torch.zeros_like(p, requires_grad=False, dtype=_wide(p)) for _, p in self.named]

    def _fresh(self):
        """Return ``(module, row_loss)`` to run once: what forward leaves behind goes with them."""
        if self.known:
            return self.module, self.row_loss
        module, row_loss = copy.deepcopy((self.module, self.row_loss))
        return as_leaves(module), row_loss


def _piece_seed(seed, path):
    """Return the seed of a piece: the batch's own for the whole, another for every path to pieces and single rows."""
    if not path:
        return seed
    return int(np.random.SeedSequence(seed, spawn_key=path).generate_state(1, np.uint64)[0] >> 2)


def _losses(module, row_loss, x, y):
    return row_loss(run_module(module, x), y)


def _wide(tensor):
    return torch.float64 if tensor.device.type in ("cpu", "cuda") else tensor.dtype


def _factor(bound, norm, dtype=torch.float32):
    """Return what brings rows of these norms to the bound: at most 1, and 0 where it cannot be told.

    A factor below the least normal number is kept to a few bits and may be rounded up by half of itself.
    """
    factor = (bound / norm).clamp(max=1.0)  # 1 for a zero gradient
    return factor.masked_fill(~torch.isfinite(norm) | (factor < torch.finfo(dtype).tiny), 0.0)


def _lengths(g):
    """Return the norms of the rows of ``g`` (n, size), in double precision, from blocks of ``_BLOCK`` numbers."""
    if g.dtype == torch.float64:
        return torch.linalg.vector_norm(g, dim=1)
    n, size = g.shape
    whole = size - size % _BLOCK
    parts = [torch.linalg.vector_norm(g[:, :whole].reshape(n, -1, _BLOCK), dim=2)] if whole else []
    if whole < size:
        parts.append(torch.linalg.vector_norm(g[:, whole:], dim=1, keepdim=True))
    return torch.linalg.vector_norm(torch.cat(parts, dim=1).to(_wide(g)), dim=1)


def _weighted_sum(factor, g):
    """Return ``factor @ g`` for rows ``g`` (n, size), in double precision, a few rows at a time."""
    n, size = g.shape
    rows = max(1, min(16, _CHUNK // size))
    total = torch.zeros(size, dtype=_wide(g), device=g.device)
    for start in range(0, n, rows):
        part = slice(start, start + rows)
        total += factor[part] @ g[part].to(_wide(g))
    return total


class _Materialised(_Clipper):
    """Clippers that hold one gradient per row in memory."""

    def gradients(self, x, y):
        """Return unclipped per-row gradients, one tensor (n, ...) for each trainable parameter."""
        raise NotImplementedError

    def _sum(self, x, y, fine):
        n = y.shape[0]
        # in the parameter's own precision, whatever autocast made of the gradient
        gradients = zip(self.gradients(x, y), self.named, strict=True)
        flat = [g.detach().to(p.dtype).reshape(n, -1) for g, (_, p) in gradients]
        norms = torch.stack([_lengths(g) for g in flat])
        bad = ~torch.isfinite(norms).all(dim=0)
        if fine is not None:
            bad = bad | ~fine
        if bool(bad.any()):
            flat = [g.masked_fill(bad[:, None], 0.0) for g in flat]
            norms = norms.masked_fill(bad[None, :], 0.0)
        if len(self.bounds) == 1:
            factors = [_factor(self.bounds[0] * _MARGIN, torch.linalg.vector_norm(norms, dim=0))] * len(flat)
        else:
            factors = [_factor(bound * _MARGIN, norm) for bound, norm in zip(self.bounds, norms, strict=True)]
        return [
            _weighted_sum(factor, g).reshape(p.shape)
            for factor, g, (_, p) in zip(factors, flat, self.named, strict=True)
        ]


class FunctorchClipper(_Materialised):
    """Each row differentiated by itself: rows meet in no number. Python code runs once for all of them, though."""

    def _fresh(self):
        # always: functional_call leaves its own tensors in a layer that is registered twice
        module, row_loss = copy.deepcopy((self.module, self.row_loss))
        return as_leaves(module), row_loss

    def gradients(self, x, y):
        module, row_loss = self._fresh()
        trained = {name for name, _ in self.named}
        parameters = {name: p.detach() for name, p in module.named_parameters() if name in trained}
        constants = {name: p.detach() for name, p in module.named_parameters() if name not in trained}
        constants.update(module.named_buffers())

        def loss_of_one(parameters, x, y):
            def forward(*args, **kwargs):
                return functional_call(module, (parameters, constants), args, kwargs)

            single = {k: v.unsqueeze(0) for k, v in x.items()} if isinstance(x, dict) else x.unsqueeze(0)
            return _losses(forward, row_loss, single, y.unsqueeze(0)).sum()

        if y.shape[0] == 1 and not self.strict:
            alone = grad(loss_of_one)(parameters, slice_rows(x, 0), y[0])
            return [alone[name].unsqueeze(0) for name, _ in self.named]
        per_row = vmap(grad(loss_of_one), in_dims=(None, 0, 0), randomness="different")
        gradients = per_row(parameters, x, y)
        return [gradients[name] for name, _ in self.named]


class RowsClipper(_Materialised):
    """Each row by itself, one after the other, on copies of module and loss that never saw another.

    To all that this class inherits a row is a batch of one: it has its own seed, and fails alone.
    """

    def clipped_sum(self, x, y):
        total = self.zeros()
        for row in single_rows(y.shape[0]):
            for accumulated, own in zip(total, super().clipped_sum(slice_rows(x, row), y[row]), strict=True):
                accumulated.add_(own)
        return total

    def gradients(self, x, y):
        rows = single_rows(y.shape[0])
        each = [self._gradients_of_one(copied(slice_rows(x, row)), copied(y[row])) for row in rows]
        return [torch.stack(gradients) for gradients in zip(*each, strict=True)]

    def _gradients_of_one(self, x, y):
        module, row_loss = self._fresh()
        own = dict(module.named_parameters())  # before forward, which may put others in their place
        loss = _losses(module, row_loss, x, y).sum()
        parameters = [own[name] for name, _ in self.named]
        found = [None] * len(parameters)
        if loss.requires_grad:  # else the row used none of them
            found = torch.autograd.grad(loss, parameters, allow_unused=True)
        return [torch.zeros_like(p) if g is None else g for g, p in zip(found, parameters, strict=True)]


class _Captured(_Materialised):
    """Clippers whose gradients are made of what the layers saw."""

    def _setup(self):
        check_rules(self.module)

    def _calls(self, x, y):
        """Return ``(calls, position of each parameter)``."""
        module, row_loss = self._fresh()
        calls = capture(module, lambda: _losses(module, row_loss, x, y), y.shape[0])
        trained = {name: i for i, (name, _) in enumerate(self.named)}
        return calls, {id(p): trained[name] for name, p in module.named_parameters() if name in trained}

    def gradients(self, x, y):
        calls, place = self._calls(x, y)
        found = [None] * len(self.named)
        for call in calls:
            for p, g in call.gradients().items():
                i = place[id(p)]
                found[i] = g if found[i] is None else found[i] + g
        n = y.shape[0]
        return [
            torch.zeros(n, *p.shape, dtype=p.dtype, device=p.device) if g is None else g
            for g, (_, p) in zip(found, self.named, strict=True)
        ]


class HooksClipper(_Captured):
    """All gradients are made once and kept."""


class GhostClipper(_Captured):
    """Gradients are made for their norms, and again for their sum, a few rows at a time."""

    def _setup(self):
        if len(self.bounds) > 1:
            raise CandidateRefusedError(
                "clipping must be 'flat' with grad_sample_mode='ghost'; got 'per_layer'. Ghost clipping has "
                "one factor per row: use clipping='flat', or grad_sample_mode='hooks'."
            )
        if any(type(layer) is nn.Embedding and _on_gpu(layer) for layer in self.module.modules()):
            raise CandidateRefusedError(
                "module must have no embedding to train on a GPU with grad_sample_mode='ghost': the GPU adds up its "
                "gradients in no fixed order, so that what is summed is not quite what was measured. Use "
                "grad_sample_mode='hooks', which makes them once."
            )
        super()._setup()

    def norms(self, x, y):
        """Return the norms of the rows' gradients, in double precision."""
        return self._norms(groups_of(self._calls(x, y)[0]), y.shape[0])

    def _norms(self, groups, n):
        parameter = self.named[0][1]
        found = [torch.zeros(n, dtype=_wide(parameter), device=parameter.device)]
        for group in groups:
            if _is_product(group):
                found += _product_norms(group[0])
            else:
                found.append(torch.cat([_lengths(flat) for _, flat in _formed(group, n)]))
        return torch.linalg.vector_norm(torch.stack(found), dim=0)

    def _sum(self, x, y, fine):
        calls, place = self._calls(x, y)
        groups, n = groups_of(calls), y.shape[0]
        norms = self._norms(groups, n)
        factor = _factor(self.bounds[0] * _MARGIN, norms)
        good = torch.isfinite(norms) if fine is None else torch.isfinite(norms) & fine
        sums = self.zeros()
        for group in groups:
            for p, total in (_product_sums if _is_product(group) else _formed_sums)(group, factor, good):
                sums[place[id(p)]] += total.reshape(p.shape)
        return sums


def _on_gpu(layer):
    return any(p.is_cuda and p.requires_grad for p in layer.parameters())


def _is_product(group):
    """Return whether each row's gradient is an outer product, whose norm is a product of norms."""
    return len(group) == 1 and type(group[0].layer) is nn.Linear and group[0].a.dim() == 2


def _product_norms(call):
    # in double precision: one factor may under- or overflow where the product does not
    a, b = (torch.linalg.vector_norm(t.to(_wide(t)), dim=1) for t in (call.a, call.b))
    return [a * b if p is call.layer.weight else b for p in call.parameters()]


def _product_sums(group, factor, good):
    (call,) = group
    b = call.b[good].to(factor.dtype) * factor[good, None]
    for p in call.parameters():
        yield p, b.T @ call.a[good].to(b.dtype) if p is call.layer.weight else b.sum(0)


def _formed(group, n):
    """Yield ``(rows, gradients of all the group's parameters side by side)``, always in the same portions."""
    parameters = _parameters_of(group)
    rows = max(1, _FORMED // sum(p.numel() for p in parameters))
    for start in range(0, n, rows):
        part = slice(start, min(n, start + rows))
        found = {}
        for call in group:
            for p, g in call.gradients(part).items():
                g = g.to(p.dtype)
                found[p] = found[p] + g if p in found else g
        yield part, torch.cat([found[p].flatten(1) for p in parameters], dim=1)


def _parameters_of(group):
    return list(dict.fromkeys(p for call in group for p in call.parameters()))


def _formed_sums(group, factor, good):
    parameters = _parameters_of(group)
    total = 0
    for rows, flat in _formed(group, len(factor)):
        total = total + _weighted_sum(factor[rows], flat.masked_fill(~good[rows, None], 0.0))
    return zip(parameters, total.split([p.numel() for p in parameters]), strict=True)


MODES = {"hooks": HooksClipper, "functorch": FunctorchClipper, "ghost": GhostClipper, "rows": RowsClipper}


@contextlib.contextmanager
def clipper(mode, module, row_loss, bounds, strict=False, seeds=None):
    """Yield the clipper of ``mode`` on ``module`` and take it off again at the end."""
    mode = resolve_mode(mode, module, row_loss.criterion)
    made = MODES[mode](module, row_loss, bounds, strict, seeds)
    try:
        yield made
    finally:
        made.close()
