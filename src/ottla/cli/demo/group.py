"""The commands of `ottla demo`; without one it is the pipeline that is shown."""

from collections.abc import Mapping
from typing import Final

import click

from ottla.cli.lazy import LazyGroup

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "broker": (
        "ottla.cli.demo.broker",
        "Show records, codecs, and a broker that is killed and loses nothing.",
    ),
    "pipeline": (
        "ottla.cli.demo.pipeline",
        "Show a pipeline on Spark that is killed and counts every order once.",
    ),
}


@click.group("demo", cls=LazyGroup, commands_by_name=COMMANDS, invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Show a pipeline, or a broker, that is killed at work.

    Without a command it is the pipeline, for about a minute.

    \b
    Examples:
      ottla demo
      ottla demo broker
    """
    if ctx.invoked_subcommand is None:
        from ottla.cli.demo import pipeline

        ctx.invoke(pipeline.command, seconds=pipeline.WATCH_S, keep=False)
