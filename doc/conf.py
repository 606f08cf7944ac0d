"""Sphinx configuration.

Build with ``sphinx-build -W doc doc/_build/html``. The gallery is part of it once ``examples`` has
a header page (``README.rst`` or ``GALLERY_HEADER.rst``); its scripts are executed only if the
environment variable ``SKDPTUNE_RUN_GALLERY`` is set.
"""

import os
import sys
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE / "theory"))

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
    "sphinx.ext.mathjax",
    "numpydoc",
]
exclude_patterns = ["_build", "Thumbs.db", ".DS_Store"]
suppress_warnings = ["config.cache"]

autosummary_generate = True
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

html_theme = "pydata_sphinx_theme"
html_title = "skdptune"
html_static_path = ["_static"]
html_show_sourcelink = False
html_theme_options = {"show_toc_level": 2, "navigation_with_keys": False}
math_number_all = False

_examples = HERE.parent / "examples"
if any((_examples / name).exists() for name in ("README.rst", "README.txt", "GALLERY_HEADER.rst")):
    extensions.append("sphinx_gallery.gen_gallery")
    sphinx_gallery_conf = {
        "examples_dirs": [str(_examples)],
        "gallery_dirs": ["auto_examples"],
        "filename_pattern": r"plot_",
        "ignore_pattern": r"benchmarks",
        "plot_gallery": "True" if os.environ.get("SKDPTUNE_RUN_GALLERY") else "False",
        "download_all_examples": False,
    }
