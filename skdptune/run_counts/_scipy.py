"""Any frozen scipy.stats distribution on the non-negative integers as a number of runs.

scipy offers probabilities one integer at a time; a price needs sums over all of them, for infinite
means too. Here the first 2**16 (up to 2**22) integers are summed one by one, and the rest in blocks
whose ends grow by a factor sqrt(2), each by a 16-point rule whose weights make the sum over the
block's *integers* exact for polynomials. The rule is accepted only if all probabilities then sum to
one; anything it cannot sum is refused.
"""

import dataclasses
import functools
import hashlib
import math
import numbers
import warnings

import numpy as np
import scipy.stats

from skdptune._validation import invalid_type, invalid_value
from skdptune.run_counts._base import RunCount, check_generator, set_fields
from skdptune.run_counts._binomial import _log_of
from skdptune.run_counts._tables import (
    PowerSum,
    WideSum,
    draw_tail_uniform,
)

__all__ = ["FromScipy"]

_FIRST_TABLE, _LARGEST_TABLE = 2**16, 2**22
_LAST = 2.0**1000
_ORDER = 16
_GROUP = 32  # blocks read at a time
_SAFETY = 1.0 + 1e-11
_TINY_R = 2.0**-400
_NODES = np.polynomial.legendre.leggauss(_ORDER)[0]
_EXPECTED = "a frozen scipy.stats distribution on the non-negative integers"
_ADVICE = "Pass e.g. scipy.stats.zipf(2.5)."


def _block_rule(low, high):
    """Integer nodes and weights for sums over low < k <= high; arrays (n_blocks, 16) each.

    Euler-Maclaurin gives the sums of the Legendre polynomials over the integers of a block; the
    weights reproduce them. Needs at least some thousand integers in each block.
    """
    half = 0.5 * (high - low)
    middle = low + 0.5 + half
    nodes = np.clip(np.rint(middle[:, None] + half[:, None] * _NODES), low[:, None] + 1, high[:, None])
    position = (nodes - middle[:, None]) / half[:, None]
    values = np.moveaxis(np.polynomial.legendre.legvander(position, _ORDER - 1), 1, 2)
    degree = np.arange(_ORDER)
    curvature = np.where(degree % 2 == 0, degree * (degree + 1.0), 0.0)
    moments = -curvature / (24.0 * half[:, None])
    moments[:, 0] += 2.0 * half
    weights = np.linalg.solve(values, moments[:, :, None])[:, :, 0]
    return nodes, weights


class _Tail:
    """Probabilities beyond a table, as masses on the nodes of blocks."""

    def __init__(self, pmf, start, top):
        self._pmf = pmf
        edges, nodes, masses = [float(start)], [], []
        heavy = start < top
        while heavy and edges[-1] < min(top, _LAST):
            steps = start * 2.0 ** (0.5 * (len(edges) + np.arange(_GROUP)))
            ends = np.unique(np.minimum(np.rint(steps), top))
            ends = ends[ends > edges[-1]]
            low = np.concatenate([[edges[-1]], ends[:-1]])
            if ends.size > 1 and ends[-1] - low[-1] < 8192:  # a stub joins its neighbour
                ends, low = np.append(ends[:-2], ends[-1]), low[:-1]
            group_nodes, weights = _block_rule(low, ends)
            group = weights * pmf(group_nodes)
            edges.extend(ends)
            nodes.append(group_nodes)
            masses.append(group)
            # the second moment still gains: go on
            with np.errstate(divide="ignore"):
                gain = np.log(np.maximum(group, 0.0)) + 2.0 * np.log(group_nodes)
            heavy = bool(np.max(gain) > -92.0)
        self.edges = np.array(edges)
        shape = (0, _ORDER)
        self.nodes = np.concatenate(nodes) if nodes else np.empty(shape)
        self.masses = np.concatenate(masses) if masses else np.empty(shape)
        blocks = self.masses.sum(axis=1)
        # P(K > edge), summed from the far end
        self.beyond = np.append(np.cumsum(blocks[::-1])[::-1], 0.0)
        self.total = float(self.beyond[0])

    def survival(self, k):
        """P(K > k) for one k at or beyond the start, before normalisation."""
        if k >= self.edges[-1]:
            return 0.0
        block = int(np.searchsorted(self.edges, k, side="right")) - 1
        return float(self._between(k, self.edges[block + 1]) + self.beyond[block + 1])

    def _between(self, low, high):
        if high - low <= 8192:
            return np.sum(self._pmf(np.arange(low + 1.0, high + 1.0)))
        nodes, weights = _block_rule(np.array([low]), np.array([high]))
        return np.sum(weights * self._pmf(nodes))

    def draw(self, level, rng):
        """Draw K given that it lies beyond the start; ``level`` is uniform on (0, total]."""
        block = int(np.searchsorted(-self.beyond, -level, side="right")) - 1
        block = min(max(block, 0), self.nodes.shape[0] - 1)
        low, high = self.edges[block], self.edges[block + 1]
        probes = np.append(self.nodes[block], [low + 1.0, high])
        bound = 1.05 * float(np.max(self._pmf(probes)))
        while True:  # accepted once in about two times
            k = int(low) + 1 + int(rng.random() * (high - low))
            if rng.random() * bound < float(self._pmf(np.array(float(min(k, int(high)))))):
                return min(k, int(high))


def _parameters(frozen):
    """Return the frozen distribution's parameters by name, or raise one sentence."""
    shapes = frozen.dist.shapes
    names = [name.strip() for name in shapes.split(",")] if shapes else []
    values = dict(zip([*names, "loc"], frozen.args, strict=False))
    values.update(frozen.kwds)
    out = {}
    for name, value in values.items():
        if np.ndim(value) != 0:
            advice = "One distribution has one number for each parameter."
            raise invalid_type(f"the parameter {name} of frozen", "a number", value, advice)
        value = np.asarray(value).item()
        if name != "loc" or value != 0:
            whole = isinstance(value, numbers.Integral)
            out[name] = int(value) if whole else float(value)
    return out


def _frozen(value):
    """Return ``value`` as a frozen discrete distribution, or raise one sentence."""
    if isinstance(value, scipy.stats.rv_discrete):
        if not hasattr(value, "xk"):
            raise invalid_type("frozen", _EXPECTED, value, "Give it its parameters first. " + _ADVICE)
        return value()
    if not isinstance(getattr(value, "dist", None), scipy.stats.rv_discrete):
        raise invalid_type("frozen", _EXPECTED, value, _ADVICE)
    return value


@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class FromScipy(RunCount):
    """A frozen distribution of scipy.stats as the number of runs.

    Parameters
    ----------
    frozen : scipy.stats frozen discrete distribution
        Its support must be non-negative integers, and K = 0 must not be certain. Its tail must be
        smooth beyond 4 million runs, as every named distribution's is.

    Attributes
    ----------
    mean : float
        E[K], in runs; inf where scipy says so (or does not know).

    Raises
    ------
    InvalidTypeError, InvalidParameterError
        If ``frozen`` is no such distribution, or its probabilities cannot be summed to one.

    Notes
    -----
    Probabilities are scipy's, divided by their sum. Masses beyond the table stand on real numbers a
    factor 1 + 1e-11 above their nodes: more runs, to the private side by more than the sums err.

    Examples
    --------
    >>> import scipy.stats
    >>> from skdptune.run_counts import FromScipy
    >>> k = FromScipy(scipy.stats.zipf(2))
    >>> k.mean, round(k.success_probability(0.1), 4)
    (inf, 0.2099)
    """

    frozen: object

    def __init__(self, frozen):
        frozen = _frozen(frozen)
        set_fields(self, frozen=frozen, _values=_parameters(frozen))
        low, top = (float(end) for end in frozen.support())
        if math.isnan(low) or math.isnan(top):
            raise invalid_value("frozen", _EXPECTED, repr(self), "Its parameters are not valid.")
        if low < 0:
            advice = "A number of runs cannot be negative: shift it by loc, or choose another."
            raise invalid_value("frozen", _EXPECTED, repr(self), advice)
        if hasattr(frozen.dist, "xk") and np.any(np.asarray(frozen.dist.xk) % 1 != 0):
            raise invalid_value("frozen", _EXPECTED, repr(self), "Its values must be integers.")
        set_fields(self, support_max=int(top) if math.isfinite(top) else None)
        table, tail = self._read(top)
        total = float(np.sum(table)) + tail.total
        if table[0] >= total:
            raise invalid_value("frozen", "positive for some number of runs above 0", repr(self))
        set_fields(self, _masses=table / total, _tail=tail, _total=total)

    def _raw_pmf(self, k):
        """scipy's probabilities at integer floats; what it cannot compute far out counts as 0."""
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return np.nan_to_num(self.frozen.pmf(k), nan=0.0, posinf=0.0)

    def _read(self, top):
        """Return the table and the tail whose probabilities sum to one."""
        size, table, before = 0, np.empty(0), math.inf
        wanted = int(min(_FIRST_TABLE, top + 1))
        while True:
            table = np.append(table, self._raw_pmf(np.arange(float(size), float(wanted))))
            size = wanted
            tail = _Tail(self._raw_pmf, size - 1, top)
            total = float(np.sum(table)) + tail.total
            error, change, before = abs(total - 1.0), abs(total - before), total
            last = size > top or size >= _LARGEST_TABLE
            smooth = tail.masses.size == 0 or float(np.min(tail.masses)) >= 0.0
            # scipy's own probabilities err by up to 1e-8 for means of a million: two tables that
            # agree, or a tail that is empty, show that the sum is right and the error is theirs
            agreed = last or change <= 1e-10 or tail.total <= 1e-18
            if smooth and (error <= 1e-12 or (agreed and error <= 1e-7)):
                return table, tail
            if last:
                advice = "Cap or tabulate it yourself with Finite."
                expected = "a distribution whose probabilities can be summed to 1"
                raise invalid_value("frozen", expected, repr(self), advice)
            wanted = int(min(4 * size, top + 1))

    # Values.

    @property
    def _key(self):
        kind = type(self.frozen.dist)
        return kind.__module__, kind.__qualname__, self._fingerprint, *self._stated

    @property
    def _stated(self):
        """Values listed, if there are any, and parameters."""
        dist, listed = self.frozen.dist, ()
        if hasattr(dist, "xk"):
            listed = (tuple(np.asarray(dist.xk).tolist()), tuple(np.asarray(dist.pk).tolist()))
        return listed, tuple(sorted(self._values.items()))

    @functools.cached_property
    def _fingerprint(self):
        """A digest of all numbers that prices are made of: a class of one's own may keep state, or share a name."""
        digest = hashlib.sha256(repr((self.frozen.support(), self.mean, self._infinite_variance, self._total)).encode())
        for part in (self._masses, self._tail.nodes, self._tail.masses):
            digest.update(np.ascontiguousarray(part))
        return digest.hexdigest()

    def __eq__(self, other):
        return self._key == other._key if type(other) is type(self) else NotImplemented

    def __hash__(self):
        return hash(self._key)

    def __repr__(self):
        listed, values = self._stated
        inside = ", ".join(f"{name}={value!r}" for name, value in values)
        if listed:
            return f"FromScipy(scipy.stats.rv_discrete(values={listed!r})({inside}))"
        return f"FromScipy(scipy.stats.{self.frozen.dist.name}({inside}))"

    def _json_arguments(self):
        listed, values = self._stated
        if listed:
            return {"values": [list(part) for part in listed], "parameters": dict(values)}
        name = self.frozen.dist.name
        named, own = getattr(scipy.stats, str(name), None), self.frozen.dist
        if type(named) is not type(own) or (named.a, named.b) != (own.a, own.b):
            advice = "Tabulate it with Finite."
            raise invalid_value("frozen", "a named distribution of scipy.stats", name, advice)
        return {"distribution": name, "parameters": dict(values)}

    @classmethod
    def _from_json(cls, arguments):
        if "values" in arguments:
            counts, masses = arguments["values"]
            dist = scipy.stats.rv_discrete(values=(tuple(counts), tuple(masses)))
        else:
            name = arguments["distribution"]
            dist = getattr(scipy.stats, name) if isinstance(name, str) else None
        if not isinstance(dist, scipy.stats.rv_discrete):
            raise invalid_value("distribution", "a discrete distribution of scipy.stats", str(dist))
        return cls(dist(**arguments["parameters"]))

    # The distribution.

    @functools.cached_property
    def _infinite_variance(self):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return self.support_max is None and not math.isfinite(float(self.frozen.var()))

    @functools.cached_property
    def mean(self):
        """E[K], in runs; inf where scipy says so or does not know."""
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            stated = float(self.frozen.mean())
        if math.isnan(stated):
            return math.inf
        summed = float(self._masses @ np.arange(self._masses.size))
        summed += float(np.sum(np.exp(self._tail_log_masses) * self._tail_counts))
        return max(stated, summed)  # rounded up

    @functools.cached_property
    def weight_rise(self):
        """Sum over k of (the largest j P(K = j) with j >= k) - k P(K = k); inf if the tail is not known to fall.

        Zero for the tails of every named distribution: Zipf's k P(K = k) falls from k = 1 on.
        """
        table = self._masses * np.arange(float(self._masses.size))
        nodes = self._tail.nodes.ravel()
        raw = self._raw_pmf(nodes)
        far = nodes * raw / self._total
        # scipy's own errors in the far tail, which is smooth, are no rise; nor are digits lost to underflow
        if np.any((far[1:] > far[:-1] * (1 + 1e-7)) & (raw[1:] > 1e-300)):
            return math.inf
        falling = np.append(table[1:], far[:1])
        return float(np.sum(np.maximum.accumulate(falling[::-1])[::-1] - falling)) * (1 + 1e-9)

    @property
    def p_zero(self):
        """P(K = 0)."""
        return float(self._masses[0])

    @functools.cached_property
    def _tail_counts(self):
        return self._tail.nodes.ravel() * _SAFETY  # rounded up: more runs

    @functools.cached_property
    def _tail_log_masses(self):
        with np.errstate(divide="ignore"):
            return np.log(self._tail.masses.ravel() / self._total)

    @functools.cached_property
    def _sums(self):
        """Power sums over the table for f, (1 - f) / r, f' and f''."""
        after = np.append(self._masses[1:], 0.0)
        survival = np.cumsum(after[::-1])[::-1]
        with np.errstate(divide="ignore"):
            log_counts = np.log(np.arange(float(self._masses.size)))
            log_mass = self._log_pmf(np.arange(float(self._masses.size)))  # finite where pmf is 0
            coefficients = (
                log_mass,
                np.log(survival),
                log_mass[1:] + log_counts[1:],
                log_mass[2:] + log_counts[2:] + log_counts[1:-1],
            )
            return [PowerSum(values) for values in coefficients]

    @functools.cached_property
    def _tail_sums(self):
        """The tail's sums with factors 1, k and k (k - 1); None where there is no tail."""
        counts, mass = self._tail_counts, self._tail_log_masses
        if not np.any(np.isfinite(mass)):
            return None
        log_counts = np.log(counts)
        factors = (0.0, log_counts, log_counts + np.log(np.maximum(counts - 1.0, 1.0)))
        return [WideSum(mass + factor, counts - j) for j, factor in enumerate(factors)]

    def _with_tail(self, inside, which, log_x):
        """Log of a table sum plus the tail's sum with factor number ``which``."""
        if self._tail_sums is None:
            return inside
        flat = np.maximum(log_x, -1e300).ravel()  # x = 0 is the table's business
        total = self._tail_sums[which].log_power(flat, inside.ravel())
        return np.where(log_x == -np.inf, inside, total.reshape(log_x.shape))

    def _log_pgf(self, r, x):
        log_x = _log_of(r, x)
        return np.minimum(self._with_tail(self._sums[0].log_value(log_x), 0, log_x), 0.0)

    def _attainment(self, r, x):
        log_x = _log_of(r, x)
        # sum of p_k (1 - x^k) = r * sum over j of P(K > j) x^j in the table, as it stands in the tail
        out = r * np.exp(self._sums[1].log_value(log_x))
        if self._tail_sums is None:
            return out
        far = self._tail_sums[0].hit(np.maximum(log_x, -1e300).ravel())
        return np.minimum(out + far.reshape(log_x.shape), 1.0)

    def _log_weight(self, r, x):
        log_x = _log_of(r, x)
        out = self._with_tail(self._sums[2].log_value(log_x), 1, log_x)
        # so close to 0 the largest value stands for all: an upper bound, since w decreases
        return np.where(r < _TINY_R, np.log(self.mean), out)

    def _log_weight_slope(self, r, x):
        log_x = _log_of(r, x)
        out = self._with_tail(self._sums[3].log_value(log_x), 2, log_x)
        return np.where(r < _TINY_R, np.inf, out) if self._infinite_variance else out

    def _log_pmf(self, k):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            values = np.asarray(self.frozen.logpmf(k)) - math.log(self._total)
        return np.where(np.isnan(values), -np.inf, values)

    @functools.cached_property
    def _survival_table(self):
        after = np.append(self._masses[1:], self._tail.total / self._total)
        return np.cumsum(after[::-1])[::-1]

    def _sf(self, k):
        last = self._masses.size - 1
        near = self._survival_table[np.minimum(k, last).astype(np.int64)]
        out = np.array(near, dtype=float)
        for index in np.argwhere(k > last):
            place = tuple(index)
            out[place] = self._tail.survival(float(np.asarray(k)[place])) / self._total
        return out

    def sample(self, rng):
        rng = check_generator(rng)
        level = draw_tail_uniform(rng)
        table = self._survival_table
        if level > table[-1] or self._tail.total == 0.0:
            return int(np.searchsorted(-table, -level, side="right"))
        return self._tail.draw(level * self._total, rng)

    sample.__doc__ = RunCount.sample.__doc__
