"""`ottla txn hanging`: transactions that a partition has open and no coordinator knows of."""

from datetime import datetime, timedelta

import click

from ottla.cli.completion_names import topics
from ottla.cli.connection import Connection, connection_options
from ottla.cli.output import Output, format_option, verbose_option
from ottla.quantities import Id, as_ms, local_time

COLUMNS = ("topic", "partition", "producer_id", "producer_epoch", "start_offset", "last_write")


@click.command("hanging")
@click.argument("topics", nargs=-1, metavar="[TOPIC]...", shell_complete=topics)
@verbose_option
@format_option
@click.pass_obj
@connection_options
def command(output: Output, topics: tuple[str, ...], connection: Connection) -> None:
    """Find transactions that nobody will ever end.

    They hold back read_committed consumers, compaction and retention for ever.  Each is ended with
    `ottla txn abort --topic TOPIC --partition N --producer-id ID`.

    \b
    Examples:
      ottla txn hanging
      ottla txn hanging orders
    """
    with connection.admin() as admin:
        found = admin.hanging_transactions(topics=topics or None, older_than=timedelta(0))
    output.rows(
        COLUMNS,
        [
            (
                hanging.tp.topic,
                Id(hanging.tp.partition),
                Id(hanging.producer.producer_id),
                Id(hanging.producer.producer_epoch),
                hanging.producer.transaction_start_offset,
                _moment(hanging.producer.last_write, is_json=output.is_json),
            )
            for hanging in found
        ],
    )
    if not found and not output.is_json:
        output.say("no transaction hangs")


def _moment(when: datetime | None, *, is_json: bool) -> int | str | None:
    if when is None:
        return None
    return as_ms(when) if is_json else local_time(as_ms(when))
