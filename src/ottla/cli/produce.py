"""`ottla produce`: lines to records.

Records are sent when a batch is full, and whenever the input has nothing more for the moment: a
line that somebody types is on its way at once.  A broker that goes away is waited for, as long as
`--timeout` says, and gets no record twice.  What was acknowledged is counted, and said in the end,
also when something went wrong.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click

from ottla.cli.completion_names import topics
from ottla.cli.connection import Connection, connection_options
from ottla.cli.inputs import InputError, Lines, Rules, parse_path, read_lines
from ottla.cli.output import Output, PartialError, format_option, verbose_option
from ottla.cli.progress import Progress, progress_bar
from ottla.cli.settings import parse_pair
from ottla.cli.writing import Writer, producer_for
from ottla.errors import OttlaError
from ottla.quantities import counted, human_size

ACKS: Final = ("all", "1", "0")
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


@click.command()
@click.argument("topic", shell_complete=topics)
@click.argument("values", nargs=-1, metavar="[VALUE]...")
@click.option(
    "-f",
    "--file",
    "path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Read lines from this file instead of stdin.",
)
@click.option(
    "-i",
    "--input",
    "input_format",
    type=click.Choice(["lines", "json"]),
    default="lines",
    show_default=True,
    help="Each line is a value, or a JSON object with key, value, headers, timestamp_ms.",
)
@click.option("-k", "--key", help="The key of every record that has none of its own.")
@click.option("-K", "--key-separator", help="Each line is a key, this separator, and a value.")
@click.option(
    "--key-from", metavar=".PATH", help="The key is this field of the value, which is JSON."
)
@click.option(
    "-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="Add a header."
)
@click.option("-p", "--partition", type=click.IntRange(min=0), help="Write to this partition only.")
@click.option("-Z", "--null", "empty_is_null", is_flag=True, help="Empty keys and values are null.")
@click.option("--compression", type=click.Choice(CODECS), default="none", show_default=True)
@click.option(
    "--acks",
    type=click.Choice(ACKS),
    default="all",
    show_default=True,
    help="Who must have a record before it counts as written.",
)
@verbose_option
@format_option
@click.pass_obj
@connection_options
def command(
    output: Output,
    /,
    topic: str,
    values: tuple[str, ...],
    path: Path | None,
    compression: str,
    acks: str,
    connection: Connection,
    **options: Any,
) -> None:
    """Write records to a topic.

    Each VALUE is a record; without any, each line of stdin or of a file is one.

    \b
    Examples:
      ottla produce orders espresso lungo
      ottla produce orders -k table-4 espresso
      ottla produce orders -f orders.ndjson --key-from .customer.id
      tail -f access.log | ottla produce clicks --compression zstd
    """
    if values and path is not None:
        raise click.UsageError("values and --file cannot be given at a time")
    rules = _rules(**options)
    started = time.monotonic()
    with producer_for(connection, acks=acks, compression=compression) as producer:
        writer = Writer(producer, topic)
        writer.find_topic(connection.timeout_s)
        with _source(values, path) as (lines, progress), _counted(writer):
            write_lines(writer, rules, lines, progress)
        _tell(output, topic, writer, time.monotonic() - started)


def write_lines(writer: Writer, rules: Rules, groups: Iterator[Lines], progress: Progress) -> None:
    """Write all lines, each group as it comes; `InputError` names the line that is no record."""
    number = 0
    for lines, size_bytes, is_drained in groups:
        now_ms = int(time.time() * 1000)
        for line in lines:
            number += 1
            try:
                record, partition = rules.parse(line, now_ms)
            except InputError as error:
                # What came before was good: it must not depend on where batches end.
                writer.flush()
                raise InputError(f"line {number}: {error}") from None
            writer.add(record, partition)
        if is_drained:
            writer.flush()
        progress.advance(size_bytes)
    writer.flush()


def _rules(
    input_format: str,
    key: str | None,
    key_separator: str | None,
    key_from: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    empty_is_null: bool,
) -> Rules:
    """The options that say how a line is read."""
    if key_separator is not None and (input_format == "json" or key_from or not key_separator):
        raise click.UsageError("--key-separator goes with lines that are a key and a value only")
    try:
        key_path = parse_path(key_from) if key_from else ()
    except ValueError as error:
        raise click.UsageError(f"--key-from: {error}") from None
    pairs = [parse_pair("--header", header) for header in headers]
    return Rules(
        is_json=input_format == "json",
        key=None if key is None else key.encode(),
        key_separator=None if key_separator is None else key_separator.encode(),
        key_path=key_path,
        headers=tuple((name, value.encode()) for name, value in pairs),
        partition=partition,
        empty_is_null=empty_is_null,
    )


@contextmanager
def _source(
    values: tuple[str, ...], path: Path | None
) -> Iterator[tuple[Iterator[Lines], Progress]]:
    """The lines to write, with a bar where somebody watches and the end is known."""
    if values:
        given = Lines([value.encode() for value in values], 0, True)
        yield iter([given]), Progress()
        return
    if path is None:
        if sys.stdin.isatty():
            click.echo("each line becomes a record; Ctrl-D ends", err=True)
        yield read_lines(sys.stdin.buffer), Progress()
        return
    is_watched = sys.stderr.isatty()
    with path.open("rb") as file, progress_bar(path.name, path.stat().st_size, is_watched) as bar:
        yield read_lines(file), bar


@contextmanager
def _counted(writer: Writer) -> Iterator[None]:
    """If something goes wrong in the middle, say how much is written."""
    try:
        yield
    except (OttlaError, InputError) as error:
        writer.settle()
        tally = writer.tally
        if not tally.record_count:
            if isinstance(error, InputError):
                raise click.UsageError(str(error)) from None
            raise
        written = f"{counted(tally.record_count - tally.later_count, 'record')} got written"
        if tally.later_count:
            written += f", {tally.later_count} after it"
        if tally.doubtful_count:
            written += f", {tally.doubtful_count} may be written"
        raise PartialError(f"{error} (before that, {written})") from error


def _tell(output: Output, topic: str, writer: Writer, seconds: float) -> None:
    tally = writer.tally
    if output.is_json:
        output.json_line(
            {
                "topic": topic,
                "records": tally.record_count,
                "bytes": tally.value_bytes,
                "sent_bytes": writer.sent_bytes,
                "seconds": round(seconds, 3),
            }
        )
        return
    sizes = f"{human_size(tally.value_bytes)} → {human_size(writer.sent_bytes)}"
    records = counted(tally.record_count, "record")
    output.say(f"produced {records} ({sizes}) to {topic} in {seconds:.1f} s")
