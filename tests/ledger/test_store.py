"""Files that cannot be used, and machines that stop at the wrong moment."""

import os
import random
import resource
import shutil
import signal
import sqlite3
import tempfile
import time
from pathlib import Path

import pytest

from skdptune._exceptions import InvalidParameterError, LedgerError
from skdptune.accounting import PrivacyCurve
from skdptune.ledger import PrivacyLedger, _store

PURE = PrivacyCurve.pure(0.001)

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.fixture
def ledger(tmp_path):
    return PrivacyLedger(tmp_path / "a.ledger", epsilon=1000.0, delta=0)


def in_a_child(work):
    """Run ``work()`` in a forked child; return what it returned or raised, as text."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            text = f"returned {work()!r}"
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text


# ---------------------------------------------------------------------- files that cannot be used


@pytest.mark.parametrize("content", [b"", b"hello", b"SQLite format 3\0" + bytes(200), os.urandom(9000)])
def test_another_kind_of_file_is_refused_and_left_alone(tmp_path, content):
    path = tmp_path / "file"
    path.write_bytes(content)
    for opening in (PrivacyLedger.open, lambda path: PrivacyLedger(path, 1.0, 0)):
        with pytest.raises(LedgerError, match="path must be a .*ledger"):
            opening(path)
    assert path.read_bytes() == content


def test_another_database_is_refused(tmp_path):
    connection = sqlite3.connect(tmp_path / "other.db")
    connection.execute("CREATE TABLE entries (x)")
    connection.commit()
    connection.close()
    with pytest.raises(LedgerError, match="another kind of file"):
        PrivacyLedger(tmp_path / "other.db", 1.0, 0)


def test_a_newer_format_is_refused(ledger):
    connection = sqlite3.connect(ledger.path)
    connection.execute("PRAGMA user_version = 2")
    connection.close()
    with pytest.raises(LedgerError, match="format 2.*newer version of skdptune"):
        PrivacyLedger.open(ledger.path)


def test_a_newer_format_is_refused_by_who_holds_the_ledger_already(ledger):
    reserved = ledger.reserve("ben", PURE)
    connection = sqlite3.connect(ledger.path)
    connection.execute("PRAGMA user_version = 2")
    for use in (lambda: ledger.charge_curve(PURE, "count"), lambda: ledger.reserve("cy", PURE),
                lambda: ledger.claim("ben").charge(PURE), lambda: ledger.spent):  # fmt: skip
        with pytest.raises(LedgerError, match="format 2.*newer version of skdptune"):
            use()
    connection.execute("PRAGMA user_version = 1")
    connection.close()
    assert ledger.entries() == (reserved,)


def test_a_ledger_can_be_used_by_its_maker_whatever_the_umask(tmp_path):
    before = os.umask(0o777)
    try:
        PrivacyLedger(tmp_path / "a.ledger", epsilon=1.0, delta=0).charge_curve(PURE, "count")
    finally:
        os.umask(before)
    assert os.stat(tmp_path / "a.ledger").st_mode & 0o777 == 0o600


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(LedgerError, match="path must be"):
        PrivacyLedger(tmp_path, 1.0, 0)
    with pytest.raises(LedgerError, match="cannot .No such file or directory.. Nothing was spent"):
        PrivacyLedger(tmp_path / "no" / "such", 1.0, 0)


def test_a_link_that_leads_nowhere_is_refused(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    with pytest.raises(LedgerError, match="there is no file"):
        PrivacyLedger(tmp_path / "link", 1.0, 0)


def test_a_damaged_file_is_refused(ledger):
    for _ in range(30):
        ledger.charge_curve(PURE, "x" * 400)
    content = bytearray(Path(ledger.path).read_bytes())
    for start in range(4096, len(content), 4096):
        content[start : start + 200] = bytes(200)
    Path(ledger.path).write_bytes(content)
    for using in (lambda: PrivacyLedger.open(ledger.path), ledger.verify, lambda: ledger.charge_curve(PURE, "x")):
        with pytest.raises(LedgerError, match="damaged"):
            using()


def test_a_file_that_may_not_be_written_is_refused_before_anything_is_spent():
    folder = Path(tempfile.mkdtemp())
    try:
        ledger = PrivacyLedger(folder / "a.ledger", epsilon=1.0, delta=0)
        os.chmod(ledger.path, 0o444)
        os.chmod(folder, 0o555)

        def work():
            if os.getuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            return ledger.charge_curve(PURE, "count")

        def creating():
            if os.getuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            return PrivacyLedger(folder / "b.ledger", epsilon=1.0, delta=0)

        told = in_a_child(work)
        assert told.startswith("LedgerError: path must be a ledger that can be used") and "writ" in told
        assert in_a_child(creating).startswith("LedgerError: path must be a place where a ledger can be made")
        assert ledger.entries() == ()
    finally:
        os.chmod(folder, 0o755)
        shutil.rmtree(folder)


@pytest.mark.skipif(os.getuid() != 0, reason="needs two users")
def test_a_reader_who_may_not_write_leaves_nothing_that_locks_the_owner_out():
    folder = Path(tempfile.mkdtemp())
    path = folder / "a.ledger"

    def as_user(number, work):
        def change_and_work():
            os.setgid(number)
            os.setuid(number)
            return work()

        return in_a_child(change_and_work)

    try:
        os.chmod(folder, 0o777)
        making = as_user(65533, lambda: PrivacyLedger(path, epsilon=1.0, delta=0).charge_curve(PURE, "one").seq)
        assert making == "returned 1"
        os.chmod(path, 0o644)
        told = as_user(65534, lambda: PrivacyLedger.open(path).spent)
        assert told.startswith("LedgerError: path must be a ledger that can be used") and "export it" in told
        assert os.listdir(folder) == ["a.ledger"]
        charging = as_user(65533, lambda: PrivacyLedger.open(path).charge_curve(PURE, "two").seq)
        assert charging == "returned 2"
        # and what another program has left is named, with whose it is
        for ending in ("-wal", "-shm"):
            Path(f"{path}{ending}").touch(mode=0o600)
        told = as_user(65533, lambda: PrivacyLedger.open(path).charge_curve(PURE, "three").seq)
        assert "beside it lies 'a.ledger-wal' (of user root), 'a.ledger-shm' (of user root)" in told
    finally:
        shutil.rmtree(folder)


def test_a_full_disk_charges_nothing(ledger, monkeypatch):
    ledger.charge_curve(PURE, "fits")
    real = sqlite3.connect

    def connect(*args, **kwargs):
        connection = real(*args, **kwargs)
        connection.execute("PRAGMA max_page_count = 1")  # as many as there are
        return connection

    monkeypatch.setattr(sqlite3, "connect", connect)
    with pytest.raises(LedgerError, match="disk that is full. Make room; the charge was rolled back"):
        for _ in range(20):
            ledger.charge_curve(PURE, "x", assumptions=["y" * 3000])
    monkeypatch.undo()
    before = len(ledger.entries())
    assert ledger.verify() and ledger.spent == pytest.approx(before * 0.001)
    assert ledger.charge_curve(PURE, "room again").seq == before + 1


def test_a_write_that_fails_half_way_leaves_a_whole_ledger(ledger):
    def work():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
        for number in range(100):
            try:
                ledger.charge_curve(PURE, "x", assumptions=["y" * 3000])
            except LedgerError:
                return number
        return None

    charged = int(in_a_child(work).removeprefix("returned "))
    assert charged > 1 and ledger.verify() and charged <= len(ledger.entries()) <= charged + 1


def test_file_systems_of_many_machines_are_refused(tmp_path, monkeypatch):
    assert _store._file_system("/proc") == "proc"
    assert _store._file_system(str(tmp_path)) not in _store._NETWORK
    monkeypatch.setattr(_store, "_file_system", lambda folder: "nfs4")
    for opening in (PrivacyLedger.open, lambda path: PrivacyLedger(path, 1.0, 0)):
        with pytest.raises(InvalidParameterError, match="on nfs4.*Only the process that calls fit charges"):
            opening(tmp_path / "a.ledger")


def test_somebody_who_never_lets_go_is_named(ledger, monkeypatch):
    monkeypatch.setattr(_store, "_PATIENCE", 0.2)
    holder = sqlite3.connect(ledger.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerError, match="held by other processes"):
        ledger.charge_curve(PURE, "count")
    holder.execute("ROLLBACK")
    holder.close()
    assert ledger.charge_curve(PURE, "count").seq == 1


def test_a_reader_does_not_hold_up_a_charge(ledger, monkeypatch):
    monkeypatch.setattr(_store, "_CHECKPOINT_PATIENCE", 0.05)
    ledger.charge_curve(PURE, "one")
    reader = sqlite3.connect(ledger.path, isolation_level=None)
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM entries").fetchone() == (1,)
    ledger.charge_curve(PURE, "two")
    assert reader.execute("SELECT count(*) FROM entries").fetchone() == (1,)
    reader.close()
    assert [entry.what for entry in ledger.entries()] == ["one", "two"]


# ---------------------------------------------------------------------- machines that stop


def charge_until_killed(path, report, label):
    """Charge for ever, and report each charge after it was acknowledged."""
    ledger = PrivacyLedger.open(path)
    number = 0
    while True:
        token = f"{label}-{number}"
        ledger.charge_once(token, PURE)
        os.write(report, f"{token}\n".encode())
        number += 1


def killed_at_random(ledger, label, rng):
    """Fork a charging child, kill it at a random instant, return the tokens it was told are charged."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            charge_until_killed(ledger.path, write, label)
        finally:
            os._exit(1)
    os.close(write)
    with os.fdopen(read) as pipe:
        told = pipe.readline()  # it is charging by now
        time.sleep(rng.uniform(0.0, 0.06))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return (told + pipe.read()).split()


def check_kills(ledger, rounds, seed):
    rng, told = random.Random(seed), []
    for number in range(rounds):
        told += killed_at_random(ledger, f"r{number}", rng)
        entries = PrivacyLedger.open(ledger.path).entries()
        assert {token for token in told} <= {entry.token for entry in entries}
        # at most the one that was being charged is there without having been acknowledged
        assert len(told) <= len(entries) <= len(told) + number + 1
    assert ledger.spent == pytest.approx(0.001 * len(ledger.entries())) and ledger.verify()


def test_a_kill_at_any_instant_loses_no_acknowledged_charge(ledger):
    check_kills(ledger, 8, seed=0)


@pytest.mark.slow
def test_many_kills_lose_no_acknowledged_charge(ledger):
    check_kills(ledger, 60, seed=1)


def test_a_lost_or_garbled_log_takes_no_acknowledged_charge_with_it(ledger, tmp_path):
    """The power goes while another process has the file open, so that the log is still there; then it is cut."""
    holder = sqlite3.connect(ledger.path)
    holder.execute("SELECT count(*) FROM entries").fetchone()
    for number in range(4):
        ledger.charge_once(str(number), PURE)
    main, log = Path(ledger.path).read_bytes(), Path(f"{ledger.path}-wal").read_bytes()
    holder.close()
    assert len(log) > 4096
    rng = random.Random(2)
    logs = [None, b"", *(log[: rng.randrange(len(log))] for _ in range(12))]
    for _ in range(12):
        garbled = bytearray(log)
        start = rng.randrange(len(log))
        garbled[start : start + 64] = rng.randbytes(len(garbled[start : start + 64]))
        logs.append(bytes(garbled))
    for number, changed in enumerate(logs):
        path = tmp_path / f"copy{number}"
        path.write_bytes(main)
        if changed is not None:
            Path(f"{path}-wal").write_bytes(changed)
        copy = PrivacyLedger.open(path)
        assert [entry.token for entry in copy.entries()] == ["0", "1", "2", "3"] and copy.verify() == ledger.verify()
        assert copy.charge_curve(PURE, "goes on").seq == 5


def test_a_creation_that_was_killed_leaves_no_ledger(tmp_path, monkeypatch):
    def stop(*names):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "link", stop)
    with pytest.raises(KeyboardInterrupt):
        PrivacyLedger(tmp_path / "a.ledger", 1.0, 0)
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []
    assert PrivacyLedger(tmp_path / "a.ledger", 2.0, 0).epsilon == 2.0
