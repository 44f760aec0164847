"""`ottla topic add-partitions`."""

import click

from ottla.cli.completion_names import topics
from ottla.cli.connection import Connection, connection_options
from ottla.cli.output import Output, format_option, verbose_option


@click.command("add-partitions")
@click.argument("name", metavar="TOPIC", shell_complete=topics)
@click.argument("count", type=click.IntRange(min=1))
@verbose_option
@format_option
@click.pass_obj
@connection_options
def command(output: Output, name: str, count: int, connection: Connection) -> None:
    """Give a topic more partitions.

    COUNT is how many to add.  Partitions cannot be taken away again, and keys may move to other
    partitions: records of a key that are there stay where they are.

    \b
    Examples:
      ottla topic add-partitions orders 2
    """
    with connection.admin() as admin:
        total = len(admin.list_partitions([name])) + count
        admin.add_partitions(name, total=total)
    if output.is_json:
        output.json_line({"name": name, "partitions": total})
    else:
        click.echo(f"topic {name} has {total:,} partitions now")
