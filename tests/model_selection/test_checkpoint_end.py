"""What a kill, a power cut or a worker left behind can do to the end of a search: no outcome is drawn twice."""

import os
import pathlib
import shutil
import signal
import stat

import numpy as np
import pytest

from skdptune import PrivateRandomSearchCV
from skdptune._exceptions import CheckpointError
from skdptune.model_selection import _checkpoint, _folders, _store, _vault
from skdptune.model_selection._runs import OVER, RunRecord
from skdptune.model_selection._worker import settle
from skdptune.run_counts import Fixed
from tests.candidates.toys import GaussianToy
from tests.model_selection.checkpoint_tools import (
    MARKS,
    Interrupts,
    Ledger,
    X,
    Y,
    in_child,
    interrupt,
    marks,
    opened,
    search,
)

pytestmark = MARKS


class FromOutside(Interrupts):
    """Draws its noise from where no run can set it, and counts its fits in a file."""

    def _draw(self):
        with open(os.environ["FITS"], "a") as file:
            file.write("x")
        return float(np.random.default_rng().normal(0.0, self.s))


@pytest.fixture
def fits(tmp_path, monkeypatch):
    monkeypatch.setenv("FITS", str(tmp_path / "fits"))
    return lambda: os.path.getsize(os.environ["FITS"])


def outside(folder, **params):
    return PrivateRandomSearchCV(FromOutside(), {"s": [1.0]}, n_iter=Fixed(5), checkpoint=folder, **params)


def killed_at(change, number, folder):
    """Fit until just before the ``number``-th call of ``os.<change>`` that ends the search or removes the folder."""
    real, left = getattr(os, change), [number]

    def kills(name, *args, **kwargs):
        if args == () or args[0] == "ended":
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
        return real(name, *args, **kwargs)

    def work():
        setattr(os, change, kills)
        outside(folder).fit(X, Y)

    return os.WTERMSIG(in_child(work))


# ---------------------------------------------------------------- killed while the folder is removed


def test_killed_just_before_the_end_publishes_what_was_kept_and_runs_nothing(folder, fits):
    assert killed_at("rename", 1, folder) == signal.SIGKILL
    assert fits() == 5 and all(mark.final for mark in marks(folder, 5).values())
    store = opened(folder)
    kept = store.best()
    store.close()
    made = outside(folder).fit(X, Y)
    assert fits() == 5 and made.best_estimator_.z_ == kept.model.z_
    assert not os.path.exists(folder)


@pytest.mark.parametrize("number", [1, 2, 4])
def test_killed_during_the_removal_is_after_the_end_and_the_next_search_pays(folder, fits, number):
    assert killed_at("unlink", number, folder) == signal.SIGKILL
    assert "lock" in os.listdir(folder) and "header" not in os.listdir(folder)
    ledger = Ledger()
    outside(folder, ledger=ledger).fit(X, Y)
    assert fits() == 10 and ledger.charges == 1 and not os.path.exists(folder)


def test_an_end_that_cannot_be_noted_is_none(folder, fits, monkeypatch):
    real = os.rename

    def refuses(name, to, **kwargs):
        if to == "ended":
            raise OSError(30, "Read-only file system")
        real(name, to, **kwargs)

    made = outside(folder)
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", refuses)
        with pytest.raises(CheckpointError, match="Read-only file system. Nothing is published"):
            made.fit(X, Y)
    assert not hasattr(made, "best_score_")
    made.fit(X, Y)
    assert fits() == 5 and not os.path.exists(folder)


def test_marks_that_are_gone_are_damage_and_not_a_reason_to_run_all_again(begun):
    os.unlink(os.path.join(begun, "marks"))
    ledger = Ledger()
    with pytest.raises(CheckpointError, match="'marks'.*damaged"):
        search(begun).fit(X, Y)
    assert ledger.charges == 0


# ---------------------------------------------------------------- a power cut


def test_what_a_power_cut_leaves_knows_losers_and_winners_alike(folder, fits, monkeypatch):
    lasting = []
    monkeypatch.setattr(_store, "_flush", lambda fd: lasting.append(os.pread(fd, 1 << 20, 0)))
    made = outside(folder)
    interrupt(made, after=4)
    path = pathlib.Path(folder, "marks")
    path.write_bytes(lasting[-1])  # what was not flushed is lost
    assert fits() == 4 and sum(mark.final for mark in marks(folder, 5).values()) == 4
    made.fit(X, Y)
    assert fits() == 5


# ---------------------------------------------------------------- a worker left behind


def winner(position):
    return RunRecord(1e9, 1, {"s": 1.0}, None, position=position)


def test_what_an_earlier_sitting_still_writes_is_never_read(begun):
    left_behind = opened(begun)
    waiting = next(position for position, mark in marks(begun).items() if not mark.final)
    before = left_behind.best().rank
    now = left_behind.taken_over(6)
    left_behind.start(waiting)
    left_behind.finish(winner(waiting))
    assert now.best().rank == before and not now.mark(waiting).final and now.mark(waiting).starts == 0
    assert _store.open_store(left_behind.ref) is None  # nor does one that begins now find it
    now.close()
    with_now = opened(begun)
    assert with_now.best().rank == before  # nor does the next sitting
    with_now.close()
    left_behind.close()


def test_of_two_workers_that_run_one_try_the_first_to_finish_counts(begun):
    waiting = next(position for position, mark in marks(begun).items() if not mark.final)
    first, second = opened(begun), opened(begun)
    first.start(waiting), second.start(waiting)
    before = first.best().rank
    loser = RunRecord(-1e9, 1, {"s": 1.0}, None, position=waiting)
    assert settle(loser, first, None).position == waiting and settle(winner(waiting), second, None).failure == OVER
    assert first.best().rank == before and first.mark(waiting).finishes == 1
    first.close(), second.close()


def test_a_worker_left_behind_holds_up_neither_the_search_nor_the_removal(begun, monkeypatch):
    expected = search(None).fit(X, Y)
    left_behind = opened(begun)
    real = os.rmdir

    def late(path):
        monkeypatch.setattr(os, "rmdir", real)
        left_behind.finish(winner(5))
        real(path)

    monkeypatch.setattr(_checkpoint.os, "rmdir", late)
    made = search(begun).fit(X, Y)
    assert made.best_score_ == expected.best_score_ and not os.path.exists(begun)
    with pytest.raises(CheckpointError):
        left_behind._best = None
        left_behind.finish(winner(4))
    left_behind.close()


def test_a_new_sitting_that_finds_no_room_changes_nothing(begun, monkeypatch):
    expected = search(None).fit(X, Y)

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "ftruncate", full)
        with pytest.raises(CheckpointError, match="No space left.*Make room"):
            search(begun).fit(X, Y)
    assert search(begun).fit(X, Y).best_score_ == expected.best_score_


def test_what_is_remembered_of_searches_that_are_over_is_bounded(folder):
    for number in range(_store._OVER_LIMIT + 50):
        ref = _store.StoreRef(folder, f"{number}", True)
        _store.adopt(type("Held", (), {"ref": ref}))
        assert _store.open_store(ref).ref is ref
        _store.forget(ref)
        assert _store.open_store(ref) is None
    assert len(_store._OVER) == _store._OVER_LIMIT and not any(key[0] == f"{number}" for key in _store._OPEN)
    before = len(_store._ADOPTED)
    search(folder).fit(X, Y)
    assert len(_store._ADOPTED) == before and len(_store._OPEN) <= _store._OPEN_LIMIT


# ---------------------------------------------------------------- one at a time


def _is_free(folder):
    def work():
        try:
            _checkpoint.Checkpoint(folder)
        except CheckpointError as error:
            return 1 if "in use by another fit" in str(error) else 2
        return 0

    return {0: True, 1: False}[os.WEXITSTATUS(in_child(work))]


def test_the_folder_stays_taken_when_this_process_copies_it(begun, tmp_path):
    held = _checkpoint.Checkpoint(begun)
    shutil.copytree(begun, tmp_path / "copy")
    assert not _is_free(begun)
    held.close()
    assert _is_free(begun)


def test_a_fork_that_outlives_its_parent_does_not_keep_the_folder(begun):
    reading, writing = os.pipe()

    def work():
        held = _checkpoint.Checkpoint(begun)
        child = os.fork()
        if child == 0:
            os.read(reading, 1) if os.close(writing) is None else None  # until the test has ended
            os._exit(0)
        assert held is not None
        os.kill(os.getpid(), signal.SIGKILL)

    assert os.WTERMSIG(in_child(work)) == signal.SIGKILL
    assert _is_free(begun)
    os.close(writing)
    os.close(reading)


# ---------------------------------------------------------------- a folder that goes, or is moved


class Disturbs(GaussianToy):
    """In its third fit it does to the folder what the environment says."""

    def fit(self, X, y=None):
        folder, left = os.environ["FOLDER"], int(os.environ["LEFT"])
        os.environ["LEFT"] = str(left - 1)
        if left == 1 and os.environ["DEED"] == "delete":
            shutil.rmtree(folder)
        elif left == 1:
            os.rename(folder, folder + "-moved")
            if os.environ["DEED"] == "replace":
                os.mkdir(folder)
        return super().fit(X, y)


@pytest.fixture
def disturbed(folder, monkeypatch):
    def make(deed):
        for name, value in {"FOLDER": folder, "DEED": deed, "LEFT": "3"}.items():
            monkeypatch.setenv(name, value)
        return PrivateRandomSearchCV(Disturbs(), {"s": [1.0]}, n_iter=Fixed(5), checkpoint=folder)

    return make


def test_a_deleted_folder_is_no_search_to_go_on_with(disturbed):
    with pytest.raises(CheckpointError, match="is gone: .*cannot be resumed.*a new charge") as caught:
        disturbed("delete").fit(X, Y)
    assert "where it was" not in str(caught.value)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="finds a moved folder in /proc")
@pytest.mark.parametrize(("deed", "stays"), [("move", False), ("replace", True)])
def test_a_moved_folder_is_removed_from_where_it_is(disturbed, folder, deed, stays):
    assert disturbed(deed).fit(X, Y).best_params_  # without a warning
    assert os.path.exists(folder) == stays and not os.path.exists(folder + "-moved")


def test_a_moved_folder_that_nobody_finds_is_not_called_by_its_old_name_alone(folder):
    vault = _vault.Vault.make(folder)
    os.rename(folder, folder + "-moved")
    os.mkdir(folder)
    vault.where = lambda: None  # no /proc
    with pytest.raises(FileNotFoundError):
        vault.remove()
    assert os.path.isdir(folder) and "which was moved while it ran" in vault.left_behind("reason")
    vault.close()


# ---------------------------------------------------------------- modes


@pytest.mark.parametrize("mask", [0o177, 0o277])
def test_folders_can_be_entered_by_their_owner_whatever_the_umask(folder, mask):
    before = os.umask(mask)
    try:
        _vault.Vault.make(folder).close()
        made = _folders._make(0)
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(os.stat(path).st_mode) for path in (folder, made)}
    os.rmdir(made)
    assert modes == {0o700}
    os.chmod(folder, 0o600)  # and one that was there keeps the mode that it has
    _vault.Vault.make(folder).close()
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o600
