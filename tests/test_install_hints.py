"""What a message tells to install can be installed: the package itself is on no index."""

import re
import sys

import pytest

import skdptune.candidates  # noqa: F401  what it loads must find torch as it is
from skdptune.exceptions import MissingDependencyError
from tests.docs.tutorial import ROOT

NOT_OURS = {"_build", "auto_examples", "generated"}
TEXTS = [
    path
    for folder in ("skdptune", "doc", "examples")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in (".py", ".rst") and not NOT_OURS & set(path.parts)
]
ASKED = re.compile(r"(?:pip install|[Ii]nstall|extra)[^.\n]{0,40}[\s\"'`]+skdptune\[|pip install ['\"`]?skdptune")


def test_no_text_asks_an_index_for_the_package():
    assert ASKED.search("pip install 'skdptune[nets]'") and ASKED.search("`pip install skdptune[plot]`")
    assert not [path for path in [ROOT / "README.rst", *TEXTS] if ASKED.search(path.read_text())]


def test_a_hint_names_all_that_is_missing(monkeypatch):
    for name in [*sys.modules]:
        if name.startswith("skdptune.candidates.nets"):
            monkeypatch.delitem(sys.modules, name)
    for name in ("torch", "skorch", "opacus"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingDependencyError) as caught:
        __import__("skdptune.candidates.nets")
    text = str(caught.value)
    assert "torch, skorch, opacus. " in text and text.index("whl/cpu") < text.index("'.[nets]' in a clone")


def test_hints_name_extras_that_exist():
    setup = (ROOT / "setup.py").read_text()
    named = [extras for path in TEXTS for extras in re.findall(r"'\.\[([\w,]+)\]'", path.read_text())]
    found = {extra for extras in named for extra in extras.split(",")}
    assert {"plot", "nets", "diffprivlib"} <= found
    assert all(f'"{extra}":' in setup for extra in found)
