"""Arrays, sparse matrices and frames in a fingerprint: by their values, dtype, names and index.

The order in memory (C or Fortran, strides, a view, a memory map) and the format of a sparse matrix do not count,
nor does the order of the entries in it; explicit zeros do. Byte order counts, being part of the dtype, and so do the
bits of a NaN and the sign of a zero.
"""

import sys

import numpy as np
from scipy import sparse

__all__ = ["UnknownError", "writer_of_table"]

_BLOCK = 1 << 20  # bytes hashed at a time, so that a large table is never copied whole


class UnknownError(Exception):
    """Raised for a value of which two equal ones could look different."""


# ---------------------------------------------------------------------- numpy


def write_scalar(value, out):
    """Write a numpy scalar by its bits."""
    out.text("scalar")
    write_array(np.asarray(value), out)


def write_array(value, out):
    """Write an array; a subclass with its class, mask and attributes."""
    if isinstance(value, np.ma.MaskedArray):
        _write_masked(value, out)
        return
    if type(value) not in (np.ndarray, np.memmap):
        out.value(type(value))
        out.value({name: item for name, item in (getattr(value, "__dict__", None) or {}).items()})
    _write_values(np.asarray(value), out)


def _write_masked(value, out):
    out.text("masked", value.hardmask)
    out.value(type(value))
    out.labelled("its values", np.asarray(value.data))
    # whether the mask is written out, or there is none, is the same
    out.labelled("its mask", np.ma.getmaskarray(value))
    out.labelled("its fill value", np.asarray(value.fill_value))


def _write_values(value, out):
    out.text("array", _dtype_text(value.dtype), value.shape)
    if value.dtype.names is not None:  # by field: there may be gaps between them, of no value
        for name in value.dtype.names:
            out.text(name)
            _write_values(value[name], out)
    elif value.dtype.hasobject or value.dtype.kind == "T":
        write_cells(value.ravel().tolist(), out)
    elif value.dtype.char in "gG":  # wider than their digits: the rest is of no value
        _write_long(value, out)
    else:
        _write_bits(value, out)


def _dtype_text(dtype):
    if dtype.names is not None:
        return f"fields {dtype.names!r}"
    return f"{dtype.str} {dtype!r}" if dtype.kind in "VT" else dtype.str


def _write_bits(value, out):
    flat = value.reshape(len(value), -1) if value.ndim > 1 and len(value) else value.reshape(-1)
    rows = max(1, _BLOCK // max(1, flat[:1].nbytes))
    for first in range(0, len(flat), rows):
        # byte by byte: a value and its copy in another order look the same, -0.0 and 0.0 do not
        block = np.ascontiguousarray(flat[first : first + rows])
        out.hash.update(block.view(np.uint8).data if block.size and block.dtype.itemsize else b"")


def _write_long(value, out):
    if value.dtype.kind == "c":
        _write_long(value.real, out)
        _write_long(value.imag, out)
        return
    with np.errstate(all="ignore"):
        mantissa, exponent = np.frexp(value.astype(np.longdouble))
        high = mantissa.astype(np.float64)
        low = (mantissa - high).astype(np.float64)
    for part in (high, low, exponent.astype(np.int64), np.signbit(value)):
        _write_bits(np.asarray(part), out)


def write_cells(cells, out):
    """Write a list of objects: its texts at once, what is none one by one."""
    texts = [cell.encode("utf-8", "surrogatepass") if type(cell) is str else None for cell in cells]
    lengths = [-1 if text is None else len(text) for text in texts]
    out.text("cells", len(cells))
    out.raw(np.array(lengths, dtype="<i8").tobytes())
    out.raw(b"".join(text for text in texts if text is not None))
    others = [cell for cell, text in zip(cells, texts, strict=True) if text is None]
    kinds = {type(cell) for cell in others}
    if kinds == {float}:
        out.text("floats")
        out.raw(np.array(others, dtype="<f8").tobytes())
        return
    for cell in others:
        out.value(cell)


# ---------------------------------------------------------------------- scipy


def write_sparse(value, out):
    """Write a sparse matrix by its entries, sorted."""
    csr = value.tocsr()
    if not csr.has_canonical_format:
        csr = csr.copy() if csr is value else csr
        csr.sum_duplicates()
    # "*" means something else for the two
    out.text("sparse", "matrix" if isinstance(value, sparse.spmatrix) else "array", csr.shape)
    for part in (csr.data, csr.indices.astype(np.int64), csr.indptr.astype(np.int64)):
        _write_values(part, out)


# ---------------------------------------------------------------------- pandas, polars


def write_frame(value, out):
    """Write a frame, a series or an index, with its names."""
    if type(value).__module__.partition(".")[0] == "pandas":
        _write_pandas(value, out)
        return
    columns = list(value.columns) if hasattr(value, "columns") else None
    out.text("frame", _kind(value))
    if columns is None:
        _write_column(value, out)
        return
    out.labelled("its column names", columns)
    for name in columns:
        _write_column(value[name], out)


def _kind(value):
    return f"{type(value).__module__.partition('.')[0]} {type(value).__name__}"


def _write_column(column, out):
    """Write a column of polars, or of another library of its kind."""
    out.text(str(column.dtype))
    out.value(str(getattr(column, "name", None)))
    nulls = column.null_count() if hasattr(column, "null_count") else 1
    if nulls or not hasattr(column, "to_numpy"):  # as an array, nothing and NaN would look alike
        write_cells(column.to_list() if hasattr(column, "to_list") else list(column), out)
    else:
        write_array(np.asarray(column.to_numpy()), out)


def _write_pandas(value, out):
    pandas = sys.modules["pandas"]
    out.text("pandas", type(value).__name__)
    if isinstance(value, pandas.MultiIndex):
        out.value(list(value.names))
        for level in range(value.nlevels):
            _write_extension(value.get_level_values(level).array, out)
        return
    if isinstance(value, pandas.Index):
        out.value(value.name)
        _write_extension(value.array, out)
        return
    out.labelled("its index", value.index)
    out.labelled("its attrs", dict(value.attrs))
    if isinstance(value, pandas.Series):
        out.value(value.name)
        _write_extension(value.array, out)
        return
    out.labelled("its column names", value.columns)
    out.labelled("its dtypes", [str(dtype) for dtype in value.dtypes])
    for position in range(value.shape[1]):
        _write_extension(value.iloc[:, position].array, out)


def _write_extension(array, out):
    """Write what a column of pandas holds."""
    out.text(str(array.dtype))
    dtype = array.dtype
    if hasattr(dtype, "categories"):
        out.text("ordered" if dtype.ordered else "unordered")
        out.value(dtype.categories)
        write_array(np.asarray(array.codes), out)
    elif hasattr(dtype, "numpy_dtype") and hasattr(array, "_mask"):  # with a mask of its own
        missing = np.asarray(array.isna())
        write_array(missing, out)
        write_array(array.to_numpy(dtype=dtype.numpy_dtype, na_value=dtype.numpy_dtype.type(0)), out)
    elif hasattr(array, "asi8"):  # times, spans, periods: the unit and the zone are in the dtype
        write_array(np.asarray(array.asi8), out)
    else:
        write_array(np.asarray(array), out)


# ---------------------------------------------------------------------- torch


def write_tensor(value, out):
    """Write a tensor by its bits; gradients and the device do not count."""
    torch = sys.modules["torch"]
    if value.layout != torch.strided or value.is_quantized or value.device.type == "meta":
        raise UnknownError(f"{type(value).__name__} that is not dense")
    out.text("tensor", type(value).__name__, value.dtype, tuple(value.shape), value.requires_grad)
    flat = value.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
    if flat.numel():
        _write_bits(flat.view(torch.uint8).numpy(), out)


# ---------------------------------------------------------------------- which is which


def _is_tensor(value):
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _is_frame(value):
    top = type(value).__module__.partition(".")[0]
    if top == "pandas":
        return hasattr(value, "index") and hasattr(value, "attrs") or hasattr(value, "get_level_values")
    return hasattr(value, "columns") and hasattr(value, "dtypes") or (top == "polars" and hasattr(value, "null_count"))


_TABLES = (
    (lambda value: isinstance(value, np.generic), write_scalar),
    (lambda value: isinstance(value, np.ndarray), write_array),
    (sparse.issparse, write_sparse),
    (_is_tensor, write_tensor),
    (_is_frame, write_frame),
)


def writer_of_table(value):
    """Return what writes ``value``, or None if it is no table."""
    if isinstance(value, type):
        return None
    return next((write for applies, write in _TABLES if applies(value)), None)
