"""A worker that stays, and searches that come back to it from other folders or after their files were removed."""

import errno
import multiprocessing.synchronize
import os
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import sklearn

from skdptune import PrivateRandomSearchCV
from skdptune._exceptions import CheckpointError, TransportError
from skdptune.model_selection import _checkpoint, _store, _vault
from skdptune.model_selection._readiness import make_ready
from skdptune.run_counts import Fixed
from tests.candidates.toys import GaussianToy
from tests.model_selection.checkpoint_tools import MARKS, Ledger, X, Y, environment, interrupt, search

pytestmark = MARKS


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path / "search")


def laid_out(folder, token="token"):
    vault = _vault.Vault.make(folder)
    ref = _store.StoreRef(folder, token, True)
    _store.Store.lay_out(vault, ref, 6)
    vault.close()
    return ref


def test_marks_that_were_removed_and_made_anew_are_not_answered_from_memory(folder):
    first = _store.open_store(laid_out(folder))
    first.start(3)
    shutil.rmtree(folder)
    again = _store.open_store(laid_out(folder))
    assert first.mark(3).starts == 1 and again.mark(3).starts == 0 and again is not first


def test_a_copy_of_a_folder_is_opened_where_it_is(folder, tmp_path):
    ref = laid_out(folder)
    copy = str(tmp_path / "copy")
    shutil.copytree(folder, copy)
    os.chmod(copy, 0o700)
    first = _store.open_store(ref)
    first.start(1)
    taken = _store.Store(_store.StoreRef(copy, ref.token, True, ref.sitting)).taken_over(6)
    second = _store.open_store(taken.ref)
    second.start(2)
    shutil.rmtree(folder)
    assert second is not first and second.mark(1).starts == 0 and second.mark(2).starts == 1
    assert taken.mark(2).starts == 1


def test_a_worker_closes_what_it_has_opened_and_not_what_it_was_given(folder):
    ref = laid_out(folder)
    opened = _store.open_store(ref)
    _store.let_go(ref)
    with pytest.raises(CheckpointError, match="is over"):
        opened.start(0)
    given = _store.Store(ref)
    _store.adopt(given)
    _store.let_go(ref)
    assert given.mark(0).starts == 0 and _store.open_store(ref) is given
    _store.forget(ref)
    assert _store.open_store(ref) is None
    given.close()


def open_files(pid):
    folder = f"/proc/{pid}/fd"
    names = [os.path.join(folder, name) for name in os.listdir(folder)]
    return [os.readlink(name) for name in names if os.path.lexists(name)]


class Watched(GaussianToy):
    published_attributes = (*GaussianToy.published_attributes, "pid_")

    def fit(self, X, y=None):
        self.pid_ = os.getpid()
        return super().fit(X, y)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_lokys_workers_hold_no_removed_checkpoint_open(folder):
    made = PrivateRandomSearchCV(Watched(), {"s": [1.0]}, n_iter=Fixed(8), checkpoint=folder, n_jobs=2).fit(X, Y)
    assert made.best_estimator_.pid_ != os.getpid() and not os.path.exists(folder)
    assert not [name for name in open_files(made.best_estimator_.pid_) if folder in name]


# ---------------------------------------------------------------- before anything is spent


@pytest.mark.parametrize("params", [{"n_jobs": 2}, {"n_jobs": 2, "run_timeout": 60.0}])
def test_no_room_for_semaphores_is_told_before_the_charge(monkeypatch, params):
    def full(*arguments, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(multiprocessing.synchronize, "Semaphore", full)
    ledger = Ledger()
    made = PrivateRandomSearchCV(GaussianToy(), {"s": [1.0]}, n_iter=Fixed(2), ledger=ledger, **params)
    with pytest.raises(TransportError, match="No space left.*Make room in /dev/shm.*Nothing was spent"):
        made.fit(X, Y)
    assert ledger.charges == 0
    for one in ({}, {"run_timeout": 60.0}):  # one after the other: none are needed
        make_ready(PrivateRandomSearchCV(GaussianToy(), {"s": [1.0]}, **one))


def test_looking_for_semaphores_leaves_the_start_method_to_the_user():
    code = """
import multiprocessing, sklearn.base
from skdptune import PrivateRandomSearchCV
from skdptune.model_selection._readiness import make_ready
make_ready(PrivateRandomSearchCV(sklearn.base.BaseEstimator(), {}, n_jobs=2))
multiprocessing.set_start_method("spawn")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == 0, done.stderr


# ---------------------------------------------------------------- what must stay the same


def test_the_configuration_of_scikit_learn_must_stay_the_same(folder):
    interrupt(search(folder))
    with sklearn.config_context(transform_output="pandas"):
        with pytest.raises(CheckpointError, match="scikit-learn's transform_output='default', got 'pandas'"):
            search(folder).fit(X, Y)
    with sklearn.config_context(display="text", working_memory=64):
        search(folder).fit(X, Y)


def test_the_version_of_the_library_that_rows_come_from_counts(folder, monkeypatch):
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    interrupt(search(folder), X=frame)
    found = _checkpoint.version_of
    monkeypatch.setattr(_checkpoint, "version_of", lambda name: "0.1" if name == "pandas" else found(name))
    with pytest.raises(CheckpointError, match="written with pandas .*, and this is 0.1"):
        search(folder).fit(frame, Y)
    monkeypatch.undo()
    search(folder).fit(frame, Y)


def test_an_assumption_of_a_value_that_costs_nothing_is_listed():
    class Either(GaussianToy):
        privacy_params = ("s",)

        def __init__(self, s=1.0, open=False, random_state=None):
            super().__init__(s=s, random_state=random_state)
            self.open = open

        @property
        def published_attributes(self):
            return None if self.open else GaussianToy.published_attributes

    def stated(space):
        assumptions = PrivateRandomSearchCV(Either(), space, n_iter=3).privacy_cost(40).assumptions
        return any("declares no published_attributes" in sentence for sentence in assumptions)

    assert not stated({"s": [1.0, 2.0]}) and not stated({"open": [False]})
    assert stated({"s": [1.0, 2.0], "open": [False] * 40 + [True]}) and stated([{"s": [1.0]}, {"open": [True]}])
    assert np.isfinite(PrivateRandomSearchCV(Either(), {"s": [1.0]}, n_iter=3).privacy_cost(40).epsilon(1e-5))
