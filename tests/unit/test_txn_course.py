"""A transaction from its markers to its end, what time does to it, and what is told about it."""

import pytest

from ottla.coordinator.effects import Persist, StoredRecord
from ottla.coordinator.txn.machine import EXPIRY_ALARM, TIMEOUTS_ALARM
from ottla.coordinator.txn.records import decode_record, tombstone, transaction_record
from ottla.coordinator.txn.transaction import MOVES, Producer, State, Transaction
from ottla.errors import ErrorCode, WireError
from ottla.model import TopicPartition
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tests.txn_samples import P0, P1, START_MS, TIMEOUT_MS, TXN, Desk

DAY_MS = 86_400_000


def open_desk() -> tuple[Desk, Producer]:
    """A transaction of two partitions."""
    desk = Desk()
    producer = desk.producer()
    desk.add(producer, P0, P1)
    return desk, producer


def test_a_transaction_is_over_when_the_last_partition_has_its_marker() -> None:
    desk, producer = open_desk()
    desk.end(producer, is_commit=True)
    (order,) = desk.orders

    desk.report(order, P1)
    assert desk.now().state is State.PREPARE_COMMIT
    (topic,) = desk.describe().topics
    assert (topic.topic, topic.partitions) == ("orders", (0,))
    desk.report(order, P0)

    assert desk.now().state is State.COMPLETE_COMMIT
    assert desk.now().partitions == frozenset()


def test_a_late_report_of_one_transaction_does_not_end_the_next() -> None:
    desk, producer = open_desk()
    desk.end(producer, is_commit=True)
    (order,) = desk.orders
    desk.write_markers()
    desk.add(producer, P0, P1)
    desk.end(producer, is_commit=False)

    desk.report(order, P0, P1)

    assert desk.now().state is State.PREPARE_ABORT


@pytest.mark.parametrize("is_commit", [True, False])
def test_what_was_decided_before_a_crash_is_carried_out_after_it(is_commit: bool) -> None:
    desk, producer = open_desk()
    desk.end(producer, is_commit=is_commit, version=5)
    (before,) = desk.orders
    desk.report(before, P0)

    desk.started()

    (after,) = desk.orders
    assert after == before
    desk.write_markers()
    assert desk.now().state is (State.COMPLETE_COMMIT if is_commit else State.COMPLETE_ABORT)


def test_an_abort_of_nothing_is_over_at_once() -> None:
    desk = Desk()
    producer = desk.producer()

    ended = desk.end(producer, is_commit=False, version=5)

    assert ended is not None
    assert ended.producer_epoch == 1
    assert desk.now().state is State.COMPLETE_ABORT
    assert desk.orders == []


def test_an_abort_of_nothing_that_was_cut_short_is_completed_at_the_start() -> None:
    desk = Desk()
    producer = desk.producer()
    desk.crash_after = 1

    desk.end(producer, is_commit=False, version=5)

    assert desk.now().state is State.COMPLETE_ABORT


def test_a_transaction_that_takes_too_long_is_aborted() -> None:
    desk, producer = open_desk()
    desk.pass_time(TIMEOUT_MS)
    assert desk.now().state is State.ONGOING

    desk.pass_time(desk.config.timed_out_check_interval_ms)
    desk.write_markers()

    assert desk.now().state is State.COMPLETE_ABORT
    ended = desk.end(producer, is_commit=True)
    assert ended is not None
    assert ended.error_code == ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("by_ms", [DAY_MS, -DAY_MS])
def test_a_clock_that_is_set_takes_no_time_from_a_transaction_and_gives_it_none(by_ms: int) -> None:
    desk, _ = open_desk()
    check_ms = desk.config.timed_out_check_interval_ms
    desk.set_clock(by_ms)

    desk.pass_time(TIMEOUT_MS)
    assert desk.now().state is State.ONGOING
    desk.pass_time(check_ms)
    assert desk.now().state is State.PREPARE_ABORT


def test_a_transaction_that_begins_after_the_clock_was_set_knows_no_other_time() -> None:
    desk, producer = open_desk()
    desk.set_clock(DAY_MS)
    desk.end(producer, is_commit=True)
    desk.write_markers()

    desk.add(desk.now().owner, P0)
    desk.pass_time(TIMEOUT_MS + desk.config.timed_out_check_interval_ms)

    assert desk.now().state is State.PREPARE_ABORT


def test_offsets_of_a_group_take_part_by_their_partition() -> None:
    desk, producer = open_desk()

    assert desk.add_offsets(producer, "four") == ErrorCode.NONE

    assert desk.now().partitions == {P0, P1, TopicPartition("__consumer_offsets", 4)}


def test_what_is_in_the_transaction_already_is_not_written_again() -> None:
    desk, producer = open_desk()

    desk.add(producer, P1)

    assert [effect for effect in desk.effects if isinstance(effect, Persist)] == []


def test_one_request_may_add_to_a_transaction_twice() -> None:
    desk = Desk()
    producer = desk.producer()
    asked = tuple(
        AddPartitionsToTxnTransaction(
            transactional_id=TXN,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            topics=(AddPartitionsToTxnTopic(name=topic, partitions=(index,)),),
        )
        for topic, index in (P0, P1)
    )

    desk.ask("add_partitions", AddPartitionsToTxnRequest(transactions=asked), 5)

    assert desk.now().partitions == {P0, P1}


def test_a_request_about_no_transaction_is_answered_with_none() -> None:
    response = Desk().ask("add_partitions", AddPartitionsToTxnRequest(), 5)

    assert response.results_by_transaction == ()


def test_an_unused_transactional_id_is_forgotten() -> None:
    desk = Desk()
    desk.producer()
    desk.pass_time(7 * DAY_MS - 1)
    assert desk.describe().error_code == ErrorCode.NONE

    desk.pass_time(desk.config.expired_id_check_interval_ms + 1)

    assert desk.describe().error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert desk.replayed().hard_state() == {}
    assert desk.producer() == Producer(1001, 0)


def test_an_open_transaction_keeps_its_id_alive() -> None:
    desk = Desk(two_phase_commit_enable=True)
    desk.add(desk.producer(enable2_pc=True), P0)

    desk.pass_time(8 * DAY_MS)

    assert desk.now().state is State.ONGOING


def test_many_ids_expire_in_batches() -> None:
    desk = Desk()
    for number in range(1001):
        desk.producer(transactional_id=f"t{number}")
    desk.now_ms += 8 * DAY_MS

    desk.perform(desk.machine.on_alarm(EXPIRY_ALARM, desk.now_ms))

    batches = [effect for effect in desk.effects if isinstance(effect, Persist)]
    assert [len(batch.records) for batch in batches] == [500, 500, 1]
    assert desk.machine.hard_state() == {}


def test_alarms_ring_again() -> None:
    desk = Desk()

    desk.pass_time(DAY_MS)

    assert set(desk.alarms) == {TIMEOUTS_ALARM, EXPIRY_ALARM}


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({}, ["a", "b"]),
        ({"state_filters": ("Ongoing",)}, ["b"]),
        ({"state_filters": ("Nonsense",)}, []),
        ({"producer_id_filters": (1000,)}, ["a"]),
        ({"duration_filter": 5000}, ["a"]),
        ({"duration_filter": 4999}, ["a", "b"]),
        ({"transactional_id_pattern": "[b-z]"}, ["b"]),
        ({"transactional_id_pattern": ""}, ["a", "b"]),
        ({"transactional_id_pattern": "(a+)+|(.*.*)*c"}, ["a"]),
    ],
)
def test_lists_have_what_passes_all_filters(filters: dict[str, object], found: list[str]) -> None:
    desk = Desk()
    desk.producer(transactional_id="a")
    desk.add(desk.producer(transactional_id="b"), P0, transactional_id="b")
    desk.now_ms += 5000

    assert [state.transactional_id for state in desk.list(**filters).transaction_states] == found


def test_a_pattern_with_countless_ways_holds_up_nobody() -> None:
    """With one way after the other, this would take years."""
    desk = Desk()
    desk.producer(transactional_id="a" * 200 + "!")

    assert desk.list(transactional_id_pattern="(a+)+").transaction_states == ()


def test_a_list_names_filters_that_mean_nothing() -> None:
    desk = Desk()

    assert desk.list(state_filters=("Open", "Empty")).unknown_state_filters == ("Open",)
    bad = desk.list(transactional_id_pattern="(")
    assert bad.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_transaction_is_described() -> None:
    desk, producer = open_desk()

    told = desk.describe()

    assert (told.transaction_state, told.transaction_timeout_ms) == ("Ongoing", TIMEOUT_MS)
    assert (told.producer_id, told.producer_epoch) == producer
    assert told.transaction_start_time_ms == START_MS
    assert [(topic.topic, topic.partitions) for topic in told.topics] == [("orders", (0, 1))]


KEY = bytes.fromhex("0000 0001 74")  # type 0, "t"
OLD_VALUE = bytes.fromhex(
    "0000"  # version
    "0000000000000007 0003 0000ea60 01"  # producer id and epoch, timeout, Ongoing
    "00000001 0001 61 00000002 00000000 00000001"  # a: 0, 1
    "0000000000000064 0000000000000063"  # updated, started
)
NEW_VALUE = bytes.fromhex(
    "0001"
    "0000000000000007 0003 0000ea60 01"
    "02 02 61 03 00000000 00000001 00"
    "0000000000000064 0000000000000063"
    "02 00 08 0000000000000007 02 02 0002"  # tags: previous producer id, client's version
)


def ongoing(previous_producer_id: int, client_version: int) -> Transaction:
    return Transaction(
        producer_id=7,
        previous_producer_id=previous_producer_id,
        producer_epoch=3,
        timeout_ms=60_000,
        state=State.ONGOING,
        partitions=frozenset({TopicPartition("a", 0), TopicPartition("a", 1)}),
        updated_ms=100,
        started_ms=99,
        client_version=client_version,
    )


def test_records_are_those_of_kafka() -> None:
    transaction = ongoing(7, client_version=2)

    assert transaction_record("t", transaction) == StoredRecord(KEY, NEW_VALUE)
    assert decode_record(StoredRecord(KEY, NEW_VALUE)) == ("t", transaction)
    assert decode_record(StoredRecord(KEY, OLD_VALUE)) == ("t", ongoing(-1, client_version=0))
    assert decode_record(tombstone("t")) == ("t", None)


STORED_STATES = [state for state in State if state not in (State.DEAD, State.PREPARE_EPOCH_FENCE)]


@pytest.mark.parametrize("state", STORED_STATES, ids=lambda state: state.value)
@pytest.mark.parametrize("partitions", [(), (P0,), (P1, TopicPartition("payments", 7), P0)])
def test_a_record_means_what_its_bytes_say(
    state: State, partitions: tuple[TopicPartition, ...]
) -> None:
    transaction = Transaction(
        producer_id=7,
        previous_producer_id=6,
        next_producer_id=8,
        producer_epoch=3,
        next_producer_epoch=0,
        timeout_ms=60_000,
        state=state,
        partitions=frozenset(partitions),
        updated_ms=100,
        started_ms=99,
        client_version=2,
    )

    record = transaction_record("t", transaction)

    assert decode_record(record) == decode_record(StoredRecord(record.key, record.value))


def test_records_of_another_kind_are_not_ours() -> None:
    assert decode_record(StoredRecord(b"\0\1", b"")) is None


@pytest.mark.parametrize("status", [6, 7, 8])
def test_a_state_that_is_never_stored_is_damage(status: int) -> None:
    damaged = OLD_VALUE[:16] + bytes([status]) + OLD_VALUE[17:]

    with pytest.raises(WireError, match=f"status {status}"):
        decode_record(StoredRecord(KEY, damaged))


def test_the_table_has_the_moves_of_kafka() -> None:
    empty, ongoing, commit, abort, committed, aborted, dead, fence = State
    before = {to: {state for state, moves in MOVES.items() if to in moves} for to in State}

    assert before == {
        empty: {empty, committed, aborted},
        ongoing: {ongoing, empty, committed, aborted},
        commit: {ongoing},
        abort: {ongoing, fence, empty, committed, aborted},
        committed: {commit},
        aborted: {abort},
        dead: {empty, aborted, committed},
        fence: {ongoing},
    }


def test_a_move_that_is_not_in_the_table_cannot_be_made() -> None:
    with pytest.raises(AssertionError, match="CompleteCommit"):
        ongoing(7, client_version=2).move(State.COMPLETE_COMMIT, 100)


def test_a_transaction_cannot_put_off_its_timeout_by_growing() -> None:
    desk = Desk()
    producer = desk.producer()
    desk.add(producer, P0)
    desk.pass_time(TIMEOUT_MS - 1000)
    desk.add(producer, P1)
    assert desk.describe().transaction_start_time_ms == START_MS

    desk.pass_time(desk.config.timed_out_check_interval_ms + 1000)

    assert desk.now().state is State.PREPARE_ABORT


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_transaction_that_ends_began_when_it_began(is_commit: bool) -> None:
    desk, producer = open_desk()
    desk.pass_time(1_000)

    desk.end(producer, is_commit=is_commit)

    assert desk.now().is_ending
    assert (desk.now().started_ms, desk.now().updated_ms) == (START_MS, START_MS + 1_000)


def test_the_next_transaction_has_a_start_of_its_own() -> None:
    desk, producer = open_desk()
    desk.end(producer, is_commit=True)
    desk.write_markers()
    desk.pass_time(5000)

    desk.add(producer, P0)

    assert desk.describe().transaction_start_time_ms == START_MS + 5000
