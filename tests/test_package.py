"""What ``import skdptune`` promises: its names, and nothing heavy."""

import os
import subprocess
import sys

import pytest

import skdptune

HEAVY = ["torch", "opacus", "skorch", "diffprivlib", "matplotlib", "dask", "ray", "mlflow", "rich", "opendp", "polars"]


def _loaded(statement, names):
    code = f"import sys; {statement}; print(*[n for n in {names!r} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.parametrize(
    "statement",
    [
        "import skdptune",
        "from skdptune import PrivateRandomSearchCV, PrivacyCurve, best_of",
        "from skdptune import accounting, candidates, displays, ledger, model_selection, report, run_counts, scoring",
    ],
)
def test_nothing_heavy_is_loaded(statement):
    # scikit-learn 1.9 loads rich by itself
    theirs = _loaded("import sklearn.model_selection, sklearn.pipeline, dp_accounting", HEAVY)
    assert set(_loaded(statement, HEAVY)) <= set(theirs)


def test_the_bare_import_is_light():
    assert _loaded("import skdptune", ["numpy", "scipy", "sklearn"]) == []


def test_every_public_name_is_there():
    for name in skdptune.__all__:
        assert getattr(skdptune, name) is not None
        assert name in dir(skdptune)
    with pytest.raises(AttributeError, match="no_such_name"):
        skdptune.no_such_name  # noqa: B018


def test_a_fork_before_the_ledger_is_imported_is_seen():
    code = (
        "import os, skdptune\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    from skdptune.ledger import _handle\n"
        "    os._exit(0 if _handle._BORN_IN != os.getpid() else 1)\n"
        "raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
