"""The built site in a real browser: no overflow, readable text, no errors, nothing asked of other machines.

``SKDPTUNE_SITE`` names the folder of the built site; ``SKDPTUNE_SHOTS``, if set, a folder for the screenshots.
"""

import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

from tests.docs import browser

SITE = os.environ.get("SKDPTUNE_SITE")

if not SITE or not Path(SITE, "index.html").exists():
    pytest.skip("SKDPTUNE_SITE names no built site", allow_module_level=True)
if browser.CHROMIUM is None or browser.DRIVER is None:
    pytest.skip("chromium and chromedriver are not installed", allow_module_level=True)
if importlib.util.find_spec("selenium") is None:
    pytest.skip("selenium is not installed", allow_module_level=True)

pytestmark = pytest.mark.slow

PAGES = {
    "front": "/index.html",
    "tutorial": "/tutorial.html",
    "gallery": "/auto_examples/plot_quickstart.html",
    "api": "/generated/skdptune.model_selection.PrivateRandomSearchCV.html",
    "pitfalls": "/pitfalls.html",
    "theory": "/theory/exact.html",
    "report": "/privacy_report.html",
    "missing": "/no/such/page.html",
    "api index": "/api.html",
    "module": "/generated/skdptune.model_selection.html",
    "adapters": "/adapters.html",
    "choosing": "/choosing.html",
    "command line": "/command_line.html",
    "examples": "/auto_examples/index.html",
    "notebook": "/notebook.html",
}
SIZES = {"desktop": (1280, 900), "phone": (390, 844)}


class Costless(ClassifierMixin, BaseEstimator):
    """Ignores the rows; stated to cost what a sum with Gaussian noise costs."""

    privacy_params = ("s",)
    published_attributes = ("z_", "classes_")

    def __init__(self, s=1.0, random_state=None):
        self.s = s
        self.random_state = random_state

    def rdp_curve(self, orders):
        return np.asarray(orders) / (2 * self.s**2)

    def fit(self, X, y):
        self.z_, self.classes_ = float(self.random_state.normal(0, self.s)), np.array([0, 1])
        return self

    def predict(self, X):
        return np.full(len(X), int(self.z_ > 0))


# As a notebook shows it: no style of its own around what objects bring with them.
NOTEBOOK = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Notebook</title>
<meta name="viewport" content="width=device-width"><style>:root{{color-scheme:light dark}}</style>{}{}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The address of the served site, with a report that has long names in it."""
    from skdptune import PrivateRandomSearchCV
    from skdptune.accounting import PrivacyCurve, best_of
    from skdptune.model_selection import PrivacySpent
    from skdptune.report import PrivacyReport
    from skdptune.run_counts import Geometric

    run, tries = PrivacyCurve.gaussian(3.0), Geometric(10)
    spent = PrivacySpent(
        curve=best_of(run, tries),
        single_run=run,
        selection=best_of(run, tries),
        refit=None,
        run_count=tries,
        row_curves=(run,),
        relation="zero-out",
        n_samples=1000,
        score_noise=None,
        assumptions=("Every person contributes one row.", "The column " + "x" * 200 + " is public."),
    )
    folder = tmp_path_factory.mktemp("reports")
    search = PrivateRandomSearchCV(Costless(), {"s": [4.0, 8.0]}, n_iter=tries, classes=[0, 1])
    rng = np.random.default_rng(0)
    diagrams = search._repr_html_(), search.fit(rng.normal(size=(60, 2)), rng.integers(0, 2, 60))._repr_html_()
    (folder / "notebook.html").write_text(NOTEBOOK.format("".join(diagrams), spent._repr_html_()))
    PrivacyReport(spent, title="A report with <angles>", prepared_for="Privacy office").to_html(
        folder / "privacy_report.html"
    )
    with browser.served(Path(SITE), folder) as address:
        yield address


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    with browser.chromium(tmp_path_factory.mktemp("profile")) as started:
        yield started


def visit(driver, address, size, scheme):
    browser.set_size(driver, *SIZES[size])
    browser.set_scheme(driver, scheme)
    browser.requested(driver), browser.complaints(driver)  # forget earlier pages
    driver.get(address)
    # The theme follows the system; hover effects and transitions would show half-way colours.
    driver.execute_script(
        "const s = document.createElement('style'); s.textContent = '*{transition:none!important}';"
        "document.head.append(s)"
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("page", PAGES)
def test_page(driver, site, page, size, scheme):
    if page in ("gallery", "examples") and not Path(SITE, "auto_examples").exists():
        pytest.skip("the site was built without its gallery")
    visit(driver, site + PAGES[page], size, scheme)
    shots = os.environ.get("SKDPTUNE_SHOTS")
    if shots:
        Path(shots).mkdir(parents=True, exist_ok=True)
        browser.screenshot(driver, Path(shots) / f"{page}-{size}-{scheme}.png")

    width = driver.execute_script("return document.documentElement.scrollWidth")
    cut_off = driver.execute_script(browser.CUT_OFF, SIZES[size][0])
    assert width <= SIZES[size][0] and not cut_off, (width, cut_off)
    pale = driver.execute_script(browser.CONTRAST, 4.5)
    pale = [text for text in pale if "sk-estimator-doc-link" not in text]  # scikit-learn's own, faint until pointed at
    assert not pale, "\n".join(pale[:20])
    broken = driver.execute_script(browser.BROKEN_WORDS)
    assert not broken, broken[:20]
    for each in (browser.OVERLAPS, browser.BROKEN_OPTIONS, browser.CUT_NAMES):
        assert not driver.execute_script(each), each
    assert not driver.execute_script(browser.FORMULAS)
    assert not driver.execute_script(browser.UNDESCRIBED)
    elsewhere = [u for u in browser.requested(driver) if not u.startswith((site, "data:", "blob:", "about:", "chrome"))]
    assert not elsewhere
    errors = browser.complaints(driver)
    # The missing page's own status; an icon that a browser asks for where a page names none.
    expected = ("no/such/page.html", "favicon.ico")
    assert not [e for e in errors if not any(part in e for part in expected)]


def test_the_checks_can_fail(driver, site, tmp_path):
    """Pale text and a wide box are found: the checks above are not blind."""
    page = "<meta name='viewport' content='width=device-width'><body style='margin:0'><p style='color:#aaa'>pale</p>"
    page += "<div style='width:900px;height:9px'></div>"
    page += "<table><td style='width:2em;max-width:2em;overflow-wrap:anywhere'>mathematics</td></table>"
    page += "<div class='math' style='position:relative'><div class='formula'>a = b</div>"
    page += "<span class='eqno' style='position:absolute;left:9px;top:0'>(1)</span></div>"
    (tmp_path / "bad.html").write_text(page + "<img src='https://example.invalid/x.png'>")
    with browser.served(tmp_path) as address:
        visit(driver, f"{address}/bad.html", "phone", "light")
        assert driver.execute_script("return document.documentElement.scrollWidth") > 390
        assert "DIV" in driver.execute_script(browser.CUT_OFF, 390)[0]
        assert "pale" in driver.execute_script(browser.CONTRAST, 4.5)[0]
        assert driver.execute_script(browser.BROKEN_WORDS) == ["mathematics"]
        assert driver.execute_script(browser.FORMULAS) == ["number: (1)"]
        assert len(driver.execute_script(browser.UNDESCRIBED)) == 1
        assert any("example.invalid" in url for url in browser.requested(driver))


def test_search_finds_a_page(driver, site):
    visit(driver, f"{site}/search.html?q=geometric", "desktop", "light")
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(driver, 20).until(lambda d: d.find_elements(By.CSS_SELECTOR, "#search-results li a"))
