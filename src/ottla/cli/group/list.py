"""`ottla group list`."""

import click

from ottla.cli.connection import Connection, connection_options
from ottla.cli.output import Output, format_option, verbose_option


@click.command("list")
@verbose_option
@format_option
@click.pass_obj
@connection_options
def command(output: Output, connection: Connection) -> None:
    """List groups.

    \b
    Examples:
      ottla group list
      ottla group list -o json
    """
    with connection.admin() as admin:
        groups = admin.group_overview()
    output.rows(
        ("group", "state", "protocol_type"),
        [(group.group_id, group.state, group.protocol_type or None) for group in groups],
    )
