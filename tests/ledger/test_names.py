"""One ledger under two names, logs of deleted ones, and texts that are none."""

import json
import os
import sqlite3

import pytest

from skdptune._exceptions import BudgetExceededError, InvalidParameterError, InvalidTypeError, LedgerError, PricingError
from skdptune.accounting import PrivacyCurve
from skdptune.ledger import PrivacyLedger, _names
from tests.ledger.test_ledger import search_with

PURE = PrivacyCurve.pure(0.01)


@pytest.fixture
def ledger(tmp_path):
    return PrivacyLedger(tmp_path / "a.ledger", epsilon=1.0, delta=0)


def test_a_hard_link_is_refused_by_both_names(ledger, tmp_path):
    os.link(ledger.path, tmp_path / "b")
    opening, export = (lambda: PrivacyLedger.open(tmp_path / "b")), (lambda: ledger.to_json(tmp_path / "b"))
    for using in (ledger.entries, lambda: ledger.charge(PURE), opening, export):
        with pytest.raises(LedgerError, match="the only name.*hard links"):
            using()
    os.unlink(tmp_path / "b")
    assert ledger.charge(PURE).seq == 1


def test_a_link_made_during_a_charge_rolls_it_back(ledger, tmp_path):
    with pytest.raises(LedgerError, match="hard links"), ledger._store.writing(ledger.identity):
        os.link(ledger.path, tmp_path / "b")
    os.unlink(tmp_path / "b")
    assert ledger.entries() == ()


def test_the_name_that_a_killed_maker_left_is_removed(ledger, tmp_path):
    os.link(ledger.path, tmp_path / ".ledger-ab_12xyz")
    assert ledger.charge(PURE).seq == 1 and not (tmp_path / ".ledger-ab_12xyz").exists()


def test_a_mount_of_the_single_file_is_refused(ledger, tmp_path, monkeypatch):
    line = "36 35 98:0 /x {} rw,noatime shared:1 - ext4 /dev/sda rw\n"
    monkeypatch.setattr(_names, "table_of_mounts", lambda: line.format(tmp_path))
    assert ledger.charge(PURE).seq == 1  # the folder may be one
    monkeypatch.setattr(_names, "table_of_mounts", lambda: line.format(ledger.path))
    for using in (lambda: ledger.charge(PURE), lambda: PrivacyLedger.open(ledger.path)):
        with pytest.raises(LedgerError, match="Mount the folder"):
            using()


@pytest.mark.parametrize("ending", _names.LEFTOVERS)
def test_the_log_of_a_deleted_ledger_is_not_taken_over(tmp_path, ending):
    (tmp_path / f"a{ending}").write_bytes(b"x")
    with pytest.raises(LedgerError, match="nothing of an earlier ledger"):
        PrivacyLedger(tmp_path / "a", 1.0, 0)
    assert os.listdir(tmp_path) == [f"a{ending}"]


def test_an_amount_that_is_no_number_is_damage(ledger):
    ledger.charge(PURE)
    with sqlite3.connect(ledger.path) as connection:
        connection.execute("DROP TRIGGER entries_stay")
        connection.execute("UPDATE entries SET rdp = 'nan'")
    connection.close()
    with pytest.raises(LedgerError, match="damaged .an amount is no number"):
        print(ledger.spent)
    with pytest.raises(LedgerError, match="was edited: entry 1"):  # charges audit first
        ledger.charge(PURE)


STRANGE = {
    "list as slot": lambda body: body["planned"][0].update(slot=[1]),
    "list as kind": lambda body: body.update(kind=["plan"]),
    "endless": lambda body: body.update(epsilon="inf"),
    "no list": lambda body: body.update(planned=3),
}


@pytest.mark.parametrize("kind", STRANGE)
def test_a_row_of_strange_values_is_damage(tmp_path, kind):
    ledger = PrivacyLedger(tmp_path / "plan", 1.0, 0)
    ledger.register_plan([PURE, PURE])
    with sqlite3.connect(ledger.path) as connection:
        connection.execute("DROP TRIGGER entries_stay")
        body = json.loads(connection.execute("SELECT body FROM entries").fetchone()[0])
        STRANGE[kind](body)
        connection.execute("UPDATE entries SET body = ?", (json.dumps(body),))
    connection.close()
    for using in (lambda: ledger.charge(PURE), lambda: ledger.remaining, ledger.plan, ledger.summary, ledger.to_json):
        with pytest.raises(LedgerError, match="damaged"):
            using()


@pytest.mark.parametrize(
    "terms",
    [{"order": 1.0}, {"order": 0.0}, {"epsilon": "nan"}, {"epsilon": "inf"}, {"delta": -1.0}, {"delta_aside": 0.5},
     {"relation": "cousins"}, {"epsilon": 1e-9, "order": 1.5}],
)  # fmt: skip
def test_terms_that_are_none_are_named(tmp_path, terms):
    ledger = PrivacyLedger(tmp_path / "a", 1.0, 1e-5)
    with_terms(ledger.path, terms)
    with pytest.raises(LedgerError, match="readable terms"):
        PrivacyLedger.open(ledger.path)


def with_terms(path, terms):
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TRIGGER terms_stay")
        body = json.loads(connection.execute("SELECT body FROM terms").fetchone()[0])
        connection.execute("UPDATE terms SET body = ?", (json.dumps({**body, **terms}, sort_keys=True),))
    connection.close()


def test_a_budget_that_was_raised_along_the_way_is_not_charged(tmp_path):
    PrivacyLedger(tmp_path / "a", 1.0, 0).charge(PURE)
    with_terms(tmp_path / "a", {"epsilon": 50.0})
    raised = PrivacyLedger.open(tmp_path / "a")
    with pytest.raises(LedgerError, match="was edited: entry 1"):
        raised.charge(PURE)


def test_rows_nested_without_end_are_damage(ledger):
    ledger.charge_once("x", PURE)
    with sqlite3.connect(ledger.path) as connection:
        connection.execute("DROP TRIGGER entries_stay")
        connection.execute("UPDATE entries SET body = ?", ("[" * 200_000,))
    connection.close()
    with pytest.raises(LedgerError, match="damaged"):
        ledger.charge_once("x", PURE)


@pytest.mark.parametrize("part", ["planned", "slot", "versions", "assumptions", "epsilon", "method"])
def test_a_row_that_lacks_a_part_is_damage(tmp_path, part):
    ledger = PrivacyLedger(tmp_path / "plan", 1.0, 0)
    ledger.register_plan([PURE, PURE])
    with sqlite3.connect(ledger.path) as connection:
        connection.execute("DROP TRIGGER entries_stay")
        body = json.loads(connection.execute("SELECT body FROM entries").fetchone()[0])
        del (body["planned"][1] if part == "slot" else body)[part]
        connection.execute("UPDATE entries SET body = ?", (json.dumps(body),))
    connection.close()
    for using in (lambda: ledger.charge(PURE), lambda: ledger.spent, ledger.plan, ledger.summary):
        with pytest.raises(LedgerError, match="damaged|not written by|was edited"):
            using()


@pytest.mark.parametrize("path", ["a\0b", "a\ud800"])
def test_names_that_no_file_has(path):
    with pytest.raises(InvalidParameterError, match="path must be a name"):
        PrivacyLedger(path, 1.0, 0)


def test_texts_that_are_none(ledger):
    with pytest.raises(InvalidParameterError, match="UTF-8"):
        ledger.charge_curve(PURE, "x\ud800")
    with pytest.raises(InvalidParameterError, match="UTF-8"):
        ledger.charge_curve(PURE, "x", assumptions=["\ud800"])
    for wrong in ("abc", 3, [3]):
        with pytest.raises(InvalidTypeError, match="assumptions must be a sequence of texts"):
            ledger.charge_curve(PURE, "x", assumptions=wrong)
    assert ledger.entries() == ()


def test_almost_no_noise_fits_no_budget(tmp_path):
    ledger = PrivacyLedger(tmp_path / "b", 1.0, 1e-5)
    with pytest.raises((BudgetExceededError, PricingError)):
        ledger.charge(PrivacyCurve.gaussian(1e-100))
    assert ledger.entries() == ()


def test_a_description_is_one_line(ledger):
    ledger.charge(PURE)
    lines = len(ledger.summary().splitlines())
    ledger.charge_curve(PURE, "x\n     2  forged\u2028y")
    assert len(ledger.summary().splitlines()) == lines + 1


def test_a_plan_is_for_its_number_of_rows(tmp_path):
    ledger = PrivacyLedger(tmp_path / "p", 50.0, 1e-5)
    ledger.register_plan([search_with(None).privacy_cost(200)])
    assert ledger.affordable(search_with(None).privacy_cost(100)) == 0
    with pytest.raises(BudgetExceededError, match="same number of rows"):
        ledger.charge(search_with(None).privacy_cost(100))
    assert ledger.charge(search_with(None).privacy_cost(200)).slot == 1


def test_a_public_export_does_not_say_when_the_ledger_was_made(ledger):
    assert ledger.created in ledger.to_json() and ledger.created not in ledger.to_json(public=True)


def test_an_edited_history_is_not_charged_reserved_or_claimed(ledger):
    ledger.reserve("ben", PURE)
    for _ in range(2):
        ledger.charge(PURE)
    with sqlite3.connect(ledger.path) as connection:
        connection.execute("DROP TRIGGER entries_stay")
        connection.execute("UPDATE entries SET body = replace(body, 'release', 'rElease') WHERE seq = 2")
    connection.close()
    for use in (lambda: ledger.charge(PURE), lambda: ledger.reserve("cy", PURE), lambda: ledger.release("ben", "no"),
                lambda: ledger.claim("ben").charge(PURE), lambda: ledger.register_plan([PURE])):  # fmt: skip
        with pytest.raises(LedgerError, match="was edited: entry 2"):
            use()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names")
def test_a_pipe_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LedgerError, match="path must be a file.*is a pipe"):
        PrivacyLedger(tmp_path / "pipe", 1.0, 0)
