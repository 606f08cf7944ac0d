"""Rows in whatever shape they come, turned into tensors one batch at a time.

Nothing is converted as a whole: a batch is cut from the array, frame, sparse matrix or dict and only
then becomes a tensor of the module's type, so the memory beside the caller's own is that of one batch.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import issparse

from skdptune._exceptions import InvalidParameterError, InvalidTypeError
from skdptune._validation import describe, invalid_type, invalid_value
from skdptune.candidates._row_safe import is_keyed

__all__ = ["Rows", "Schema", "input_dtype_of", "refuse_times"]

_WHOLE = {"int64": torch.int64, "int32": torch.int32}


def input_dtype_of(name):
    """Return the torch type of inputs for the parameter ``input_dtype`` (None: the module's own)."""
    if name is None:
        return None
    if name not in _WHOLE:
        raise invalid_value(
            "input_dtype",
            "None, 'int64' or 'int32'",
            name,
            "None gives floating-point inputs; whole numbers are for embeddings.",
        )
    return _WHOLE[name]


@dataclass(frozen=True)
class Schema:
    """What is public about the rows: trailing shape and kind of each part, never a value.

    Parameters
    ----------
    parts : tuple of (name or None, shape, whole)
        ``whole`` is True where the part's own type is a whole number (used for dicts only).
    """

    parts: tuple

    @property
    def keyed(self):
        """Whether the rows are a dict of arrays."""
        return self.parts[0][0] is not None

    @property
    def n_features_in(self):
        """The number of columns, or the trailing shape where rows are not flat."""
        _, shape, _ = self.parts[0]
        return shape[0] if len(shape) == 1 else shape

    @classmethod
    def of(cls, shape):
        """Return the schema of what a search knows of its rows.

        Parameters
        ----------
        shape : int, tuple or dict
            A number of columns; the shape of one row; or for each name a pair (shape of one row, whether its
            numbers are whole).

        Examples
        --------
        >>> Schema.of(3) == Schema.of((3,))
        True
        """
        if isinstance(shape, Mapping):
            return cls(tuple((str(name), tuple(map(int, own)), bool(whole)) for name, (own, whole) in shape.items()))
        sizes = shape if isinstance(shape, tuple) else (shape,)
        return cls(((None, tuple(map(int, sizes)), False),))

    def random(self, n_rows, dtype, whole, generator):
        """Return random rows of this schema: normals, or zeros and ones where numbers are whole."""
        made = {}
        for name, shape, is_whole in self.parts:
            size = (n_rows, *shape)
            as_whole = whole if whole is not None else (torch.int64 if is_whole and self.keyed else None)
            if as_whole is not None:
                made[name] = torch.from_numpy(generator.integers(0, 2, size)).to(as_whole)
            else:
                made[name] = torch.from_numpy(generator.standard_normal(size)).to(dtype)
        return made if self.keyed else made[None]


class Rows:
    """Private rows, read by index.

    Parameters
    ----------
    X : ndarray, DataFrame, sparse matrix, tensor, or dict of these
        First dimension: rows.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> rows = Rows(np.arange(6.0).reshape(3, 2))
    >>> rows.take(np.array([2]), dtype=torch.float32, whole=None, device="cpu")
    tensor([[4., 5.]])
    """

    def __init__(self, X):
        if is_keyed(X):
            if not X:
                raise invalid_value("X", "a dict with at least one array", X)
            for name in X:
                if not isinstance(name, str):
                    raise invalid_type("X", "a dict whose keys are the names of arguments of forward", name)
            self._parts = {name: _readable(part) for name, part in X.items()}
        else:
            self._parts = {None: _readable(X)}
        lengths = {part.shape[0] for part in self._parts.values()}
        if len(lengths) > 1:
            raise InvalidParameterError(
                f"X must hold arrays with one number of rows; got {sorted(lengths)}. Cut them alike."
            )
        self.n_samples = lengths.pop()

    def __len__(self):
        return self.n_samples

    @property
    def schema(self):
        """The :class:`Schema`."""
        return Schema(
            tuple(
                (name, tuple(int(size) for size in part.shape[1:]), _is_whole(part))
                for name, part in self._parts.items()
            )
        )

    def take(self, indices, *, dtype, whole, device):
        """Return the rows ``indices`` as a tensor (or a dict of them) of the module's type."""
        made = {}
        for name, part in self._parts.items():
            target = whole if whole is not None else dtype
            if whole is None and name is not None and _is_whole(part):
                target = torch.int64
            made[name] = _cut(part, indices).to(device=device, dtype=target)
        return made if None not in made else made[None]


def refuse_times(rows, name):
    """Refuse dates and durations, whose numbers would be nanoseconds since 1970.

    Raises
    ------
    InvalidTypeError
    """
    columns = rows.dtypes if hasattr(rows, "columns") and hasattr(rows, "dtypes") else [getattr(rows, "dtype", None)]
    if any(getattr(kind, "kind", "") in ("m", "M") for kind in columns):
        raise InvalidTypeError(
            f"{name} must hold no dates, times or durations; got {describe(rows)} of them. Turn them into numbers by a "
            "public rule, e.g. days since a fixed date."
        )


def _readable(part):
    refuse_times(part, "X")
    if isinstance(part, torch.Tensor):
        if part.layout != torch.strided and not part.is_nested:
            raise InvalidParameterError("X must be a dense tensor; got a sparse one. Call .to_dense().")
        if part.is_nested or part.is_quantized:
            raise InvalidParameterError(
                f"X must be a plain tensor; got a {'nested' if part.is_nested else 'quantized'} one. Call "
                f"{'.to_padded_tensor(0)' if part.is_nested else '.dequantize()'}."
            )
        if part.is_complex():
            raise _complex()
        part = part.detach()
    elif issparse(part):
        part = part.tocsr()
    elif hasattr(part, "columns"):
        part = part.to_numpy()
    else:
        part = np.asarray(part)
    if isinstance(part, np.ndarray):
        if part.dtype.kind == "c":
            raise _complex()
        if part.dtype.kind not in "biuf" or part.dtype.itemsize > 8:  # torch has no longer floats
            part = _numeric(part)
        if not part.dtype.isnative:
            part = part.astype(part.dtype.newbyteorder("="))
    if len(part.shape) < 1:
        raise invalid_type("X", "an array with one row per sample", part)
    return part


def _complex():
    return InvalidParameterError("X must hold real numbers; got complex ones. Complex data not supported.")


def _numeric(part):
    try:
        return part.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        pass
    # raised here: the error above quotes a cell
    raise InvalidParameterError("X must be numeric; it holds something else. Encode it with public categories.")


def _is_whole(part):
    if isinstance(part, torch.Tensor):
        return not part.is_floating_point()
    return part.dtype.kind in "iub"


def _cut(part, indices):
    if isinstance(part, torch.Tensor):
        return part[torch.from_numpy(np.asarray(indices)).to(part.device)]
    rows = part[indices]
    if issparse(rows):
        rows = rows.toarray()
    return torch.from_numpy(np.ascontiguousarray(rows))  # casts in torch: overflow becomes inf, silently
