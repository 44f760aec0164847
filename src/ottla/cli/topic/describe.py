"""`ottla topic describe`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import click

from ottla.cli.completion_names import topics
from ottla.cli.connection import Connection, connection_options
from ottla.cli.output import Output, format_option, verbose_option
from ottla.cli.topic.list import facts_of, sizes_or_none
from ottla.model import TopicPartition
from ottla.quantities import Id, Size, counted, human_duration, human_size

if TYPE_CHECKING:
    from ottla.client.admin.configs import ConfigEntry
    from ottla.client.admin.topics import TopicInfo

UNLIMITED: Final = 2**62
"""Settings that mean "never" are the largest number there is."""

Offsets = Mapping[TopicPartition, int | None]
Sizes = Mapping[TopicPartition, int]
COLUMNS = ("partition", "leader", "epoch", "replicas", "isr", "start", "end", "stable_end", "size")


@click.command("describe")
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...", shell_complete=topics)
@click.option("--all", "show_all", is_flag=True, help="Show settings that have their default, too.")
@verbose_option
@format_option
@click.pass_obj
@connection_options
def command(output: Output, names: tuple[str, ...], show_all: bool, connection: Connection) -> None:
    """Show partitions, leaders, offsets and settings.

    \b
    Examples:
      ottla topic describe orders
      ottla topic describe orders --all
      ottla topic describe orders -o json
    """
    with connection.admin() as admin:
        for number, name in enumerate(names):
            topic = admin.describe_topic(name)
            stable_ends = admin.list_offsets(
                [TopicPartition(name, p.id) for p in topic.partitions],
                isolation_level="read_committed",
                missing_ok=True,
            )
            sizes = sizes_or_none(admin)
            configs = admin.describe_config(topic=name).values()
            shown = [entry for entry in configs if show_all or entry.source == "topic"]
            facts = facts_of(topic, sizes)
            rows = _partition_rows(topic, stable_ends, sizes)
            if output.is_json:
                _print_json(output, facts, rows, shown)
            else:
                if number:
                    click.echo()
                _print_text(output, facts, rows, shown)


def _print_json(
    output: Output,
    facts: Mapping[str, object],
    rows: Sequence[Sequence[object]],
    configs: Sequence["ConfigEntry"],
) -> None:
    output.json_line(
        {
            **facts,
            "partitions": [dict(zip(COLUMNS, row, strict=True)) for row in rows],
            "configs": {c.name: {"value": c.value, "source": c.source} for c in configs},
        }
    )


def _print_text(
    output: Output,
    facts: Mapping[str, object],
    rows: Sequence[Sequence[object]],
    configs: Sequence["ConfigEntry"],
) -> None:
    size = facts["bytes"]
    parts = [
        str(facts["name"]),
        counted(len(rows), "partition"),
        f"replication {facts['replication_factor']}",
        f"id {facts['topic_id']}",
        counted(int(str(facts["records"])), "record"),
    ]
    click.echo(" · ".join([*parts, human_size(size)] if isinstance(size, int) else parts))
    output.rows(COLUMNS, [_listed(row) for row in rows])
    if configs:
        click.echo()
        output.rows(("config", "value", "source"), [(c.name, _value(c), c.source) for c in configs])


def _listed(row: Sequence[object]) -> list[object]:
    return [",".join(map(str, cell)) if isinstance(cell, tuple) else cell for cell in row]


def _partition_rows(
    topic: "TopicInfo", stable_ends: Offsets, sizes: Sizes | None
) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for p in topic.partitions:
        key = TopicPartition(topic.name, p.id)
        size = sizes.get(key) if sizes is not None else None
        rows.append(
            (
                Id(p.id),
                None if p.leader is None else Id(p.leader),
                None if p.leader_epoch is None else Id(p.leader_epoch),
                p.replicas,
                p.isr,
                p.start_offset,
                p.end_offset,
                stable_ends.get(key),
                None if size is None else Size(size),
            )
        )
    return rows


def _value(entry: "ConfigEntry") -> str:
    """A value with its unit beside it, where the name tells the unit."""
    if entry.is_sensitive or entry.value is None:
        return "-"
    text = entry.value
    if not text.isdigit() or not 1000 <= int(text) < UNLIMITED:
        return text
    if entry.name.endswith(".ms"):
        return f"{text} ({human_duration(int(text))})"
    if entry.name.endswith(".bytes"):
        return f"{text} ({human_size(int(text))})"
    return text
