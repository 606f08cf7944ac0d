"""Every ``--help`` fits 80 columns, and every example in it runs."""

import argparse
import json
import re
import shlex
import subprocess
import sys

import pytest

from skdptune import run_counts
from skdptune._cli._parser import build_parser
from skdptune._cli._run_counts import RUN_COUNTS
from skdptune.accounting import PrivacyCurve


def _parsers(parser, path=()):
    yield path, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, child in action.choices.items():
                yield from _parsers(child, (*path, name))


PATHS = [path for path, _ in _parsers(build_parser())]


def _examples(text):
    """The commands under "examples:", their broken lines joined as a shell would."""
    block = re.search(r"^examples:\n((?:  .*\n)+)", text, re.M)
    return block.group(1).replace("\\\n", " ").splitlines()


@pytest.mark.parametrize("path", PATHS, ids=lambda path: "-".join(path) or "skdptune")
def test_help_fits_and_has_examples(ask, path):
    found = ask(*path, "--help")
    assert (found.code, found.err) == (0, "")
    assert max(map(len, found.out.splitlines())) <= 80
    assert _examples(found.out)


def _all_examples():
    seen = {}
    for path, parser in _parsers(build_parser()):
        for line in _examples(parser.format_help()):
            seen.setdefault(" ".join(line.split()), path)
    return list(seen)


@pytest.mark.parametrize("line", _all_examples())
def test_example_runs(ask, line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program, *argv = shlex.split(line)
    assert program == "skdptune"
    if "budget.db" in argv:
        from skdptune.ledger import PrivacyLedger

        ledger = PrivacyLedger("budget.db", epsilon=2.0, delta=1e-6)
        ledger.charge_curve(PrivacyCurve.gaussian(5.0), "a histogram")
    found = ask(*argv)
    assert (found.code, found.err) == (0, ""), line
    assert found.out.strip()
    if "--json" in argv:
        json.loads(found.out)
    elif argv[0] != "ledger":
        assert max(map(len, found.out.splitlines())) <= 80


def test_there_are_many_examples():
    assert len(_all_examples()) > 20


def test_names_of_distributions_are_those_of_the_package():
    named = {kind for kind, _ in RUN_COUNTS.values()}
    assert named <= set(run_counts.__all__)
    for kind, arguments in RUN_COUNTS.values():
        fields = getattr(run_counts, kind)
        values = {"mean": 3, "eta": 1, "n": 4, "p": 0.5, "a": 1, "b": 1, "k": 2}
        assert fields(**{name: values[name] for name in arguments}).mean > 0


_BARE = """
import sys, types
bare = types.ModuleType("skdptune")  # what `import skdptune` loads is not the question here
bare.__path__ = [sys.argv.pop(1)]
sys.modules["skdptune"] = bare
from skdptune.__main__ import main
assert main(sys.argv[1:]) == 0
heavy = sorted({"numpy", "scipy", "sklearn", "joblib", "dp_accounting"} & set(sys.modules))
assert not heavy, heavy
"""


@pytest.mark.parametrize("argv", [["--help"], ["price", "dp-sgd", "--help"], ["ledger", "show", "--help"]])
def test_help_loads_nothing_heavy(argv):
    import skdptune

    command = [sys.executable, "-c", _BARE, skdptune.__path__[0], *argv]
    found = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert (found.returncode, found.stderr) == (0, "")
