"""``ledger show`` and ``ledger export``: they read, check, and change nothing."""

import csv
import io
import json
import os
import sqlite3

import pytest

from skdptune import PrivacyCurve
from skdptune.ledger import PrivacyLedger

NOTE = "an old histogram, \u00fcber alles; with a comma, and quite some words after it"


@pytest.fixture
def ledger(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = PrivacyLedger("budget.db", epsilon=2.0, delta=1e-6, dataset="ward register")
    ledger.charge_curve(PrivacyCurve.gaussian(9.0), "a mean")
    ledger.charge_curve(PrivacyCurve.gaussian(9.0), NOTE)
    return ledger


def test_show(ask, ledger):
    found = ask("ledger show budget.db --json")
    assert (found.code, found.err) == (0, "")
    data = found.json
    assert (data["spent"], data["remaining"]) == (ledger.spent, ledger.remaining)
    assert data["head"] == ledger.verify()
    assert [entry["what"] for entry in data["entries"]] == ["a mean", NOTE]
    text = ask("ledger show budget.db").out
    assert max(map(len, text.splitlines())) < 80
    lines = {line.split()[0]: line for line in text.splitlines() if line}
    assert float(lines["spent"].split()[2]) >= ledger.spent  # rounded up
    assert float(lines["left"].split()[2]) <= ledger.remaining  # rounded down
    assert "ward register" in lines["data"]


def test_show_of_pure_budgets(ask, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = PrivacyLedger("pure.db", epsilon=2.0, delta=0.0)
    assert "no entries" in ask("ledger show pure.db").out
    ledger.charge_curve(PrivacyCurve.pure(0.5), "a count")
    assert "infinity (pure epsilons add up)" in " ".join(ask("ledger show pure.db").out.split())
    data = ask("ledger show pure.db --json").json
    assert data["order"] == "inf"
    assert data["spent"] == 0.5


def test_show_of_promises_tells_what_was_charged(ask, tmp_path, monkeypatch):
    """At order infinity a charge may be priced at a smaller delta, and then costs more than alone."""
    monkeypatch.chdir(tmp_path)
    ledger = PrivacyLedger("endless.db", epsilon=1.0, delta=1e-6, order=float("inf"))
    entry = ledger.charge_curve(PrivacyCurve.gaussian(40.0), "a mean")
    assert entry.rdp == ledger.spent > 2 * entry.epsilon
    text = ask("ledger show endless.db").out
    words = " ".join(text.split())
    assert "pure epsilons" not in words and "(epsilon, delta) promises add up" in words
    head, row = (next(line for line in text.splitlines() if mark in line) for mark in ("when (UTC)", "a mean"))
    assert head.split()[-2:] == ["charged", "epsilon"]
    charged, alone = map(float, row.split()[-2:])
    assert entry.rdp <= charged < 1.01 * entry.rdp and entry.epsilon <= alone < 1.01 * entry.epsilon
    assert "what was added to the total" in words and "its epsilon may be more than what the charge alone" in words
    assert max(map(len, text.splitlines())) < 80


def test_export_is_safe_for_terminals_and_spreadsheets(ask, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = PrivacyLedger("odd.db", epsilon=9.0, delta=1e-6)
    texts = ["=HYPERLINK(1)\x1b[2J", "+1", " -1", "@a", "\uff1d1", "plain \u202e\x9b", "a-b = c"]
    for text in texts:
        ledger.charge_curve(PrivacyCurve.gaussian(90.0), text)
    ledger.reserve("x", PrivacyCurve.gaussian(90.0))
    ledger.release("x", "no need")
    out = ask("ledger export odd.db --format csv").out
    assert not any(sign in out for sign in "\x1b\x9b\u202e")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["what"] for row in rows[:7]] == [
        "'=HYPERLINK(1)\\x1b[2J", "'+1", "' -1", "'@a", "'\uff1d1", "plain \\u202e\\x9b", "a-b = c",
    ]  # fmt: skip
    assert float(rows[-1]["rdp"]) < 0  # a number is no formula
    out = ask("ledger export odd.db").out
    assert not any(sign in out for sign in "\x1b\x9b\u202e")
    assert [entry["what"] for entry in json.loads(out)["entries"]][:7] == texts  # the JSON holds them as they are


def test_export(ask, ledger, tmp_path):
    rows = list(csv.DictReader(io.StringIO(ask("ledger export budget.db --format csv").out)))
    assert [row["what"] for row in rows] == ["a mean", NOTE]
    assert json.loads(ask("ledger export budget.db").out) == json.loads(ledger.to_json())
    found = ask("ledger export budget.db --output entries.json")
    assert found.out == "2 entries written to entries.json\n"
    assert json.loads((tmp_path / "entries.json").read_text("utf-8")) == json.loads(ledger.to_json())
    assert sorted(path.name for path in tmp_path.glob("*entries*")) == ["entries.json"]


def test_export_overwrites_only_if_told(ask, ledger, tmp_path):
    (tmp_path / "entries.csv").write_text("mine")
    found = ask("ledger export budget.db --format csv --output entries.csv")
    assert found.code == 2
    assert "entries.csv exists" in found.err
    assert (tmp_path / "entries.csv").read_text() == "mine"
    assert ask("ledger export budget.db --format csv --output entries.csv --force").code == 0
    assert "a mean" in (tmp_path / "entries.csv").read_text("utf-8")


def test_a_file_that_cannot_be_written_is_code_4_and_leaves_nothing(ask, ledger, tmp_path):
    found = ask("ledger export budget.db --output no/entries.json")
    assert found.code == 4
    assert found.err.count("\n") == 1
    assert not (tmp_path / "no").exists()


def test_contradictions_are_said(ask, ledger):
    assert ask("ledger export budget.db --format csv --json").code == 2


def test_an_edited_history_is_code_4(ask, ledger):
    with sqlite3.connect("budget.db") as connection:
        triggers = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for (name,) in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        table = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE '%rdp%hash%'"
        ).fetchone()[0]
        connection.execute(f"UPDATE {table} SET rdp = 0.0 WHERE seq = 1")
    connection.close()
    for line in ("ledger show budget.db", "ledger export budget.db"):
        found = ask(line)
        assert (found.code, found.out) == (4, ""), found
        assert found.err.startswith("skdptune: error: ")
        assert found.err.count("\n") == 1


def test_what_is_no_ledger_is_code_4(ask, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.db").write_text("not a database at all, but long enough to look like one" * 40)
    for name in ("text.db", "missing.db"):
        found = ask(f"ledger show {name}")
        assert (found.code, found.out) == (4, "")
        assert found.err.count("\n") == 1
    assert not (tmp_path / "missing.db").exists()  # nothing was created by looking


def test_reading_changes_nothing(ask, ledger, tmp_path):
    before = ledger.verify()
    ask("ledger show budget.db")
    ask("ledger export budget.db")
    assert ledger.verify() == before
    assert len(ledger.entries()) == 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_code_4(ask, ledger, tmp_path):
    (tmp_path / "budget.db").chmod(0)
    assert ask("ledger show budget.db").code == 4


_PARTS = ["budget.db-wal", "budget.db-shm", "budget.db-journal", "./budget.db", "link.db"]


@pytest.mark.parametrize("name", _PARTS)
def test_an_export_never_replaces_a_part_of_its_ledger(ask, ledger, tmp_path, name):
    (tmp_path / "link.db").symlink_to("budget.db")
    found = ask("ledger", "export", "budget.db", "--force", "--output", name)
    assert (found.code, found.out) == (2, "")
    assert "must not be the ledger itself" in found.err
    assert len(PrivacyLedger.open("budget.db").entries()) == 2


def test_force_replaces_files_alone(ask, ledger, tmp_path):
    os.mkfifo("pipe")
    reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert ask("ledger export budget.db --force --output pipe").code == 0
        assert json.loads(os.read(reader, 1 << 20)) == json.loads(ledger.to_json())
    finally:
        os.close(reader)
    assert (tmp_path / "pipe").is_fifo()  # written to, not replaced by a file
    found = ask("ledger", "export", "budget.db", "--force", "--output", str(tmp_path))
    assert (found.code, "is a folder" in found.err) == (2, True)
    assert ask("ledger", "export", "budget.db", "--output", "").code == 2


def test_a_terminal_obeys_nothing_that_a_ledger_says(ask, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = PrivacyLedger("odd.db", epsilon=2.0, delta=1.23456789e-6, dataset="a\x1b[31m\u202e")
    ledger.charge_curve(PrivacyCurve.gaussian(9.0), "b\x07\n\x9b31m")
    text = ask("ledger show odd.db").out
    assert not {"\x1b", "\u202e", "\x07", "\x9b"} & set(text)
    assert "at delta 1.23456789e-06," in text


def test_an_export_to_a_file_answers_in_json_if_asked(ask, ledger):
    for form in ("json", "csv"):
        line = f"ledger export budget.db --format {form} --output entries.{form}"
        found = ask(f"{line} --json")
        assert (found.code, found.err) == (0, "")
        assert found.json == {
            "command": "ledger export", "path": "budget.db", "output": f"entries.{form}", "format": form, "written": 2,
        }  # fmt: skip
    assert ask("ledger export budget.db --json").json == json.loads(ledger.to_json())


def test_a_history_cut_short_is_seen_by_a_head_that_was_kept(ask, ledger):
    kept = ask("ledger show budget.db --json").json["head"]
    text = " ".join(ask(f"ledger show budget.db --head {kept}").out.split())
    assert "unbroken, and it holds the head that was kept" in text
    assert ask(f"ledger show budget.db --head {kept} --json").json["kept_head"] == kept
    with sqlite3.connect("budget.db") as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute("DELETE FROM entries WHERE seq = 2")
    connection.close()
    text = " ".join(ask("ledger show budget.db").out.split())
    assert "unbroken as far as the file itself shows (not seen: entries taken off its end" in text
    for line in ("ledger show budget.db", "ledger export budget.db"):
        found = ask(f"{line} --head {kept}")
        assert (found.code, found.out) == (4, "")
        assert "no longer contains the entry" in found.err
    for wrong in ("abc", "G" * 64):
        found = ask(f"ledger show budget.db --head {wrong}")
        assert found.code == 2 and "--head must be a hash of 64 signs" in found.err


def test_a_folder_is_said_to_be_one(ask, tmp_path):
    found = ask("ledger", "show", str(tmp_path))
    assert found.code == 4
    assert "is a directory" in found.err and "hard links" not in found.err
