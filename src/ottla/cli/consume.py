"""`ottla consume`: records of topics on stdout.

It reads partitions directly and commits nothing, so it disturbs nobody.  Without `--follow` it ends
where the partitions ended when it began.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from ottla.cli.connection import Connection, connection_options
from ottla.cli.formats import Format, json_line
from ottla.cli.offsets import END, START, Place, as_place, resolve
from ottla.cli.output import Output, format_option, verbose_option
from ottla.errors import ErrorCode, NotFoundError
from ottla.model import TopicPartition
from ottla.values import dataclass

if TYPE_CHECKING:
    from ottla.client.basic.client import BasicClient
    from ottla.client.basic.reader import Record
    from ottla.client.basic.topics import TopicInfo

FOLLOW_WAIT_MS: Final = 500
"""How long a broker may hold a fetch open; Ctrl-C is heard at once all the same."""

VALUES_ONLY: Final = "%s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """What of the topics is wanted."""

    first: Place
    last: Place | None
    """None follows the topics for ever."""
    partitions: frozenset[int]
    """Empty is all of them."""
    read_committed: bool


@click.command()
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...")
@click.option(
    "--from",
    "first",
    callback=as_place,
    metavar="OFFSET",
    help="Where to begin: start (default), end, 42, -10, +10, @-1h, @2026-11-15T16:00. "
    "With --follow the default is end.",
)
@click.option(
    "--until",
    "last",
    callback=as_place,
    metavar="OFFSET",
    help="Where to end, in the same words.",
)
@click.option("-n", "--count", type=click.IntRange(min=0), help="Stop after so many records.")
@click.option(
    "-p",
    "--partition",
    "partitions",
    multiple=True,
    type=click.IntRange(min=0),
    help="Only this partition. Repeat it for more.",
)
@click.option(
    "-f",
    "--format",
    "format_text",
    metavar="FORMAT",
    help="How to print a record, in kcat's letters: '%t %p %o %k %s'.",
)
@click.option("-F", "--follow", is_flag=True, help="Wait for more records; Ctrl-C ends it.")
@click.option(
    "--read-committed", is_flag=True, help="Leave out what is, or may yet be, rolled back."
)
@verbose_option
@format_option
@click.pass_obj
@connection_options
def command(
    output: Output,
    topics: tuple[str, ...],
    first: Place | None,
    last: Place | None,
    count: int | None,
    partitions: tuple[int, ...],
    format_text: str | None,
    follow: bool,
    read_committed: bool,
    connection: Connection,
) -> None:
    """Print the records of topics.

    Formats: %t topic, %p partition, %o offset, %k key, %s value, %h headers, %T timestamp in ms,
    %d timestamp as a date, %K and %S bytes of key and value, \\n, \\t. The default is the value.
    """
    if follow and last is not None:
        raise click.UsageError("--follow never ends, so --until cannot be given with it")
    if output.is_json and format_text is not None:
        raise click.UsageError("-o json is a format already; leave out --format")
    line_format = _parse_format(VALUES_ONLY if format_text is None else format_text)
    span = Span(
        first=first or (END if follow else START),
        last=None if follow else last or END,
        partitions=frozenset(partitions),
        read_committed=read_committed,
    )
    stream = sys.stdout.buffer
    with connection.open() as client:
        # Whoever reads our output sees all that is there while we wait for more.
        records = read(client, topics, span, before_wait=stream.flush)
        for record in _at_most(records, count):
            stream.write(json_line(record) if output.is_json else line_format.line(record))
        stream.flush()


def read(
    client: "BasicClient",
    names: Iterable[str],
    span: Span,
    *,
    before_wait: Callable[[], object] = lambda: None,
) -> Iterator["Record"]:
    """The records of a span, each partition in order."""
    from ottla.client.basic.reader import fetch
    from ottla.client.basic.topics import find_topic

    topics = [_only(find_topic(client, name), span.partitions) for name in dict.fromkeys(names)]
    leaders = {
        TopicPartition(topic.name, p.index): p.leader_id
        for topic in topics
        for p in topic.partitions
    }
    positions = resolve(client, topics, span.first)
    ends: dict[TopicPartition, int] = {}
    if span.last is not None:
        ends = resolve(client, topics, span.last, read_committed=span.read_committed)
        positions = {key: at for key, at in positions.items() if at < ends[key]}
    while positions:
        before_wait()
        for part in fetch(
            client,
            positions,
            leaders,
            max_wait_ms=min(FOLLOW_WAIT_MS, client.timeout_ms // 2),
            read_committed=span.read_committed,
        ):
            end_offset = ends.get(part.partition)
            for record in part.records():
                if end_offset is not None and record.offset >= end_offset:
                    break
                yield record
            positions[part.partition] = part.next_offset
            if end_offset is not None and part.next_offset >= end_offset:
                del positions[part.partition]


def _only(topic: "TopicInfo", wanted: frozenset[int]) -> "TopicInfo":
    if not wanted:
        return topic
    if missing := wanted - {p.index for p in topic.partitions}:
        raise NotFoundError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"topic {topic.name!r} has no partition {min(missing)}",
        )
    return replace(topic, partitions=tuple(p for p in topic.partitions if p.index in wanted))


def _at_most(records: Iterator["Record"], count: int | None) -> Iterator["Record"]:
    """Like `islice`, but asks for nothing beyond the last: a follower would wait for it."""
    if count == 0:
        return
    for number, record in enumerate(records, start=1):
        yield record
        if number == count:
            return


def _parse_format(text: str) -> Format:
    try:
        return Format(text)
    except ValueError as error:
        raise click.UsageError(f"--format: {error}") from None
