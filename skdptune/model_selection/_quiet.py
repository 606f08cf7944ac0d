"""Silence while runs go on: the number of warnings or lines would tell how many there were."""

import contextlib
import ctypes
import functools
import io
import logging
import os
import sys
import threading
import warnings

__all__ = ["debugging", "logger", "quiet", "quiet_worker"]

logger = logging.getLogger("skdptune.curator")


def debugging():
    """Return whether the curator asked for tracebacks, which may quote private rows."""
    return logger.isEnabledFor(logging.DEBUG)


class _Quiet:
    """Process-wide silence with a count of those who want it: searches may nest and run in threads.

    Covers warnings, Python's streams, logging (unless the curator is debugging) and whatever compiled code
    writes to file descriptors 1 and 2.
    """

    def __init__(self):
        self._lock = threading.Lock()
        self._count = 0
        self._stack = None

    def __enter__(self):
        with self._lock:
            self._count += 1
            if self._count == 1:
                self._stack = contextlib.ExitStack()
                self._stack.enter_context(warnings.catch_warnings())
                warnings.simplefilter("ignore")
                if not debugging():
                    self._stack.callback(logging.disable, logging.root.manager.disable)
                    logging.disable(logging.CRITICAL)
                self._stack.enter_context(_muted_descriptors())
                self._stack.enter_context(contextlib.redirect_stdout(_Sink()))
                self._stack.enter_context(contextlib.redirect_stderr(_Sink()))

    def __exit__(self, *exc_info):
        with self._lock:
            self._count -= 1
            if self._count == 0:
                self._stack.close()
                self._stack = None


@contextlib.contextmanager
def _muted_descriptors():
    """Point descriptors 1 and 2 to nowhere; C buffers are emptied before and after."""
    saved = []
    try:
        _flush_c()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for descriptor in (1, 2):
            with contextlib.suppress(OSError):  # closed, as under some services
                saved.append((descriptor, os.dup(descriptor)))
                os.dup2(nowhere, descriptor)
        os.close(nowhere)
        yield
    finally:
        _flush_c()
        for descriptor, copy in saved:
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


_quiet = _Quiet()


def quiet():
    """Silence warnings and the standard streams: their number would tell how many runs there were."""
    return _quiet


class _Sink(io.TextIOBase):
    """A text stream that forgets."""

    def write(self, text):
        return len(text)


@contextlib.contextmanager
def quiet_worker(parent_pid):
    if os.getpid() == parent_pid:
        yield  # the parent is quiet already, around all runs
        return
    with quiet():
        yield
