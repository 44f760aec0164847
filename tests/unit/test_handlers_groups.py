"""The handlers around groups, at every version they serve: answers, refusals, and their shapes."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from ottla.coordinator.group.machine import GroupCoordinator
from ottla.errors import ErrorCode
from ottla.model import CONSUMER_OFFSETS_TOPIC
from ottla.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.join_group import JoinGroupRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests import broker_office
from tests.broker_fixture import LittleBroker, each_version
from tests.broker_office import Office
from tests.group_samples import GROUP, TOPIC, protocols

LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
TOPIC_ID = LittleBroker().create(TOPIC).topic_id  # entropy is seeded: the same in every office
NO_TOPIC_ID = b"no such topic id"


def play(scenario: Callable[[Office], Awaitable[None]]) -> None:
    """Play it in an office with a topic whose offsets can be committed."""

    async def with_topic(office: Office) -> None:
        office.broker.create(TOPIC)
        await scenario(office)

    broker_office.play(with_topic)


def join(member_id: str = "") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=protocols(),
    )


def sync(member_id: str, generation: int) -> SyncGroupRequest:
    mine = SyncGroupRequestAssignment(member_id=member_id, assignment=b"all")
    return SyncGroupRequest(
        group_id=GROUP, generation_id=generation, member_id=member_id, assignments=(mine,)
    )


async def member_of(office: Office) -> str:
    """The id of the only member of a stable group."""
    named = await office.ask(join(), 9)
    assert named.error_code == ErrorCode.MEMBER_ID_REQUIRED
    await office.ask(join(named.member_id), 9)
    await office.ask(sync(named.member_id, 1), 5)
    member_id: str = named.member_id
    return member_id


def heartbeat(member_id: str) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=member_id)


def leave(member_id: str, version: int) -> LeaveGroupRequest:
    """Of one member up to v2, of several since."""
    if version < 3:
        return LeaveGroupRequest(group_id=GROUP, member_id=member_id)
    return LeaveGroupRequest(group_id=GROUP, members=(MemberIdentity(member_id=member_id),))


def commit(offset: int, group: str = GROUP) -> OffsetCommitRequest:
    committed = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata="note"
    )
    topic = OffsetCommitRequestTopic(name=TOPIC, topic_id=TOPIC_ID, partitions=(committed,))
    return OffsetCommitRequest(group_id=group, member_id="", topics=(topic,))


def fetch(*groups: str, version: int = 9) -> OffsetFetchRequest:
    """For one group up to v7, for all of them since."""
    if version < 8:
        topics = (OffsetFetchRequestTopic(name=TOPIC, partition_indexes=(0,)),)
        return OffsetFetchRequest(group_id=groups[0], topics=topics)
    wanted = (OffsetFetchRequestTopics(name=TOPIC, topic_id=TOPIC_ID, partition_indexes=(0,)),)
    return OffsetFetchRequest(
        groups=tuple(OffsetFetchRequestGroup(group_id=group, topics=wanted) for group in groups)
    )


def find(*keys: str, version: int, key_type: int = 0) -> FindCoordinatorRequest:
    """For one key up to v3, for all of them since."""
    if version < 4:
        return FindCoordinatorRequest(key=keys[0], key_type=key_type)
    return FindCoordinatorRequest(coordinator_keys=keys, key_type=key_type)


def delete_offset() -> OffsetDeleteRequest:
    partition = OffsetDeleteRequestPartition(partition_index=0)
    topic = OffsetDeleteRequestTopic(name=TOPIC, partitions=(partition,))
    return OffsetDeleteRequest(group_id=GROUP, topics=(topic,))


def fetched(answer: Any, version: int) -> list[tuple[int, int, str | None]]:
    """Error, offset and metadata of each partition that was answered."""
    topics = [t for g in answer.groups for t in g.topics] if version >= 8 else answer.topics
    return [
        (p.error_code, p.committed_offset, p.metadata) for topic in topics for p in topic.partitions
    ]


@each_version(FindCoordinatorRequest)
def test_the_coordinator_of_a_group_is_found_and_its_topic_created(version: int) -> None:
    async def scenario(office: Office) -> None:
        answer = await office.ask(find(GROUP, "", version=version), version)
        topic = office.broker.controller.image.topics[CONSUMER_OFFSETS_TOPIC]
        assert len(topic.partitions) == 3
        if version < 4:
            assert (answer.error_code, answer.node_id, answer.port) == (0, 1, 9092)
            return
        found, nameless = answer.coordinators
        assert (found.key, found.error_code, found.node_id) == (GROUP, 0, 1)
        assert (nameless.error_code, nameless.node_id) == (ErrorCode.INVALID_GROUP_ID, -1)

    play(scenario)


@each_version(FindCoordinatorRequest, low=1)
@pytest.mark.parametrize(
    ("key_type", "error"),
    [
        (2, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (3, ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_nobody_coordinates_has_no_coordinator(
    version: int, key_type: int, error: ErrorCode
) -> None:
    async def scenario(office: Office) -> None:
        answer = await office.ask(find("x", version=version, key_type=key_type), version)
        (found,) = answer.coordinators if version >= 4 else (answer,)
        assert (found.error_code, found.node_id, found.port) == (error, -1, -1)
        assert CONSUMER_OFFSETS_TOPIC not in office.broker.controller.image.topics

    play(scenario)


@each_version(JoinGroupRequest)
def test_a_first_join_is_answered_with_a_generation_or_an_id(version: int) -> None:
    async def scenario(office: Office) -> None:
        answer = await office.ask(join(), version)
        if version >= 4:
            assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
            answer = await office.ask(join(answer.member_id), version)
        assert (answer.error_code, answer.generation_id) == (ErrorCode.NONE, 1)
        assert answer.leader == answer.member_id
        assert [member.member_id for member in answer.members] == [answer.member_id]
        assert answer.protocol_name == "range"

    play(scenario)


@each_version(SyncGroupRequest)
def test_a_leader_gets_the_assignment_it_brought(version: int) -> None:
    async def scenario(office: Office) -> None:
        named = await office.ask(join(), 9)
        await office.ask(join(named.member_id), 9)
        request = sync(named.member_id, 1)
        answer = await office.ask(request, version)
        assert (answer.error_code, answer.assignment) == (ErrorCode.NONE, b"all")

    play(scenario)


@each_version(HeartbeatRequest)
def test_a_heartbeat_of_a_member_is_heard(version: int) -> None:
    async def scenario(office: Office) -> None:
        member_id = await member_of(office)
        assert (await office.ask(heartbeat(member_id), version)).error_code == ErrorCode.NONE
        stranger = await office.ask(heartbeat("stranger"), version)
        assert stranger.error_code == ErrorCode.UNKNOWN_MEMBER_ID

    play(scenario)


@each_version(LeaveGroupRequest)
def test_a_member_leaves_once(version: int) -> None:
    async def scenario(office: Office) -> None:
        member_id = await member_of(office)
        errors = []
        for _ in range(2):
            answer = await office.ask(leave(member_id, version), version)
            source = answer.members[0] if version >= 3 else answer
            errors.append(source.error_code)
        assert errors == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]

    play(scenario)


@each_version(OffsetCommitRequest)
def test_an_offset_is_committed(version: int) -> None:
    async def scenario(office: Office) -> None:
        answer = await office.ask(commit(42), version)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
        assert fetched(await office.ask(fetch(GROUP), 9), 9) == [(ErrorCode.NONE, 42, "note")]

    play(scenario)


@each_version(OffsetCommitRequest)
def test_offsets_of_what_does_not_exist_are_refused_and_the_others_committed(version: int) -> None:
    async def scenario(office: Office) -> None:
        topics = tuple(
            OffsetCommitRequestTopic(
                name=name, topic_id=topic_id, partitions=tuple(map(place, (1, 0, -1)))
            )
            for name, topic_id in (("nowhere", NO_TOPIC_ID), (TOPIC, TOPIC_ID))
        )
        request = OffsetCommitRequest(group_id=GROUP, member_id="", topics=topics)

        answer = await office.ask(request, version)

        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        nowhere = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else unknown
        told = [[(p.partition_index, p.error_code) for p in t.partitions] for t in answer.topics]
        assert told == [
            [(1, nowhere), (0, nowhere), (-1, nowhere)],
            [(1, unknown), (0, ErrorCode.NONE), (-1, unknown)],
        ]
        assert fetched(await office.ask(fetch(GROUP), 9), 9) == [(ErrorCode.NONE, 7, "note")]

    def place(index: int) -> OffsetCommitRequestPartition:
        return OffsetCommitRequestPartition(
            partition_index=index, committed_offset=7, committed_metadata="note"
        )

    play(scenario)


@each_version(OffsetFetchRequest)
def test_offsets_are_fetched_group_by_group(version: int) -> None:
    async def scenario(office: Office) -> None:
        await office.ask(commit(42), 9)
        await office.ask(commit(7, "another"), 9)
        answer = await office.ask(fetch(GROUP, "another", "nobody", version=version), version)
        known, other, none = (0, 42, "note"), (0, 7, "note"), (0, -1, "")
        assert fetched(answer, version) == ([known, other, none] if version >= 8 else [known])

    play(scenario)


def test_an_offset_is_deleted() -> None:
    async def scenario(office: Office) -> None:
        await office.ask(commit(42), 9)
        answer = await office.ask(delete_offset(), 0)
        assert (answer.error_code, answer.topics[0].partitions[0].error_code) == (0, 0)
        assert fetched(await office.ask(fetch(GROUP), 9), 9) == [(ErrorCode.NONE, -1, "")]
        again = await office.ask(delete_offset(), 0)
        assert again.error_code == ErrorCode.GROUP_ID_NOT_FOUND

    play(scenario)


@each_version(DescribeGroupsRequest)
def test_groups_are_described_each_once(version: int) -> None:
    async def scenario(office: Office) -> None:
        member_id = await member_of(office)
        request = DescribeGroupsRequest(
            groups=(GROUP, "nobody", GROUP), include_authorized_operations=version >= 3
        )
        found, missing = (await office.ask(request, version)).groups
        (member,) = found.members
        assert (found.group_state, found.protocol_data) == ("Stable", "range")
        assert (member.member_id, member.client_id) == (member_id, "ada")
        assert (member.client_host, member.member_assignment) == ("/10.0.0.1", b"all")
        assert missing.group_state == "Dead"
        assert (missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND) == (version >= 6)
        if version >= 3:
            assert found.authorized_operations & 1 << 3, "READ"

    play(scenario)


@each_version(DescribeGroupsRequest)
def test_a_story_is_told_to_those_who_ask_in_a_version_that_can_carry_it(version: int) -> None:
    async def scenario(office: Office) -> None:
        await member_of(office)
        asked, unasked = (
            DescribeGroupsRequest(groups=(GROUP,), include_story=wish) for wish in (True, False)
        )
        (told,) = (await office.ask(asked, version)).groups
        (silent,) = (await office.ask(unasked, version)).groups
        assert silent.story is None
        assert (told.story is not None) == (version >= 5)
        if told.story is not None:
            assert [rebalance.client_id for rebalance in told.story.rebalances] == ["ada"]

    play(scenario)


@each_version(ListGroupsRequest)
def test_groups_of_all_partitions_are_listed(version: int) -> None:
    async def scenario(office: Office) -> None:
        assert (await office.ask(ListGroupsRequest(), version)).groups == ()
        names = [f"group {number}" for number in range(10)]
        for name in names:
            await office.ask(commit(1, name), 9)
        assert len([shard for shard in office.shards() if shard.machine._groups]) == 3
        answer = await office.ask(ListGroupsRequest(), version)
        assert sorted(group.group_id for group in answer.groups) == names
        if version >= 4:
            assert {group.group_state for group in answer.groups} == {"Empty"}

    play(scenario)


@each_version(DeleteGroupsRequest)
def test_groups_without_members_are_deleted_each_once(version: int) -> None:
    async def scenario(office: Office) -> None:
        await member_of(office)
        await office.ask(commit(1, "empty"), 9)
        request = DeleteGroupsRequest(groups_names=("empty", GROUP, "nobody", "empty"))
        answer = await office.ask(request, version)
        assert [(result.group_id, result.error_code) for result in answer.results] == [
            ("empty", ErrorCode.NONE),
            (GROUP, ErrorCode.NON_EMPTY_GROUP),
            ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
        ]

    play(scenario)


@each_version(InitProducerIdRequest)
def test_every_producer_gets_an_id_of_its_own(version: int) -> None:
    async def scenario(office: Office) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
        first, second = [await office.ask(request, version) for _ in range(2)]
        assert (first.error_code, first.producer_epoch) == (ErrorCode.NONE, 0)
        assert second.producer_id == first.producer_id + 1

    play(scenario)


REQUESTS: dict[str, Callable[[int], Any]] = {
    "JoinGroup": lambda _: join("a"),
    "SyncGroup": lambda _: sync("a", 1),
    "Heartbeat": lambda _: heartbeat("a"),
    "LeaveGroup": lambda version: leave("a", version),
    "OffsetCommit": lambda _: commit(1),
    "OffsetFetch": lambda version: fetch(GROUP, version=version),
    "OffsetDelete": lambda _: delete_offset(),
    "DescribeGroups": lambda _: DescribeGroupsRequest(groups=(GROUP,)),
    "ListGroups": lambda _: ListGroupsRequest(),
    "DeleteGroups": lambda _: DeleteGroupsRequest(groups_names=(GROUP,)),
}


def errors_in(answer: Any, version: int) -> set[int]:
    """The error codes of an answer, wherever this one has them."""
    match answer:
        case OffsetFetchResponse() if version >= 8:
            places: Sequence[Any] = answer.groups
        case OffsetCommitResponse():
            places = [place for topic in answer.topics for place in topic.partitions]
        case OffsetFetchResponse() if version < 2:
            places = [place for topic in answer.topics for place in topic.partitions]
        case DescribeGroupsResponse():
            places = answer.groups
        case DeleteGroupsResponse():
            places = answer.results
        case _:
            places = (answer,)
    return {place.error_code for place in places}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_coordinator_that_loads_says_so_in_every_version(name: str) -> None:
    async def scenario(office: Office) -> None:
        await office.stop_loading()
        (route,) = [r for r in office.broker.node.routes.values() if r.api.name == name]
        for version in route.versions:
            answer = await office.ask(REQUESTS[name](version), version)
            assert errors_in(answer, version) == {LOADING}, version

    play(scenario)


def test_the_topic_is_created_once_for_all_who_ask_at_the_same_time() -> None:
    async def scenario(office: Office) -> None:
        asked = [asyncio.create_task(office.ask(commit(n, f"g{n}"), 9)) for n in range(5)]
        answers = await asyncio.gather(*asked)
        assert {a.topics[0].partitions[0].error_code for a in answers} == {ErrorCode.NONE}

    play(scenario)


def test_the_creation_goes_on_when_the_first_to_ask_is_gone() -> None:
    async def scenario(office: Office) -> None:
        gone = asyncio.create_task(office.ask(commit(1), 9))
        await asyncio.sleep(0)
        stayed = asyncio.create_task(office.ask(commit(2), 9))
        await asyncio.sleep(0)
        gone.cancel()
        answer = await stayed
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE

    play(scenario)


def test_a_topic_deleted_while_its_offsets_load_is_forgotten_then() -> None:
    async def scenario(office: Office) -> None:
        await office.ask(commit(42), 9)
        await office.stop_loading()
        office.groups.on_topic_deleted(TOPIC)
        for shard in office.shards():
            shard.machine = shard._machine = GroupCoordinator(
                office.broker.node.config.groups, office.broker.node.ports.entropy.random_bytes
            )
            await shard.load()
        assert fetched(await office.ask(fetch(GROUP), 9), 9) == [(ErrorCode.NONE, -1, "")]

    play(scenario)


def test_a_coordinator_that_was_given_up_is_loaded_again() -> None:
    async def scenario(office: Office) -> None:
        await office.ask(commit(42), 9)
        office.groups.on_topic_deleted(CONSUMER_OFFSETS_TOPIC)
        first = await office.ask(fetch(GROUP), 9)
        assert errors_in(first, 9) == {LOADING}
        for _ in range(20):
            await asyncio.sleep(0)
        assert fetched(await office.ask(fetch(GROUP), 9), 9) == [(ErrorCode.NONE, 42, "note")]

    play(scenario)
