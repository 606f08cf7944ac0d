"""Running the command line inside the test's process."""

import json
import types

import pytest

from skdptune.__main__ import main


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def ask(capsys):
    """Return a function that runs one command and returns code, out, err (and ``json`` if it is JSON)."""

    def run(*argv):
        if len(argv) == 1 and " " in argv[0]:
            argv = argv[0].split()
        code = main(argv)
        out, err = capsys.readouterr()
        found = types.SimpleNamespace(code=code, out=out, err=err)
        if "--json" in argv and code in (0, 3):
            found.json = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
        return found

    return run
