"""`ottla topic create`."""

import click

from ottla.cli.connection import Connection, connection_options
from ottla.cli.output import Output, format_option, verbose_option
from ottla.cli.settings import parse_pairs
from ottla.errors import ConflictError, ErrorCode
from ottla.quantities import counted


@click.command("create")
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...")
@click.option(
    "-p",
    "--partitions",
    type=click.IntRange(min=1),
    default=None,
    help="How many partitions; without it, as many as num.partitions says.",
)
@click.option(
    "-r",
    "--replicas",
    type=click.IntRange(min=1),
    default=None,
    help="How many replicas; without it, as many as default.replication.factor says.",
)
@click.option(
    "-c",
    "--config",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting of the topic, e.g. retention.ms=60000. Repeat it for more.",
)
@click.option("--if-not-exists", is_flag=True, help="A topic that exists is no error.")
@click.option("--dry-run", is_flag=True, help="Only check whether it would work.")
@verbose_option
@format_option
@click.pass_obj
@connection_options
def command(
    output: Output,
    names: tuple[str, ...],
    partitions: int | None,
    replicas: int | None,
    settings: tuple[str, ...],
    if_not_exists: bool,
    dry_run: bool,
    connection: Connection,
) -> None:
    """Create topics.

    \b
    Examples:
      ottla topic create orders
      ottla topic create orders -p 6 -c retention.ms=86400000
      ottla topic create orders payments --if-not-exists
    """
    configs = parse_pairs("--config", settings)
    with connection.admin() as admin:
        for name in names:
            try:
                topic = admin.create_topic(
                    name,
                    partitions=partitions or -1,
                    replication_factor=replicas or -1,
                    config=configs,
                    dry_run=dry_run,
                )
            except ConflictError as error:
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS or not if_not_exists:
                    error.add_note("--if-not-exists makes an existing topic no error")
                    raise
                _tell(output, name, created=False, text=f"topic {name} exists already")
            else:
                did = "would create" if dry_run else "created"
                _tell(
                    output,
                    name,
                    created=not dry_run,
                    text=f"{did} topic {name} with {counted(len(topic.partitions), 'partition')}",
                    partitions=len(topic.partitions),
                    replication_factor=topic.replication_factor,
                )


def _tell(output: Output, name: str, *, created: bool, text: str, **facts: int) -> None:
    if output.is_json:
        output.json_line({"name": name, "created": created, **facts})
    else:
        click.echo(text)
