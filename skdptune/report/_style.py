"""The style of reports and cards: one class, both themes, nothing loaded from anywhere."""

__all__ = ["CLASS", "STYLE"]

CLASS = "skdptune-report"

_LIGHT = "--ink:#1b1f24;--soft:#4b5563;--paper:#ffffff;--panel:#f3f5f8;--line:#c3cad3;--accent:#0b4f9e;--warn:#8a3b00"
_DARK = "--ink:#e7eaee;--soft:#b3bcc8;--paper:#15191e;--panel:#20262e;--line:#465160;--accent:#8fc1ff;--warn:#ffb77a"

# Where a page says which theme it shows (notebooks, editors, documentation), that wins over the system's.
_DARK_PAGES = (
    'body[data-jp-theme-light="false"]',
    "body.vscode-dark",
    "body.vscode-high-contrast:not(.vscode-high-contrast-light)",
    'html[data-theme="dark"]',
    'html[theme="dark"]',
)
_LIGHT_PAGES = (
    'body[data-jp-theme-light="true"]',
    "body.vscode-light",
    "body.vscode-high-contrast-light",
    'html[data-theme="light"]',
    'html[theme="light"]',
)

# The class is written twice: notebooks style tables with two classes' weight.
_ME = f".{CLASS}.{CLASS}"

_RULES = """
@ {box-sizing:border-box;max-width:50rem;padding:1.25rem;border:1px solid var(--line);border-radius:.5rem;
 background:var(--paper);color:var(--ink);font:1rem/1.55 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;
 text-align:left;overflow-wrap:anywhere}
@ * {box-sizing:border-box}
@ h1,@ h2,@ h3 {color:var(--ink);line-height:1.25;font-weight:650;margin:1.6em 0 .5em}
@ h1 {font-size:1.7rem}
@ > h1,@ > style + h2,@ > style + h3 {margin-top:0}
@ h2 {font-size:1.25rem;border-bottom:1px solid var(--line);padding-bottom:.25em}
@ h3 {font-size:1.05rem}
@ p,@ ul,@ ol {margin:.5em 0 .8em;color:var(--ink);font-size:1em}
@ ul,@ ol {padding-left:1.6em}
@ li {margin:.3em 0;color:var(--ink)}
@ .headline {margin:1em 0;padding:.8em 1em;background:var(--panel);border-left:.35rem solid var(--accent);
 border-radius:.25rem}
@ .headline strong {font-size:1.9rem;line-height:1.2;color:var(--accent);font-variant-numeric:tabular-nums}
@ .notice {margin:.8em 0;padding:.7em 1em;border:2px solid var(--warn);border-radius:.25rem;background:var(--panel)}
@ .notice strong {color:var(--warn)}
@ table {display:table;width:100%;margin:1em 0 1.2em;border-collapse:collapse;border:0;table-layout:auto;
 font-size:.94rem;color:var(--ink);background:transparent}
@ caption {caption-side:top;text-align:left;color:var(--soft);padding:0 0 .4em;font-size:.9rem}
@ tr:nth-child(n),@ tr:nth-child(n):hover {background:transparent}
@ th,@ td {padding:.42em .5em;border:0;border-bottom:1px solid var(--line);text-align:left;vertical-align:top;
 color:var(--ink);background:transparent;font-weight:400;white-space:normal;max-width:none}
@ thead th,@ thead td {font-weight:650;border-bottom:2px solid var(--line);vertical-align:bottom}
@ .numbers th:not(:first-child),@ .numbers td {text-align:right;font-variant-numeric:tabular-nums}
@ .numbers th,@ .numbers td {overflow-wrap:normal}
@ .numbers td {white-space:nowrap}
@ .facts th {width:32%;color:var(--soft)}
@ .facts th,@ .signature th {padding-left:0}
@ .signature th {width:40%;height:3em;vertical-align:bottom}
@ tr.strong th,@ tr.strong td {font-weight:700;background:var(--panel)}
@ details {margin:.6em 0}
@ summary {cursor:pointer;color:var(--accent);font-weight:600}
@ figure {margin:1em 0}
@ svg {display:block;width:100%;max-width:24rem;height:auto}
@ svg text {fill:var(--ink);font-size:12px}
@ svg path,@ svg rect {fill:none;stroke:var(--ink)}
@ svg .frame {stroke:var(--line)}
@ svg .guess {stroke:var(--soft);stroke-width:1}
@ svg .single {stroke:var(--soft);stroke-width:2;stroke-dasharray:6 4}
@ svg .whole {stroke:var(--accent);stroke-width:3}
@ figcaption {color:var(--soft);font-size:.9rem}
@media (max-width:30rem) {
 @ {padding:.8rem;border-radius:0}
 @ .facts th,@ .facts td {display:block;width:auto;padding-left:0}
 @ .facts th {border-bottom:0;padding-bottom:0}
 @ table {font-size:.86rem}
 @ th,@ td {padding:.4em .3em}
 @ .headline strong {font-size:1.6rem}
}
@media print {
 @ {LIGHT;border:0;max-width:none;font-size:10.5pt}
 @ table,@ figure,@ .notice {break-inside:avoid}
 @ h2,@ h3 {break-after:avoid}
}
"""


def _style():
    def pages(selectors):
        return ",".join(f"{page} {_ME}" for page in selectors)

    rules = _RULES.replace("@media", "\0").replace("@", _ME).replace("\0", "@media").replace("LIGHT", _LIGHT)
    return (
        f"{_ME} {{{_LIGHT}}}\n@media (prefers-color-scheme:dark) {{{_ME} {{{_DARK}}}}}\n"
        f"{pages(_DARK_PAGES)} {{{_DARK}}}\n{pages(_LIGHT_PAGES)} {{{_LIGHT}}}{rules}"
    )


STYLE = _style()
