"""What `ottla mirror` makes of its options, and how it shows what it does."""

import json
from typing import Any

import click
import pytest

from ottla.cli.mirror import command, settings_of
from ottla.cli.mirror_shown import LINE_INTERVAL_S, Lines, lines_of
from ottla.cli.output import Output
from ottla.mirror.progress import MirrorProgress, TopicProgress
from ottla.mirror.settings import MirrorSettings


def topic(name: str, *, copied: int = 0, lag: int | None = 0, lost: int = 0) -> TopicProgress:
    return TopicProgress(
        topic=name,
        target=f"copy.{name}",
        partition_count=3,
        copied=copied,
        per_s=1234.5,
        lag=lag,
        lost=lost,
    )


def progress(*topics: TopicProgress) -> MirrorProgress:
    return MirrorProgress(
        name="m",
        topics=topics,
        transaction_count=1,
        groups_moved=0,
        groups_active=(),
        lost_now=0,
    )


def settings(*arguments: str) -> MirrorSettings:
    options: dict[str, Any] = command.make_context("mirror", ["a:1", "b:2", *arguments]).params
    return settings_of(**{k: v for k, v in options.items() if k not in ("verbose", "output")})


def test_without_options_everything_is_followed_under_its_name() -> None:
    chosen = settings()
    assert (chosen.source, chosen.target, chosen.is_once) == ("a:1", "b:2", False)
    assert (chosen.selection.topics, chosen.groups) == (("*",), ("*",))
    assert (chosen.name, chosen.selection.target_of("orders")) == (None, "orders")


def test_options_say_what_is_copied_and_what_it_is_called() -> None:
    chosen = settings(
        *("-t", "a*", "-t", "b", "-x", "c", "--prefix", "p.", "--rename", "b=d", "--once"),
        *("--from-setting", "security.protocol=SSL", "--no-groups"),
    )
    assert chosen.selection.topics == ("a*", "b")
    assert [chosen.selection.target_of(name) for name in ("a", "b")] == ["p.a", "d"]
    assert (chosen.is_once, chosen.groups) == (True, ())
    assert (chosen.source_config, chosen.target_config) == ({"security.protocol": "SSL"}, {})


def test_groups_that_are_meant_and_not_meant_are_refused() -> None:
    with pytest.raises(click.UsageError, match="contradict"):
        settings("--groups", "a", "--no-groups")


def test_the_table_has_a_column_for_what_was_lost_only_if_something_was() -> None:
    heading, row = lines_of(progress(topic("orders", copied=1_000)))
    assert heading.split() == ["TOPIC", "COPY", "PARTITIONS", "COPIED", "PER", "S", "LAG"]
    assert row.split() == ["orders", "copy.orders", "3", "1,000", "1,234", "0"]
    heading, row = lines_of(progress(topic("orders", lag=None, lost=5)))
    assert heading.endswith("LAG  LOST")
    assert row.split()[-2:] == ["-", "5"]


def test_a_line_is_for_what_has_moved_and_not_more_often_than_now_and_then(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now_s = 0.0
    lines = Lines(Output(format="json"), now_s=lambda: now_s)
    lines.show(progress(topic("a"), topic("b")))
    lines.show(progress(topic("a", copied=1), topic("b")))
    now_s = LINE_INTERVAL_S
    lines.show(progress(topic("a", copied=2), topic("b")))
    lines.show(progress(topic("a", copied=2), topic("b", copied=7)))
    lines.finish()

    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    assert [(facts["topic"], facts["copied"]) for facts in told] == [
        ("a", 0),
        ("b", 0),
        ("a", 2),
        ("b", 7),
    ]
