"""Running the tries of a search on a joblib engine, and keeping the best of them.

Every try has its own coins, derived from one secret and its position. A try whose worker died is therefore
run again with the same coins and to the same outcome: to replay is not to condition on survival.
"""

import collections
import contextlib
import gc
import itertools
import logging
import os
import re
import threading
from dataclasses import replace

import joblib
import numpy as np
import sklearn
from joblib import Parallel, delayed
from joblib.parallel import get_active_backend

from skdptune._exceptions import RunFailedError, SkdptuneError, TransportError
from skdptune._validation import check_integer, check_seed, invalid_value
from skdptune.candidates._seeding import isolated_global_generators
from skdptune.model_selection._cells import RETRIES, Cells, check_run_timeout, lost
from skdptune.model_selection._checkpoint import check_checkpoint
from skdptune.model_selection._dask_repairs import repaired
from skdptune.model_selection._folders import STAYS_CHARGED, private_folder, sweep
from skdptune.model_selection._progress import Progress
from skdptune.model_selection._quiet import quiet, tell_curator
from skdptune.model_selection._read_only import size_of
from skdptune.model_selection._readiness import release_workers, start_workers, works_elsewhere
from skdptune.model_selection._runs import NUMPY_DEFAULT, OVER
from skdptune.model_selection._store import Store, adopt, forget
from skdptune.model_selection._transport import shipping, worker_died
from skdptune.model_selection._worker import run_task, settle

__all__ = ["Runner", "check_engine"]

MAX_STARTS = 10  # a try that was under way this often when the whole search was killed ranks last
_IDLE_BREAKS = 3  # broken pools in a row in which no try had begun

_DISPATCH = re.compile(r"(\d+(\.\d+)?\s*\*\s*)?n_jobs(\s*\*\s*\d+(\.\d+)?)?|[1-9]\d*")


def check_engine(search):
    """Check what only the runs use, so that nothing is charged before it is known to be right.

    Raises
    ------
    InvalidParameterError, InvalidTypeError
    """
    if search.n_jobs is not None and check_integer("n_jobs", search.n_jobs) == 0:
        raise invalid_value("n_jobs", "None or an integer other than 0", search.n_jobs)
    if not isinstance(search.verbose, (bool, int, np.integer)) or search.verbose < 0:
        raise invalid_value("verbose", "an integer of 0 or more", search.verbose)
    pre = search.pre_dispatch
    if isinstance(pre, str):
        if pre != "all" and not _DISPATCH.fullmatch(pre.strip()):
            expected = "'all', a positive integer, or an expression such as '2*n_jobs'"
            raise invalid_value("pre_dispatch", expected, pre)
    elif pre is not None:
        check_integer("pre_dispatch", pre, low=1)
    check_seed("random_state", search.random_state)
    check_checkpoint(search.checkpoint)
    check_run_timeout(search.run_timeout)


class Runner:
    """Runs a drawn number of tries on a joblib engine and keeps a running maximum.

    Parameters
    ----------
    n_jobs, pre_dispatch
        As for :class:`joblib.Parallel`.
    verbose : int
        What it prints shows the number of tries: it is for the curator.
    """

    def __init__(self, n_jobs=None, pre_dispatch="2*n_jobs", verbose=0):
        self.n_jobs = n_jobs
        self.pre_dispatch = pre_dispatch
        self.verbose = verbose

    def best(self, plan, data, seeds, *, raise_failures=False, store=None):
        """Return the best :class:`RunRecord` over all ``seeds``, or None if there are none.

        Parameters
        ----------
        plan : RunPlan
        data : RunData
        seeds : RunSeeds
        raise_failures : bool
        store : Store or None
            Of a checkpoint: tries that it says are over are not run again.

        Raises
        ------
        SkdptuneError
            If a drawn candidate is not covered by the price, a run failed and ``raise_failures``, the
            checkpoint cannot be written, or the system refuses what workers need (TransportError).
        """
        try:
            return self._best(plan, data, seeds, raise_failures, store)
        except SkdptuneError:
            raise
        except OSError as error:  # of the engine or of this process: what a try raises is the outcome of the try
            reason = error.strerror or str(error) or type(error).__name__
            raise TransportError(
                f"the tries could not be run to their end, because the system refused something that workers need "
                f"({reason}). Look at the limits of this process (ulimit -n, say), at its disks and its network. "
                f"{STAYS_CHARGED}"
            ) from error

    def _best(self, plan, data, seeds, raise_failures, store):
        past = _Past(store, len(seeds))
        if raise_failures and past.failed:
            raise _stop("an error before it was interrupted")
        held = _Held(past.best)
        if plan.run_timeout is None:
            start_workers(self.n_jobs)
        with (
            Progress(self.verbose, total=len(seeds), done=past.done) as progress,
            self._folder(plan, data) as folder,
            quiet(),
            isolated_global_generators(waits=True),  # the caller's state is saved once; each run reseeds
            contextlib.ExitStack() as silence,
        ):
            todo = _Todo(past.pending())
            silence.callback(gc.collect)  # what the tries left in cycles may speak when it is collected
            crew = self._crew(plan, data, seeds, folder, store, held)
            try:
                with contextlib.closing(self._records(crew, todo, past.worn)) as records:
                    for record in records:
                        progress.step()
                        if record is None:
                            continue
                        if store is not None and not record.stored:
                            store.finish(record)  # the worker does not see the folder
                        if record.failure is not None:
                            _tell_curator(record)
                            if raise_failures:
                                raise _stop(record.failure)
                        held.offer(record)
            except BaseException:
                crew.close()
                todo.excuse(crew.store)  # whatever was under way was stopped by us
                raise
            crew.close()
            if plan.run_timeout is None:
                with contextlib.suppress(OSError):  # a courtesy to the workers: no result may be lost for it
                    release_workers(self.n_jobs, folder, None if crew.store is None else crew.store.ref)
        if store is not None:
            held.offer(store.best())  # a record may have been lost on its way when a worker died
        return held.record

    @staticmethod
    def quietly(work, seed):
        """Return ``work()``, called under the conditions of a run."""
        with quiet(), isolated_global_generators(seed), np.errstate(**NUMPY_DEFAULT):
            return work()

    @contextlib.contextmanager
    def _folder(self, plan, data):
        """Yield a folder for what workers load, if there will be any."""
        if not works_elsewhere(self.n_jobs, plan.run_timeout):
            sweep()
            yield None
            return
        with private_folder(size_of(data)) as folder:
            yield folder

    def _crew(self, plan, data, seeds, folder, store, held):
        backend, _ = get_active_backend()
        workers = joblib.effective_n_jobs(self.n_jobs)
        names = {kind.__name__ for kind in type(backend).__mro__}
        local = workers == 1 or bool(names & {"LokyBackend", "ThreadingBackend", "SequentialBackend"})
        local = local and os.name == "posix"
        forks = workers > 1 and type(backend).__name__ == "MultiprocessingBackend" and os.name == "posix"
        options = {"n_jobs": self.n_jobs, "pre_dispatch": self.pre_dispatch}
        setting = _Setting(plan, data, seeds, folder, store, held, workers, options)
        if (plan.run_timeout is not None and local) or forks:
            return _CellCrew(setting)
        if workers == 1 or getattr(backend, "supports_sharedmem", False):
            return _OwnProcess(setting) if workers == 1 else _Pool(setting, backend)
        if store is None and os.name == "posix":
            setting.store = Store.temporary(folder, plan.token, len(seeds))
        if not getattr(backend, "supports_return_generator", False):
            return _Blocks(setting, backend)
        return _Pool(setting, backend, local)

    def _records(self, crew, todo, worn):
        """Yield the record of every try; None for one that is over although its record was lost on its way."""
        for position in worn:
            yield lost(position, crew.seeds[position], "WorkerDied")
        idle = 0
        while True:
            broken = False
            try:
                with contextlib.closing(crew.stream(todo)) as records:
                    for record in records:
                        idle = 0
                        todo.done(record.position)
                        yield None if record.failure == OVER else record
            except Exception as error:
                if not worker_died(error):
                    raise
                broken = True
            over, suspects, others = crew.sort_out(todo.take_back())
            for _ in over:
                yield None
            for record in crew.alone(suspects):
                idle = 0
                yield record
            todo.again(others)
            if not broken and not others:
                return
            idle += 1
            if idle > _IDLE_BREAKS:
                raise RunFailedError(
                    "workers end before they begin a try, several times in a row; the whole search stays charged and "
                    "nothing is published. Look at the memory limits and the logs of the workers."
                )


class _Held:
    """The best record so far, and its rank as a floor for those that are still to come."""

    def __init__(self, record):
        self.record = record

    def offer(self, record):
        if record is not None and (self.record is None or record.rank > self.record.rank):
            self.record = record

    @property
    def floor(self):
        record = self.record  # other threads read this
        return None if record is None else record.rank


class _Past:
    """What an earlier process has done of this search, from the marks of its checkpoint."""

    def __init__(self, store, count):
        self._count, self._over = count, None
        self.done, self.worn, self.failed, self.best = 0, [], False, None
        if store is None:
            return
        store.settle()
        self.best = store.best()
        self._over = bytearray(count)
        for position, mark in store.marks(count):
            if mark.final:
                self.done += 1
                self.failed = self.failed or mark.failed
            elif mark.starts >= MAX_STARTS:
                self.worn.append(position)
            else:
                continue
            self._over[position] = 1
        if self.done and self.best is None:
            raise store.damaged("best-...")  # the first one that finished has left its record

    def pending(self):
        """Yield the positions of the tries that are still to be run."""
        return (position for position in range(self._count) if not (self._over and self._over[position]))


class _Todo:
    """Positions of tries, handed out to an engine's threads; those under way are known."""

    def __init__(self, positions):
        self._waiting, self._again, self._under_way = iter(positions), collections.deque(), set()
        self._lock = threading.Lock()

    def __iter__(self):
        return self

    def __next__(self):
        with self._lock:
            position = self._again.popleft() if self._again else next(self._waiting)
            self._under_way.add(position)
            return position

    def done(self, position):
        with self._lock:
            self._under_way.discard(position)

    def take_back(self):
        """Return what was handed out and did not come back."""
        with self._lock:
            positions = sorted(self._under_way)
            self._under_way.clear()
            return positions

    def again(self, positions):
        with self._lock:
            self._again.extend(positions)

    def excuse(self, store):
        if store is not None:
            for position in self.take_back():
                with contextlib.suppress(Exception):  # an error is on its way already
                    store.excuse(position)


class _Setting:
    """What every crew needs."""

    def __init__(self, plan, data, seeds, folder, store, held, workers, options):
        self.plan, self.data, self.seeds, self.folder, self.held = plan, data, seeds, folder, held
        self.store, self.workers, self.options = store, workers, options


class _Crew:
    """Runs tries on one kind of engine."""

    def __init__(self, setting):
        self.seeds, self.store, self._held = setting.seeds, setting.store, setting.held
        self._folder, self._data, self._workers, self._options = (
            setting.folder,
            setting.data,
            setting.workers,
            setting.options,
        )
        ref = None if self.store is None else self.store.ref
        # the configuration travels with the plan: scikit-learn's Parallel would send it with every try
        self._plan = replace(setting.plan, store=ref, parent_pid=os.getpid(), config=sklearn.get_config())
        self._cells = None
        if self.store is not None:
            adopt(self.store)

    def sort_out(self, positions):
        """Sort tries that were under way when a worker died into (over, may be to blame, had not begun)."""
        if self.store is None:
            return [], positions, []
        if self.store.ref.keeps_best:
            self.store.settle()
        over, suspects, others = [], [], []
        for position in positions:
            mark = self.store.mark(position)
            if mark.final and self.store.ref.keeps_best:
                over.append(position)
            elif mark.starts and not mark.final:
                self.store.excuse(position)
                suspects.append(position)
            else:
                others.append(position)
        return over, suspects, others

    def alone(self, positions):
        """Run each of ``positions`` such that it can only kill itself; yield their records."""
        if positions:
            yield from self._in_cells(iter(positions))

    def _in_cells(self, positions):
        if self._cells is None:
            self._cells = Cells(self._plan, self._data, self._folder, self._workers, self._plan.run_timeout)
        if self._workers == 1:
            for position in positions:
                yield self._in_cell(position, self._held.floor)
            return
        tasks = (delayed(self._in_cell)(position, self._held.floor) for position in positions)
        options = {**self._options, "n_jobs": self._workers, "backend": "threading"}
        try:
            with contextlib.closing(Parallel(return_as="generator_unordered", **options)(tasks)) as records:
                yield from records
        except BaseException:
            self._cells.close()  # whatever is under way would go on
            raise

    def _in_cell(self, position, floor):
        return settle(self._cells.run(position, self.seeds[position], self.store), self.store, floor)

    def close(self):
        """End what this crew has started, and let go of what it holds."""
        if self._cells is not None:
            self._cells.close()
        if self.store is not None:
            forget(self.store.ref)
            if not self.store.ref.keeps_best:
                self.store.close()


class _CellCrew(_Crew):
    """Cells, driven by threads of this process."""

    def stream(self, todo):
        yield from self._in_cells(todo)


class _OwnProcess(_Crew):
    """One try after the other, here."""

    def stream(self, todo):
        with shipping((self._plan, self._data), self._folder, 1) as shipment:
            for position in todo:
                yield run_task(shipment.ticket, position, self.seeds[position], self._held.floor)


class _Pool(_Crew):
    """A joblib engine that hands back each record as it comes."""

    def __init__(self, setting, backend, local=False):
        super().__init__(setting)
        self._backend, self._local = backend, local

    def _tasks(self, shipment, todo):
        for position in todo:
            yield delayed(run_task)(shipment.ticket, position, self.seeds[position], self._held.floor)

    def _shipping(self):
        return shipping((self._plan, self._data), self._folder, self._options["n_jobs"], self._backend)

    def stream(self, todo):
        with repaired(self._backend), self._shipping() as shipment:
            parallel = Parallel(return_as="generator_unordered", **self._options)
            with contextlib.closing(parallel(self._tasks(shipment, todo))) as records:
                yield from records

    def alone(self, positions):
        if self._local:
            yield from super().alone(positions)
            return
        for position in positions:
            yield from self._one_at_a_time(position)

    def _one_at_a_time(self, position):
        """Run one try with nothing else under way, so that a death is its own."""
        # dask has run it on several workers before it says that they died
        for _ in range(1 if type(self._backend).__name__ == "DaskDistributedBackend" else RETRIES):
            try:
                records = list(self.stream(iter([position])))
            except Exception as error:
                if not worker_died(error):
                    raise
            else:
                yield from records
                return
        yield lost(position, self.seeds[position], "WorkerDied")


class _Blocks(_Pool):
    """A joblib engine that hands back records together: a block at a time, so that memory stays flat."""

    SIZE = 64

    def stream(self, todo):
        with self._shipping() as shipment, Parallel(**self._options) as parallel:
            while block := list(itertools.islice(todo, self.SIZE)):
                yield from parallel(self._tasks(shipment, iter(block)))


def _stop(failure):
    return RunFailedError(
        f"a try failed with {failure} (for the curator); the whole search stays charged and nothing is published. Use "
        "error_score=nan to rank failed tries last."
    )


def _tell_curator(record):
    """Log a failure for the curator only; it reveals something about the number of tries."""
    tell_curator(logging.DEBUG, f"a run failed with {record.failure} (curator only, not for publication)")
    if record.trace:
        tell_curator(logging.DEBUG, record.trace)
