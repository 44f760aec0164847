"""The commands of `ottla topic`."""

from collections.abc import Mapping
from typing import Final

import click

from ottla.cli.lazy import LazyGroup

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "add-partitions": ("ottla.cli.topic.add_partitions", "Give a topic more partitions."),
    "alter": ("ottla.cli.topic.alter", "Change settings of a topic, and leave the others alone."),
    "create": ("ottla.cli.topic.create", "Create topics."),
    "delete": ("ottla.cli.topic.delete", "Delete topics and everything in them."),
    "describe": ("ottla.cli.topic.describe", "Show partitions, leaders, offsets and settings."),
    "list": ("ottla.cli.topic.list", "List topics."),
}


@click.group("topic", cls=LazyGroup, commands_by_name=COMMANDS)
def command() -> None:
    """Create, show, change and delete topics."""
