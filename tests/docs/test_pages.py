"""The built site in a real browser: no overflow, readable text, no errors, nothing asked of other machines.

``SKDPTUNE_SITE`` names the folder of the built site; ``SKDPTUNE_SHOTS``, if set, a folder for the screenshots.
"""

import importlib.util
import os
from pathlib import Path

import pytest

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
}
SIZES = {"desktop": (1280, 900), "phone": (390, 844)}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The address of the served site, with a report that has long names in it."""
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
    if page == "gallery" and not Path(SITE, "auto_examples").exists():
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
    assert not pale, "\n".join(pale[:20])
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
    (tmp_path / "bad.html").write_text(page + "<img src='https://example.invalid/x.png'>")
    with browser.served(tmp_path) as address:
        visit(driver, f"{address}/bad.html", "phone", "light")
        assert driver.execute_script("return document.documentElement.scrollWidth") > 390
        assert "DIV" in driver.execute_script(browser.CUT_OFF, 390)[0]
        assert "pale" in driver.execute_script(browser.CONTRAST, 4.5)[0]
        assert any("example.invalid" in url for url in browser.requested(driver))


def test_search_finds_a_page(driver, site):
    visit(driver, f"{site}/search.html?q=geometric", "desktop", "light")
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(driver, 20).until(lambda d: d.find_elements(By.CSS_SELECTOR, "#search-results li a"))
