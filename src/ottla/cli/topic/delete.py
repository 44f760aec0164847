"""`ottla topic delete`."""

import click

from ottla.cli.completion_names import topics
from ottla.cli.connection import Connection, connection_options
from ottla.cli.output import Output, confirm, format_option, verbose_option
from ottla.errors import UnknownTopicError


@click.command("delete")
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...", shell_complete=topics)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--if-exists", is_flag=True, help="A topic that does not exist is no error.")
@verbose_option
@format_option
@click.pass_obj
@connection_options
def command(
    output: Output, names: tuple[str, ...], yes: bool, if_exists: bool, connection: Connection
) -> None:
    """Delete topics and everything in them.

    \b
    Examples:
      ottla topic delete orders
      ottla topic delete orders payments --yes --if-exists
    """
    if not yes:
        confirm(f"Delete {', '.join(names)} and everything in it?")
    with connection.admin() as admin:
        for name in names:
            try:
                admin.delete_topic(name)
            except UnknownTopicError as error:
                if not if_exists:
                    error.add_note("--if-exists makes a missing topic no error")
                    raise
                _tell(output, name, deleted=False, text=f"there is no topic {name}")
            else:
                _tell(output, name, deleted=True, text=f"deleted topic {name}")


def _tell(output: Output, name: str, *, deleted: bool, text: str) -> None:
    if output.is_json:
        output.json_line({"name": name, "deleted": deleted})
    else:
        click.echo(text)
