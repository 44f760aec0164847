"""`ottla txn abort`: end a transaction over the head of its producer."""

from typing import TYPE_CHECKING

import click

from ottla.cli.completion_names import transactional_ids
from ottla.cli.connection import Connection, connection_options
from ottla.cli.output import InUseError, Output, confirm, format_option, verbose_option
from ottla.errors import ErrorCode, NotFoundError
from ottla.why.owners import open_transactions, owner_of

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.transactions import HangingTransaction


@click.command("abort")
@click.argument("name", required=False, metavar="[ID]", shell_complete=transactional_ids)
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

    \b
    Examples:
      ottla txn abort kitchen
      ottla txn abort -t orders --partition 0 --producer-id 1017 --yes
    """
    place = (topic, partition, producer_id)
    if (name is None) == (topic is None) or (name is None and None in place):
        raise click.UsageError("name an ID, or all of --topic, --partition and --producer-id")
    what = f"transactional id {name}" if name else f"producer {producer_id} in {topic}-{partition}"
    if not yes:
        confirm(f"Abort what {what} has open?")
    with connection.admin() as admin:
        if name is not None:
            _abort_known(admin, name)
        else:
            _abort_hanging(admin, topic or "", partition or 0, producer_id or 0)
    if output.is_json:
        output.json_line({"aborted": what})
    else:
        click.echo(f"aborted what {what} had open")


def _abort_known(admin: "Admin", name: str) -> None:
    info = admin.describe_transaction(name)
    if not info.is_open:
        error = InUseError(f"transactional id {name!r} has nothing open: it is {info.state}")
        error.add_note("`ottla txn list --state Ongoing` shows what can be aborted")
        raise error
    admin.abort_transaction(name)


def _abort_hanging(admin: "Admin", topic: str, partition: int, producer_id: int) -> None:
    found = open_transactions(admin, admin.list_partitions([topic]))
    for opened in found:
        if (opened.tp.partition, opened.producer.producer_id) == (partition, producer_id):
            if (owner := owner_of(admin, opened)) is not None:
                name = owner.transactional_id
                error = InUseError(f"transactional id {name!r} will end it: it is no orphan")
                error.add_note(f"`ottla txn abort {name}` ends it everywhere")
                raise error
            admin.abort_hanging(opened)
            return
    raise NotFoundError(
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        f"producer {producer_id} has no transaction open in {topic}-{partition}{_known(found)}",
    )


def _known(found: "list[HangingTransaction]") -> str:
    if not found:
        return ", and nobody else has"
    names = [f"{it.producer.producer_id} in partition {it.tp.partition}" for it in found]
    return f"; those who have: {', '.join(names)}"
