"""A digest of a privacy curve that is the same in every process, to recognise a planned search.

Equal digests must mean equal costs. A curve's node is written out as plain values; a function, which has no
value, by its name and by what it returns at the default orders and at many others.
"""

import functools
import hashlib
from dataclasses import fields, is_dataclass

import numpy as np

from skdptune._exceptions import InvalidParameterError
from skdptune.accounting._mechanisms import FromPair, FromRdpFunction, Mechanism
from skdptune.run_counts import RunCount

__all__ = ["curve_digest"]

# Orders that no caller would choose: two functions that agree at these and at the default orders are taken to be
# one. (True divergences are bound by convexity in between.)
_PROBES = 1 + np.geomspace(0.0137, 3001.7, 211)


def curve_digest(curve):
    """Return a hex digest of ``curve``, or None if it cannot be recognised elsewhere.

    Examples
    --------
    >>> from skdptune.accounting import PrivacyCurve
    >>> one = curve_digest(PrivacyCurve.gaussian(3.0))
    >>> one == curve_digest(PrivacyCurve.gaussian(3.0)), one == curve_digest(PrivacyCurve.gaussian(3.1))
    (True, False)
    """
    try:
        text = repr((curve.relation, _plain(curve.node)))
    except (TypeError, InvalidParameterError):  # the latter: a distribution of tries that no file can hold
        return None
    return hashlib.sha256(text.encode()).hexdigest()


@functools.singledispatch
def _plain(value):
    """Return ``value`` as nested tuples of strings; TypeError for what has no value of its own."""
    if value is None or isinstance(value, (bool, int, str, bytes)):
        return repr(value)
    if is_dataclass(value):
        return _named(value, {field.name: getattr(value, field.name) for field in fields(value)})
    raise TypeError(f"no digest of a {type(value).__name__}")


def _named(value, parts):
    return (f"{type(value).__module__}.{type(value).__qualname__}", *((n, _plain(part)) for n, part in parts.items()))


@_plain.register(float)
@_plain.register(np.floating)
def _(value):
    return float(value).hex()


@_plain.register(np.integer)
def _(value):
    return repr(int(value))


@_plain.register(tuple)
@_plain.register(list)
def _(value):
    return tuple(_plain(item) for item in value)


@_plain.register(dict)
def _(value):
    return tuple((repr(key), _plain(value[key])) for key in sorted(value))


@_plain.register(np.ndarray)
def _(value):
    return (str(value.dtype), value.shape, hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest())


@_plain.register(Mechanism)
def _(value):
    return _named(value, {field.name: getattr(value, field.name) for field in fields(value)})


@_plain.register(FromPair)
def _(value):
    return ("pair", value.given.cache_key)


@_plain.register(FromRdpFunction)
def _(value):
    function = value.function
    kind = getattr(function, "__qualname__", None) or type(function).__qualname__
    name = getattr(function, "__name__", "")
    return ("function", kind, name, _plain(value.values), _plain(value.rdp(_PROBES)))


@_plain.register(RunCount)
def _(value):
    return ("run count", _plain(value.to_dict()))
