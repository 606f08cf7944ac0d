"""Losses of single rows: computed by the criterion without its reduction, summed by the loop."""

import copy
import inspect

import torch
from torch import nn

from skdptune._exceptions import CandidateRefusedError, InvalidParameterError

__all__ = ["RowLoss", "build_criterion", "inside", "one_column", "takes_scaled_targets", "to_target"]

_ONE_COLUMN = (nn.BCEWithLogitsLoss, nn.BCELoss)


def build_criterion(net):
    """Return the criterion of ``net`` with ``reduction="none"``.

    Raises
    ------
    CandidateRefusedError
        If the criterion cannot be kept from reducing, or learns parameters of its own.
    """
    kwargs = copy.deepcopy(net.get_params_for("criterion"))
    for name in ("size_average", "reduce"):
        if kwargs.pop(name, None) is not None:
            raise InvalidParameterError(
                f"criterion__{name} must be left out: the criterion of {type(net).__name__} returns one loss per row, "
                "and the loop sums their clipped gradients."
            )
    made = net.criterion
    if isinstance(made, nn.Module) and not kwargs:
        criterion = copy.deepcopy(made)
        if not hasattr(criterion, "reduction"):
            raise _no_reduction(net, made)
        criterion.reduction = "none"
    else:
        made = type(made) if isinstance(made, nn.Module) else made
        if not isinstance(made, type) or not _takes_reduction(made):
            raise _no_reduction(net, made)
        try:
            criterion = made(**{**kwargs, "reduction": "none"})
        except (TypeError, ValueError) as error:
            raise InvalidParameterError(
                f"criterion__* must be parameters of {made.__name__}; it refused them: {error}. Weights are tensors: "
                "criterion__weight=torch.tensor([1.0, 2.0])."
            ) from error
    if any(True for _ in criterion.parameters()):
        raise CandidateRefusedError(
            f"criterion of {type(net).__name__} must have no parameters to learn; move them into the module."
        )
    return criterion


def _takes_reduction(maker):
    try:
        return "reduction" in inspect.signature(maker).parameters
    except (TypeError, ValueError):
        return False


def _no_reduction(net, made):
    name = getattr(made, "__name__", type(made).__name__)
    return CandidateRefusedError(
        f"criterion of {type(net).__name__} must take reduction='none' and then return one loss per row; "
        f"{name} does not: a loss that is averaged inside couples the rows. Use a loss class of torch.nn, "
        "or give yours that parameter."
    )


def one_column(criterion):
    """Return whether ``criterion`` wants a single column of outputs for two classes."""
    return isinstance(criterion, _ONE_COLUMN)


# of probabilities, counts: scaled to [-1, 1] they are none
_AS_THEY_COME = (*_ONE_COLUMN, nn.PoissonNLLLoss, nn.KLDivLoss, nn.CrossEntropyLoss)


def takes_scaled_targets(criterion):
    """Return whether ``criterion`` makes sense of targets that were scaled to [-1, 1]."""
    return not isinstance(criterion, _AS_THEY_COME)


def to_target(criterion):
    """Return what makes targets of the outputs that ``criterion`` takes, where they are not the same; else None.

    Examples
    --------
    >>> to_target(nn.BCEWithLogitsLoss())(torch.zeros(1))
    tensor([0.5000])
    """
    if isinstance(criterion, nn.BCEWithLogitsLoss):
        return torch.sigmoid
    if isinstance(criterion, nn.BCELoss):
        return torch.clone
    if isinstance(criterion, nn.PoissonNLLLoss) and criterion.log_input:
        return torch.exp
    return None


class RowLoss:
    """The loss of each row: ``row_loss(outputs, targets) -> tensor (n_rows,)``.

    Several losses within a row (outputs of a regressor, positions) are averaged within it.

    Parameters
    ----------
    criterion : torch.nn.Module
        With ``reduction="none"``.
    """

    def __init__(self, criterion):
        self.criterion = criterion

    def __call__(self, outputs, targets):
        outputs = outputs[0] if isinstance(outputs, tuple) else outputs
        if isinstance(self.criterion, nn.NLLLoss):
            # As in skorch: the module returns probabilities.
            outputs = torch.log(outputs + torch.finfo(outputs.dtype).eps)
        elif targets.is_floating_point() and outputs.shape != targets.shape:
            if outputs.numel() != targets.numel():
                raise CandidateRefusedError(
                    f"module must return one output per target; got outputs of shape {tuple(outputs.shape)} for "
                    f"targets of shape {tuple(targets.shape)}. Set its width (e.g. module__n_outputs)."
                )
            outputs = outputs.reshape(targets.shape)
        fine = None
        if type(self.criterion) is nn.BCELoss:  # which raises for the whole batch because of one such number
            fine = inside(outputs) & inside(targets)
            outputs, targets = (torch.where(fine, part, 0.5) for part in (outputs, targets))
        losses = self.criterion(outputs, targets)
        if losses.dim() == 0 or losses.shape[0] != targets.shape[0]:
            raise CandidateRefusedError(
                "criterion must return one loss per row with reduction='none'; got a tensor of shape "
                f"{tuple(losses.shape)} for {targets.shape[0]} rows."
            )
        losses = losses.flatten(1).mean(1) if losses.dim() > 1 else losses
        if fine is not None:  # no number for the row: it has no finite gradient, or none at all, and counts zero
            losses = losses * torch.where(fine.reshape(fine.shape[0], -1).all(1), 1.0, float("nan"))
        return losses


def inside(numbers):
    """Return where numbers are probabilities."""
    return (numbers >= 0) & (numbers <= 1)
