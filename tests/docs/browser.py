"""A site served on this machine, and a headless Chromium to look at it."""

import base64
import contextlib
import functools
import http.server
import json
import shutil
import threading
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")

_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
)

# For every visible text: the contrast of its colour with what is painted behind it (WCAG 2.1, relative luminance).
CONTRAST = r"""
const parse = text => {
  const found = text.match(/[\d.]+/g).map(Number);
  const scale = text.startsWith('color(') ? 255 : 1;
  return [found[0] * scale, found[1] * scale, found[2] * scale, found.length > 3 ? found[3] : 1];
};
const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
const luminance = colour => {
  const linear = colour.slice(0, 3).map(c => {
    const share = c / 255;
    return share <= 0.03928 ? share / 12.92 : Math.pow((share + 0.055) / 1.055, 2.4);
  });
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
};
const background = element => {
  const layers = [];
  for (let at = element; at; at = at.parentElement) {
    const style = getComputedStyle(at);
    if (style.backgroundImage !== 'none') return null;
    layers.push(parse(style.backgroundColor));
    if (layers[layers.length - 1][3] === 1) break;
  }
  const schemes = getComputedStyle(document.documentElement).colorScheme;
  const asked = matchMedia('(prefers-color-scheme: dark)').matches;
  const dark = schemes.includes('dark') && (asked || !schemes.includes('light'));
  return layers.reverse().reduce((below, layer) => over(layer, below), dark ? [0, 0, 0, 1] : [255, 255, 255, 1]);
};
const found = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const text = walker.currentNode.textContent.trim();
  const element = walker.currentNode.parentElement;
  if (!text || ['SCRIPT', 'STYLE', 'NOSCRIPT', 'TITLE', 'OPTION'].includes(element.tagName)) continue;
  if (!element.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
  const box = element.getBoundingClientRect();
  if (box.width < 2 || box.height < 2) continue;
  const behind = background(element);
  if (behind === null) continue;
  const style = getComputedStyle(element);
  const paint = element instanceof SVGElement ? style.fill : style.color;
  if (!/^(rgb|color)/.test(paint)) continue;
  let colour = parse(paint);
  for (let at = element; at; at = at.parentElement) colour[3] *= Number(getComputedStyle(at).opacity);
  const [bright, faint] = [luminance(over(colour, behind)), luminance(behind)].sort((a, b) => b - a);
  const ratio = (bright + 0.05) / (faint + 0.05);
  const name = `${element.tagName}.${element.className}`;
  if (ratio < arguments[0]) found.push(`${ratio.toFixed(2)} ${name}: ${text.slice(0, 40)}`);
}
return found;
"""

# What sticks out on the right and is neither scrolled nor wrapped: cut off, or the cause of a page that is too wide.
CUT_OFF = r"""
const limit = arguments[0];
const scrolled = element => {
  for (let at = element; at && at !== document.body; at = at.parentElement) {
    const style = getComputedStyle(at);
    // The box that holds the title is the page itself: a reader does not look for a scroll bar there.
    if (['auto', 'scroll'].includes(style.overflowX) && !at.querySelector('h1')) return true;
    if (style.position === 'fixed') return true;
  }
  return false;
};
return [...document.querySelectorAll('body *')]
  .filter(e => e.getBoundingClientRect().right > limit + 1 && e.checkVisibility({visibilityProperty: true}))
  .filter(e => e.getBoundingClientRect().height > 1 && !scrolled(e))
  .slice(0, 5).map(e => `${e.tagName}.${e.className} to ${Math.round(e.getBoundingClientRect().right)}: `
    + e.textContent.trim().slice(0, 40));
"""


# Words that are broken inside a table for want of room: a reader takes the halves for two words, or two numbers.
BROKEN_WORDS = r"""
const found = [];
for (const cell of document.querySelectorAll('table td, table th')) {
  const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent;
    for (const word of text.matchAll(/[^\s­-]+/g)) {
      const range = document.createRange();
      range.setStart(walker.currentNode, word.index);
      range.setEnd(walker.currentNode, word.index + word[0].length);
      const lines = new Set([...range.getClientRects()].filter(r => r.width > 0).map(r => Math.round(r.top)));
      if (lines.size > 1 && word[0].length < 40) found.push(word[0]);
    }
  }
}
return found;
"""

# Text of one cell that runs into the next one.
OVERLAPS = r"""
const found = [];
for (const cell of document.querySelectorAll('table td')) {
  const limit = cell.getBoundingClientRect().right + 1;
  for (const inner of cell.querySelectorAll('p, code')) {
    const out = [...inner.getClientRects()].some(r => r.width > 0 && r.right > limit);
    if (out) found.push(inner.textContent.slice(0, 40));
  }
}
return found;
"""

# Options of the command line (``--mean``) that are broken at a hyphen.
BROKEN_OPTIONS = r"""
return [...document.querySelectorAll('section#command-line :not(pre) > code span.pre')]
  .filter(e => e.textContent.startsWith('--') && e.getClientRects().length > 1).map(e => e.textContent);
"""

# Names in the list beside a page that are cut off at its edge.
CUT_NAMES = r"""
return [...document.querySelectorAll('.bd-sidebar-secondary .page-toc a')]
  .filter(e => e.checkVisibility() && [e, ...e.querySelectorAll('*')]
    .some(i => i.getBoundingClientRect().right > document.documentElement.clientWidth + 1)).map(e => e.textContent);
"""

# A formula and its number must not lie on one another, nor a formula reach out of its own box.
FORMULAS = r"""
const found = [];
for (const box of document.querySelectorAll('div.math')) {
  const formula = box.querySelector('.formula').getBoundingClientRect();
  const number = box.querySelector('.eqno');
  if (formula.right > innerWidth + 1) found.push(`too wide: ${box.textContent.slice(0, 40)}`);
  if (number && number.getBoundingClientRect().left < formula.right - 1) found.push(`number: ${number.textContent}`);
}
return found;
"""

# Figures need a description for those who do not see them; small ones beside their title, or in a link, do not.
UNDESCRIBED = r"""
return [...document.images].filter(i => !i.alt.trim() && !i.closest('a, .sphx-glr-thumbcontainer')).map(i => i.src);
"""


class _Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves several folders, first match first, and the site's own page for what is missing."""

    folders = ()

    def log_message(self, *args):
        pass

    def translate_path(self, path):
        for folder in self.folders:
            self.directory = str(folder)
            found = super().translate_path(path)
            if Path(found).exists():
                return found
        return found

    def send_error(self, code, message=None, explain=None):
        page = Path(self.folders[0]) / "404.html"
        if code != 404 or not page.exists():
            super().send_error(code, message, explain)
            return
        body = page.read_bytes()
        self.send_response(404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextlib.contextmanager
def served(*folders):
    """Serve ``folders`` at a port of this machine; yields the address."""
    handler = type("Handler", (_Quiet,), {"folders": folders})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextlib.contextmanager
def chromium(profile):
    """Start a headless Chromium; yields a selenium driver that logs the console and the network."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*_FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        driver.set_page_load_timeout(60)
        yield driver
    finally:
        driver.quit()


def set_size(driver, width, height):
    """Give the page a viewport of ``width`` pixels; below 600 as a phone."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def set_scheme(driver, scheme):
    """Ask for the light or the dark style, as the user's system would."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def requested(driver):
    """Return the addresses asked for since the last call."""
    events = (json.loads(entry["message"])["message"] for entry in driver.get_log("performance"))
    return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]


def complaints(driver):
    """Return the console's errors since the last call."""
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]


def screenshot(driver, path):
    """Save the whole page, not only what fits the window."""
    size = driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
    clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 6000), "scale": 1}
    options = {"captureBeyondViewport": True, "clip": clip}
    path.write_bytes(base64.b64decode(driver.execute_cdp_cmd("Page.captureScreenshot", options)["data"]))
