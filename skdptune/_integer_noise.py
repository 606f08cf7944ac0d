"""Exact samplers of integer noise: discrete Laplace (two-sided geometric) and discrete Gaussian.

All arithmetic is on integers. A scale is an exact rational, every comparison is between integers,
and the only randomness is uniform bits, so the law that is sampled is the law that is priced:
there is no rounding, no truncation and no saturation.

The algorithms are the rejection samplers of Canonne, Kamath & Steinke (arXiv 2004.00010v5),
written here on two kinds of bits: the operating system's, and a keyed hash for repeatable searches.

Why not a library's sampler: OpenDP's (proven, MIT) cannot be seeded, so a repeatable search would
need a second sampler anyway and the path that tests repeat would not be the path that users run; it
saturates at the ends of its integer type; and it asks to switch on a process-wide feature flag. The
tests compare the two, and check the law here exactly, by walking through every outcome of the bits.

Notation (paper <-> code)
-------------------------
========================  =======================================================
``Bernoulli(exp(-g))``    :func:`bernoulli_exp` with ``g = numerator/denominator``
``Lap_Z(t/s)``            :func:`sample_discrete_laplace` with ``scale = t/s``
``N_Z(0, sigma^2)``       :func:`sample_discrete_gaussian` with ``scale = sigma``
========================  =======================================================
"""

import hashlib
import secrets

__all__ = [
    "BitSource",
    "HashedBits",
    "SystemBits",
    "bernoulli_exp",
    "bit_source",
    "sample_discrete_gaussian",
    "sample_discrete_laplace",
]

_DOMAIN = b"skdptune integer noise, version 1"
_BLOCK_BYTES = 64


class BitSource:
    """A source of uniform bits; everything else is derived from :meth:`bits`."""

    def bits(self, count):
        """Return an integer uniform on ``[0, 2**count)``."""
        raise NotImplementedError

    def below(self, bound):
        """Return an integer uniform on ``[0, bound)`` by rejection (exact for every ``bound >= 1``)."""
        width = (bound - 1).bit_length()
        if width == 0:
            return 0
        while True:
            value = self.bits(width)
            if value < bound:
                return value

    def bernoulli(self, numerator, denominator):
        """Return True with probability ``numerator / denominator`` exactly (0 <= n <= d, d >= 1)."""
        return self.below(denominator) < numerator


class SystemBits(BitSource):
    """The operating system's entropy; nothing is buffered, so a forked process repeats nothing.

    Examples
    --------
    >>> 0 <= SystemBits().below(6) < 6
    True
    """

    def bits(self, count):
        return secrets.randbits(count)


class HashedBits(BitSource):
    """A repeatable stream: SHA-512 of a key and a counter.

    The key is a hash of the seed under a name of its own, so the stream is unrelated to any other
    generator that was given the same seed, and is the same on every platform and Python version.
    It predicts as little as SHA-512 does to whoever does not know the seed.

    Parameters
    ----------
    seed : int
        Any integer. Give 128 bits of entropy or more: a short seed can be found by trying.

    Examples
    --------
    >>> HashedBits(7).below(1000) == HashedBits(7).below(1000)
    True
    """

    def __init__(self, seed):
        sign = b"-" if seed < 0 else b"+"
        magnitude = abs(seed)
        body = magnitude.to_bytes((magnitude.bit_length() + 7) // 8, "big")
        self._key = hashlib.sha512(_DOMAIN + sign + body).digest()
        self._counter = 0
        self._pool = 0
        self._width = 0

    def bits(self, count):
        while self._width < count:
            block = hashlib.sha512(self._key + self._counter.to_bytes(16, "big")).digest()
            self._counter += 1
            self._pool = (self._pool << (8 * _BLOCK_BYTES)) | int.from_bytes(block, "big")
            self._width += 8 * _BLOCK_BYTES
        self._width -= count
        value = self._pool >> self._width
        self._pool &= (1 << self._width) - 1
        return value


def bit_source(seed=None):
    """Return the operating system's bits, or a repeatable stream if a seed is given.

    Parameters
    ----------
    seed : int or None
        None: operating system entropy. An int: a repeatable stream, private only while the seed is.

    Examples
    --------
    >>> type(bit_source()).__name__, type(bit_source(1)).__name__
    ('SystemBits', 'HashedBits')
    """
    return SystemBits() if seed is None else HashedBits(seed)


def _bernoulli_exp_unit(numerator, denominator, bits):
    # exp(-g) for g in [0, 1]: with A_k ~ Bernoulli(g/k), the first failure K has
    # P(K > k) = g^k / k!, hence P(K odd) = sum_k (-g)^k / k! = exp(-g).
    k = 1
    while bits.bernoulli(numerator, denominator * k):
        k += 1
    return k % 2 == 1


def bernoulli_exp(numerator, denominator, bits):
    """Return True with probability ``exp(-numerator / denominator)`` exactly.

    Parameters
    ----------
    numerator, denominator : int
        With ``numerator >= 0`` and ``denominator >= 1``.
    bits : BitSource

    References
    ----------
    Algorithm 1 of Canonne, Kamath & Steinke, arXiv 2004.00010v5.

    Examples
    --------
    >>> bernoulli_exp(0, 1, bit_source())
    True
    """
    whole, rest = divmod(numerator, denominator)
    # exp(-g) = exp(-1)^floor(g) * exp(-(g - floor(g))): stop at the first failure.
    for _ in range(whole):
        if not _bernoulli_exp_unit(1, 1, bits):
            return False
    return _bernoulli_exp_unit(rest, denominator, bits)


def _laplace_attempt(t, s, bits):
    """Return a draw for the scale t/s, or None: try again."""
    # u + t * v is geometric with ratio exp(-1/t): u is its remainder, v its whole part.
    u = bits.below(t)
    if not bernoulli_exp(u, t, bits):
        return None
    v = 0
    while bernoulli_exp(1, 1, bits):
        v += 1
    magnitude = (u + t * v) // s  # geometric with ratio exp(-s/t)
    if not bits.bernoulli(1, 2):
        return magnitude
    return -magnitude or None  # a negative zero would count zero twice


def sample_discrete_laplace(scale, bits):
    """Draw an integer Z with ``P(Z = z)`` proportional to ``exp(-|z| / scale)``.

    Parameters
    ----------
    scale : fractions.Fraction, int or float
        Positive; the noise on a count of sensitivity 1 costs epsilon = 1 / scale.
    bits : BitSource

    Returns
    -------
    int

    References
    ----------
    Algorithm 2 of Canonne, Kamath & Steinke, arXiv 2004.00010v5.

    Examples
    --------
    >>> from fractions import Fraction
    >>> isinstance(sample_discrete_laplace(Fraction(3, 2), bit_source()), int)
    True
    """
    t, s = scale.as_integer_ratio()
    while True:
        value = _laplace_attempt(t, s, bits)
        if value is not None:
            return value


def _gaussian_attempt(a, b, t, bits):
    """Return a draw for the variance a/b, or None: try again; t is an integer above the standard deviation."""
    y = sample_discrete_laplace(t, bits)
    # Accept Y ~ Lap_Z(t) with probability exp(-(|Y| - variance/t)^2 / (2 variance)); over integers
    # the exponent is (|Y| t b - a)^2 / (2 a b t^2).
    accepted = bernoulli_exp((abs(y) * t * b - a) ** 2, 2 * a * b * t * t, bits)
    return y if accepted else None


def sample_discrete_gaussian(scale, bits):
    """Draw an integer Z with ``P(Z = z)`` proportional to ``exp(-z^2 / (2 scale^2))``.

    Parameters
    ----------
    scale : fractions.Fraction, int or float
        Positive; the noise on a count of sensitivity 1 costs 1 / (2 scale^2) in zCDP.
    bits : BitSource

    Returns
    -------
    int

    References
    ----------
    Algorithm 3 of Canonne, Kamath & Steinke, arXiv 2004.00010v5.

    Examples
    --------
    >>> from fractions import Fraction
    >>> isinstance(sample_discrete_gaussian(Fraction(3, 2), bit_source()), int)
    True
    """
    numerator, denominator = scale.as_integer_ratio()
    a, b, t = numerator**2, denominator**2, numerator // denominator + 1
    while True:
        value = _gaussian_attempt(a, b, t, bits)
        if value is not None:
            return value
