"""The page about the command line names every key that programs get."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "doc" / "command_line.rst"


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("price", "price pure --epsilon 1 --mean 3 --delta 0"),
        ("calibrate", "calibrate pure --target 1 --mean 3 --delta 0"),
        ("plan", "plan pure --target 1 --delta 0 --run-counts geometric --means 3"),
        ("ledger show", "ledger show budget.db"),
        ("ledger export", "ledger export budget.db"),
        ("ledger export", "ledger export budget.db --output entries.json"),
        ("demo", "demo --candidate centroids --mean 2"),
    ],
)
def test_keys_are_documented(ask, command, line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if "budget.db" in line:
        from skdptune.ledger import PrivacyLedger

        PrivacyLedger("budget.db", epsilon=1.0, delta=1e-6)
    data = ask(f"{line} --json").json
    section = re.search(rf"^``{command}``\n((?:   .*\n)+)", PAGE.read_text(encoding="utf-8"), re.M).group(1)
    named = set(re.findall(r"``([a-z_0-9]+)``", section))
    missing = set(data) - named
    if command == "plan":
        missing |= set(data["rows"][0]) - named
    assert not missing
