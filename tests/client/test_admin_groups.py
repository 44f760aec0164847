"""What the admin client makes of groups, with brokers that say what a test wants."""

from datetime import timedelta
from typing import Any

import pytest

from ottla.client.admin.calling import Caller
from ottla.client.admin.group_offsets import alter_group_offsets, list_group_offsets
from ottla.client.admin.groups import describe_group, describe_groups, remove_members
from ottla.client.admin.lag import PartitionLag, lag
from ottla.client.admin.transactions import (
    TransactionInfo,
    describe_transaction,
    fence_producers,
)
from ottla.client.records import OffsetAndMetadata
from ottla.errors import ConflictError, DeniedError, ErrorCode, NotFoundError, RejoinError
from ottla.model import TopicPartition
from ottla.records.builder import BatchOptions, build
from ottla.records.control import Marker, build_marker
from ottla.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
)
from ottla.wire.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from ottla.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from ottla.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.wire.messages.init_producer_id import InitProducerIdResponse
from ottla.wire.messages.leave_group import LeaveGroupResponse, MemberResponse
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.wire.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from ottla.wire.registry import ApiKey
from tests.client.admin_world import ask, in_turn
from tests.client.scripted import ScriptedBroker, topic

P0 = TopicPartition("orders", 0)


def coordinator(key: ApiKey, *answers: Any) -> ScriptedBroker:
    broker = ScriptedBroker()
    broker.handlers[key] = in_turn(*answers)
    return broker


def group_of(*members: DescribedGroupMember, code: int = 0) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(
        groups=(
            DescribedGroup(
                error_code=code,
                group_id="g",
                group_state="Stable" if members else "Empty",
                protocol_type="consumer",
                protocol_data="range",
                members=members,
            ),
        )
    )


def member(member_id: str, instance_id: str | None = None) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member_id,
        group_instance_id=instance_id,
        client_id="c",
        client_host="/h",
        member_metadata=b"",
        member_assignment=b"",
    )


def committed(name: str, *offsets: int, code: int = 0) -> OffsetFetchResponse:
    partitions = tuple(
        OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=offset, metadata="", error_code=code
        )
        for index, offset in enumerate(offsets)
    )
    topics = (OffsetFetchResponseTopics(name=name, partitions=partitions),)
    return OffsetFetchResponse(groups=(OffsetFetchResponseGroup(group_id="g", topics=topics),))


def test_what_nobody_knows_of_a_lag_is_none() -> None:
    broker = coordinator(ApiKey.DESCRIBE_GROUPS, group_of())
    broker.topics = (topic("orders", -1),)
    told = (committed("orders", 3).groups[0].topics[0], committed("gone", 4).groups[0].topics[0])
    broker.handlers[ApiKey.OFFSET_FETCH] = in_turn(
        OffsetFetchResponse(groups=(OffsetFetchResponseGroup(group_id="g", topics=told),))
    )

    found = ask(broker, work=lambda caller: lag(caller, "g"))

    assert found.total == 0
    assert found.partitions == tuple(
        PartitionLag(
            tp=TopicPartition(name, 0),
            committed=offset,
            end_offset=None,
            lag=None,
            time_lag=None,
            member_id=None,
        )
        for name, offset in (("gone", 4), ("orders", 3))
    )


def test_a_time_lag_is_the_age_of_the_first_record_that_is_not_read() -> None:
    broker = late_by_two()

    async def work(caller: Caller) -> PartitionLag:
        now_ms = caller.engine.ports.clock.now_ms()
        times_ms = (now_ms - 90_000, now_ms - 60_000, now_ms)
        broker.handlers[ApiKey.FETCH] = in_turn(fetched(*times_ms))
        (partition,) = (await lag(caller, "g")).partitions
        return partition

    found = ask(broker, work=work)

    assert (found.committed, found.lag) == (1, 2)
    assert found.time_lag is not None
    assert timedelta(seconds=60) <= found.time_lag < timedelta(seconds=61)
    (sent,) = [h.body for h in broker.heard if isinstance(h.body, FetchRequest)]
    assert sent.topics[0].partitions[0].fetch_offset == 1


def late_by_two() -> ScriptedBroker:
    """A group that has read one of three records."""
    broker = coordinator(ApiKey.DESCRIBE_GROUPS, group_of())
    broker.topics = (topic("orders", 1),)
    broker.handlers[ApiKey.OFFSET_FETCH] = in_turn(committed("orders", 1))
    end = ListOffsetsPartitionResponse(partition_index=0, offset=3)
    broker.handlers[ApiKey.LIST_OFFSETS] = in_turn(
        ListOffsetsResponse(topics=(ListOffsetsTopicResponse(name="orders", partitions=(end,)),))
    )
    return broker


def fetched(*times_ms: int, records: bytes = b"", code: int = 0) -> FetchResponse:
    """Records of these times, or just `records`."""
    if times_ms:
        records = bytes(build([(time_ms, None, b"v", ()) for time_ms in times_ms], BatchOptions()))
    data = PartitionData(
        partition_index=0,
        error_code=code,
        high_watermark=3,
        aborted_transactions=None,
        records=records,
    )
    return FetchResponse(responses=(FetchableTopicResponse(topic="orders", partitions=(data,)),))


def test_markers_of_transactions_have_no_age() -> None:
    broker = late_by_two()
    marker = Marker(
        is_commit=True, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=1
    )

    async def work(caller: Caller) -> PartitionLag:
        now_ms = caller.engine.ports.clock.now_ms()
        record = build([(now_ms - 5_000, None, b"v", ())], BatchOptions(base_offset=2))
        behind = bytes(build_marker(marker, base_offset=1)) + bytes(record)
        broker.handlers[ApiKey.FETCH] = in_turn(fetched(records=behind))
        (partition,) = (await lag(caller, "g")).partitions
        return partition

    found = ask(broker, work=work)

    assert found.time_lag is not None
    assert timedelta(seconds=5) <= found.time_lag < timedelta(seconds=6)


def test_records_that_are_gone_have_no_age() -> None:
    broker = late_by_two()
    broker.handlers[ApiKey.FETCH] = in_turn(fetched(0, code=ErrorCode.OFFSET_OUT_OF_RANGE))

    (found,) = ask(broker, work=lambda caller: lag(caller, "g")).partitions

    assert (found.lag, found.time_lag) == (2, None)


def test_offsets_that_are_not_stable_yet_are_waited_for() -> None:
    unstable = committed("orders", -1, code=ErrorCode.UNSTABLE_OFFSET_COMMIT)
    broker = coordinator(ApiKey.OFFSET_FETCH, unstable, committed("orders", 7, -1))

    found = ask(broker, work=lambda c: list_group_offsets(c, "g", require_stable=True))

    assert found == {P0: OffsetAndMetadata(7)}
    asked = [h.body for h in broker.heard if isinstance(h.body, OffsetFetchRequest)]
    assert [request.require_stable for request in asked] == [True, True]


def test_a_coordinator_that_moved_is_looked_for_again() -> None:
    broker = coordinator(
        ApiKey.DESCRIBE_GROUPS, group_of(code=ErrorCode.NOT_COORDINATOR), group_of()
    )

    results = ask(broker, work=lambda caller: describe_groups(caller, ["g"]))

    assert results["g"].state == "Empty"
    assert broker.count(DescribeGroupsRequest) == 2


def test_a_group_that_may_not_be_seen_fails_alone() -> None:
    broker = coordinator(
        ApiKey.DESCRIBE_GROUPS, group_of(code=ErrorCode.GROUP_AUTHORIZATION_FAILED), group_of()
    )

    async def work(caller: Caller) -> Any:
        first = await describe_groups(caller, ["g"])
        return first, await describe_groups(caller, ["g"])

    denied, seen = ask(broker, work=work)

    assert isinstance(denied.errors["g"], DeniedError)
    with pytest.raises(DeniedError):
        denied["g"]
    assert list(seen) == ["g"]


def test_without_consumer_groups_a_group_that_is_not_classic_is_not_there() -> None:
    """Kafka 3.9 knows the question, and answers it so unless such groups are switched on."""
    broker = coordinator(ApiKey.DESCRIBE_GROUPS, group_of(code=ErrorCode.GROUP_ID_NOT_FOUND))
    broker.handlers[ApiKey.CONSUMER_GROUP_DESCRIBE] = in_turn(
        ConsumerGroupDescribeResponse(
            groups=(
                DescribedConsumerGroup(
                    error_code=ErrorCode.UNSUPPORTED_VERSION,
                    group_id="g",
                    group_state="",
                    group_epoch=0,
                    assignment_epoch=0,
                    assignor_name="",
                    members=(),
                ),
            )
        )
    )
    with pytest.raises(NotFoundError, match="'g'"):
        ask(broker, work=lambda caller: describe_group(caller, "g"))


def test_a_commit_from_outside_is_refused_while_somebody_is_inside() -> None:
    refused = OffsetCommitResponsePartition(
        partition_index=0, error_code=ErrorCode.UNKNOWN_MEMBER_ID
    )
    answer = OffsetCommitResponse(
        topics=(OffsetCommitResponseTopic(name="orders", partitions=(refused,)),)
    )

    with pytest.raises(ConflictError, match="stop them first"):
        ask(
            coordinator(ApiKey.OFFSET_COMMIT, answer),
            work=lambda caller: alter_group_offsets(caller, "g", {P0: 1}),
        )


def test_everybody_is_removed_static_members_by_their_instance() -> None:
    broker = coordinator(ApiKey.DESCRIBE_GROUPS, group_of(member("a"), member("b", "static")))
    broker.handlers[ApiKey.LEAVE_GROUP] = in_turn(LeaveGroupResponse())

    ask(broker, work=lambda caller: remove_members(caller, "g", reason="maintenance"))

    sent = broker.heard[-1].body
    assert [(m.member_id, m.group_instance_id, m.reason) for m in sent.members] == [
        ("a", None, "maintenance"),
        ("", "static", "maintenance"),
    ]


def test_a_member_that_cannot_be_removed_is_named() -> None:
    unknown = MemberResponse(
        member_id="", group_instance_id="x", error_code=ErrorCode.UNKNOWN_MEMBER_ID
    )
    broker = coordinator(ApiKey.LEAVE_GROUP, LeaveGroupResponse(members=(unknown,)))

    with pytest.raises(RejoinError, match="member 'x'"):
        ask(broker, work=lambda caller: remove_members(caller, "g", instance_ids=["x"]))


def test_fencing_waits_until_the_old_transaction_is_aborted() -> None:
    busy = InitProducerIdResponse(error_code=ErrorCode.CONCURRENT_TRANSACTIONS, producer_epoch=-1)
    done = InitProducerIdResponse(producer_id=7, producer_epoch=3)
    broker = coordinator(ApiKey.INIT_PRODUCER_ID, busy, busy, done)

    fenced = ask(broker, work=lambda caller: fence_producers(caller, "pay"))

    assert (fenced["pay"].producer_id, fenced["pay"].producer_epoch) == (7, 3)


def test_fencing_that_is_denied_is_raised_with_a_note_about_the_rest() -> None:
    denied = InitProducerIdResponse(
        error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, producer_epoch=-1
    )
    done = InitProducerIdResponse(producer_id=7, producer_epoch=3)
    broker = coordinator(ApiKey.INIT_PRODUCER_ID, denied, done)

    with pytest.raises(DeniedError) as caught:
        ask(broker, work=lambda caller: fence_producers(caller, "pay", "ship"))

    assert caught.value.__notes__[-1].startswith("done: ")


def endless(state: str) -> TransactionInfo:
    """What is told of a transactional id without a timeout."""
    told = TransactionState(
        transactional_id="pay",
        transaction_state=state,
        transaction_timeout_ms=2**31 - 1,
        transaction_start_time_ms=2**62,
        producer_id=1,
        producer_epoch=0,
        topics=(TopicData(topic="orders", partitions=(0,)),),
    )
    return ask(
        coordinator(
            ApiKey.DESCRIBE_TRANSACTIONS, DescribeTransactionsResponse(transaction_states=(told,))
        ),
        work=lambda caller: describe_transaction(caller, "pay"),
    )


def test_a_transaction_that_is_over_has_not_started() -> None:
    """Kafka 3.9 still tells when it did."""
    assert endless("CompleteAbort").started is None


def test_a_transaction_without_a_timeout_says_so() -> None:
    info = endless("Ongoing")

    assert (info.timeout, info.partitions) == (None, (P0,))
    assert info.started is not None
    assert info.started.year == 9999


def test_a_transactional_id_that_nobody_uses_is_not_found() -> None:
    state = TransactionState(
        error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        transactional_id="pay",
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=-1,
        producer_id=-1,
        producer_epoch=-1,
        topics=(),
    )

    with pytest.raises(NotFoundError, match="'pay'"):
        ask(
            coordinator(
                ApiKey.DESCRIBE_TRANSACTIONS,
                DescribeTransactionsResponse(transaction_states=(state,)),
            ),
            work=lambda caller: describe_transaction(caller, "pay"),
        )
