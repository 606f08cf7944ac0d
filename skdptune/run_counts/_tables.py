"""Sums over a table of probabilities: fast, in bounded memory, and stable where terms underflow."""

import math

import numpy as np
from scipy import special

__all__ = ["PowerSum", "WideSum", "draw_from_survival", "draw_tail_uniform", "scattered_log_sum"]

_BLOCK = 2**21  # entries of one temporary matrix: 16 MB
_REACH = 80.0  # terms below e^-80 of the largest coefficient are dropped, then checked


def draw_tail_uniform(rng):
    """Draw from (0, 1] uniformly, with full relative resolution near 0 (no 2**-53 floor)."""
    return math.exp(-rng.standard_exponential())


def draw_from_survival(survival, rng):
    """Draw K from its table P(K > 0), P(K > 1), ...; the tail is resolved down to 1e-300."""
    level = draw_tail_uniform(rng)
    # K is the smallest k with P(K > k) < level
    return int(np.searchsorted(-survival, -level, side="right"))


def _log_sums(terms):
    """Log of the sum of exponentials of each row; overwrites ``terms``, without scipy's many passes."""
    if terms.shape[1] == 0:
        return np.full(terms.shape[0], -np.inf)
    top = np.max(terms, axis=1, keepdims=True)
    np.maximum(top, -1e300, out=top)  # a row of zeros
    terms -= top
    np.exp(terms, out=terms)
    with np.errstate(divide="ignore"):
        return np.log(np.sum(terms, axis=1)) + top[:, 0]


def scattered_log_sum(log_mass, exponents, log_x):
    """Return log of the sum of mass_i x^exponent_i for a few terms, at many x.

    Parameters
    ----------
    log_mass, exponents : ndarray (n_terms,)
    log_x : ndarray (n_points,)
        At most 0; -inf means x = 0.

    Returns
    -------
    ndarray (n_points,)
    """
    out = np.empty(log_x.shape)
    rows = max(_BLOCK // max(exponents.size, 1), 1)
    for start in range(0, log_x.size, rows):
        part = log_x[start : start + rows, None]
        terms = log_mass + np.where(exponents == 0.0, 0.0, exponents * part)
        out[start : start + rows] = _log_sums(terms)
    return out


class PowerSum:
    """The function x -> log of the sum over j >= 0 of c_j x^j, with c_j >= 0.

    Parameters
    ----------
    log_coefficients : ndarray (n,)
        Natural logarithms of the coefficients; -inf for 0.
    """

    def __init__(self, log_coefficients):
        self._log_c = np.asarray(log_coefficients, dtype=float)
        finite = np.flatnonzero(np.isfinite(self._log_c))
        self._terms = finite
        self._empty = finite.size == 0
        if self._empty:
            return
        self._top = float(self._log_c[finite].max())
        self._length = int(finite[-1]) + 1
        self._total = float(special.logsumexp(self._log_c[finite]))
        self._sparse = finite.size <= 8 * math.isqrt(self._length)

    def log_value(self, log_x):
        """Return the logarithm of the sum at each point.

        Parameters
        ----------
        log_x : ndarray of any shape
            At most 0; -inf means x = 0.

        Returns
        -------
        ndarray
            Same shape.
        """
        log_x = np.asarray(log_x, dtype=float)
        flat = log_x.ravel()
        out = np.full(flat.shape, -np.inf)
        if self._empty:
            return out.reshape(log_x.shape)
        out[flat == 0.0] = self._total
        out[flat == -np.inf] = self._log_c[0]
        inner = np.flatnonzero((flat < 0.0) & (flat > -np.inf))
        inner = inner[np.argsort(-flat[inner], kind="stable")]  # x falling: few terms matter later
        out[inner] = self._sorted_values(flat[inner])
        return out.reshape(log_x.shape)

    def _sorted_values(self, log_x):
        if self._sparse:
            return scattered_log_sum(self._log_c[self._terms], self._terms.astype(float), log_x)
        out = np.empty(log_x.shape)
        start = 0
        while start < log_x.size:
            length = self._reach(log_x[start], _REACH)
            rows = min(max(_BLOCK // (2 * math.isqrt(length) + 4), 1), 8192)
            part = log_x[start : start + rows]
            value = self._dense(part, length)
            # the dropped terms sum to less than n e^-80, the underflown ones to less than e^-700;
            # where that is not negligible, take more terms, and at last sum with care
            for depth in (_REACH, 700.0):
                kept = self._reach(part[0], depth)
                margin = 600.0 if kept == self._length else depth - 40.0 - math.log(self._length)
                weak = np.flatnonzero(~(value > self._top - min(margin, 600.0)))
                if weak.size == 0 or depth == 700.0:
                    break
                value[weak] = self._dense(part[weak], self._reach(part[weak[0]], 700.0))
            value[weak] = self._careful(part[weak])
            out[start : start + rows] = value
            start += rows
        return out

    def _reach(self, log_x, depth):
        """Number of leading terms; the others are below e^-depth of the largest coefficient."""
        return int(min(self._length, math.ceil(min(depth / -log_x, 1e18)) + 1))

    def _dense(self, log_x, length):
        """Sum by blocks of ``width`` terms: x^(width i + j) = x^(width i) x^j, one matrix product."""
        width = math.isqrt(length - 1) + 1
        blocks = -(-length // width)
        table = np.zeros(blocks * width)
        table[:length] = np.exp(self._log_c[:length] - self._top)
        inside = np.exp(log_x[:, None] * np.arange(width))
        across = np.exp(log_x[:, None] * (width * np.arange(blocks)))
        value = np.sum((inside @ table.reshape(blocks, width).T) * across, axis=1)
        return np.log(value) + self._top

    def _careful(self, log_x):
        """Log-sum-exp over all terms that matter, for sums far below the largest coefficient."""
        out = np.empty(log_x.shape)
        picked = self._terms[:: max(self._terms.size // 256, 1)]
        start = 0
        while start < log_x.size:
            head = log_x[start]
            least = np.max(self._log_c[picked] + picked * head)
            length = self._reach(head, self._top - least + _REACH + math.log(self._length))
            rows = max(_BLOCK // length, 1)
            part = log_x[start : start + rows]
            if part.size > 1:  # the later points need no more terms than the first if least holds
                least = np.max(self._log_c[picked] + picked * part[-1])
                depth = self._top - least + _REACH + math.log(self._length)
                length = max(length, self._reach(part[-1], depth))
                rows = max(_BLOCK // length, 1)
                part = part[:rows]
            terms = self._log_c[:length] + part[:, None] * np.arange(length)
            out[start : start + rows] = _log_sums(terms)
            start += rows
        return out


class WideSum:
    """Sums over masses on numbers of runs that spread over hundreds of orders of magnitude.

    At one x only the numbers k with k |log x| between 1e-5 and 200 need an exponential each; for
    smaller ones a power series and running sums suffice, and larger ones have vanished.

    Parameters
    ----------
    log_mass : ndarray (n,)
        Logarithms of the masses.
    counts : ndarray (n,)
        The numbers they stand on, positive and ascending.
    """

    _NEAR, _FAR, _ROWS, _FADE = 1e-5, 200.0, 1024, 3.0

    def __init__(self, log_mass, counts):
        kept = np.isfinite(log_mass)
        self._log_mass, self._counts = log_mass[kept], counts[kept]
        log_counts = np.log(self._counts)
        # running log sums of mass * k^j from the left, and of mass from the right
        self._moments = [
            np.logaddexp.accumulate(np.append(-np.inf, self._log_mass + j * log_counts))
            for j in range(4)
        ]
        self._rest = np.logaddexp.accumulate(np.append(-np.inf, self._log_mass[::-1]))[::-1]
        faded = (self._log_mass - self._FADE * log_counts)[::-1]
        self._faded = np.logaddexp.accumulate(np.append(-np.inf, faded))[::-1]

    def _windows(self, log_x):
        """Yield (points, |log x|, first, last) with the terms that need an exponential each."""
        order = np.argsort(-log_x, kind="stable")
        sizes, start = -log_x[order], 0
        while start < order.size:
            # points far apart share few terms: one part spans a factor of 16
            stop = int(np.searchsorted(sizes, 16.0 * sizes[start], side="right"))
            stop = min(max(stop, start + 1), start + self._ROWS)
            points, size = order[start:stop], sizes[start:stop]
            start = stop
            with np.errstate(divide="ignore"):
                first = int(np.searchsorted(self._counts, self._NEAR / size[-1]))
                last = int(np.searchsorted(self._counts, self._FAR / size[0]))
            yield points, size, first, max(last, first)

    def log_power(self, log_x, floor):
        """Log of e^floor plus the sum of mass * x^k, at points log x <= 0."""
        out = np.array(floor, dtype=float)
        for points, size, first, last in self._windows(log_x):
            total = np.logaddexp(floor[points], self._near_power(size, first))
            terms = self._log_mass[first:last] - self._counts[first:last] * size[:, None]
            if last > first:
                total = np.logaddexp(total, _log_sums(terms))
            # what was dropped may matter where everything else is smaller still. It has y = k |log x|
            # beyond 200, where e^-y <= e^-200 (200 / y)^3: for an infinite mean its masses alone say nothing
            dropped = self._faded[last] - self._FAR + self._FADE * np.log(self._FAR / np.maximum(size, 1e-300))
            weak = np.flatnonzero(~(total > dropped + 40.0))
            if weak.size and np.isfinite(self._rest[last]):
                far = scattered_log_sum(self._log_mass[last:], self._counts[last:], -size[weak])
                total[weak] = np.logaddexp(total[weak], far)
            out[points] = total
        return out

    def _near_power(self, size, first):
        zeroth, one, two, _ = (moment[first] for moment in self._moments)
        if not np.isfinite(zeroth):
            return np.full(size.shape, -np.inf)
        log_size = np.log(size)
        # e^-z = 1 - z + z^2 / 2 up to 2e-16 for z <= 1e-5
        drop = -np.exp(one - zeroth + log_size) + 0.5 * np.exp(two - zeroth + 2.0 * log_size)
        return zeroth + np.log1p(drop)

    def hit(self, log_x):
        """Sum of mass * (1 - x^k)."""
        out = np.zeros(log_x.shape)
        for points, size, first, last in self._windows(log_x):
            _, one, two, three = (moment[first] for moment in self._moments)
            log_size = np.log(size)
            near = np.exp(one + log_size) - 0.5 * np.exp(two + 2.0 * log_size)
            near += np.exp(three + 3.0 * log_size) / 6.0
            share = -np.expm1(-self._counts[first:last] * size[:, None])
            out[points] = near + share @ np.exp(self._log_mass[first:last])
            out[points] += np.exp(self._rest[last])
        return out
