"""What members of a classic group can do while a broker holds their join, or says nothing."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ottla.client.consumer.membership import Presence
from ottla.client.records import OffsetAndMetadata
from ottla.errors import DeadlineError, ErrorCode
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.registry import ApiKey
from tests.client.consumer_world import TOPIC, Library, SimulatedConsumer, play, tp
from tests.client.scripted import HOLD

SOON_S = 5
ADA = "ada"


class Circle(Library):
    """Coordinates a group with one member, too; the second join is held for ever."""

    def __init__(self) -> None:
        super().__init__(1)
        self.handlers |= {
            ApiKey.JOIN_GROUP: self.join,
            ApiKey.SYNC_GROUP: self.sync,
            ApiKey.HEARTBEAT: self.heartbeat,
            ApiKey.LEAVE_GROUP: lambda request, version: LeaveGroupResponse(members=()),
            ApiKey.OFFSET_FETCH: self.committed,
            ApiKey.OFFSET_COMMIT: self.commit,
        }

    def join(self, request: JoinGroupRequest, version: int) -> Any:
        if self.count(JoinGroupRequest) > 1:
            return HOLD
        protocol = request.protocols[0]
        return JoinGroupResponse(
            generation_id=1,
            protocol_type="consumer",
            protocol_name=protocol.name,
            leader=ADA,
            member_id=ADA,
            members=(JoinGroupResponseMember(member_id=ADA, metadata=bytes(protocol.metadata)),),
        )

    def sync(self, request: SyncGroupRequest, version: int) -> Any:
        return SyncGroupResponse(assignment=bytes(request.assignments[0].assignment))

    def heartbeat(self, request: HeartbeatRequest, version: int) -> Any:
        """The group is shared out anew."""
        return HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)

    def committed(self, request: OffsetFetchRequest, version: int) -> Any:
        """Nothing."""
        told = OffsetFetchResponseGroup(group_id=request.groups[0].group_id, topics=())
        return OffsetFetchResponse(groups=(told,))

    def commit(self, request: OffsetCommitRequest, version: int) -> Any:
        part = OffsetCommitResponsePartition(partition_index=0)
        return OffsetCommitResponse(
            topics=(OffsetCommitResponseTopic(name=TOPIC, partitions=(part,)),)
        )


async def join_again(consumer: SimulatedConsumer, circle: Circle) -> None:
    """Poll until the second join is on its way, and held."""
    await consumer.subscribe(TOPIC)
    while circle.count(JoinGroupRequest) < 2:
        await consumer.poll(1)


def now_s() -> float:
    return asyncio.get_running_loop().time()


COOPERATIVE: dict[str, Any] = {
    "group_id": "readers",
    "group_protocol": "classic",
    "assignors": ["cooperative-sticky"],
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
}


def test_a_cooperative_member_commits_while_its_join_is_held() -> None:
    circle = Circle()

    async def story(consumer: SimulatedConsumer) -> float:
        await join_again(consumer, circle)
        start_s = now_s()
        await consumer.commit({tp(0): OffsetAndMetadata(2)})
        return now_s() - start_s

    assert play(story, circle, **COOPERATIVE) < SOON_S
    assert circle.count(OffsetCommitRequest) == 1


def test_a_member_says_goodbye_while_its_join_is_held() -> None:
    circle = Circle()

    async def story(consumer: SimulatedConsumer) -> float:
        await join_again(consumer, circle)
        start_s = now_s()
        await consumer.aclose()
        return now_s() - start_s

    assert play(story, circle, **COOPERATIVE) < SOON_S
    assert circle.count(LeaveGroupRequest) == 1


def test_closing_takes_no_longer_than_it_may() -> None:
    circle = Circle()
    for key in (ApiKey.OFFSET_COMMIT, ApiKey.LEAVE_GROUP):
        circle.handlers[key] = lambda request, version: HOLD

    async def story(consumer: SimulatedConsumer) -> float:
        await consumer.subscribe(TOPIC)
        while not await consumer.poll(1):
            pass
        await consumer.poll(0)  # what came before is processed
        start_s = now_s()
        with pytest.raises(DeadlineError, match="commit"):
            await consumer.aclose(SOON_S)
        return now_s() - start_s

    took_s = play(story, circle, **COOPERATIVE | {"enable_auto_commit": True})
    assert SOON_S <= took_s < SOON_S + 1


class WatchedPresence(Presence):
    """Somebody looks at it whenever a part of it has changed, as another thread may."""

    def __init__(self, now_ms: Callable[[], int], interval_ms: int) -> None:
        self.__dict__.update(now_ms=now_ms, interval_ms=interval_ms, seen_late=[])
        super().__init__()

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if "is_polling" in self.__dict__:  # the last part
            found = self.__dict__
            found["seen_late"].append(self.is_late(found["now_ms"](), found["interval_ms"]))


def test_who_waited_for_records_longer_than_he_may_stay_away_was_never_away() -> None:
    async def story(consumer: SimulatedConsumer) -> list[bool]:
        await consumer.assign([tp(0)])
        core = consumer._reading.core
        core.presence = presence = WatchedPresence(core.engine.now_ms, SOON_S * 1000)
        await consumer.poll(SOON_S)
        assert not await consumer.poll(3 * SOON_S)
        looks: list[bool] = presence.__dict__["seen_late"]
        return looks

    looks = play(story, Library(1), auto_offset_reset="earliest")
    assert len(looks) > 3
    assert not any(looks)
