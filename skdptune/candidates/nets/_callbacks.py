"""The few skorch callbacks that may run: they touch parameters between epochs and read nothing else."""

import fnmatch
import functools

from skorch.callbacks import Freezer, Initializer, ParamMapper, Unfreezer

from skdptune._exceptions import CandidateRefusedError
from skdptune.candidates.nets._catches import is_own

__all__ = ["apply_callbacks", "callback_epochs", "check_callbacks", "runs_own_callbacks"]

ALLOWED = (ParamMapper, Freezer, Unfreezer, Initializer)


def _plain(callbacks):
    """Return the callbacks without names; None and 'disable' mean none."""
    if callbacks is None or (isinstance(callbacks, str) and callbacks == "disable"):
        return []
    return [item[1] if isinstance(item, tuple) else item for item in callbacks]


def check_callbacks(net):
    """Refuse callbacks outside the allow-list, and any that decide by looking at the net.

    Raises
    ------
    CandidateRefusedError
    """
    try:
        given = _plain(net.callbacks)
    except (TypeError, IndexError):
        raise CandidateRefusedError(
            f"callbacks of {type(net).__name__} must be a list; got a {type(net.callbacks).__name__}."
        ) from None
    for callback in given:
        name = callback.__name__ if isinstance(callback, type) else type(callback).__name__
        if type(callback) not in ALLOWED:
            raise CandidateRefusedError(
                f"callbacks of {type(net).__name__} must be of {', '.join(c.__name__ for c in ALLOWED)}; got "
                f"{name}: callbacks see losses and scores of private rows without noise. Remove it; let "
                "scoring= judge the candidates and lr_schedule= set the learning rate."
            )
        schedule = getattr(callback, "schedule", None)
        whole = isinstance(callback.at, int) and not isinstance(callback.at, bool)
        if schedule is not None or not whole or callback.at < 1:
            raise CandidateRefusedError(
                f"callback {name} must have a whole number as at= (1 is the first epoch) and no schedule=: a function "
                "of the net could decide by what it learned from single rows. Give the epoch's number."
            )


def runs_own_callbacks(net):
    """Return whether a callback runs code of one's own, which may draw from any generator."""
    made = [part for callback in _plain(net.callbacks) for part in (callback.fn, *_functions(callback.patterns))]
    return any(is_own(getattr(_inner(part), "__module__", None)) for part in made)


def _functions(patterns):
    return [p for p in (patterns if isinstance(patterns, (list, tuple)) else [patterns]) if callable(p)]


def _inner(function):
    while isinstance(function, functools.partial):
        function = function.func
    return function


def callback_epochs(net, last):
    """Return the numbers, up to ``last``, of the epochs that start with a callback, and 1."""
    return sorted({1, *(c.at for c in _plain(net.callbacks) if c.at <= last)})


def apply_callbacks(net, module, epoch):
    """Run the callbacks of ``net`` at the start of epoch number ``epoch`` (1 is the first)."""
    for callback in _plain(net.callbacks):
        if callback.at != epoch:
            continue
        patterns = callback.patterns
        patterns = patterns if isinstance(patterns, (list, tuple)) else [patterns]
        for name, parameter in module.named_parameters():
            if any(_matches(pattern, name) for pattern in patterns):
                callback.fn(parameter)


def _matches(pattern, name):
    return pattern(name) if callable(pattern) else fnmatch.fnmatch(name, pattern)
