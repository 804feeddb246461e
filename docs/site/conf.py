"""How `make docs` makes a site of these pages: Sphinx, with MyST for Markdown.

Sources are all pages of the repository where they lie, so that a link that works here works in the
site, and the other way round. `docs/index.md` is the navigation.
"""

from pygments.lexers.python import PythonLexer

project = "fasthep-smk"
copyright = "The fasthep-smk developers"  # noqa: A001
extensions = ["myst_parser"]
#: Headings are linked to by the names that code hosting sites give them.
myst_heading_anchors = 3
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**.md", "workflow/**.md", "tests/clusters/*.md"]
exclude_patterns = [".*", "**/.*", "**/build"]
html_theme = "furo"
html_title = project
html_copy_source = False
#: Leads to `docs/index.html`.
html_extra_path = ["index.html"]


def setup(app):
    """Colour Snakefiles as Python, which they are an extension of."""
    app.add_lexer("snakemake", PythonLexer)
