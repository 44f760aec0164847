"""`ottla group lag`."""

import click

from ottla.cli.completion_names import groups
from ottla.cli.connection import Connection, connection_options
from ottla.cli.output import Output, format_option, verbose_option
from ottla.why.lags import COLUMNS
from ottla.why.sight import look


@click.command("lag")
@click.argument("names", nargs=-1, required=True, metavar="GROUP...", shell_complete=groups)
@verbose_option
@format_option
@click.pass_obj
@connection_options
def command(output: Output, names: tuple[str, ...], connection: Connection) -> None:
    """Show how far groups are behind.

    LAG is the number of offsets between what is committed and the end of the partition.

    \b
    Examples:
      ottla group lag kitchen
      ottla group lag kitchen billing -o json
    """
    with connection.admin() as admin:
        rows = [(name, *lag.row) for name in names for lag in look(admin, name).lags]
    output.rows(("group", *COLUMNS), rows)
