"""`ottla doctor machine`: whether a broker can run here."""

from collections.abc import Iterator
from pathlib import Path

import click

from ottla.cli.doctor import machine_checks
from ottla.cli.doctor.checks import Check, show
from ottla.cli.output import Output, format_option, verbose_option
from ottla.client.addresses import DEFAULT_PORT


@click.command("machine")
@click.option(
    "-d",
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("ottla-data"),
    show_default=True,
    help="The data directory of a broker, there or not yet.",
)
@click.option(
    "-p",
    "--port",
    type=click.IntRange(1, 65_535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Where it is to listen.",
)
@verbose_option
@format_option
@click.pass_obj
def command(output: Output, data_dir: Path, port: int) -> None:
    """Say whether a broker can run here: Python, limits, the port, the disk and its speed.

    \b
    Examples:
      ottla doctor machine
      ottla doctor machine --data-dir /var/lib/ottla -o json
    """
    checks = [*examine(data_dir), machine_checks.port_free(port)]
    show(output, checks, subject="this machine is not ready")


def examine(data_dir: Path) -> Iterator[Check]:
    """All but the port."""
    yield from machine_checks.python()
    yield machine_checks.files(*machine_checks.file_limits())
    yield from machine_checks.data_dir(data_dir)
