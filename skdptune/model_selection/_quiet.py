"""Silence while runs go on: the number of warnings or lines would tell how many there were."""

import contextlib
import ctypes
import functools
import io
import logging
import os
import secrets
import sys
import threading
import time
import warnings

__all__ = [
    "debugging",
    "hold_silence",
    "logger",
    "occupy_standard_descriptors",
    "process_identity",
    "quiet",
    "quiet_worker",
    "release_silence",
    "tell_curator",
]

logger = logging.getLogger("skdptune.curator")


def debugging():
    """Return whether the curator asked for tracebacks, which may quote private rows."""
    return _asked_for(logging.DEBUG)


def _asked_for(level):
    """Return whether the level of ``skdptune.curator`` or ``skdptune`` was set as low as ``level``.

    The root's level does not count: an application that logs everything at INFO has not asked for the number of
    tries in its log.
    """
    source = logger
    while source is not logging.root and source is not None:
        if source.level:
            return not logger.disabled and source.level <= level
        source = source.parent
    return False


def tell_curator(level, text):
    """Log ``text`` for the curator, also while everything else is silent.

    Parameters
    ----------
    level : int
        As in :mod:`logging`. Nothing is shown unless the curator set the level of the logger
        ``skdptune.curator``, or of ``skdptune``, that low and has a handler for it.
    text : str
        What is said. It may reveal the number of tries: callers say so.
    """
    # isEnabledFor would ask logging.disable, which is what silences everybody else
    if not _asked_for(level):
        return
    record = logger.makeRecord(logger.name, level, __name__, 0, text, (), None)
    with contextlib.suppress(Exception):  # a filter of the application
        if not logger.filter(record):
            return
    source = logger
    while source is not None:
        for handler in source.handlers:
            if level >= handler.level:
                with contextlib.suppress(Exception):  # a log that cannot be written must not end a search
                    _handle(handler, record)
        source = source.parent if source.propagate else None


def _handle(handler, record):
    """Let ``handler`` write; one that writes to a muted descriptor writes to where that led before."""
    copy = _quiet.open_again(_descriptor(getattr(handler, "stream", None)))
    if copy is None:
        handler.handle(record)
        return
    handler.acquire()
    stream = handler.stream
    try:
        handler.stream = copy
        handler.handle(record)
    finally:
        handler.stream = stream
        handler.release()
        copy.close()


def _descriptor(stream):
    try:
        return stream.fileno()
    except (AttributeError, OSError, ValueError):  # no stream, or one without a descriptor
        return None


class _Quiet:
    """Process-wide silence with a count of those who want it: searches may nest and run in threads.

    Covers warnings, Python's streams, logging (unless the curator is debugging), the hooks for errors in threads and
    finalizers, and whatever compiled code writes to file descriptors 1 and 2, if these are the process' output.
    """

    def __init__(self):
        self._lock = threading.Lock()
        self._count = 0
        self._stack = None
        self._debugging, self._heard = False, ()
        self._real = {}  # muted descriptor -> a copy of where it led

    def after_fork(self):
        """In a forked child: the lock may be held by a thread that is gone. What was silent stays silent."""
        self._lock = threading.Lock()

    def open_again(self, descriptor):
        """Return a text stream to where a muted descriptor led, or None if it is not muted."""
        with self._lock:
            copy = self._real.get(descriptor)
            # copied once more, under the lock: the silence may end before the stream is used
            return None if copy is None else os.fdopen(os.dup(copy), "w", errors="backslashreplace")

    def __enter__(self):
        with self._lock:
            self._count += 1
            if self._count == 1:
                try:
                    self._silence()
                except BaseException:  # no descriptor left, say: nothing may run that is not silent
                    self._count = 0
                    self._real = {}
                    self._stack.close()
                    raise

    def _silence(self):
        self._stack = contextlib.ExitStack()
        self._stack.enter_context(warnings.catch_warnings())
        self._debugging = debugging()  # decided once: a try may set levels
        self._stack.callback(logging.disable, logging.root.manager.disable)
        self._real = _mute_descriptors(self._stack)
        self._stack.callback(_set_streams_and_hooks, sys.stdout, sys.stderr, sys.unraisablehook, threading.excepthook)
        self._heard = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__, None)
        self._hush()

    def _hush(self):
        """Switch off what can be switched on again by anybody."""
        warnings.simplefilter("ignore")
        if logging.root.manager.disable < logging.CRITICAL and not self._debugging:
            logging.disable(logging.CRITICAL)
        # a stream of somebody's own, who captures text around a search or beside it, stays
        streams = (_Sink() if any(s is heard for heard in self._heard) else s for s in (sys.stdout, sys.stderr))
        _set_streams_and_hooks(*streams, _nothing, _nothing)  # the hooks may be called once per try

    def renew(self):
        """At the start of a try: be silent again, whatever the one before it has set."""
        with self._lock:
            if self._count:
                self._hush()

    def __exit__(self, *exc_info):
        with self._lock:
            self._count -= 1
            if self._count == 0:
                self._real, self._heard = {}, ()
                self._stack.close()
                self._stack = None


def occupy_standard_descriptors():
    """Open descriptors 0 to 2 on nothing where they are closed, as services start their processes.

    The next file opened would get such a number, and whatever compiled code prints would go into it: a checkpoint, say.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != descriptor:  # not the lowest number that is free: another thread was faster
                os.dup2(opened, descriptor)
                os.close(opened)
            os.set_inheritable(descriptor, True)


def _mute_descriptors(undo):
    """Point descriptors 1 and 2 to nowhere, until ``undo`` is closed; return copies of them."""
    saved = {}
    undo.callback(_lead_back, saved)
    _flush_c()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    occupy_standard_descriptors()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor, stream in ((1, sys.__stdout__), (2, sys.__stderr__)):
        # A process that was started without an output may have opened any file under its number.
        if stream is not None:
            saved[descriptor] = os.dup(descriptor)
            os.dup2(nowhere, descriptor)
    os.close(nowhere)
    return saved


def _lead_back(saved):
    """Let descriptors lead to where they led before; what is in C's buffers goes nowhere."""
    _flush_c()
    for descriptor, copy in saved.items():
        os.dup2(copy, descriptor)
        os.close(copy)


@functools.lru_cache(maxsize=1)
def _c_library():
    try:
        return ctypes.CDLL(None)
    except (OSError, TypeError):  # not on every platform
        return None


def _flush_c():
    with contextlib.suppress(Exception):
        _c_library().fflush(None)


class _Identity:
    """A random name of this process; a forked child gets another one."""

    def __init__(self):
        self.renew()

    def renew(self):
        self.name = secrets.token_hex(16)


class _Held:
    """A silence that outlasts the tries of a worker a little: to begin and end one takes as long as a short try's rest.

    It ends with :meth:`release`, or when no try has begun for a while; a try that is under way has its own.
    """

    AFTER = 0.5  # seconds

    def __init__(self):
        self._lock = threading.Lock()
        self._until, self._pid = 0.0, None

    def hold(self):
        """Be silent from now on; calling this again only makes it last."""
        self._until = time.monotonic() + self.AFTER
        if self._pid == os.getpid():
            return
        with self._lock:
            if self._pid != os.getpid():
                _quiet.__enter__()
                self._pid = os.getpid()
                threading.Thread(target=self._watch, name="skdptune-silence", daemon=True).start()

    def release(self):
        """End it; does nothing if there is none."""
        with self._lock:
            if self._pid == os.getpid():
                self._pid = None
                _quiet.__exit__(None, None, None)

    def _watch(self):
        while self._pid == os.getpid():
            left = self._until - time.monotonic()
            if left <= 0:
                self.release()
                return
            time.sleep(left)

    def after_fork(self):
        """In a forked child: what was silent stays silent."""
        self._lock = threading.Lock()


_quiet = _Quiet()
_held = _Held()
_identity = _Identity()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_quiet.after_fork)
    os.register_at_fork(after_in_child=_held.after_fork)
    os.register_at_fork(after_in_child=_identity.renew)


def process_identity():
    """Return a name of this process that no other has: process numbers repeat on other hosts and in containers."""
    return _identity.name


def quiet():
    """Silence warnings and the standard streams: their number would tell how many runs there were."""
    return _quiet


hold_silence, release_silence = _held.hold, _held.release


def _set_streams_and_hooks(stdout, stderr, unraisable, thread_failed):
    sys.stdout, sys.stderr, sys.unraisablehook, threading.excepthook = stdout, stderr, unraisable, thread_failed


def _nothing(details):
    """Stand in for a hook."""


class _Sink(io.TextIOBase):
    """A text stream that forgets."""

    def write(self, text):
        return len(text)


_NOTHING = contextlib.nullcontext()


def quiet_worker(parent):
    """Make this process fit for one try, unless it is the parent, which is so around all of them.

    It is silent meanwhile; what it does for others before and after is not.

    Parameters
    ----------
    parent : str
        The parent's :func:`process_identity`.
    """
    return _NOTHING if parent == process_identity() else quiet()
