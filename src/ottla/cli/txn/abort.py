"""`ottla txn abort`: end a transaction over the head of its producer."""

from typing import TYPE_CHECKING

import click

from ottla.cli.connection import Connection, connection_options
from ottla.cli.output import InUseError, Output, format_option, verbose_option
from ottla.errors import ErrorCode, NotFoundError

if TYPE_CHECKING:
    from ottla.client.basic.client import BasicClient
    from ottla.client.basic.transactions import OpenProducer


@click.command("abort")
@click.argument("name", required=False, metavar="[ID]")
@click.option("-t", "--topic", help="End one that hangs: its topic,")
@click.option("--partition", type=click.IntRange(min=0), help="its partition,")
@click.option("--producer-id", type=click.IntRange(min=0), help="and its producer.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@verbose_option
@format_option
@click.pass_obj
@connection_options
def command(
    output: Output,
    name: str | None,
    topic: str | None,
    partition: int | None,
    producer_id: int | None,
    yes: bool,
    connection: Connection,
) -> None:
    """End a transaction over the head of its producer.

    With an ID, its open transaction is aborted and its producer fenced: what it sends from now on
    is refused, and it has to start anew.  A transaction that hangs (see `ottla txn hanging`) has no
    ID that would help; it is named by --topic, --partition and --producer-id.
    """
    place = (topic, partition, producer_id)
    if (name is None) == (topic is None) or (name is None and None in place):
        raise click.UsageError("name an ID, or all of --topic, --partition and --producer-id")
    what = f"transactional id {name}" if name else f"producer {producer_id} in {topic}-{partition}"
    if not yes:
        click.confirm(f"Abort what {what} has open?", abort=True, err=True)
    with connection.open() as client:
        if name is not None:
            _abort_known(client, name)
        else:
            _abort_hanging(client, topic or "", partition or 0, producer_id or 0)
    if output.is_json:
        output.json_line({"aborted": what})
    else:
        click.echo(f"aborted what {what} had open")


def _abort_known(client: "BasicClient", name: str) -> None:
    from ottla.client.basic.transactions import abort_transaction, describe_transaction

    info = describe_transaction(client, name)
    if not info.is_open:
        error = InUseError(f"transactional id {name!r} has nothing open: it is {info.state}")
        error.add_note("`ottla txn list --state Ongoing` shows what can be aborted")
        raise error
    abort_transaction(client, name)


def _abort_hanging(client: "BasicClient", topic: str, partition: int, producer_id: int) -> None:
    from ottla.client.basic.topics import find_topic
    from ottla.client.basic.transactions import abort_hanging, open_producers, owner_of

    found = open_producers(client, [find_topic(client, topic)])
    for producer in found:
        if (producer.partition.partition, producer.producer_id) == (partition, producer_id):
            if (owner := owner_of(client, producer)) is not None:
                error = InUseError(f"transactional id {owner.name!r} will end it: it is no orphan")
                error.add_note(f"`ottla txn abort {owner.name}` ends it everywhere")
                raise error
            abort_hanging(client, producer)
            return
    raise NotFoundError(
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        f"producer {producer_id} has no transaction open in {topic}-{partition}{_known(found)}",
    )


def _known(found: "list[OpenProducer]") -> str:
    if not found:
        return ", and nobody else has"
    names = [f"{p.producer_id} in partition {p.partition.partition}" for p in found]
    return f"; those who have: {', '.join(names)}"
