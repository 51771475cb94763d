"""Sphinx settings for the site, whose source pages `docs.site` writes."""

from __future__ import annotations

from ecmproto._version import __version__

project = "ecmproto"
release = version = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "docs.site.tables"]
exclude_patterns: list[str] = []

html_theme = "furo"
html_title = f"ecmproto {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}

# As GitHub makes them, so that links with an anchor lead somewhere in both.
myst_heading_anchors = 4
myst_enable_extensions = ["deflist"]

default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
maximum_signature_line_length = 76
toc_object_entries = False

# Text of the command line stays as it is typed.
smartquotes = False
highlight_language = "text"
pygments_style = "friendly"
pygments_dark_style = "github-dark"
# Transcripts show what commands print, which is no code of any language.
# Annotations have bare names, and some modules have classes of one name.
suppress_warnings = ["misc.highlighting_failure", "ref.python"]
