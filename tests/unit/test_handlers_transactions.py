"""The handlers around transactions, at every version they serve: answers, refusals, and shapes."""

from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.model import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from ottla.records.builder import BatchOptions, build
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.list_transactions import ListTransactionsRequest
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.broker_fixture import NOW_MS, each_version
from tests.broker_office import Office, play

NAME = "payments"
TOPIC = "orders"
GROUP = "shipping"
NEWEST_INIT = 6
VERSION_1_PRODUCE = 9
VERSION_2_PRODUCE = 12
PRODUCE_WITH_IDS = 13


def init(**fields: Any) -> InitProducerIdRequest:
    return InitProducerIdRequest(
        **{"transactional_id": NAME, "transaction_timeout_ms": 60_000, **fields}
    )


def add(producer: Any, topic: str = TOPIC, *indexes: int) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=NAME,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=(AddPartitionsToTxnTopic(name=topic, partitions=indexes or (0,)),),
    )


def end(producer: Any, *, committed: bool = True) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id=NAME,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=committed,
    )


def write(producer: Any, *, sequence: int = 0, name: str | None = NAME) -> ProduceRequest:
    options = BatchOptions(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=sequence,
        is_transactional=True,
    )
    data = PartitionProduceData(index=0, records=build([(NOW_MS, b"k", b"v", ())], options))
    return ProduceRequest(
        transactional_id=name,
        acks=-1,
        timeout_ms=1_000,
        topic_data=(TopicProduceData(name=TOPIC, partition_data=(data,)),),
    )


def offsets(producer: Any, topic: str = TOPIC, topic_id: bytes = bytes(16)) -> Any:
    partition = TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=7, committed_metadata=None
    )
    return TxnOffsetCommitRequest(
        transactional_id=NAME,
        group_id=GROUP,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        topics=(
            TxnOffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=(partition,)),
        ),
    )


async def producer_of(office: Office) -> Any:
    office.broker.create(TOPIC)
    granted = await office.ask(init(), NEWEST_INIT)
    assert granted.error_code == ErrorCode.NONE
    return granted


async def errors_of_produce(office: Office, request: ProduceRequest, version: int) -> list[int]:
    answer = await office.ask(request, version)
    return [data.error_code for topic in answer.responses for data in topic.partition_responses]


@each_version(FindCoordinatorRequest, low=1)
def test_a_transactional_id_has_a_coordinator_and_its_topic(version: int) -> None:
    async def scenario(office: Office) -> None:
        request = FindCoordinatorRequest(
            key="" if version >= 4 else NAME,
            key_type=1,
            coordinator_keys=(NAME,) if version >= 4 else (),
        )
        answer = await office.ask(request, version)
        (found,) = answer.coordinators if version >= 4 else (answer,)
        assert (found.error_code, found.node_id, found.port) == (ErrorCode.NONE, 1, 9092)
        topics = office.broker.controller.image.topics
        assert TRANSACTION_STATE_TOPIC in topics
        assert CONSUMER_OFFSETS_TOPIC not in topics

    play(scenario)


@each_version(InitProducerIdRequest)
def test_a_transactional_producer_keeps_its_id_and_fences_the_one_before(version: int) -> None:
    async def scenario(office: Office) -> None:
        first = await office.ask(init(), version)
        second = await office.ask(init(), version)
        assert (first.error_code, first.producer_epoch) == (ErrorCode.NONE, 0)
        assert (second.producer_id, second.producer_epoch) == (first.producer_id, 1)

    play(scenario)


@each_version(InitProducerIdRequest)
def test_a_producer_without_a_name_for_its_transactions_is_refused(version: int) -> None:
    async def scenario(office: Office) -> None:
        answer = await office.ask(init(transactional_id=""), version)
        assert (answer.error_code, answer.producer_id) == (ErrorCode.INVALID_REQUEST, -1)

    play(scenario)


@each_version(AddPartitionsToTxnRequest)
def test_partitions_are_added_to_a_transaction(version: int) -> None:
    async def scenario(office: Office) -> None:
        producer = await producer_of(office)
        answer = await office.ask(add(producer), version)
        (topic,) = answer.results_by_topic_v3_and_below
        assert [r.partition_error_code for r in topic.results_by_partition] == [ErrorCode.NONE]
        described = await office.ask(DescribeTransactionsRequest(transactional_ids=(NAME,)), 0)
        (state,) = described.transaction_states
        assert state.transaction_state == "Ongoing"
        assert [(t.topic, t.partitions) for t in state.topics] == [(TOPIC, (0,))]

    play(scenario)


@each_version(AddPartitionsToTxnRequest)
def test_a_partition_that_does_not_exist_keeps_the_others_out(version: int) -> None:
    async def scenario(office: Office) -> None:
        producer = await producer_of(office)
        answer = await office.ask(add(producer, TOPIC, 0, 9), version)
        (topic,) = answer.results_by_topic_v3_and_below
        assert [r.partition_error_code for r in topic.results_by_partition] == [
            ErrorCode.OPERATION_NOT_ATTEMPTED,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]

    play(scenario)


@each_version(EndTxnRequest)
def test_every_version_ends_a_transaction(version: int) -> None:
    async def scenario(office: Office) -> None:
        producer = await producer_of(office)
        await office.ask(add(producer), 3)
        assert await errors_of_produce(office, write(producer), VERSION_1_PRODUCE) == [0]
        partition = office.broker.partition(TOPIC)
        assert partition.last_stable_offset == 0
        answer = await office.ask(end(producer), version)
        await office.transactions_settle(NAME)
        assert answer.error_code == ErrorCode.NONE
        assert answer.producer_epoch == (1 if version >= 5 else -1)
        assert partition.last_stable_offset == partition.next_offset == 2

    play(scenario)


@each_version(ProduceRequest)
def test_transactional_records_need_a_transactional_id_in_the_request(version: int) -> None:
    async def scenario(office: Office) -> None:
        if version >= PRODUCE_WITH_IDS:
            return  # the topic has no name there; the rule is the same code
        producer = await producer_of(office)
        errors = await errors_of_produce(office, write(producer, name=None), version)
        assert errors == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]

    play(scenario)


@pytest.mark.parametrize(
    ("version", "error"),
    [
        (VERSION_1_PRODUCE, ErrorCode.INVALID_TXN_STATE),
        (10, ErrorCode.INVALID_TXN_STATE),
        (11, ErrorCode.TRANSACTION_ABORTABLE),
        (VERSION_2_PRODUCE, ErrorCode.NONE),
    ],
)
def test_a_write_must_belong_to_its_transaction(version: int, error: ErrorCode) -> None:
    async def scenario(office: Office) -> None:
        producer = await producer_of(office)
        await office.ask(add(producer, "elsewhere"), 3)
        office.broker.create("elsewhere")
        await office.ask(add(producer, "elsewhere"), 3)
        assert await errors_of_produce(office, write(producer), version) == [error]

    play(scenario)


def test_a_new_producer_in_version_2_begins_with_sequence_number_0() -> None:
    async def scenario(office: Office) -> None:
        producer = await producer_of(office)
        errors = await errors_of_produce(office, write(producer, sequence=5), VERSION_2_PRODUCE)
        assert errors == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
        assert await errors_of_produce(office, write(producer), VERSION_2_PRODUCE) == [0]

    play(scenario)


@each_version(AddOffsetsToTxnRequest)
def test_a_groups_offsets_join_a_transaction(version: int) -> None:
    async def scenario(office: Office) -> None:
        producer = await producer_of(office)
        request = AddOffsetsToTxnRequest(
            transactional_id=NAME,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            group_id=GROUP,
        )
        answer = await office.ask(request, version)
        assert answer.error_code == ErrorCode.NONE
        described = await office.ask(DescribeTransactionsRequest(transactional_ids=(NAME,)), 0)
        (state,) = described.transaction_states
        assert [topic.topic for topic in state.topics] == [CONSUMER_OFFSETS_TOPIC]

    play(scenario)


@each_version(TxnOffsetCommitRequest)
@pytest.mark.parametrize("committed", [True, False])
def test_offsets_count_when_their_transaction_is_committed(version: int, committed: bool) -> None:
    async def scenario(office: Office) -> None:
        producer = await producer_of(office)
        topic_id = office.broker.controller.image.topics[TOPIC].topic_id
        if version < 5:
            request = AddOffsetsToTxnRequest(
                transactional_id=NAME,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                group_id=GROUP,
            )
            await office.ask(request, 3)
        committing = offsets(producer, topic_id=topic_id if version >= 6 else bytes(16))
        answer = await office.ask(committing, version)
        assert [p.error_code for t in answer.topics for p in t.partitions] == [ErrorCode.NONE]
        assert await offset_of(office, require_stable=False) == (-1, ErrorCode.NONE)
        assert await offset_of(office) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        await office.ask(end(producer, committed=committed), 5 if version >= 5 else 3)
        await office.transactions_settle(NAME)
        assert await offset_of(office) == (7 if committed else -1, ErrorCode.NONE)

    play(scenario)


async def offset_of(office: Office, *, require_stable: bool = True) -> tuple[int, int]:
    asked = (OffsetFetchRequestTopic(name=TOPIC, partition_indexes=(0,)),)
    answer = await office.ask(
        OffsetFetchRequest(group_id=GROUP, topics=asked, require_stable=require_stable), 7
    )
    ((partition,),) = [topic.partitions for topic in answer.topics]
    return partition.committed_offset, partition.error_code


@each_version(TxnOffsetCommitRequest)
def test_offsets_of_a_topic_that_does_not_exist_are_refused(version: int) -> None:
    async def scenario(office: Office) -> None:
        producer = await producer_of(office)
        answer = await office.ask(offsets(producer, "nothing", b"x" * 16), version)
        expected = (
            ErrorCode.UNKNOWN_TOPIC_ID if version >= 6 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        assert [p.error_code for t in answer.topics for p in t.partitions] == [expected]

    play(scenario)


@each_version(TxnOffsetCommitRequest, low=4)
def test_a_fenced_producer_commits_no_offsets(version: int) -> None:
    async def scenario(office: Office) -> None:
        old = await producer_of(office)
        await office.ask(init(), NEWEST_INIT)
        topic_id = office.broker.controller.image.topics[TOPIC].topic_id
        answer = await office.ask(offsets(old, topic_id=topic_id), version)
        codes = [p.error_code for t in answer.topics for p in t.partitions]
        assert codes == [ErrorCode.INVALID_PRODUCER_EPOCH]

    play(scenario)


@each_version(ListTransactionsRequest)
def test_transactions_are_listed_from_all_shards(version: int) -> None:
    async def scenario(office: Office) -> None:
        for name in ("a", "b", "c", "d"):
            await office.ask(init(transactional_id=name), NEWEST_INIT)
        request = ListTransactionsRequest(state_filters=("Empty", "Odd"), producer_id_filters=())
        answer = await office.ask(request, version)
        assert sorted(t.transactional_id for t in answer.transaction_states) == ["a", "b", "c", "d"]
        assert answer.unknown_state_filters == ("Odd",)

    play(scenario)


@each_version(WriteTxnMarkersRequest)
def test_a_marker_ends_a_transaction_that_nobody_else_ends(version: int) -> None:
    async def scenario(office: Office) -> None:
        producer = await producer_of(office)
        assert await errors_of_produce(office, write(producer), VERSION_2_PRODUCE) == [0]
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            transaction_result=False,
            topics=(
                WritableTxnMarkerTopic(name=TOPIC, partition_indexes=(0,)),
                WritableTxnMarkerTopic(name="nothing", partition_indexes=(3,)),
            ),
            coordinator_epoch=0,
        )
        answer = await office.ask(WriteTxnMarkersRequest(markers=(marker,)), version)
        (result,) = answer.markers
        codes = {t.name: [p.error_code for p in t.partitions] for t in result.topics}
        assert codes == {TOPIC: [0], "nothing": [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]}
        partition = office.broker.partition(TOPIC)
        assert partition.last_stable_offset == partition.next_offset == 2

    play(scenario)


@each_version(ApiVersionsRequest, low=3)
def test_transactions_of_version_2_are_announced(version: int) -> None:
    async def scenario(office: Office) -> None:
        request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
        answer = await office.ask(request, version)
        levels = {f.name: f.max_version_level for f in answer.finalized_features}
        assert levels["transaction.version"] == 2
        lowest = {f.name: f.min_version for f in answer.supported_features}
        assert lowest["transaction.version"] == (0 if version >= 4 else 1)

    play(scenario)
