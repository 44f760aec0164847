"""The commands of `ottla doctor`."""

from collections.abc import Mapping
from typing import Final

import click

from ottla.cli.lazy import LazyGroup

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "spark": ("ottla.cli.doctor.spark", "Say what Spark lacks here, and how to get it."),
}


@click.group("doctor", cls=LazyGroup, commands_by_name=COMMANDS)
def command() -> None:
    """Say what is missing on this machine, and how to get it."""
