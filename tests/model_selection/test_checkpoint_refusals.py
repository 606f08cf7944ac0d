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
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import KFold, cross_val_score

from skdptune import PrivateRandomSearchCV
from skdptune._exceptions import CheckpointError, InvalidParameterError, InvalidTypeError
from skdptune.model_selection import _checkpoint, _vault
from skdptune.run_counts import Fixed, FromScipy
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


_CANDIDATE = """
import os
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from skdptune.scoring import AccuracyScorer

SHIFT = 0.0

def shifted(z):
    return z + SHIFT

class Mine(ClassifierMixin, BaseEstimator):
    levels = (0, 1)

    def __init__(self, random_state=None):
        self.random_state = random_state

    def rdp_curve(self, orders):
        return np.asarray(orders) / 2

    def fit(self, X, y):
        if "STOP" in os.environ:
            raise KeyboardInterrupt
        self.classes_, self.z_ = np.array(self.levels), shifted(self.random_state.normal())
        return self

    def predict(self, X):
        return np.full(len(X), int(self.z_ > 0))

class Score(AccuracyScorer):
    weight = 1.0
"""


def _of_a_script(folder, source=_CANDIDATE):
    names = {"__name__": "__main__"}
    exec(compile(source, "script.py", "exec"), names)
    return PrivateRandomSearchCV(
        names["Mine"](), {}, n_iter=Fixed(4), scoring=names["Score"](), classes=[0, 1], checkpoint=folder
    )


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("return z + SHIFT", "return z - SHIFT", "parameter estimator: code of function shifted has changed"),
        ("SHIFT = 0.0", "SHIFT = 9.0", "parameter estimator: global SHIFT that function shifted reads has changed"),
        ("levels = (0, 1)", "levels = (1, 0)", "parameter estimator: attribute levels of class Mine has changed"),
        ("self.z_ > 0", "self.z_ > 1", "parameter estimator: code of function Mine.predict has changed"),
        ("weight = 1.0", "weight = 2.0", "parameter scoring: attribute weight of class Score has changed"),
    ],
)
def test_an_edited_candidate_or_scorer_is_refused_by_name(folder, monkeypatch, before, after, message):
    monkeypatch.setenv("STOP", "1")
    with pytest.raises(KeyboardInterrupt):
        _of_a_script(folder).fit(X, Y)
    monkeypatch.delenv("STOP")
    assert _CANDIDATE.count(before) == 1
    with pytest.raises(CheckpointError, match=message) as caught:
        _of_a_script(folder, _CANDIDATE.replace(before, after)).fit(X, Y)
    assert "another folder" in str(caught.value) and "the first one stays" in str(caught.value)
    # what sets nothing may be edited
    _of_a_script(folder, "# a remark\n\n" + _CANDIDATE).fit(X, Y)
    assert not os.path.exists(folder)


def _weights(*parts):
    return scipy.stats.rv_discrete(values=(range(1, len(parts) + 1), parts))()


def test_a_class_that_counts_its_fits_is_sent_to_a_new_process(folder):
    source = _CANDIDATE.replace(
        "    def fit(self, X, y):\n", "    def fit(self, X, y):\n        Mine.levels = (0, 1, 2)\n"
    )
    made = _of_a_script(folder, source)
    os.environ["STOP"] = "1"
    try:
        with pytest.raises(KeyboardInterrupt):
            made.fit(X, Y)
    finally:
        del os.environ["STOP"]
    with pytest.raises(CheckpointError, match="attribute levels of class Mine has changed.*in a new process"):
        made.fit(X, Y)
    _of_a_script(folder, source).fit(X, Y)  # classes as a new process has them


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("n_iter", lambda parts: FromScipy(_weights(*parts))),
        ("param_distributions", lambda parts: {"s": _weights(*parts)}),
    ],
)
def test_other_weights_of_a_distribution_are_refused(folder, name, kinds):
    interrupt(search(folder).set_params(**{name: kinds([0.0, 0.25, 0.75])}), after=0)
    with pytest.raises(CheckpointError, match=f"another {name}|{name}="):
        search(folder).set_params(**{name: kinds([0.0, 0.75, 0.25])}).fit(X, Y)
    search(folder).set_params(**{name: kinds([0.0, 0.25, 0.75])}).fit(X, Y)


def test_rows_are_numbered_anew_so_another_index_is_the_same_table_and_another_name_is_not(folder):
    frame = pd.DataFrame(X, columns=list("abc"))
    interrupt(search(folder), X=frame)
    with pytest.raises(CheckpointError, match=r"another X \(X: its column names has changed\)|column names"):
        search(folder).fit(frame.rename_axis(columns="kind"), Y)
    search(folder).fit(frame.set_axis(range(5, 45)), Y)


def test_what_cannot_be_compared_is_refused_before_it_costs(folder):
    ledger, scorer = Ledger(), _of_a_script(folder).scoring
    type(scorer).lines = (line for line in ())
    with pytest.raises(InvalidParameterError, match="scoring is unchanged.*generator.*attribute lines of class Score"):
        search(folder, ledger=ledger, scoring=scorer).fit(X, Y)
    assert ledger.charges == 0 and os.listdir(folder) == ["lock"]


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


@pytest.mark.parametrize("loaded", [True, False])
def test_of_optional_libraries_only_loaded_ones_count(folder, monkeypatch, loaded):
    if loaded:
        monkeypatch.setitem(sys.modules, "opacus", sys)
    else:
        monkeypatch.delitem(sys.modules, "opacus", raising=False)
    interrupt(search(folder))
    real = _checkpoint.importlib.metadata.version
    other = {"opacus": "77.0"}  # pip install opacus, meanwhile, for something else
    monkeypatch.setattr(_checkpoint.importlib.metadata, "version", lambda name: other.get(name) or real(name))
    if loaded:
        with pytest.raises(CheckpointError, match=r"opacus .*and this is 77\.0"):
            search(folder).fit(X, Y)
    else:
        search(folder).fit(X, Y)


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


# ---------------------------------------------------------------- paths


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        ("a\0b", InvalidParameterError, "a path that this file system can hold"),
        ("a\ud800b", InvalidParameterError, "a path that this file system can hold"),
        ("~no_such_user_here/kept", InvalidParameterError, "home folder of a user that exists"),
        (7, InvalidTypeError, "path of a folder"),
        (True, InvalidTypeError, "path of a folder"),
        (["a"], InvalidTypeError, "path of a folder"),
        ("x" * 5000, CheckpointError, "cannot be made"),
        ("/dev/null/kept", CheckpointError, "cannot be made"),
        ("/dev/null", CheckpointError, "must be a folder"),
    ],
)
def test_paths_that_cannot_be_are_refused(path, error, message):
    ledger = Ledger()
    with pytest.raises(error, match=message):
        search(path, ledger=ledger).fit(X, Y)
    assert ledger.charges == 0


def test_home_is_where_it_is_for_the_user(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    interrupt(search("~/kept"))
    assert (tmp_path / "kept" / "header").exists() and not (tmp_path / "~").exists()
    search(pathlib.Path("~/kept")).fit(X, Y)
    assert os.listdir(tmp_path) == []


def test_a_working_folder_that_is_gone_is_said(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(CheckpointError, match="cannot be made"):
        search("kept").fit(X, Y)


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


def _swap(begun, name, kind):
    path = os.path.join(begun, name)
    if os.path.exists(path):
        os.rename(path, os.path.join(os.path.dirname(begun), "aside"))
    {"folder": os.mkdir, "loop": lambda p: os.symlink(name, p), "pipe": lambda p: os.mkfifo(p, 0o600)}[kind](path)


@pytest.mark.parametrize("kind", ["folder", "loop", "pipe"])
@pytest.mark.parametrize("name", ["header", "marks", "charge", "lock", "best-0", ".partial-1-2-header"])
def test_other_things_in_the_place_of_files_are_refused_and_leave_nothing_open(folder, name, kind):
    ledger = Ledger()
    interrupt(search(folder, ledger=ledger))
    _swap(folder, name, kind)
    if name.startswith(".partial") and kind != "folder":  # swept, whatever they are
        search(folder, ledger=ledger).fit(X, Y)
        return
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else None
    with pytest.raises(CheckpointError, match="cannot be trusted|not a plain file"):
        search(folder, ledger=ledger).fit(X, Y)
    assert before is None or len(os.listdir("/proc/self/fd")) <= before  # others may be collected meanwhile
    assert ledger.charges == 1


def test_a_disk_that_cannot_be_read_is_a_clear_error(begun, monkeypatch):
    def fails(*_):
        raise OSError(5, "Input/output error")

    for name in ("listdir", "pread"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, fails)
            with pytest.raises(CheckpointError, match="Input/output error.*charged"):
                search(begun).fit(X, Y)
    search(begun).fit(X, Y)


def test_a_folder_may_be_moved(begun, tmp_path):
    os.rename(begun, tmp_path / "elsewhere")
    search(tmp_path / "elsewhere").fit(X, Y)
    assert os.listdir(tmp_path) == []


def test_the_umask_of_the_user_does_not_matter(folder):
    before = os.umask(0o277)
    try:
        interrupt(search(folder))
        assert os.stat(os.path.join(folder, "marks")).st_mode & 0o777 == 0o600
        search(folder).fit(X, Y)
    finally:
        os.umask(before)


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
    with pytest.raises(CheckpointError, match="header.*damaged"):  # not if a run has left a record: nothing is lost
        search(begun, random_state=5, ledger=ledger).fit(X, Y)
    for name in os.listdir(begun):
        if name.startswith("best-"):
            os.unlink(os.path.join(begun, name))
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


def test_a_candidate_that_costs_less_now_is_not_resumed(tmp_path, monkeypatch):
    """What a candidate reads from elsewhere is not compared: what it costs must be compared by itself."""

    class Elsewhere(ClassifierMixin, BaseEstimator):
        def rdp_curve(self, orders):
            return np.asarray(orders) / (2 * float(os.environ["SCALE"]) ** 2)

        def fit(self, X, y):
            if "STOP" in os.environ:
                raise KeyboardInterrupt
            self.classes_ = np.unique(y)
            return self

        def predict(self, X):
            return np.zeros(len(X), dtype=int)

    path = tmp_path / "kept"
    search = PrivateRandomSearchCV(Elsewhere(), {}, n_iter=Fixed(3), classes=[0, 1], checkpoint=path)
    rows = np.zeros((60, 1)), np.arange(60) % 2
    monkeypatch.setenv("SCALE", "1.0")
    monkeypatch.setenv("STOP", "1")
    with pytest.raises(KeyboardInterrupt):
        search.fit(*rows)
    monkeypatch.setenv("SCALE", "10.0")
    monkeypatch.delenv("STOP")
    with pytest.raises(CheckpointError, match="another price"):
        search.fit(*rows)
    assert not hasattr(search, "privacy_spent_")
    monkeypatch.setenv("SCALE", "1.0")
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
