"""Pages as a newcomer meets them: the lines to type, in order, and nothing else.

``python tests/docs/tutorial.py`` runs the tutorial's visible blocks in the working directory; ``--install`` prints its
``pip install`` line.
"""

import ast
import builtins
import re
import sys
import textwrap
from importlib.util import find_spec
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


def shown(page):
    """Yield ``(options, code)`` of the blocks that a reader of ``doc/<page>.rst`` sees and may copy."""
    for kind, _, options, code in blocks(ROOT / "doc" / f"{page}.rst"):
        if kind == "python-run" and not {"hide", "hide-code"} & set(options):
            yield options, code


def pages():
    """Return the names of all pages that show code which is run."""
    names = (path.relative_to(ROOT / "doc").with_suffix("") for path in sorted((ROOT / "doc").rglob("*.rst")))
    return [str(name) for name in names if name.parts[0] not in ("generated", "auto_examples") and any(shown(name))]


def script(page="tutorial"):
    """Return one Python program: the visible blocks of a page, each with the error it announces."""
    parts = []
    for options, code in shown(page):
        if "needs" in options and find_spec(options["needs"]) is None:
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


def unknown_names(page):
    """Return ``(name, line)`` of what the visible blocks of a page use before any of them has said what it is."""
    known, missing = {*dir(builtins), "__name__", "__file__"}, []
    for _, code in shown(page):
        tree = ast.parse(code)
        known |= set(_given(tree))
        missing += [
            (node.id, code.splitlines()[node.lineno - 1].strip())
            for node in ast.walk(tree)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in known
        ]
    return missing


def _given(tree):
    """Yield every name that the code binds, wherever in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).split(".")[0]
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name


if __name__ == "__main__":
    if "--install" in sys.argv:
        print(install_line())
    else:
        exec(compile(script(), "tutorial.rst", "exec"), {"__name__": "__main__"})
