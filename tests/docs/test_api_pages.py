"""The API's contents: a name that packages pass on stands there once, under the module that documents it."""

import importlib.util
import re
from collections import Counter

import pytest

from tests.docs.tutorial import ROOT


def test_a_name_has_one_place_in_the_contents():
    pytest.importorskip("docutils")
    pytest.importorskip("sphinx")
    spec = importlib.util.spec_from_file_location("api_pages", ROOT / "doc" / "_extensions" / "api_pages.py")
    api = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(api)
    modules = {name: module for name in api.MODULES if (module := api._import(name)) is not None}
    api._homes(modules)
    entries, shown = Counter(), set()
    for name, module in modules.items():
        names = [n for n in api._public_names(module) if api._is_documented(getattr(module, n))]
        page = api._module_page(name, module, names)
        for block in re.split(r"\.\. autosummary::\n", page)[1:]:
            listed = [f"{name}.{entry}".removeprefix(f"{name}.skdptune").removeprefix(".") for entry in
                      re.findall(r"^   ([\w.]+)$", block, re.MULTILINE)]  # fmt: skip
            shown |= set(listed)
            if ":toctree:" in block:
                entries.update(listed)
    assert max(entries.values()) == 1, entries.most_common(5)
    assert len(entries) > 60 and len(shown) >= len(entries)
