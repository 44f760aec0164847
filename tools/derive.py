"""Writes every page and list that is derived from the code, or checks that they are current.

`python -m tools.derive` writes them; with `--check` it writes nothing, names what is outdated, and
exits with 1.  Derived files are committed, so that a reader needs no tool and a review sees them.
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from ottla.cli import man
from tools import (
    api,
    architecture_page,
    cli_reference,
    dashboard,
    diagrams,
    errors_page,
    message_reference,
    metrics_reference,
    python_reference,
    settings_reference,
    spark_reference,
)

ROOT: Final = Path(__file__).parents[1]

PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "dashboards/ottla.json": dashboard.page,
    "docs/architecture.md": architecture_page.page,
    "docs/pictures/group-states.svg": diagrams.group_states,
    "docs/pictures/transaction-states.svg": diagrams.transaction_states,
    "docs/reference/api.txt": api.page,
    "docs/reference/cli.md": cli_reference.page,
    "docs/reference/errors.md": errors_page.page,
    "docs/reference/ottla.1": man.page,
    "docs/reference/messages.md": message_reference.page,
    "docs/reference/metrics.md": metrics_reference.page,
    "docs/reference/python.md": python_reference.page,
    "docs/reference/settings.md": settings_reference.page,
    "docs/reference/spark-options.md": spark_reference.page,
}
"""File -> the function that returns its content."""


def outdated(root: Path) -> dict[Path, str]:
    """File -> new content, of those whose content differs."""
    pages = {root / name: render() for name, render in PAGES.items()}
    return {
        path: content
        for path, content in pages.items()
        if not path.exists() or path.read_text("utf-8") != content
    }


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Write or check; the exit code says whether anything was outdated when checking."""
    changes = outdated(root)
    if "--check" in arguments:
        for path in changes:
            print(f"{path} is outdated: run `make fix`")
        return 1 if changes else 0
    for path, content in changes.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, "utf-8")
        print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
