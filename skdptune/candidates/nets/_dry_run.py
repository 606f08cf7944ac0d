"""A rehearsal on random rows of the declared shape, before any private row is read.

What would otherwise surface in the middle of a private training surfaces here: wrong shapes and types,
parameters without per-row gradients, and every way in which one row could reach another: through the
outputs, the losses, the gradients, a buffer, or something the module remembers.
"""

import copy

import numpy as np
import torch

from skdptune._exceptions import CandidateRefusedError, SkdptuneError
from skdptune.candidates.nets._checks import check_module
from skdptune.candidates.nets._engine import _quiet_hooks, _Steps, clipping_bounds
from skdptune.candidates.nets._modules import copy_tensors, fixed_torch_seed
from skdptune.candidates.nets._noise import GaussianNoise
from skdptune.candidates.nets._per_sample import GhostClipper, clipper, slice_rows
from skdptune.candidates.nets._schedules import check_schedule

__all__ = ["dry_run"]

_ROWS = 4
_CHANGED = 2  # the row that is replaced; all others must not notice
_RTOL, _ATOL = 1e-5, 1e-6  # the same shapes in the same order: equal up to a few roundings


def dry_run(net, schema, task, row_loss, terms):
    """Rehearse the training of ``net`` on random rows; raise where it could not be vouched for.

    Parameters
    ----------
    net : estimator
    schema : Schema
        Shapes and kinds of the rows to come.
    task : Classification or Regression
    row_loss : RowLoss
    terms : SgdTerms

    Raises
    ------
    CandidateRefusedError
        Naming what couples the rows or what fails, and the repair. Quotes no private value: none exists.
    """
    check_schedule(net.lr_schedule, terms.steps)
    module = net._new_module(schema, task, seed=0)
    check_module(net, module)
    with _quiet_hooks(), fixed_torch_seed(0):
        try:
            _Rehearsal(net, module, schema, task, row_loss).run(terms)
        except SkdptuneError:
            raise
        except Exception as error:
            raise CandidateRefusedError(
                f"the dry run of {type(net).__name__} on {_ROWS} random rows of shape {_shapes(schema)} raised "
                f"{type(error).__name__}: {str(error)[:300]}. No private row was read; mend the module, the "
                "criterion or input_dtype."
            ) from error


def _shapes(schema):
    return ", ".join(f"{name}: {s}" if name else str(s) for name, s, _ in schema.parts)


class _Rehearsal:
    def __init__(self, net, module, schema, task, row_loss):
        self.net, self.schema, self.task, self.row_loss = net, schema, task, row_loss
        self.module = module.train()
        self.dtype = next(module.parameters()).dtype
        generator = np.random.default_rng(0)
        with torch.no_grad():  # layers that start at zero would hide what passes through them
            for p in module.parameters():
                p.add_(0.1 * torch.from_numpy(generator.standard_normal(tuple(p.shape))).to(p.dtype))
        self.x, self.y = self._rows(generator), task.random(generator, _ROWS, self.dtype)
        self.x2, self.y2 = self._replaced(generator)
        self.kept = [i for i in range(_ROWS) if i != _CHANGED]

    def _rows(self, generator):
        return self.schema.random(_ROWS, self.dtype, self.net._whole_dtype(), generator)

    def _replaced(self, generator):
        """Return copies of the rows and targets with one row made quite different."""
        other, y2 = self._rows(generator), self.y.clone()
        x2 = self.x
        merged = {}
        for name, part in (x2.items() if isinstance(x2, dict) else [(None, x2)]):
            new = (other if name is None else other[name])[_CHANGED]
            merged[name] = part.clone()
            merged[name][_CHANGED] = 5 * new + 3 if part.is_floating_point() else 1 - part[_CHANGED]
        for fresh in self.task.random(generator, 64, self.dtype):
            if not torch.equal(fresh, self.y[_CHANGED]):
                y2[_CHANGED] = fresh
                break
        return merged[None] if None in merged else merged, y2

    def run(self, terms):
        first = self._outputs(self.x)
        self._check_outputs(first)
        self._check_buffers()
        self._check_memory(first)
        self._check_coupling(first)
        self._check_rebuilt()
        self._check_gradients()
        self._check_steps(terms)

    def _outputs(self, x, module=None, seed=0):
        module = module or self.module
        with fixed_torch_seed(seed), torch.no_grad():
            outputs = module(**x) if isinstance(x, dict) else module(x)
        return outputs[0] if isinstance(outputs, tuple) else outputs

    def _check_outputs(self, outputs):
        if not isinstance(outputs, torch.Tensor) or outputs.dim() < 1 or outputs.shape[0] != _ROWS:
            shape = tuple(outputs.shape) if isinstance(outputs, torch.Tensor) else type(outputs).__name__
            raise CandidateRefusedError(
                f"module must return one row of outputs for each row of inputs; got {shape} for {_ROWS} rows. "
                "Keep the rows in the first dimension."
            )
        expected = self.task.expected
        if expected is not None and (outputs.dim() != 2 or outputs.shape[1] != expected):
            raise CandidateRefusedError(
                f"module must return {expected} outputs per row, one per class; got {tuple(outputs.shape[1:])}. "
                "Set its width (e.g. module__n_outputs), or declare classes."
            )
        self._losses(outputs, self.y)

    def _losses(self, outputs, y):
        with torch.no_grad():
            return self.row_loss(outputs, y)

    def _check_buffers(self):
        watched = [self.module, self.row_loss.criterion]
        before = [(name, b.clone()) for m in watched for name, b in m.named_buffers()]
        for x, y in ((self.x, self.y), (self.x2, self.y2)):
            self._losses(self._outputs(x), y)
        after = [b for m in watched for _, b in m.named_buffers()]
        if len(before) != len(after):
            raise CandidateRefusedError(
                "module must keep its set of buffers in forward; it added or removed some. Register them all "
                "in its constructor."
            )
        for (name, old), new in zip(before, after, strict=True):
            if not torch.equal(old, new):
                raise CandidateRefusedError(
                    f"buffer {name!r} of the module changes in forward: it would carry rows from one batch to the "
                    "next, without noise. Replace running statistics (opacus.validators.ModuleValidator.fix, "
                    "nn.GroupNorm, track_running_stats=False) and keep buffers constant."
                )

    def _check_coupling(self, first):
        changed = self._outputs(self.x2)
        self._same("output", first, changed)
        self._same("loss", self._losses(first, self.y), self._losses(changed, self.y2))

    def _same(self, what, a, b, rows=None):
        rows = self.kept if rows is None else rows
        if not torch.allclose(a[rows], b[rows], rtol=_RTOL, atol=_ATOL, equal_nan=True):
            raise CandidateRefusedError(
                f"changing one row changes the {what} of another: the module or the criterion couples the rows "
                "of a batch, so clipping bounds no single row. Replace what averages over rows: "
                "opacus.validators.ModuleValidator.fix for BatchNorm, a criterion with reduction='none', "
                "nn.GroupNorm or nn.LayerNorm for normalisation."
            )

    def _check_memory(self, first):
        module = copy.deepcopy(self.module)
        self._outputs(self.x2, module)
        again = self._outputs(self.x, module)
        if not torch.allclose(first, again, rtol=_RTOL, atol=_ATOL, equal_nan=True):
            raise CandidateRefusedError(
                "module remembers a batch: the same rows give other outputs after other rows were seen. Keep "
                "nothing of the inputs in the module."
            )

    def _check_rebuilt(self):
        """Parameters and buffers must be all there is to a module: they are what is published."""
        twin = self.net._new_module(self.schema, self.task, seed=1)
        copy_tensors({**dict(self.module.named_parameters()), **dict(self.module.named_buffers())}, twin)
        kept, new = (self._outputs(self.x, copy.deepcopy(m).eval()) for m in (self.module, twin))
        if not torch.allclose(kept, new, rtol=_RTOL, atol=_ATOL, equal_nan=True):
            raise CandidateRefusedError(
                "module holds something random beside parameters and buffers, so it cannot be rebuilt from them after "
                "training: register it with register_buffer in the constructor."
            )

    def _check_gradients(self):
        """Row i's gradient must not notice row j, and must be the gradient of row i alone."""
        a, b = self._gradients(self.x, self.y), self._gradients(self.x2, self.y2)
        for left, right in zip(a, b, strict=True):
            self._same("gradient", left, right)
        other_seed = self._outputs(self.x, seed=1)
        if not torch.allclose(self._outputs(self.x), other_seed):
            return  # dropout: the mask of a row alone differs from its mask in a batch
        self._check_against_autograd(a)

    def _gradients(self, x, y):
        """Return per-row gradients (per-row norms in the ghost mode)."""
        count = sum(p.requires_grad for p in self.module.parameters())
        bounds, _ = clipping_bounds(self.net, count)
        mode = self.net.grad_sample_mode
        with clipper(mode, self.module, self.row_loss, bounds, strict=True) as clip, fixed_torch_seed(0):
            if isinstance(clip, GhostClipper):
                return [clip.norms(x, y)[1]]
            return clip.gradients(x, y)

    def _check_against_autograd(self, per_row):
        """Compare with plain differentiation of each row's loss."""
        parameters = [p for p in self.module.parameters() if p.requires_grad]
        for i in range(_ROWS):
            x = slice_rows(self.x, slice(i, i + 1))
            outputs = self.module(**x) if isinstance(x, dict) else self.module(x)
            loss = self.row_loss(outputs, self.y[i : i + 1]).sum()
            grads = torch.autograd.grad(loss, parameters, allow_unused=True)
            grads = [torch.zeros_like(p) if g is None else g for g, p in zip(grads, parameters, strict=True)]
            if len(per_row) != len(grads) or per_row[0].dim() == 1:  # norms
                own = torch.sqrt(sum(g.pow(2).sum() for g in grads))
                pairs = [(per_row[0][i], own)] if len(per_row) == 1 else []
            else:
                pairs = [(whole[i], g) for whole, g in zip(per_row, grads, strict=True)]
            for ours, plain in pairs:
                if not torch.allclose(ours, plain, rtol=1e-2, atol=1e-4):
                    raise CandidateRefusedError(
                        "a per-row gradient differs from the row's own gradient: the per-row rule of a layer does "
                        "not fit it. Use grad_sample_mode='functorch', or replace the layer."
                    )

    def _check_steps(self, terms):
        """Make a step on rows and one on an empty batch, with the net's own optimizer."""
        module = copy.deepcopy(self.module)
        optimizer = self.net._new_optimizer(module)
        steps = _Steps(self.net, module, optimizer, self.row_loss, GaussianNoise(0))
        try:
            steps.begin_epoch(1, strict=True)
            steps.noisy_step(steps.sums([(self.x, self.y)]), terms)
            steps.noisy_step(steps.sums([]), terms)
        finally:
            steps.close()
