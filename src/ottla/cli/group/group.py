"""The commands of `ottla group`."""

from collections.abc import Mapping
from typing import Final

import click

from ottla.cli.lazy import LazyGroup

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "delete": ("ottla.cli.group.delete", "Forget groups without members, and their offsets."),
    "describe": (
        "ottla.cli.group.describe",
        "Show state, members, their partitions, lag, and the last rebalances.",
    ),
    "lag": ("ottla.cli.group.lag", "Show how far groups are behind."),
    "list": ("ottla.cli.group.list", "List groups."),
    "reset": ("ottla.cli.group.reset", "Let a group go on from another place."),
    "watch": ("ottla.cli.group.watch", "Show a group, and what changes in it, as it happens."),
}


@click.group("group", cls=LazyGroup, commands_by_name=COMMANDS)
def command() -> None:
    """Show, move and delete consumer groups."""
