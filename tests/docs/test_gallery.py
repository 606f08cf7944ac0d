"""The gallery is complete: every script has its place, and one that the build does not run has a picture."""

import re

import pytest

from tests.docs.tutorial import ROOT

SCRIPTS = sorted(path.stem for path in (ROOT / "examples").glob("plot_*.py"))


@pytest.fixture(scope="module")
def order():
    namespace = {}
    exec((ROOT / "doc" / "_extensions" / "gallery_order.py").read_text(), namespace)
    return namespace


def test_every_script_has_a_place(order):
    assert sorted(order["ORDER"]) == SCRIPTS
    key = order["ReadingOrder"]("examples")
    assert sorted([f"{name}.py" for name in SCRIPTS] + ["a_new_one.py"], key=key)[0] == "plot_quickstart.py"
    assert key("a_new_one.py") > key("plot_net_gpu.py")


def test_a_script_that_is_not_run_has_a_picture():
    listed = re.search(r"NOT_EXECUTED = \(([^)]*)\)", (ROOT / "doc" / "conf.py").read_text()).group(1)
    for name in re.findall(r'"(\w+)"', listed):
        text = (ROOT / "examples" / f"{name}.py").read_text()
        picture = re.search(r"# sphinx_gallery_thumbnail_path = '([\w/.]+)'", text).group(1)
        assert (ROOT / "doc" / picture).exists()


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_page_does_not_start_with_an_empty_box(name):
    """A remark for the gallery between the docstring and the first text would be a block of code without code."""
    text = (ROOT / "examples" / f"{name}.py").read_text()
    docstring, first = re.match(r'("""|\'\'\').*?\1\n', text, re.DOTALL), text.index("\n# %%")
    between = text[docstring.end() : first].strip().splitlines()
    assert not between or any(line and not line.startswith("#") for line in between), between
