"""`ottla doctor`: everything at once, or one thing by its name."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import click
from click.core import ParameterSource

from ottla.cli.connection import Connection, connection_options
from ottla.cli.doctor.checks import Check, ok, show
from ottla.cli.lazy import LazyGroup
from ottla.cli.output import Output, format_option, verbose_option

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "broker": ("ottla.cli.doctor.broker", "Say whether clients here get through to a cluster."),
    "machine": ("ottla.cli.doctor.machine", "Say whether a broker can run here."),
    "spark": ("ottla.cli.doctor.spark", "Say what Spark lacks here, and how to get it."),
}

PATIENCE_S: Final = 5.0
"""How long an address may take to answer before it is called silent."""


@click.group("doctor", cls=LazyGroup, commands_by_name=COMMANDS, invoke_without_command=True)
@click.option(
    "-d",
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("ottla-data"),
    show_default=True,
    help="The data directory of a broker, there or not yet.",
)
@click.option(
    "--write", "writes", is_flag=True, help="Also write a record, to a topic made for that."
)
@verbose_option
@format_option
@click.pass_context
@connection_options
def command(ctx: click.Context, data_dir: Path, writes: bool, connection: Connection) -> None:
    """Say what is wrong, and what to fix.

    Python and its codecs, file limits, the disk of a data directory and how fast it syncs, the
    port; the broker, the address that it sends clients to, its features and its clock; Java and
    Spark, if they are installed.  It ends with an error if something does not work.

    \b
    Examples:
      ottla doctor
      ottla doctor -b broker.example.org:9092 --write
      ottla doctor machine --data-dir /var/lib/ottla
    """
    if ctx.invoked_subcommand is not None:
        _refuse_lost_options(ctx, ctx.invoked_subcommand)
        return
    is_named = ctx.get_parameter_source("bootstrap") is not ParameterSource.DEFAULT
    is_patient = ctx.get_parameter_source("timeout") is not ParameterSource.DEFAULT
    hasty = Connection(connection.bootstrap, min(PATIENCE_S, connection.timeout_s))
    asked = connection if is_patient else hasty
    checks = _everything(asked, data_dir, writes=writes, is_expected=is_named)
    show(ctx.ensure_object(Output), checks, subject="not all is well")


def _refuse_lost_options(ctx: click.Context, name: str) -> None:
    """An option before the command would be ignored, and nobody would notice."""
    for param in ctx.command.params:
        is_given = ctx.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE
        if is_given and param.name in ("bootstrap", "timeout", "data_dir", "writes"):
            raise click.UsageError(f"put {param.opts[-1]} behind `{name}`")


def _everything(
    connection: Connection, data_dir: Path, *, writes: bool, is_expected: bool
) -> Iterator[Check]:
    from ottla.cli.doctor import broker, machine, machine_checks
    from ottla.cli.doctor.broker_checks import LOOPBACK, Brokers
    from ottla.client.addresses import DEFAULT_PORT

    yield from machine.examine(data_dir)
    learned = Brokers()
    yield from broker.examine(connection, learned, writes=writes, is_expected=is_expected)
    answered = learned.answered
    is_here = answered is not None and answered.host in LOOPBACK
    port = answered.port if answered is not None and is_here else DEFAULT_PORT
    yield machine_checks.port_free(port, is_brokers=is_here)
    yield from _spark()


def _spark() -> Iterator[Check]:
    """What Spark needs, where somebody wants it: without it, all else works."""
    from ottla.spark.readiness import examine, release_of

    if release_of("pyspark") is None:
        yield ok("Spark", "not installed; pipelines need it: pip install 'ottla[spark]'")
        return
    from ottla.cli.doctor.spark import check_of

    for finding in examine(os.environ):
        if finding.what != "Python":
            check = check_of(finding)
            yield Check(f"Spark, {check.what}", check.state, check.found, check.advice)
