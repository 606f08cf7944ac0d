"""The README, the tutorial and the guide run as they are printed."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from skdptune.exceptions import PublicSeedWarning
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
    assert re.match(r"1\.97\d*\n", done.stdout), done.stdout[:200]  # the README says 1.98, rounded up


@pytest.mark.slow
@pytest.mark.statistical
def test_the_accuracy_that_is_stated_is_what_the_example_gives():
    models = pytest.importorskip("diffprivlib.models", exc_type=Exception)
    from skdptune import PrivateRandomSearchCV
    from skdptune.run_counts import Logarithmic

    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, [20, 21, 22, 23, 27]] / [40, 50, 260, 4300, 0.3] - 0.5
    X = np.column_stack([X, np.full(len(X), 0.5)])
    assert round(max(np.mean(y), 1 - np.mean(y)), 2) == 0.63
    model = models.LogisticRegression(epsilon=2.0, data_norm=1.0, fit_intercept=False)
    space = {"C": [0.1, 1.0, 10.0, 100.0]}
    search = PrivateRandomSearchCV(model, space, n_iter=Logarithmic(mean=20), delta=1e-6, classes=[0, 1])
    reached = []
    for seed in range(12):
        aside = np.zeros(len(X), dtype=bool)
        aside[np.random.default_rng(seed).permutation(len(X))[:119]] = True
        with pytest.warns(PublicSeedWarning):
            search.set_params(random_state=seed).fit(X[~aside], y[~aside])
        reached.append(search.score(X[aside], y[aside]))
    assert 0.92 < np.mean(reached) < 0.96
