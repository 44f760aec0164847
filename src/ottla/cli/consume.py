"""`ottla consume`: records of topics on stdout.

It reads partitions directly and commits nothing, so it disturbs nobody.  Without `--follow` it ends
where the partitions ended when it began.
"""

import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.cli.completion_names import topics
from ottla.cli.connection import Connection, connection_options
from ottla.cli.formats import Format, json_line
from ottla.cli.offsets import END, START, Place, as_place, resolve
from ottla.cli.output import Output, format_option, verbose_option
from ottla.client.consumer.until import POLL_RECORDS, batches_until
from ottla.errors import ErrorCode, NotFoundError
from ottla.model import TopicPartition
from ottla.values import dataclass

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.records import Record

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
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...", shell_complete=topics)
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

    \b
    Examples:
      ottla consume orders
      ottla consume orders --follow
      ottla consume orders --from -10 -f '%p@%o %k %s'
      ottla consume orders --from @-1h -o json | jq .value
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
    # Whoever reads our output sees all that is there while we wait for more.
    with closing(read(connection, topics, span, before_wait=stream.flush)) as records:
        for record in _at_most(records, count):
            stream.write(json_line(record) if output.is_json else line_format.line(record))
        stream.flush()


def read(
    connection: Connection,
    names: Iterable[str],
    span: Span,
    *,
    before_wait: Callable[[], object] = lambda: None,
) -> Generator["Record[Any, Any]", None, None]:
    """The records of a span, each partition in order."""
    with connection.admin() as admin:
        partitions = _chosen(admin, list(dict.fromkeys(names)), span.partitions)
        positions = resolve(admin, partitions, span.first)
        ends = None
        if span.last is not None:
            ends = resolve(admin, partitions, span.last, read_committed=span.read_committed)
            positions = {key: at for key, at in positions.items() if at < ends[key]}
    if not positions:
        return
    with connection.consumer(
        auto_offset_reset="none",
        isolation_level="read_committed" if span.read_committed else "read_uncommitted",
        max_poll_records=POLL_RECORDS,
    ) as consumer:
        consumer.assign(positions)
        if ends is None:
            while True:
                before_wait()
                yield from consumer.poll()
        wanted = {key: ends[key] for key in positions}
        for batch in batches_until(wanted, consumer, connection.timeout_s, before_wait=before_wait):
            yield from (record for record in batch if record.offset < ends[record.tp])


def _chosen(admin: "Admin", names: list[str], wanted: frozenset[int]) -> list[TopicPartition]:
    """All partitions of the topics, or those that are wanted of each."""
    found = admin.list_partitions(names)
    if not wanted:
        return found
    for name in names:
        if missing := wanted - {key.partition for key in found if key.topic == name}:
            raise NotFoundError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {name!r} has no partition {min(missing)}",
            )
    return [key for key in found if key.partition in wanted]


def _at_most(
    records: Iterator["Record[Any, Any]"], count: int | None
) -> Iterator["Record[Any, Any]"]:
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
