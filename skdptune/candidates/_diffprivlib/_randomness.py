"""A cryptographic source of randomness with the two faces that diffprivlib's code asks for.

Its mechanisms take a ``secrets.SystemRandom``; its trees call a numpy generator's ``randint`` and
``uniform``. Trees publish their thresholds, which are raw 53-bit outputs of the generator: with a
Mersenne twister some 700 of them (a forest of 23 trees of depth 5) determine its whole state, and with it
the noise of every leaf. So nothing here draws from a generator that can be run backwards.
"""

import hashlib
import os
import secrets

import numpy as np

__all__ = ["ByteRandom"]

_BLOCK = 4096  # bytes read at a time; a system call per draw would dominate small fits
_DOUBLE = 2.0**-53


class ByteRandom(secrets.SystemRandom):
    """Random numbers from the operating system, or from a secret seed through SHAKE-256.

    Parameters
    ----------
    seed : int or None, default=None
        None: the operating system's entropy. An integer (of 128 bits or more, and secret): the stream is
        SHAKE-256 of it in counter mode, so it repeats and yet no output tells another.

    Notes
    -----
    Being a ``SystemRandom`` it passes diffprivlib's check for a secure source, and like one it can be
    neither copied nor pickled.

    Examples
    --------
    >>> ByteRandom(2**130).random() == ByteRandom(2**130).random()
    True
    >>> ByteRandom().random() == ByteRandom().random()
    False
    >>> ByteRandom(1).random(3).shape
    (3,)
    >>> 0 <= ByteRandom().randint(4) < 4
    True
    """

    def __new__(cls, seed=None):
        return super().__new__(cls)  # the inherited twister is never seeded from ours, nor used

    def __init__(self, seed=None):
        super().__init__()
        self._key = None if seed is None else repr(int(seed)).encode()
        self._counter = 0
        self._buffer = b""
        self._position = 0
        self._process = os.getpid()

    def _refill(self, size):
        size = max(size, _BLOCK)
        if self._key is None:
            self._buffer = os.urandom(size)
        else:
            block = self._key + b"/" + str(self._counter).encode()
            self._buffer = hashlib.shake_256(block).digest(size)
            self._counter += 1
        self._position = 0

    def _read(self, size):
        if self._key is None and self._process != os.getpid():
            self._buffer, self._position, self._process = b"", 0, os.getpid()  # forked: no shared bytes
        if self._position + size > len(self._buffer):
            self._refill(size)
        start = self._position
        self._position += size
        return self._buffer[start : start + size]

    def random(self, size=None):
        """Return a float in [0, 1), or an ndarray of shape ``(size,)`` of them, 53 bits each."""
        if size is None:
            return (int.from_bytes(self._read(7), "little") >> 3) * _DOUBLE
        words = np.frombuffer(self._read(8 * int(size)), dtype="<u8")
        return (words >> np.uint64(11)) * _DOUBLE

    def getrandbits(self, k):
        """Return an integer of ``k`` random bits."""
        if k < 0:
            raise ValueError("number of bits must be non-negative")
        size = (k + 7) // 8
        return int.from_bytes(self._read(size), "little") >> (8 * size - k)

    def randbytes(self, n):
        """Return ``n`` random bytes."""
        return self._read(n)

    def randint(self, low, high=None):
        """Return an integer in [0, low), or in [low, high): numpy's convention, which the trees use."""
        if high is None:
            low, high = 0, low
        return low + self.randrange(high - low)
