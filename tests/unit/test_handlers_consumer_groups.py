"""The handlers around consumer groups, at every version they serve: answers, refusals, shapes."""

from typing import Any

from ottla.errors import ErrorCode
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.wire.schema import replace
from tests.broker_fixture import each_version
from tests.broker_office import Office, play
from tests.group_samples import GROUP, TOPIC

NO_SUCH_TOPIC = b"no such topic id"


def join(member_id: str = "ada") -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=member_id,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=(TOPIC,),
        topic_partitions=(),
    )


def describe(*group_ids: str, operations: bool = False) -> ConsumerGroupDescribeRequest:
    return ConsumerGroupDescribeRequest(
        group_ids=group_ids or (GROUP,), include_authorized_operations=operations
    )


def commit(*topics: tuple[str, bytes], epoch: int = 1) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=7, committed_metadata="note"
    )
    return OffsetCommitRequest(
        group_id=GROUP,
        member_id="ada",
        generation_id_or_member_epoch=epoch,
        topics=tuple(
            OffsetCommitRequestTopic(name=name, topic_id=i, partitions=(partition,))
            for name, i in topics
        ),
    )


def fetch(*topic_ids: bytes) -> OffsetFetchRequest:
    topics = tuple(OffsetFetchRequestTopics(topic_id=i, partition_indexes=(0,)) for i in topic_ids)
    group = OffsetFetchRequestGroup(
        group_id=GROUP, member_id="ada", member_epoch=1, topics=topics or None
    )
    return OffsetFetchRequest(groups=(group,))


def id_of_topic(office: Office) -> bytes:
    return office.broker.node.controller.image.topics[TOPIC].topic_id


@each_version(ConsumerGroupHeartbeatRequest)
def test_a_member_joins_and_is_given_everything(version: int) -> None:
    async def scenario(office: Office) -> None:
        office.broker.create(TOPIC, partition_count=3)

        answer = await office.ask(join(), version)

        assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "ada", 1)
        (given,) = answer.assignment.topic_partitions
        assert (given.topic_id, given.partitions) == (id_of_topic(office), (0, 1, 2))

    play(scenario)


@each_version(ConsumerGroupDescribeRequest)
def test_groups_are_described_one_by_one(version: int) -> None:
    async def scenario(office: Office) -> None:
        office.broker.create(TOPIC, partition_count=1)
        await office.ask(join(), 1)

        answer = await office.ask(describe(GROUP, "nobody", operations=True), version)

        group, nobody = answer.groups
        assert (group.group_state, len(group.members)) == ("Stable", 1)
        assert group.authorized_operations > 0
        assert nobody.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert nobody.authorized_operations == -(2**31)

    play(scenario)


@each_version(ConsumerGroupDescribeRequest)
def test_a_story_is_told_to_those_who_ask_for_it(version: int) -> None:
    async def scenario(office: Office) -> None:
        office.broker.create(TOPIC, partition_count=1)
        await office.ask(join(), 1)

        silent = await office.ask(describe(), version)
        told = await office.ask(replace(describe(), include_story=True), version)

        assert silent.groups[0].story is None
        assert [r.reason for r in told.groups[0].story.rebalances] == ["it joined"]

    play(scenario)


def test_while_its_coordinator_loads_a_group_is_refused() -> None:
    async def scenario(office: Office) -> None:
        await office.stop_loading()

        beat = await office.ask(join(), 1)
        told = await office.ask(describe(), 1)

        loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert (beat.error_code, told.groups[0].error_code) == (loading, loading)

    play(scenario)


def test_a_broker_may_serve_classic_groups_alone() -> None:
    async def scenario(office: Office) -> None:
        codes = [
            (await office.ask(join(), 1)).error_code,
            (await office.ask(describe(), 1)).groups[0].error_code,
        ]

        assert codes == [ErrorCode.UNSUPPORTED_VERSION] * 2

    play(scenario, {"group.coordinator.rebalance.protocols": "classic"})


def test_a_member_hears_of_new_partitions_and_of_deleted_topics() -> None:
    async def scenario(office: Office) -> None:
        stay: Any = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="ada", member_epoch=1)
        await office.ask(join(), 1)
        assert (await office.ask(stay, 1)).assignment is None

        office.broker.create(TOPIC, partition_count=2)
        office.groups.on_topics_changed()
        answer = await office.ask(stay, 1)

        assert answer.member_epoch == 2
        assert answer.assignment.topic_partitions[0].partitions == (0, 1)

    play(scenario)


def test_offsets_are_committed_and_fetched_by_topic_id() -> None:
    async def scenario(office: Office) -> None:
        office.broker.create(TOPIC, partition_count=1)
        await office.ask(join(), 1)
        topic_id = id_of_topic(office)

        committed = await office.ask(commit(("", topic_id), ("", NO_SUCH_TOPIC)), 10)
        fetched = await office.ask(fetch(topic_id, NO_SUCH_TOPIC), 10)
        fetched_all = await office.ask(fetch(), 10)

        codes = [(t.topic_id, t.partitions[0].error_code) for t in committed.topics]
        assert codes == [(topic_id, 0), (NO_SUCH_TOPIC, ErrorCode.UNKNOWN_TOPIC_ID)]
        known, unknown = fetched.groups[0].topics
        assert (known.topic_id, known.partitions[0].committed_offset) == (topic_id, 7)
        assert unknown.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
        (topic,) = fetched_all.groups[0].topics
        assert (topic.topic_id, topic.partitions[0].metadata) == (topic_id, "note")

    play(scenario)


def test_a_stale_member_is_told_so_by_topic_id_too() -> None:
    async def scenario(office: Office) -> None:
        office.broker.create(TOPIC, partition_count=1)
        await office.ask(join(), 1)

        answer = await office.ask(commit(("", id_of_topic(office)), epoch=5), 10)

        assert answer.topics[0].partitions[0].error_code == ErrorCode.STALE_MEMBER_EPOCH

    play(scenario)
