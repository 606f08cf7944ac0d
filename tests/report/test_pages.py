"""Reports and cards in a real browser: no overflow on a phone, contrast in both themes, nothing fetched.

The browser lays the page out in frames of given widths, a script measures, and the result is read from
the dumped document; the reports themselves hold no script.
"""

import html
import json
import re
import shutil
import subprocess
from dataclasses import replace

import pytest

from skdptune.report import card
from tests.report.cases import ROWS, released, search

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --virtual-time-budget=4000"
).split()
LONG = "measurement_of_something_with_a_very_long_name_" * 5

MEASURE = """
<pre id="out"></pre><script>
function channel(v) { v /= 255; return v <= 0.04045 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4); }
function numbers(c) { return c.match(/[\\d.]+/g).map(Number); }
function light(c) { return 0.2126 * channel(c[0]) + 0.7152 * channel(c[1]) + 0.0722 * channel(c[2]); }
function behind(e) {
  for (; e; e = e.parentElement) {
    const c = numbers(getComputedStyle(e).backgroundColor);
    if (c.length < 4 || c[3] > 0) return c;
  }
  return [255, 255, 255];
}
function worst(doc) {
  let least = [99, ""];
  for (const e of doc.querySelectorAll(".skdptune-report *")) {
    if (e.tagName === "STYLE" || ![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
    const style = getComputedStyle(e);
    const a = light(numbers(e.namespaceURI.includes("svg") ? style.fill : style.color)), b = light(behind(e));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < least[0]) least = [ratio, e.tagName + ": " + e.textContent.slice(0, 40)];
  }
  return least;
}
window.onload = () => {
  const found = [...document.querySelectorAll("iframe")].map(frame => {
    const doc = frame.contentDocument, root = doc.documentElement;
    doc.querySelectorAll("details").forEach(d => { d.open = true; });
    const right = Math.max(...[...doc.querySelectorAll("*")].map(e => e.getBoundingClientRect().right));
    return {name: frame.name, wide: Math.max(root.scrollWidth, right) - root.clientWidth, contrast: worst(doc),
            paper: getComputedStyle(doc.querySelector(".skdptune-report")).backgroundColor,
            size: Math.min(...[...doc.querySelectorAll("p,td,th,li,caption")].map(
              e => parseFloat(getComputedStyle(e).fontSize))),
            fetched: frame.contentWindow.performance.getEntriesByType("resource").length};
  });
  document.getElementById("out").textContent = JSON.stringify(found);
};
</script>
"""

PAGES = {  # what notebooks, editors and documentation put around a fragment
    "plain": ("", ""),
    "jupyter light": ("", 'data-jp-theme-light="true"'),
    "jupyter dark": ("", 'data-jp-theme-light="false"'),
    "vscode light": ("", 'class="vscode-light"'),
    "vscode dark": ("", 'class="vscode-dark"'),
    "docs light": ('data-theme="light"', ""),
    "docs dark": ('data-theme="dark"', ""),
}
NOTEBOOK = (  # the weight with which notebooks style tables and text
    ".jp-RenderedHTMLCommon td,.jp-RenderedHTMLCommon th{text-align:right;color:#777;background:#888;max-width:none}"
    ".jp-RenderedHTMLCommon tbody tr:nth-child(odd){background:#999}.jp-RenderedHTMLCommon p{color:#777}"
)


def worst_case():
    spent = search(random_state=1).privacy_cost(ROWS)
    space = ((LONG, "[0.5, 1.0, 2.0]" * 20),)
    settings = replace(spent.settings, estimator=LONG, space=space, target=(3.0, 1e-6), level=LONG)
    return replace(spent, settings=settings, assumptions=(*spent.assumptions, LONG))


def wrapped(fragment, html_attributes, body_attributes):
    return (
        f"<!DOCTYPE html><html {html_attributes}><head><meta charset='utf-8'><style>{NOTEBOOK}</style></head>"
        f"<body {body_attributes}><div class='jp-RenderedHTMLCommon'>{fragment}</div></body></html>"
    )


def measured(tmp_path, frames, dark):
    inside = "".join(
        f'<iframe name="{html.escape(name)}" width="{width}" height="900" style="border:0" '
        f'srcdoc="{html.escape(page)}"></iframe>'
        for name, width, page in frames
    )
    file = tmp_path / "page.html"
    file.write_text(f"<!DOCTYPE html><meta charset='utf-8'><body>{inside}{MEASURE}</body>", "utf-8")
    theme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    command = [BROWSER, *FLAGS, theme, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", file.as_uri()]
    dumped = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True).stdout
    found = json.loads(html.unescape(re.search(r'<pre id="out">(.*?)</pre>', dumped, re.S).group(1)))
    assert len(found) == len(frames)
    return found


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine")
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_reports_and_cards_fit_and_can_be_read(tmp_path, dark):
    spent = worst_case()
    report = spent.report(title=f"Report of {LONG}", prepared_for="<b>somebody</b>", delta=0.5)
    frames = [(f"page {width}", width, report.to_html()) for width in (320, 360, 1280)]
    both = released("score", cv=3, refit=True)  # as many columns as there can be
    frames += [(f"search and score {width}", width, both.report(title=LONG).to_html()) for width in (320, 360, 1280)]
    frames.append(("card of both", 320, wrapped(card(both.privacy_spent), "", "")))
    for name, around in PAGES.items():
        frames.append((f"card, {name}", 360, wrapped(card(spent), *around)))
    frames.append(("fragment", 360, wrapped(report._repr_html_(), "", "")))
    for found in measured(tmp_path, frames, dark):
        assert found["wide"] <= 0.5, found
        assert found["contrast"][0] >= 4.5, found
        assert found["fetched"] == 0 and found["size"] >= 12, found
        is_dark = max(int(value) for value in re.findall(r"\d+", found["paper"])) < 100
        said = "dark" if "dark" in found["name"] else "light" if "light" in found["name"] else None
        assert is_dark == (said == "dark" if said else dark), found


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine")
def test_the_measurement_notices(tmp_path):
    """A page that is too wide, pale and dressed by something else fails every check."""
    bad = (
        "<!DOCTYPE html><body><div class='skdptune-report' style='width:900px'>"
        "<p style='color:#999;background:#fff;font-size:9px'>pale</p></div></body>"
    )
    (found,) = measured(tmp_path, [("bad", 360, bad)], dark=False)
    assert found["wide"] > 500 and found["contrast"][0] < 3 and found["size"] < 12
