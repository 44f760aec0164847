"""`ottla txn list`."""

import click

from ottla.cli.connection import Connection, connection_options
from ottla.cli.offsets import as_age_ms
from ottla.cli.output import Output, format_option, verbose_option
from ottla.cli.quantities import Id


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
    """List transactional ids."""
    from ottla.client.basic.transactions import all_transactions

    with connection.open() as client:
        found = all_transactions(
            client, states=states, min_age_ms=-1 if min_age_ms is None else min_age_ms
        )
    output.rows(
        ("transactional_id", "state", "producer_id", "coordinator"),
        [(t.name, t.state, Id(t.producer_id), Id(t.coordinator_id)) for t in found],
    )
