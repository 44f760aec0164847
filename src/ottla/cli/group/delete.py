"""`ottla group delete`."""

import click

from ottla.cli.completion_names import groups
from ottla.cli.connection import Connection, connection_options
from ottla.cli.output import Output, confirm, format_option, verbose_option


@click.command("delete")
@click.argument("names", nargs=-1, required=True, metavar="GROUP...", shell_complete=groups)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@verbose_option
@format_option
@click.pass_obj
@connection_options
def command(output: Output, names: tuple[str, ...], yes: bool, connection: Connection) -> None:
    """Forget groups without members, and their offsets.

    \b
    Examples:
      ottla group delete kitchen
      ottla group delete kitchen billing --yes
    """
    if not yes:
        confirm(f"Forget {', '.join(names)} and all its offsets?")
    with connection.admin() as admin:
        for name in names:
            admin.delete_group(name)
            if output.is_json:
                output.json_line({"name": name, "deleted": True})
            else:
                click.echo(f"deleted group {name}")
