"""`ottla why topic`."""

import time
from typing import TYPE_CHECKING

import click

from ottla.cli.connection import Connection, connection_options
from ottla.cli.output import Output, format_option, verbose_option
from ottla.cli.quantities import counted
from ottla.cli.why.findings import Finding, show
from ottla.cli.why.topic_waits import HeldPartition, waits
from ottla.model import TopicPartition

if TYPE_CHECKING:
    from ottla.client.basic.client import BasicClient
    from ottla.client.basic.topics import TopicInfo


@click.command("topic")
@click.argument("name", metavar="TOPIC")
@verbose_option
@format_option
@click.pass_obj
@connection_options
def command(output: Output, name: str, connection: Connection) -> None:
    """Say what holds a topic up, and what to do about it.

    It tells which partitions have no leader, and which transaction holds back read_committed
    consumers, whose it is, and for how long it has been open.
    """
    from ottla.client.basic.topics import describe_topic

    with connection.open() as client:
        topic = describe_topic(client, name)
        leaderless = [TopicPartition(name, p.index) for p in topic.partitions if not p.has_leader]
        held = _held_partitions(client, topic)
    now_ms = int(time.time() * 1000)
    count = counted(len(topic.partitions), "partition")
    findings = list(waits(leaderless, held, now_ms)) or [
        Finding(code="nothing", text="It waits for nothing: all that is written can be read.")
    ]
    about_it = {"topic": name, "partition_count": len(topic.partitions)}
    show(output, f"Topic {name} has {count}.", about_it, findings)


def _held_partitions(client: "BasicClient", topic: "TopicInfo") -> list[HeldPartition]:
    from ottla.client.basic.topics import LATEST, offsets_at
    from ottla.client.basic.transactions import open_producers, owner_of

    # The stable end is asked for first: what is written in between does not look held.
    stable = offsets_at(client, [topic], LATEST, read_committed=True)
    ends = offsets_at(client, [topic], LATEST)
    held = [key for key, offset in sorted(stable.items()) if offset < ends.get(key, offset)]
    if not held:
        return []
    oldest = {p.partition: p for p in reversed(open_producers(client, [topic]))}
    found = []
    for key in held:
        holder = oldest.get(key)
        found.append(
            HeldPartition(
                key=key,
                stable_offset=stable[key],
                end_offset=ends[key],
                holder=holder,
                transaction=None if holder is None else owner_of(client, holder),
            )
        )
    return found
