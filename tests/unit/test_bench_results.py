"""The page of results: one section for each table, none of which costs another one its figures."""

import time

import pytest

from bench import __main__ as command
from bench.growth import part
from bench.harness import Outcome
from bench.report import HEADINGS, machine, with_quartiles
from bench.results import Ran, page
from tools.maven import UnavailableError


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


@pytest.mark.parametrize(
    ("arguments", "prefix", "release", "expected"),
    [
        ("'--enable-optimizations' '--with-lto'", "/opt", {}, "optimized with profiles"),
        ("'--enable-shared'", "/opt", {}, "not optimized with profiles"),
        (None, "/usr", {"NAME": "Debian", "VERSION_ID": "12"}, "the build of Debian 12"),
        (None, "/usr", {"NAME": "Arch Linux"}, "the build of Arch Linux"),
        (None, "/usr", None, "the system's own build"),
    ],
)
def test_a_page_says_how_its_python_was_built(
    arguments: str | None,
    prefix: str,
    release: dict[str, str] | None,
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def system() -> dict[str, str]:
        if release is None:
            raise OSError(2, "there is no os-release")
        return release

    monkeypatch.setattr("sysconfig.get_config_var", lambda name: arguments)
    monkeypatch.setattr("platform.freedesktop_os_release", system)
    monkeypatch.setattr("sys.base_prefix", prefix)
    assert machine().endswith(f", {expected}")


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


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (UnavailableError("there is no java on this machine"), "there is no java on this machine"),
        (ModuleNotFoundError("No module", name="pyspark.sql"), "there is no module pyspark here"),
    ],
)
def test_a_table_whose_peer_cannot_be_had_says_so_and_nothing_fails(
    error: Exception, reason: str
) -> None:
    def lacking(name: str) -> list[str]:
        raise error

    result, is_failed = command.ran("spark", lacking)
    assert not is_failed
    assert list(result.lines) == [f"Not run: {reason}."]


def test_a_part_that_fails_fails_the_command_and_costs_the_others_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def failing() -> list[str]:
        raise ValueError("a record was lost")

    def parts(name: str) -> list[str]:
        return [*part("writing", lambda: ["| figures |"]), *part("reading", failing)]

    result, is_failed = command.ran("clients", parts)
    assert is_failed
    assert "| figures |" in result.lines
    assert "a record was lost" in capsys.readouterr().err


def test_a_part_whose_peer_cannot_be_had_says_so_and_nothing_fails() -> None:
    def lacking() -> list[str]:
        raise ModuleNotFoundError("No module", name="confluent_kafka")

    def parts(name: str) -> list[str]:
        return [*part("writing", lambda: ["| figures |"]), *part("commits", lacking)]

    result, is_failed = command.ran("transactions", parts)
    assert not is_failed
    reason = "Not run: commits: there is no module confluent_kafka here."
    assert [line for line in result.lines if line] == ["| figures |", reason]


def test_a_module_of_our_own_that_is_not_there_is_a_fault(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def broken(name: str) -> list[str]:
        raise ModuleNotFoundError("No module named 'ottla.logs'", name="ottla.logs")

    assert command.ran("spark", broken)[1]
    assert "ottla.logs" in capsys.readouterr().err


def test_races_and_tables_have_the_same_quartiles() -> None:
    ratios = (1.0, 2.0, 3.0, 4.0, 5.0)
    outcome = Outcome(title="", twin="python", item="", target_ratio=None, ratios=ratios)
    assert outcome.quartiles == (2.0, 4.0)


def test_a_median_of_several_has_its_quartiles_and_one_figure_has_none() -> None:
    assert with_quartiles([1.0, 2.0, 3.0, 4.0, 5.0], ".1f", " ms") == "3.0 (2.0 to 4.0) ms"
    assert with_quartiles([3.0], ".1f", " ms", is_bold=True) == "**3.0** ms"


def test_a_table_that_hangs_is_given_up(capsys: pytest.CaptureFixture[str]) -> None:
    def hanging(name: str) -> list[str]:
        while True:
            time.process_time()

    result, is_failed = command.ran("broker", hanging, limit_s=0.5)
    assert is_failed
    assert list(result.lines) == ["**Not finished**: OverdueError: it took longer than 0.5 s"]
    assert "hanging" in capsys.readouterr().err
