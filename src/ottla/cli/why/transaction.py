"""`ottla why transaction`."""

import time
from typing import TYPE_CHECKING

import click

from ottla.cli.completion_names import transactional_ids
from ottla.cli.connection import Connection, connection_options
from ottla.cli.output import Output, format_option, verbose_option
from ottla.cli.why.findings import show
from ottla.cli.why.sinks import look_at_sink
from ottla.cli.why.transaction_waits import TransactionSight, WrittenPartition, waits
from ottla.model import TopicPartition
from ottla.spark.sink.decisions import Names

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.transactions import TransactionInfo


@click.command("transaction")
@click.argument("name", metavar="ID", shell_complete=transactional_ids)
@verbose_option
@format_option
@click.pass_obj
@connection_options
def command(output: Output, name: str, connection: Connection) -> None:
    """Say what a transaction waits for, and what to do about it.

    It tells whether somebody has it open, who and for how long, when it would be aborted, whether
    it was decided and its markers are missing, and which readers it holds up meanwhile.  ID is the
    transactional id.

    \b
    Examples:
      ottla why transaction kitchen
      ottla why transaction kitchen -o json
    """
    with connection.admin() as admin:
        info = admin.describe_transaction(name)
        names = Names.of_transaction(name)
        sight = TransactionSight(
            info=info,
            partitions=tuple(_look_at(admin, info)),
            sink=None if names is None else look_at_sink(admin, connection, names),
            now_ms=int(time.time() * 1000),
        )
    about_it = {
        "transactional_id": name,
        "state": info.state,
        "producer_id": info.producer_id,
        "producer_epoch": info.producer_epoch,
        "partitions": [str(partition) for partition in info.partitions],
    }
    show(output, f"Transaction {name} is {info.state}.", about_it, waits(sight))


def _look_at(admin: "Admin", info: "TransactionInfo") -> list[WrittenPartition]:
    """The partitions that take part, as they stand now."""
    if not info.partitions:
        return []
    keys = info.partitions
    # The stable end is asked for first: what is written in between does not look held.
    stable = admin.list_offsets(keys, isolation_level="read_committed", missing_ok=True)
    ends = admin.list_offsets(keys, missing_ok=True)
    producers = admin.describe_producers([key for key in keys if key in ends])

    def seen(key: TopicPartition) -> WrittenPartition:
        writer = [p for p in producers.get(key, ()) if p.producer_id == info.producer_id]
        return WrittenPartition(
            key=key,
            stable_offset=stable.get(key),
            end_offset=ends.get(key),
            writer=writer[0] if writer else None,
        )

    return [seen(key) for key in keys]
