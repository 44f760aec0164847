"""The commands of `ottla log`."""

from collections.abc import Mapping
from typing import Final

import click

from ottla.cli.lazy import LazyGroup

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "dump": ("ottla.cli.log.dump", "Print what is in the files of a log."),
}


@click.group("log", cls=LazyGroup, commands_by_name=COMMANDS)
def command() -> None:
    """Look into the files of a data directory."""
