"""How a net builds its module: from copies, again where another run came between, never with numbers of other runs."""

import contextlib
import copy
import functools
import time
import types
import weakref

import torch
from torch import nn

from skdptune._exceptions import CandidateRefusedError, SkdptuneError
from skdptune.candidates._generators import SharedProcessError, shares_its_process, watched_global_generators
from skdptune.candidates.nets._catches import is_own
from skdptune.candidates.nets._modules import as_leaves, fixed_torch_seed, parameters_of, plain_torch

__all__ = ["build_module", "by_value"]

_BUILDS = 8  # attempts to be alone, or to see that nothing was drawn
_PLAIN = (type(None), bool, int, float, str, type, torch.device, torch.dtype)
_DRAWS = weakref.WeakKeyDictionary()  # constructor -> {arguments: whether it was seen to draw}
_DRAWS_LIMIT = 1024


def build_module(net, n_features_in, n_outputs, seed):
    """Return a new module of ``net``, on the CPU, its initial weights drawn from ``seed``.

    A constructor that takes ``n_features_in`` or ``n_outputs`` gets the public numbers, unless the net
    has them as ``module__n_features_in`` or ``module__n_outputs``.

    Raises
    ------
    CandidateRefusedError
        If the module cannot be built; its own error is quoted, no row has been seen.
    SharedProcessError
        If the constructor draws from Python's or numpy's generators where tries share a process.
    """
    shapes = {"n_features_in": n_features_in, "n_outputs": n_outputs}
    for number in range(_BUILDS):
        attempt = _Attempt(net, shapes, last=number == _BUILDS - 1)
        try:
            return attempt.build(seed)
        except _AgainError:
            time.sleep(0.001 * 2**number)
    raise attempt.refusal()


class _AgainError(Exception):
    """Another run came between: what was built must not be used, or was not built at all."""


class _Attempt:
    """One attempt to build a module, from copies of its own."""

    def __init__(self, net, shapes, last):
        # Copies: a module among the arguments would else be trained in place, and start the next training; what
        # forward writes into an argument would stay with the net that is published; and what a constructor takes out
        # of a list would be missing in the next attempt.
        self.net, self.shapes, self.last = net, shapes, last
        self.made = _own_copy("module", net.module)
        self.kwargs = {name: _own_copy(f"module__{name}", v) for name, v in net.get_params_for("module").items()}
        self.own = _is_own_maker(self.made)
        self.memory, self.key = _memory_of(self.made, self.kwargs, shapes)

    def build(self, seed):
        """Return the module, or raise :class:`_AgainError`."""
        beside = self.own and shares_its_process(now=True)
        if self.own and shares_its_process() and self.memory.get(self.key):
            raise self.refusal()  # it was seen to draw: not once more
        # Alone, the generators are fixed, so that what a constructor draws repeats itself. Not in the last attempt,
        # which fails for no run that begins just now.
        borrows = self.own and not beside and not self.last
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(fixed_torch_seed(seed, own_code=borrows))
            except SharedProcessError:
                raise _AgainError from None
            stack.enter_context(plain_torch())
            if not self.own:
                return _built(self.net, self.made, self.kwargs, self.shapes)
            with watched_global_generators() as seen:
                built = _built(self.net, self.made, self.kwargs, self.shapes)
        self._judge(seen, borrows)
        return built

    def _judge(self, seen, borrowed):
        """Refuse a constructor that draws what other runs may draw; ask again where it could not be seen."""
        if not seen.drawn:
            self._remember(False)
        elif seen.alone:
            self._remember(True)
            if shares_its_process():
                raise self.refusal()
            if not borrowed:
                raise _AgainError
        elif self.memory.get(self.key) is not False:  # else others have drawn: with these arguments it does not
            raise _AgainError

    def _remember(self, draws):
        if self.key is not None and not self.memory.get(self.key):
            if len(self.memory) >= _DRAWS_LIMIT:
                self.memory.clear()
            self.memory[self.key] = draws

    def refusal(self):
        return SharedProcessError(
            f"the constructor of the module of {type(self.net).__name__} must draw with torch where tries run in "
            "threads; it draws from Python's or numpy's generators, from which the noise of other tries comes, or "
            "another thread drew from them each time. Use torch.randn and the like, or an engine of processes "
            "(joblib's 'loky')."
        )


def _memory_of(made, kwargs, shapes):
    """Return what is known of a constructor, and the key of these arguments; None where they have no plain values."""
    parts = [tuple(sorted(kwargs.items())), tuple(shapes.items())]
    while isinstance(made, functools.partial):
        parts += [made.args, tuple(sorted(made.keywords.items()))]
        made = made.func
    made = type(made) if isinstance(made, nn.Module) else made
    if not isinstance(made, (type, types.FunctionType)):
        return {}, None
    return _DRAWS.setdefault(made, {}), by_value(parts)


def by_value(value):
    """Return a plain value with its type, tuples and lists of them too; None for anything else.

    Examples
    --------
    >>> by_value((1, 2.0)) == by_value((1, 2)), by_value([{}]) is None
    (False, True)
    """
    if isinstance(value, (tuple, list)):
        items = tuple(by_value(item) for item in value)
        return None if None in items else (type(value), items)
    return (type(value), value) if isinstance(value, _PLAIN) else None


def _built(net, made, kwargs, shapes):
    try:
        if isinstance(made, torch.jit.ScriptModule):
            raise CandidateRefusedError(
                f"module of {type(net).__name__} must be one that can be pickled; got a ScriptModule. Pass the "
                "function that makes it, e.g. one that returns torch.jit.script(Mine())."
            )
        if isinstance(made, nn.Module):
            return type(made)(**kwargs) if kwargs else as_leaves(made)
        wanted = parameters_of(made)
        filled = {name: value for name, value in shapes.items() if name in wanted}
        built = made(**{**filled, **kwargs})
    except SkdptuneError:
        raise
    except Exception as error:
        raise CandidateRefusedError(
            f"module of {type(net).__name__} must be a torch module that module__* parameters "
            f"complete; building it raised {type(error).__name__}: {error}."
        ) from error
    if not isinstance(built, nn.Module):
        raise CandidateRefusedError(
            f"module of {type(net).__name__} must make a torch.nn.Module; it made a {type(built).__name__}."
        )
    return as_leaves(built)


def _is_own_maker(made):
    while isinstance(made, functools.partial):
        made = made.func
    return is_own((made if hasattr(made, "__qualname__") else type(made)).__module__)


def _own_copy(name, value):
    """Return a deep copy; refuse what hides that it cannot be copied."""
    try:
        made = copy.deepcopy(value)
    except Exception as error:
        raise CandidateRefusedError(
            f"{name} must be something that copy.deepcopy can copy; it raised {type(error).__name__}: "
            f"{str(error)[:100]}... Pass the function that makes the module; in place of nn.utils.weight_norm use "
            "nn.utils.parametrizations.weight_norm in it."
        ) from error
    shared = _shared(value, made)
    if shared is not None:
        raise CandidateRefusedError(
            f"{name} must hold nothing that is shared between copies; a {type(shared).__name__} copies to itself, so "
            "that what forward writes there would outlive the training. Drop its __deepcopy__, or leave it out."
        )
    return made


def _shared(value, made):
    """Return an object with attributes of its own that ``value`` and its copy share, or None."""
    if isinstance(value, (list, tuple)):
        return next(filter(None, (_shared(*pair) for pair in zip(value, made, strict=True))), None)
    if isinstance(value, dict):
        return next(filter(None, (_shared(item, made[key]) for key, item in value.items())), None)
    own = getattr(value, "__dict__", None) and hasattr(type(value), "__deepcopy__")
    return value if own and made is value and not isinstance(value, (type, torch.Tensor)) else None
