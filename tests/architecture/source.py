"""The files that the architecture tests look at, and how they name a place in them."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "ottla"
FOLDERS = ("src", "tests", "tools", "bench", "fuzz")

PYTHON = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
CYTHON = sorted(PACKAGE.rglob("*.pyx"))
CYTHON_PARTS = sorted([*PACKAGE.rglob("*.pxi"), *PACKAGE.rglob("*.pxd")])
C = sorted((ROOT / "src" / "native").glob("*.[ch]"))

_INCLUDE = re.compile(r'^include "(.+)"$', re.MULTILINE)


def cython_source(path: Path) -> str:
    """A compiled module as the compiler sees it, with the parts that it includes."""
    source = path.read_text("utf-8")
    return _INCLUDE.sub(lambda part: path.with_name(part[1]).read_text("utf-8"), source)


def place(path: Path, line: int = 1) -> str:
    """`src/ottla/errors/codes.py:12`, which editors and terminals can jump to."""
    return f"{path.relative_to(ROOT)}:{line}"


def definitions(tree: ast.Module) -> Iterator[tuple[str, str, int, int]]:
    """Kind, name, first and last line of every class and function in `tree`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield "class", node.name, node.lineno, node.end_lineno or 0
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield "function", node.name, node.lineno, node.end_lineno or 0
