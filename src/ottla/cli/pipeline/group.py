"""The commands of `ottla pipeline`."""

from collections.abc import Mapping
from typing import Final

import click

from ottla.cli.lazy import LazyGroup

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "ledger": ("ottla.cli.pipeline.ledger", "Show the batches that were committed, and of what."),
    "list": ("ottla.cli.pipeline.list", "List the pipelines of this machine."),
    "plan": ("ottla.cli.pipeline.plan", "Show and check a pipeline without running it."),
    "run": ("ottla.cli.pipeline.run", "Run a pipeline."),
    "status": ("ottla.cli.pipeline.status", "Show how far a pipeline has come."),
    "stop": ("ottla.cli.pipeline.stop", "Stop a pipeline after its batch."),
}


@click.group("pipeline", cls=LazyGroup, commands_by_name=COMMANDS)
def command() -> None:
    """Run pipelines on Spark, and see how they do."""
