"""`ottla serve`: a broker in this process, until somebody stops it.

Here is what its options are; `serving` is what it does, and `start` reads the usual ones quicker.
"""

from typing import Any

import click

from ottla.cli.output import Output, format_option, verbose_option
from ottla.cli.serving import (
    DEFAULT_CONSOLE_PORT,
    DEFAULT_HOST,
    DEFAULT_PORT,
    FLUSHES,
    ServeOptions,
    serve,
)


@click.command()
@click.option("--host", help=f"Where to listen.  [default: {DEFAULT_HOST}]")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    help=f"Where to listen; 0 takes a free port.  [default: {DEFAULT_PORT}]",
)
@click.option(
    "--advertise",
    metavar="HOST:PORT",
    help="What clients are told to connect to, if it is not where the broker listens.",
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False),
    help="Where data is kept.  [default: ottla-data]",
)
@click.option(
    "--flush",
    type=click.Choice(FLUSHES),
    help="What an acknowledged record is: on disk, or in the operating system's memory, as Kafka "
    "does it.  [default: commit]",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False),
    help="A file of settings under Kafka's names: TOML, or a server.properties.",
)
@click.option(
    "-X",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="One setting, e.g. -X num.partitions=6. Repeat it for more.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65_535),
    help="Answer /metrics for Prometheus, /healthz and /readyz there; 0 takes a free port.",
)
@click.option("--console", is_flag=True, help="Run the web console beside the broker.")
@click.option(
    "--console-port",
    type=click.IntRange(0, 65_535),
    default=DEFAULT_CONSOLE_PORT,
    show_default=True,
    help="Where the console listens, on this machine alone; 0 takes a free port.",
)
@click.option("--ephemeral", is_flag=True, help="Keep data in a temporary folder, and remove it.")
@click.option(
    "--insecure",
    is_flag=True,
    help="Let other machines connect. There is no TLS and no SASL yet: whoever connects can read "
    "and delete everything.",
)
@verbose_option
@format_option
@click.pass_obj
def command(output: Output, /, **options: Any) -> None:
    """Run a broker.

    \b
    Examples:
      ottla serve
      ottla serve --data-dir /var/lib/ottla --console
      ottla serve --ephemeral --port 0
      ottla serve --config ottla.toml -X num.partitions=6
    """
    serve(output, ServeOptions(**options))
