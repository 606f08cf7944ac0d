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
from multiprocessing.connection import Pipe

import joblib
import sklearn

from skdptune._exceptions import RunFailedError
from skdptune._validation import check_real, invalid_value
from skdptune.model_selection._runs import RunRecord, mark_of, over
from skdptune.model_selection._transport import dump_payload

__all__ = ["RETRIES", "Cells", "check_run_timeout", "lost"]

RETRIES = 2  # a try whose process died is run again this often, with the same coins; then it ranks last
_LONGEST_TIMEOUT = 1e9  # seconds: thirty years
_LONGEST_WAIT = 3600.0  # seconds in one call; poll() counts milliseconds in 31 bits
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
    try:
        return check_real("run_timeout", seconds, low=0, high=_LONGEST_TIMEOUT, low_open=True, advice=advice)
    except OverflowError:  # an integer beyond all floats
        raise invalid_value("run_timeout", f"at most {_LONGEST_TIMEOUT:g}", float("inf"), advice) from None


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
    folder : str
        An own folder, for what the cells load.
    workers : int
        How many cells will work at a time; their libraries share the processors.
    timeout : float or None
        Seconds that one try may take.
    """

    def __init__(self, plan, data, folder, workers=1, timeout=None):
        self._payload, self._folder, self._path = (plan, data), folder, None
        self._workers = workers
        self._timeout = timeout
        self._config = sklearn.get_config()  # belongs to the thread that makes the search
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
                if self._path is None:
                    self._path = dump_payload(self._payload, self._folder)
                cell = _Cell(self._workers)
                self._all.add(cell)
            try:
                cell.load(self._path, self._config)
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
        for cell in cells:
            cell.kill()

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.close()


def lost(position, seed, failure):
    """Return the record of a run that has none: it ranks last, with the mark it would have had."""
    return RunRecord(-math.inf, mark_of(seed), None, failure=failure, position=position)


class _Cell:
    """One child process and the line to it."""

    def __init__(self, workers):
        self._line, theirs = Pipe()
        self._ended = threading.Lock()
        order = f"import sys; sys.path[:] = {sys.path!r}; from skdptune.model_selection._cell import main; "
        command = [sys.executable, *subprocess._args_from_interpreter_flags(), "-c"]
        try:
            self._process = subprocess.Popen(
                [*command, f"{order}main({theirs.fileno()}, {os.getpid()})"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # a group of its own, which Ctrl-C in a terminal does not reach
                env=_environment(workers),
            )
        finally:
            theirs.close()

    def load(self, path, config):
        """Let the process load what every try needs."""
        self._send(pickle.dumps((path, config)))
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
            return not self._line.poll(0)  # nothing is due: what could be read is the end
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
                if deadline is not None and time.monotonic() >= deadline:
                    return None
            return pickle.loads(self._line.recv_bytes())
        except (EOFError, OSError):
            raise _DiedError from None

    def kill(self):
        """End the process and everything it started. The line closes with the last reference to it."""
        if self._ended.acquire(blocking=False):  # once: afterwards the number may belong to others
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def _wait_until(deadline):
    """Return for how many seconds to wait at a time."""
    return _LONGEST_WAIT if deadline is None else min(_LONGEST_WAIT, max(0.0, deadline - time.monotonic()))


def _environment(workers):
    """Return the environment of a cell: libraries share the processors, unless the user has said how."""
    threads = str(max(1, joblib.cpu_count() // max(1, workers)))
    return {**{name: threads for name in _THREAD_LIMITS}, **os.environ}
