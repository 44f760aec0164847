"""ARCHITECTURE.md as a page of the site: the same words, with links from where the page lies."""

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]


def page() -> str:
    """docs/architecture.md."""
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    title, _, rest = text.replace("](docs/", "](").partition("\n")
    return f"{title}\n\n<!-- Written by `make fix` from ARCHITECTURE.md. -->\n{rest}"
