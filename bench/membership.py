"""A group member of bare requests and answers: what the protocol itself costs, without a client.

It is blocking, and asks for nothing twice.  An error code is a wrong answer: a figure is worth
something only if the group did what it was asked to.
"""

import socket
import struct
from dataclasses import dataclass, field
from typing import Any

from bench.blast import WrongAnswerError, connected, exactly, framed
from ottla.errors import ErrorCode
from ottla.wire.frame import SIZE
from ottla.wire.header import decode_response
from ottla.wire.messages import (
    fetch,
    find_coordinator,
    heartbeat,
    join_group,
    list_groups,
    offset_commit,
    offset_fetch,
    sync_group,
)
from ottla.wire.registry import ApiKey, api
from ottla.wire.stored import consumer_protocol
from ottla.wire.stored.versioned import decode_lenient, encode_versioned

FIND_VERSION, JOIN_VERSION, SYNC_VERSION, HEARTBEAT_VERSION = 4, 9, 5, 4
COMMIT_VERSION, OFFSETS_VERSION, FETCH_VERSION, LIST_VERSION = 8, 7, 12, 4
SESSION_TIMEOUT_MS, REBALANCE_TIMEOUT_MS = 45_000, 60_000

_LAYOUT = 3
_ERROR_AFTER_THROTTLE = struct.Struct(">h")
_HEARTBEAT_ERROR_AT = SIZE.size + 4 + 1 + 4  # size, correlation id, tagged fields, throttle time


@dataclass(slots=True)
class Member:
    """One connection that speaks for one member."""

    group: str
    topic: str
    connection: socket.socket
    member_id: str = ""
    generation: int = -1
    roster: tuple[str, ...] = field(default=())

    @classmethod
    def connect(cls, port: int, group: str, topic: str) -> "Member":
        return cls(group, topic, connected(port))

    def close(self) -> None:
        self.connection.close()

    def ask(self, body: Any, version: int) -> Any:
        self.tell(body, version)
        return self.hear(body, version)

    def tell(self, body: Any, version: int) -> None:
        """Send a request; its answer is to be heard later."""
        self.connection.sendall(framed(body, version))

    def hear(self, body: Any, version: int) -> Any:
        """The answer to the oldest request that has none."""
        (size_bytes,) = SIZE.unpack(exactly(self.connection, SIZE.size))
        frame = exactly(self.connection, size_bytes)
        return decode_response(api(ApiKey(body.__api__.key)), version, frame)[1]

    # Into the group

    def find_coordinator(self) -> None:
        request = find_coordinator.FindCoordinatorRequest(coordinator_keys=(self.group,))
        answer = self.ask(request, FIND_VERSION)
        _check("FindCoordinator", answer.coordinators[0].error_code)

    def be_named(self) -> None:
        """The first join of a new member, which is answered with the id to join with."""
        answer = self.ask(self._join(), JOIN_VERSION)
        if answer.error_code != ErrorCode.MEMBER_ID_REQUIRED:
            raise WrongAnswerError(f"the first join was answered {answer}")
        self.member_id = answer.member_id

    def tell_join(self) -> None:
        self.tell(self._join(), JOIN_VERSION)

    def hear_join(self) -> None:
        answer = self.hear(self._join(), JOIN_VERSION)
        _check("JoinGroup", answer.error_code)
        self.generation = answer.generation_id
        self.roster = tuple(member.member_id for member in answer.members)

    def tell_sync(self) -> None:
        """Ask for the assignment; the leader brings it: the n-th partition for the n-th member."""
        self.tell(self._sync(), SYNC_VERSION)

    def hear_sync(self) -> tuple[int, ...]:
        answer = self.hear(self._sync(), SYNC_VERSION)
        _check("SyncGroup", answer.error_code)
        share = decode_lenient(consumer_protocol.ConsumerProtocolAssignment, answer.assignment)
        return tuple(index for each in share.assigned_partitions for index in each.partitions)

    def first_record(self) -> None:
        """From the first join to the first record of partition 0."""
        self.be_named()
        self.tell_join()
        self.hear_join()
        self.tell_sync()
        if self.hear_sync() != (0,):
            raise WrongAnswerError("the only member did not get the only partition")
        asked = offset_fetch.OffsetFetchRequestTopic(name=self.topic, partition_indexes=(0,))
        offsets = offset_fetch.OffsetFetchRequest(group_id=self.group, topics=(asked,))
        found = self.ask(offsets, OFFSETS_VERSION).topics[0].partitions[0]
        _check("OffsetFetch", found.error_code)
        wanted = fetch.FetchPartition(
            partition=0,
            fetch_offset=max(found.committed_offset, 0),
            partition_max_bytes=1_000_000,
        )
        request = fetch.FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=1_000_000,
            topics=(fetch.FetchTopic(topic=self.topic, partitions=(wanted,)),),
        )
        data = self.ask(request, FETCH_VERSION).responses[0].partitions[0]
        _check("Fetch", data.error_code)
        if not data.records:
            raise WrongAnswerError("there was no record")

    def heartbeat(self) -> bytes:
        request = heartbeat.HeartbeatRequest(
            group_id=self.group, generation_id=self.generation, member_id=self.member_id
        )
        return framed(request, HEARTBEAT_VERSION)

    def hear_heartbeat(self) -> None:
        (size_bytes,) = SIZE.unpack(exactly(self.connection, SIZE.size))
        frame = exactly(self.connection, size_bytes)
        (error,) = _ERROR_AFTER_THROTTLE.unpack_from(frame, _HEARTBEAT_ERROR_AT - SIZE.size)
        _check("Heartbeat", error)

    def _join(self) -> join_group.JoinGroupRequest:
        subscription = consumer_protocol.ConsumerProtocolSubscription(topics=(self.topic,))
        protocol = join_group.JoinGroupRequestProtocol(
            name="range", metadata=encode_versioned(subscription, _LAYOUT)
        )
        return join_group.JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=(protocol,),
        )

    def _sync(self) -> sync_group.SyncGroupRequest:
        return sync_group.SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=tuple(
                sync_group.SyncGroupRequestAssignment(
                    member_id=member_id, assignment=self._share(index)
                )
                for index, member_id in enumerate(self.roster)
            ),
        )

    def _share(self, index: int) -> bytes:
        share = consumer_protocol.TopicPartition(topic=self.topic, partitions=(index,))
        assignment = consumer_protocol.ConsumerProtocolAssignment(assigned_partitions=(share,))
        return encode_versioned(assignment, _LAYOUT)


def gather(members: list[Member]) -> None:
    """Bring all members into one generation; the first of them leads."""
    first, *others = members
    first.find_coordinator()
    for member in members:
        member.be_named()
    first.tell_join()
    first.hear_join()
    for member in others:
        member.tell_join()
    first.tell_join()
    for member in members:
        member.hear_join()
    for member in members[::-1]:
        member.tell_sync()
    for member in members:
        member.hear_sync()


def commit_request(group: str, topic: str, partition_count: int, offset: int) -> bytes:
    """A commit from outside of the group, of the first so many partitions."""
    return framed(_commit(group, topic, partition_count, offset), COMMIT_VERSION)


def commit(member: Member, partition_count: int, offset: int) -> int:
    """Commit once and look at the answer; how many bytes it has."""
    request = _commit(member.group, member.topic, partition_count, offset)
    member.tell(request, COMMIT_VERSION)
    (size_bytes,) = SIZE.unpack(exactly(member.connection, SIZE.size))
    frame = exactly(member.connection, size_bytes)
    answer = decode_response(api(ApiKey.OFFSET_COMMIT), COMMIT_VERSION, frame)[1]
    for partition in answer.topics[0].partitions:
        _check("OffsetCommit", partition.error_code)
    return int(SIZE.size + size_bytes)


def committed(member: Member, partition: int) -> int | None:
    """The offset of a group; None while its coordinator is loading."""
    asked = offset_fetch.OffsetFetchRequestTopic(name=member.topic, partition_indexes=(partition,))
    request = offset_fetch.OffsetFetchRequest(group_id=member.group, topics=(asked,))
    answer = member.ask(request, OFFSETS_VERSION)
    if answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return None
    _check("OffsetFetch", answer.error_code)
    offset: int = answer.topics[0].partitions[0].committed_offset
    return offset


def group_count(member: Member) -> int | None:
    """How many groups there are; None while any coordinator is loading."""
    answer = member.ask(list_groups.ListGroupsRequest(), LIST_VERSION)
    if answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return None
    _check("ListGroups", answer.error_code)
    return len(answer.groups)


def _commit(
    group: str, topic: str, partition_count: int, offset: int
) -> offset_commit.OffsetCommitRequest:
    partitions = tuple(
        offset_commit.OffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_metadata=""
        )
        for index in range(partition_count)
    )
    return offset_commit.OffsetCommitRequest(
        group_id=group,
        member_id="",
        topics=(offset_commit.OffsetCommitRequestTopic(name=topic, partitions=partitions),),
    )


def _check(what: str, error: int) -> None:
    if error:
        raise WrongAnswerError(f"{what} was answered {ErrorCode(error).name}")
