"""How the documentation site is built: Sphinx reads the Markdown of this folder.

`make docs` builds it with warnings as errors.  tools/derive.py writes reference/.
"""

from ottla import __version__

project = "Ottla"
author = "The Ottla authors"
project_copyright = "The Ottla authors, Apache License 2.0"
version = release = __version__

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"Ottla {__version__}"
