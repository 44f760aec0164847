"""`ottla topic list`."""

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import click

from ottla.cli.connection import Connection, connection_options
from ottla.cli.output import Output, format_option, verbose_option
from ottla.cli.quantities import Duration, Size
from ottla.errors import UnsupportedError
from ottla.model import TopicPartition, uuid_text

if TYPE_CHECKING:
    from ottla.client.basic.client import BasicClient
    from ottla.client.basic.topics import ConfigEntry, TopicInfo


@click.command("list")
@click.argument("pattern", required=False)
@click.option("--internal", is_flag=True, help="List topics that the broker keeps for itself, too.")
@verbose_option
@format_option
@click.pass_obj
@connection_options
def command(output: Output, pattern: str | None, internal: bool, connection: Connection) -> None:
    """List topics.

    PATTERN is a regular expression that a whole name must match.
    """
    from ottla.client.basic.topics import EARLIEST, LATEST, all_topics, offsets_at, topic_configs

    wanted = _compiled(pattern)
    with connection.open() as client:
        topics = [
            topic
            for topic in all_topics(client)
            if wanted.fullmatch(topic.name) and (internal or not topic.is_internal)
        ]
        starts = offsets_at(client, topics, EARLIEST) if topics else {}
        ends = offsets_at(client, topics, LATEST) if topics else {}
        sizes = sizes_or_none(client)
        names = [topic.name for topic in topics]
        keys = ("cleanup.policy", "retention.ms")
        configs = topic_configs(client, names, keys) if names else {}
    if output.is_json:
        for topic in topics:
            output.json_line(
                facts_of(topic, starts, ends, sizes)
                | {entry.name.replace(".", "_"): _raw(entry) for entry in configs[topic.name]}
            )
        return
    output.rows(
        ("topic", "partitions", "rf", "records", "size", "retention"),
        [
            _row(topic, facts_of(topic, starts, ends, sizes), configs[topic.name])
            for topic in topics
        ],
    )


def facts_of(
    topic: "TopicInfo",
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    sizes: Mapping[TopicPartition, int] | None,
) -> dict[str, object]:
    """What is known of a topic as a whole.  Compaction can leave fewer records than offsets."""
    keys = [TopicPartition(topic.name, p.index) for p in topic.partitions]
    return {
        "name": topic.name,
        "topic_id": uuid_text(topic.topic_id),
        "partitions": len(topic.partitions),
        "replication_factor": topic.replication_factor,
        "records": sum(ends[key] - starts[key] for key in keys if key in ends and key in starts),
        "bytes": None if sizes is None else sum(sizes.get(key, 0) for key in keys),
        "internal": topic.is_internal,
    }


def sizes_or_none(client: "BasicClient") -> dict[TopicPartition, int] | None:
    """Bytes of every partition; None where the broker has no such question."""
    from ottla.client.basic.topics import partition_sizes

    try:
        return partition_sizes(client)
    except UnsupportedError:
        return None


def _row(
    topic: "TopicInfo", facts: Mapping[str, object], configs: Iterable["ConfigEntry"]
) -> tuple[object, ...]:
    settings = {entry.name: entry.value for entry in configs}
    size = facts["bytes"]
    return (
        topic.name,
        facts["partitions"],
        facts["replication_factor"],
        facts["records"],
        Size(size) if isinstance(size, int) else None,
        _retention(settings),
    )


def _retention(settings: Mapping[str, str | None]) -> object:
    policy, retention_ms = settings.get("cleanup.policy"), settings.get("retention.ms")
    if policy == "compact":
        return "compact"
    return Duration(retention_ms) if retention_ms is not None else None


def _raw(entry: "ConfigEntry") -> object:
    return int(entry.value) if entry.name == "retention.ms" and entry.value else entry.value


def _compiled(pattern: str | None) -> "re.Pattern[str]":
    try:
        return re.compile(".*" if pattern is None else pattern)
    except re.error as error:
        raise click.UsageError(f"{pattern!r} is no regular expression: {error}") from None
