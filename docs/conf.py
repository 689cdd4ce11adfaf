"""The documentation site: `make docs`.

Sphinx reads the root of the repository, not this folder, so that README.md, docs/ and notebooks/ link to each other by the
same relative paths on the site and where the repository is browsed. Nothing is fetched: no inventories, no fonts, no scripts.
"""

import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS.parent), str(DOCS)]

from _site import pages  # noqa: E402

import shufflesim  # noqa: E402

project = "shufflesim"
release = version = shufflesim.__version__

root_doc = "docs/index"
include_patterns = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "shufflesim/datasets/PROVENANCE.md",
    "docs/**",
    "notebooks/*.ipynb",
]
exclude_patterns = [".*", "**/.ipynb_checkpoints", "build", "dist", "docs/_*"]

extensions = [
    "sphinx.ext.autodoc",
    "numpydoc",
    "myst_nb",
    "_site.mathml",
    "_site.references",
]

# Markdown and notebooks; outputs are those that are stored.
nb_execution_mode = "off"
smartquotes = False
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
html_math_renderer = "mathml"

# Blocks without a language are formulas and shell commands.
highlight_language = "text"
# Names in single backquotes are links where they are names of the library, and code otherwise.
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
# `_site.references` decides what has to resolve; no list of exceptions.
nitpicky = True

html_theme = "furo"
html_title = f"shufflesim {release}"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_static_path = ["_static"]
# Sends whoever opens index.html to docs/index.html.
html_extra_path = ["_root"]
html_css_files = ["site.css"]


def setup(app):
    """Make the pages that come from the code, before Sphinx lists the sources."""
    pages.write(DOCS / "generated")
