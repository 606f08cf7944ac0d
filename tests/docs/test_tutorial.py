"""The README, the tutorial and the guide run as they are printed."""

import json
import re
import subprocess
import sys

import pytest

from tests.docs import tutorial

EXTRAS = re.compile(r'python -m pip install "\.\[([\w,]+)\]"')


def run(code, folder):
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


def test_the_install_line_names_extras_that_exist():
    found = EXTRAS.fullmatch(tutorial.install_line())
    assert found, tutorial.install_line()
    setup = (tutorial.ROOT / "setup.py").read_text()
    for extra in found.group(1).split(","):
        assert f'"{extra}":' in setup


@pytest.mark.slow
def test_the_tutorial_runs_and_files_a_report(tmp_path):
    pytest.importorskip("diffprivlib.models", exc_type=Exception)
    done = run(tutorial.script(), tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "the whole search: epsilon" in done.stdout and "test accuracy, with noise" in done.stdout
    filed = json.loads((tmp_path / "privacy_report.json").read_text())
    assert "Breast masses, linear model" in json.dumps(filed)
    assert "Privacy office" in (tmp_path / "privacy_report.html").read_text()


@pytest.mark.parametrize("page", tutorial.pages())
def test_visible_blocks_say_what_their_names_are(page):
    """A reader who copies what is shown meets no NameError: nothing hidden imports, loads or defines for it."""
    assert not tutorial.unknown_names(page)


def test_a_name_that_only_hidden_code_knows_is_found(tmp_path, monkeypatch):
    page = ".. python-run::\n   :hide:\n\n   import numpy as np\n\n.. python-run::\n\n   np.zeros(3)\n"
    (tmp_path / "doc").mkdir()
    (tmp_path / "doc" / "bad.rst").write_text(page)
    monkeypatch.setattr(tutorial, "ROOT", tmp_path)
    assert tutorial.pages() == ["bad"]
    assert tutorial.unknown_names("bad") == [("np", "np.zeros(3)")]


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in tutorial.pages() if page != "tutorial"])
def test_visible_blocks_run_alone_and_in_order(page, tmp_path):
    pytest.importorskip("diffprivlib.models", exc_type=Exception)
    done = run(tutorial.script(page), tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.slow
def test_the_readme_runs(tmp_path):
    pytest.importorskip("diffprivlib.models", exc_type=Exception)
    found = [
        code
        for kind, argument, _, code in tutorial.blocks(tutorial.ROOT / "README.rst")
        if kind == "code-block" and argument == "python"
    ]
    assert found
    done = run("\n\n".join(found), tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith("1.98\n"), done.stdout[:200]  # as the comment beside it says
