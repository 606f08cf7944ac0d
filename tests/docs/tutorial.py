"""The tutorial as a newcomer meets it: the lines to type, in order, and nothing else.

``python tests/docs/tutorial.py`` runs the page's visible blocks in the working directory; ``--install`` prints its
``pip install`` line.
"""

import re
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DIRECTIVE = re.compile(r"^( *)\.\. (python-run|code-block)::(.*)$")


def blocks(page):
    """Yield ``(kind, argument, options, code)`` for each block of code of an .rst page."""
    lines = page.read_text().splitlines()
    at = 0
    while at < len(lines):
        found = DIRECTIVE.match(lines[at])
        at += 1
        if not found:
            continue
        indent = len(found.group(1)) + 3
        body = []
        while at < len(lines) and (not lines[at].strip() or lines[at].startswith(" " * indent)):
            body.append(lines[at][indent:])
            at += 1
        options = {}
        while body and (option := re.match(r":([\w-]+):\s*(.*)", body[0])):
            options[option.group(1)] = option.group(2)
            body.pop(0)
        yield found.group(2), found.group(3).strip(), options, textwrap.dedent("\n".join(body)).strip("\n")


def install_line():
    """Return the tutorial's command, as it is to be typed."""
    for kind, argument, _, code in blocks(ROOT / "doc" / "tutorial.rst"):
        if kind == "code-block" and argument == "console":
            return code.strip().removeprefix("$ ")
    raise LookupError("the tutorial has no console block")


def script(page="tutorial"):
    """Return one Python program: the visible blocks of a page, each with the error it announces."""
    parts = []
    for kind, _, options, code in blocks(ROOT / "doc" / f"{page}.rst"):
        if kind != "python-run" or "hide" in options:
            continue
        wanted = options.get("raises")
        if wanted is None:
            parts.append(code)
            continue
        indented = "\n".join(f"    {line}" for line in code.splitlines())
        parts.append(
            f"try:\n{indented}\nexcept Exception as error:\n    assert type(error).__name__ == {wanted!r}, error\n"
            f"else:\n    raise AssertionError('should have raised {wanted}')"
        )
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    if "--install" in sys.argv:
        print(install_line())
    else:
        exec(compile(script(), "tutorial.rst", "exec"), {"__name__": "__main__"})
