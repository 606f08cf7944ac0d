"""The API reference: one page per public module, written from its ``__all__``, and links to public names by any path.

The pages are written to ``doc/generated`` before the build. A name that a package passes on (``skdptune.best_of``) is
documented where it is public closest to its definition, and every other path leads there.
"""

import importlib
import inspect
import types

from docutils import nodes
from sphinx.util.nodes import make_refnode

MODULES = (
    "skdptune",
    "skdptune.model_selection",
    "skdptune.run_counts",
    "skdptune.accounting",
    "skdptune.scoring",
    "skdptune.candidates",
    "skdptune.candidates.nets",
    "skdptune.ledger",
    "skdptune.report",
    "skdptune.displays",
    "skdptune.exceptions",
)
# Passed on from room to room inside the package, and nothing for a user: they have no page and may change.
INTERNAL = ("as_ledger", "for_pickling", "card", "largest_below")
_HOME = {}  # full path of a documented name -> where it is documented
_BY_ID = {}  # id of a documented object -> where it is documented


def _import(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _is_documented(value):
    return inspect.isclass(value) or callable(value)


def _module_page(name, module, names):
    lines = [name, "=" * len(name), "", f".. automodule:: {name}", "   :no-members:", ""]
    lines += [f".. currentmodule:: {name}", ""]
    groups = (
        ("Classes", [n for n in names if inspect.isclass(getattr(module, n))]),
        ("Functions", [n for n in names if not inspect.isclass(getattr(module, n))]),
    )
    for title, group in groups:
        if not group:
            continue
        lines += [title, "-" * len(title), ""]
        homes = [_HOME[f"{name}.{n}"] for n in group]
        # a name that is passed on has its place in the contents once: under the module that documents it
        own = [home for home in homes if home.rpartition(".")[0] == name]
        for listed, toctree in ((own, ["   :toctree: ."]), ([home for home in homes if home not in own], [])):
            if listed:
                lines += [".. autosummary::", *toctree, "   :nosignatures:", ""]
                lines += [f"   {home.removeprefix(f'{name}.')}" for home in listed] + [""]
    return "\n".join(lines)


def _public_names(module):
    names = getattr(module, "__all__", [])
    return [n for n in names if n not in INTERNAL and not isinstance(getattr(module, n, None), types.ModuleType)]


def _homes(modules):
    # Deeper modules first: a name passed on upwards is documented below.
    for name, module in sorted(modules.items(), key=lambda item: -item[0].count(".")):
        for n in _public_names(module):
            value = getattr(module, n)
            _BY_ID.setdefault(id(value), f"{name}.{n}")
            _HOME[f"{name}.{n}"] = _BY_ID[id(value)]


def write_pages(app, config):
    """Write ``generated/<module>.rst``."""
    folder = app.srcdir / "generated"
    folder.mkdir(exist_ok=True)
    modules = {name: module for name in MODULES if (module := _import(name)) is not None}
    _homes(modules)
    for name in set(MODULES) - set(modules):  # the build lacks a library that this part needs
        excuse = f"Not shown: this site was built without what ``{name}`` needs."
        lines = (name, "=" * len(name), "", f".. py:module:: {name}", "", excuse, "")
        (folder / f"{name}.rst").write_text("\n".join(lines))
    wanted = {f"{name}.rst" for name in MODULES} | {f"{home}.rst" for home in _HOME.values()}
    for page in folder.glob("*.rst"):
        if page.name not in wanted:
            page.unlink()
    for name, module in modules.items():
        names = [n for n in _public_names(module) if _is_documented(getattr(module, n))]
        page, text = folder / f"{name}.rst", _module_page(name, module, names)
        if not page.exists() or page.read_text() != text:
            page.write_text(text)


def summaries():
    """Return rows for a table of the modules: a link, and the first sentence of the module's docstring."""
    rows = [("Module", "What it holds")]
    for name in MODULES:
        module = _import(name)
        text = inspect.getdoc(module) if module is not None else "Not shown: this site was built without what it needs."
        rows.append((f":mod:`{name}`", " ".join(text.split("\n\n")[0].split())))
    return rows


def _object_at(path):
    """Return the object that a dotted path of skdptune names, or None."""
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        module = _import(".".join(parts[:cut]))
        if module is None:
            continue
        value = module
        for part in parts[cut:]:
            value = getattr(value, part, None)
        return value
    return None


def resolve(app, env, node, contnode):
    """Lead a reference by another path (``skdptune.best_of``, ``skdptune.accounting.curve.PrivacyCurve``) home."""
    target = node.get("reftarget", "")
    if node.get("refdomain") != "py" or not target:
        return None
    if not target.startswith("skdptune"):
        found = [home for home in set(_HOME.values()) if home.rpartition(".")[2] == target.split(".")[0]]
        if len(found) != 1:
            return None
        target = ".".join([found[0], *target.split(".")[1:]])
    owner, _, attribute = target.rpartition(".")
    candidates = [_HOME.get(target), _BY_ID.get(id(_object_at(target)))]
    home = _HOME.get(owner) or _BY_ID.get(id(_object_at(owner)))
    candidates.append(f"{home}.{attribute}" if home else None)
    objects = env.get_domain("py").objects
    for name in (target, *candidates):
        if name in objects:
            entry = objects[name]
            return make_refnode(app.builder, node["refdoc"], entry.docname, entry.node_id, contnode, name)
    return None


def leave_to_pytest(app, doctree):
    """Take the examples of docstrings out of the doctest builder: pytest runs them, inside their own modules."""
    if app.env.docname.startswith("generated/"):
        for node in list(doctree.findall(nodes.doctest_block)):
            node.replace_self(nodes.literal_block(node.rawsource, node.astext(), language="pycon"))


def setup(app):
    """Write the pages before autosummary reads them."""
    app.connect("config-inited", write_pages, priority=900)
    app.connect("missing-reference", resolve)
    app.connect("doctree-read", leave_to_pytest)
    return {"parallel_read_safe": True, "parallel_write_safe": True, "version": "1"}
