"""The commands of `ottla bench`."""

from collections.abc import Mapping
from typing import Final

import click

from ottla.cli.lazy import LazyGroup

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "consume": ("ottla.cli.bench.consume", "Read a topic as fast as it goes."),
    "produce": ("ottla.cli.bench.produce", "Write records as fast as it goes."),
}


@click.group("bench", cls=LazyGroup, commands_by_name=COMMANDS)
def command() -> None:
    """Measure a broker: records and bytes a second, live."""
