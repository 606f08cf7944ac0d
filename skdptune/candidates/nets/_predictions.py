"""Predictions on random rows, before any private row is read: a row must not move another's, for scores count rows."""

import torch

from skdptune._exceptions import CandidateRefusedError
from skdptune.candidates.nets._failing import raise_if_interrupted
from skdptune.candidates.nets._losses import one_column
from skdptune.candidates.nets._modules import single_rows, slice_rows

__all__ = ["check_predictions", "made_of"]


def made_of(outputs, criterion, nonlinearity, alone):
    """Return predictions (tensor, double precision) made of a module's outputs.

    Parameters
    ----------
    outputs : torch.Tensor of shape (n_rows, ...), or tuple with it in front
    criterion : torch.nn.Module
    nonlinearity : callable
    alone : bool
        Whether it is to see one row at a time.
    """
    outputs = (outputs[0] if isinstance(outputs, tuple) else outputs).double()
    outputs = outputs.reshape(-1) if one_column(criterion) else outputs
    if not alone:
        return nonlinearity(outputs)
    parts = [nonlinearity(outputs[row]) for row in single_rows(len(outputs))]
    if any(not isinstance(part, torch.Tensor) or part.shape[:1] != (1,) for part in parts):
        raise _not_one_each()
    return torch.cat(parts)


def _not_one_each():
    return CandidateRefusedError(
        "predict_nonlinearity must return one row for each row of outputs, as a tensor; it returned something else. "
        "Keep the rows in the first dimension."
    )


def check_predictions(nonlinearity, criterion, outputs_of, pairs, *, alone, close):
    """Refuse modules (in eval mode) and nonlinearities for which a row changes what is predicted for another.

    Parameters
    ----------
    nonlinearity : callable or None
        One of the user's own.
    criterion : torch.nn.Module
    outputs_of : callable
        Returns the outputs of a fresh copy in eval mode for rows.
    pairs : iterable of (rows, the same but for one, indices of the others)
        The first is asked row by row as well.
    alone : (bool, bool)
        Whether the module, and whether the nonlinearity, sees single rows only.
    close : callable
        Tells whether two tensors agree; a third argument says that one was computed in a smaller batch.
    """

    def predicted(x):
        made = made_of(outputs_of(x), criterion, nonlinearity or torch.clone, alone[1])
        rows = len(next(iter(x.values())) if isinstance(x, dict) else x)
        if not isinstance(made, torch.Tensor) or made.shape[:1] != (rows,):
            raise _not_one_each()
        return made.double() if made.dtype is torch.bool else made

    for i, (x, other, kept) in enumerate(pairs):
        try:
            made = predicted(x)
            if all(alone):
                return
            fine = close(made[kept], predicted(other)[kept], False)
            for k, row in enumerate(single_rows(len(made)) if i == 0 else ()):
                own = predicted(slice_rows(x, row))
                fine = fine and close(own.reshape(-1), made[k].reshape(-1), True)
        except CandidateRefusedError:
            raise
        except BaseException as error:
            raise_if_interrupted(error)
            if i == 0:
                raise
            continue  # strange rows may fail
        if not fine:
            raise CandidateRefusedError(
                "changing one row, or leaving it out, changes the prediction for another: in eval mode the module, or "
                "predict_nonlinearity, couples the rows of a batch, so that one row moves a score by more than its "
                "share. Compute nothing over the first dimension (softmax over the last, no mean over rows), or set "
                "grad_sample_mode='rows', which predicts each row by itself, too (slow)."
            )
