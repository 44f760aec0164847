"""Imports point down, the core is pure, and neither rule can be weakened unnoticed."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.source import CYTHON, PACKAGE, ROOT, cython_source, place

CORE = {"wire", "records", "log", "net", "cluster", "coordinator"}
THE_WORLD = {"asyncio", "socket", "ssl", "threading", "time", "random", "os", "io", "pathlib"}
IMPORT = re.compile(r"^\s*(?:from|c?import)\s+([\w.]+)", re.MULTILINE)


def contracts() -> dict[str, dict[str, Any]]:
    """Type -> contract, as pyproject.toml declares them."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    return {
        contract["type"]: contract for contract in declared["tool"]["importlinter"]["contracts"]
    }


def test_every_contract_on_imports_is_kept() -> None:
    pytest.importorskip("importlinter")
    script = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports())"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_package_that_is_not_on_the_map_breaks_the_layers() -> None:
    assert contracts()["layers"]["exhaustive"] is True
    assert contracts()["layers"]["containers"] == ["ottla"]


def test_the_map_in_the_tour_lists_the_layers_in_order() -> None:
    tour = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    the_map = tour.partition("## The map")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?`) \| ", the_map.replace(r"\|", "/"), re.MULTILINE)
    drawn = [sorted(re.findall(r"`(\w+)`", row)) for row in rows]
    declared = [sorted(re.findall(r"\w+", layer)) for layer in contracts()["layers"]["layers"]]
    assert drawn == [layer for layer in declared if layer != ["__main__"]]


def test_every_package_of_the_core_is_held_pure() -> None:
    built = {f"ottla.{path.name}" for path in PACKAGE.iterdir() if path.name in CORE}
    unguarded = built - set(contracts()["forbidden"]["source_modules"])
    assert not unguarded, f"pyproject.toml: source_modules of the contract lacks {unguarded}"


def test_the_core_may_not_reach_for_the_world() -> None:
    assert set(contracts()["forbidden"]["forbidden_modules"]) >= THE_WORLD


@pytest.mark.parametrize("path", CYTHON, ids=lambda path: path.name)
def test_compiled_modules_keep_the_contracts_too(path: Path) -> None:
    """import-linter reads Python only, so their imports are read here."""
    package, core = path.parent.name, {"wire", "records"}
    siblings = {f"ottla.{other}" for other in core - {package}} if package in core else set()
    forbidden = set(contracts()["forbidden"]["forbidden_modules"]) | siblings
    imported = IMPORT.findall(cython_source(path))
    broken = [name for name in imported for rule in forbidden if f"{name}.".startswith(f"{rule}.")]
    assert not broken, f"{place(path)}: imports {broken}"
