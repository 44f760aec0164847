"""`ottla topic list`."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from ottla.cli.connection import Connection, connection_options
from ottla.cli.output import Output, format_option, verbose_option
from ottla.errors import DeniedError, UnknownTopicError, UnsupportedError
from ottla.model import TopicPartition
from ottla.quantities import Duration, Size

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.topics import TopicInfo


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

    \b
    Examples:
      ottla topic list
      ottla topic list --internal -o json
    """
    wanted = _compiled(pattern)
    with connection.admin() as admin:
        names = [name for name in admin.list_topics(internal=internal) if wanted.fullmatch(name)]
        topics = _described(admin, names)
        sizes = sizes_or_none(admin)
    if output.is_json:
        for topic in topics:
            output.json_line(facts_of(topic, sizes) | _settings(topic))
        return
    output.rows(
        ("topic", "partitions", "rf", "records", "size", "retention"),
        [_row(topic, facts_of(topic, sizes)) for topic in topics],
    )


def _described(admin: "Admin", names: list[str]) -> "list[TopicInfo]":
    """The topics, but for those that are gone since they were listed."""
    found = admin.describe_topics(names)
    gone = {name for name, e in found.errors.items() if isinstance(e, UnknownTopicError)}
    return [found[name] for name in names if name not in gone]


def facts_of(topic: "TopicInfo", sizes: Mapping[TopicPartition, int] | None) -> dict[str, object]:
    """What is known of a topic as a whole.  Compaction can leave fewer records than offsets."""
    return {
        "name": topic.name,
        "topic_id": topic.topic_id,
        "partitions": len(topic.partitions),
        "replication_factor": topic.replication_factor,
        "records": sum((p.end_offset or 0) - (p.start_offset or 0) for p in topic.partitions),
        "bytes": None
        if sizes is None
        else sum(sizes.get(TopicPartition(topic.name, p.id), 0) for p in topic.partitions),
        "internal": topic.internal,
    }


def sizes_or_none(admin: "Admin") -> dict[TopicPartition, int] | None:
    """Bytes of every partition, at its largest replica; None where the broker does not tell."""
    try:
        folders = admin.describe_log_dirs()
    except (DeniedError, UnsupportedError):
        return None
    sizes: dict[TopicPartition, int] = {}
    for of_broker in folders.values():
        for folder in of_broker:
            if folder.error is not None:
                raise folder.error
            for key, replica in folder.replicas.items():
                sizes[key] = max(sizes.get(key, 0), replica.size_bytes)
    return sizes


def _row(topic: "TopicInfo", facts: Mapping[str, object]) -> tuple[object, ...]:
    size = facts["bytes"]
    return (
        topic.name,
        facts["partitions"],
        facts["replication_factor"],
        facts["records"],
        Size(size) if isinstance(size, int) else None,
        _retention(topic),
    )


def _retention(topic: "TopicInfo") -> object:
    policy, retention_ms = topic.config.get("cleanup.policy"), topic.config.get("retention.ms")
    if policy == "compact":
        return "compact"
    return Duration(retention_ms) if retention_ms is not None else None


def _settings(topic: "TopicInfo") -> dict[str, object]:
    policy, retention_ms = topic.config.get("cleanup.policy"), topic.config.get("retention.ms")
    return {
        "cleanup_policy": policy,
        "retention_ms": None if retention_ms is None else int(retention_ms),
    }


def _compiled(pattern: str | None) -> "re.Pattern[str]":
    try:
        return re.compile(".*" if pattern is None else pattern)
    except re.error as error:
        raise click.UsageError(f"{pattern!r} is no regular expression: {error}") from None
