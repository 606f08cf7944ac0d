"""The space of candidates: independent draws with replacement, and the choices that change the cost.

scikit-learn's ``ParameterSampler`` samples lists without replacement, which makes the draws dependent
and caps their number; the privacy argument needs independent, identically distributed draws.
"""

import copy
import difflib
import itertools
import math
from collections.abc import Iterable, Mapping

import numpy as np
from scipy import stats
from sklearn.base import clone

from skdptune._exceptions import CandidateRefusedError, InvalidParameterError, InvalidTypeError
from skdptune._validation import describe, invalid_type, invalid_value
from skdptune.candidates._seeding import quick_clone

__all__ = ["ParamSpace", "unfitted", "with_settings"]

MAX_PRICED_CHOICES = 2048
MAX_CHECKED_CHOICES = 128
_FEW = 4


class _Choice:
    """A finite list; every entry is equally likely and entries may repeat."""

    def __init__(self, values):
        self.values = values

    def draw(self, random_state):
        return self.values[random_state.randint(len(self.values))]

    def enumerate(self):
        weight = 1.0 / len(self.values)
        return [(value, weight) for value in self.values]


class _Discrete:
    """A frozen discrete scipy distribution with finite support."""

    def __init__(self, frozen):
        self.frozen = frozen

    def draw(self, random_state):
        return int(self.frozen.rvs(random_state=random_state))

    def enumerate(self):
        low, high = self.frozen.support()
        if not (math.isfinite(low) and math.isfinite(high)) or high - low >= MAX_PRICED_CHOICES:
            return None
        values = np.arange(int(low), int(high) + 1)
        weights = self.frozen.pmf(values)
        return [(int(v), float(w)) for v, w in zip(values, weights, strict=True) if w > 0]


class _Continuous:
    """Anything else with ``rvs``: drawn from, never enumerated.

    Every draw is made of a copy: an object that remembers would make draws depend on one another, and count them.
    """

    def __init__(self, distribution):
        self.distribution = distribution
        self._remembers = type(distribution).__module__.partition(".")[0] != "scipy"

    def draw(self, random_state):
        source = copy.deepcopy(self.distribution) if self._remembers else self.distribution
        return source.rvs(random_state=random_state)

    def enumerate(self):
        return None


def _as_source(name, value):
    if hasattr(value, "rvs"):
        if isinstance(getattr(value, "dist", None), stats.rv_discrete):
            _refuse_off_integers(name, value)
            return _Discrete(value)
        return _Continuous(value)
    expected = "a non-empty list of values or a distribution with rvs()"
    key = f"param_distributions[{name!r}]"
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise invalid_type(key, expected, value, "Put a single value into a list: [value].")
    if isinstance(value, np.ndarray):
        if value.ndim != 1:
            raise invalid_value(key, "one-dimensional", value)
        values = [item.item() if isinstance(item, np.generic) else item for item in value]
    elif isinstance(value, (set, frozenset)):
        raise invalid_type(key, expected, value, "A set has no order to draw from: use a list.")
    else:
        values = list(value)
    if not values:
        raise invalid_value(key, expected, value)
    return _Choice(values)


def _refuse_off_integers(name, frozen):
    """Refuse a discrete distribution whose values are no integers: draws are cut to integers, and so are prices."""
    low, high = frozen.support()
    listed = np.asarray(getattr(frozen.dist, "xk", 0)) % 1
    if np.any(listed != 0) or any(math.isfinite(end) and end % 1 != 0 for end in (low, high)):
        raise InvalidParameterError(
            f"param_distributions[{name!r}] must have integer values if it is a discrete distribution of scipy; got "
            "one with others. Pass a list of values: they are equally likely, and a value may be repeated."
        )


def _refuse_seed(name, values):
    if name.rpartition("__")[2] in ("random_state", "seed", "rng") and any(
        value is not None for value in (values if isinstance(values, (list, tuple)) else [values])
    ):
        raise InvalidParameterError(
            f"param_distributions must not search {name!r}: a published seed replays the noise, and every try gets "
            "fresh randomness anyway. Take it out of the space."
        )


class ParamSpace:
    """A space of parameter settings, drawn from independently and with replacement.

    Parameters
    ----------
    param_distributions : dict or list of dict
        As for ``RandomizedSearchCV``. With a list, each draw first picks one dict at random.

    Raises
    ------
    InvalidTypeError, InvalidParameterError
    """

    def __init__(self, param_distributions):
        spaces = (
            [param_distributions] if isinstance(param_distributions, Mapping) else param_distributions
        )
        if isinstance(spaces, (str, bytes)) or not isinstance(spaces, (list, tuple)) or not spaces:
            raise invalid_type(
                "param_distributions",
                "a dict of parameter names to lists or distributions, or a non-empty list of such dicts",
                param_distributions,
            )
        self._spaces = []
        for space in spaces:
            if not isinstance(space, Mapping):
                raise invalid_type("param_distributions", "made of dicts", space)
            for name in space:
                if not isinstance(name, str):
                    raise invalid_type("param_distributions", "keyed by parameter names", name)
            for name, value in space.items():
                _refuse_seed(name, value)
            # Sorted by name, so that a seeded draw does not depend on the order of a dict.
            self._spaces.append({name: _as_source(name, space[name]) for name in sorted(space)})

    def names(self):
        """Return every parameter name that occurs."""
        return sorted({name for space in self._spaces for name in space})

    def sources(self):
        """Return a copy of the spaces: one dict each, of names to what is drawn from."""
        return [dict(space) for space in self._spaces]

    def check_names(self, estimator):
        """Refuse names that ``estimator`` does not have, before anything is drawn.

        Raises
        ------
        InvalidParameterError
        """
        for space in self._spaces:
            trial = clone(estimator)
            # Whole replaced steps come first: they may bring the names below them.
            for name in sorted(space, key=lambda key: key.count("__")):
                value = space[name].draw(np.random.RandomState(0))
                try:
                    trial.set_params(**{name: _fresh(value)})
                except (ValueError, TypeError, AttributeError):
                    raise InvalidParameterError(
                        f"param_distributions must name parameters of {type(estimator).__name__}; got "
                        f"{name!r}. {_nearest(name, trial)}Valid names are listed by estimator.get_params()."
                    ) from None

    def draw(self, random_state):
        """Draw one setting. Every call is independent of every other.

        Parameters
        ----------
        random_state : numpy.random.RandomState

        Returns
        -------
        dict
        """
        space = self._spaces[random_state.randint(len(self._spaces))]
        return {name: source.draw(random_state) for name, source in space.items()}

    def priced_choices(self, may_change_cost):
        """Enumerate the settings of the parameters that can change the cost, with probabilities.

        Parameters
        ----------
        may_change_cost : callable
            ``may_change_cost(name) -> bool``.

        Returns
        -------
        list of (dict, float)

        Raises
        ------
        CandidateRefusedError
            If such a parameter has a continuous or unbounded distribution, or the choices are too many.
        """
        choices = []
        for space in self._spaces:
            names = [name for name in space if may_change_cost(name)]
            lists = [self._enumerated(name, space[name]) for name in names]
            count = math.prod(len(values) for values in lists)
            if count + len(choices) > MAX_PRICED_CHOICES:
                raise CandidateRefusedError(
                    f"param_distributions has {count} settings of {names}, which are all taken to change the "
                    f"cost; at most {MAX_PRICED_CHOICES} can be priced. Declare privacy_params on the candidate "
                    "(the names that can change its cost), or search fewer of them."
                )
            for combination in itertools.product(*lists):
                weight = math.prod(weight for _, weight in combination) / len(self._spaces)
                setting = dict(zip(names, (value for value, _ in combination), strict=True))
                choices.append((setting, weight))
        return choices

    @staticmethod
    def _enumerated(name, source):
        values = source.enumerate()
        if values is None:
            low = _lowest(source)
            reach = f" (its support starts at {low:g})" if low is not None else ""
            raise CandidateRefusedError(
                f"param_distributions[{name!r}] is a distribution over a parameter that can change the cost"
                f"{reach}: no finite price is known to hold for every value that could be drawn. Give a list of "
                "values, or set a target with epsilon= and delta=, or declare privacy_params on the candidate "
                "if this parameter does not change its cost."
            )
        return values

    def variations(self):
        """Yield settings in which every listed value occurs at least once: one value of each name at a time.

        Of a distribution that cannot be enumerated a few values stand for all.
        """
        for space in self._spaces:
            generator = np.random.RandomState(0)
            lists = {
                name: [value for value, _ in values] if (values := source.enumerate()) is not None
                else [source.draw(generator) for _ in range(_FEW)]
                for name, source in space.items()
            }  # fmt: skip
            for position in range(min(MAX_CHECKED_CHOICES, max(map(len, lists.values()), default=0))):
                yield {name: values[position % len(values)] for name, values in lists.items()}

    def check_settings(self):
        """Yield settings to check before the data is touched: all of them if they are few."""
        for space in self._spaces:
            lists = [source.enumerate() for source in space.values()]
            finite = all(values is not None for values in lists)
            if finite and math.prod(len(values) for values in lists) <= MAX_CHECKED_CHOICES:
                for combination in itertools.product(*lists):
                    yield dict(zip(space, (value for value, _ in combination), strict=True))
            else:
                generator = np.random.RandomState(0)
                for _ in range(MAX_CHECKED_CHOICES // 4):
                    yield {name: source.draw(generator) for name, source in space.items()}


def _nearest(name, estimator):
    """Return a sentence with the names that ``name`` may have meant, or none."""
    known = [known for known in estimator.get_params(deep=True) if known != name]
    meant = [known_name for known_name in known if known_name.rpartition("__")[2] == name]  # the step was forgotten
    meant += [close for close in difflib.get_close_matches(name, known, n=3, cutoff=0.6) if close not in meant]
    return f"Did you mean {' or '.join(map(repr, meant[:3]))}? " if meant else ""


def _lowest(source):
    try:
        return float(source.distribution.support()[0])
    except Exception:
        return None


def _fresh(value):
    """Clone estimator values, so that runs never share a sub-estimator."""
    return clone(value, safe=False) if hasattr(value, "get_params") else value


def unfitted(value):
    """Return ``value`` with every estimator found in it replaced by a clone that has learned nothing.

    Looks into the lists, tuples and dicts that a template or a space may be made of; the rest stays as it is.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> template = DummyClassifier().fit([[0.0]], [1])
    >>> [hasattr(each, "classes_") for each in (template, *unfitted([template]))]
    [True, False]
    """
    if isinstance(value, type):
        return value
    if hasattr(value, "get_params"):
        return clone(value)
    if type(value) in (list, tuple):
        return type(value)(unfitted(item) for item in value)
    if type(value) is dict:
        return {key: unfitted(item) for key, item in value.items()}
    return value


def with_settings(estimator, settings):
    """Return a clone of ``estimator`` with ``settings``; the template and the values stay untouched.

    Raises
    ------
    InvalidParameterError
        If a name does not exist or a value is refused by ``set_params``.
    """
    try:
        return quick_clone(estimator, settings)  # seeds are cleared: every run gets its own
    except (ValueError, TypeError, AttributeError) as error:
        kind = InvalidTypeError if isinstance(error, TypeError) else InvalidParameterError
        raise kind(
            f"param_distributions must hold settings that {type(estimator).__name__} accepts; got "
            f"{describe(settings)} with names {sorted(settings)}, refused with {type(error).__name__}."
        ) from None
