"""How Sphinx makes the site of these pages; `make docs` runs it."""

import sys
import warnings
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import fkd  # noqa: E402

project = "fkd"
author = "The fkd developers"
release = version = fkd.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["examples/*", "_templates/*"]
templates_path = ["_templates"]
show_warning_types = True

# Pages: Markdown as it is read on its own, so that links lead to files and to their headings.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
suppress_warnings = ["myst.header"]  # a page that is included begins below the first level

# Reference: from numpy docstrings, whose words are text and `names`, not reStructuredText.
autosummary_generate = True
autodoc_typehints = "none"  # shapes and units stand in the docstrings
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
add_module_names = False

# Examples: executed at every build, none may fail.
sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "capture_repr": (),
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,  # its page would load scripts from elsewhere
    "plot_gallery": "True",
}
# concept-erasure 0.2.4 compiles by a road that torch 2.13 is about to leave.
warnings.filterwarnings("ignore", message=".*torch.jit.script.*", category=DeprecationWarning)

html_theme = "pydata_sphinx_theme"
html_title = "fkd"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options: dict[str, Any] = {
    "logo": {"text": "fkd"},
    "navbar_align": "left",
    "header_links_before_dropdown": 8,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
html_sidebars = {"index": [], "explanation/reproduction": []}
copyright = "The fkd developers, MIT licence"  # the name is Sphinx's


def setup(app: Sphinx) -> None:
    """Read docstrings as they are meant here."""
    from reference_words import as_text, is_elsewhere

    app.connect("autodoc-process-docstring", as_text, priority=100)  # before napoleon
    app.connect("autodoc-skip-member", is_elsewhere)
