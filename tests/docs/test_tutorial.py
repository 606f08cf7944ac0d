"""The tutorial and the README run as they are printed."""

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
    pytest.importorskip("diffprivlib")
    done = run(tutorial.script(), tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "the whole search: epsilon" in done.stdout and "test accuracy, with noise" in done.stdout
    filed = json.loads((tmp_path / "privacy_report.json").read_text())
    assert "Digits, random forest" in json.dumps(filed)
    assert "Privacy office" in (tmp_path / "privacy_report.html").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("page", ["final_score", "pipelines", "public_validation", "pitfalls"])
def test_visible_blocks_need_no_hidden_ones_but_imports_and_data(page, tmp_path):
    """What a page hides is run first; then what it shows works outside the build, in the order shown."""
    pytest.importorskip("diffprivlib")
    hidden = [
        code
        for kind, _, options, code in tutorial.blocks(tutorial.ROOT / "doc" / f"{page}.rst")
        if kind == "python-run" and "hide" in options and "assert" not in code
    ]
    done = run("\n".join(hidden) + "\n" + tutorial.script(page), tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.slow
def test_the_readme_runs(tmp_path):
    pytest.importorskip("diffprivlib")
    found = [
        code
        for kind, argument, _, code in tutorial.blocks(tutorial.ROOT / "README.rst")
        if kind == "code-block" and argument == "python"
    ]
    assert found
    done = run("\n\n".join(found), tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "epsilon" in done.stdout
