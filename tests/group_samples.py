"""A group coordinator on a desk: a shell without disk or loop, and members that talk to it.

`Desk` performs effects as the broker does, keeps the log it was given, and checks on the way what
must always hold: every ticket is answered once, and every answer can be encoded in its version.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ottla.coordinator.caller import Caller
from ottla.coordinator.config import GroupConfig
from ottla.coordinator.effects import (
    Alarm,
    AlarmName,
    Answer,
    Effect,
    Persist,
    StoredRecord,
    WriteMarkers,
)
from ottla.coordinator.group.classic import ClassicGroup
from ottla.coordinator.group.consumer.topics import Topics
from ottla.coordinator.group.machine import GroupCoordinator
from ottla.wire.codec import encode
from ottla.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, GroupStory
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.wire.stored.consumer_protocol import ConsumerProtocolSubscription
from ottla.wire.stored.versioned import encode_versioned

GROUP = "orders-app"
TOPIC = "orders"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
START_MS = 1_700_000_000_000


def subscription(*topics: str) -> bytes:
    return encode_versioned(ConsumerProtocolSubscription(topics=topics or (TOPIC,)), 3)


def protocols(*names: str, topics: Sequence[str] = ()) -> tuple[JoinGroupRequestProtocol, ...]:
    return tuple(
        JoinGroupRequestProtocol(name=name, metadata=subscription(*topics))
        for name in names or ("range",)
    )


class Desk:
    """One coordinator, its log, its alarms, and the time."""

    def __init__(self, **settings: Any) -> None:
        self.config = GroupConfig(**settings)
        self.random = random.Random(1)
        self.topics = Topics()
        self.now_ms = START_MS
        self.log: list[StoredRecord] = []
        self.answers: dict[int, Any] = {}
        self.versions: dict[int, int] = {}
        self.effects: list[Effect] = []  # those of the last question
        self.machine = self.started()

    def started(self) -> GroupCoordinator:
        """A coordinator that has read the log, with none of what the old one kept in mind."""
        self.alarms: dict[AlarmName, int] = {}
        self.lost = [ticket for ticket in self.versions if ticket not in self.answers]
        self.machine = replayed(self.log, self.config, self.random, self.topics)
        self.perform(self.machine.on_loaded(self.now_ms))
        return self.machine

    def group(self, group_id: str = GROUP) -> ClassicGroup:
        return self.machine._groups[group_id]

    def ask(self, verb: str, request: Any, version: int, client_id: str = "c") -> int:
        """Ask the machine, and return the ticket; the answer may come later."""
        ticket = len(self.versions) + 1
        self.versions[ticket] = version
        caller = Caller(client_id, "/10.0.0.1", version)
        self.perform(getattr(self.machine, verb)(request, caller, ticket, self.now_ms))
        return ticket

    def perform(self, effects: list[Effect]) -> None:
        self.effects = effects
        for effect in effects:
            match effect:
                case Persist(records):
                    assert records, "nothing to persist"
                    for record in records:
                        self.log.append(StoredRecord(record.key, record.value))  # as on disk
                        self.machine.apply(record)
                case Answer(ticket, response):
                    assert ticket not in self.answers, f"ticket {ticket} was answered twice"
                    assert ticket not in self.lost, f"ticket {ticket} is of an earlier start"
                    encode(response, self.versions[ticket])
                    self.answers[ticket] = response
                case Alarm(name, at_ms):
                    self.alarms.pop(name, None)
                    if at_ms is not None:
                        assert at_ms >= self.now_ms, f"{name} is in the past"
                        self.alarms[name] = at_ms
                case WriteMarkers():
                    raise AssertionError("a group ends no transactions")

    def pass_time(self, duration_ms: int) -> None:
        """Let time pass, and the alarms ring that are due meanwhile, in their order."""
        end_ms = self.now_ms + duration_ms
        for _ in range(100_000):
            due = min(self.alarms.items(), key=lambda alarm: (alarm[1], alarm[0]), default=None)
            if due is None or due[1] > end_ms:
                break
            name, at_ms = due
            del self.alarms[name]
            self.now_ms = max(self.now_ms, at_ms)
            self.perform(self.machine.on_alarm(name, self.now_ms))
        else:
            raise AssertionError("alarms ring without end")
        self.now_ms = end_ms

    def set_clock(self, by_ms: int) -> None:
        """Alarms still ring when so much time has passed as they were set for."""
        self.now_ms += by_ms
        self.alarms = {name: at_ms + by_ms for name, at_ms in self.alarms.items()}
        self.machine.on_clock_set(by_ms)

    def restart(self) -> None:
        self.started()

    def join(
        self,
        member_id: str = "",
        *,
        group_id: str = GROUP,
        instance_id: str | None = None,
        version: int = 9,
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        protocol_type: str = "consumer",
        spoken: tuple[JoinGroupRequestProtocol, ...] | None = None,
        reason: str | None = None,
        client_id: str = "c",
    ) -> int:
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=protocols() if spoken is None else spoken,
            reason=reason,
        )
        return self.ask("join", request, version, client_id)

    def enter(self, **keywords: Any) -> tuple[str, int]:
        """Both steps of a dynamic member's first join: its id, and the ticket of the second."""
        answer = self.answers[self.join(**keywords)]
        keywords.pop("client_id", None)
        return answer.member_id, self.join(answer.member_id, **keywords)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes] | None = None,
        *,
        version: int = 5,
        instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        group_id: str = GROUP,
    ) -> int:
        request = SyncGroupRequest(
            group_id=group_id,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=tuple(
                SyncGroupRequestAssignment(member_id=m, assignment=a)
                for m, a in (assignments or {}).items()
            ),
        )
        return self.ask("sync", request, version)

    def heartbeat(
        self,
        member_id: str,
        generation: int,
        *,
        instance_id: str | None = None,
        group_id: str = GROUP,
    ) -> int:
        request = HeartbeatRequest(
            group_id=group_id,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
        )
        code: int = self.answers[self.ask("heartbeat", request, 4)].error_code
        return code

    def leave(self, *leavers: MemberIdentity | str, group_id: str = GROUP) -> LeaveGroupResponse:
        members = tuple(MemberIdentity(member_id=m) if isinstance(m, str) else m for m in leavers)
        request = LeaveGroupRequest(group_id=group_id, members=members)
        response: LeaveGroupResponse = self.answers[self.ask("leave", request, 5)]
        return response

    def commit(
        self,
        offset: int = 1,
        *,
        member_id: str = "",
        generation: int = -1,
        instance_id: str | None = None,
        topic: str = TOPIC,
        partition: int = 0,
        metadata: str | None = None,
        version: int = 9,
        retention_ms: int = -1,
        group_id: str = GROUP,
    ) -> int:
        """Commit one offset, and return its error code."""
        committed = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=metadata
        )
        request = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            retention_time_ms=retention_ms,
            topics=(OffsetCommitRequestTopic(name=topic, partitions=(committed,)),),
        )
        answer = self.answers[self.ask("commit", request, version)]
        code: int = answer.topics[0].partitions[0].error_code
        return code

    def fetch(
        self,
        topic: str = TOPIC,
        partition: int = 0,
        *,
        group_id: str = GROUP,
        require_stable: bool = False,
    ) -> Any:
        """What is known of one offset, as v9 tells it."""
        group = OffsetFetchRequestGroup(
            group_id=group_id,
            topics=(OffsetFetchRequestTopics(name=topic, partition_indexes=(partition,)),),
        )
        request = OffsetFetchRequest(groups=(group,), require_stable=require_stable)
        return self.answers[self.ask("fetch", request, 9)].groups[0].topics[0].partitions[0]

    def delete_offset(self, topic: str = TOPIC, group_id: str = GROUP) -> OffsetDeleteResponse:
        partitions = (OffsetDeleteRequestPartition(partition_index=0),)
        topics = (OffsetDeleteRequestTopic(name=topic, partitions=partitions),)
        request = OffsetDeleteRequest(group_id=group_id, topics=topics)
        response: OffsetDeleteResponse = self.answers[self.ask("offset_delete", request, 0)]
        return response

    def describe(self, group_id: str = GROUP, version: int = 6) -> DescribedGroup:
        request = DescribeGroupsRequest(groups=(group_id,))
        group: DescribedGroup = self.answers[self.ask("describe", request, version)].groups[0]
        return group

    def story(self, group_id: str = GROUP) -> GroupStory:
        request = DescribeGroupsRequest(groups=(group_id,), include_story=True)
        story: GroupStory | None = self.answers[self.ask("describe", request, 6)].groups[0].story
        assert story is not None, f"{group_id} has no story"
        return story

    def listed(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[str]:
        request = ListGroupsRequest(states_filter=tuple(states), types_filter=tuple(types))
        return [g.group_id for g in self.answers[self.ask("list_groups", request, 5)].groups]

    def delete_groups(self, *group_ids: str) -> list[int]:
        request = DeleteGroupsRequest(groups_names=group_ids)
        response: DeleteGroupsResponse = self.answers[self.ask("delete_groups", request, 3)]
        return [result.error_code for result in response.results]


def replayed(
    log: Iterable[StoredRecord],
    config: GroupConfig,
    entropy: random.Random,
    topics: Topics | None = None,
) -> GroupCoordinator:
    """A fresh coordinator that has read `log`."""
    machine = GroupCoordinator(config, entropy.randbytes, topics=topics)
    for record in log:
        machine.apply(record)
    return machine


def in_state(name: str, **settings: Any) -> tuple[Desk, str]:
    """A group in the state of that name, and the id of a member (or of nobody)."""
    desk = Desk(**settings)
    if name == "Dead":
        return desk, "nobody"
    member_id, ticket = desk.enter()
    assert desk.answers[ticket].generation_id == 1
    if name == "CompletingRebalance":
        return desk, member_id
    desk.sync(member_id, 1, {member_id: b"all"})
    if name == "Stable":
        return desk, member_id
    if name == "PreparingRebalance":
        desk.enter()
        return desk, member_id
    assert name == "Empty"
    desk.leave(member_id)
    return desk, member_id


def pair(**keywords: Any) -> tuple[Desk, str, str]:
    """Two members in stable generation 2; the first one leads."""
    desk = Desk(**keywords)
    ada, _ = desk.enter(client_id="ada")
    desk.sync(ada, 1, {ada: b"all"})
    bob, _ = desk.enter(client_id="bob")
    desk.join(ada)
    desk.sync(bob, 2)
    desk.sync(ada, 2, {ada: b"p0", bob: b"p1"})
    assert desk.describe().group_state == "Stable"
    return desk, ada, bob
