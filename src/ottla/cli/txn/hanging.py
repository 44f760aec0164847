"""`ottla txn hanging`: transactions that a partition has open and no coordinator knows of."""

import click

from ottla.cli.connection import Connection, connection_options
from ottla.cli.output import Output, format_option, verbose_option
from ottla.cli.quantities import Id, local_time

COLUMNS = ("topic", "partition", "producer_id", "producer_epoch", "start_offset", "last_write")


@click.command("hanging")
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@verbose_option
@format_option
@click.pass_obj
@connection_options
def command(output: Output, topics: tuple[str, ...], connection: Connection) -> None:
    """Find transactions that nobody will ever end.

    They hold back read_committed consumers, compaction and retention for ever.  Each is ended with
    `ottla txn abort --topic TOPIC --partition N --producer-id ID`.
    """
    from ottla.client.basic.topics import all_topics, find_topic
    from ottla.client.basic.transactions import hanging, open_producers

    with connection.open() as client:
        asked = [find_topic(client, name) for name in topics] if topics else all_topics(client)
        found = hanging(client, open_producers(client, asked))
    output.rows(
        COLUMNS,
        [
            (
                producer.partition.topic,
                Id(producer.partition.partition),
                Id(producer.producer_id),
                Id(producer.producer_epoch),
                producer.start_offset,
                producer.last_timestamp_ms
                if output.is_json
                else local_time(producer.last_timestamp_ms),
            )
            for producer in found
        ],
    )
    if not found and not output.is_json:
        output.say("no transaction hangs")
