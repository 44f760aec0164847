"""`ottla why topic`."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from ottla.cli.completion_names import topics
from ottla.cli.connection import Connection, connection_options
from ottla.cli.output import Output, format_option, verbose_option
from ottla.cli.quantities import counted
from ottla.cli.txn.owners import open_transactions, owner_of
from ottla.cli.why.findings import Finding, show
from ottla.cli.why.topic_waits import HeldPartition, waits
from ottla.model import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin

Offsets = Mapping[TopicPartition, int | None]


@click.command("topic")
@click.argument("name", metavar="TOPIC", shell_complete=topics)
@verbose_option
@format_option
@click.pass_obj
@connection_options
def command(output: Output, name: str, connection: Connection) -> None:
    """Say what holds a topic up, and what to do about it.

    It tells which partitions have no leader, and which transaction holds back read_committed
    consumers, whose it is, and for how long it has been open.

    \b
    Examples:
      ottla why topic orders
      ottla why topic orders -o json
    """
    with connection.admin() as admin:
        partitions = admin.list_partitions([name])
        # The stable end is asked for first: what is written in between does not look held.
        stable = admin.list_offsets(partitions, isolation_level="read_committed", missing_ok=True)
        ends = admin.list_offsets(partitions, missing_ok=True)
        leaderless = [key for key in partitions if key not in ends]
        held = _held_partitions(admin, stable, ends)
    now_ms = int(time.time() * 1000)
    count = counted(len(partitions), "partition")
    findings = list(waits(leaderless, held, now_ms)) or [
        Finding(code="nothing", text="It waits for nothing: all that is written can be read.")
    ]
    about_it = {"topic": name, "partition_count": len(partitions)}
    show(output, f"Topic {name} has {count}.", about_it, findings)


def _held_partitions(admin: "Admin", stable: Offsets, ends: Offsets) -> list[HeldPartition]:
    bounds = [
        (key, stable_offset, end_offset)
        for key, stable_offset in sorted(stable.items())
        if stable_offset is not None
        and (end_offset := ends.get(key)) is not None
        and stable_offset < end_offset
    ]
    if not bounds:
        return []
    opened = open_transactions(admin, [key for key, _, _ in bounds])
    oldest = {it.tp: it for it in reversed(opened)}
    found = []
    for key, stable_offset, end_offset in bounds:
        holder = oldest.get(key)
        found.append(
            HeldPartition(
                key=key,
                stable_offset=stable_offset,
                end_offset=end_offset,
                holder=None if holder is None else holder.producer,
                transaction=None if holder is None else owner_of(admin, holder),
            )
        )
    return found
