"""Tries that hang, crash, eat memory or are killed: they rank last, and nobody else suffers for it."""

import concurrent.futures
import contextlib
import ctypes
import multiprocessing
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time

import joblib
import numpy as np
import pytest

from skdptune import PrivateRandomSearchCV
from skdptune._exceptions import AllRunsFailedError, CandidateRefusedError, RunFailedError
from skdptune.accounting import PrivacyCurve
from skdptune.model_selection import _cells, _dask_repairs, _engine, _runs, _store, _transport, _vault, _worker
from skdptune.model_selection._search import Runner
from skdptune.run_counts import Fixed
from tests.candidates.toys import GaussianToy

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdptune._exceptions.PublicSeedWarning"),
    pytest.mark.skipif(sys.platform != "linux", reason="kills processes and looks at /proc"),
]

X = np.arange(120.0).reshape(40, 3)
Y = np.arange(40) % 2


class Faulty(GaussianToy):
    """Does something bad in every fit whose z is positive; notes each fit in a file, if told where."""

    privacy_params = ("s",)

    def __init__(self, s=1.0, fault="none", notes=None, random_state=None):
        super().__init__(s=s, random_state=random_state)
        self.fault = fault
        self.notes = notes

    def fit(self, X, y=None):
        super().fit(X, y)
        if self.notes is not None:
            with open(self.notes, "a") as file:
                file.write(f"{self.z_:.17g}\n")
        if self.z_ > 0:
            getattr(self, f"_{self.fault}")()
        return self

    def _none(self):
        pass

    def _sleep(self):
        time.sleep(1000)

    def _hang(self):
        ctypes.PyDLL(None).sleep(1000)  # compiled code that never gives the interpreter lock back

    def _kill(self):
        os.kill(os.getpid(), signal.SIGKILL)

    def _segfault(self):
        ctypes.string_at(0)

    def _memory(self):
        raise MemoryError

    def _exit(self):
        raise SystemExit(1)

    def _swallow(self):
        while True:
            with contextlib.suppress(BaseException):
                time.sleep(1000)


class Recorder(Runner):
    seen = None

    def _records(self, *args):
        for record in super()._records(*args):
            Recorder.seen.append(record)
            yield record


@pytest.fixture
def seen(monkeypatch):
    Recorder.seen = []
    monkeypatch.setattr("skdptune.model_selection._search.Runner", Recorder)
    return Recorder.seen


def search(fault, count=6, seed=7, notes=None, **params):
    return PrivateRandomSearchCV(
        Faulty(fault=fault, notes=notes), {"s": [1.0]}, n_iter=Fixed(count), random_state=seed, **params
    )


def expected(count=6, seed=7):
    """Return (failing or not) by position, from a search whose candidate does nothing bad."""
    records = []

    class Full(Recorder):
        def _crew(self, *args):
            return Runner._crew(self, *args[:-1], _engine._Held(None))

        def _records(self, *args):
            for record in Runner._records(self, *args):
                records.append(record)
                yield record

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("skdptune.model_selection._search.Runner", Full)
        search("none", count, seed).fit(X, Y)
    failing = {record.position for record in records if record.model.z_ > 0}
    good = [record for record in records if record.position not in failing]
    assert 0 < len(failing) < count
    return failing, max(good, key=lambda record: record.rank)


# ---------------------------------------------------------------- time


@pytest.mark.parametrize(("fault", "n_jobs"), [("hang", None), ("swallow", 2)])
def test_a_try_that_takes_too_long_is_stopped_and_ranks_last(seen, fault, n_jobs):
    failing, best = expected(4)
    seen.clear()
    start = time.monotonic()
    fitted = search(fault, 4, run_timeout=0.5, n_jobs=n_jobs).fit(X, Y)
    assert time.monotonic() - start < 200
    assert {record.position for record in seen if record.failure == "TimedOut"} == failing
    assert len(seen) == 4
    assert fitted.best_estimator_.z_ == best.model.z_ and fitted.best_score_ == best.score
    assert not _cells_alive()


def test_time_is_kept_whatever_the_engine():
    _, best = expected(4)
    with joblib.parallel_config("threading", n_jobs=2):
        fitted = search("hang", 4, run_timeout=0.5).fit(X, Y)
    assert fitted.best_estimator_.z_ == best.model.z_


def test_a_try_out_of_time_is_never_run_again(tmp_path):
    notes, folder = tmp_path / "notes", tmp_path / "checkpoint"
    failing, _ = expected(4)
    with pytest.raises(RunFailedError, match="TimedOut"):
        search("sleep", 4, notes=str(notes), run_timeout=0.3, checkpoint=folder, error_score="raise").fit(X, Y)
    search("sleep", 4, notes=str(notes), run_timeout=0.3, checkpoint=folder).fit(X, Y)
    late = [line for line in notes.read_text().split() if float(line) > 0]
    assert len(late) == len(set(late)) == len(failing)


def test_all_out_of_time_is_said(seen):
    with pytest.raises(AllRunsFailedError, match="TimedOut"):
        PrivateRandomSearchCV(Sleeper(), {"s": [1.0]}, n_iter=Fixed(2), run_timeout=0.2).fit(X, Y)


class Sleeper(GaussianToy):
    def fit(self, X, y=None):
        time.sleep(1000)


def test_what_a_stopped_try_has_started_is_stopped_too(tmp_path):
    pid = tmp_path / "pid"
    estimator = Starter(note=str(pid))
    with pytest.raises(AllRunsFailedError):
        PrivateRandomSearchCV(estimator, {"s": [1.0]}, n_iter=Fixed(1), run_timeout=1.0).fit(X, Y)
    _wait_until(lambda: not _alive(int(pid.read_text())))


class Starter(GaussianToy):
    def __init__(self, s=1.0, note=None, random_state=None):
        super().__init__(s=s, random_state=random_state)
        self.note = note

    def fit(self, X, y=None):
        child = subprocess.Popen(["sleep", "1000"])
        pathlib.Path(self.note).write_text(str(child.pid))
        child.wait()


def test_a_time_out_in_a_script_and_for_classes_of_a_script(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import time
            import numpy as np
            from sklearn.base import BaseEstimator, ClassifierMixin
            from skdptune import PrivateRandomSearchCV
            from skdptune.run_counts import Fixed

            class Own(ClassifierMixin, BaseEstimator):
                def __init__(self, s=1.0, random_state=None):
                    self.s, self.random_state = s, random_state
                def rdp_curve(self, orders):
                    return np.asarray(orders) / (2 * self.s**2)
                def fit(self, X, y):
                    self.classes_, self.z_ = np.unique(y), self.random_state.normal()
                    if self.z_ > 0.5:
                        time.sleep(1000)
                    return self
                def predict(self, X):
                    return np.zeros(len(X), dtype=int)

            search = PrivateRandomSearchCV(Own(), {"s": [(lambda: 2.0)()]}, n_iter=Fixed(3), run_timeout=2.0)
            search.fit(np.zeros((40, 2)), np.arange(40) % 2)
            print(type(search.best_estimator_).__module__, isinstance(search.best_estimator_, Own))
            """
        )
    )
    command = [sys.executable, str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=_environment(), check=False)
    assert done.stdout.startswith("__main__") or "every try failed" in done.stderr, done.stderr[-2000:]


# ---------------------------------------------------------------- death


@pytest.mark.parametrize(("fault", "failure"), [("memory", "MemoryError"), ("exit", "SystemExit")])
def test_what_is_raised_ranks_last(seen, fault, failure):
    failing, best = expected()
    seen.clear()
    fitted = search(fault).fit(X, Y)
    assert {record.position for record in seen if record.failure == failure} == failing
    assert fitted.best_estimator_.z_ == best.model.z_


def test_a_killed_worker_costs_the_guilty_try_and_nobody_else(seen, tmp_path):
    notes = tmp_path / "notes"
    failing, best = expected(5)
    seen.clear()
    fitted = search("kill", 5, notes=str(notes), n_jobs=2).fit(X, Y)
    assert {record.position for record in seen if record.failure == "WorkerDied"} == failing
    assert sorted(record.position for record in seen) == list(range(5))
    assert fitted.best_estimator_.z_ == best.model.z_
    fits = [float(line) for line in notes.read_text().split()]
    for z in {z for z in fits if z > 0}:
        assert 1 + _cells.RETRIES <= fits.count(z) <= 2 + _cells.RETRIES  # once more in the pool, perhaps


def test_a_crash_in_a_cell_is_the_tries_own(seen):
    failing, best = expected(4)
    seen.clear()
    with joblib.parallel_config("multiprocessing", n_jobs=2):  # a Pool would wait for ever
        fitted = search("segfault", 4).fit(X, Y)
    assert {record.position for record in seen if record.failure == "WorkerDied"} == failing
    assert fitted.best_estimator_.z_ == best.model.z_


def test_a_worker_killed_from_outside_costs_nothing(tmp_path):
    pids = tmp_path / "pids"
    plain = _slow(None, None).fit(X, Y)
    stop = threading.Event()

    def killer():
        while not stop.is_set():
            with contextlib.suppress(Exception):
                pid = int(pids.read_text().split()[-1])
                if pid != os.getpid():
                    os.kill(pid, signal.SIGKILL)
                    return
            time.sleep(0.01)

    thread = threading.Thread(target=killer)
    thread.start()
    try:
        fitted = _slow(str(pids), 2).fit(X, Y)
    finally:
        stop.set()
        thread.join()
    assert fitted.best_estimator_.z_ == plain.best_estimator_.z_
    assert fitted.best_score_ == plain.best_score_


def _slow(note, n_jobs):
    return PrivateRandomSearchCV(Slow(note=note), {"s": [1.0]}, n_iter=Fixed(6), n_jobs=n_jobs, random_state=3)


class Slow(GaussianToy):
    def __init__(self, s=1.0, note=None, random_state=None):
        super().__init__(s=s, random_state=random_state)
        self.note = note

    def fit(self, X, y=None):
        if self.note is not None:
            with open(self.note, "a") as file:
                file.write(f"{os.getpid()}\n")
            time.sleep(0.3)
        return super().fit(X, y)


def test_workers_that_cannot_begin_end_the_search(monkeypatch):
    monkeypatch.setattr(_cells.sys, "executable", "/bin/false")
    with pytest.raises(RunFailedError, match="before it could begin"):
        search("none", run_timeout=5.0).fit(X, Y)


def test_a_candidate_that_a_cell_cannot_load_ends_the_search(monkeypatch):
    with pytest.raises(RunFailedError, match="could not load"):
        PrivateRandomSearchCV(Unloadable(), {"s": [1.0]}, n_iter=Fixed(1), run_timeout=5.0).fit(X, Y)


def _refuse():
    raise ImportError("only in a cell")


class Unloadable(GaussianToy):
    def __getstate__(self):
        return {"s": self.s, "random_state": self.random_state, "more": _Poison()}


class _Poison:
    def __reduce__(self):
        return _refuse, ()


def test_a_refusal_inside_a_cell_reaches_the_caller():
    class Changes(GaussianToy):
        """Costs more in another process than what was priced here."""

        home = os.getpid()

        @property
        def privacy_curve(self):
            return PrivacyCurve.gaussian(self.s if os.getpid() == self.home else self.s / 2)

    with pytest.raises(CandidateRefusedError, match="another privacy curve"):
        PrivateRandomSearchCV(Changes(), {"s": [1.0]}, n_iter=Fixed(1), run_timeout=20.0).fit(X, Y)


def test_cells_draw_what_this_process_draws():
    here = search("none").fit(X, Y)
    there = search("none", run_timeout=60.0).fit(X, Y)
    assert here.best_estimator_.z_ == there.best_estimator_.z_ and here.best_score_ == there.best_score_
    assert b"z_" in pickle.dumps(there)


def test_a_finished_try_whose_record_was_lost_is_run_again_unless_it_was_kept(tmp_path):
    record = _runs.RunRecord(0.5, 1, {}, None, position=0)
    for keeps_best in (False, True):
        folder = tmp_path / str(keeps_best)
        folder.mkdir(mode=0o700)
        vault = _vault.Vault(folder)
        ref = _store.StoreRef(str(folder), "token", keeps_best)
        _store.Store.lay_out(vault, ref, 2)
        store = _store.Store(ref, vault)
        assert store.start(0)
        store.finish(record)
        assert store.start(0) is not keeps_best
        store.close()


class DaskDistributedBackend:
    """As joblib's: nobody is told of a task that the scheduler has failed."""

    cores = 1

    def effective_n_jobs(self, n_jobs):
        return self.cores

    def submit(self, task, callback=None):
        self.future = concurrent.futures.Future()
        return self.future


def test_errors_of_dask_are_heard_and_nothing_is_run_here():
    backend, heard = DaskDistributedBackend(), []
    with _dask_repairs.repaired(backend):
        assert backend.effective_n_jobs(-1) == 2  # with 1, joblib would run the tasks in this process
        backend.submit("task", heard.append).set_exception(KeyError("killed"))
        backend.submit("task", heard.append).set_result("fine")
    assert [type(error) for error in heard] == [KeyError]
    assert backend.effective_n_jobs(-1) == 1 and "submit" not in vars(backend)


# ---------------------------------------------------------------- helpers of a try, workers on a cluster


class Forker(GaussianToy):
    """Forks a helper that waits for ever, and is killed in its first fit."""

    def __init__(self, s=1.0, note=None, random_state=None):
        super().__init__(s=s, random_state=random_state)
        self.note = note

    def fit(self, X, y=None):
        with open(self.note, "a") as file:
            file.write(f"{self._helper()}\n")
        with contextlib.suppress(FileExistsError):
            open(f"{self.note}-first", "x").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().fit(X, y)

    def _helper(self):
        return multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,), daemon=True)


class ForkerHere(Forker):
    def _helper(self):
        process = super()._helper()
        process.start()
        return process.pid


class ForkerInC(Forker):
    def _helper(self):
        pid = ctypes.PyDLL(None).fork()  # Python's hooks do not see it
        if pid == 0:
            while True:
                time.sleep(1)
        return pid


@pytest.mark.parametrize(("kind", "limit"), [(ForkerHere, None), (ForkerHere, 60.0), (ForkerInC, None)])
def test_a_killed_try_is_noticed_although_its_helper_lives(tmp_path, seen, kind, limit):
    made = PrivateRandomSearchCV(kind(note=str(tmp_path / "note")), {"s": [1.0]}, n_iter=Fixed(2), run_timeout=limit)
    with joblib.parallel_config("multiprocessing", n_jobs=2):
        made.fit(X, Y)
    assert [record.failure for record in seen] == [None, None]
    helpers = (tmp_path / "note").read_text().split()
    assert len(helpers) == 3
    for pid in helpers:
        _wait_until(lambda pid=pid: not _alive(int(pid)))


class _Elsewhere:
    """A ticket as a worker of a cluster gets it."""

    token, of_a_child = "a shipment", False

    def load(self):
        made = PrivateRandomSearchCV(GaussianToy(), {"s": [1.0]}, n_iter=Fixed(1), run_timeout=60.0)
        kept = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Runner, "best", lambda self, plan, data, seeds, **_: kept.extend((plan, data)))
            with contextlib.suppress(AllRunsFailedError):
                made.fit(X, Y)
        return kept


@pytest.mark.parametrize("told", [True, False])
def test_cells_of_a_worker_go_with_the_search_and_leave_no_file(tmp_path, monkeypatch, told):
    monkeypatch.setenv("JOBLIB_TEMP_FOLDER", str(tmp_path))
    monkeypatch.setattr(_worker._OWN, "IDLE", 1e9 if told else 0.0)
    plan, data = _Elsewhere().load()
    assert _worker._run("a shipment", plan, data, 0, 5, None).failure is None
    assert not list(tmp_path.rglob("payload*"))  # no name, so nothing is left whatever ends the worker
    if told:
        assert _cells_alive()
        _transport._forget("a shipment")
        assert not _cells_alive() and not list(tmp_path.iterdir())
    else:
        _wait_until(lambda: not _cells_alive())


# ---------------------------------------------------------------- Ctrl-C

_INTERRUPTED = """
import os, signal, sys, threading, time
import joblib, numpy as np
from skdptune import PrivateRandomSearchCV
from skdptune.run_counts import Fixed
from tests.candidates.toys import GaussianToy

engine, folder, note = sys.argv[1:]

class Long(GaussianToy):
    def __init__(self, s=1.0, note=None, random_state=None):
        super().__init__(s=s, random_state=random_state)
        self.note = note
    def fit(self, X, y=None):
        with open(self.note, "a") as file:
            file.write(f"{os.getpid()}\\n")
        time.sleep(600)

pressed = []

def press():
    while not os.path.exists(note):
        time.sleep(0.05)
    time.sleep(0.3)
    pressed.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=press, daemon=True).start()
options = {"run_timeout": 500.0} if engine == "cells" else {}
search = PrivateRandomSearchCV(Long(note=note), {"s": [1.0]}, n_iter=Fixed(9), checkpoint=folder, **options)
try:
    with joblib.parallel_config("loky" if engine == "cells" else engine, n_jobs=2):
        search.fit(np.zeros((40, 3)), np.arange(40) % 2)
except KeyboardInterrupt:
    late = time.monotonic() - pressed[0]
    print("caught", [name for name in vars(search) if name.endswith("_")], late < 20, flush=True)
"""


@pytest.mark.parametrize("engine", ["loky", "threading", "cells"])
def test_control_c_stops_at_once_keeps_the_checkpoint_and_publishes_nothing(tmp_path, engine):
    script, folder, note = tmp_path / "script.py", tmp_path / "checkpoint", tmp_path / "note"
    script.write_text(_INTERRUPTED)
    command = [sys.executable, str(script), engine, str(folder), str(note)]
    done = subprocess.run(command, env=_environment(), timeout=100, capture_output=True, text=True, check=False)
    assert done.stdout == "caught [] True\n", done.stderr[-2000:]
    assert done.returncode == 0
    assert (folder / "header").exists()
    for pid in {int(line) for line in note.read_text().split()}:
        _wait_until(lambda pid=pid: not _alive(pid))


@pytest.mark.parametrize("engine", ["loky", "cells"])
def test_workers_follow_a_killed_parent(tmp_path, engine):
    script, folder, note = tmp_path / "script.py", tmp_path / "checkpoint", tmp_path / "note"
    script.write_text(_INTERRUPTED.replace("signal.SIGINT", "signal.SIGKILL"))
    command = [sys.executable, str(script), engine, str(folder), str(note)]
    subprocess.run(command, env=_environment(), timeout=100, stdout=subprocess.DEVNULL, check=False)
    for pid in {int(line) for line in note.read_text().split()}:
        _wait_until(lambda pid=pid: not _alive(pid))


def test_a_try_that_never_lets_go_of_the_interpreter_follows_a_killed_parent(tmp_path):
    script, folder, note = tmp_path / "script.py", tmp_path / "checkpoint", tmp_path / "note"
    text = _INTERRUPTED.replace("signal.SIGINT", "signal.SIGKILL")
    script.write_text(text.replace("time.sleep(600)", "__import__('ctypes').PyDLL(None).sleep(600)"))
    command = [sys.executable, str(script), "cells", str(folder), str(note)]
    subprocess.run(command, env=_environment(), timeout=100, stdout=subprocess.DEVNULL, check=False)
    for pid in {int(line) for line in note.read_text().split()}:
        _wait_until(lambda pid=pid: not _alive(pid))


# ---------------------------------------------------------------- helpers


def _environment():
    return {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *filter(None, [os.environ.get("PYTHONPATH")])])}


def _alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _wait_until(true, seconds=30):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _cells_alive():
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if b"model_selection._cell import main" in path.read_bytes() and _parent(path.parent) == os.getpid():
                found.append(path.parent.name)
    return found


def _parent(path):
    return int((path / "stat").read_text().rpartition(")")[2].split()[1])
