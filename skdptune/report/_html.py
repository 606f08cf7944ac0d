"""Reports as a page, as a fragment for a notebook, and the short card of a price."""

from skdptune._rounding import as_given, nats_up, plain_as_given
from skdptune.report._blocks import Bullets, Notice, Paragraph, Table, escape
from skdptune.report._document import score_notes
from skdptune.report._notes import spent_notes
from skdptune.report._style import CLASS, STYLE

__all__ = ["card", "fragment", "page"]

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
body {{margin:0;padding:1rem;background:#e9edf2}}
@media (prefers-color-scheme:dark) {{body {{background:#0d1014}}}}
@media (max-width:30rem) {{body {{padding:0}}}}
@media print {{body {{padding:0;background:#fff}}}}
main {{margin:0 auto}}
{style}</style>
</head>
<body>
<main class="{name}">
<h1>{title}</h1>
{inner}
</main>
</body>
</html>
"""


def page(title, blocks):
    """Return a complete HTML document."""
    inner = "\n".join(block.html(2) for block in blocks)
    return _PAGE.format(title=escape(title), style=STYLE, name=CLASS, inner=inner)


def fragment(title, blocks, level=2):
    """Return a piece of HTML with its own style, to stand inside another page."""
    inner = "\n".join(block.html(level + 1) for block in blocks)
    heading = f"<h{level}>{escape(title)}</h{level}>"
    return f'<div class="{CLASS}"><style>{STYLE}</style>{heading}{inner}</div>'


def _facts(spent):
    """Return the facts of a price with its deltas written as the card's heading writes them."""
    target = getattr(spent.settings, "target", None)
    for name, text in spent.facts():
        if name == "target":
            text = text.replace(f"at delta {as_given(target[1])}", f"at delta {plain_as_given(target[1])}")
        yield name, text


def card(spent):
    """Return the short table of a :class:`PrivacySpent` as HTML, for a notebook.

    Parameters
    ----------
    spent : PrivacySpent

    Returns
    -------
    str
        Self-contained; what is long is folded away.
    """
    delta = spent.default_delta
    prices = spent.price_rows(delta)
    strong = [name for name, _ in prices].index("whole search" if spent.test_score is None else "together")
    blocks = [Notice(text) for text in spent_notes(spent, delta)]
    if spent.settings is not None and spent.settings.seeded:
        blocks.append(Notice("A seed was given (random_state): whoever knows it can undo the noise. Keep it secret."))
    blocks += [Notice(text) for text in score_notes(spent)]
    closed = f"closed form{'' if spent.test_score is None else ' for the search'}, for comparison"
    names = {"(closed form)": closed}
    rows = tuple((names.get(name, name), nats_up(value)) for name, value in prices)
    blocks.append(Table(f"Price at delta = {plain_as_given(delta)}, rounded up", ("", "epsilon"), rows, strong))
    blocks.append(Table("How it was found", ("", ""), tuple(_facts(spent)), kind="facts"))
    folded = [
        ("Assumptions", Bullets(tuple(spent.assumptions), numbered=True)),
        ("Scope", Paragraph(spent.scope)),
        ("Versions", Paragraph(", ".join(f"{name} {value}" for name, value in spent.versions) or "not recorded")),
    ]
    inner = "\n".join(block.html(4) for block in blocks)
    inner += "".join(
        f"<details><summary>{name}</summary>{block.html(4)}</details>" for name, block in folded
    )
    return f'<div class="{CLASS}"><style>{STYLE}</style><h3>{escape(spent.heading)}</h3>{inner}</div>'
