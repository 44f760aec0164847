"""`ottla why topic`."""

import click

from ottla.cli.completion_names import topics
from ottla.cli.connection import Connection, connection_options
from ottla.cli.output import Output, format_option, verbose_option
from ottla.cli.why.showing import show
from ottla.quantities import counted
from ottla.why.topic import look_at_topic, why_topic


@click.command("topic")
@click.argument("name", metavar="TOPIC", shell_complete=topics)
@verbose_option
@format_option
@click.pass_obj
@connection_options
def command(output: Output, name: str, connection: Connection) -> None:
    """Say what holds a topic up, and what to do about it.

    It tells which partitions have no leader, which transaction holds back read_committed consumers,
    whose it is and for how long it has been open, and whether the disk is full.

    \b
    Examples:
      ottla why topic orders
      ottla why topic orders -o json
    """
    with connection.admin() as admin:
        sight = look_at_topic(admin, name)
    count = counted(len(sight.partitions), "partition")
    about_it = {"topic": name, "partition_count": len(sight.partitions)}
    show(output, f"Topic {name} has {count}.", about_it, why_topic(sight))
