"""Pieces of a report; each can write itself as HTML and as Markdown, and escapes what it is given."""

import html
import re
import unicodedata
from dataclasses import dataclass

__all__ = ["Bullets", "Headline", "Notice", "Paragraph", "Section", "Signature", "Table", "escape", "markdown_escape"]


# what turns the direction of writing: a number in between could be read backwards
_TURNS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def visible(text):
    """Return ``text`` with control characters, direction marks and half surrogate pairs written as escapes.

    Examples
    --------
    >>> visible("a\\x1b[2J \\u202e1.0")
    'a\\\\x1b[2J \\\\u202e1.0'
    """
    return "".join(_shown(c) if unicodedata.category(c) in ("Cc", "Cs") or c in _TURNS else c for c in str(text))


def _shown(character):
    if character in "\t\n\r":
        return character
    return f"\\x{ord(character):02x}" if ord(character) < 256 else f"\\u{ord(character):04x}"


def escape(text):
    """Return ``text`` safe inside HTML, also inside a quoted attribute.

    Examples
    --------
    >>> escape('<script>"')
    '&lt;script&gt;&quot;'
    """
    return html.escape(visible(text), quote=True)


def markdown_escape(text):
    """Return ``text`` on one line and without meaning in Markdown or HTML.

    Examples
    --------
    >>> markdown_escape("a|b <i> max_depth")
    'a\\\\|b &lt;i&gt; max\\\\_depth'
    >>> markdown_escape("# 1"), markdown_escape("1. x"), markdown_escape("1.5")
    ('\\\\# 1', '1\\\\. x', '1.5')
    """
    text = visible(" ".join(str(text).split()))
    text = re.sub(r"([\\`*_\[\]|~$])", r"\\\1", text)
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # what would start a heading or a list
    return re.sub(r"^([#+-]|\d+(?=[.)](?:\s|$)))", _literal, text)


def _literal(start):
    found = start.group()
    return f"{found}\\" if found.isdigit() else f"\\{found}"


@dataclass(frozen=True)
class Paragraph:
    """One paragraph of plain text."""

    text: str

    def html(self, level):
        return f"<p>{escape(self.text)}</p>"

    def markdown(self, level):
        return markdown_escape(self.text)


@dataclass(frozen=True)
class Notice:
    """Something that must not be overlooked; marked by a word and a border, not by colour alone."""

    text: str

    def html(self, level):
        return f'<p class="notice"><strong>Note.</strong> {escape(self.text)}</p>'

    def markdown(self, level):
        return f"> **Note.** {markdown_escape(self.text)}"


@dataclass(frozen=True)
class Headline:
    """The one number, with what it belongs to."""

    label: str
    value: str
    context: str

    def html(self, level):
        return (
            f'<p class="headline"><span>{escape(self.label)}</span> <strong>{escape(self.value)}</strong> '
            f"<span>{escape(self.context)}</span></p>"
        )

    def markdown(self, level):
        return f"**{markdown_escape(self.label)} {markdown_escape(self.value)}** {markdown_escape(self.context)}"


@dataclass(frozen=True)
class Table:
    """A table whose first column heads its rows; ``strong`` is the row to read first."""

    caption: str
    columns: tuple
    rows: tuple
    strong: int | None = None
    kind: str = "numbers"

    def html(self, level):
        body = "".join(self._html_row(i, row) for i, row in enumerate(self.rows))
        return (
            f'<table class="{escape(self.kind)}"><caption>{escape(self.caption)}</caption>'
            f"{self._html_head()}<tbody>{body}</tbody></table>"
        )

    def _html_head(self):
        if not any(self.columns):
            return ""
        # a heading without text is no heading
        cells = (f'<th scope="col">{escape(name)}</th>' if name else "<td></td>" for name in self.columns)
        return f"<thead><tr>{''.join(cells)}</tr></thead>"

    def _html_row(self, index, row):
        first, *rest = row
        mark = ' class="strong"' if index == self.strong else ""
        # a percentage is not broken before its sign
        cells = "".join(f"<td>{escape(cell)}</td>".replace(" %", "&nbsp;%").replace("\n", "<br>") for cell in rest)
        return f'<tr{mark}><th scope="row">{escape(first)}</th>{cells}</tr>'

    def markdown(self, level):
        lines = [f"*{markdown_escape(self.caption)}*", ""]
        lines.append("| " + " | ".join(markdown_escape(name) or "&nbsp;" for name in self.columns) + " |")
        align = "---:" if self.kind == "numbers" else "---"
        lines.append("| " + " | ".join(["---", *[align] * (len(self.columns) - 1)]) + " |")
        for index, row in enumerate(self.rows):
            cells = ["<br>".join(markdown_escape(line) for line in str(cell).splitlines()) for cell in row]
            if index == self.strong:
                cells = [f"**{cell}**" for cell in cells]
            lines.append("| " + " | ".join(cells) + " |")
        return "\n".join(lines)


@dataclass(frozen=True)
class Bullets:
    """A list, numbered where its entries are to be cited."""

    items: tuple
    numbered: bool = False

    def html(self, level):
        tag = "ol" if self.numbered else "ul"
        return f"<{tag}>" + "".join(f"<li>{escape(item)}</li>" for item in self.items) + f"</{tag}>"

    def markdown(self, level):
        starts = (f"{i}." if self.numbered else "-" for i in range(1, len(self.items) + 1))
        return "\n".join(f"{start} {markdown_escape(item)}" for start, item in zip(starts, self.items, strict=True))


@dataclass(frozen=True)
class Signature:
    """Lines to fill in by hand."""

    labels: tuple

    def html(self, level):
        rows = "".join(f'<tr><th scope="row">{escape(label)}</th><td></td></tr>' for label in self.labels)
        return f'<table class="signature"><caption>To be filled in</caption><tbody>{rows}</tbody></table>'

    def markdown(self, level):
        lines = ["| To be filled in | |", "| --- | --- |"]
        lines += [f"| {markdown_escape(label)} | {'&nbsp;' * 30} |" for label in self.labels]
        return "\n".join(lines)


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    title: str
    blocks: tuple

    def html(self, level):
        inner = "".join(block.html(level + 1) for block in self.blocks)
        return f"<section><h{level}>{escape(self.title)}</h{level}>{inner}</section>"

    def markdown(self, level):
        parts = [f"{'#' * level} {markdown_escape(self.title)}"]
        return "\n\n".join(parts + [text for text in (block.markdown(level + 1) for block in self.blocks) if text])
