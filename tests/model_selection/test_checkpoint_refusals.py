"""A checkpoint of another search, or one that cannot be trusted, read or shared, is refused; nothing is spent."""

import json
import os
import pathlib
import pickle
import subprocess
import sys
import threading

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from sklearn.base import clone
from sklearn.model_selection import KFold, cross_val_score

from skdptune import PrivateRandomSearchCV
from skdptune._exceptions import (
    CheckpointError,
)
from skdptune.model_selection import _checkpoint, _vault
from skdptune.run_counts import Fixed
from tests.candidates.toys import GaussianToy
from tests.model_selection.checkpoint_tools import (
    MARKS,
    Interrupts,
    Ledger,
    X,
    Y,
    environment,
    interrupt,
    marks,
    search,
)

pytestmark = MARKS


# ---------------------------------------------------------------- not the same search


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_iter": Fixed(7)}, r"n_iter=Fixed\(k=6\).*got Fixed\(k=7\)"),
        ({"refit": True}, "refit='winner'.*got True"),
        ({"cv": KFold(1 + 1), "refit": True}, "refit|cv"),
        ({"score_noise": 3.0}, "score_noise='matched'.*got 3.0"),
        ({"delta": 1e-6}, "delta=None.*got 1e-06"),
        ({"classes": [0, 1]}, "classes=None"),
        ({"run_timeout": 60.0}, "run_timeout=None.*got 60.0"),
        ({"relation": "replace-one"}, "relation='zero-out'.*got 'replace-one'"),
        ({"random_state": 12}, "random_state"),
        ({"random_state": None}, "random_state"),
        ({"ledger": Ledger()}, "ledger=None, got a ledger"),
        ({"param_distributions": {"s": [1.0, 2.0, 4.0]}}, "param_distributions"),
        ({"param_distributions": {"s": [1.0, 2.0, 3]}}, "param_distributions"),
        ({"estimator": GaussianToy()}, "estimator=Interrupts.*got GaussianToy"),
        ({"estimator": Interrupts(random_state=4)}, r"estimator=.*got Interrupts\(random_state=4\)"),
    ],
)
def test_another_search_is_refused_and_nothing_is_spent(begun, changes, message):
    before = marks(begun)
    changed = search(begun).set_params(**changes)
    ledger = changed.ledger
    with pytest.raises(CheckpointError, match=message) as caught:
        changed.fit(X, Y)
    assert "Nothing was spent now" in str(caught.value)
    assert ledger is None or ledger.charges == 0
    assert marks(begun) == before
    search(begun).fit(X, Y)  # and the search itself still goes on


def _one_more(array):
    changed = array.copy()
    changed[-1] = changed[0] if array.ndim > 1 else 1 - changed[-1]
    return changed


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ((_one_more(X), Y), "another X"),
        ((X, _one_more(Y)), "another y"),
        ((X.astype(np.float32), Y), "another X"),
        ((pd.DataFrame(X, columns=list("abc")), Y), "another X|column names"),
        ((X[:-1], Y[:-1]), "another X"),
    ],
)
def test_other_rows_are_refused_without_quoting_them(begun, data, message):
    with pytest.raises(CheckpointError, match=message) as caught:
        search(begun).fit(*data)
    assert "119" not in str(caught.value).replace(begun, "")


def test_renamed_columns_are_refused(folder):
    interrupt(search(folder), X=pd.DataFrame(X, columns=list("abc")))
    with pytest.raises(CheckpointError, match="another X|column names"):
        search(folder).fit(pd.DataFrame(X, columns=list("abd")), Y)


@pytest.mark.parametrize("kind", [np.asfortranarray, np.array, lambda X: X.view()])
def test_the_same_rows_in_another_layout_are_the_same_rows(begun, kind):
    search(begun).fit(kind(X), Y)


def test_public_rows_belong_to_the_search(folder):
    public = {"X_public": X + 0.5, "y_public": Y}
    Interrupts.left = 2
    with pytest.raises(KeyboardInterrupt):
        search(folder).fit(X, Y, **public)
    with pytest.raises(CheckpointError, match="another X_public"):
        search(folder).fit(X, Y, X_public=X + 0.25, y_public=Y)
    search(folder).fit(X, Y, **public)


def test_another_version_is_refused(begun, monkeypatch):
    real = _checkpoint.importlib.metadata.version
    monkeypatch.setattr(
        _checkpoint.importlib.metadata, "version", lambda name: "0.0" if name == "scikit-learn" else real(name)
    )
    with pytest.raises(CheckpointError, match=r"scikit-learn \d.*and this is 0\.0"):
        search(begun).fit(X, Y)


def test_another_format_is_refused(begun):
    vault = _vault.Vault(begun)
    header = json.loads(vault.read("header"))
    vault.write("header", json.dumps({**header, "format": 99}).encode())
    with pytest.raises(CheckpointError, match="format 99"):
        search(begun).fit(X, Y)


def test_a_random_state_that_was_used_is_another_one(folder):
    state = np.random.RandomState(3)
    interrupt(search(folder, random_state=state))
    with pytest.raises(CheckpointError, match="pass an integer"):
        search(folder, random_state=state).fit(X, Y)
    search(folder, random_state=np.random.RandomState(3)).fit(X, Y)


def test_distributions_and_functions_are_recognised_after_a_restart(folder):
    space = {"s": scipy.stats.randint(1, 4)}
    interrupt(search(folder).set_params(param_distributions=space))
    scipy.stats.uniform(0, 1).rvs()  # moves the generator that all distributions share
    search(folder).set_params(param_distributions={"s": scipy.stats.randint(1, 4)}).fit(X, Y)


def test_folds_of_a_cross_validation_cannot_share_a_checkpoint(begun):
    with pytest.raises(CheckpointError, match="another X"):
        cross_val_score(search(begun), X, Y, cv=2, error_score="raise")


# ---------------------------------------------------------------- a folder that cannot be trusted or read


def test_links_strangers_and_open_doors_are_refused(tmp_path, folder):
    target = tmp_path / "target"
    target.mkdir(mode=0o700)
    os.symlink(target, folder)
    with pytest.raises(CheckpointError, match="not a link"):
        search(folder).fit(X, Y)
    os.unlink(folder)
    os.mkdir(folder, 0o755)
    with pytest.raises(CheckpointError, match="0755"):
        search(folder).fit(X, Y)
    os.chmod(folder, 0o700)
    pathlib.Path(folder, "notes.txt").write_text("mine")
    with pytest.raises(CheckpointError, match="notes.txt"):
        search(folder).fit(X, Y)
    pathlib.Path(folder, "notes.txt").unlink()
    search(folder).fit(X, Y)  # an empty one is taken
    pathlib.Path(folder).write_text("a file")
    with pytest.raises(CheckpointError, match="folder"):
        search(folder).fit(X, Y)
    with pytest.raises(CheckpointError, match="parent"):
        search(str(tmp_path / "no" / "such")).fit(X, Y)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_a_folder_of_somebody_else_is_refused(begun):
    os.chown(begun, 12345, -1)
    with pytest.raises(CheckpointError, match="owner 12345"):
        search(begun).fit(X, Y)
    os.chown(begun, os.geteuid(), -1)
    os.chown(os.path.join(begun, "header"), 12345, -1)
    with pytest.raises(CheckpointError, match="not a plain file of this user"):
        search(begun).fit(X, Y)


class Bomb:
    """Says so if it is ever unpickled."""

    def __reduce__(self):
        return os._exit, (77,)


@pytest.mark.parametrize("trick", ["mode", "link", "hard link", "pickle", "fifo"])
def test_records_are_checked_before_they_are_unpickled(begun, tmp_path, trick):
    name = next(name for name in os.listdir(begun) if name.startswith("best-"))
    path = os.path.join(begun, name)
    evil = str(tmp_path / "evil")
    pathlib.Path(evil).write_bytes(pickle.dumps(Bomb()))
    os.chmod(evil, 0o600)
    if trick == "mode":
        os.chmod(path, 0o620)
    elif trick == "pickle":
        pathlib.Path(path).write_bytes(pickle.dumps(Bomb()))
    else:
        os.unlink(path)
        {"link": os.symlink, "hard link": os.link, "fifo": lambda _, to: os.mkfifo(to, 0o600)}[trick](evil, path)
    with pytest.raises(CheckpointError, match="trusted|damaged"):
        search(begun).fit(X, Y)


@pytest.mark.parametrize("name", ["header", "marks", "best", "charge"])
@pytest.mark.parametrize("how", ["flip", "cut", "empty"])
def test_damage_is_found(folder, name, how):
    ledger = Ledger()
    interrupt(search(folder, ledger=ledger))
    if name == "best":
        name = next(each for each in os.listdir(folder) if each.startswith("best-"))
    path = pathlib.Path(folder, name)
    data = path.read_bytes()
    if how == "flip":
        at = next(i for i in range(len(data)) if data[i]) if name == "marks" else len(data) // 2
        data = data[:at] + bytes([data[at] ^ 2]) + data[at + 1 :]
    path.write_bytes(data[:-3] if how == "cut" else b"" if how == "empty" else data)
    with pytest.raises(CheckpointError, match="damaged.*stays charged"):
        search(folder, ledger=ledger).fit(X, Y)
    assert ledger.charges == 1


def test_marks_without_the_record_they_vouch_for_are_damage(begun):
    for name in os.listdir(begun):
        if name.startswith("best-"):
            os.unlink(os.path.join(begun, name))
    with pytest.raises(CheckpointError, match="damaged"):
        search(begun).fit(X, Y)


def test_a_header_that_was_never_finished_is_a_new_search(begun):
    header = pathlib.Path(begun, "header")
    header.rename(pathlib.Path(begun, ".partial-1-2-header"))
    ledger = Ledger()
    search(begun, random_state=5, ledger=ledger).fit(X, Y)
    assert ledger.charges == 1


# ---------------------------------------------------------------- one at a time


_INSIDE, _GO = threading.Event(), threading.Event()


class Waits(GaussianToy):
    def fit(self, X, y=None):
        _INSIDE.set()
        assert _GO.wait(20)
        return super().fit(X, y)


def test_two_fits_in_one_process_cannot_share_a_folder(folder):
    _INSIDE.clear()
    _GO.clear()
    slow = PrivateRandomSearchCV(Waits(), {"s": [1.0]}, n_iter=Fixed(2), checkpoint=folder)
    thread = threading.Thread(target=slow.fit, args=(X, Y))
    thread.start()
    assert _INSIDE.wait(20)
    try:
        with pytest.raises(CheckpointError, match="in use by another fit"):
            clone(slow).fit(X, Y)
    finally:
        _GO.set()
        thread.join()
    assert slow.best_params_ == {"s": 1.0}
    assert not os.path.exists(folder)


_HOLDER = """
import sys, time
from skdptune.model_selection._checkpoint import Checkpoint
held = Checkpoint(sys.argv[1])
print("held", flush=True)
time.sleep(60)
"""


def test_two_processes_cannot_share_a_folder_and_a_dead_one_does_not_block(begun):
    holder = subprocess.Popen([sys.executable, "-c", _HOLDER, begun], stdout=subprocess.PIPE, env=environment())
    try:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(CheckpointError, match="in use by another fit"):
            search(begun).fit(X, Y)
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    search(begun).fit(X, Y)


def test_a_candidate_edited_to_cost_less_is_not_resumed(tmp_path):
    """Classes are compared by name: what they cost must be compared by itself."""
    import numpy as np
    from sklearn.base import BaseEstimator, ClassifierMixin

    from skdptune import PrivateRandomSearchCV
    from skdptune.exceptions import CheckpointError
    from skdptune.run_counts import Fixed

    class Edited(ClassifierMixin, BaseEstimator):
        scale, stop = 1.0, True

        def rdp_curve(self, orders):
            return np.asarray(orders) / (2 * self.scale**2)

        def fit(self, X, y):
            if self.stop:
                raise KeyboardInterrupt
            self.classes_ = np.unique(y)
            return self

        def predict(self, X):
            return np.zeros(len(X), dtype=int)

    path = tmp_path / "kept"
    search = PrivateRandomSearchCV(Edited(), {}, n_iter=Fixed(3), classes=[0, 1], checkpoint=path)
    rows = np.zeros((60, 1)), np.arange(60) % 2
    with pytest.raises(KeyboardInterrupt):
        search.fit(*rows)
    Edited.scale, Edited.stop = 10.0, False
    with pytest.raises(CheckpointError, match="another price"):
        search.fit(*rows)
    assert not hasattr(search, "privacy_spent_")
    Edited.scale = 1.0
    assert search.fit(*rows).privacy_spent_.epsilon(1e-5) > 3


def test_a_price_without_a_digest_is_compared_by_what_it_says():
    """A distribution of tries of the user's own class has no digest; its search has a price all the same."""
    import scipy.stats

    from skdptune import PrivateRandomSearchCV
    from skdptune.ledger._digest import curve_digest
    from skdptune.model_selection._checkpoint import _price
    from skdptune.run_counts import FromScipy

    class Own(scipy.stats.rv_discrete):
        def _pmf(self, k):
            return np.where((k >= 1) & (k <= 2), 0.5, 0.0)

    def price(noise):
        tries = FromScipy(Own(a=1, b=2, name="own")())
        spent = PrivateRandomSearchCV(GaussianToy(s=noise), {}, n_iter=tries, classes=[0, 1]).privacy_cost(60)
        assert curve_digest(spent.curve) is None
        return _price(spent)

    assert price(2.0) == price(2.0) != price(3.0)
