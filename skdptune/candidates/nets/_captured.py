"""What goes into the layers of a module and what comes back: per-row gradients are made of nothing else.

One forward and one backward pass in which parameters take no gradients; of every layer with a parameter to train
its input ``a`` and the derivative ``b`` of the summed losses by its output are kept, once for each call. A row's
gradient is *defined* as the layer's rule applied to its own rows of ``a`` and ``b``. What is summed is the very
number whose norm was measured, whatever autograd does elsewhere ("book-keeping": Bu et al., arXiv 2210.00038).
"""

import torch
from opacus.grad_sample import GradSampleModule
from torch import nn
from torch.nn.utils.rnn import PackedSequence

from skdptune._exceptions import CandidateRefusedError
from skdptune.candidates.nets._known import has_rule, trains

__all__ = ["Call", "capture", "check_rules", "groups_of"]

_ADVICE = "Put rows first everywhere, or use grad_sample_mode='functorch'."


class Call:
    """One call of one layer.

    Parameters
    ----------
    layer : torch.nn.Module
    a : torch.Tensor of shape (n_rows, ...)
        What went in.
    """

    def __init__(self, layer, a):
        self.layer, self.a, self.version = layer, a.detach(), a._version
        self.b = None  # the derivative by what came out

    def take(self, derivative):
        """Keep what comes back (a hook on the layer's output)."""
        self.b = derivative.detach() if self.b is None else self.b + derivative.detach()

    def gradients(self, rows=slice(None)):
        """Return ``{parameter: gradients}`` of these rows, first dimension rows."""
        rule = GradSampleModule.GRAD_SAMPLERS[type(self.layer)]
        found = rule(self.layer, [self.a[rows]], self.b[rows])
        padding = self.layer.padding_idx if type(self.layer) is nn.Embedding else None
        if padding is not None:  # which the rule takes for a word like others
            for g in found.values():
                g[:, padding] = 0
        return found

    def parameters(self):
        """Return the layer's parameters to train."""
        return [p for p in self.layer._parameters.values() if p is not None and p.requires_grad]


def check_rules(module):
    """Refuse parameters of layers for which there is no rule.

    Raises
    ------
    CandidateRefusedError
    """
    ruled = {id(p) for layer in module.modules() if has_rule(layer) for p in layer._parameters.values()}
    for name, layer in module.named_modules():
        mine = [id(p) for p in layer._parameters.values() if p is not None and p.requires_grad]
        if not ruled.issuperset(mine):  # Opacus' recurrent layers list the parameters of their cells again
            raise CandidateRefusedError(
                f"layer {name!r} ({type(layer).__name__}) of the module must be one of those with a rule for per-row "
                "gradients (Linear, Conv, Embedding, normalisation without rows, Opacus' recurrent layers); it has "
                "parameters of its own and none. Use grad_sample_mode='functorch' ('auto' does) or, slowly, 'rows'; or "
                "freeze it."
            )


def _one_tensor(layer, args, kwargs):
    tensors = [*args, *kwargs.values()]
    if len(tensors) != 1 or not isinstance(tensors[0], torch.Tensor):
        raise CandidateRefusedError(f"a {type(layer).__name__} of the module must be called with one tensor. {_ADVICE}")
    return tensors[0]


def _check_rows(layer, what, tensor, n):
    if tensor.dim() < 1 or tensor.shape[0] != n:
        raise CandidateRefusedError(
            f"a {type(layer).__name__} of the module must see every row of a batch, once each; its {what} has shape "
            f"{tuple(tensor.shape)} for {n} rows. {_ADVICE}"
        )


def _refuse_packed(layer, args, kwargs):
    if any(isinstance(part, PackedSequence) for part in (*args, *kwargs.values())):
        raise CandidateRefusedError(
            f"a {type(layer).__name__} of the module must not be given packed sequences: they hold rows in the order "
            "of their lengths. Give it padded ones and pick each row's last position, or use grad_sample_mode='rows' "
            "(each row by itself, slow)."
        )


def capture(module, losses_of, n):
    """Run ``losses_of()`` forward and backward; return its calls, those without a derivative left out.

    Parameters
    ----------
    module : torch.nn.Module
    losses_of : callable
        Returns the losses of the ``n`` rows, computed by ``module``.
    n : int

    Raises
    ------
    CandidateRefusedError
        If a layer saw something else than the n rows.
    """
    calls = []

    def seen(layer, args, kwargs, output):
        if not torch.is_grad_enabled():
            return None  # nothing would come back
        a = _one_tensor(layer, args, kwargs)
        _check_rows(layer, "input", a, n)
        _check_rows(layer, "output", output, n)
        if not output.requires_grad:
            output = output.detach().requires_grad_().clone()  # of a leaf, which may not be worked on in place
        call = Call(layer, a)
        output.register_hook(call.take)
        calls.append(call)
        return output

    def watched(layer):
        return trains(layer) and has_rule(layer)

    trained = [p for p in module.parameters() if p.requires_grad]
    handles = [layer.register_forward_hook(seen, with_kwargs=True) for layer in module.modules() if watched(layer)]
    handles += [layer.register_forward_pre_hook(_refuse_packed, with_kwargs=True) for layer in module.modules()]
    for p in trained:
        p.requires_grad_(False)
    try:
        losses = losses_of()
        if losses.requires_grad:
            losses.sum().backward()
    finally:
        for p in trained:
            p.requires_grad_(True)
        for handle in handles:
            handle.remove()
    calls = [call for call in calls if call.b is not None]
    for call in calls:
        _check_rows(call.layer, "derivative", call.b, n)
        if call.a._version != call.version:
            raise CandidateRefusedError(
                f"the input of a {type(call.layer).__name__} of the module must not be changed in place afterwards: "
                "its gradient is computed from it. Write x = x + ..., or use grad_sample_mode='functorch'."
            )
    return calls


def groups_of(calls):
    """Return the calls in groups that share no parameter."""
    groups = []
    for call in calls:
        own, mine = {id(p) for p in call.parameters()}, [call]
        apart = []
        for ids, members in groups:
            if ids & own:
                own, mine = own | ids, members + mine
            else:
                apart.append((ids, members))
        groups = [*apart, (own, mine)]
    return [members for _, members in groups]
