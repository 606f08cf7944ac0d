"""The common face of every distribution of the number of runs."""

import dataclasses
import math
import numbers

import numpy as np

from skdptune._exceptions import InvalidParameterError
from skdptune._validation import (
    check_instance,
    check_integer,
    check_real,
    invalid_type,
    invalid_value,
)
from skdptune.run_counts._special import gauss_panels

__all__ = ["RunCount", "from_dict"]

_KINDS = {}
_PROBES = 33
_FAR = 10**290  # nothing with a finite parameter reaches farther


def _unit_interval(name, value):
    """Return (array, is_scalar) with every entry in [0, 1], or raise one sentence."""
    expected = "a real number, or an array of them, in [0, 1]"
    scalar = isinstance(value, numbers.Real)
    try:
        array = np.asarray(value)
    except ValueError:
        raise invalid_type(name, expected, value) from None
    if array.dtype.kind not in "fiu":
        raise invalid_type(name, expected, value)
    array = array.astype(float, copy=False)
    if not np.all((array >= 0.0) & (array <= 1.0)):
        raise invalid_value(name, expected, value)
    return array, scalar or array.ndim == 0


def _run_numbers(name, value):
    """Return (float array, is_scalar) of numbers of runs; integers beyond 2**63 are welcome."""
    expected = "an integer, or an array of integers"
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return np.asarray(float(min(max(int(value), -1), _FAR))), True
    if isinstance(value, bool):
        raise invalid_type(name, expected, value)
    try:
        array = np.asarray(value)
    except ValueError:
        raise invalid_type(name, expected, value) from None
    if array.dtype.kind == "O" and all(isinstance(v, int) for v in array.ravel()):
        array = np.array([float(min(v, _FAR)) for v in array.ravel()]).reshape(array.shape)
    if array.dtype.kind not in "fiu":
        raise invalid_type(name, expected, value)
    array = array.astype(float)
    if not np.all(array == np.floor(array)):
        raise invalid_value(name, expected, value)
    return np.clip(array, -1.0, float(_FAR)), array.ndim == 0


def _like_input(result, scalar):
    return float(result) if scalar else np.asarray(result)


class RunCount:
    """Distribution of the number K of runs of a search, independent of the data.

    Subclasses are frozen: they compare and hash by the values of their parameters, pickle small, and
    their ``repr`` evaluates back. Functions of a probability take a float or an array of any shape
    and return a float or an array of that shape.

    Attributes
    ----------
    mean : float
        E[K], in runs; may be infinite.
    p_zero : float
        P(K = 0), in [0, 1).
    support_max : int or None
        The largest number of runs that can be drawn; None if there is none.

    Notes
    -----
    ======================  =====================================================================
    symbol                  code
    ======================  =====================================================================
    f(x) = E[x^K]           :meth:`pgf`
    G(r) = 1 - f(1 - r)     :meth:`attainment`: some run lands in a set that one run hits with
                            probability r
    w(r) = G'(r)            :meth:`log_weight`: decreasing, convex, w(0) = E[K], w(1) = P(K = 1)
    ======================  =====================================================================

    Prices are computed from r and not from x = 1 - r, so that nothing is lost for tiny r.

    Examples
    --------
    >>> from skdptune.run_counts import Geometric
    >>> k = Geometric(mean=4)
    >>> k.attainment(1e-300), k.pmf([1, 2]), k.sf(2), k.quantile(0.99)
    (4e-300, array([0.25  , 0.1875]), 0.5625, 17)
    """

    _ARGUMENTS = {}  # field name -> constructor argument, where the two differ

    mean: float
    p_zero: float
    support_max: "int | None"

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if not cls.__name__.startswith("_"):
            _KINDS[cls.__name__] = cls

    # What a subclass provides; r and x = 1 - r come as float arrays, each accurate when small.

    def _log_pgf(self, r, x):
        raise NotImplementedError

    def _attainment(self, r, x):
        raise NotImplementedError

    def _log_weight(self, r, x):
        raise NotImplementedError

    def _log_weight_slope(self, r, x):
        raise NotImplementedError

    def _log_pmf(self, k):
        """Log P(K = k) for integers k >= 0 as floats."""
        raise NotImplementedError

    def _sf(self, k):
        """P(K > k) for integers k >= 0 as floats."""
        raise NotImplementedError

    def sample(self, rng):
        """Draw one number of runs.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of randomness. A search passes one seeded by the operating system.

        Returns
        -------
        int
            The draw, from the same distribution that is priced.
        """
        raise NotImplementedError

    # What every distribution has.

    def pgf(self, x):
        """Probability generating function f(x) = E[x^K].

        Parameters
        ----------
        x : float or ndarray
            In [0, 1].

        Returns
        -------
        float or ndarray
            Same shape as ``x``.
        """
        return self._call(lambda r, x: np.exp(self._log_pgf(r, x)), "x", x)

    def log_pgf(self, x):
        """Natural logarithm of :meth:`pgf`, also where that underflows.

        Parameters
        ----------
        x : float or ndarray
            In [0, 1].

        Returns
        -------
        float or ndarray
            Same shape as ``x``; -inf where f(x) = 0.
        """
        return self._call(self._log_pgf, "x", x)

    def log_pgf_derivative(self, x):
        """Natural logarithm of f'(x) = E[K x^(K-1)].

        Parameters
        ----------
        x : float or ndarray
            In [0, 1]; near 1 prefer :meth:`log_weight`, which takes 1 - x.

        Returns
        -------
        float or ndarray
            Same shape as ``x``.
        """
        return self._call(self._log_weight, "x", x)

    def attainment(self, r):
        """Probability that some run lands in a set which one run hits with probability r.

        Parameters
        ----------
        r : float or ndarray
            In [0, 1].

        Returns
        -------
        float or ndarray
            G(r) = 1 - f(1 - r), accurate relative to its size also for tiny r.
        """
        return self._call(self._attainment, "r", r)

    def success_probability(self, p):
        """Probability that at least one run is a good one, if a share ``p`` of the settings is good.

        No run at all counts as a failure.

        Parameters
        ----------
        p : float or ndarray
            Share of good settings, in [0, 1].

        Returns
        -------
        float or ndarray
            1 - f(1 - p), same shape as ``p``.
        """
        return self._call(self._attainment, "p", p)

    def log_weight(self, r):
        """Natural logarithm of w(r) = f'(1 - r).

        Parameters
        ----------
        r : float or ndarray
            In [0, 1].

        Returns
        -------
        float or ndarray
            log E[K] at r = 0 (inf for an infinite mean), log P(K = 1) at r = 1; -inf where w is 0.
        """
        return self._call(self._log_weight, "r", r)

    def log_weight_slope(self, r):
        """Natural logarithm of the absolute slope of w, log f''(1 - r).

        Parameters
        ----------
        r : float or ndarray
            In [0, 1].

        Returns
        -------
        float or ndarray
            Same shape as ``r``; -inf where w is flat.
        """
        return self._call(self._log_weight_slope, "r", r)

    def _call(self, function, name, value):
        array, scalar = _unit_interval(name, value)
        r, x = (1.0 - array, array) if name == "x" else (array, 1.0 - array)
        # infinities mark probabilities 0 and 1; they are meant
        with np.errstate(divide="ignore", over="ignore", under="ignore"):
            return _like_input(function(r, x), scalar)

    def pmf(self, k):
        """P(K = k).

        Parameters
        ----------
        k : int or ndarray of int
            Numbers of runs; 0 is returned for negative ones.

        Returns
        -------
        float or ndarray
            Same shape as ``k``.
        """
        k, scalar = _run_numbers("k", k)
        with np.errstate(divide="ignore", over="ignore", under="ignore"):
            mass = np.exp(self._log_pmf(np.maximum(k, 0.0)))
        return _like_input(np.where(k < 0, 0.0, mass), scalar)

    def sf(self, k):
        """P(K > k), accurate relative to its size far into the tail.

        Parameters
        ----------
        k : int or ndarray of int
            Numbers of runs; 1 is returned for negative ones.

        Returns
        -------
        float or ndarray
            Same shape as ``k``.
        """
        k, scalar = _run_numbers("k", k)
        return _like_input(self._survival(k), scalar)

    def _survival(self, k):
        k = np.asarray(k, dtype=float)
        with np.errstate(divide="ignore", over="ignore", under="ignore"):
            tail = np.clip(self._sf(np.maximum(k, 0.0)), 0.0, 1.0)
        return np.where(k < 0, 1.0, tail)

    def quantile(self, p):
        """Smallest number of runs that suffices with probability ``p``.

        Parameters
        ----------
        p : float
            In [0, 1]; 1 only for a bounded number of runs.

        Returns
        -------
        int
            Smallest k with P(K <= k) >= p (and P(K <= k) > 0), up to rounding.

        Raises
        ------
        InvalidTypeError, InvalidParameterError
            If ``p`` is no such number.
        """
        p = check_real("p", p, low=0, high=1)
        if p == 1.0:
            if self.support_max is None:
                advice = "The number of runs is unbounded: ask for a p below 1, or cap it by AtMost."
                raise invalid_value("p", "below 1 for an unbounded distribution", p, advice)
            return self.support_max
        # P(K <= k) >= p  <=>  P(K > k) <= 1 - p, and 1 - p is exact for p >= 1/2
        target = (1.0 - p) * (1.0 + 2.0**-50) if p > 0.0 else math.nextafter(1.0, 0.0)
        return self._first_below(target)

    def _first_below(self, target):
        """Smallest k >= 0 with P(K > k) <= target, by a search with many probes at a time."""
        low, high = -1, 0
        exponent = 0
        while True:
            powers = [2**e for e in range(exponent, exponent + 32)]
            inside = self._survival(np.array(powers, dtype=float)) <= target
            if inside.any():
                first = int(np.argmax(inside))
                high = powers[first]
                low = powers[first - 1] if first else max(low, -1)
                break
            low = powers[-1]
            exponent += 32
            if exponent > 960:
                advice = "Ask for a smaller p, or cap the number of runs by AtMost."
                raise invalid_value("p", "a level whose quantile is finite", target, advice)
        while high - low > 1:
            step = max((high - low) // _PROBES, 1)
            probes = list(range(low + step, high, step))[: _PROBES + 1]
            inside = self._survival(np.array(probes, dtype=float)) <= target
            first = int(np.argmax(inside)) if inside.any() else len(probes)
            high = probes[first] if first < len(probes) else high
            low = probes[first - 1] if first else low
        return high

    def expected_quantile(self):
        """Expected quantile of the best run, by its own score, among all runs that could have been drawn.

        Returns
        -------
        float
            E[K / (K + 1)], in [0, 1): no run counts as quantile 0.

        Notes
        -----
        A run is a setting, a training and a score, each drawn at random. 0.9 means that the best run is expected to
        score higher than 90 % of runs. That is an upper limit for the *setting* that wins: where scores are noisy or
        training is random, it is expected to be better than fewer than 90 % of the settings, since luck wins, too. Only
        if a setting determined its score would the two be the same.

        References
        ----------
        Papernot & Steinke, arXiv 2110.03620v2, the utility of repetition (expected quantile).
        """
        # E[K / (K + 1)] = integral of G over [0, 1] = integral of G(e^s) e^s over s <= 0; what lies
        # below s = -45 is less than e^-45 of the whole, because G increases
        s, weight = gauss_panels(-45.0, 0.0, 90)
        r = np.exp(s)
        with np.errstate(divide="ignore", over="ignore", under="ignore"):
            return float(min(np.dot(weight, self._attainment(r, -np.expm1(s)) * r), 1.0))

    # Values: repr, dictionaries, pickles.

    def _arguments(self):
        names = [field.name for field in dataclasses.fields(self)]
        return {self._ARGUMENTS.get(name, name): getattr(self, name) for name in names}

    def __repr__(self):
        inside = ", ".join(f"{name}={value!r}" for name, value in self._arguments().items())
        return f"{type(self).__name__}({inside})"

    def __reduce__(self):
        # tables computed on the way stay behind; the arguments rebuild them
        return type(self), tuple(self._arguments().values())

    def to_dict(self):
        """Return a dictionary of plain values that :func:`from_dict` turns back into this object.

        Returns
        -------
        dict
            ``{"type": class name, argument: value, ...}``, ready for JSON.
        """
        return {"type": type(self).__name__, **self._json_arguments()}

    def _json_arguments(self):
        return self._arguments()

    @classmethod
    def _from_json(cls, arguments):
        return cls(**arguments)

    @classmethod
    def from_dict(cls, values):
        """Return the run count described by a dictionary made by :meth:`to_dict`.

        Parameters
        ----------
        values : dict
            As returned by :meth:`to_dict`, also after a round trip through JSON.

        Returns
        -------
        RunCount
        """
        result = from_dict(values)
        check_instance('values["type"]', result, cls, f"the name of a {cls.__name__}")
        return result


def from_dict(values):
    """Return the run count described by a dictionary made by :meth:`RunCount.to_dict`.

    Parameters
    ----------
    values : dict
        ``{"type": class name, argument: value, ...}``.

    Returns
    -------
    RunCount

    Raises
    ------
    InvalidTypeError, InvalidParameterError
        If the dictionary does not describe a run count.

    Examples
    --------
    >>> from skdptune.run_counts import Geometric, from_dict
    >>> Geometric(mean=10).to_dict()
    {'type': 'Geometric', 'mean': 10.0}
    >>> from_dict({"type": "Geometric", "mean": 10.0})
    Geometric(mean=10.0)
    """
    check_instance("values", values, dict, "a dictionary made by to_dict")
    arguments = dict(values)
    kind = arguments.pop("type", None)
    if not isinstance(kind, str) or kind not in _KINDS:
        advice = f"Known types: {', '.join(sorted(_KINDS))}."
        raise invalid_value('values["type"]', "the name of a run-count distribution", kind, advice)
    try:
        return _KINDS[kind]._from_json(arguments)
    except (TypeError, KeyError, ValueError, ArithmeticError, AttributeError, IndexError) as error:
        if type(error).__module__ != "builtins":  # our own say what was wrong
            raise
        came = ", ".join(sorted(map(repr, arguments))) or "none"
        raise InvalidParameterError(
            f"values must hold the arguments of {kind}, as to_dict returns them; got {came}."
        ) from None


def set_fields(instance, **values):
    """Set fields of a frozen dataclass while it is being built."""
    for name, value in values.items():
        object.__setattr__(instance, name, value)


def check_mean(mean, kind):
    """Return a mean of a distribution on 1, 2, ... as a float."""
    advice = f"{kind} always runs at least once, so its mean cannot be below 1."
    return check_real("mean", mean, low=1, advice=advice)


def check_count(name, value, high=None):
    """Return a number of runs, at least 1, as an int."""
    return check_integer(name, value, low=1, high=high, advice="Pass a whole number of runs.")


def check_generator(rng):
    """Return ``rng`` if it is a NumPy generator."""
    advice = "Pass e.g. numpy.random.default_rng()."
    return check_instance("rng", rng, np.random.Generator, "a numpy.random.Generator", advice)
