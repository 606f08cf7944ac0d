"""The numbers that the README states come out of the package, rounded up."""

import os
import re
from pathlib import Path

import pytest

from skdptune import PrivacyCurve, best_of
from skdptune.report import round_up
from skdptune.run_counts import Logarithmic, TruncatedNegativeBinomial
from tests.docs.tutorial import ROOT

SITE = os.environ.get("SKDPTUNE_SITE")
README = (ROOT / "README.rst").read_text()
ROWS = {
    r"pure DP, about 20 tries": (PrivacyCurve.pure(1.0), Logarithmic(20), 20, 1e-6),
    r"pure DP, about 10 tries": (PrivacyCurve.pure(1.0), TruncatedNegativeBinomial(10, eta=2), 10, 1e-6),
    r"Gaussian noise 3, about 10 tries": (PrivacyCurve.gaussian(3.0), TruncatedNegativeBinomial(10, eta=2), 10, 1e-5),
}


@pytest.mark.parametrize("start", ROWS)
def test_the_table_of_prices(start):
    one, tries, published, delta = ROWS[start]
    shown = re.search(rf"^{start}.*?  +([\d.]+) +([\d.]+) +([\d.]+)$", README, re.MULTILINE).groups()
    curves = one, best_of(one, tries), published * one
    digits = (len(number.partition(".")[2]) for number in shown)
    assert shown == tuple(round_up(curve.epsilon(delta), d) for curve, d in zip(curves, digits, strict=True))


def test_the_sentences_repeat_the_table():
    """Prices in the text: those of the first row of the table."""
    assert re.search(r"One try costs epsilon 1\.00 .*?the search 1\.98\.", README, re.DOTALL)
    assert "# 1.98" in README


# What examples/audits/accuracy_in_the_docs.py prints, and where it is quoted; pages that are built measure it.
MEASURED = {"mean": 0.94, "nine": 0.89, "worst": 0.79, "plain": 0.96, "larger": 0.63}  # "at least" is rounded down
PAGES = {
    "README.rst": ("mean", "nine", "worst", "plain", "larger"),
    "skdptune/_cli/_demo.py": ("mean", "plain", "larger"),
}


@pytest.mark.parametrize("page", PAGES)
def test_all_pages_state_the_same_accuracy(page):
    text = (ROOT / page).read_text()
    assert all(f"{MEASURED[name]:.2f}" in text for name in PAGES[page])
    stated = re.findall(r"(?<![\d.(])0\.(?:[89]\d|63)(?![\d.])", text)  # not quantile(0.99)
    assert {float(number) for number in stated} <= set(MEASURED.values())


@pytest.mark.parametrize("page", ["index", "tutorial"])
def test_built_pages_quote_only_what_the_build_measures(page):
    """Outside code and computed values no sentence states an accuracy."""
    text = (ROOT / "doc" / f"{page}.rst").read_text()
    said = re.sub(r"(?m)^( *)\.\. (?:python-run|python-table|code-block)::.*\n(?:(?:\1   .*)?\n)*", "", text)
    said = re.sub(r":value:`[^`]*`|``[^`]*``", "", said)
    assert len(said) > len(text) / 3
    assert not re.findall(r"(?<![\w.])0\.\d+|\d+ %", said)
    assert "measured_accuracy()" in text


@pytest.mark.slow
def test_the_stated_accuracy_is_what_is_measured():
    pytest.importorskip("diffprivlib.models", exc_type=Exception)
    namespace = {"__name__": "accuracy_in_the_docs"}
    exec((ROOT / "examples" / "audits" / "accuracy_in_the_docs.py").read_text(), namespace)
    # the first 30 of its hundred seeds; the front page, for which all are used, is compared exactly
    found = vars(namespace["quickstart_in_brief"](30))
    room = {"mean": 0.02, "nine": 0.05, "plain": 0.01, "larger": 0.005}
    assert all(abs(found[name] - MEASURED[name]) <= room[name] for name in room), found
    assert found["worst"] >= MEASURED["worst"] - 0.05


@pytest.mark.skipif(not SITE, reason="SKDPTUNE_SITE names no built site")
def test_the_front_page_has_measured_the_same_accuracy():
    page = (Path(SITE) / "index.html").read_text()
    values = re.findall(r'class="computed-value">([\d.]+)<', page[: page.index("measured while this page was built")])
    mean, searches, plain, larger = values[-4:]
    assert (float(mean), int(searches)) == (MEASURED["mean"], 100)
    assert (float(plain), float(larger)) == (MEASURED["plain"], MEASURED["larger"])
