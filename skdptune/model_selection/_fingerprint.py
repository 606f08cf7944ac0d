"""Digests that say whether a setting or a table is the one a checkpoint was written for.

Equal values give equal digests in every process and session: nothing here depends on addresses, on the
order of a set or on the state of a generator. Where that cannot be had, the value is refused.
"""

import dataclasses
import functools
import hashlib
import types

import numpy as np
from scipy import sparse

from skdptune._exceptions import InvalidParameterError

__all__ = ["fingerprint"]

_BLOCK = 1 << 24  # bytes hashed at a time, so that a large table is never copied whole
_DEPTH = 60
_GENERATORS = (np.random.RandomState, np.random.Generator, np.random.BitGenerator)


def fingerprint(name, value, key=b""):
    """Return a digest of ``value``: the same for equal values, in every process.

    Parameters
    ----------
    name : str
        What ``value`` is, for the complaint.
    value : object
        Settings, estimators, functions, distributions, arrays, sparse matrices, frames.
    key : bytes, optional
        At most 64 bytes. Digests under different keys cannot be compared, so a digest of private rows says nothing to
        somebody who does not know the key.

    Returns
    -------
    str
        64 hexadecimal digits.

    Raises
    ------
    InvalidParameterError
        If two equal values of this kind could look different.

    Examples
    --------
    >>> import numpy as np
    >>> fingerprint("X", np.eye(2)) == fingerprint("X", np.asfortranarray(np.eye(2)))
    True
    >>> fingerprint("s", 1) == fingerprint("s", 1.0)
    False
    """
    writer = _Writer(hashlib.blake2b(key=key, digest_size=32))
    try:
        writer.value(value)
    except _UnknownError as error:
        raise InvalidParameterError(
            f"checkpoint needs to tell whether {name} is unchanged after a restart, and cannot for an object of type "
            f"{error}. Leave checkpoint=None, or build {name} from numbers, strings, estimators and functions."
        ) from None
    return writer.hash.hexdigest()


class _UnknownError(Exception):
    pass


class _Writer:
    """Feeds a hash with tagged, length-prefixed pieces, so that no two structures look alike."""

    def __init__(self, hash_):
        self.hash = hash_
        self._open = []

    def text(self, *parts):
        for part in parts:
            self.raw(str(part).encode("utf-8", "surrogatepass"))

    def raw(self, data):
        self.hash.update(len(data).to_bytes(8, "big"))
        self.hash.update(data)

    def value(self, value):
        if id(value) in self._open:  # a cycle: what it leads to is being written already
            self.text("cycle", len(self._open) - self._open.index(id(value)))
            return
        if len(self._open) > _DEPTH:
            raise _UnknownError(type(value).__name__)
        self._open.append(id(value))
        try:
            _write(value, self)
        finally:
            self._open.pop()

    def mapping(self, items):
        items = sorted(items, key=lambda item: str(item[0]))
        self.text(len(items))
        for key, value in items:
            self.value(key)
            self.value(value)


def _name(kind):
    return f"{kind.__module__}.{kind.__qualname__}"


@functools.singledispatch
def _write(value, out):
    for applies, write in _BY_SHAPE:
        if applies(value):
            write(value, out)
            return
    _write_object(value, out)


def _write_object(value, out):
    """Write any other object: its class and what it holds."""
    state = dict(getattr(value, "__dict__", {}))
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            if slot not in ("__dict__", "__weakref__") and hasattr(value, slot):
                state[slot] = getattr(value, slot)
    if not state and type(value).__reduce_ex__ is object.__reduce_ex__ and type(value).__reduce__ is object.__reduce__:
        if type(value).__flags__ & (1 << 9):  # a class made in Python, and empty
            out.text("object", _name(type(value)))
            return
        raise _UnknownError(type(value).__name__)
    if not state:
        try:
            reduced = value.__reduce_ex__(2)
        except Exception:
            raise _UnknownError(type(value).__name__) from None
        out.text("reduced", _name(type(value)))
        out.value(reduced if isinstance(reduced, str) else tuple(part for part in reduced[:3]))
        return
    out.text("object", _name(type(value)))
    # what was computed on demand may be there or not
    cached = {name for kind in type(value).__mro__ for name, member in vars(kind).items() if _is_cached(member)}
    out.mapping((name, item) for name, item in state.items() if name not in cached)


def _is_cached(member):
    return isinstance(member, functools.cached_property)


@_write.register(type(None))
@_write.register(bool)
@_write.register(int)
@_write.register(float)
@_write.register(complex)
@_write.register(str)
@_write.register(type(Ellipsis))
def _write_plain(value, out):
    out.text(type(value).__name__, repr(value))


@_write.register(bytes)
@_write.register(bytearray)
def _write_bytes(value, out):
    out.text("bytes")
    out.raw(bytes(value))


@_write.register(np.generic)
def _write_scalar(value, out):
    out.text("scalar", value.dtype.str, repr(value.item()))


@_write.register(list)
@_write.register(tuple)
def _write_sequence(value, out):
    out.text(_name(type(value)), len(value))
    for item in value:
        out.value(item)


@_write.register(set)
@_write.register(frozenset)
def _write_set(value, out):
    out.text("set", len(value))
    for digest in sorted(fingerprint("set", item) for item in value):
        out.text(digest)


@_write.register(dict)
def _write_dict(value, out):
    out.text("dict")
    out.mapping(value.items())


@_write.register(range)
def _write_range(value, out):
    out.text("range", value.start, value.stop, value.step)


@_write.register(type)
def _write_type(value, out):
    out.text("type", _name(value))


@_write.register(types.ModuleType)
def _write_module(value, out):
    out.text("module", value.__name__)


@_write.register(types.BuiltinFunctionType)
@_write.register(np.ufunc)
def _write_builtin(value, out):
    out.text("builtin", getattr(value, "__module__", ""), value.__name__)


@_write.register(types.FunctionType)
def _write_function(value, out):
    out.text("function", value.__module__, value.__qualname__)
    _write_code(value.__code__, out)
    out.value(value.__defaults__)
    out.value(value.__kwdefaults__)
    for cell in value.__closure__ or ():
        out.value(cell.cell_contents)


@_write.register(types.CodeType)
def _write_code(value, out):
    out.text("code", value.co_name, value.co_names, value.co_varnames)
    out.raw(value.co_code)
    out.value(value.co_consts)


@_write.register(types.MethodType)
def _write_method(value, out):
    out.text("method")
    out.value(value.__func__)
    out.value(value.__self__)


@_write.register(functools.partial)
def _write_partial(value, out):
    out.text("partial")
    out.value((value.func, value.args, value.keywords))


@_write.register(np.ndarray)
def _write_array(value, out):
    out.text("array", value.dtype.str if value.dtype.names is None else value.dtype.descr, value.shape)
    if value.dtype.hasobject:
        _write_cells(value.ravel().tolist(), out)
        return
    flat = value.reshape(len(value), -1) if value.ndim > 1 and len(value) else value.reshape(-1)
    rows = max(1, _BLOCK // max(1, flat[:1].nbytes))
    for first in range(0, len(flat), rows):
        # byte by byte: a value and its copy in another order look the same, -0.0 and 0.0 do not
        out.hash.update(np.ascontiguousarray(flat[first : first + rows]).data.cast("B"))


def _write_cells(cells, out):
    if all(type(cell) is str for cell in cells):
        encoded = [cell.encode("utf-8", "surrogatepass") for cell in cells]
        out.text("strings")
        out.raw(np.array([len(text) for text in encoded], dtype="<i8").tobytes())
        out.raw(b"".join(encoded))
        return
    for cell in cells:
        out.value(cell)


def _write_generator(value, out):
    # every run gets its own randomness, whatever generator a setting holds
    out.text("generator", _name(type(value)))


def _write_frozen(value, out):
    dist = value.dist
    out.text("distribution", _name(type(dist)), dist.name, getattr(dist, "a", ""), getattr(dist, "b", ""))
    out.value((tuple(value.args), dict(value.kwds), getattr(dist, "_histogram", None)))


def _write_sparse(value, out):
    csr = value.tocsr().copy()
    csr.sum_duplicates()
    out.text("sparse", csr.shape)
    for part in (csr.data, csr.indices.astype(np.int64), csr.indptr.astype(np.int64)):
        out.value(part)


def _write_frame(value, out):
    names = list(value.columns)
    out.text("frame", type(value).__name__, len(names))
    for position, name in enumerate(names):
        column = value.iloc[:, position] if hasattr(value, "iloc") else value[name]
        out.text(name, column.dtype)
        out.value(list(getattr(column.dtype, "categories", ())))
        out.value(np.asarray(column))


def _write_estimator(value, out):
    out.text("estimator", _name(type(value)))
    out.mapping(value.get_params(deep=False).items())
    fitted = {n: v for n, v in vars(value).items() if n.endswith("_") and not n.startswith("_")}
    out.mapping(fitted.items())


def _write_dataclass(value, out):
    out.text("dataclass", _name(type(value)))
    out.mapping((field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value))


def _write_arraylike(value, out):
    out.text("arraylike", _name(type(value)))
    out.value(np.asarray(value))


_BY_SHAPE = (
    (lambda value: isinstance(value, _GENERATORS), _write_generator),
    (lambda value: all(hasattr(value, name) for name in ("dist", "args", "kwds")), _write_frozen),
    (sparse.issparse, _write_sparse),
    (lambda value: hasattr(value, "columns") and hasattr(value, "dtypes"), _write_frame),
    (lambda value: hasattr(value, "get_params"), _write_estimator),
    (dataclasses.is_dataclass, _write_dataclass),
    (lambda value: hasattr(value, "__array__") and hasattr(value, "dtype"), _write_arraylike),
)
