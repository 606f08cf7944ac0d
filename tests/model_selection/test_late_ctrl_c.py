"""Ctrl-C at the very end of a search, or while its folder is taken: no result is lost, and no folder stays taken."""

import errno
import os
import signal
import threading

import pytest

from skdptune import PrivateRandomSearchCV
from skdptune.exceptions import AllRunsFailedError, CheckpointError
from skdptune.model_selection import _checkpoint, _outcome, _store
from skdptune.model_selection._late_ctrl_c import LateCtrlC
from skdptune.run_counts import Fixed
from tests.candidates.toys import GaussianToy
from tests.model_selection.checkpoint_tools import Ledger, X, Y

posix = pytest.mark.skipif(os.name != "posix", reason="checkpoints need POSIX locks and modes")
LATE = "Ctrl-C came when the search had ended"


@pytest.fixture(autouse=True)
def ctrl_c_is_pythons():
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals reach the main thread alone")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Fails(GaussianToy):
    def fit(self, X, y=None):
        raise RuntimeError


def search(candidate=None, **params):
    params = {"n_iter": Fixed(2), "delta": 1e-6, "ledger": Ledger(), **params}
    return PrivateRandomSearchCV(candidate or GaussianToy(), {"s": [1.0]}, **params)


def pressed_after(monkeypatch, owner, name, when=lambda *args: True):
    """Press Ctrl-C after the first call of ``owner.name`` for which ``when`` is true."""
    real, left = getattr(owner, name), [1]

    def presses(*args, **kwargs):
        done = real(*args, **kwargs)
        if left and when(*args):
            left.clear()
            signal.raise_signal(signal.SIGINT)
        return done

    monkeypatch.setattr(owner, name, presses)


END = {
    "the note of the end": (os, "rename", lambda *args: args[1] == "ended"),
    "the removal": (os, "rmdir", lambda *args: True),
    "closing the store": (_store.Store, "close", lambda store: not os.path.exists(store.ref.path)),
    "giving the folder back": (_checkpoint._Lock, "release", lambda lock: True),
    "closing the checkpoint": (_checkpoint.Checkpoint, "close", lambda saved: True),
}


@posix
@pytest.mark.parametrize("moment", END)
def test_after_the_end_ctrl_c_takes_nothing_away(moment, tmp_path, monkeypatch):
    made = search(checkpoint=tmp_path / "folder")
    pressed_after(monkeypatch, *END[moment])
    with pytest.warns(UserWarning, match=LATE):
        made.fit(X, Y)
    assert made.best_params_ == {"s": 1.0} and made.ledger.charges == 1
    assert not os.path.exists(tmp_path / "folder")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@posix
def test_the_default_that_is_published_where_all_tries_failed_is_a_result_too(tmp_path, monkeypatch):
    made = search(Fails(), checkpoint=tmp_path / "folder")
    pressed_after(monkeypatch, *END["the note of the end"])
    with pytest.warns(UserWarning, match=LATE), pytest.raises(AllRunsFailedError):
        made.fit(X, Y)
    assert made.best_params_ is None and made.ledger.charges == 1


@posix
def test_an_end_that_could_not_be_noted_is_not_told_as_one(tmp_path, monkeypatch, recwarn):
    made, real = search(checkpoint=tmp_path / "folder"), os.rename

    def fails(old, new, **kwargs):
        if new == "ended":
            signal.raise_signal(signal.SIGINT)
            raise OSError(errno.EIO, "the disk fails")
        return real(old, new, **kwargs)

    monkeypatch.setattr(os, "rename", fails)
    with pytest.raises(CheckpointError, match="Nothing is published"):
        made.fit(X, Y)
    assert not hasattr(made, "best_score_") and not recwarn.list
    monkeypatch.undo()
    made.fit(X, Y)
    assert made.best_params_ == {"s": 1.0} and made.ledger.charges == 1


def test_without_a_checkpoint_from_the_publication_on(monkeypatch):
    made = search()
    pressed_after(monkeypatch, _outcome, "raises_on_all")
    with pytest.warns(UserWarning, match=LATE):
        made.fit(X, Y)
    assert made.best_params_ == {"s": 1.0} and made.ledger.charges == 1


def test_the_last_check_can_be_ended_by_it(monkeypatch):
    made, gone_on = search(), []

    def checks(*args):
        signal.raise_signal(signal.SIGINT)
        gone_on.append(1)

    monkeypatch.setattr(_outcome, "raises_on_all", checks)
    with pytest.warns(UserWarning, match=LATE):
        made.fit(X, Y)
    assert made.best_params_ == {"s": 1.0} and not gone_on


def test_before_the_publication_it_ends_the_search(monkeypatch):
    made = search()
    pressed_after(monkeypatch, type(made), "_run")
    with pytest.raises(KeyboardInterrupt):
        made.fit(X, Y)
    assert not hasattr(made, "best_score_")


def test_a_search_within_a_search_holds_nothing_back(monkeypatch):
    outer = PrivateRandomSearchCV(search(ledger=None, delta=None), {"estimator__s": [1.0]}, n_iter=Fixed(2), delta=1e-6)
    pressed_after(monkeypatch, _outcome, "raises_on_all")
    with pytest.raises(KeyboardInterrupt):
        outer.fit(X, Y)


def test_a_handler_of_somebodys_own_gets_what_was_held_back():
    heard = []
    signal.signal(signal.SIGINT, lambda *args: heard.append(args[0]))
    with pytest.warns(UserWarning, match=LATE), LateCtrlC() as late:
        late.hold()
        signal.raise_signal(signal.SIGINT)
        assert not heard
    assert heard == [signal.SIGINT]


@posix
def test_ctrl_c_while_the_folder_is_taken_leaves_it_free(tmp_path, monkeypatch):
    made = search(checkpoint=tmp_path / "folder")
    pressed_after(monkeypatch, os, "stat", lambda *args: args[0] == "lock")
    with pytest.raises(KeyboardInterrupt) as kept:  # with its traceback, and all that hangs on it
        made.fit(X, Y)
    made.fit(X, Y)
    assert made.ledger.charges == 1 and kept


@pytest.mark.parametrize("refit", [True, "winner"])
def test_a_model_that_cannot_be_copied_loses_no_result(refit, monkeypatch):
    def fails(value):
        raise GeneratorExit

    monkeypatch.setattr(_outcome, "copy", type("Copies", (), {"deepcopy": staticmethod(fails)}))
    made = search(refit=refit).fit(X, Y)
    assert made.best_params_ == {"s": 1.0}
