"""Powers of laws by Fourier transform, with a proven bound of the rounding error in every cell.

Notation: u = 2^-53; a law a lives on Z modulo N; its transform is s_k = sum_j a_j e^{-2 pi i jk/N}.
A transform of length N = 2^a 3^b 5^c runs in passes of radix 2, 3, 4 or 5, and each input reaches
each output on one path. So the error of every output is at most ``transform_error(N)`` times the
sum of the absolute inputs, whatever they are: doc/theory/composition has the proof and its constants.

Assumed of the machine and of scipy.fft: IEEE double precision, elementary functions good to one
unit in the last place (numpy's: two), tables of roots of unity made of two such values each.
"""

import math

import numpy as np
from scipy import fft

__all__ = ["UNIT", "convolved_powers", "good_length", "transform_error"]

UNIT = 2.0**-53
# one pass of radix 2 multiplies by a root of unity (known to 12 u, product rounded by 2.83 u) and
# adds (u); passes of radix 3, 4 and 5 cost less per bit
_PER_BIT = 16.0
_PRODUCT = 2.0 * math.sqrt(2.0) * UNIT * (1 + 1e-9)  # Higham 2002, Lemma 3.5: |fl(xy) - xy| / |xy|
_SUM = 1 + 1e-9  # covers the rounding of sums and logarithms of bounds, far below it
_UNDERFLOW = 1e-300


def good_length(least):
    """Return a length >= ``least`` with the prime factors 2, 3 and 5 only."""
    return fft.next_fast_len(int(least), real=True)


def transform_error(length):
    """Bound |computed - exact| of every value of a transform, in units of the inputs' sum.

    Parameters
    ----------
    length : int
        With the prime factors 2, 3 and 5 only, as :func:`good_length` gives.

    Returns
    -------
    error : float
        For ``rfft``: times sum |a_j|. For ``irfft``: times sum |s_k| / N over all N frequencies.

    Examples
    --------
    >>> f"{transform_error(2**20):.1e}"
    '3.6e-14'
    """
    first = (_PER_BIT * math.log2(length) + 3.0) * UNIT  # 3: the factor 1/N, and the logarithm here
    return first / (1.0 - first)


def convolved_powers(parts, length):
    """Return the law of a sum of independent variables modulo ``length``, and its error.

    Parameters
    ----------
    parts : list of (ndarray of int, ndarray of float, float, int)
        Places modulo ``length``, masses there (in all about one), a bound of the sum of the masses'
        absolute errors, and how many independent copies are summed.
    length : int
        See :func:`good_length`.

    Returns
    -------
    law : ndarray of shape (length,)
        As computed: some cells may be negative.
    error : float
        No cell of the exact law differs from ``law`` by more.

    Examples
    --------
    >>> import numpy as np
    >>> law, error = convolved_powers([(np.array([0, 1]), np.array([0.5, 0.5]), 0.0, 2)], 4)
    >>> law.round(12) + 0.0, error < 1e-14
    (array([0.25, 0.5 , 0.25, 0.  ]), True)
    """
    off_by = transform_error(length)
    spectrum, log_bound, share, factors = None, 0.0, 0.0, 0
    for place, mass, error, count in parts:
        wraps = 1 + place.size // length  # additions of masses that fall on one place
        error = error + (off_by + wraps * UNIT) * float(np.sum(np.abs(mass))) * _SUM
        one = fft.rfft(np.bincount(place, mass, length))
        # |one| and its exact value both lie below this
        bound = np.abs(one) * (1 + 8 * UNIT) + error
        log_bound = log_bound + count * np.log(bound)
        share = share + count * (error / bound)
        power = _power(one, count)
        spectrum = power if spectrum is None else spectrum * power
        factors += count
    # a product of factors below M_i, each off by e_i, is off by (product of M_i) sum e_i / M_i
    off = np.exp(log_bound) * (share + math.expm1(_PRODUCT * (factors + 1)))
    error = _mean_over_all(off, length) + off_by * _mean_over_all(np.abs(spectrum), length)
    return fft.irfft(spectrum, length), error * _SUM + _UNDERFLOW


def _power(base, count):
    """base ** count by squaring: at most ``count - 1`` roundings of a product lie on any value."""
    result = None
    while True:
        if count & 1:
            result = base if result is None else result * base
        count >>= 1
        if not count:
            return result
        base = base * base


def _mean_over_all(half, length):
    """Mean over all frequencies of a symmetric function, given at 0 to N/2."""
    total = 2.0 * float(np.sum(half)) - float(half[0])
    if length % 2 == 0:
        total -= float(half[-1])
    return total / length
