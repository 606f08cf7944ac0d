"""256 bits for every use of randomness."""

import hashlib
import secrets

import numpy as np

__all__ = ["ENTROPY_BITS", "HashedSequence", "entropy_for", "words"]

ENTROPY_BITS = 256
_WORD = np.dtype("<u4")


def entropy_for(seed, *path):
    """Return a 256-bit integer for one use of randomness.

    Parameters
    ----------
    seed : int or None
        None: the operating system's entropy, new at every call. An integer: derived from it and from
        ``path`` by SHA-256, so different paths give unrelated values and the same path repeats.
    *path : str or int
        Names the use, e.g. ``("step", "clf")``.

    Returns
    -------
    int
        In [0, 2**256).

    Examples
    --------
    >>> entropy_for(7, "step", "clf") == entropy_for(7, "step", "clf")
    True
    >>> entropy_for(7, "step", "clf") == entropy_for(7, "step", "scaler")
    False
    >>> entropy_for(None) == entropy_for(None)
    False
    """
    if seed is None:
        return secrets.randbits(ENTROPY_BITS)
    # repr of a tuple of ints and strs is injective, so no two paths share a digest input
    text = repr((int(seed), tuple(map(str, path))))
    return int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")


def words(entropy):
    """Return 256 bits as numpy takes them fastest: words of 32 bits, the lowest first."""
    return np.frombuffer(entropy.to_bytes(ENTROPY_BITS // 8, "little"), dtype=_WORD)


class HashedSequence(np.random.bit_generator.ISpawnableSeedSequence):
    """Words for numpy's bit generators: SHAKE-256 of 256 bits. numpy's own SeedSequence takes five times as long.

    Parameters
    ----------
    entropy : int
        256 bits; each of them bears on every word.

    Examples
    --------
    >>> HashedSequence(7).generate_state(2) == HashedSequence(7).generate_state(2)
    array([ True,  True])
    """

    def __init__(self, entropy):
        self._entropy = entropy
        self._children = 0

    def generate_state(self, n_words, dtype=np.uint32):
        """Return ``n_words`` words, the same at every call."""
        dtype = np.dtype(dtype)
        key = self._entropy.to_bytes(ENTROPY_BITS // 8, "little")
        drawn = np.frombuffer(hashlib.shake_256(key).digest(n_words * dtype.itemsize), dtype.newbyteorder("<"))
        return drawn.astype(dtype, copy=False)

    def spawn(self, n_children):
        """Return sequences that are unrelated to this one and to each other, and new at every call."""
        first = self._children
        self._children += n_children
        return [HashedSequence(entropy_for(self._entropy, "spawn", first + i)) for i in range(n_children)]
