"""Folders for rows: closed to others, removed at the end, and never taken from a search that still runs."""

import errno
import json
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile
import time

import joblib
import numpy as np
import pytest

from skdptune import PrivateRandomSearchCV
from skdptune._exceptions import SkdptuneError, TransportError
from skdptune.model_selection import _engine, _folders, _store
from skdptune.run_counts import Fixed
from tests.candidates.toys import GaussianToy

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX locks")

X = np.arange(120.0).reshape(40, 3)
Y = np.arange(40) % 2


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("JOBLIB_TEMP_FOLDER", str(tmp_path))
    return tmp_path


def test_a_folder_is_closed_to_others_and_dies(place):
    with _folders.private_folder() as folder:
        assert os.path.dirname(folder) == str(place)
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
        assert stat.S_IMODE(os.stat(os.path.join(folder, "owner")).st_mode) == 0o600
        (pathlib.Path(folder) / "map").touch()
    assert not os.path.exists(folder)


def left_behind(place, name="skdptune-1-x", age=0.0, **record):
    """Make a folder as a killed process leaves it: its lock is free."""
    folder = place / name
    folder.mkdir(mode=0o700)
    (folder / "payload").touch()
    known = {"kernel": _folders._kernel(), "namespace": _folders._namespace(), "pid": os.getpid(), "locked": True}
    (folder / "owner").write_text(json.dumps({**known, "started": 1, **record}))
    os.utime(folder, (time.time() - age,) * 2)
    return folder


def test_what_a_killed_search_has_left_is_swept(place):
    folder = left_behind(place)  # its process number is that of a living process, which does not matter
    _folders.sweep()
    assert not folder.exists()


def test_a_search_starts_by_sweeping(place):
    for n_jobs in (1, 2):
        folder = left_behind(place)
        PrivateRandomSearchCV(GaussianToy(), {"s": [1.0]}, n_iter=Fixed(1), n_jobs=n_jobs).fit(X, Y)
        assert not folder.exists() and not list(place.glob("skdptune-*"))


HOLDER = """
import sys
from skdptune.model_selection._folders import private_folder
with private_folder() as folder:
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("unshare", [[], ["unshare", "--pid", "--fork"]], ids=["same namespace", "another one"])
def test_a_living_search_keeps_its_folder_in_whatever_container(place, unshare):
    if unshare and subprocess.run([*unshare, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no right to make a namespace")
    command = [*unshare, sys.executable, "-c", HOLDER]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    folder = holder.stdout.readline().strip()
    try:
        record = json.loads((pathlib.Path(folder) / "owner").read_text())
        assert (record["namespace"] == _folders._namespace()) is not bool(unshare)
        _folders.sweep()
        assert os.path.exists(folder)
    finally:
        subprocess.run(["pkill", "-KILL", "-P", str(holder.pid)], check=False) if unshare else holder.kill()
        holder.wait(timeout=30)
        holder.stdin.close(), holder.stdout.close()
    _folders.sweep()
    assert not os.path.exists(folder)  # killed: the lock went with it


def test_a_folder_of_another_kernel_is_left_alone_for_long(place):
    young, old = (
        left_behind(place, "skdptune-1-a", kernel="other"),
        left_behind(place, "skdptune-1-b", age=_folders.OLD + 9, kernel="other"),
    )
    _folders.sweep()
    assert young.exists() and not old.exists()


def test_where_there_are_no_locks_processes_are_looked_at_in_their_own_namespace_alone(place):
    started = _folders._started("self")
    if started is None:
        pytest.skip("no /proc")
    living = left_behind(place, "skdptune-1-a", locked=False, started=started)
    elsewhere = left_behind(place, "skdptune-1-b", locked=False, namespace="pid:[1]", pid=999999999)
    reused, dead = (
        left_behind(place, "skdptune-1-c", locked=False),
        left_behind(place, "skdptune-1-d", locked=False, pid=999999999),
    )
    _folders.sweep()
    assert living.exists() and elsewhere.exists() and not reused.exists() and not dead.exists()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"kernel": 3}', "\x00" * 9])
def test_an_owner_that_cannot_be_read_is_left_alone_for_long(place, content):
    folder = left_behind(place)
    (folder / "owner").write_text(content)
    _folders.sweep()
    assert folder.exists()


def test_a_folder_that_is_being_made_is_left_alone(place):
    for name, age in (("skdptune-1-a", 0.0), ("skdptune-1-b", 2 * 86400.0)):
        (place / name).mkdir(mode=0o700)
        os.utime(place / name, (time.time() - age,) * 2)
    full = place / "skdptune-1-c"
    full.mkdir()
    (full / "payload").touch()
    os.utime(full, (time.time() - 2 * 86400.0,) * 2)
    _folders.sweep()
    assert sorted(path.name for path in place.iterdir()) == ["skdptune-1-a", "skdptune-1-c"]


def test_links_and_files_of_that_name_are_left_alone(place, tmp_path_factory):
    target = left_behind(tmp_path_factory.mktemp("elsewhere"))
    (place / "skdptune-1-link").symlink_to(target)
    (place / "skdptune-1-file").touch()
    linked = left_behind(place, "skdptune-1-owner")
    (linked / "owner").unlink()
    (linked / "owner").symlink_to(target / "owner")
    _folders.sweep()
    assert target.exists() and linked.exists() and (place / "skdptune-1-file").exists()


def test_a_fork_does_not_remove_the_folder_of_its_parent(place):
    with _folders.private_folder() as folder:
        code = f"""
import os, warnings
warnings.simplefilter("ignore")
from skdptune.model_selection._folders import private_folder
with private_folder() as folder:
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        print(os.path.exists(folder) and os.path.exists({folder!r}))
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split()[-1] == "True"


# ---------------------------------------------------------------- places that are none


class Ledger:
    charges = 0

    def charge(self, spent, delta):
        self.charges += 1


@pytest.mark.parametrize("options", [{"n_jobs": 2}, {"run_timeout": 60.0}])
def test_a_place_that_cannot_be_written_is_a_clear_error_before_anything_is_spent(monkeypatch, tmp_path, options):
    monkeypatch.setenv("JOBLIB_TEMP_FOLDER", str(tmp_path / "missing"))
    ledger = Ledger()
    search = PrivateRandomSearchCV(GaussianToy(), {"s": [1.0]}, n_iter=Fixed(1), ledger=ledger, **options)
    with pytest.raises(TransportError, match="JOBLIB_TEMP_FOLDER is .*missing.*Set JOBLIB_TEMP_FOLDER") as caught:
        search.fit(X, Y)
    assert isinstance(caught.value, SkdptuneError) and not ledger.charges


@pytest.mark.parametrize("options", [{"n_jobs": 2}, {"run_timeout": 60.0}])
@pytest.mark.parametrize("preallocates", [True, False])
def test_rows_without_room_are_told_before_anything_is_spent(monkeypatch, place, options, preallocates):
    def allocate(descriptor, start, size):
        code = errno.ENOSPC if preallocates and size > 2**21 else errno.EINVAL
        raise OSError(code, os.strerror(code))

    def write(descriptor, data, real=os.write):
        if len(data) >= 2**20 and os.fstat(descriptor).st_size >= 2**21:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data)

    monkeypatch.setattr(os, "posix_fallocate", allocate)
    monkeypatch.setattr(os, "write", write)
    ledger = Ledger()
    search = PrivateRandomSearchCV(GaussianToy(), {"s": [1.0]}, n_iter=Fixed(1), ledger=ledger, **options)
    with pytest.raises(TransportError, match=r"about 4\.8 MB.*No space left.*Nothing was spent"):
        search.fit(np.zeros((100_000, 3)), np.arange(100_000) % 2)
    assert not ledger.charges and not os.listdir(place)
    _folders.check_place(2**20)  # as much as there is room for
    assert not os.listdir(place)


def test_a_disk_that_fills_up_after_the_charge_speaks_of_no_checkpoint(monkeypatch, place):
    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(_store, "write_all", full)
    ledger = Ledger()
    search = PrivateRandomSearchCV(GaussianToy(), {"s": [1.0]}, n_iter=Fixed(2), ledger=ledger, n_jobs=2)
    with pytest.raises(TransportError, match="own folder .* cannot be written: No space left") as caught:
        search.fit(X, Y)
    text = str(caught.value)
    assert ledger.charges == 1 and "stays charged: fit again is a new search and a new charge" in text
    assert "checkpoint '" not in text and "where it was" not in text


def test_a_system_that_refuses_what_workers_need_after_the_charge_is_told_so(monkeypatch, place):
    def refused(*args):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    ledger = Ledger()
    search = PrivateRandomSearchCV(GaussianToy(), {"s": [1.0]}, n_iter=Fixed(2), ledger=ledger, n_jobs=2)
    with monkeypatch.context() as patch:
        patch.setattr(_engine, "release_workers", refused)
        assert search.fit(X, Y).best_params_  # a courtesy, for which no result is lost
    monkeypatch.setattr(_engine, "start_workers", refused)
    with pytest.raises(TransportError, match="Too many open files.*stays charged"):
        search.fit(X, Y)
    assert ledger.charges == 2


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors")
@pytest.mark.parametrize("options", [{"n_jobs": 2}, {"run_timeout": 60.0}])
def test_descriptors_that_workers_need_are_asked_for_before_anything_is_spent(options):
    import resource

    ledger = Ledger()
    search = PrivateRandomSearchCV(GaussianToy(), {"s": [1.0]}, n_iter=Fixed(1), ledger=ledger, **options)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = {int(name) for name in os.listdir("/proc/self/fd")}
    free = [number for number in range(200) if number not in opened]
    resource.setrlimit(resource.RLIMIT_NOFILE, (free[7], before[1]))
    try:
        with pytest.raises(TransportError, match="Too many open files.*ulimit -n.*Nothing was spent"):
            search.fit(X, Y)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert not ledger.charges


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors")
def test_threads_need_no_descriptors():
    import resource

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = {int(name) for name in os.listdir("/proc/self/fd")}
    free = [number for number in range(400) if number not in opened]
    resource.setrlimit(resource.RLIMIT_NOFILE, (free[20], before[1]))
    try:
        with joblib.parallel_config(backend="threading", n_jobs=64):
            assert PrivateRandomSearchCV(GaussianToy(), {"s": [1.0]}, n_iter=Fixed(4)).fit(X, Y).best_params_
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_search_in_this_process_needs_no_place(monkeypatch, tmp_path):
    monkeypatch.setenv("JOBLIB_TEMP_FOLDER", str(tmp_path / "missing"))
    assert PrivateRandomSearchCV(GaussianToy(), {"s": [1.0]}, n_iter=Fixed(1)).fit(X, Y).best_params_


def test_memory_that_is_full_or_read_only_is_not_used(monkeypatch, tmp_path):
    monkeypatch.delenv("JOBLIB_TEMP_FOLDER", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    memory = tmp_path / "memory"
    memory.mkdir()
    monkeypatch.setattr(_folders, "_IN_MEMORY", str(memory))
    free = shutil.disk_usage(tmp_path).free
    monkeypatch.setattr(_folders, "_ROOM", 1)
    with _folders.private_folder() as folder:
        assert os.path.dirname(folder) == str(memory)
    with _folders.private_folder(size=free) as folder:  # twice that would be needed
        assert os.path.dirname(folder) == str(tmp_path)
    real = _folders._new

    def read_only(base):
        if base == str(memory):
            raise OSError(30, "Read-only file system")
        return real(base)

    monkeypatch.setattr(_folders, "_new", read_only)
    with _folders.private_folder() as folder:
        assert os.path.dirname(folder) == str(tmp_path)
