"""The global generators of numpy and Python, which all threads of a process share.

Runs reseed them with 256 bits and draw noise from them. Code that must repeat itself (a module of one's own, in a dry
run) fixes them, and must therefore be alone in its process.
"""

import contextlib
import contextvars
import os
import random
import threading

import numpy as np

from skdptune._exceptions import CandidateRefusedError
from skdptune.candidates._entropy import entropy_for, words

__all__ = [
    "SharedProcessError",
    "borrowed_global_generators",
    "drawn_from",
    "fix_global_generators",
    "hold_global_generators",
    "isolated_global_generators",
    "release_global_generators",
    "shares_its_process",
    "tries_share_a_process",
    "watched_global_generators",
]


class SharedProcessError(CandidateRefusedError):
    """Code of one's own would fix generators from which another run draws its noise."""

    def __init__(self, message=None):
        super().__init__(_REFUSAL if message is None else message)


class _GlobalGenerators:
    """Counts the runs that use this process' global generators and owns their saved state.

    The state found when the first run starts is put back when the last one ends, and not earlier:
    with several threads a state put back in between would let another run draw the same numbers again.
    No run draws from the state put back, because every run reseeds on entry.
    """

    def __init__(self):
        self.lock = threading.RLock()
        self.active = 0
        self.held = False
        self.saved = None
        self.threads = {}  # thread -> how many blocks it has open
        self.renewed = 0  # how often the state was set from here

    def enter(self, seed, counts=True):
        with self.lock:
            self._open(counts)
            self.set(_reseed, seed)

    def _open(self, counts):
        if self.active == 0:
            self.saved = _states()
        self.active += 1
        if counts:
            mine = threading.get_ident()
            self.threads[mine] = self.threads.get(mine, 0) + 1

    def leave(self, counts=True):
        with self.lock:
            if counts:
                mine = threading.get_ident()
                left = self.threads.pop(mine, 1) - 1  # in a fork the blocks of other threads are gone
                if left > 0:
                    self.threads[mine] = left
            self.active -= 1
            if self.active == 0:
                self.set(_put_back, self.saved)
                self.saved = None

    def set(self, how, *args):
        """Set the state by ``how``, so that whoever watches knows that it was not a draw."""
        with self.lock:
            self.renewed += 1
            how(*args)

    def look(self):
        """Return the state, how often it was set, and whether another thread has a run under way."""
        with self.lock:
            return drawn_from(), self.renewed, self.others()

    def others(self):
        """Return whether another thread has a run under way."""
        return any(thread != threading.get_ident() for thread in list(self.threads))

    def borrow(self):
        """Open a block that will fix the generators; return the state that it finds."""
        with self.lock:
            self.refuse_others()
            self._open(True)
            return _states()

    def give_back(self, states):
        """Close the block: as it was found, unless another run draws by now, for which nothing may come twice."""
        with self.lock:
            if self.others():
                self.set(_reseed, None)
            else:
                self.set(_put_back, states)
            self.leave()

    def refuse_others(self):
        if self.others():
            raise SharedProcessError()


_REFUSAL = (
    "a module, criterion or callback of one's own must not run while another try or training runs in a thread of the "
    "same process: it fixes the generators that all threads share. Use an engine of processes (joblib's 'loky'; on a "
    "cluster, workers of one thread each) or n_jobs=1; or build the module of torch's own layers in nn.Sequential."
)


def _states():
    return np.random.get_state(), random.getstate()


def drawn_from():
    """Return the states of Python's and numpy's global generators, to be compared."""
    state = np.random.get_state()
    return random.getstate(), (state[1].tobytes(), *state[2:])


def _put_back(states):
    np.random.set_state(states[0])
    random.setstate(states[1])


_GENERATORS = _GlobalGenerators()


def hold_global_generators():
    """In a worker: let the runs keep this process' global generators until :func:`release_global_generators`.

    Saving and restoring them takes longer than anything else around a short run. Every run reseeds them all the
    same. Calling this again does nothing.
    """
    if not _GENERATORS.held:
        _GENERATORS.held = True
        _GENERATORS.enter(None, counts=False)


def release_global_generators():
    """Put back what :func:`hold_global_generators` has found; does nothing if they are not held."""
    if _GENERATORS.held:
        _GENERATORS.held = False
        _GENERATORS.leave(counts=False)


def _reseed(seed):
    np.random.seed(words(entropy_for(seed, "numpy global")))  # all 256 bits enter; numpy takes its own lock
    random.seed(entropy_for(seed, "random global"))


def _after_fork():
    """In a forked child: the parent's threads are gone, and its stream must not be shared."""
    global _GENERATORS  # noqa: PLW0603
    inside, held = _GENERATORS.active > 0, _GENERATORS.held
    saved, mine = _GENERATORS.saved, threading.get_ident() in _GENERATORS.threads
    _GENERATORS = _GlobalGenerators()  # a new lock: the old one may be held by a lost thread
    if inside:
        _GENERATORS.active, _GENERATORS.saved, _GENERATORS.held = 1, saved, held
        _GENERATORS.threads = {threading.get_ident(): 1} if mine else {}
        _reseed(None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@contextlib.contextmanager
def isolated_global_generators(seed=None, *, waits=False):
    """Reseed ``numpy.random`` and ``random`` with 256 bits while the block runs.

    Parameters
    ----------
    seed : int or None, default=None
        As in :func:`entropy_for`. With a seed, a candidate that draws from the global generators
        repeats itself only if no other run shares the process at the same time.
    waits : bool, default=False
        True for a block that draws nothing itself, and waits for runs, perhaps in other threads.

    Notes
    -----
    A candidate that draws its noise from the global generators gets independent noise in every run:
    under ``np.random.seed`` set by the caller, in forked workers, and in threads (which then share one
    stream, in turn). A candidate that *itself* fixes the global seed inside ``fit`` cannot be helped,
    and in concurrent threads would fix it for its neighbours too: see :func:`borrowed_global_generators`.

    The previous state comes back when the last open block of the process closes, so the caller's own
    draws do not depend on how many runs there were.

    Examples
    --------
    >>> import numpy as np
    >>> np.random.seed(0)
    >>> with isolated_global_generators():
    ...     a = np.random.normal()
    >>> np.random.seed(0)
    >>> with isolated_global_generators():
    ...     b = np.random.normal()
    >>> a == b
    False
    """
    _GENERATORS.enter(seed, counts=not waits)
    try:
        yield
    finally:
        # In a child forked inside the block the object was replaced; leave the one now in charge.
        _GENERATORS.leave(counts=not waits)


# ---- code that must repeat itself fixes the generators: alone in its process, or not at all

_TRIES = contextvars.ContextVar("tries_share_a_process", default=False)


@contextlib.contextmanager
def tries_share_a_process(shared=True):
    """Check candidates for tries that will run in threads of one process, if ``shared``.

    Examples
    --------
    >>> with tries_share_a_process():
    ...     shares_its_process()
    True
    """
    token = _TRIES.set(shared)
    try:
        yield
    finally:
        _TRIES.reset(token)


def shares_its_process(now=False):
    """Return whether another thread has a run under way; unless ``now``, also whether one will have.

    Examples
    --------
    >>> shares_its_process()
    False
    """
    return _GENERATORS.others() or (not now and _TRIES.get())


class borrowed_global_generators:  # noqa: N801
    """Let a block fix numpy's and Python's global generators by :func:`fix_global_generators`; put them back after it.

    Raises
    ------
    SharedProcessError
        If another thread has a run under way: the run would draw noise from numbers that are known.

    Examples
    --------
    >>> before = np.random.get_state()[1].tolist()
    >>> with borrowed_global_generators():
    ...     fix_global_generators(0, 0)
    >>> np.random.get_state()[1].tolist() == before
    True
    """

    def __enter__(self):
        self._states = _GENERATORS.borrow()
        return self

    def __exit__(self, *exc_info):
        _GENERATORS.give_back(self._states)


def fix_global_generators(for_python, for_numpy):
    """Seed Python's and numpy's global generators with these numbers.

    Raises
    ------
    SharedProcessError
        If another thread has a run under way by now.
    """
    with _GENERATORS.lock:  # a run that enters now reseeds afterwards
        _GENERATORS.refuse_others()
        _GENERATORS.set(_fix, for_python, for_numpy)


def _fix(for_python, for_numpy):
    random.seed(for_python)
    np.random.seed(for_numpy)


class watched_global_generators:  # noqa: N801
    """See whether a block draws from numpy's and Python's global generators.

    Attributes
    ----------
    drawn : bool
        Whether their state is another one after the block.
    alone : bool
        Whether nothing but the block can have changed it: no other thread had a run under way, and none set it.

    Examples
    --------
    >>> with watched_global_generators() as seen:
    ...     _ = random.random()
    >>> seen.drawn, seen.alone
    (True, True)
    """

    def __enter__(self):
        self._before = _GENERATORS.look()
        return self

    def __exit__(self, *exc_info):
        (before, renewed, others), (after, renewed_since, others_since) = self._before, _GENERATORS.look()
        self.drawn = before != after
        self.alone = not others and not others_since and renewed == renewed_since
