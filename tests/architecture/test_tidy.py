"""Properties of the source itself.  Each rule names file and line, so an editor can jump there."""

import ast
import re
from pathlib import Path

import pytest

from tests.architecture.source import (
    CYTHON,
    CYTHON_PARTS,
    PACKAGE,
    PYTHON,
    ROOT,
    C,
    definitions,
    place,
)

LONGEST = {"file": 500, "class": 300, "function": 60}
PROSE = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "changes").glob("*")])
UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b(?!\(#\d+\))")


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", [*PYTHON, *CYTHON, *CYTHON_PARTS, *C], ids=named)
def test_no_file_outgrows_a_dozen_screens(path: Path) -> None:
    line_count = path.read_text("utf-8").count("\n")
    assert line_count <= LONGEST["file"], f"{place(path)}: {line_count} lines"


@pytest.mark.parametrize("path", PYTHON, ids=named)
def test_no_class_or_function_outgrows_its_screen(path: Path) -> None:
    too_long = [
        f"{place(path, first)}: {kind} {name} has {last - first + 1} lines"
        for kind, name, first, last in definitions(ast.parse(path.read_text("utf-8")))
        if last - first + 1 > LONGEST[kind]
    ]
    assert not too_long, "\n".join(too_long)


@pytest.mark.parametrize("path", PYTHON, ids=named)
def test_every_module_says_what_lives_in_it(path: Path) -> None:
    source = path.read_text("utf-8")
    if path.name == "__init__.py" and not source and PACKAGE not in path.parents:
        return  # a folder of tests needs no signpost
    docstring = ast.get_docstring(ast.parse(source))
    assert docstring, f"{place(path)}: no docstring"
    assert docstring.splitlines()[0].endswith((".", ":", "?")), f"{place(path)}: {docstring[:60]!r}"


@pytest.mark.parametrize("path", CYTHON, ids=named)
def test_every_compiled_module_says_what_lives_in_it(path: Path) -> None:
    code = "\n".join(
        line for line in path.read_text("utf-8").splitlines() if not line.startswith("#")
    )
    assert code.lstrip().startswith(('"""', 'r"""')), f"{place(path)}: no docstring"


@pytest.mark.parametrize("path", [*CYTHON_PARTS, *C], ids=named)
def test_every_part_of_a_compiled_module_opens_with_a_comment(path: Path) -> None:
    assert path.read_text("utf-8").startswith(("# ", "/* ", "// ", '"""')), place(path)


@pytest.mark.parametrize("path", [*PYTHON, *CYTHON, *CYTHON_PARTS, *C, *PROSE], ids=named)
def test_unfinished_work_names_its_issue(path: Path) -> None:
    loose_ends = [
        f"{place(path, number)}: {line.strip()}"
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1)
        if UNFINISHED.search(line)
    ]
    assert not loose_ends, "\n".join(loose_ends)
