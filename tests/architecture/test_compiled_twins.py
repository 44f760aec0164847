"""Every compiled module has a readable twin beside it, with the same public names."""

import ast
import re
import sysconfig
import tomllib
from pathlib import Path

import pytest

from tests.architecture.source import CYTHON, ROOT, C, cython_source, place

PUBLIC_IN_CYTHON = re.compile(
    r"^(?:cdef (?:final )?class|class|def|cpdef(?: [\w\[\], *]+)?) ([A-Za-z]\w*)", re.MULTILINE
)


def readable_twin(path: Path) -> Path:
    return path.with_name(path.stem.removeprefix("_") + ".py")


def names_of_python(path: Path) -> set[str]:
    """What `__all__` lists; without one, public classes and functions."""
    tree = ast.parse(path.read_text("utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    kinds = ast.ClassDef | ast.FunctionDef
    return {n.name for n in tree.body if isinstance(n, kinds) and not n.name.startswith("_")}


def test_there_are_compiled_modules_at_all() -> None:
    assert {path.stem for path in CYTHON} == {"_codec", "_interpreter", "_quick"}


@pytest.mark.parametrize("path", CYTHON, ids=lambda path: path.name)
def test_a_compiled_module_has_a_readable_twin_beside_it(path: Path) -> None:
    assert path.stem.startswith("_"), f"{place(path)}: compiled modules begin with _"
    assert readable_twin(path).exists(), f"{place(path)}: no {readable_twin(path).name}"


@pytest.mark.parametrize("path", CYTHON, ids=lambda path: path.name)
def test_both_twins_have_the_same_public_names(path: Path) -> None:
    compiled = set(PUBLIC_IN_CYTHON.findall(cython_source(path)))
    assert compiled == names_of_python(readable_twin(path)), place(path)


@pytest.mark.parametrize("path", C, ids=lambda path: path.name)
def test_no_function_in_c_has_a_name_that_python_uses_too(path: Path) -> None:
    """Cython includes internal headers of some versions of Python, and C has no namespaces."""
    headers = Path(sysconfig.get_path("include"), "internal")
    if not headers.is_dir():
        pytest.skip(f"this Python came without {headers}")
    theirs = "\n".join(header.read_text("utf-8") for header in headers.glob("*.h"))
    ours = re.findall(r"^static [\w ]+?\*? ?\*?(\w+)\(", path.read_text("utf-8"), re.MULTILINE)
    assert ours
    assert [name for name in ours if re.search(rf"\b{name}\(", theirs)] == [], place(path)


def test_every_compiled_module_is_built() -> None:
    built = (ROOT / "setup.py").read_text("utf-8")
    assert [p for p in CYTHON if str(p.relative_to(ROOT)) not in built] == []


def test_the_tools_that_build_are_named_once_in_effect() -> None:
    """pip cannot install `build-system.requires` by itself, so a group repeats it."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert declared["dependency-groups"]["build"] == declared["build-system"]["requires"]
