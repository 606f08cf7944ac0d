"""Pages whose numbers are computed while the documentation is built.

Every page has one namespace, filled from top to bottom:

``.. python-run::``
    runs its content and shows it with what it prints; a last line that is an expression shows its value. Options:
    ``:hide:`` (show nothing), ``:hide-code:``, ``:hide-output:``, ``:html:`` (its ``_repr_html_``),
    ``:raises: Name`` (the block must raise ``Name``; its message is shown), ``:needs: module`` (without that module the
    code is shown and not run).

``.. python-table::``
    runs its content, whose last line is an expression for rows; the first row is the header.

``:value:`expression```
    the value of an expression inside a sentence.

Warnings are errors in all of them, and an error breaks a build with ``-W``. ``up``, ``down`` and ``num`` format
numbers: an epsilon or a delta is rounded up. ``measured_accuracy()`` is what a hundred searches of the quickstart reach
(``examples/audits/accuracy_in_the_docs.py``): made once in a build, before pages are shared out among processes.
"""

import ast
import contextlib
import decimal
import functools
import importlib.util
import io
import math
import os
import re
import tempfile
import warnings
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective, SphinxRole

_NAMESPACES = {}
_FOLDERS = {}
_AUDIT = Path(__file__).resolve().parents[2] / "examples" / "audits" / "accuracy_in_the_docs.py"


@functools.cache
def measured_accuracy():
    """Return what the quickstart's searches reach, measured now: some twenty seconds, the first time."""
    spec = importlib.util.spec_from_file_location(_AUDIT.stem, _AUDIT)
    audit = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(audit)
    return audit.quickstart_in_brief()


def _rounded(value, digits, rounding):
    value = float(value)
    if not math.isfinite(value):
        return str(value)
    step = decimal.Decimal(1).scaleb(-digits)
    # the shortest decimal that stands for the double, as everywhere in the package: 0.1 is a tenth
    return f"{decimal.Decimal(repr(value)).quantize(step, rounding=rounding):,f}"


def up(value, digits=2):
    """Format with ``digits`` decimals, rounded up: what is printed is never below the value."""
    return _rounded(value, digits, decimal.ROUND_CEILING)


def down(value, digits=2):
    """Format with ``digits`` decimals, rounded down."""
    return _rounded(value, digits, decimal.ROUND_FLOOR)


def num(value, digits=2):
    """Format with ``digits`` decimals, rounded to nearest: for what is not a privacy cost."""
    return _rounded(value, digits, decimal.ROUND_HALF_EVEN)


def namespace_of(docname, source=""):
    """Return the namespace of a page, made when the page first asks; ``SOURCE`` is the folder of the sources."""
    if docname not in _NAMESPACES:
        given = {"up": up, "down": down, "num": num, "measured_accuracy": measured_accuracy}
        _NAMESPACES[docname] = {"__name__": "__main__", "SOURCE": Path(source), **given}
    return _NAMESPACES[docname]


@contextlib.contextmanager
def folder_of(docname):
    """Work in a folder of the page's own: what its code writes does not land beside the sources."""
    if docname not in _FOLDERS:
        _FOLDERS[docname] = tempfile.TemporaryDirectory(prefix="skdptune-docs-")
    before = os.getcwd()
    os.chdir(_FOLDERS[docname].name)
    try:
        yield
    finally:
        os.chdir(before)


def run_block(source, namespace, filename="<page>"):
    """Run ``source`` and return ``(printed, value)``; value is that of a last line that is an expression."""
    tree = ast.parse(source, filename)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(compile(tree, filename, "exec"), namespace)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), filename, "eval"), namespace)
    return printed.getvalue(), value


class _Computed(SphinxDirective):
    has_content = True

    def _run(self):
        """Return ``(printed, value, failure)``."""
        source = "\n".join(self.content)
        where = f"<{self.env.docname}.rst, line {self.lineno}>"
        wanted = self.options.get("raises")
        try:
            with folder_of(self.env.docname):
                printed, value = run_block(source, namespace_of(self.env.docname, self.env.srcdir), where)
        except Exception as error:
            if type(error).__name__ != wanted:
                raise self.error(f"the code at {where} failed: {type(error).__name__}: {error}") from error
            return "", None, self._without_folder(f"{wanted}: {error}")
        if wanted:
            raise self.error(f"the code at {where} should have raised {wanted}, but did not")
        return self._without_folder(printed), value, None

    def _without_folder(self, text):
        return text.replace(_FOLDERS[self.env.docname].name + os.sep, "")  # this machine's own path


class PythonRun(_Computed):
    """See the module."""

    option_spec = {
        "hide": directives.flag,
        "hide-code": directives.flag,
        "hide-output": directives.flag,
        "html": directives.flag,
        "raises": directives.unchanged_required,
        "needs": directives.unchanged_required,
    }

    def run(self):
        shown_code = not {"hide", "hide-code"} & set(self.options)
        if shown_code and re.search(r"\b(up|down|num|measured_accuracy)\(", "\n".join(self.content)):
            raise self.error("up, down, num and measured_accuracy are not known to a reader who copies this block")
        runs = "needs" not in self.options or importlib.util.find_spec(self.options["needs"]) is not None
        printed, value, failure = self._run() if runs else ("", None, None)
        if "hide" in self.options:
            return []
        shown = []
        if "hide-code" not in self.options:
            code = "\n".join(self.content)
            block = nodes.literal_block(code, code, language="python", classes=["computed-code"])
            self.set_source_info(block)
            shown.append(block)
        if "hide-output" in self.options:
            return shown
        if failure is not None:
            shown.append(self._text(failure, "computed-error"))
            return shown
        if "html" in self.options:
            html = f'<div class="computed-html">{value._repr_html_()}</div>'
            return [*shown, nodes.raw("", html, format="html")]
        text = printed + ("" if value is None else repr(value))
        if text.strip():
            shown.append(self._text(text.rstrip("\n"), "computed-output"))
        return shown

    def _text(self, text, kind):
        return nodes.literal_block(text, text, language="text", classes=[kind])


class PythonTable(_Computed):
    """See the module."""

    option_spec = {
        "widths": directives.unchanged,
        "class": directives.class_option,
    }

    def run(self):
        _, rows, _ = self._run()
        lines = [".. list-table::", "   :header-rows: 1"]
        for option in ("widths",):
            if option in self.options:
                lines.append(f"   :{option}: {self.options[option]}")
        if "class" in self.options:
            lines.append(f"   :class: {' '.join(self.options['class'])}")
        lines.append("")
        for row in rows:
            for column, cell in enumerate(row):
                lines.append(f"   {'* -' if column == 0 else '  -'} {cell}")
        container = nodes.Element()
        self.state.nested_parse(StringList(lines, source=self.env.docname), self.content_offset, container)
        return container.children


class Value(SphinxRole):
    """See the module."""

    def run(self):
        try:
            _, value = run_block(self.text.strip(), namespace_of(self.env.docname, self.env.srcdir))
        except Exception as error:
            text = f"cannot evaluate {self.text!r}: {type(error).__name__}: {error}"
            message = self.inliner.reporter.error(text, line=self.lineno)
            return [self.inliner.problematic(self.rawtext, self.rawtext, message)], [message]
        return [nodes.inline(self.rawtext, str(value), classes=["computed-value"])], []


def _forget(app, docname, source):
    _NAMESPACES.pop(docname, None)
    if docname in _FOLDERS:
        _FOLDERS.pop(docname).cleanup()


def _forget_read(app, doctree):
    _forget(app, app.env.docname, None)


def _measure_once(app, env, docnames):
    """Processes that read pages begin as copies of this one: what is known here is not measured again in each."""
    texts = (Path(env.doc2path(docname)).read_text(encoding="utf-8") for docname in docnames)
    if any("measured_accuracy()" in text for text in texts):
        measured_accuracy()


def setup(app):
    """Register the directives and the role."""
    app.add_directive("python-run", PythonRun)
    app.add_directive("python-table", PythonTable)
    app.add_role("value", Value())
    app.connect("env-before-read-docs", _measure_once)
    app.connect("source-read", _forget)
    app.connect("doctree-read", _forget_read)
    return {"parallel_read_safe": True, "parallel_write_safe": True, "version": "1"}
