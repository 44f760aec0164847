"""The questions of `ottla why`."""

from collections.abc import Mapping
from typing import Final

import click

from ottla.cli.lazy import LazyGroup

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "group": ("ottla.cli.why.group", "Say what a group waits for, and what to do about it."),
    "pipeline": (
        "ottla.cli.why.pipeline",
        "Say what a pipeline waits for, and what to do about it.",
    ),
    "topic": ("ottla.cli.why.topic", "Say what holds a topic up, and what to do about it."),
    "transaction": (
        "ottla.cli.why.transaction",
        "Say what a transaction waits for, and what to do about it.",
    ),
}


@click.group("why", cls=LazyGroup, commands_by_name=COMMANDS)
def command() -> None:
    """Say in words what something waits for."""
