"""Numbers of runs given by a table: explicit probabilities, beta-binomial, and capped."""

import dataclasses
import functools
import math
from collections.abc import Mapping

import numpy as np
from scipy import special

from skdptune._validation import (
    check_instance,
    check_integer,
    check_real,
    invalid_type,
    invalid_value,
)
from skdptune.run_counts._base import RunCount, check_count, check_generator, set_fields
from skdptune.run_counts._binomial import _log_of
from skdptune.run_counts._tables import PowerSum, draw_from_survival

__all__ = ["AtMost", "BetaBinomial", "Finite"]

_LARGEST_TABLE = 10**7


class _TabulatedRunCount(RunCount):
    """Base of the distributions whose probabilities are summed; not public.

    A subclass provides ``_log_table``: log P(K = 0), ..., log P(K = n), which sum to one.
    """

    @functools.cached_property
    def _masses(self):
        return np.exp(self._log_table)

    @functools.cached_property
    def _survival_table(self):
        """P(K > 0), ..., P(K > n), summed from the small end."""
        after = np.append(self._masses[1:], 0.0)
        return np.cumsum(after[::-1])[::-1]

    @functools.cached_property
    def mean(self):
        """E[K], in runs."""
        return float(np.sum(self._masses * np.arange(self._masses.size)))

    @functools.cached_property
    def p_zero(self):
        """P(K = 0)."""
        return float(self._masses[0])

    @functools.cached_property
    def support_max(self):
        """The largest number of runs with positive probability."""
        return int(np.flatnonzero(np.isfinite(self._log_table))[-1])

    @functools.cached_property
    def _pgf_sum(self):
        return PowerSum(self._log_table)

    @functools.cached_property
    def _attainment_sum(self):
        # sum of p_k (1 - x^k) = r * sum over j >= 0 of P(K > j) x^j: no subtraction left
        with np.errstate(divide="ignore"):
            return PowerSum(np.log(self._survival_table))

    @functools.cached_property
    def _weight_sum(self):
        counts = np.arange(1.0, self._log_table.size)
        return PowerSum(self._log_table[1:] + np.log(counts))

    @functools.cached_property
    def _slope_sum(self):
        counts = np.arange(2.0, self._log_table.size)
        return PowerSum(self._log_table[2:] + np.log(counts) + np.log(counts - 1.0))

    def _log_pgf(self, r, x):
        return self._pgf_sum.log_value(_log_of(r, x))

    def _attainment(self, r, x):
        return r * np.exp(self._attainment_sum.log_value(_log_of(r, x)))

    def _log_weight(self, r, x):
        return self._weight_sum.log_value(_log_of(r, x))

    def _log_weight_slope(self, r, x):
        return self._slope_sum.log_value(_log_of(r, x))

    def _lookup(self, table, k, beyond):
        last = table.size - 1
        index = np.minimum(k, last).astype(np.int64)
        return np.where(k > last, beyond, table[index])

    def _log_pmf(self, k):
        return self._lookup(self._log_table, k, -np.inf)

    def _sf(self, k):
        return self._lookup(self._survival_table, k, 0.0)

    def sample(self, rng):
        return draw_from_survival(self._survival_table, check_generator(rng))

    sample.__doc__ = RunCount.sample.__doc__


def _normalised(log_table):
    return log_table - special.logsumexp(log_table)


def _pairs_of(pmf):
    """Return a sorted tuple of (k, probability) pairs with positive probability."""
    expected = "a sequence p_0, p_1, ... or a mapping from numbers of runs to probabilities"
    if isinstance(pmf, Mapping):
        pairs = list(pmf.items())
    elif isinstance(pmf, (str, bytes)) or not (
        hasattr(pmf, "__len__") and hasattr(pmf, "__getitem__")
    ):
        raise invalid_type("pmf", expected, pmf)
    else:
        if np.ndim(pmf) != 1:
            raise invalid_type("pmf", expected, pmf)
        pairs = list(enumerate(pmf))
    checked = {}
    for k, probability in pairs:
        k = check_integer("a number of runs in pmf", k, low=0, high=_LARGEST_TABLE)
        value = check_real("a probability in pmf", probability, low=0, high=1 + 1e-9)
        if value > 0.0:
            checked[k] = value
    return tuple(sorted(checked.items()))


@dataclasses.dataclass(frozen=True, init=False, repr=False)
class Finite(_TabulatedRunCount):
    """Any distribution on finitely many numbers of runs.

    Parameters
    ----------
    pmf : sequence of float, ndarray (n + 1,), or mapping from int to float
        P(K = 0), P(K = 1), ..., or the probability of each number of runs. Sums to 1 within 1e-9
        and is then divided by its sum; K = 0 alone is refused. Up to 10 million runs.

    Raises
    ------
    InvalidTypeError, InvalidParameterError
        If ``pmf`` is no probability distribution.

    Examples
    --------
    >>> from skdptune.run_counts import Finite
    >>> k = Finite({1: 0.5, 9: 0.5})
    >>> k.mean, k.expected_quantile()
    (5.0, 0.7)
    """

    pairs: tuple

    def __init__(self, pmf):
        pairs = _pairs_of(pmf)
        total = math.fsum(value for _, value in pairs)
        if not abs(total - 1.0) <= 1e-9:
            advice = "Divide the probabilities by their sum."
            raise invalid_value("pmf", "probabilities that sum to 1 within 1e-9", total, advice)
        if pairs[-1][0] == 0:
            raise invalid_value("pmf", "positive for some number of runs above 0", pmf)
        set_fields(self, pairs=pairs)

    def _arguments(self):
        last = self.pairs[-1][0]
        values = dict(self.pairs)
        if 2 * len(self.pairs) > last:
            return {"pmf": tuple(values.get(k, 0.0) for k in range(last + 1))}
        return {"pmf": values}

    def _json_arguments(self):
        return {"pmf": [[k, value] for k, value in self.pairs]}

    @classmethod
    def _from_json(cls, arguments):
        pairs = arguments["pmf"]
        expected = "a list of pairs [number of runs, probability] in a dictionary, such as [[1, 0.5], [2, 0.5]]"
        if not isinstance(pairs, (list, tuple)):
            raise invalid_type("pmf", expected, pairs)
        if not all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in pairs):
            raise invalid_value("pmf", expected, pairs)
        # each checked by itself: in a mapping a number that comes twice would hide the first
        if len({check_integer("a number of runs in pmf", k, low=0) for k, _ in pairs}) < len(pairs):
            raise invalid_value("pmf", "pairs [number of runs, probability] with different numbers of runs", pairs)
        return cls(pmf=dict(map(tuple, pairs)))

    @functools.cached_property
    def _log_table(self):
        table = np.zeros(self.pairs[-1][0] + 1)
        counts, values = zip(*self.pairs, strict=True)
        table[list(counts)] = values
        with np.errstate(divide="ignore"):
            return np.log(table / math.fsum(values))


@dataclasses.dataclass(frozen=True, repr=False)
class BetaBinomial(_TabulatedRunCount):
    """Binomial number of runs whose probability is itself drawn from Beta(a, b).

    Parameters
    ----------
    n : int
        Largest number of runs, from 1 to 10 million.
    a, b : float
        Positive and finite.

    Raises
    ------
    InvalidTypeError, InvalidParameterError
        If an argument is outside its range.

    Examples
    --------
    >>> from skdptune.run_counts import BetaBinomial
    >>> round(BetaBinomial(n=20, a=1, b=1).pmf(7), 12) == round(1 / 21, 12)
    True
    """

    n: int
    a: float
    b: float

    def __post_init__(self):
        n = check_count("n", self.n, high=_LARGEST_TABLE)
        a = check_real("a", self.a, low=0, low_open=True)
        b = check_real("b", self.b, low=0, low_open=True)
        set_fields(self, n=n, a=a, b=b)

    @functools.cached_property
    def _log_table(self):
        k = np.arange(float(self.n))
        # P(k + 1) / P(k): sums of these logarithms stay accurate where beta functions cancel
        ratio = np.log((self.n - k) / (k + 1.0)) + np.log(k + self.a) - np.log(self.n - k - 1 + self.b)
        return _normalised(np.concatenate([[0.0], np.cumsum(ratio)]))


@dataclasses.dataclass(frozen=True, repr=False)
class AtMost(_TabulatedRunCount):
    """Another distribution conditioned on at most ``m`` runs: a hard cap on the bill.

    Parameters
    ----------
    base : RunCount
        The distribution to condition.
    m : int
        The cap, from 1 to 10 million; at least one number of runs from 1 to ``m`` must be possible.

    Raises
    ------
    InvalidTypeError, InvalidParameterError
        If an argument is outside its range, or P(1 <= K <= m) = 0.

    Notes
    -----
    This is the distribution of K given K <= m, as if larger draws were thrown away and drawn again;
    it is priced as such.

    References
    ----------
    Papernot & Steinke, arXiv 2110.03620v2, appendix on conditioning and truncating K.

    Examples
    --------
    >>> from skdptune.run_counts import AtMost, Geometric
    >>> k = AtMost(Geometric(mean=10), m=20)
    >>> k.support_max, round(k.mean, 4)
    (20, 7.2319)
    """

    base: RunCount
    m: int

    def __post_init__(self):
        check_instance("base", self.base, RunCount, "a run-count distribution")
        set_fields(self, m=check_count("m", self.m, high=_LARGEST_TABLE))
        top = self.base.support_max
        size = self.m if top is None else min(self.m, top)
        with np.errstate(divide="ignore", over="ignore", under="ignore"):
            table = self.base._log_pmf(np.arange(size + 1.0))
        if not np.any(np.isfinite(table[1:])):
            advice = "Raise m, or choose another base."
            expected = "a cap with P(1 <= K <= m) > 0 under base"
            raise invalid_value("m", expected, self.m, advice)
        object.__setattr__(self, "_log_table", _normalised(table))

    def _json_arguments(self):
        return {"base": self.base.to_dict(), "m": self.m}

    @classmethod
    def _from_json(cls, arguments):
        return cls(base=RunCount.from_dict(arguments["base"]), m=arguments["m"])
