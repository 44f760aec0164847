"""What the coordinator of a group remembers: whom it waits for, and why it rebalanced.

Ottla's brokers tell it; others skip the question.  Times are milliseconds since 1970 by the clock
of the coordinator, which also says what time it has: our own clock may be another.
"""

from collections.abc import Mapping
from typing import Final

from ottla.model import TopicPartition
from ottla.values import dataclass
from ottla.wire.messages import describe_groups as wire

_AWAITED: Final[Mapping[int, str]] = {
    wire.Awaited.JOIN: "join",
    wire.Awaited.FIRST_JOIN: "first join",
    wire.Awaited.ASSIGNMENT: "assignment",
    wire.Awaited.SYNC: "sync",
    wire.Awaited.HEARTBEAT: "heartbeat",
    wire.Awaited.REVOCATION: "revocation",
    wire.Awaited.EPOCH: "epoch",
    wire.Awaited.RETURN: "return",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitedMember:
    """A member that a group waits for."""

    member_id: str
    what: str
    """join (again), first join (with the id that it was given), assignment (it is the leader, who
    shares out the partitions), sync (asking for its own), or heartbeat (it is silent).  In a
    consumer group also revocation (to give up partitions), epoch (to follow to that of the group),
    or return (of a static member that left for a while)."""
    since_ms: int | None
    """None: longer than the coordinator remembers."""
    until_ms: int | None
    """When the group goes on without it; None: there is no such time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """One time that a group shared out its partitions anew."""

    began_ms: int
    ended_ms: int | None
    """None: it goes on."""
    generation: int | None
    """That it led to, in a consumer group the epoch; None: the next rebalance came first."""
    member_id: str | None
    """Who set it off; None: the coordinator."""
    client_id: str
    host: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStory:
    """What a coordinator remembers of a group."""

    now_ms: int
    """What time it was there when it told this."""
    since_ms: int | None
    """When the group came to be in its state; None: nobody knows."""
    until_ms: int | None
    """When its wait ends at the latest; None: it waits for nothing."""
    awaited: tuple[AwaitedMember, ...]
    rebalances: tuple[Rebalance, ...]
    """The last ones, oldest first."""
    committed_ms: Mapping[TopicPartition, int]
    """When each partition was committed."""


def story_of(told: wire.GroupStory) -> GroupStory:
    """A story as it came over the wire."""
    return GroupStory(
        now_ms=told.now_ms,
        since_ms=_known(told.since_ms),
        until_ms=_known(told.until_ms),
        awaited=tuple(_awaited(member) for member in told.awaited),
        rebalances=tuple(_rebalance(rebalance) for rebalance in told.rebalances),
        committed_ms={
            TopicPartition(topic.name, partition.partition_index): partition.committed_ms
            for topic in told.commits
            for partition in topic.partitions
        },
    )


def _awaited(told: wire.AwaitedMember) -> AwaitedMember:
    return AwaitedMember(
        member_id=told.member_id,
        what=_AWAITED.get(told.what, f"unknown ({told.what})"),  # a newer broker may know more
        since_ms=_known(told.since_ms),
        until_ms=_known(told.until_ms),
    )


def _rebalance(told: wire.ToldRebalance) -> Rebalance:
    return Rebalance(
        began_ms=told.began_ms,
        ended_ms=_known(told.ended_ms),
        generation=_known(told.generation_id),
        member_id=told.member_id or None,
        client_id=told.client_id,
        host=told.client_host,
        reason=told.reason,
    )


def _known(number: int) -> int | None:
    return None if number < 0 else number
