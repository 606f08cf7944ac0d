"""A search that is killed goes on where it was: same tries, same coins, one charge."""

import json
import os
import pathlib
import pickle
import signal
import stat
import subprocess
import sys
import threading
import time

import joblib
import numpy as np
import pytest
from sklearn.base import clone

from skdptune import PrivateRandomSearchCV
from skdptune._exceptions import (
    AllRunsFailedError,
    BudgetExceededError,
    CheckpointError,
    PublicSeedWarning,
    RunFailedError,
)
from skdptune.ledger import PrivacyLedger
from skdptune.model_selection import _checkpoint, _store, _vault
from skdptune.model_selection._search import Runner
from skdptune.run_counts import Finite, Fixed, Geometric
from tests.candidates.toys import GaussianToy
from tests.model_selection.checkpoint_tools import (
    MARKS,
    Interrupts,
    Ledger,
    X,
    Y,
    environment,
    in_child,
    interrupt,
    marks,
    opened,
    outcome,
    search,
)

pytestmark = MARKS


# ---------------------------------------------------------------- going on


def test_an_interrupted_search_goes_on_and_ends_as_it_would_have(folder):
    plain = search(None).fit(X, Y)
    ledger = Ledger()
    first = search(folder, ledger=ledger)
    interrupt(first)
    assert not [name for name in vars(first) if name.endswith("_")]
    before = marks(folder)
    assert sorted(mark.finishes for mark in before.values()) == [0, 0, 0, 1, 1, 1]
    assert not any(mark.starts for mark in before.values() if not mark.finishes)  # Ctrl-C does not count
    again = search(folder, ledger=ledger).fit(X, Y)
    assert outcome(again) == outcome(plain)
    assert ledger.charges == 1
    assert not os.path.exists(folder)


def test_a_replayed_run_is_the_same_run(folder, monkeypatch):
    seen = []

    class Watcher(Runner):
        def _records(self, *args):
            for record in super()._records(*args):
                seen.append(record)
                yield record

    monkeypatch.setattr("skdptune.model_selection._search.Runner", Watcher)
    whole = search(None)
    whole.fit(X, Y)
    uninterrupted = {record.position: record for record in seen}
    seen.clear()
    interrupt(search(folder))
    done = {record.position for record in seen}
    search(folder).fit(X, Y)
    assert len(seen) == 6 == len({record.position for record in seen})
    for record in seen:
        twin = uninterrupted[record.position]
        assert (record.rank, record.failure) == (twin.rank, twin.failure)
        if record.model is not None and twin.model is not None:
            assert record.model.z_ == twin.model.z_ and record.params == twin.params
    assert len(done) == 3


def test_without_a_seed_the_secret_and_the_number_of_tries_stay(folder, monkeypatch):
    search_ = search(folder, random_state=None, n_iter=Geometric(4))
    monkeypatch.setattr(PrivateRandomSearchCV, "_draw_run_count", _at_least_four)
    interrupt(search_)
    header = json.loads(_vault.Vault(folder).read("header"))
    counts = []
    monkeypatch.setattr(
        PrivateRandomSearchCV, "_run", lambda self, plan, data, seeds, store: counts.append((len(seeds), seeds._master))
    )
    search(folder, random_state=None, n_iter=Geometric(4)).fit(X, Y)
    assert counts == [(header["count"], int(header["master"], 16))]


def _at_least_four(self, run_count, master):
    return 4 + master % 3


@pytest.mark.parametrize("engine", ["threading", "loky"])
def test_engines_can_be_changed_between_start_and_resume(begun, engine):
    with joblib.parallel_config(engine, n_jobs=2):
        again = search(begun).fit(X, Y)
    assert outcome(again) == outcome(search(None).fit(X, Y))
    assert not os.path.exists(begun)


class FromOutside(Interrupts):
    """Draws its noise from where no run can set it: a second training would be another one."""

    def _draw(self):
        return float(np.random.default_rng().normal(0.0, self.s))


def test_a_run_whose_record_was_kept_is_not_run_again(folder):
    forever = PrivateRandomSearchCV(FromOutside(), {"s": [1.0]}, n_iter=Fixed(5), checkpoint=folder)
    interrupt(forever, after=1)
    store = opened(folder)
    first = store.best()
    running = _store.Mark(_store.RUNNING, 1).pack(first.position)
    os.pwrite(store._marks, running, _store._FIRST + first.position * 8)  # as if it had been killed just before the end
    store.close()
    interrupt(forever, after=0)
    assert marks(folder, 5)[first.position].final
    again = opened(folder)
    assert again.best().model.z_ == first.model.z_
    again.close()


def test_ten_starts_without_an_end_rank_last(begun):
    waiting = [position for position, mark in marks(begun).items() if not mark.final]
    store = opened(begun)
    for position in waiting:
        for _ in range(10):
            store.start(position)
    store.close()
    Interrupts.left = 0  # would interrupt the first try that is run
    again = search(begun).fit(X, Y)
    assert again.best_params_ is not None


def test_nothing_about_losers_is_on_the_disk(begun):
    names = os.listdir(begun)
    assert len([name for name in names if name.startswith("best-")]) == 1
    assert os.path.getsize(os.path.join(begun, "marks")) == _store._FIRST + 6 * 8


def test_everything_in_the_folder_is_for_its_owner_alone(begun):
    assert stat.S_IMODE(os.stat(begun).st_mode) == 0o700
    for entry in os.scandir(begun):
        assert stat.S_IMODE(entry.stat().st_mode) == 0o600, entry.name
    notice = pathlib.Path(begun, "DO-NOT-PUBLISH.txt").read_bytes()
    assert b"curator" in notice and b"Do not publish" in notice


# ---------------------------------------------------------------- killed at any instant

_EFFECTS = ("pwrite", "fsync", "rename", "unlink", "mkdir", "rmdir", "ftruncate")


def _killed_before(n):
    """Let this process be killed just before its n-th change of the disk."""
    left, fsync = [n], os.fsync

    def tick():
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    for name in _EFFECTS:
        real = getattr(os, name)

        def patched(*args, _real=real, **kwargs):
            tick()
            # a killed process needs no flush: what it wrote is in the system's hands
            return None if _real is fsync else _real(*args, **kwargs)

        setattr(os, name, patched)
    return tick


class _TokenLedger:
    """A file with one line per charge; knows its tokens unless told not to."""

    def __init__(self, path, tick):
        self.path, self.tick = path, tick

    def charge_once(self, token, spent, delta=None):
        self.tick()
        fd = os.open(self.path, os.O_CREAT | os.O_APPEND | os.O_RDWR)
        if token.encode() not in os.read(fd, 10_000):
            os.write(fd, token.encode() + b"\n")
        os.close(fd)
        self.tick()

    charge = None


def _fit_in_child(folder, ledger_path, result, n):
    def work():
        tick = _killed_before(n)
        ledger = _TokenLedger(ledger_path, tick)
        ledger.charge = lambda spent, delta: None  # what makes it a ledger; charge_once is what is called
        fitted = search(folder, ledger=ledger, n_iter=Fixed(4)).fit(X, Y)
        with open(result, "wb") as file:
            pickle.dump(outcome(fitted), file)

    return in_child(work)


@pytest.mark.slow
def test_killed_before_every_single_change_of_the_disk(tmp_path):
    folder, ledger, result = (str(tmp_path / name) for name in ("checkpoint", "ledger", "result"))
    search(None, n_iter=Fixed(4), ledger=Ledger()).privacy_cost(len(X))  # the children find the price in a cache
    expected = outcome(search(None, n_iter=Fixed(4)).fit(X, Y))
    n, ended_early = 0, 0
    while True:
        n += 1
        status = _fit_in_child(folder, ledger, result, n)
        if status == 0:
            break
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, status
        after_the_end = not os.path.exists(os.path.join(folder, "header")) and os.path.exists(ledger)
        ended_early += after_the_end
        assert _fit_in_child(folder, ledger, result, 10**9) == 0, n
        with open(result, "rb") as file:
            assert pickle.load(file) == expected, n
        charges = len(pathlib.Path(ledger).read_text().split())
        assert charges == 1 + after_the_end, n  # a search that had removed its header had ended
        assert not os.path.exists(folder)
        os.unlink(ledger)
        os.unlink(result)
    assert n > 35  # there were that many instants
    assert ended_early <= 9


@pytest.mark.parametrize("steps", [(1, 2, 3, 5, 8), (7, 4, 9, 2), (12, 1, 1, 13), (20, 9, 6)])
def test_several_kills_in_a_row(tmp_path, steps):
    folder, ledger, result = (str(tmp_path / name) for name in ("checkpoint", "ledger", "result"))
    expected = outcome(search(None, n_iter=Fixed(4)).fit(X, Y))
    for n in (*steps, 10**9):
        status = _fit_in_child(folder, ledger, result, n)
        assert (status == 0) == (n == 10**9)
    with open(result, "rb") as file:
        assert pickle.load(file) == expected
    assert len(pathlib.Path(ledger).read_text().split()) == 1


# ---------------------------------------------------------------- the charge


def test_a_ledger_without_tokens_is_charged_again_only_if_it_is_unknown(folder):
    ledger = Ledger()
    interrupt(search(folder, ledger=ledger))
    search(folder, ledger=ledger).fit(X, Y)
    assert ledger.charges == 1
    interrupt(search(folder, ledger=ledger))
    _vault.Vault(folder).write("charge", b"charging")  # killed between the two notes
    search(folder, ledger=ledger).fit(X, Y)
    assert ledger.charges == 3


def test_the_ledger_is_asked_after_the_header_is_written(folder):
    class Looks(Ledger):
        def charge(self, spent, delta):
            super().charge(spent, delta)
            self.names = set(os.listdir(folder))

    ledger = Looks()
    search(folder, ledger=ledger).fit(X, Y)
    assert {"header", "marks", "charge"} <= ledger.names


def test_a_refused_search_leaves_nothing(folder):
    class Refuses(Ledger):
        def charge(self, spent, delta):
            raise BudgetExceededError("too little is left.")

    with pytest.raises(BudgetExceededError):
        search(folder, ledger=Refuses()).fit(X, Y)
    assert not os.path.exists(folder)


def test_a_real_ledger_is_charged_once(tmp_path, folder):
    ledger = PrivacyLedger(str(tmp_path / "ledger.db"), epsilon=100.0, delta=1e-6)
    for _ in range(2):
        interrupt(search(folder, ledger=ledger), after=1)
    search(folder, ledger=ledger).fit(X, Y)
    assert len(ledger.entries()) == 1


# ---------------------------------------------------------------- the end


def test_all_failed_and_no_try_at_all_are_results(folder):
    class Fails(GaussianToy):
        def fit(self, X, y=None):
            raise ValueError("a cell")

    failing = PrivateRandomSearchCV(Fails(), {"s": [1.0]}, n_iter=Fixed(3), checkpoint=folder)
    with pytest.raises(AllRunsFailedError):
        failing.fit(X, Y)
    assert not os.path.exists(folder)
    none = PrivateRandomSearchCV(GaussianToy(), {"s": [1.0]}, n_iter=Finite([1.0 - 1e-12, 1e-12]), checkpoint=folder)
    none.fit(X, Y)
    assert not os.path.exists(folder)


def test_error_score_raise_keeps_the_checkpoint_and_stays_raised(folder):
    class Fails(GaussianToy):
        def fit(self, X, y=None):
            super().fit(X, y)
            if self.z_ > 0:
                raise ValueError("a cell")
            return self

    params = {"n_iter": Fixed(12), "checkpoint": folder, "random_state": 4}
    strict = PrivateRandomSearchCV(Fails(s=1.0), {"s": [1.0]}, error_score="raise", **params)
    with pytest.raises(RunFailedError, match="ValueError"):
        strict.fit(X, Y)
    with pytest.raises(RunFailedError, match="before it was interrupted"):
        clone(strict).fit(X, Y)
    clone(strict).set_params(error_score=np.nan).fit(X, Y)
    assert not os.path.exists(folder)


def test_a_folder_that_cannot_be_removed_is_named(folder, monkeypatch):
    def refuses(path, **kwargs):
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(_checkpoint.os, "rmdir", refuses)
    with pytest.warns(UserWarning, match="could not be removed.*busy"):
        fitted = search(folder, random_state=None).fit(X, Y)
    assert fitted.best_params_ is not None


def test_what_is_published_knows_nothing_of_the_checkpoint(folder, monkeypatch):
    headers = []

    class Looks(Ledger):
        def charge(self, spent, delta):
            headers.append(json.loads(_vault.Vault(folder).read("header")))

    monkeypatch.setattr(PrivateRandomSearchCV, "_draw_run_count", lambda self, run_count, master: 1103)
    fitted = search(folder, random_state=None, ledger=Looks(), n_iter=3).fit(X, Y)
    header = headers[0]
    assert header["count"] == 1103
    fitted.set_params(ledger=None)
    data = pickle.dumps(fitted)
    secret = int(header["master"], 16)
    for trace in (
        header["token"].encode(),
        header["master"].encode(),
        secret.to_bytes(32, "big"),
        secret.to_bytes(32, "little"),
        b"1103",
        b"M" + (1103).to_bytes(2, "little"),  # as pickle writes it
    ):
        assert trace not in data
    assert folder in repr(fitted) and folder.encode() in data
    assert clone(fitted).checkpoint == folder


def test_path_objects_are_paths(tmp_path):
    path = tmp_path / "checkpoint"
    interrupt(search(path))
    assert path.is_dir()
    fitted = search(path).fit(X, Y)
    assert fitted.checkpoint is path and not path.exists()


def test_the_report_says_who_may_read_the_folder(folder):
    texts = search(folder, random_state=None, run_timeout=60).privacy_cost(40).assumptions
    assert "The checkpoint folder is read by the curator alone." in texts
    assert "Whether a run ends within run_timeout does not depend on any private row." in texts
    assert not [text for text in search(None).privacy_cost(40).assumptions if "checkpoint" in text or "timeout" in text]


# ---------------------------------------------------------------- a disk that is full


def _full_after(monkeypatch, n):
    real, left = os.write, [n]

    def write(fd, data):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")
        return real(fd, bytes(data)[: max(1, len(data) // 2)])  # and disks may write less than asked

    monkeypatch.setattr(_vault.os, "write", write)


def test_a_full_disk_is_a_clear_error_at_every_write(folder, monkeypatch):
    expected = outcome(search(None).fit(X, Y))
    ledger = Ledger()
    for n in range(200):
        with monkeypatch.context() as patch:
            _full_after(patch, n)
            try:
                fitted = search(folder, ledger=ledger).fit(X, Y)
                break
            except CheckpointError as error:
                assert "No space left on device" in str(error) and "Make room" in str(error)
                assert ledger.charges <= 1
    assert outcome(fitted) == expected and ledger.charges == 1
    assert n > 5


def test_a_full_disk_in_a_worker_is_a_clear_error(folder):
    code = f"""
import resource, numpy as np, joblib, signal
from skdptune import PrivateRandomSearchCV
from skdptune._exceptions import CheckpointError
from skdptune.run_counts import Fixed
from tests.candidates.toys import GaussianToy
class Full(GaussianToy):
    def fit(self, X, y=None):
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
        return super().fit(X, y)
X, y = np.arange(120.0).reshape(40, 3), np.arange(40) % 2
try:
    PrivateRandomSearchCV(Full(), {{"s": [1.0]}}, n_iter=Fixed(5), checkpoint={folder!r}, n_jobs=2).fit(X, y)
except CheckpointError as error:
    print("clear:", error)
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=100, check=False)
    assert "clear: checkpoint" in done.stdout, done.stderr[-2000:]
    assert "cannot be written: File too large" in done.stdout
    assert os.path.exists(os.path.join(folder, "header"))


def test_what_cannot_be_stored_is_refused_before_it_costs(folder):
    lock = threading.Lock()

    class Locked(GaussianToy):
        def fit(self, X, y=None):
            with lock:
                return super().fit(X, y)

    ledger = Ledger()
    with pytest.raises(CheckpointError, match="cannot be pickled"):
        PrivateRandomSearchCV(Locked(), {"s": [1.0]}, n_iter=Fixed(2), checkpoint=folder, ledger=ledger).fit(X, Y)
    assert ledger.charges == 0


def test_a_new_folder_is_made_to_last_before_anything_is_written_into_it(folder, monkeypatch):
    synced = []
    monkeypatch.setattr(_vault, "sync_folder", lambda parent: synced.append((parent, os.listdir(parent))))
    _vault.Vault.make(folder).close()
    parent, name = os.path.split(os.path.abspath(folder))
    assert synced == [(parent, [name])]
    _vault.Vault.make(folder).close()
    assert len(synced) == 1


# ---------------------------------------------------------------- many runs


def test_a_store_of_many_runs_is_small_and_quick(folder):
    count = 100_000
    vault = _vault.Vault.make(folder)
    ref = _store.StoreRef(folder, "t", True)
    _store.Store.lay_out(vault, ref, count)
    store = _store.Store(ref, vault)
    start = time.process_time()
    for position in range(0, count, 10):
        store.start(position)
    assert (time.process_time() - start) / (count / 10) < 1e-3
    assert sum(mark.starts for _, mark in store.marks(count)) == count // 10
    assert os.path.getsize(os.path.join(folder, "marks")) < 8 * count + 100
    store.close()


def test_warns_of_seeds_all_the_same(folder):
    with pytest.warns(PublicSeedWarning):
        search(folder).fit(X, Y)
