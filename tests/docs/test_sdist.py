"""The source distribution has what building and running from it needs, and nothing of our own."""

import shutil
import tarfile
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tools.wheels import UnfitError, build_sdist, unpacked

SOURCES = ("src", "pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")
MANUAL = "docs/reference/ottla.1"
BUILT = shutil.ignore_patterns("*.so", "*.egg-info", "__pycache__")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the sdist is made of: setuptools writes into the folder that it builds."""
    folder = tmp_path_factory.mktemp("tree")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=BUILT)
        else:
            shutil.copy(ROOT / name, folder / name)
    (folder / MANUAL).parent.mkdir(parents=True)
    shutil.copy(ROOT / MANUAL, folder / MANUAL)
    return folder


@pytest.fixture(scope="module")
def sdist(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_sdist(tree, tmp_path_factory.mktemp("dist"))


def test_it_has_every_source_that_there_is(sdist: Path, tree: Path) -> None:
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    sources = {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()}
    made = {name for name in sources if ".egg-info/" in name}
    assert sources - made - packed == set()
    assert not [name for name in packed if name.endswith((".so", ".pyc", ".c"))]
    assert not [name for name in packed if name.startswith(("tests", "docs/how-to"))]


def test_unpacking_gives_one_folder(sdist: Path, tmp_path: Path) -> None:
    source = unpacked(sdist, tmp_path)
    assert (source / "src" / "ottla" / "py.typed").exists()
    assert (source / "PKG-INFO").exists()


def test_a_tree_that_cannot_be_built_is_an_error_that_says_why(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 5\n", "utf-8")
    with pytest.raises(UnfitError, match="name"):
        build_sdist(tmp_path, tmp_path / "dist")
