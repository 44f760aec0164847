"""The tools in tools/: what they write, and that they notice what they are for."""

from pathlib import Path

import pytest

from ottla.errors import ErrorCode
from tests.architecture.source import ROOT
from tools import derive, errors_page, lock, maven, sanitized, twins_built


def test_derived_pages_are_written_once_and_then_left_alone(tmp_path: Path) -> None:
    assert derive.main([], tmp_path) == 0
    assert set(derive.PAGES) == {
        str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()
    }
    assert derive.outdated(tmp_path) == {}


def test_checking_writes_nothing_and_names_what_is_outdated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert derive.main(["--check"], tmp_path) == 1
    assert list(tmp_path.iterdir()) == []
    assert "errors.md is outdated" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("code", "then"),
    [
        (ErrorCode.NONE, "|  |  |"),
        (ErrorCode.NOT_COORDINATOR, "| `RefreshError` | retry |"),
        (ErrorCode.PRODUCER_FENCED, "| `ProducerFencedError` | stop |"),
        (ErrorCode.TRANSACTION_ABORTABLE, "| `AbortableError` | abort |"),
    ],
)
def test_the_page_of_errors_says_what_follows_from_a_code(code: ErrorCode, then: str) -> None:
    (row,) = [r for r in errors_page.page().splitlines() if f"`{code.name}`" in r]
    assert then in row
    assert code.advice in row


def test_the_versions_to_choose_are_those_of_the_package_and_of_every_group() -> None:
    asked = lock.requirements(ROOT / "pyproject.toml")
    assert {"--group=build", "--group=check", "--group=docs", "--group=test"} <= set(asked)
    assert any(requirement.startswith("click") for requirement in asked)


def test_a_compiler_that_fails_is_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "false")
    assert not twins_built.can_compile()
    monkeypatch.setenv("CC", "/no/such/compiler")
    assert not twins_built.can_compile()


def test_a_twin_that_was_not_built_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "src/ottla/wire").mkdir(parents=True)
    (tmp_path / "src/ottla/wire/_fast.pyx").touch()
    monkeypatch.chdir(tmp_path)
    assert twins_built.missing_twins() == [Path("src/ottla/wire/_fast.pyx")]
    monkeypatch.setenv("CC", "false")
    assert twins_built.main() == 0  # nothing can be built here, so nothing is wrong


def test_tests_for_the_sanitizer_refuse_to_run_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    with pytest.raises(pytest.UsageError, match="not preloaded"):
        sanitized.pytest_configure()


def test_tests_for_the_sanitizer_refuse_the_ordinary_build(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LD_PRELOAD", "libasan.so")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(pytest.UsageError, match="not the sanitized build"):
        sanitized.pytest_configure()


def pretend_maven(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a program that does as `script` says in the place of Maven; where jars would go."""
    program = folder / "bin" / "mvn"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setattr(maven, "JARS", folder / "jars")
    return folder / "jars"


def test_jars_are_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = 'for last; do :; done; mkdir "${last#*=}"; cp pom.xml "${last#*=}"'
    pretend_maven(tmp_path, script, monkeypatch)
    folder = maven.jars("beans-1", "org.example:beans:1")
    assert "<artifactId>beans</artifactId><version>1</version>" in (folder / "pom.xml").read_text()
    (tmp_path / "bin" / "mvn").unlink()
    assert maven.jars("beans-1", "org.example:beans:1") == folder


def test_jars_that_cannot_be_fetched_leave_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jars = pretend_maven(tmp_path, "echo '[ERROR] no route to host'; exit 1", monkeypatch)
    with pytest.raises(maven.UnavailableError, match="no route to host"):
        maven.jars("beans-1", "org.example:beans:1")
    assert list(jars.iterdir()) == []


def test_a_machine_without_maven_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(maven, "JARS", tmp_path)
    with pytest.raises(maven.UnavailableError, match="there is no mvn"):
        maven.jars("beans-1", "org.example:beans:1")
