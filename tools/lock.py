"""Chooses a version of every package we use, and writes them down as pip constraints.

Run it in an empty environment (`make lock` does): whatever is installed there is written.  The
file names versions only, never where they come from, so that it works with any package index.
"""

import subprocess
import sys
import tomllib
from importlib.metadata import distributions
from pathlib import Path

HEADER = """\
# Versions that `make` installs.  Written by `make lock`; do not edit.
"""


def requirements(pyproject: Path) -> list[str]:
    """What the package and its developers need, as pip spells it: the package's own, and groups."""
    declared = tomllib.loads(pyproject.read_text("utf-8"))
    groups = [f"--group={name}" for name in sorted(declared["dependency-groups"])]
    return [*groups, *declared["project"]["dependencies"]]


def installed() -> dict[str, str]:
    """Package name -> version, for everything in this environment."""
    return {found.metadata["Name"].lower(): found.version for found in distributions()}


def pip_install(*arguments: str) -> None:
    """Install, or end with pip's own message."""
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", *arguments], check=True
    )


def main(constraints: str) -> None:
    """Install the newest of everything here, then write the versions to `constraints`."""
    pip_install("pip")
    pip_install(*requirements(Path("pyproject.toml")))
    lines = [f"{name}=={version}\n" for name, version in sorted(installed().items())]
    Path(constraints).write_text(HEADER + "".join(lines), "utf-8")
    print(f"wrote {len(lines)} versions to {constraints}")


if __name__ == "__main__":
    main(sys.argv[1])
