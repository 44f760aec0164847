"""`ottla group reset`: move the offsets of a group that nobody is in.

Without `--execute` it only shows what would be committed.  No offset is committed that its
partition does not have.
"""

import csv
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING

import click

from ottla.cli.completion_names import groups, topics
from ottla.cli.connection import Connection, connection_options
from ottla.cli.offsets import Place, as_place, resolve
from ottla.cli.output import InUseError, Output, format_option, verbose_option
from ottla.errors import NotFoundError
from ottla.model import TopicPartition
from ottla.quantities import Id

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin

Offsets = Mapping[TopicPartition, int]


@click.command("reset")
@click.argument("name", metavar="GROUP", shell_complete=groups)
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    shell_complete=topics,
    help="Only this topic; may be repeated.",
)
@click.option("--to", "place", callback=as_place, metavar="PLACE", help="start, end, 42, @-1h, ...")
@click.option("--shift", type=int, metavar="N", help="So many offsets on; back, if it is negative.")
@click.option("--file", type=click.File("r", "utf-8"), help="Lines of topic,partition,offset.")
@click.option("--execute", is_flag=True, help="Do it; without, only show what would be done.")
@verbose_option
@format_option
@click.pass_obj
@connection_options
def command(
    output: Output,
    name: str,
    topics: tuple[str, ...],
    place: Place | None,
    shift: int | None,
    file: IO[str] | None,
    execute: bool,
    connection: Connection,
) -> None:
    """Let a group go on from another place.

    PLACE is what `ottla consume --from` takes.  Without --topic, all topics are meant for which the
    group has committed something.  A group with members keeps its offsets: stop them first.

    \b
    Examples:
      ottla group reset kitchen --to start
      ottla group reset kitchen -t orders --to @-1h --execute
      ottla group reset kitchen --shift -100 --execute
    """
    if sum(way is not None for way in (place, shift, file)) != 1:
        raise click.UsageError("say where to: one of --to, --shift and --file")
    listed = None if file is None else _read(file)
    with connection.admin() as admin:
        _refuse_if_active(admin, name)
        before = {key: at.offset for key, at in admin.list_group_offsets(name).items()}
        wanted = set(topics) or {key.topic for key in (before if listed is None else listed)}
        if place is not None:
            after = resolve(admin, admin.list_partitions(wanted, missing_ok=True), place)
        else:
            moved = listed if listed is not None else _shifted(before, shift or 0)
            after = _bounded(admin, {k: o for k, o in moved.items() if k.topic in wanted})
        if missing := sorted(set(topics) - {key.topic for key in after}):
            raise click.UsageError(f"nothing to reset for {', '.join(missing)}")
        if execute and after:
            admin.alter_group_offsets(name, after)
    output.rows(
        ("topic", "partition", "before", "after"),
        [
            (key.topic, Id(key.partition), before.get(key), offset)
            for key, offset in sorted(after.items())
        ],
    )
    if not execute:
        output.say("nothing was changed; --execute does it")


def _refuse_if_active(admin: "Admin", name: str) -> None:
    try:
        group = admin.describe_group(name)
    except NotFoundError:
        return  # a group may have offsets before it has its first member
    if group.is_active:
        error = InUseError(f"group {name!r} is {group.state} with {len(group.members)} members")
        error.add_note("stop its members first: they would not notice, and commit over it")
        raise error


def _shifted(offsets: Offsets, by: int) -> dict[TopicPartition, int]:
    return {key: offset + by for key, offset in offsets.items()}


def _bounded(admin: "Admin", offsets: Offsets) -> dict[TopicPartition, int]:
    """The same, within what each partition has; partitions that do not exist are left out."""
    starts = admin.list_offsets(offsets, at="earliest", missing_ok=True)
    ends = admin.list_offsets(offsets, missing_ok=True)
    return {
        key: max(start, min(offset, end))
        for key, offset in offsets.items()
        if (start := starts.get(key)) is not None and (end := ends.get(key)) is not None
    }


def _read(file: IO[str]) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for number, line in enumerate(csv.reader(file), start=1):
        if not line:
            continue
        try:
            topic, partition, offset = line
            found[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError:
            raise click.UsageError(
                f"line {number} of the file is not topic,partition,offset: {','.join(line)}"
            ) from None
    return found
