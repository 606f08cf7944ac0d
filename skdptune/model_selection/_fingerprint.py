"""Digests that say whether a setting or a table is the one a checkpoint was written for.

Equal values give equal digests in every process and session: nothing here depends on addresses, on the
order of a set, on the place of a file or on the state of a generator. Where that cannot be had, the value is refused.

What is written of a value:

* numbers, text, containers: what they hold, floats bit by bit;
* arrays and tables: dtype, shape, values, masks, index and names; neither strides nor the format of a sparse matrix;
* functions and classes of libraries: their name, and the library's version (which the checkpoint compares by itself);
* other functions and classes: their code, and what it reaches (see ``_fingerprint_code``);
* estimators: class, parameters and whatever else they hold;
* other objects: class, and what a pickle of them would hold.

Generators of random numbers are compared by their kind alone: every run is given fresh ones.
"""

import collections
import hashlib
import struct
from dataclasses import dataclass, field

from skdptune._exceptions import InvalidParameterError
from skdptune.model_selection._fingerprint_objects import write_any
from skdptune.model_selection._fingerprint_tables import UnknownError

__all__ = ["Fingerprint", "Writer", "examine", "fingerprint"]

_DEPTH = 80
_MOST_PARTS = 4096
_SHORT = 8  # bytes of a part's digest: it only helps to name a difference that the whole digest has found


@dataclass(frozen=True)
class Fingerprint:
    """What is known of a value.

    Parameters
    ----------
    digest : str
        64 hexadecimal digits: the same for equal values, in every process.
    parts : dict of str to str
        Digests of single functions, attributes and the like, by what they are; to name a difference.
    packages : frozenset of str
        The libraries that something of the value comes from.
    """

    digest: str
    parts: dict = field(default_factory=dict)
    packages: frozenset = frozenset()


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
    return examine(name, value, key).digest


def examine(name, value, key=b""):
    """Return the :class:`Fingerprint` of ``value``; parameters and errors as for :func:`fingerprint`.

    Examples
    --------
    >>> sorted(examine("scoring", len).packages)
    []
    """
    writer = Writer(key)
    try:
        writer.value(value)
        writer.follow()
    except UnknownError as error:
        raise InvalidParameterError(_complaint(name, writer, str(error))) from None
    except RecursionError:
        raise InvalidParameterError(_complaint(name, writer, f"{type(value).__name__} nested this deeply")) from None
    except Exception as error:  # objects may do anything when they are looked at
        kind = f"{type(value).__name__} that raises {type(error).__name__} when it is looked at"
        raise InvalidParameterError(_complaint(name, writer, kind)) from None
    return Fingerprint(writer.hash.hexdigest(), dict(writer.parts), frozenset(writer.packages))


def _complaint(name, writer, kind):
    where = f" ({writer.where})" if writer.where else ""
    return (
        f"checkpoint needs to tell whether {name} is unchanged after a restart, and cannot for an object of type "
        f"{kind}{where}. Leave checkpoint=None, or build {name} from numbers, strings, estimators and functions that "
        "hold and read nothing else."
    )


class Writer:
    """Feeds a hash with tagged, length-prefixed pieces, so that no two structures look alike.

    Parameters
    ----------
    key : bytes
    shallow : bool
        Whether functions and classes are written by name and code alone: enough to put keys of a dict and members
        of a set into an order.
    """

    def __init__(self, key=b"", shallow=False):
        self._key, self._shallow = key, shallow
        self.hash = self._fresh()
        self.parts, self.packages, self.where = {}, set(), ""
        self._open, self._memo = {}, {}
        self._tokens, self._namesakes, self._pending = {}, collections.Counter(), collections.deque()

    def _fresh(self):
        return hashlib.blake2b(key=self._key, digest_size=32)

    # ------------------------------------------------------------------ pieces

    def text(self, *parts):
        """Write plain words and numbers."""
        for part in parts:
            self.raw(str(part).encode("utf-8", "surrogatepass"))

    def raw(self, data):
        """Write bytes."""
        self.hash.update(len(data).to_bytes(8, "big"))
        self.hash.update(data)

    def value(self, value):
        """Write any value."""
        write = _PLAIN.get(type(value))
        if write is None:
            self.raw(self.digest(value))
        else:
            write(value, self)

    def digest(self, value):
        """Return a digest of ``value`` alone; one that is met again is not walked again."""
        if id(value) in self._memo:
            return self._memo[id(value)][1]
        if id(value) in self._open:  # a cycle: what it leads to is being written already
            return b"cycle %d" % (len(self._open) - self._open[id(value)])
        if len(self._open) > _DEPTH:
            raise UnknownError(f"{type(value).__name__} nested this deeply")
        outer, self.hash = self.hash, self._fresh()
        self._open[id(value)] = len(self._open)
        try:
            write_any(value, self)
            digest = self.hash.digest()
        finally:
            self.hash = outer
            del self._open[id(value)]
        self._memo[id(value)] = value, digest  # kept alive, or its address could be used again
        return digest

    def labelled(self, label, value):
        """Write ``value``, and remember its digest under a label that a person understands."""
        before, self.where = self.where, label
        self.value(value)
        self.where = before
        self._remember(label, self._digest_of(value))

    def _digest_of(self, value):
        inner = Writer(self._key) if type(value) in _PLAIN else None
        if inner is None:
            return self.digest(value)
        inner.value(value)
        return inner.hash.digest()

    def _remember(self, label, digest):
        if len(self.parts) < _MOST_PARTS or label in self.parts:
            before = bytes.fromhex(self.parts.get(label, ""))
            if before:
                digest = hashlib.blake2b(before + digest).digest()
            self.parts[label] = digest[:_SHORT].hex()

    def mapping(self, items, label=None):
        """Write pairs, in an order that does not depend on the one they come in.

        ``label``, if given, makes the label of the value of each name.
        """
        items = list(items)
        if not all(type(key) is str for key, _ in items):
            items = sorted(items, key=lambda item: self.order_of(item[0]))
        else:
            items.sort(key=lambda item: item[0])
        self.text(len(items))
        for key, value in items:
            self.value(key)
            if label is None:
                self.value(value)
            else:
                self.labelled(label(key), value)

    def order_of(self, value):
        """Return a digest to sort by: it neither depends on what was written before, nor changes that."""
        writer = Writer(self._key, shallow=True)
        writer.value(value)
        return writer.hash.digest()

    # ------------------------------------------------------------------ functions and classes: by reference

    def refer(self, value, name, label, write, own):
        """Write a name for ``value``; what it is made of is written later, once, by ``write(value, writer)``.

        A program is a graph with cycles. Written one by one, in the order in which they are met, its nodes need no
        recursion, and the digest of each says what has changed in that one. ``own(value)`` is what tells
        namesakes apart.
        """
        if self._shallow:
            self.text("ref", name, own(value))
            return
        if id(value) not in self._tokens:
            self._tokens[id(value)] = value, f"{name}#{self._namesakes[name]}"
            self._namesakes[name] += 1
            self._pending.append((value, label, write))
        self.text("ref", self._tokens[id(value)][1])

    def follow(self):
        """Write everything that was referred to."""
        while self._pending:
            value, label, write = self._pending.popleft()
            outer, self.hash, self.where = self.hash, self._fresh(), label
            write(value, self)
            digest, self.hash = self.hash.digest(), outer
            self._remember(label, digest)
            self.raw(digest)
        self.where = ""


def _write_plain(value, out):
    out.text(type(value).__name__, value)


def _write_float(value, out):
    out.text("float")
    out.raw(struct.pack(">d", value))  # by its bits: nan is nan, and -0.0 is not 0.0


def _write_complex(value, out):
    out.text("complex")
    out.raw(struct.pack(">dd", value.real, value.imag))


def _write_bytes(value, out):
    out.text(type(value).__name__)
    out.raw(value)


def _write_int(value, out):
    out.text("int", hex(value))  # no limit on the number of digits


_PLAIN = {
    type(None): _write_plain,
    bool: _write_plain,
    int: _write_int,
    float: _write_float,
    complex: _write_complex,
    str: _write_plain,
    bytes: _write_bytes,
    bytearray: _write_bytes,
    type(Ellipsis): _write_plain,
    type(NotImplemented): _write_plain,
}
