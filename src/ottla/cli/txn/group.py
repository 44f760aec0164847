"""The commands of `ottla txn`."""

from collections.abc import Mapping
from typing import Final

import click

from ottla.cli.lazy import LazyGroup

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "abort": ("ottla.cli.txn.abort", "End a transaction over the head of its producer."),
    "describe": ("ottla.cli.txn.describe", "Show where transactional ids stand."),
    "hanging": ("ottla.cli.txn.hanging", "Find transactions that nobody will ever end."),
    "list": ("ottla.cli.txn.list", "List transactional ids."),
}


@click.group("txn", cls=LazyGroup, commands_by_name=COMMANDS)
def command() -> None:
    """Show transactions, and end those that nobody else ends."""
