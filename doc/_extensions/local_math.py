"""Formulas as MathML: drawn by the browser itself, so that a page asks no other server for a script."""

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.errors import ExtensionError
from sphinx.util.math import get_node_equation_number


def _convert(node, as_block):
    code = node.astext().strip().replace(r"\dots", r"\ldots")
    if as_block and r"\\" in code and not code.startswith(r"\begin"):
        code = rf"\begin{{aligned}}{code}\end{{aligned}}"
    try:
        return tex2mathml(code, as_block=as_block)
    except Exception as error:
        raise ExtensionError(f"{node.source}:{node.line}: cannot draw the formula {code!r}: {error}") from error


def visit_inline(self, node):
    """Write a formula inside a sentence."""
    kind = "math long" if len(node.astext()) > 40 else "math"  # a long one scrolls on a phone
    self.body.append(f'<span class="{kind}">{_convert(node, False)}</span>')
    raise nodes.SkipNode


def visit_block(self, node):
    """Write a displayed formula, with its number and anchor where it has a label."""
    self.body.append(self.starttag(node, "div", CLASS="math"))
    # reached by the keyboard, which scrolls it where it is too wide
    self.body.append(f'<div class="formula" tabindex="0">{_convert(node, True)}</div>')
    if node["number"]:
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})')
        self.add_permalink_ref(node, "Link to this equation")
        self.body.append("</span>")
    self.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app):
    """Register the renderer ``mathml``."""
    app.add_html_math_renderer("mathml", inline_renderers=(visit_inline, None), block_renderers=(visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True, "version": "1"}
