"""Batches in which a row fails, or for which there is too little memory: what the other rows get must not tell.

What a row contributes has to be a function of the row, of the batch's seed and of the row's place, whatever the other
rows are. So a batch that fails is gone through again from the *same* seed and at the same size, some rows in it and
made-up ones in the places of all others: every row meets the masks that it met before. A row that fails among made-up
rows is asked once more by itself, from a seed of its place (some rows only do not go together with others: counts of
unequal length), and if it fails there, too, it contributes zero. Which made-up rows are taken, and whether there is
memory enough for a batch of this size, is found with made-up rows alone, from seed and parameters.
"""

import sys

import numpy as np
import torch

from skdptune.candidates._generators import SharedProcessError
from skdptune.candidates.nets._modules import slice_rows

__all__ = ["RowsThatFail", "is_out_of_memory", "raise_if_interrupted"]

_FATAL = (torch.OutOfMemoryError, MemoryError)
_CPU = ("DefaultCPUAllocator: can't allocate memory", "DefaultCPUAllocator: not enough memory")
_CANDIDATES = 4


def is_out_of_memory(error):
    """Return whether an error says that memory is exhausted; on the CPU torch has words for it, and no class.

    Code of one's own may raise the like for a row. That decides nothing by itself: made-up rows are asked.

    Examples
    --------
    >>> is_out_of_memory(MemoryError()), is_out_of_memory(RuntimeError("singular"))
    (True, False)
    """
    return isinstance(error, _FATAL) or (type(error) is RuntimeError and any(words in str(error) for words in _CPU))


def raise_if_interrupted(error):
    """Raise Ctrl-C, and that the process is shared; whatever else code raises is a row's own.

    No Exception, perhaps, as asyncio's CancelledError.
    """
    if type(error) in (KeyboardInterrupt, SharedProcessError):
        raise error


class RowsThatFail:
    """Base of the clippers: sums over batches, with or without rows that fail.

    A subclass has ``zeros()`` and ``_attempt(x, y, fine, path)``, which returns the sums over the ``fine`` rows (None:
    all) or raises; its masks follow from ``path``, the size of the batch and each row's place in it.
    """

    strict = False  # True raises what a batch raises
    _most = sys.maxsize  # rows for which the memory was large enough

    def _whole(self, x, y, path=(), last=False):
        """Return the sums of a batch, in pieces if it is larger than what went into the memory so far.

        ``last`` says that a row has failed before: each is asked twice at most, also the only one of a batch.
        """
        n = y.shape[0]
        if n > self._most:
            return self._pieces(x, y, path)
        try:
            return self._attempt(x, y, None, path)
        except BaseException as error:
            raise_if_interrupted(error)
            if self.strict:
                raise
            exhausted = is_out_of_memory(error)
        # here, where the failed pass and what it keeps in memory are gone
        if n == 1:
            if exhausted:
                self._made_up(x, y, path)  # raises if it was not the row
            return self.zeros() if last else self._whole(x, y, (*path, 0), last=True)
        made_up = self._made_up(x, y, path)
        if n > self._most:
            return self._pieces(x, y, path)
        return self._apart(x, y, made_up, path)

    def _pieces(self, x, y, path):
        """Return the sums in pieces, each with a seed of its own: with one for all they would draw the same masks."""
        total, size = self.zeros(), self._most
        for i, start in enumerate(range(0, y.shape[0], size)):
            piece = slice(start, start + size)
            _add(total, self._whole(slice_rows(x, piece), y[piece], (*path, i)))
        return total

    def _made_up(self, x, y, path):
        """Return a batch of made-up rows that goes through, or None; lower ``_most`` where the memory is too small."""
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        for seed in range(_CANDIDATES):
            batch = _filled(x, seed), torch.zeros_like(y)
            try:
                self._attempt(*batch, None, path)
                return batch
            except BaseException as error:
                raise_if_interrupted(error)
                if is_out_of_memory(error):
                    if y.shape[0] == 1:  # no row is to blame
                        raise
                    self._most = (y.shape[0] + 1) // 2
                    break
        return None

    def _apart(self, x, y, made_up, path):
        """Return the sums of a batch that failed as a whole."""
        good, total = torch.zeros(y.shape[0], dtype=torch.bool, device=y.device), None
        if made_up is not None:
            good = self._good_rows(x, y, made_up, path)
            if bool(good.any()):
                total = self._try(*_mixed(good, (x, y), made_up), good, path)
                good = good if total is not None else torch.zeros_like(good)
        total = self.zeros() if total is None else total
        for i in torch.nonzero(~good)[:, 0].tolist():
            row = slice(i, i + 1)
            _add(total, self._whole(slice_rows(x, row), y[row], (*path, i), last=True))
        return total

    def _good_rows(self, x, y, made_up, path):
        """Return which rows go through among made-up ones, by halving what does not."""
        n = y.shape[0]
        good = torch.zeros(n, dtype=torch.bool, device=y.device)
        todo = [range(n // 2), range(n // 2, n)]
        while todo:
            part = todo.pop()
            asked = torch.zeros_like(good)
            asked[part.start : part.stop] = True
            if self._try(*_mixed(asked, (x, y), made_up), None, path) is not None:
                good |= asked
            elif len(part) > 1:
                todo += [part[: len(part) // 2], part[len(part) // 2 :]]
        return good

    def _try(self, x, y, fine, path):
        try:
            return self._attempt(x, y, fine, path)
        except BaseException as error:
            raise_if_interrupted(error)
            return None


def _add(total, more):
    for accumulated, part in zip(total, more, strict=True):
        accumulated.add_(part)


def _mixed(mine, rows, others):
    """Return the batch ``rows`` with ``others`` in all places but ``mine``."""

    def mix(a, b):
        return torch.where(mine.view(-1, *[1] * (a.dim() - 1)), a, b)

    (x, y), (x2, y2) = rows, others
    return {k: mix(v, x2[k]) for k, v in x.items()} if isinstance(x, dict) else mix(x, x2), mix(y, y2)


def _filled(x, seed):
    """Return a batch in the shape of ``x``: one made-up row, normals or zeros and ones, in every place."""
    generator = np.random.default_rng(seed)

    def fill(part):
        shape = tuple(part.shape[1:])
        draw = generator.standard_normal(shape) if part.is_floating_point() else generator.integers(0, 2, shape)
        return torch.as_tensor(draw).to(part).expand(part.shape).clone()

    return {k: fill(v) for k, v in x.items()} if isinstance(x, dict) else fill(x)
