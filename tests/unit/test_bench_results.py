"""The page of results: one section for each table, none of which costs another one its figures."""

import time

import pytest

from bench import __main__ as command
from bench.report import HEADINGS, machine
from bench.results import Ran, page


def a_page(**lines: str) -> str:
    known = ""
    for name, line in lines.items():
        known = page(known, Ran(name=name, lines=[line], wall_s=1.0))
    return known


def test_a_table_that_is_run_again_replaces_its_own_section_only() -> None:
    known = a_page(broker="old figures", kafka="other figures")
    again = page(known, Ran(name="broker", lines=["new figures"], wall_s=2.0))
    assert "new figures" in again
    assert "other figures" in again
    assert "old figures" not in again


def test_sections_come_in_one_order_whatever_was_run_first() -> None:
    there = a_page(kafka="k", records="r")
    assert there.index(f"## {HEADINGS['records']}") < there.index(f"## {HEADINGS['kafka']}")


def test_writing_the_same_figures_again_changes_nothing() -> None:
    once = a_page(broker="figures", scale="more")
    assert (
        page(once, Ran(name="scale", lines=["more"], wall_s=1.0)).split("## ")[1]
        == (once.split("## ")[1])
    )


def test_a_page_of_another_machine_is_begun_anew() -> None:
    known = a_page(broker="figures of another one").replace(machine(), "- machine: another one")
    assert "figures of another one" not in page(known, Ran(name="wire", lines=["x"], wall_s=1.0))


def test_a_section_says_how_to_run_it_again() -> None:
    assert "`python -m bench broker --write`" in a_page(broker="figures")


def test_a_table_that_fails_says_why_and_the_command_fails(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def failing(name: str) -> list[str]:
        raise ValueError("a record was lost")

    result, is_failed = command.ran("broker", failing)
    assert is_failed
    assert list(result.lines) == ["**Not finished**: ValueError: a record was lost"]
    assert "a record was lost" in capsys.readouterr().err


def test_a_table_that_hangs_is_given_up(capsys: pytest.CaptureFixture[str]) -> None:
    def hanging(name: str) -> list[str]:
        while True:
            time.process_time()

    result, is_failed = command.ran("broker", hanging, limit_s=0.5)
    assert is_failed
    assert list(result.lines) == ["**Not finished**: OverdueError: it took longer than 0.5 s"]
    assert "hanging" in capsys.readouterr().err
