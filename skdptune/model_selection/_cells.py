"""Cells: processes in which a try can hang, crash or eat all memory, and be ended without harm to anybody else.

A try in a cell is ended from outside, by killing the cell's process group. That works for compiled code
that never returns, cannot land outside the candidate (records are written by whoever drives the cell),
and leaves no doubt which try was to blame.

Cells are used where ``run_timeout`` is set, for tries that were under way when a worker of a pool died, and in
place of ``multiprocessing.Pool``, which waits for ever when a worker is killed.
"""

import contextlib
import math
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import weakref
from multiprocessing.connection import Pipe

import joblib

from skdptune._exceptions import RunFailedError
from skdptune._validation import check_real, invalid_value
from skdptune.model_selection._folders import private_folder
from skdptune.model_selection._read_only import size_of
from skdptune.model_selection._runs import RunRecord, mark_of, over
from skdptune.model_selection._transport import dump_payload

__all__ = ["RETRIES", "Cells", "check_run_timeout", "lost"]

RETRIES = 2  # a try whose process died is run again this often, with the same coins; then it ranks last
_LONGEST_TIMEOUT = 1e9  # seconds: thirty years
_LOOK = 0.5  # seconds between two looks at whether the process is still there
_NAMELESS = sys.platform == "linux" and os.path.isdir("/proc/self/fd")  # whether a file without a name can be opened
_START_LIMIT = 300.0  # seconds for a cell to import and load what it needs
_START_ATTEMPTS = 3
_THREAD_LIMITS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)


def check_run_timeout(seconds):
    """Check the ``run_timeout`` parameter; return a float or None.

    Raises
    ------
    InvalidTypeError, InvalidParameterError
    """
    if seconds is None:
        return None
    if os.name != "posix":
        raise invalid_value("run_timeout", "None on this system: process groups are missing", seconds)
    advice = (
        "It is the time that one try may take, in seconds, fixed without looking at the data; None is no limit."
    )
    return check_real("run_timeout", seconds, low=0, high=_LONGEST_TIMEOUT, low_open=True, advice=advice)


class _DiedError(Exception):
    """The process went away under a try."""


class _LateError(Exception):
    """The try took too long."""


class _ClosedError(Exception):
    """The search is over."""


class Cells:
    """A set of cells for one search, as many as there are threads that ask for one.

    Parameters
    ----------
    plan : RunPlan
    data : RunData
    folder : str or None
        An own folder, for what the cells load; None makes one.
    workers : int
        How many cells will work at a time; their libraries share the processors.
    timeout : float or None
        Seconds that one try may take.
    """

    def __init__(self, plan, data, folder, workers=1, timeout=None):
        self._payload, self._folder, self._paths = (plan, data), folder, None
        self._descriptors, self._stack = [], contextlib.ExitStack()
        self._workers = workers
        self._timeout = timeout
        self._lock = threading.Lock()
        self._idle, self._all, self._closed = [], set(), False

    def run(self, position, seed, store=None):
        """Run one try and return its record, whatever becomes of its process.

        A try whose process dies is run again, with the same coins, :data:`RETRIES` times. One that takes too long is
        not: its time is up.

        Raises
        ------
        RunFailedError
            If cells cannot be started at all.
        """
        deaths = 0 if store is None else store.mark(position).deaths
        while deaths <= RETRIES:
            if store is not None and not store.start(position):
                return over(position)
            try:
                return self._once(position, seed)
            except _LateError:
                return lost(position, seed, "TimedOut")
            except _DiedError:
                deaths = deaths + 1 if store is None else store.death(position)
        return lost(position, seed, "WorkerDied")

    def _once(self, position, seed):
        cell = self._take()
        try:
            record = cell.ask(position, seed, self._timeout)
        except BaseException:
            self._drop(cell)
            if self._closed:
                raise _ClosedError from None
            raise
        with self._lock:
            self._idle.append(cell)
        return record

    def _take(self):
        for _ in range(_START_ATTEMPTS):
            with self._lock:
                if self._closed:
                    raise _ClosedError
                while self._idle:
                    cell = self._idle.pop()
                    if cell.waits():
                        return cell
                    self._all.discard(cell)
                    cell.kill()
                if self._paths is None:
                    self._write()
                cell = _Cell(self._workers, self._descriptors)
                self._all.add(cell)
            try:
                cell.load(self._paths)
                return cell
            except _DiedError:
                self._drop(cell)
            except BaseException:
                self._drop(cell)
                raise
        raise RunFailedError(
            "the process for a try ended before it could begin, several times in a row; the whole search stays "
            "charged and nothing is published. Look at the memory and process limits of this machine."
        )

    def _write(self):
        """Write what the cells load; without names where none is needed, so that the files end with the processes."""
        folder = self._folder
        if folder is None:
            folder = self._stack.enter_context(private_folder(size_of(self._payload[1])))
        path = dump_payload(self._payload, folder)
        paths = [path, path + ".rows"]
        if _NAMELESS:
            for name in paths:
                self._descriptors.append(os.open(name, os.O_RDONLY | os.O_CLOEXEC))
                os.unlink(name)
            self._stack.close()
            paths = [f"/proc/self/fd/{descriptor}" for descriptor in self._descriptors]
        self._paths = paths

    def _drop(self, cell):
        cell.kill()
        with self._lock:
            self._all.discard(cell)

    def close(self):
        """End all cells at once."""
        with self._lock:
            self._closed = True
            cells = list(self._all)
            self._all.clear()
            self._idle.clear()
            for descriptor in self._descriptors:
                os.close(descriptor)
            self._descriptors = []
        for cell in cells:
            cell.kill()
        self._stack.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.close()


def lost(position, seed, failure):
    """Return the record of a run that has none: it ranks last, with the mark it would have had."""
    return RunRecord(-math.inf, mark_of(seed), None, failure=failure, position=position)


class _Cell:
    """One child process and the line to it, beside a pipe whose end, when this process is gone, is its end."""

    def __init__(self, workers, descriptors):
        self._line, theirs = Pipe()
        life, self._life = os.pipe()
        self._ended = threading.Lock()
        handed = (theirs.fileno(), life)
        order = f"import sys; sys.path[:] = {sys.path!r}; from skdptune.model_selection._cell import main; "
        command = [sys.executable, *subprocess._args_from_interpreter_flags(), "-c"]
        try:
            self._process = subprocess.Popen(
                [*command, f"{order}main({handed}, {os.getpid()})"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(*handed, *descriptors),
                start_new_session=True,  # a group of its own, which Ctrl-C in a terminal does not reach
                env=_environment(workers),
            )
        except BaseException:
            os.close(self._life)
            raise
        finally:
            theirs.close()
            os.close(life)
        _STARTED.add(self)

    def load(self, paths):
        """Let the process load what every try needs."""
        self._send(pickle.dumps(paths))
        answer = self._receive(_START_LIMIT)
        if answer is None:
            raise _DiedError
        kind, text = answer
        if kind != "ready":
            raise RunFailedError(
                f"the process for a try could not load the candidate ({text}); the whole search stays charged and "
                "nothing is published. Define the candidate's class in a module that can be imported, or in the main "
                "script."
            )

    def ask(self, position, seed, timeout):
        """Return the record of one try."""
        self._send(pickle.dumps((position, seed)))
        answer = self._receive(timeout)
        if answer is None:
            raise _LateError
        kind, value = answer
        if kind == "error":
            raise value
        if kind == "unpicklable":
            return RunRecord(-math.inf, mark_of(seed), None, failure=value, position=position)
        return value

    def waits(self):
        """Return whether the process is still there: one that was idle for long has left."""
        try:
            return not self._gone() and not self._line.poll(0)  # nothing is due: what could be read is the end
        except OSError:
            return False

    def _send(self, data):
        try:
            self._line.send_bytes(data)
        except OSError:
            raise _DiedError from None

    def _receive(self, timeout):
        """Return the next answer, or None if there is none in time."""
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            while not self._line.poll(_wait_until(deadline)):
                if self._gone():  # something that it has started holds the other end
                    self.kill()
                    if not self._line.poll(0):
                        raise _DiedError
                elif deadline is not None and time.monotonic() >= deadline:
                    return None
            return pickle.loads(self._line.recv_bytes())
        except (EOFError, OSError):
            raise _DiedError from None

    def _gone(self):
        """Return whether the process has ended. It is not waited for: its number must go on to name its group."""
        if self._ended.locked():
            return True
        try:
            look = os.WEXITED | os.WNOHANG | os.WNOWAIT
            return os.waitid(os.P_PID, self._process.pid, look) is not None
        except (AttributeError, OSError):  # a system without waitid, or a program that lets nobody wait
            return self._process.poll() is not None

    def kill(self):
        """End the process and everything in its group. The line closes with the last reference to it."""
        if self._ended.acquire(blocking=False):  # once: afterwards the number may belong to others
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            os.close(self._life)

    def leave_to_parent(self):
        """In a forked child: let go of what would keep the process alive when the parent is gone."""
        if self._ended.acquire(blocking=False):  # the fork may not end it, either
            self._line.close()
            os.close(self._life)


_STARTED = weakref.WeakSet()


def _after_fork():
    for cell in list(_STARTED):
        cell.leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _wait_until(deadline):
    """Return for how many seconds to wait at a time."""
    return _LOOK if deadline is None else min(_LOOK, max(0.0, deadline - time.monotonic()))


def _environment(workers):
    """Return the environment of a cell: libraries share the processors, unless the user has said how."""
    threads = str(max(1, joblib.cpu_count() // max(1, workers)))
    return {**{name: threads for name in _THREAD_LIMITS}, **os.environ}
