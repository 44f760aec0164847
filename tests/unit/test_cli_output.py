"""Tables for people and for pipes, and numbers as people read them."""

import json

import click
import pytest

from ottla.cli.bench.group import command as bench_group
from ottla.cli.lazy import LazyGroup
from ottla.cli.log.group import command as log_group
from ottla.cli.output import Output, table
from ottla.cli.settings import parse_pairs
from ottla.cli.topic.group import command as topic_group
from ottla.quantities import Duration, Id, Size, counted, human

ROWS = [("orders", 12_481, Size(3_328_599_654), Duration(604_800_000)), ("t", 3, None, None)]
COLUMNS = ("topic", "records", "size", "retention")


def test_people_get_units_and_separators() -> None:
    assert table(COLUMNS, ROWS, for_people=True) == [
        "TOPIC   RECORDS     SIZE  RETENTION",
        "orders   12,481  3.1 GiB     7 days",
        "t             3        -          -",
    ]


def test_pipes_get_plain_numbers() -> None:
    assert table(COLUMNS, ROWS, for_people=False)[1].split() == [
        "orders",
        "12481",
        "3328599654",
        "7d",
    ]


def test_a_table_without_rows_is_its_heading() -> None:
    assert table(("partition", "stable_end"), [], for_people=True) == ["PARTITION  STABLE END"]


def test_json_is_one_object_a_row_with_raw_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    Output(format="json").rows(COLUMNS, ROWS)
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["size"] == 3_328_599_654
    assert second == {"topic": "t", "records": 3, "size": None, "retention": None}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Size(0), "0 B"),
        (Size(1023), "1023 B"),
        (Size(1536), "1.5 KiB"),
        (Size(530 * 2**20), "530 MiB"),
        (Size(100 * 2**20 - 1), "100 MiB"),
        (Size(2**20 - 1), "1.0 MiB"),
        (Size(-600 * 2**10), "-600 KiB"),
        (Size(2**62), "4096 PiB"),
        (Duration(-1), "forever"),
        (Duration(0), "0 ms"),
        (Duration(90_000), "90 seconds"),
        (Duration(5_400_000), "90 minutes"),
        (Duration(1_001), "1001 ms"),
        (Id(1000), "1000"),
        (True, "yes"),
        (1234.56, "1,234.6"),
    ],
)
def test_numbers_are_said_as_people_say_them(value: object, text: str) -> None:
    assert human(value) == text


def test_one_is_not_many() -> None:
    assert [counted(n, "topic") for n in (0, 1, 2_000)] == ["0 topics", "1 topic", "2,000 topics"]


def test_a_setting_is_a_name_and_a_value() -> None:
    assert parse_pairs("-c", ["a = 1", "b=x=y", "c="]) == {"a": "1", "b": "x=y", "c": ""}
    with pytest.raises(click.UsageError, match="not name=value"):
        parse_pairs("-c", ["retention.ms"])


@pytest.mark.parametrize("group", [topic_group, log_group, bench_group], ids=lambda g: g.name)
def test_the_line_in_a_groups_list_opens_the_help_of_the_command(group: LazyGroup) -> None:
    context = click.Context(group)
    for name, line in group.help_lines.items():
        command = group.get_command(context, name)
        assert command is not None
        assert command.name == name
        assert (command.help or "").splitlines()[0] == line
    assert group.get_command(context, "nonsense") is None
