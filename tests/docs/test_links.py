"""Every link of the built site leads somewhere. ``SKDPTUNE_SITE`` names the folder of the site."""

import os
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

SITE = os.environ.get("SKDPTUNE_SITE")

if not SITE or not Path(SITE, "index.html").exists():
    pytest.skip("SKDPTUNE_SITE names no built site", allow_module_level=True)

SITE = Path(SITE).resolve()
ROOT = os.environ.get("SKDPTUNE_DOCS_ROOT", "/")
SOURCES = re.escape(f"{Path(__file__).resolve().parents[2]}/")
ADDRESS = re.compile(r"https?://[\w.-]+\.[a-z]{2,}(:\d+)?(/[^\s<>\"]*)?$")


class Page(HTMLParser):
    """Collects what a page links to, loads, and offers as an anchor."""

    def __init__(self, path):
        super().__init__()
        self.links, self.loads, self.anchors = [], [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        if found.get("id"):
            self.anchors.add(found["id"])
        if tag == "a" and found.get("name"):
            self.anchors.add(found["name"])
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        if tag in ("img", "script", "iframe", "source") and found.get("src"):
            self.loads.append(found["src"])
        if tag == "link" and found.get("href") and found.get("rel") not in ("canonical", "next", "prev"):
            self.loads.append(found["href"])


@pytest.fixture(scope="module")
def pages():
    return {path: Page(path) for path in sorted(SITE.rglob("*.html")) if "_static" not in path.parts}


def target_of(page, link):
    """Return ``(file, anchor)`` of a link inside the site."""
    parts = urlsplit(link)
    path = unquote(parts.path)
    if not path:
        found = page
    elif path.startswith("/"):
        found = SITE / path.removeprefix(ROOT).lstrip("/")
    else:
        found = (page.parent / path).resolve()
    if found.is_dir():
        found = found / "index.html"
    return found, unquote(parts.fragment)


def is_outside(link):
    return urlsplit(link).scheme in ("http", "https")


def test_there_are_pages(pages):
    assert len(pages) > 60


def test_links_inside_the_site_lead_to_a_page_and_an_anchor(pages):
    broken = []
    for path, page in pages.items():
        for link in page.links:
            if is_outside(link) or urlsplit(link).scheme == "mailto":
                continue
            found, anchor = target_of(path, link)
            where = f"{path.relative_to(SITE)}: {link}"
            if not found.exists():
                broken.append(where)
            elif anchor and found in pages and anchor not in pages[found].anchors:
                broken.append(f"{where} (no such anchor)")
    assert not broken, "\n".join(broken[:40])


def test_what_pages_load_comes_from_the_site(pages):
    wrong = []
    for path, page in pages.items():
        for load in page.loads:
            if load.startswith("data:"):
                continue
            if is_outside(load) or load.startswith("//") or not target_of(path, load)[0].exists():
                wrong.append(f"{path.relative_to(SITE)}: {load}")
    assert not wrong, "\n".join(wrong[:40])


def test_links_to_other_sites_are_written_as_addresses(pages):
    """No network is asked; a typing error in the form is found all the same."""
    outside = {link for page in pages.values() for link in page.links if is_outside(link)}
    assert not sorted(link for link in outside if not ADDRESS.match(link))


def test_nothing_of_the_markup_is_left_over(pages):
    """Roles that did not resolve, and machine paths, would show as text."""
    left = [path for path in pages if re.search(rf">:(value|ref|doc|func|class):|/tmp/|{SOURCES}", path.read_text())]
    assert not left
