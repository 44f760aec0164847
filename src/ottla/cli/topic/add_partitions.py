"""`ottla topic add-partitions`."""

import click

from ottla.cli.connection import Connection, connection_options
from ottla.cli.output import Output, format_option, verbose_option


@click.command("add-partitions")
@click.argument("name", metavar="TOPIC")
@click.argument("count", type=click.IntRange(min=1))
@verbose_option
@format_option
@click.pass_obj
@connection_options
def command(output: Output, name: str, count: int, connection: Connection) -> None:
    """Give a topic more partitions.

    COUNT is how many to add.  Partitions cannot be taken away again, and keys may move to other
    partitions: records of a key that are there stay where they are.
    """
    from ottla.client.basic.topics import describe_topic, set_partition_count

    with connection.open() as client:
        total = len(describe_topic(client, name).partitions) + count
        set_partition_count(client, name, total)
    if output.is_json:
        output.json_line({"name": name, "partitions": total})
    else:
        click.echo(f"topic {name} has {total:,} partitions now")
