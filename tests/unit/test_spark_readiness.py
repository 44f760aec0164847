"""What `ottla doctor spark` finds, and what it says about it."""

import json
import sys
from pathlib import Path

import pytest

from ottla.cli import main as cli
from ottla.spark.readiness import Finding, examine, package_finding
from ottla.spark.session import local_settings, was_submitted


def found(environ: dict[str, str]) -> dict[str, Finding]:
    return {finding.what: finding for finding in examine(environ, ())}


@pytest.mark.parametrize(
    ("release", "is_good", "is_fatal"),
    [
        (None, False, True),
        ((4, 0, 1), False, True),
        ((4, 1), True, True),
        ((4, 3, 0), True, True),
        ((4, 4, 0), False, False),
    ],
    ids=["missing", "too old", "oldest", "newest", "unknown"],
)
def test_a_package_is_judged_by_its_version(
    release: tuple[int, ...] | None, is_good: bool, is_fatal: bool
) -> None:
    finding = package_finding("pyspark", release, (4, 1), (4, 3))
    assert (finding.is_good, finding.is_fatal) == (is_good, is_fatal)


def test_what_is_missing_comes_with_the_way_to_get_it() -> None:
    assert package_finding("pyarrow", None, (18,)).advice == "pip install 'ottla[spark]'"


def test_a_machine_without_bash_is_told_to_install_it(tmp_path: Path) -> None:
    finding = found({"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)})["bash"]
    assert (finding.is_good, finding.is_fatal, finding.advice) == (False, True, "install bash")


def test_a_local_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    environ = {"SPARK_LOCAL_DIRS": f"{gone},{tmp_path}", "XDG_CACHE_HOME": str(tmp_path)}
    finding = found(environ)["local folder"]
    assert str(gone) in finding.found
    assert "SPARK_LOCAL_DIRS" in finding.advice


def test_another_spark_and_another_python_are_pointed_out(tmp_path: Path) -> None:
    environ = {
        "SPARK_HOME": "/opt/spark",
        "PYSPARK_PYTHON": "/usr/bin/false",
        "XDG_CACHE_HOME": str(tmp_path),
    }
    findings = found(environ)
    for name in ("SPARK_HOME", "PYSPARK_PYTHON"):
        assert not findings[name].is_good
        assert not findings[name].is_fatal
    same = {"PYSPARK_PYTHON": sys.executable, "XDG_CACHE_HOME": str(tmp_path)}
    assert "PYSPARK_PYTHON" not in found(same)


def test_the_doctor_is_content_where_the_tests_run(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyspark")
    assert cli.run(["doctor", "spark", "-o", "json"]) == cli.OK
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {"Python", "pyspark", "pyarrow", "Java", "bash"} <= {line["what"] for line in lines}
    assert {line["state"] for line in lines} <= {"ok", "warn"}


def test_the_doctor_ends_with_an_error_where_something_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "gone"))
    assert cli.run(["doctor", "spark"]) == 8
    shown = capsys.readouterr()
    assert "✗ local folder" in shown.out
    assert "Spark cannot run here: local folder" in shown.err
    assert "hint:" in shown.err


@pytest.mark.parametrize(
    ("master", "count"), [("local", "1"), ("local[3]", "3"), ("local[*]", "6"), ("local[99]", "8")]
)
def test_a_small_machine_gets_few_shuffle_partitions(master: str, count: str) -> None:
    assert local_settings(master, cpu_count=6)["spark.sql.shuffle.partitions"] == count


def test_a_program_of_spark_submit_is_recognized() -> None:
    assert was_submitted({"PYSPARK_GATEWAY_PORT": "12345"})
    assert not was_submitted({})
