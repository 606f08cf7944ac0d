"""What an engine's worker does with one task: note that the run begins, run it, note that it is over."""

import contextlib
import math
import os
import threading
import time
from dataclasses import replace

from skdptune.candidates._seeding import hold_global_generators
from skdptune.model_selection._cells import Cells
from skdptune.model_selection._folders import private_folder
from skdptune.model_selection._quiet import occupy_standard_descriptors, process_identity, quiet_worker
from skdptune.model_selection._runs import OVER, one_run, over
from skdptune.model_selection._store import open_store

__all__ = ["run_task", "settle"]

_LOOK = 1.0  # seconds between two looks at whether the parent is still there


def run_task(ticket, position, seed, floor):
    """Run one try in a worker, in whatever engine.

    Parameters
    ----------
    ticket : object
        ``ticket.load()`` returns ``(plan, data)``.
    position : int
    seed : int
        The coins of this run.
    floor : tuple or None
        The rank of a record that the parent holds: what does not beat it is sent back without its model.

    Returns
    -------
    RunRecord
    """
    occupy_standard_descriptors()
    plan, data = ticket.load()
    if data.parent != process_identity():
        follow(plan.parent_pid, ticket.of_a_child)
        if ticket.of_a_child:
            hold_global_generators()  # until the parent has them given back
    with quiet_worker(data.parent):
        record = _run(plan, data, position, seed, floor)
        # still silent: what a candidate says while its model is pickled would tell how many there were
        return record if data.parent == process_identity() else _packed(ticket, record)


def _packed(ticket, record):
    if record.model is None and record.params is None:
        return record  # nothing in it is the candidate's
    try:
        return ticket.packed(record)
    except Exception as error:  # a model with a lock or an open file in it
        failed = replace(record, score=-math.inf, params=None, model=None, failure=type(error).__name__)
        return ticket.packed(failed)


def _run(plan, data, position, seed, floor):
    store = open_store(plan.store)
    if plan.run_timeout is not None:
        with _OWN.cells(plan, data) as cells:
            record = cells.run(position, seed, store)
    else:
        if store is not None and not store.start(position):
            return over(position)
        record = one_run(plan, data, seed, position)
    leave_if_orphaned()  # another process may have taken the search over
    return settle(record, store, floor)


def settle(record, store, floor):
    """Note in ``store`` that a run is over; return its record as it goes to the parent."""
    if record.failure == OVER:
        return record
    if store is not None:
        store.finish(record, floor)
    return record.delivered(floor, store is not None)


# ---------------------------------------------------------------------- cells of a worker on a cluster


class _OwnCells:
    """The cells of this process, for one search at a time; they and their rows go when no try has come for a while."""

    IDLE = 60.0
    EVERY = 5.0

    def __init__(self):
        self._lock = threading.Lock()
        self._token = self._cells = self._folder = None
        self._busy, self._used, self._watched = 0, 0.0, False

    @contextlib.contextmanager
    def cells(self, plan, data):
        """Lend the cells that know ``plan`` and ``data``."""
        with self._lock:
            if plan.token != self._token:
                self._drop()
                self._folder = private_folder()
                self._cells = Cells(plan, data, self._folder.__enter__(), os.cpu_count(), plan.run_timeout)
                self._token = plan.token
            self._busy += 1
            cells = self._cells
            if not self._watched:
                self._watched = True
                threading.Thread(target=self._watch, name="skdptune-cells", daemon=True).start()
        try:
            yield cells
        finally:
            with self._lock:
                self._busy -= 1
                self._used = time.monotonic()

    def _watch(self):
        while True:
            time.sleep(self.EVERY)
            with self._lock:
                if not self._busy and time.monotonic() - self._used > self.IDLE:
                    self._drop()
                    self._watched = False
                    return

    def _drop(self):
        if self._cells is not None:
            self._cells.close()
            self._folder.__exit__(None, None, None)
        self._token = self._cells = self._folder = None


_OWN = _OwnCells()


# ---------------------------------------------------------------------- orphans


class _Follower:
    """Ends this process soon after the one that started it is gone: an orphan would go on for days."""

    def __init__(self):
        self._pid = self._parent = None

    def start(self, parent, ours=False):
        if self._pid == os.getpid():
            return  # already following
        if os.getppid() != parent:
            if ours:
                os._exit(1)  # the parent was gone before the first task was begun
            return  # started by somebody who looks after us
        self._pid, self._parent = os.getpid(), parent
        threading.Thread(target=self._watch, name="skdptune-follower", daemon=True).start()

    def leave(self):
        if self._pid == os.getpid() and os.getppid() != self._parent:
            os._exit(1)

    def _watch(self):
        while True:
            self.leave()
            time.sleep(_LOOK)


_FOLLOWER = _Follower()
follow, leave_if_orphaned = _FOLLOWER.start, _FOLLOWER.leave
