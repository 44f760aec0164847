"""Requests of a simulated group member, in any version that can carry what it has to say."""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla.errors import ErrorCode
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.simulation.broker_clients import Spot

CONSUMER: Final = "consumer"
BATCHED_FIND_SINCE: Final = 4
BATCHED_FETCH_SINCE: Final = 8
BATCHED_LEAVE_SINCE: Final = 3

# The first version that names a static member, and one above the last that we speak.
FIND_VERSIONS: Final = range(7)
JOIN_VERSIONS: Final = {False: range(10), True: range(5, 10)}
SYNC_VERSIONS: Final = {False: range(6), True: range(3, 6)}
HEARTBEAT_VERSIONS: Final = {False: range(5), True: range(3, 5)}
COMMIT_VERSIONS: Final = {False: range(2, 10), True: range(7, 10)}
FETCH_VERSIONS: Final = range(1, 10)
LEAVE_VERSIONS: Final = range(6)

Asked = tuple[Any, int]
"""A request and its version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who asks, and in which generation it believes to be."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None


def find_coordinator(group_id: str, rng: random.Random) -> Asked:
    version = rng.choice(FIND_VERSIONS)
    if version >= BATCHED_FIND_SINCE:
        return FindCoordinatorRequest(coordinator_keys=(group_id,)), version
    return FindCoordinatorRequest(key=group_id), version


def coordinator_of(answer: FindCoordinatorResponse) -> tuple[ErrorCode, str, int]:
    """The error, the host and the port that any version answers with."""
    found: Any = answer.coordinators[0] if answer.coordinators else answer
    return ErrorCode(found.error_code), found.host, found.port


def join(
    who: Identity,
    protocols: Iterable[tuple[str, bytes]],
    *,
    session_timeout_ms: int,
    rebalance_timeout_ms: int,
    rng: random.Random,
) -> Asked:
    request = JoinGroupRequest(
        group_id=who.group_id,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        member_id=who.member_id,
        group_instance_id=who.instance_id,
        protocol_type=CONSUMER,
        protocols=tuple(
            JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols
        ),
        reason="it is simulated",
    )
    return request, rng.choice(JOIN_VERSIONS[who.is_static])


def sync(who: Identity, protocol: str, shares: Mapping[str, bytes], rng: random.Random) -> Asked:
    request = SyncGroupRequest(
        group_id=who.group_id,
        generation_id=who.generation,
        member_id=who.member_id,
        group_instance_id=who.instance_id,
        protocol_type=CONSUMER,
        protocol_name=protocol,
        assignments=tuple(
            SyncGroupRequestAssignment(member_id=member_id, assignment=share)
            for member_id, share in shares.items()
        ),
    )
    return request, rng.choice(SYNC_VERSIONS[who.is_static])


def heartbeat(who: Identity, rng: random.Random) -> Asked:
    request = HeartbeatRequest(
        group_id=who.group_id,
        generation_id=who.generation,
        member_id=who.member_id,
        group_instance_id=who.instance_id,
    )
    return request, rng.choice(HEARTBEAT_VERSIONS[who.is_static])


def leave(who: Identity, rng: random.Random) -> Asked:
    version = rng.choice(LEAVE_VERSIONS)
    if version < BATCHED_LEAVE_SINCE:
        return LeaveGroupRequest(group_id=who.group_id, member_id=who.member_id), version
    members = (MemberIdentity(member_id=who.member_id),)
    return LeaveGroupRequest(group_id=who.group_id, members=members), version


def commit(who: Identity, offsets: Mapping[Spot, int], note: str, rng: random.Random) -> Asked:
    request = OffsetCommitRequest(
        group_id=who.group_id,
        generation_id_or_member_epoch=who.generation,
        member_id=who.member_id,
        group_instance_id=who.instance_id,
        topics=tuple(
            OffsetCommitRequestTopic(
                name=topic,
                partitions=tuple(
                    OffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=offsets[Spot(topic, index)],
                        committed_metadata=note,
                    )
                    for index in indexes
                ),
            )
            for topic, indexes in _by_topic(offsets).items()
        ),
    )
    return request, rng.choice(COMMIT_VERSIONS[who.is_static])


def fetch_offsets(group_id: str, spots: Iterable[Spot], rng: random.Random) -> Asked:
    version = rng.choice(FETCH_VERSIONS)
    topics = _by_topic(spots).items()
    if version < BATCHED_FETCH_SINCE:
        old = tuple(OffsetFetchRequestTopic(name=t, partition_indexes=tuple(i)) for t, i in topics)
        return OffsetFetchRequest(group_id=group_id, topics=old), version
    new = tuple(OffsetFetchRequestTopics(name=t, partition_indexes=tuple(i)) for t, i in topics)
    group = OffsetFetchRequestGroup(group_id=group_id, topics=new)
    return OffsetFetchRequest(groups=(group,)), version


def offsets_of(answer: OffsetFetchResponse) -> tuple[ErrorCode, dict[Spot, tuple[int, str]]]:
    """The first error of any kind, and offset and note of each partition."""
    found: Any = answer.groups[0] if answer.groups else answer
    codes = [found.error_code]
    offsets = {}
    for topic in found.topics:
        for each in topic.partitions:
            codes.append(each.error_code)
            note = each.metadata or ""
            offsets[Spot(topic.name, each.partition_index)] = (each.committed_offset, note)
    return next((ErrorCode(code) for code in codes if code), ErrorCode.NONE), offsets


def _by_topic(spots: Iterable[Spot]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for spot in sorted(spots):
        topics.setdefault(spot.topic, []).append(spot.index)
    return topics
