"""Whoever is told what to type can type it."""

import os
from pathlib import Path

import pytest

from ottla.cli.typed import typed_name


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program in an environment."""
    path = tmp_path / ".venv" / "bin" / "ottla"
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_a_program_that_the_shell_finds_has_its_name(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    assert typed_name(["/usr/bin/python3", str(program), "demo"]) == "ottla"


def test_one_of_an_environment_that_is_not_active_is_named_by_its_path(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    argv = ["python3", str(program), "demo"]
    assert typed_name(argv, str(tmp_path)) == ".venv/bin/ottla"
    assert typed_name(argv, str(tmp_path / "elsewhere")) == str(program)


def test_a_module_is_run_by_python() -> None:
    assert typed_name(["/usr/bin/python3.11", "-m", "pytest"]) == "python3.11 -m ottla"
