"""Numbers that many pages state are measured once in a build, before pages are read side by side."""

import importlib.util
from types import SimpleNamespace

import pytest

from tests.docs.tutorial import ROOT

pytest.importorskip("sphinx")


@pytest.fixture
def computed(tmp_path, monkeypatch):
    """The extension, with an audit that counts how often it is run, and pages to read."""
    spec = importlib.util.spec_from_file_location("computed", ROOT / "doc" / "_extensions" / "computed.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    audit = tmp_path / "audit.py"
    audit.write_text(
        "from pathlib import Path\n"
        "def quickstart_in_brief():\n"
        f"    with open({str(tmp_path / 'runs')!r}, 'a') as runs:\n"
        "        runs.write('x')\n"
        "    return 'found'\n"
    )
    monkeypatch.setattr(module, "_AUDIT", audit)
    (tmp_path / "runs").write_text("")
    (tmp_path / "plain.rst").write_text("Nothing is measured here.")
    (tmp_path / "asks.rst").write_text(".. python-run::\n   :hide:\n\n   reached = measured_accuracy()\n")
    return module


def test_what_is_measured_is_measured_once_and_beforehand(computed, tmp_path):
    env = SimpleNamespace(doc2path=lambda name: tmp_path / f"{name}.rst")
    computed._measure_once(None, env, ["plain"])
    assert (tmp_path / "runs").read_text() == ""
    computed._measure_once(None, env, ["plain", "asks"])
    assert (tmp_path / "runs").read_text() == "x"
    for page in ("one", "two"):
        assert computed.run_block("measured_accuracy()", computed.namespace_of(page))[1] == "found"
    assert (tmp_path / "runs").read_text() == "x"
    connected = []
    ignored = {"add_directive": lambda *a: None, "add_role": lambda *a: None}
    computed.setup(SimpleNamespace(connect=lambda *event: connected.append(event), **ignored))
    assert ("env-before-read-docs", computed._measure_once) in connected


def test_the_audit_says_what_pages_quote(monkeypatch):
    import numpy as np

    spec = importlib.util.spec_from_file_location("audit", ROOT / "examples" / "audits" / "accuracy_in_the_docs.py")
    audit = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(audit)
    monkeypatch.setattr(audit, "quickstart", lambda searches: (np.arange(1, 6) / 10, np.array([0.5, 0.7]), 0.6))
    found = audit.quickstart_in_brief()
    assert (found.searches, found.worst, found.best, found.larger) == (5, 0.1, 0.5, 0.6)
    assert np.allclose([found.mean, found.nine, found.plain], [0.3, 0.14, 0.6])
