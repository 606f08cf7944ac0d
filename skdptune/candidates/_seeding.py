"""Fresh, independent randomness for every run, whatever the candidate draws from.

Three leaks are closed here. Integer seeds replay noise, so every ``random_state`` parameter is replaced
by a generator of 256 bits. Copies of a generator replay noise, so the generator handed out cannot be
copied. The global generators of ``numpy`` and ``random`` can be fixed by a caller or duplicated by a
fork, so they are reseeded with 256 bits for the time of a run.
"""

import copy
import functools
import weakref
from collections import deque
from collections.abc import Mapping

import numpy as np
from sklearn.base import BaseEstimator, clone

from skdptune._exceptions import CandidateRefusedError
from skdptune.candidates._contents import FoundError, is_estimator, is_generator, is_plain, walk
from skdptune.candidates._entropy import ENTROPY_BITS, HashedSequence, entropy_for
from skdptune.candidates._generators import (
    hold_global_generators,
    isolated_global_generators,
    release_global_generators,
)

__all__ = [
    "RunRandomState",
    "bit_generator",
    "clear_random_states",
    "entropy_for",
    "hold_global_generators",
    "is_module_of_torch",
    "is_seed_name",
    "isolated_global_generators",
    "params_of",
    "quick_clone",
    "random_state_names",
    "refuse_hidden_seeds",
    "release_global_generators",
    "set_random_states",
    "strip_seeds",
    "with_settings_of",
]


def bit_generator(entropy):
    """Return a bit generator of 128 bits of state in one of 2**127 streams, made of 256 bits of entropy.

    It is made a hundred times faster than a Mersenne twister.

    Examples
    --------
    >>> entropy = entropy_for(None)
    >>> np.random.Generator(bit_generator(entropy)).random() == np.random.Generator(bit_generator(entropy)).random()
    True
    """
    return np.random.PCG64DXSM(HashedSequence(entropy))


class RunRandomState(np.random.RandomState):
    """A ``RandomState`` that cannot be made to replay itself by copying.

    ``copy``, ``deepcopy`` and ``sklearn.base.clone`` hand back the same object, so clones made inside a
    candidate go on drawing from one stream. Pickling draws a new 256-bit seed for the copy.

    Parameters
    ----------
    entropy : int
        256 bits.

    Examples
    --------
    >>> import copy
    >>> state = RunRandomState(entropy_for(None))
    >>> copy.deepcopy(state) is state
    True
    """

    def __init__(self, entropy):
        super().__init__(bit_generator(entropy))

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return RunRandomState, (int.from_bytes(self.bytes(ENTROPY_BITS // 8), "big"),)


_PLAIN = (type(None), bool, int, float, str, bytes, np.generic, RunRandomState)
_NAMES = weakref.WeakKeyDictionary()  # class -> names of its parameters


def params_of(estimator, deep=False):
    """Return ``estimator.get_params(deep)``; faster, because a class is inspected once and not at every call.

    Examples
    --------
    >>> from sklearn.kernel_approximation import RBFSampler
    >>> params_of(RBFSampler()) == RBFSampler().get_params()
    True
    """
    kind = type(estimator)
    if kind.get_params is not BaseEstimator.get_params:  # its own rules
        return estimator.get_params(deep=deep)
    names = _NAMES.get(kind)
    if names is None:
        names = _NAMES[kind] = tuple(estimator.get_params(deep=False))
    params = {name: getattr(estimator, name) for name in names}
    if deep and any(hasattr(value, "get_params") for value in params.values()):
        return estimator.get_params(deep=True)
    return params


def quick_clone(estimator, overrides=None, random_state=None):
    """Clone an estimator, with some parameters replaced and every random state decided.

    Equal to ``clone(estimator).set_params(**overrides)`` followed by setting or clearing the random
    states; several times faster where all parameters are plain numbers and strings.

    Parameters
    ----------
    estimator : estimator
    overrides : dict or None
        Parameters to replace.
    random_state : callable or None
        ``random_state(name)`` makes the generator of the parameter ``name``; None clears them.

    Examples
    --------
    >>> from sklearn.kernel_approximation import RBFSampler
    >>> quick_clone(RBFSampler(random_state=3), {"gamma": 2.0})
    RBFSampler(gamma=2.0)
    """
    overrides = overrides or {}
    if getattr(type(estimator), "__sklearn_clone__", None) is BaseEstimator.__sklearn_clone__:
        params = {**params_of(estimator), **overrides}
        if all(isinstance(value, _PLAIN) for value in params.values()) and not any("__" in n for n in overrides):
            for name in params:
                if _is_replaced(name):
                    params[name] = None if random_state is None else random_state(name)
            return with_settings_of(estimator, type(estimator)(**params))
    twin = clone(estimator)
    if overrides:
        twin.set_params(**{name: clone(value, safe=False) for name, value in overrides.items()})
    for name in random_state_names(twin):
        twin.set_params(**{name: None if random_state is None else random_state(name)})
    return twin


def with_settings_of(estimator, twin):
    """Return ``twin`` with what scikit-learn keeps of ``estimator`` beside its parameters: requests, output kinds."""
    for extra in ("_metadata_request", "_sklearn_output_config"):
        if extra in vars(estimator):
            setattr(twin, extra, copy.deepcopy(vars(estimator)[extra]))
    return twin


def random_state_names(estimator):
    """Return the names of all parameters of ``estimator`` that hold a random state, nested ones too.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.kernel_approximation import RBFSampler
    >>> random_state_names(make_pipeline(RBFSampler()))
    ['rbfsampler__random_state']
    """
    if not hasattr(estimator, "get_params"):
        return []
    return sorted(filter(_is_replaced, params_of(estimator, deep=True)))


def _is_replaced(name):
    """Return whether every run puts a generator of its own into the parameter ``name``."""
    return name == "random_state" or name.endswith("__random_state")


def set_random_states(estimator, seed):
    """Replace every random state of ``estimator``, in place, by a fresh one; return the estimator.

    Parameters
    ----------
    estimator : estimator
    seed : int or None
        As in :func:`entropy_for`; every parameter gets its own stream.

    Examples
    --------
    >>> from sklearn.kernel_approximation import RBFSampler
    >>> set_random_states(RBFSampler(random_state=0), None).random_state == 0
    False
    """
    for name in random_state_names(estimator):
        fresh = RunRandomState(entropy_for(seed, "random_state", name))
        estimator.set_params(**{name: fresh})
    return estimator


_SEED_ENDINGS = ("seed", "seeds", "rng", "rngs", "prng", "prng_key", "random_key", "generator", "generators", "entropy")


@functools.lru_cache(maxsize=4096)
def is_seed_name(name):
    """Return whether a parameter of this name is taken to fix randomness: noise_seed, rng, shuffle_random_state, ...

    Examples
    --------
    >>> [is_seed_name(name) for name in ("noiseSeed", "base__rng", "random_state_", "seed_of_garden")]
    [True, True, True, False]
    """
    last = name.rpartition("__")[2].lower().rstrip("_")
    return last.endswith((*_SEED_ENDINGS, "random_state", "random_states", "randomstate"))


def refuse_hidden_seeds(estimator):
    """Refuse randomness that a run could not replace: it would repeat in every run and could be published.

    Raises
    ------
    CandidateRefusedError
        For a generator in a parameter that is not called ``random_state``, however deep it lies; a parameter that
        is set and whose name ends in ``seed``, ``rng``, ``generator``, ``random_state`` or the like; and seeded
        estimators inside lists, tuples or dicts of parameters.

    Examples
    --------
    >>> from sklearn.kernel_approximation import RBFSampler
    >>> refuse_hidden_seeds(RBFSampler(random_state=3))
    """
    for name, value in params_of(estimator, deep=True).items():
        if value is None or _is_replaced(name):
            continue
        if is_seed_name(name) or is_generator(value):
            _refuse_seed(estimator, name, "a seed or generator that every run would share")
        if is_plain(value) or is_estimator(value) or isinstance(value, type) or name.rpartition("__")[2] == "steps":
            continue  # members and steps are among the names
        if _holds_seed(value):
            _refuse_seed(estimator, name, "a seeded estimator or generator inside a container")
        if _holds_generator(value):
            what = f"a {type(value).__name__} with a generator inside"
            _refuse_seed(estimator, name, f"{what} that every run would share")


def _refuse_seed(estimator, name, what):
    raise CandidateRefusedError(
        f"{name} of {type(estimator).__name__} must not hold {what}: its noise would repeat. Leave it None, and "
        "draw from a parameter called random_state, which every run replaces."
    )


def _holds_seed(value, depth=4):
    if is_generator(value):
        return True
    if depth == 0:
        return False
    if isinstance(value, Mapping):
        named = any(isinstance(key, str) and is_seed_name(key) and value[key] is not None for key in value)
        return named or any(_holds_seed(item, depth - 1) for item in value.values())
    if isinstance(value, (list, tuple, set, frozenset, deque)):
        return any(_holds_seed(item, depth - 1) for item in value)
    return is_estimator(value) and _is_seeded(value)


def _is_seeded(estimator):
    names = set(random_state_names(estimator))
    return any(
        value is not None and (name in names or is_seed_name(name) or is_generator(value))
        for name, value in params_of(estimator, deep=True).items()
    )


def _holds_generator(value):
    """Return whether a generator lies anywhere in ``value`` where pickle gets.

    A frozen distribution of scipy, say, keeps one: all tries of a worker would start from the same copy of it.
    """

    def answer(met):
        if is_generator(met) or (is_estimator(met) and _is_seeded(met)):
            raise FoundError
        return met if is_estimator(met) or is_module_of_torch(met) else None

    try:
        walk(value, answer)
    except FoundError:
        return True
    except Exception:  # a lambda or a lock: nothing is known about it
        return False
    return False


def is_module_of_torch(value):
    """Return whether ``value`` is a network of torch, whose contents are tensors.

    Examples
    --------
    >>> is_module_of_torch(3)
    False
    """
    return any(kind.__module__.startswith("torch.nn.modules") for kind in type(value).__mro__)


def clear_random_states(estimator):
    """Set every random state of ``estimator`` to None, in place; return the estimator.

    Examples
    --------
    >>> from sklearn.kernel_approximation import RBFSampler
    >>> clear_random_states(RBFSampler(random_state=3)).random_state is None
    True
    """
    for name in random_state_names(estimator):
        if params_of(estimator, deep=True)[name] is not None:  # setting costs more than looking
            estimator.set_params(**{name: None})
    return estimator


def strip_seeds(value):
    """Clear the random states of every estimator found in ``value``, in place; return ``value``.

    Looks through fitted attributes, lists, tuples, dicts and object arrays: ensembles keep their
    members, seeds included, in such places.

    Examples
    --------
    >>> from sklearn.kernel_approximation import RBFSampler
    >>> strip_seeds({"a": [RBFSampler(random_state=3)]})["a"][0].random_state is None
    True
    """
    _strip(value, set())
    return value


def _strip(value, seen):
    if id(value) in seen or isinstance(value, type):
        return
    seen.add(id(value))
    for item in _members(value):
        if not is_plain(item):
            _strip(item, seen)


def _members(value):
    if hasattr(value, "get_params"):
        clear_random_states(value)
        return list(vars(value).values())
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, (list, tuple, set, frozenset)):
        return list(value)
    if isinstance(value, np.ndarray) and value.dtype == object:
        return list(value.flat)
    return []
