"""Predictions on random rows, before any private row is read: a row must not move another's, for scores count rows."""

import torch

from skdptune._exceptions import CandidateRefusedError
from skdptune.candidates.nets._failing import raise_if_interrupted
from skdptune.candidates.nets._modules import single_rows, slice_rows

__all__ = ["check_made", "check_predictions", "made_of"]


def made_of(outputs, flat, nonlinearity, alone):
    """Return predictions (tensor, double precision) made of a module's outputs.

    Parameters
    ----------
    outputs : torch.Tensor of shape (n_rows, ...), or tuple with it in front
    flat : bool
        Whether nonlinearities get a single column of outputs without its dimension, as in skorch.
    nonlinearity : callable
    alone : bool
        Whether it is to see one row at a time.
    """
    outputs = (outputs[0] if isinstance(outputs, tuple) else outputs).double()
    outputs = outputs.reshape(-1) if flat else outputs
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


def _checked_outputs(outputs, n, flat):
    first = outputs[0] if isinstance(outputs, tuple) else outputs
    if flat and isinstance(first, torch.Tensor) and first.numel() == n:
        return outputs
    if not isinstance(first, torch.Tensor) or first.shape[:1] != (n,):
        got = f"shape {tuple(first.shape)}" if isinstance(first, torch.Tensor) else f"a {type(first).__name__}"
        raise CandidateRefusedError(
            "module must return one row of outputs for each row of inputs in eval mode, too, and for one row by "
            f"itself; got {got} for {n} row{'s' if n > 1 else ''}. A .squeeze() without a dimension drops that of the "
            "rows: write .squeeze(-1), or .flatten(1)."
        )
    return outputs


def check_made(made, n, width, own):
    """Refuse predictions that could not be made into labels or numbers after training.

    Parameters
    ----------
    made : object
        What was made of the outputs of ``n`` rows.
    n : int
    width : tuple of shapes, or int
        The shapes that one row of predictions may have, or how many numbers there are in it, in whatever shape.
    own : bool
        Whether a callable ``predict_nonlinearity`` has made it.
    """
    if not isinstance(made, torch.Tensor) or made.shape[:1] != (n,):
        raise _not_one_each()
    fits = made[0].numel() == width if isinstance(width, int) else tuple(made.shape[1:]) in width
    if fits and not made.is_complex() and made.dtype not in (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2):
        return
    what = "predict_nonlinearity" if own else "the module in eval mode, with this criterion and predict_nonlinearity,"
    wanted = f"({width},)" if isinstance(width, int) else " or ".join(map(str, width))
    raise CandidateRefusedError(
        f"{what} must give real numbers of shape {wanted} for each row (a column for each class, or a number for each "
        f"target); it gave {tuple(made.shape[1:])} of {made.dtype}. Return probabilities, not labels; "
        "predict_nonlinearity='auto' makes them of what the criterion takes."
    )


def check_predictions(nonlinearity, flat, outputs_of, pairs, *, width, alone, close):
    """Refuse modules (in eval mode) and nonlinearities for which a row changes what is predicted for another.

    Parameters
    ----------
    nonlinearity : callable
    flat : bool
        As for :func:`made_of`.
    outputs_of : callable
        Returns the outputs of a fresh copy in eval mode for rows.
    pairs : iterable of (rows, the same but for one, indices of the others)
        The first is asked row by row as well.
    width : (shapes or int, bool)
        As for :func:`check_made`.
    alone : (bool, bool)
        Whether the module, and whether the nonlinearity, sees single rows only.
    close : callable
        Tells whether two tensors agree; a third argument says that one was computed in a smaller batch.
    """

    def predicted(x):
        rows = len(next(iter(x.values())) if isinstance(x, dict) else x)
        made = made_of(_checked_outputs(outputs_of(x), rows, flat), flat, nonlinearity, alone[1])
        check_made(made, rows, *width)
        made = made.detach()
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
