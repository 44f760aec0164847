"""`ottla doctor broker`: whether clients on this machine get through to a cluster."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from ottla.cli.connection import Connection, connection_options
from ottla.cli.doctor.checks import Check, show
from ottla.cli.output import Output, format_option, verbose_option

if TYPE_CHECKING:
    from ottla.cli.doctor.broker_checks import Brokers


@click.command("broker")
@click.option(
    "--write", "writes", is_flag=True, help="Also write a record, to a topic made for that."
)
@verbose_option
@format_option
@click.pass_obj
@connection_options
def command(output: Output, writes: bool, connection: Connection) -> None:
    """Say whether clients here get through to a cluster.

    It asks each address, then each address that clients are sent on to (advertised.listeners),
    which is where most connections fail; and it compares clocks.  With Apache Kafka, too.

    \b
    Examples:
      ottla doctor broker -b broker.example.org:9092
      ottla doctor broker --write -o json
    """
    from ottla.cli.doctor.broker_checks import Brokers

    checks = examine(connection, Brokers(), writes=writes, is_expected=True)
    show(output, checks, subject="clients do not get through")


def examine(
    connection: Connection, learned: "Brokers", *, writes: bool, is_expected: bool
) -> Iterator[Check]:
    """All that can be said of a cluster from here; `learned` is filled meanwhile."""
    from ottla.cli.doctor.broker_checks import brokers_reached
    from ottla.cli.doctor.clock_checks import clocks
    from ottla.client.addresses import parse_bootstrap

    addresses = parse_bootstrap(connection.bootstrap.split(","))
    yield from brokers_reached(addresses, connection.timeout_s, learned, is_expected=is_expected)
    if learned.all_reachable:
        yield from clocks(connection, writes=writes)
