"""`ottla topic alter`."""

import click

from ottla.cli.completion_names import topics
from ottla.cli.connection import Connection, connection_options
from ottla.cli.output import Output, format_option, verbose_option
from ottla.cli.settings import parse_pairs


@click.command("alter")
@click.argument("name", metavar="TOPIC", shell_complete=topics)
@click.option(
    "-c",
    "--config",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Give a setting this value. Repeat it for more.",
)
@click.option(
    "-d",
    "--default",
    "resets",
    multiple=True,
    metavar="NAME",
    help="Give a setting its default back. Repeat it for more.",
)
@click.option("--dry-run", is_flag=True, help="Only check whether it would work.")
@verbose_option
@format_option
@click.pass_obj
@connection_options
def command(
    output: Output,
    name: str,
    settings: tuple[str, ...],
    resets: tuple[str, ...],
    dry_run: bool,
    connection: Connection,
) -> None:
    """Change settings of a topic, and leave the others alone.

    \b
    Examples:
      ottla topic alter orders -c retention.ms=86400000
      ottla topic alter orders -c cleanup.policy=compact -d retention.ms
    """
    changes = parse_pairs("--config", settings)
    if not changes and not resets:
        raise click.UsageError("nothing to change: give --config NAME=VALUE or --default NAME")
    if both := sorted(set(changes) & set(resets)):
        raise click.UsageError(f"{both[0]} cannot get a value and its default at a time")
    with connection.admin() as admin:
        admin.alter_config(topic=name, set=changes, unset=resets, dry_run=dry_run)
    if output.is_json:
        output.json_line(
            {"name": name, "set": changes, "default": list(resets), "dry_run": dry_run}
        )
        return
    did = "would change" if dry_run else "changed"
    click.echo(f"{did} topic {name}: {', '.join([*changes, *resets])}")
