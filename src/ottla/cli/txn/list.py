"""`ottla txn list`."""

from datetime import timedelta

import click

from ottla.cli.connection import Connection, connection_options
from ottla.cli.offsets import as_age_ms
from ottla.cli.output import Output, format_option, verbose_option
from ottla.quantities import Id


@click.command("list")
@click.option("--state", "states", multiple=True, help="Only this state, like Ongoing; repeatable.")
@click.option(
    "--older-than",
    "min_age_ms",
    callback=as_age_ms,
    metavar="AGE",
    help="Only transactions that began longer ago: 90s, 15m, 2h, 1d.",
)
@verbose_option
@format_option
@click.pass_obj
@connection_options
def command(
    output: Output, states: tuple[str, ...], min_age_ms: int | None, connection: Connection
) -> None:
    """List transactional ids.

    \b
    Examples:
      ottla txn list
      ottla txn list --state Ongoing --older-than 5m
    """
    older_than = None if min_age_ms is None else timedelta(milliseconds=min_age_ms)
    with connection.admin() as admin:
        found = admin.list_transactions(states=states, older_than=older_than)
    output.rows(
        ("transactional_id", "state", "producer_id", "coordinator"),
        [(t.transactional_id, t.state, Id(t.producer_id), Id(t.coordinator)) for t in found],
    )
