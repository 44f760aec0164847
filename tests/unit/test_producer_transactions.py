"""What a producer may do in which state of its transactions, and what errors mean for them."""

from typing import Any

import pytest

from ottla.client.producer.config import ProducerConfig
from ottla.client.producer.transactions import (
    MOVES,
    PreparedToken,
    State,
    Transactions,
    add_failure,
    offsets_error,
)
from ottla.client.records import GroupMetadata, OffsetAndMetadata
from ottla.errors import (
    CommitFailedError,
    ErrorCode,
    FencedError,
    MisuseError,
    OttlaError,
    exception_for,
)
from ottla.model import TopicPartition
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from ottla.wire.messages.end_txn import EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdResponse

ORDERS_0 = TopicPartition("orders", 0)
GROUP = GroupMetadata("kitchen", 3, "member-1", None)
ABORTABLE = exception_for(ErrorCode.TRANSACTION_ABORTABLE)
FENCED = exception_for(ErrorCode.PRODUCER_FENCED)


def transactions(version: int = 2, **options: Any) -> Transactions:
    """Initialized, between transactions."""
    made = Transactions(ProducerConfig.of("localhost:1", transactional_id="t", **options))
    made.initialized(
        InitProducerIdResponse(producer_id=7, producer_epoch=1), {"transaction.version": version}
    )
    return made


def opened(version: int = 2) -> Transactions:
    made = transactions(version)
    made.begin()
    return made


def added(*codes: ErrorCode) -> AddPartitionsToTxnResponse:
    words = tuple(
        AddPartitionsToTxnPartitionResult(partition_index=n, partition_error_code=code)
        for n, code in enumerate(codes)
    )
    topic = AddPartitionsToTxnTopicResult(name="orders", results_by_partition=words)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=(topic,))


def test_every_state_has_its_moves_and_death_is_final() -> None:
    assert set(MOVES) == set(State)
    assert all(State.DEAD in moves for moves in MOVES.values())
    assert MOVES[State.DEAD] == {State.DEAD}


def test_a_transaction_begins_only_between_two_others() -> None:
    made = opened()
    with pytest.raises(MisuseError, match="in a transaction"):
        made.begin()


def test_records_are_sent_in_a_transaction_only() -> None:
    with pytest.raises(MisuseError, match=r"with producer\.transaction"):
        transactions().check_open()


def test_in_version_2_writing_to_a_partition_adds_it() -> None:
    made = opened(2)
    assert made.may_write(ORDERS_0)
    assert made.is_started
    assert not made.pending
    assert made.versions.produce is None


def test_in_version_1_the_coordinator_is_told_before_a_partition_is_written_to() -> None:
    made = opened(1)
    assert not made.may_write(ORDERS_0)
    request = made.add_request()
    assert request.v3_and_below_transactional_id == "t"
    assert [(t.name, t.partitions) for t in request.v3_and_below_topics] == [("orders", (0,))]
    made.added(added(ErrorCode.NONE))
    assert made.may_write(ORDERS_0)
    assert (made.versions.produce, made.versions.end, made.versions.commit_offsets) == (11, 4, 4)


def test_of_the_errors_of_several_partitions_the_telling_one_counts() -> None:
    answer = added(ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert add_failure(answer) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert add_failure(added(ErrorCode.NONE)) == ErrorCode.NONE


def test_the_end_of_a_transaction_brings_the_next_epoch_in_version_2() -> None:
    made = opened(2)
    made.ending()
    made.ended(EndTxnResponse(producer_id=7, producer_epoch=2))
    assert (made.state, made.producer) == (State.READY, PreparedToken(7, 2))


def test_the_epoch_stays_in_version_1() -> None:
    made = opened(1)
    made.ending()
    made.ended(EndTxnResponse())
    assert (made.state, made.producer) == (State.READY, PreparedToken(7, 1))


def test_after_a_failure_version_1_begins_a_new_epoch_by_asking() -> None:
    made = opened(1)
    made.spoil(ABORTABLE)
    made.ending()
    made.ended(EndTxnResponse())
    assert made.state is State.UNREADY
    request = made.init_request()
    assert (request.producer_id, request.producer_epoch) == (7, 1)


def test_a_spoiled_transaction_says_why_and_can_be_ended() -> None:
    made = opened()
    made.spoil(ABORTABLE)
    with pytest.raises(OttlaError) as caught:
        made.check_open()
    assert caught.value is ABORTABLE
    assert not made.may_write(ORDERS_0)
    made.ending()
    made.ended(EndTxnResponse(producer_id=7, producer_epoch=2))
    made.begin()


def test_a_fenced_producer_is_dead() -> None:
    made = opened()
    made.spoil(FENCED)
    for attempt in (made.check_open, made.begin, made.ending):
        with pytest.raises(FencedError):
            attempt()


def test_an_old_epoch_in_the_answer_to_a_produce_may_be_a_time_out() -> None:
    error = exception_for(ErrorCode.INVALID_PRODUCER_EPOCH)
    made = opened()
    made.spoil(error, from_produce=True)
    assert made.state is State.SPOILED
    other = opened()
    other.spoil(error)
    assert other.state is State.DEAD


def test_the_last_offsets_of_a_partition_count() -> None:
    made = opened()
    made.add_offsets(GROUP, {ORDERS_0: OffsetAndMetadata(5)})
    made.add_offsets(GROUP, {ORDERS_0: OffsetAndMetadata(9, "note", 2)})
    request = made.offsets_request(GROUP)
    (partition,) = request.topics[0].partitions
    assert (partition.committed_offset, partition.committed_metadata) == (9, "note")
    assert (request.generation_id_or_member_epoch, request.member_id) == (3, "member-1")


@pytest.mark.parametrize(
    "code",
    [ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID],
)
def test_who_lost_the_group_keeps_the_producer(code: ErrorCode) -> None:
    error = offsets_error(code, GROUP)
    assert isinstance(error, CommitFailedError)
    assert (error.fatal, error.abort_required) == (False, True)


def test_who_lost_the_transactional_id_does_not() -> None:
    assert offsets_error(ErrorCode.PRODUCER_FENCED, GROUP).fatal


def test_a_prepared_transaction_is_named_by_a_token() -> None:
    made = opened()
    token = made.prepared()
    assert str(token) == "7:1"
    assert PreparedToken.of("7:1") == token
    with pytest.raises(MisuseError):
        made.check_open()


@pytest.mark.parametrize("text", ["", "7", "7:", ":1", "a:b", "7:1:2", "-1:-1"])
def test_anything_else_is_no_token(text: str) -> None:
    with pytest.raises(ValueError, match="not the token"):
        PreparedToken.of(text)


def test_what_another_process_prepared_can_only_be_ended() -> None:
    made = Transactions(ProducerConfig.of("localhost:1", transactional_id="t"))
    made.initialized(
        InitProducerIdResponse(
            producer_id=7, producer_epoch=3, ongoing_txn_producer_id=7, ongoing_txn_producer_epoch=1
        ),
        {"transaction.version": 2},
    )
    assert made.state is State.PREPARED
    with pytest.raises(MisuseError):
        made.begin()
    made.ending()
    assert made.is_started
