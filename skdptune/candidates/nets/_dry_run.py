"""A rehearsal on random rows of the declared shape, before any private row is read.

What would otherwise surface in the middle of a private training surfaces here: wrong shapes and types,
parameters without per-row gradients, and every way in which one row could reach another: through the
outputs, the losses, the gradients, a buffer, a parameter, the size of the batch, or something the module
remembers.
"""

import contextlib
import copy
import functools
import operator
import os
import threading

import numpy as np
import torch
from torch import nn

from skdptune._exceptions import CandidateRefusedError, SkdptuneError
from skdptune.candidates._generators import drawn_from
from skdptune.candidates.nets._callbacks import callback_epochs, runs_own_callbacks
from skdptune.candidates.nets._checks import check_module
from skdptune.candidates.nets._engine import _quiet_hooks, _Steps, clipping_bounds, place
from skdptune.candidates.nets._failing import raise_if_interrupted
from skdptune.candidates.nets._known import TOGETHER, is_known, resolve_mode, row_by_row
from skdptune.candidates.nets._losses import RowLoss, inside
from skdptune.candidates.nets._modules import (
    copied,
    copy_module,
    copy_tensors,
    dtype_of,
    fixed_torch_seed,
    plain_torch,
    run_module,
    run_module_by_rows,
    single_rows,
    slice_rows,
    tensors_of,
)
from skdptune.candidates.nets._noise import GaussianNoise
from skdptune.candidates.nets._per_sample import clipper
from skdptune.candidates.nets._predictions import check_predictions
from skdptune.candidates.nets._strange import strange_bases, strange_rows

__all__ = ["dry_run"]

_ROWS = 4
_CHANGED = 2  # the row that is replaced; all others must not notice
_SAME = 1e-5  # the same shapes in the same order: equal up to a few roundings, relative to what is compared
_ALONE = 1e-4  # a row alone goes through other kernels than in a batch
_LEAST = 0.1  # losses below are compared as if they were as large: they are what is left of larger numbers
# A condition on the whole batch (x.max() > 255) shows where the other rows lie below it and one above.
_SCALES = (0.01, 1.0, 100.0)
_STRANGE = (1e3, -1e3, 1e6, float("nan"), float("inf"))
_RULE_ADVICE = "the per-row rule of a layer does not fit it. Use grad_sample_mode='functorch', or replace the layer."
_VMAP_ADVICE = (
    "under torch.func.vmap the module or the criterion computes something else than for the row alone. Set "
    "grad_sample_mode='rows' (each row by itself, slow)."
)
_OF_THREADS = " Or another thread of this process drew meanwhile: none may while code of one's own trains."
_RANDOM_LAYERS = (nn.modules.dropout._DropoutNd, nn.RReLU)
_LOCK = threading.RLock()
_ATTEMPTS = 10
_SEEDS = 20


def _after_fork():
    global _LOCK  # noqa: PLW0603
    _LOCK = threading.RLock()  # the parent's may be held by a thread that the child has not


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


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
    module = net._new_module(schema, task, seed=0)
    check_module(net, module)
    # Other threads may draw from torch's global generator between two forwards that are compared, and make
    # dropout look like coupling. Real coupling is seen every time.
    own_code = runs_own_callbacks(net) or not is_known(module, row_loss.criterion)
    attempts = _ATTEMPTS if threading.active_count() > 1 else 1
    for left in reversed(range(attempts)):
        try:
            with _LOCK, plain_torch(), _quiet_hooks(), fixed_torch_seed(0, own_code=own_code):
                _Rehearsal(net, copy_module(module), schema, task, row_loss).run(terms)
            return
        except SkdptuneError:
            if not left:
                raise
        except BaseException as error:
            raise_if_interrupted(error)
            raise CandidateRefusedError(
                f"the dry run of {type(net).__name__} on {_ROWS} random rows of shape {_shapes(schema)} raised "
                f"{type(error).__name__}: {str(error)[:300]}. No private row was read; mend the module, the "
                f"criterion or input_dtype.{_hint(error, schema)}"
            ) from error


def _hint(error, schema):
    """Return what mends the usual cause of an error, if there is one."""
    if not isinstance(error, IndexError) or schema.keyed:
        return ""
    return (
        " If a column of the table holds codes for an embedding: random rows have broken and negative numbers there. "
        "Pass a dict of arrays, the codes as whole numbers in one of their own, by the names of "
        "forward's arguments."
    )


def _not_by_rows(net, error):
    return CandidateRefusedError(
        f"the module must be differentiable row by row (torch.func.vmap) with grad_sample_mode="
        f"{net.grad_sample_mode!r}; it is not: {str(error)[:150]}... Set grad_sample_mode='rows': sound for any "
        "module, but slow (some hundred rows a second). Faster: torch.where for a forward that decides by values (if "
        "x.max() > 1, .item()); torch's own layers in nn.Sequential; Opacus' DPGRU, DPLSTM and DPRNN (opacus.layers) "
        "in place of torch's. Or set grad_sample_mode='hooks', and it becomes an assumption that the "
        "module treats each row by itself."
    )


def _close(a, b, tolerance, rtol=None, size=None):
    """Return whether two tensors agree, relative to the largest finite number in them (or to ``size``)."""
    if size is None:
        size = max((float(t[torch.isfinite(t)].abs().max()) for t in (a, b) if torch.isfinite(t).any()), default=0.0)
    return torch.allclose(a, b, rtol=rtol or tolerance, atol=0.1 * tolerance * size, equal_nan=True)


def _shapes(schema):
    return ", ".join(f"{name}: {s}" if name else str(s) for name, s, _ in schema.parts)


def _each(x, change):
    """Return ``x`` with ``change(part, name)`` for every part."""
    return {name: change(part, name) for name, part in x.items()} if isinstance(x, dict) else change(x, None)


def _numbers(x, change):
    """Return ``x`` with ``change(part)`` for every part of broken numbers."""
    return _each(x, lambda part, _: change(part) if part.is_floating_point() else part)


def _with_row(x, make):
    """Return a copy of ``x`` whose row ``_CHANGED`` is ``make(row)`` where numbers are broken."""

    def changed(part, _):
        part = part.clone()
        if part.is_floating_point():
            part[_CHANGED] = make(part[_CHANGED])
        return part

    return _each(x, changed)


class _Rehearsal:
    def __init__(self, net, module, schema, task, row_loss):
        self.net, self.schema, self.task, self.row_loss = net, schema, task, row_loss
        self.own_code = not is_known(module, row_loss.criterion)
        module.train()
        self.dtype = dtype_of(module)
        generator = np.random.default_rng(0)
        with torch.no_grad():  # layers that start at zero would hide what passes through them
            for p in module.parameters():
                if p.is_floating_point():
                    p.add_(0.1 * torch.from_numpy(generator.standard_normal(tuple(p.shape))).to(p.dtype))
        self.mode = resolve_mode(net.grad_sample_mode, module, row_loss.criterion)
        # rows meet neither one by one nor in what is known; of all else it is assumed, after a closer look
        self.assumed = self.mode in TOGETHER and self.own_code
        self.alone = row_by_row(self.mode, module)
        self.pristine = module  # never run: forward may leave behind what cannot be copied
        self.module = self._calmed()
        self.x, self.y = self._rows(generator), task.random(generator, _ROWS, self.dtype)
        self.x2, self.y2 = self._replaced(generator)
        self.kept = [i for i in range(_ROWS) if i != _CHANGED]
        self.constants = [
            (name, tensor, tensor.detach().clone())
            for name, tensor in (*tensors_of(self.module).items(), *row_loss.criterion.named_buffers())
        ]

    def _rows(self, generator):
        return self.schema.random(_ROWS, self.dtype, self.net._whole_dtype(), generator)

    def _replaced(self, generator):
        """Return copies of the rows and targets with one row made quite different."""
        other, y2 = self._rows(generator), self.y.clone()

        def changed(part, name):
            new = (other if name is None else other[name])[_CHANGED]
            part = part.clone()
            part[_CHANGED] = 5 * new + 3 if part.is_floating_point() else 1 - part[_CHANGED]
            return part

        for fresh in self.task.random(generator, 64, self.dtype):
            if not torch.equal(fresh, self.y[_CHANGED]):
                y2[_CHANGED] = fresh
                break
        return _each(self.x, changed), y2

    def run(self, terms):
        first = self._outputs(self.x)
        self._check_outputs(first)
        self._check_it_learns(first)
        if self.mode != "rows":
            self._check_draws()
        if not self.alone:  # else no call of forward ever sees two rows, nor what another call left behind
            self._check_constants()
            self._check_memory(first)
            self._check_coupling(first)
            self._check_scales()
            self._check_alone()
        self._check_rebuilt()
        self._check_predictions()
        self._check_gradients()
        if self.assumed:
            self._check_closely()
        self._check_steps(terms)

    def _outputs(self, x, module=None, seed=0):
        module = module or self.module
        with fixed_torch_seed(seed, own_code=self.own_code), torch.no_grad():  # on copies: forward may work in place
            outputs = (run_module_by_rows if self.alone else run_module)(module, copied(x))
        return outputs[0] if isinstance(outputs, tuple) else outputs

    @functools.cached_property
    def random(self):
        """Whether forward draws random numbers of its own in training."""
        return not _close(self._outputs(self.x), self._outputs(self.x, seed=1), _SAME)

    def _calmed(self):
        """Return a copy in training mode whose dropout layers let everything through.

        torch's own treat every number, or every channel of a row, by itself; without them forward does not depend
        on torch's global generator, which other threads share.
        """
        module = copy_module(self.pristine)
        for layer in module.modules():
            if isinstance(layer, _RANDOM_LAYERS) and type(layer).__module__.startswith("torch.nn."):
                layer.eval()
        return module

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

    def _check_it_learns(self, first):
        """There must be a loss for some rows, and a derivative of it by some parameter."""
        criterion = self.row_loss.criterion
        if type(criterion) is nn.BCELoss and not bool(inside(first).all() & inside(self.y).all()):
            raise CandidateRefusedError(
                "outputs and targets must lie in [0, 1] with BCELoss; on random rows some do not. End the module in "
                "nn.Sigmoid(), or use BCEWithLogitsLoss; its targets are two classes (DPNeuralNetClassifier)."
            )
        if not any(bool(torch.isfinite(losses).any()) for losses in self._losses_of_some(first)):
            advice = "Look what the module returns, and what the criterion wants."
            if isinstance(criterion, nn.NLLLoss):
                advice = (
                    "NLLLoss gets the logarithm of the outputs here, as in skorch: end the module in nn.Softmax(-1), "
                    "not in LogSoftmax, or use CrossEntropyLoss on scores."
                )
            raise CandidateRefusedError(
                f"the loss of some row must be finite; on random rows {type(criterion).__name__} gave none that is, "
                f"and the net would learn from noise alone. {advice}"
            )
        if not self._has_derivative():
            raise CandidateRefusedError(
                "the loss must have a derivative by some parameter of the module; it has none by any, and the net "
                "would learn from noise alone. Leave out what cuts the outputs off: .detach(), .data, torch.no_grad(), "
                ".item()."
            )

    def _losses_of_some(self, first):
        """Yield losses of rows of several kinds: some modules take positive numbers only."""
        yield self._losses(first, self.y)
        y = self.y.abs()
        for change in (torch.abs, torch.zeros_like, torch.ones_like, lambda part: part.abs() / (1 + part.abs())):
            x = _numbers(self.x, change)
            try:
                losses = self._losses(self._outputs(x), y)
            except BaseException as error:
                raise_if_interrupted(error)
                continue
            yield losses  # not in the try: closing the generator raises here

    def _has_derivative(self):
        for part in single_rows(_ROWS) if self.alone else [slice(None)]:
            module = copy_module(self.pristine)
            parameters = [p for p in module.parameters() if p.requires_grad]
            try:
                with fixed_torch_seed(0, own_code=self.own_code):
                    loss = self.row_loss(run_module(module, copied(slice_rows(self.x, part))), self.y[part]).sum()
                found = torch.autograd.grad(loss, parameters, allow_unused=True) if loss.requires_grad else ()
            except Exception:  # asked again, and told, where gradients are looked at
                return True
            if any(g is not None for g in found):
                return True
        return False

    def _check_draws(self):
        """Rows that go through forward together would share what is drawn from Python's and numpy's generators."""
        if not self.own_code:
            return
        module = copy_module(self.pristine)
        with fixed_torch_seed(0, own_code=self.own_code):
            before = drawn_from()
            with contextlib.suppress(Exception):  # told where gradients are looked at
                self.row_loss(run_module(module, copied(self.x)), self.y).sum().backward()
            after = drawn_from()
        for name, untouched in zip(("Python's random", "numpy.random"), map(operator.eq, before, after), strict=True):
            if not untouched:
                raise CandidateRefusedError(
                    f"module and criterion must draw random numbers with torch; they draw from {name}, once "
                    "for all rows of a call, so that what a row draws would depend on how rows fall into batches. Use "
                    "torch.rand((len(x), 1)) or the like, or set grad_sample_mode='rows' (each row draws its own; "
                    f"slow).{_OF_THREADS if threading.active_count() > 1 else ''}"
                )

    def _check_predictions(self):
        given = self.net.predict_nonlinearity
        known = is_known(self.pristine) and not callable(given)  # rows do not meet; what comes out may be no prediction
        pairs = [(self.x, self.x2, self.kept)]
        for scale in () if known else _SCALES:
            base = _numbers(self.x, functools.partial(operator.mul, scale))
            pairs += [
                (base, _with_row(base, lambda row, value=value: value * (1 + row.abs())), self.kept)
                for value in _STRANGE
            ]
        criterion = self.row_loss.criterion
        check_predictions(
            self.net._nonlinearity(criterion),
            self.task.flat(criterion),
            lambda x: self._outputs(x, copy_module(self.pristine).eval()),
            pairs,
            width=(self.task.predicted, callable(given)),
            alone=(self.alone, self.net.grad_sample_mode == "rows"),
            close=lambda a, b, apart: _close(a, b, _ALONE if apart else _SAME),
        )

    def _check_constants(self):
        for x, y in ((self.x, self.y), (self.x2, self.y2)):
            self._losses(self._outputs(x), y)
        now = {**tensors_of(self.module), **dict(self.row_loss.criterion.named_buffers())}
        if len(now) != len(self.constants) or any(now.get(name) is not tensor for name, tensor, _ in self.constants):
            raise CandidateRefusedError(
                "module must keep its set of buffers in forward; it added, removed or replaced some. Register them all "
                "in its constructor."
            )
        for name, tensor, start in self.constants:
            if torch.equal(tensor, start):
                continue
            if isinstance(tensor, nn.Parameter):
                raise CandidateRefusedError(
                    f"parameter {name!r} of the module changes in forward: what is written there was computed from "
                    "rows without noise. Leave parameters to the optimizer."
                )
            raise CandidateRefusedError(
                f"buffer {name!r} of the module changes in forward: it would carry rows from one batch to the "
                "next, without noise. Replace running statistics (opacus.validators.ModuleValidator.fix, "
                "nn.GroupNorm, track_running_stats=False) and keep buffers constant."
            )

    def _check_coupling(self, first):
        changed = self._outputs(self.x2)
        self._same("output", first, changed)
        self._same("loss", self._losses(first, self.y), self._losses(changed, self.y2))

    def _check_scales(self):
        """Ask again with small, large and strange rows; what raises on them trains nothing and is let pass."""
        for scale in _SCALES:
            base = _numbers(self.x, functools.partial(operator.mul, scale))
            for value in _STRANGE:
                other = _with_row(base, lambda row, value=value: value * (1 + row.abs()))
                try:
                    a, b = self._outputs(base), self._outputs(other)
                    losses = self._losses(a, self.y), self._losses(b, self.y2)
                except SkdptuneError:
                    raise
                except BaseException as error:
                    raise_if_interrupted(error)
                    continue
                self._same("output", a, b)
                self._same("loss", *losses)

    def _check_closely(self):
        """Ask with the dropout masks of many seeds, and for strange rows of every kind, gradients included."""
        for seed in range(_SEEDS):  # what happens in some batches only
            a, b = (self._outputs(x, copy_module(self.pristine), seed) for x in (self.x, self.x2))
            self._same("output", a, b)
        for i, base in enumerate(strange_bases(self.x)):
            before = self._seen(base, self.y, i == 0)
            if before is None:
                continue
            for x, y in strange_rows(base, self.y, _CHANGED):
                after = self._seen(x, y, i == 0)
                names = ["output", "loss", *["gradient"] * len(before)]
                for what, a, b in zip(names, before, after or (), strict=False):
                    self._same(what, a, b)

    def _seen(self, x, y, gradients):
        """Return outputs, losses and, if asked for, gradients; None for rows that fail, which train nothing."""
        try:
            outputs = self._outputs(x)
            return [outputs, self._losses(outputs, y), *(self._gradients(x, y) if gradients else ())]
        except SkdptuneError:
            raise
        except BaseException as error:
            raise_if_interrupted(error)
            return None

    def _same(self, what, a, b):
        if not _close(a[self.kept], b[self.kept], _SAME):
            raise CandidateRefusedError(
                f"changing one row changes the {what} of another: the module or the criterion couples the rows "
                "of a batch, so clipping bounds no single row. Replace what averages over rows: "
                "opacus.validators.ModuleValidator.fix for BatchNorm, a criterion with reduction='none', "
                "nn.GroupNorm or nn.LayerNorm for normalisation. Where forward decides by the values of a batch, "
                "grad_sample_mode='rows' trains it as it is, each row by itself (slow)."
            )

    def _check_memory(self, first):
        module = self._calmed()
        self._outputs(self.x2, module)
        again = self._outputs(self.x, module)
        if not _close(first, again, _SAME):
            raise CandidateRefusedError(
                "module remembers a batch: the same rows give other outputs after other rows were seen. Keep nothing "
                "of the inputs in the module; or set grad_sample_mode='rows': every row gets a copy of its own (slow)."
            )

    def _check_alone(self):
        """A row must come out of a batch as it comes out alone, whatever the size of the batch."""
        module = self._calmed()
        if self.random:
            module = module.eval()
            if not _close(self._outputs(self.x, module), self._outputs(self.x, module, seed=1), _SAME):
                raise CandidateRefusedError(
                    "forward must draw no random numbers in eval mode; it does, so that predictions would be random, "
                    "and it cannot be seen whether rows meet. Pass training=self.training to F.dropout (or use "
                    "nn.Dropout), and add noise only if self.training; or set grad_sample_mode='rows' (slow)."
                )
        together = self._outputs(self.x, module)
        losses = self._losses(together, self.y)
        for i in range(_ROWS):
            own = slice(i, i + 1)
            alone = self._outputs(slice_rows(self.x, own), module)
            # Of the very same outputs: of a small loss, the roundings in those of the row alone may be all there is.
            loss = self._losses(together[own], self.y[own])
            size = max(_LEAST, float(loss.abs().nan_to_num(0.0, 0.0, 0.0).max()))
            if not (
                alone.numel() == together[i].numel()
                and _close(alone.reshape(-1), together[i].reshape(-1), _ALONE)
                and _close(loss, losses[own], _ALONE, size=size)
            ):
                raise CandidateRefusedError(
                    "a row alone has another output or loss than in a batch: the number of rows enters, so clipping "
                    "bounds no single row. Divide by nothing that counts rows; the loop divides by the expected batch."
                )

    def _check_rebuilt(self):
        """Parameters and buffers must be all there is to a module: they are what is published."""
        twin = self.net._new_module(self.schema, self.task, seed=1)
        copy_tensors(tensors_of(self.module), twin)
        kept, new = (self._outputs(self.x, m.eval()) for m in (copy_module(self.pristine), twin))
        if not _close(kept, new, _SAME):
            raise CandidateRefusedError(
                "module holds something random beside parameters and buffers, so it cannot be rebuilt from them after "
                "training: register it with register_buffer in the constructor."
            )

    def _check_gradients(self):
        """Row i's gradient must not notice row j, and must be the gradient of row i alone."""
        a, b = self._first_gradients(), self._gradients(self.x2, self.y2)
        if self.alone:
            return
        for left, right in zip(a, b, strict=True):
            self._same("gradient", left, right)
        if self.mode not in TOGETHER:
            self._check_strange(a)
            return  # rows are differentiated one by one, and draw masks of their own
        if not self.random:
            self._compare(a, [self._plain(slice(i, i + 1), 0) for i in range(_ROWS)])
        else:  # the same masks in the same batch
            self._compare(a, [self._plain(slice(None), i) for i in range(_ROWS)])

    def _check_strange(self, before):
        """Ask whether a strange row moves what ``vmap`` makes of plain ones: an error caught would."""
        if not self.random:
            self._compare(before, [self._plain(slice(i, i + 1), 0) for i in range(_ROWS)], _VMAP_ADVICE, 50)
        for x, y in strange_rows(self.x, self.y, _CHANGED, marked=False):
            try:
                after = self._gradients(x, y)
            except SkdptuneError:
                raise
            except BaseException as error:  # such rows train nothing
                raise_if_interrupted(error)
                continue
            for a, b in zip(before, after, strict=True):
                self._same("gradient", a, b)

    def _first_gradients(self):
        try:
            return self._gradients(self.x, self.y)
        except SkdptuneError:
            raise
        except Exception as error:
            if self.mode == "functorch" and self._goes_by_rows():  # it is vmap that cannot follow, not autograd
                raise _not_by_rows(self.net, error) from error
            raise

    def _goes_by_rows(self):
        try:
            self._gradients(self.x, self.y, "rows")
        except Exception:
            return False
        return True

    def _gradients(self, x, y, mode=None):
        """Return per-row gradients."""
        count = sum(p.requires_grad for p in self.module.parameters())
        bounds, _ = clipping_bounds(self.net, count)
        x = copied(x)
        fixed = fixed_torch_seed(0, own_code=self.own_code)
        with clipper(mode or self.mode, self.module, self.row_loss, bounds, True) as clip, fixed:
            return clip.gradients(x, y)

    def _plain(self, rows, position):
        """Return the gradients of one row's loss by plain differentiation, out of the batch ``rows``."""
        module = self.module
        parameters = [p for p in module.parameters() if p.requires_grad]
        x = copied(slice_rows(self.x, rows))
        with fixed_torch_seed(0, own_code=self.own_code):
            outputs = run_module(module, x)
            loss = self.row_loss(outputs, self.y[rows])[position]
        grads = torch.autograd.grad(loss, parameters, allow_unused=True)
        return [torch.zeros_like(p) if g is None else g for g, p in zip(grads, parameters, strict=True)]

    def _compare(self, per_row, plain, advice=_RULE_ADVICE, slack=1):
        for i, grads in enumerate(plain):
            size = max(float(g.nan_to_num(0.0, 0.0, 0.0).abs().max()) for g in grads)
            for ours, theirs in zip(per_row, grads, strict=True):
                if not _close(ours[i].double(), theirs.double(), slack * 1e-3, rtol=slack * 1e-2, size=size):
                    raise CandidateRefusedError(f"a per-row gradient differs from the row's own gradient: {advice}")

    def _check_steps(self, terms):
        """Make a step on rows and one on an empty batch, on the net's own device and with its own optimizer."""
        device = place(self.net.device)
        module = copy_module(self.pristine).to(device)
        row_loss = RowLoss(copy.deepcopy(self.row_loss.criterion).to(device))
        x, y = _each(self.x, lambda part, _: part.clone().to(device)), self.y.to(device)
        optimizer = self.net._new_optimizer(module)
        steps = _Steps(self.net, module, optimizer, row_loss, GaussianNoise(0))
        try:
            for epoch in callback_epochs(self.net, -(-terms.steps // terms.epoch)):
                steps.begin_epoch(epoch, strict=True)
                steps.noisy_step(steps.sums([(x, y)]), terms)
                steps.noisy_step(steps.sums([]), terms)
        finally:
            steps.close()
