"""What a net is trained for: how targets become tensors, and outputs predictions. All of it public."""

from dataclasses import dataclass

import numpy as np
import torch

from skdptune._exceptions import InvalidParameterError
from skdptune.candidates.nets._losses import one_column

__all__ = ["Classification", "Regression"]


@dataclass(frozen=True)
class Classification:
    """Classes known in public.

    Parameters
    ----------
    classes : tuple
        Sorted distinct labels.
    one_column : bool
        Whether the criterion wants one column for two classes.
    """

    classes: tuple
    one_column: bool = False

    def __post_init__(self):
        if self.one_column and len(self.classes) > 2:
            raise InvalidParameterError(
                f"criterion must be one for several classes; got a binary one for {len(self.classes)} classes. Use "
                "torch.nn.CrossEntropyLoss."
            )

    @property
    def n_outputs(self):
        """How many outputs the module should have."""
        return 1 if self.one_column else len(self.classes)

    @property
    def expected(self):
        """How many outputs are checked for; None where a single column may be flat."""
        return None if self.one_column else len(self.classes)

    @property
    def predicted(self):
        """The shapes that predictions for one row may have; two columns may stand for a single class."""
        return ((1,), (2,)) if len(self.classes) == 1 else ((len(self.classes),),)

    def flat(self, criterion):
        """Return whether nonlinearities get the outputs without the dimension of their single column."""
        return one_column(criterion)

    def encode(self, y, dtype):
        """Return the targets as class numbers (floats for a single column).

        A label that is not declared counts as the first class: whether a row has such a label must
        not decide whether training fails. (``fit`` checks the labels before anything is trained.)
        """
        labels = np.asarray(self.classes)
        y = np.asarray(y).reshape(-1)
        order = np.argsort(labels, kind="stable")
        place = np.minimum(np.searchsorted(labels, y, sorter=order), len(labels) - 1)
        codes = np.where(labels[order[place]] == y, order[place], 0)
        return torch.from_numpy(codes.astype(np.int64)).to(dtype if self.one_column else torch.int64)

    def random(self, generator, n_rows, dtype):
        """Return random targets."""
        codes = torch.from_numpy(generator.integers(0, len(self.classes), n_rows))
        return codes.to(dtype) if self.one_column else codes


@dataclass(frozen=True)
class Regression:
    """Targets that are numbers.

    Parameters
    ----------
    n_targets : int or None
        None for targets of shape (n_samples,).
    bounds : (float, float) or None
        Public range: targets are clipped to it and scaled to [-1, 1], predictions scaled back.
    """

    n_targets: int | None = None
    bounds: tuple | None = None

    @property
    def n_outputs(self):
        """How many outputs the module should have."""
        return self.n_targets or 1

    expected = None

    @property
    def predicted(self):
        """How many numbers a prediction has."""
        return self.n_outputs

    def flat(self, criterion):
        """Return False: a number for each target."""
        return False

    def encode(self, y, dtype):
        """Return the targets as a tensor of ``dtype``."""
        y = torch.from_numpy(np.array(y, dtype=np.float64))
        if self.bounds is not None:
            low, high = self.bounds
            y = (2 * y.clamp(low, high) - (low + high)) / (high - low)
        return y.to(dtype)

    def decode(self, outputs):
        """Return predictions (ndarray) in the units of the targets."""
        outputs = outputs.reshape(len(outputs), -1)
        if self.bounds is not None:
            low, high = self.bounds
            outputs = np.clip((outputs * (high - low) + (low + high)) / 2, low, high)
        return outputs[:, 0] if self.n_targets is None else outputs

    def random(self, generator, n_rows, dtype):
        """Return random targets."""
        shape = (n_rows,) if self.n_targets is None else (n_rows, self.n_targets)
        return torch.from_numpy(generator.standard_normal(shape)).to(dtype)
