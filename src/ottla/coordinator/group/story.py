"""The story of a classic group: what it waits for, its last rebalances, when it committed what.

Kafka's protocol has no question for this.  Ours travels in a field of our own, to those who ask
(`wire.messages.describe_groups`).  It has facts only; whoever shows them finds the words.  Nothing
here changes a group, and what is told is forgotten by a restart, but for times that are in the log.
"""

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from ottla.coordinator.group.classic import ClassicGroup, Rebalance, State
from ottla.coordinator.group.member import Member
from ottla.coordinator.group.offsets import Offsets
from ottla.wire.messages.describe_groups import (
    Awaited,
    AwaitedMember,
    CommittedPartition,
    CommittedTopic,
    GroupStory,
    ToldRebalance,
)

NOT_KNOWN: Final = -1
_WAITING: Final = (State.PREPARING, State.COMPLETING)


def told(group: ClassicGroup, offsets: Offsets, now_ms: int) -> GroupStory:
    """All that is known of a group beyond what DescribeGroups tells everybody."""
    return GroupStory(
        now_ms=now_ms,
        since_ms=NOT_KNOWN if group.since_ms is None else group.since_ms,
        until_ms=group.until_ms if group.state in _WAITING else NOT_KNOWN,
        generation_id=group.generation,
        awaited=(*_awaited(group), *_silent(group, now_ms)),
        rebalances=tuple(told_rebalance(rebalance) for rebalance in group.rebalances),
        commits=commits(group.group_id, offsets),
    )


def _awaited(group: ClassicGroup) -> Iterator[AwaitedMember]:
    """Everybody without whom the group cannot go on, and those who owe it something."""
    since_ms = NOT_KNOWN if group.since_ms is None else group.since_ms
    for member in group.members.values():
        if (what := _owed_by(group, member)) is not None:
            yield AwaitedMember(
                member_id=member.member_id,
                what=what,
                since_ms=since_ms,
                until_ms=group.until_ms,
            )
    for member_id, until_ms in group.pending.items():
        yield AwaitedMember(member_id=member_id, what=Awaited.FIRST_JOIN, until_ms=until_ms)


def _owed_by(group: ClassicGroup, member: Member) -> Awaited | None:
    if group.state is State.PREPARING:
        return Awaited.JOIN if member.join is None else None
    if not member.owes_sync:
        return None
    is_leader = member.member_id == group.leader_id
    if group.state is State.COMPLETING and is_leader:
        return Awaited.ASSIGNMENT
    return Awaited.SYNC


def _silent(group: ClassicGroup, now_ms: int) -> Iterator[AwaitedMember]:
    """Members of whom nothing was heard for more than half of their session."""
    for member in group.members.values():
        left_ms = member.deadline_ms - now_ms
        if not member.need_not_report and left_ms * 2 < member.session_timeout_ms:
            yield AwaitedMember(
                member_id=member.member_id,
                what=Awaited.HEARTBEAT,
                since_ms=member.deadline_ms - member.session_timeout_ms,
                until_ms=member.deadline_ms,
            )


def told_rebalance(rebalance: Rebalance) -> ToldRebalance:
    """A rebalance as it travels; that of a consumer group has its epoch for a generation."""
    cause = rebalance.cause
    return ToldRebalance(
        began_ms=rebalance.began_ms,
        ended_ms=NOT_KNOWN if rebalance.ended_ms is None else rebalance.ended_ms,
        generation_id=NOT_KNOWN if rebalance.generation is None else rebalance.generation,
        member_id=cause.member_id,
        client_id=cause.client_id,
        client_host=cause.client_host,
        reason=cause.reason,
    )


def commits(group_id: str, offsets: Offsets) -> tuple[CommittedTopic, ...]:
    """When each partition was committed, by topic."""
    by_topic = groupby(offsets.of_group(group_id), key=lambda entry: entry[0].topic)
    return tuple(
        CommittedTopic(
            name=topic,
            partitions=tuple(
                CommittedPartition(partition_index=key.partition, committed_ms=offset.committed_ms)
                for key, offset in entries
            ),
        )
        for topic, entries in by_topic
    )
