"""What an engine's worker does with one task: note that the run begins, run it, note that it is over."""

import contextlib
import gc
import math
import os
import threading
import time
from dataclasses import replace
from multiprocessing.util import Finalize

from skdptune.candidates._seeding import hold_global_generators
from skdptune.model_selection._cells import Cells
from skdptune.model_selection._quiet import (
    hold_silence,
    occupy_standard_descriptors,
    process_identity,
    quiet,
    quiet_worker,
)
from skdptune.model_selection._runs import OVER, one_run, over
from skdptune.model_selection._store import let_go, open_store

__all__ = ["release", "run_task", "settle"]

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
            hold_silence()
    with quiet_worker(data.parent):
        record = _run(ticket.token, plan, data, position, seed, floor)
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


def _run(token, plan, data, position, seed, floor):
    store = open_store(plan.store)
    if plan.run_timeout is not None:
        with _OWN.cells(token, plan, data) as cells:
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
    if store is not None and not store.finish(record, floor):
        return over(record.position)
    return record.delivered(floor, store is not None)


# ---------------------------------------------------------------------- cells of a worker on a cluster


class _Lent:
    """The cells of one search."""

    def __init__(self, cells):
        self.cells, self.busy, self.used = cells, 0, time.monotonic()


class _OwnCells:
    """The cells of this process, by shipment. They go when the search is over, or when no try has come for a while."""

    IDLE = 5.0
    EVERY = 1.0

    def __init__(self):
        self._lock = threading.Lock()
        self._lent, self._watched, self._pid = {}, False, None

    @contextlib.contextmanager
    def cells(self, token, plan, data):
        """Lend the cells that know ``plan`` and ``data``."""
        with self._lock:
            if token not in self._lent:
                self._lent[token] = _Lent(Cells(plan, data, None, os.cpu_count(), plan.run_timeout))
            lent = self._lent[token]
            lent.busy += 1
            if not self._watched:
                self._watched = True
                threading.Thread(target=self._watch, name="skdptune-cells", daemon=True).start()
            if self._pid != os.getpid():
                self._pid = os.getpid()
                Finalize(None, self.release, exitpriority=10)  # unlike atexit, in the children of multiprocessing, too
        try:
            yield lent.cells
        finally:
            with self._lock:
                lent.busy -= 1
                lent.used = time.monotonic()

    def release(self, token=None):
        """End the cells of a search that is over, or all of them."""
        with self._lock:
            tokens = list(self._lent) if token is None else [token]
            ended = [self._lent.pop(each) for each in tokens if each in self._lent]
        for lent in ended:
            lent.cells.close()

    def _watch(self):
        while True:
            time.sleep(self.EVERY)
            with self._lock:
                late = time.monotonic() - self.IDLE
                idle = [token for token, lent in self._lent.items() if not lent.busy and lent.used < late]
                ended = [self._lent.pop(token) for token in idle]
                self._watched = bool(self._lent)
                last = not self._watched
            for lent in ended:
                lent.cells.close()
            if last:
                return


_OWN = _OwnCells()


def release(token, payload=None):
    """Let go of what this worker holds of a search that is over; what its tries left behind speaks in silence."""
    _OWN.release(token)
    if payload is not None:
        plan, _ = payload
        let_go(plan.store)
    with quiet():
        gc.collect()


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
