"""Accidents happen where they are ordered, once, and nowhere else."""

from pathlib import Path

import pytest

from ottla.spark.sink import faults
from ottla.spark.sink.faults import FOLDER_VARIABLE, REACHED, RESUME, OrderedError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    return tmp_path


def test_nothing_happens_unless_it_is_ordered(folder: Path) -> None:
    (folder / "commit@other").write_text("raise", "utf-8")

    faults.at("commit", "sink")

    assert [path.name for path in folder.iterdir()] == ["commit@other"]


def test_without_a_folder_nothing_is_armed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)

    faults.at("commit", "sink")

    assert not faults.are_armed()


def test_an_accident_happens_once_and_leaves_a_trace(folder: Path) -> None:
    (folder / "commit@sink").write_text("raise", "utf-8")

    with pytest.raises(OrderedError, match="commit@sink"):
        faults.at("commit", "sink")
    faults.at("commit", "sink")

    assert [path.name for path in folder.iterdir()] == [f"commit@sink{REACHED}"]


def test_a_number_lets_so_many_pass(folder: Path) -> None:
    (folder / "commit@sink").write_text("2 raise", "utf-8")

    faults.at("commit", "sink")
    faults.at("commit", "sink")
    with pytest.raises(OrderedError):
        faults.at("commit", "sink")


def test_a_pause_ends_when_somebody_says_so(folder: Path) -> None:
    (folder / "commit@sink").write_text("pause", "utf-8")
    (folder / f"commit@sink{RESUME}").touch()

    faults.at("commit", "sink")


def test_what_is_no_accident_is_told(folder: Path) -> None:
    (folder / "commit@sink").write_text("explode", "utf-8")

    with pytest.raises(ValueError, match="explode"):
        faults.at("commit", "sink")
