"""The state of producers: what is refused, what is remembered, what a snapshot brings back."""

import pytest

from ottla.errors import ErrorCode, StorageError
from ottla.log.producer_state import (
    MAX_BATCHES,
    MAX_EPOCH,
    CompletedTransaction,
    ProducerStates,
    Verdict,
)
from ottla.records.batch import NO_PRODUCER_ID, NO_SEQUENCE, Batch
from ottla.records.builder import BatchOptions, build
from ottla.records.control import Marker, build_marker
from ottla.records.crc32c import crc32c

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
PRODUCER = 7
OTHER = 8
MAX_SEQUENCE = 2**31 - 1


def data(
    offset: int,
    sequence: int,
    *,
    count: int = 1,
    epoch: int = 0,
    producer_id: int = PRODUCER,
    transactional: bool = False,
    timestamp_ms: int = NOW_MS,
) -> Batch:
    options = BatchOptions(
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=transactional,
    )
    return Batch.parse(build([(timestamp_ms, b"k", b"v", ())] * count, options))


def marker(
    offset: int,
    *,
    commit: bool = True,
    epoch: int = 0,
    producer_id: int = PRODUCER,
    coordinator_epoch: int = 0,
) -> Batch:
    ended = Marker(
        is_commit=commit,
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp_ms=NOW_MS,
    )
    return Batch.parse(build_marker(ended, base_offset=offset))


def emptied_marker(offset: int, *, epoch: int) -> Batch:
    """A control batch of which compaction left the header."""
    whole = bytearray(marker(offset, epoch=epoch).data[:61])
    whole[8:12] = (49).to_bytes(4, "big")
    whole[57:61] = bytes(4)
    whole[17:21] = crc32c(whole[21:]).to_bytes(4, "big")
    return Batch.parse(whole)


def states_after(*batches: Batch) -> ProducerStates:
    states = ProducerStates()
    for batch in batches:
        states.apply(batch)
    return states


def error_of(states: ProducerStates, batch: Batch, *, version: int = 0) -> ErrorCode | None:
    """The error that `batch` would get; `None` where it would be appended."""
    verdict = states.check(batch, NOW_MS, transaction_version=version)
    return None if verdict is None else verdict.error


# Sequence numbers


def test_a_batch_without_a_producer_is_never_refused_and_leaves_nothing_behind() -> None:
    plain = data(0, NO_SEQUENCE, producer_id=NO_PRODUCER_ID, epoch=-1)
    states = states_after(plain)

    assert states.check(plain, NOW_MS) is None
    assert len(states) == 0


def test_the_next_sequence_number_is_accepted() -> None:
    states = states_after(data(0, 0, count=3))

    assert states.check(data(3, 3), NOW_MS) is None


def test_a_gap_in_the_sequence_numbers_is_refused_with_both_numbers() -> None:
    states = states_after(data(0, 0, count=3))

    verdict = states.check(data(3, 5), NOW_MS)

    assert verdict is not None
    assert verdict.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert verdict.message == "producer 7 sent sequence number 5, but it goes on with 3"


def test_a_duplicate_is_answered_with_the_offsets_it_got() -> None:
    states = states_after(data(40, 0, count=3, timestamp_ms=NOW_MS + 5))

    assert states.check(data(0, 0, count=3), NOW_MS) == Verdict(
        error=ErrorCode.NONE, base_offset=40, last_offset=42, timestamp_ms=NOW_MS + 5
    )


def test_a_batch_that_overlaps_the_last_one_is_no_duplicate() -> None:
    states = states_after(data(0, 0, count=3))

    assert error_of(states, data(0, 0, count=2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert error_of(states, data(0, 1, count=2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_the_last_five_batches_are_known_as_duplicates_and_the_sixth_is_not() -> None:
    states = states_after(*(data(number, number) for number in range(MAX_BATCHES + 1)))

    for number in range(1, MAX_BATCHES + 1):
        verdict = states.check(data(0, number), NOW_MS)
        assert verdict is not None
        assert (verdict.error, verdict.base_offset) == (ErrorCode.NONE, number)
    assert error_of(states, data(0, 0)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_producer_nobody_remembers_may_begin_with_any_sequence_number() -> None:
    assert error_of(ProducerStates(), data(0, 1234)) is None


def test_after_the_largest_sequence_number_comes_zero() -> None:
    states = states_after(data(0, MAX_SEQUENCE - 1, count=2))

    assert error_of(states, data(2, 0)) is None
    assert error_of(states, data(2, 1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_duplicate_is_known_across_the_wrap_of_sequence_numbers() -> None:
    states = states_after(data(10, MAX_SEQUENCE - 1, count=4))

    verdict = states.check(data(0, MAX_SEQUENCE - 1, count=4), NOW_MS)
    assert verdict is not None
    assert (verdict.error, verdict.base_offset) == (ErrorCode.NONE, 10)
    assert error_of(states, data(0, 2)) is None


# Epochs


def test_a_stale_epoch_is_fenced() -> None:
    states = states_after(data(0, 0, epoch=3))

    assert error_of(states, data(1, 1, epoch=2)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_new_epoch_begins_with_sequence_number_zero() -> None:
    states = states_after(data(0, 0, count=5, epoch=3))

    assert error_of(states, data(5, 0, epoch=4)) is None
    verdict = states.check(data(5, 5, epoch=4), NOW_MS)
    assert verdict is not None
    assert verdict.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert verdict.message is not None
    assert "epoch 4 begins with 0" in verdict.message


def test_a_batch_of_an_old_epoch_is_no_duplicate() -> None:
    states = states_after(data(0, 0, epoch=3), data(1, 0, epoch=4))

    assert error_of(states, data(0, 0, epoch=3)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_offsets_committed_in_a_transaction_have_no_sequence_number_but_an_epoch() -> None:
    states = states_after(data(0, NO_SEQUENCE, epoch=2, transactional=True))

    assert error_of(states, data(1, NO_SEQUENCE, epoch=2, transactional=True)) is None
    stale = data(1, NO_SEQUENCE, epoch=1, transactional=True)
    assert error_of(states, stale) is ErrorCode.INVALID_PRODUCER_EPOCH


# Transactions


def test_a_batch_outside_of_the_open_transaction_is_refused() -> None:
    states = states_after(data(0, 0, transactional=True))

    assert error_of(states, data(1, 1)) is ErrorCode.INVALID_TXN_STATE
    assert error_of(states, data(1, 1, transactional=True)) is None


def test_a_marker_ends_the_transaction_and_says_where_it_began() -> None:
    states = states_after(data(5, 0, transactional=True), data(6, 1, transactional=True))

    completed = states.apply(marker(7, commit=False))

    assert completed == CompletedTransaction(
        producer_id=PRODUCER, first_offset=5, last_offset=7, is_aborted=True, last_stable_offset=8
    )
    assert error_of(states, data(8, 2)) is None


def test_a_marker_without_a_transaction_ends_nothing() -> None:
    states = ProducerStates()

    assert states.apply(marker(0)) is None
    assert states.first_unstable_offset is None


def test_the_last_stable_offset_of_an_ended_transaction_is_where_the_next_open_one_began() -> None:
    states = states_after(
        data(0, 0, transactional=True),
        data(1, 0, transactional=True, producer_id=OTHER),
        data(2, 1, transactional=True),
    )

    completed = states.apply(marker(3))

    assert completed is not None
    assert completed.last_stable_offset == 1


def test_the_oldest_open_transaction_is_unstable() -> None:
    states = states_after(
        data(0, 0),
        data(1, 1, transactional=True),
        data(2, 0, transactional=True, producer_id=OTHER),
    )

    assert states.first_unstable_offset == 1
    assert states.first_undecided_offset == 1


def test_a_decided_transaction_is_unstable_until_its_marker_is_below_the_high_watermark() -> None:
    states = states_after(data(0, 0, transactional=True), marker(1))
    assert states.first_undecided_offset is None
    assert states.first_unstable_offset == 0

    states.advance_high_watermark(1)
    assert states.first_unstable_offset == 0

    states.advance_high_watermark(2)
    assert states.first_unstable_offset is None


def test_an_open_transaction_stays_unstable_whatever_the_high_watermark() -> None:
    states = states_after(
        data(0, 0, transactional=True, producer_id=OTHER),
        data(1, 0, transactional=True),
        marker(2),
    )

    states.advance_high_watermark(100)

    assert states.first_unstable_offset == 0


def test_a_marker_from_an_older_coordinator_is_fenced() -> None:
    states = states_after(data(0, 0, transactional=True), marker(1, coordinator_epoch=5))

    assert error_of(states, marker(2, coordinator_epoch=4)) is (
        ErrorCode.TRANSACTION_COORDINATOR_FENCED
    )
    assert error_of(states, marker(2, coordinator_epoch=5)) is None


def test_a_marker_of_a_stale_epoch_is_refused() -> None:
    states = states_after(data(0, 0, epoch=3, transactional=True))

    assert error_of(states, marker(1, epoch=2)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_under_version_1_the_marker_has_the_epoch_of_its_transaction() -> None:
    states = states_after(data(0, 0, epoch=3, transactional=True))

    assert error_of(states, marker(1, epoch=3), version=1) is None


def test_under_version_2_a_marker_of_the_same_epoch_comes_too_late() -> None:
    states = states_after(data(0, 0, epoch=3, transactional=True))

    assert error_of(states, marker(1, epoch=3), version=2) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert error_of(states, marker(1, epoch=4), version=2) is None


def test_under_version_2_a_marker_may_be_repeated_while_nothing_is_open() -> None:
    states = states_after(data(0, 0, epoch=3, transactional=True), marker(1, epoch=4))

    assert error_of(states, marker(2, epoch=4), version=2) is None
    assert error_of(states, marker(2, epoch=3), version=2) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_under_version_2_the_last_epoch_ends_its_own_transactions() -> None:
    states = states_after(data(0, 0, epoch=MAX_EPOCH, transactional=True))

    assert error_of(states, marker(1, epoch=MAX_EPOCH), version=2) is None


def test_a_marker_that_bumps_the_epoch_begins_the_sequence_numbers_anew() -> None:
    states = states_after(data(0, 0, epoch=3, count=4, transactional=True), marker(4, epoch=4))

    assert error_of(states, data(5, 0, epoch=4)) is None
    assert error_of(states, data(5, 4, epoch=4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert error_of(states, data(5, 4, epoch=3)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_marker_that_keeps_the_epoch_keeps_the_sequence_numbers() -> None:
    states = states_after(data(0, 0, epoch=3, count=4, transactional=True), marker(4, epoch=3))

    assert error_of(states, data(5, 4, epoch=3)) is None
    assert error_of(states, data(5, 0, epoch=3)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_marker_that_compaction_emptied_still_fences_older_epochs() -> None:
    states = states_after(data(0, 0, epoch=3), emptied_marker(1, epoch=4))

    assert error_of(states, data(2, 1, epoch=3)) is ErrorCode.INVALID_PRODUCER_EPOCH


# Expiry


def test_a_silent_producer_is_forgotten_when_its_time_is_over() -> None:
    states = states_after(data(0, 0), data(1, 0, producer_id=OTHER))
    assert states.expire(NOW_MS, DAY_MS) == 0
    states.check(data(2, 1), NOW_MS + 1)

    assert states.expire(NOW_MS + DAY_MS - 1, DAY_MS) == 0
    assert states.expire(NOW_MS + DAY_MS, DAY_MS) == 1

    assert [state.producer_id for state in states] == [PRODUCER]


def test_a_producer_with_an_open_transaction_is_never_forgotten() -> None:
    states = states_after(data(0, 0, transactional=True))
    states.expire(NOW_MS, DAY_MS)

    assert states.expire(NOW_MS + 100 * DAY_MS, DAY_MS) == 0
    states.apply(marker(1))
    states.expire(NOW_MS + 100 * DAY_MS, DAY_MS)
    assert states.expire(NOW_MS + 101 * DAY_MS, DAY_MS) == 1


def test_old_timestamps_of_records_do_not_make_a_producer_silent() -> None:
    states = states_after(data(0, 0, timestamp_ms=1))

    assert states.expire(NOW_MS, DAY_MS) == 0


# Snapshots


def full_states() -> ProducerStates:
    """A producer that wrote, one in a transaction, one known by its marker alone."""
    return states_after(
        data(0, 0, count=2, timestamp_ms=NOW_MS - 9),
        data(2, 2),
        data(3, 0, epoch=5, producer_id=OTHER, transactional=True),
        marker(4, epoch=2, producer_id=9, coordinator_epoch=6),
    )


def test_a_snapshot_brings_back_what_it_holds() -> None:
    states = full_states()
    restored = ProducerStates()
    restored.load(states.snapshot())

    assert restored.snapshot() == states.snapshot()
    assert restored.first_unstable_offset == 3
    assert error_of(restored, data(5, 3)) is None
    duplicate = restored.check(data(0, 2), NOW_MS)
    assert duplicate is not None
    assert (duplicate.error, duplicate.base_offset) == (ErrorCode.NONE, 2)
    assert error_of(restored, marker(5, epoch=2, producer_id=9, coordinator_epoch=5)) is (
        ErrorCode.TRANSACTION_COORDINATOR_FENCED
    )


def test_a_transaction_that_was_open_in_a_snapshot_can_be_ended() -> None:
    restored = ProducerStates()
    restored.load(full_states().snapshot())

    completed = restored.apply(marker(5, epoch=5, producer_id=OTHER))

    assert completed is not None
    assert (completed.first_offset, completed.last_offset) == (3, 5)


def test_open_transactions_are_in_order_of_their_offsets_after_a_snapshot() -> None:
    states = states_after(
        data(0, 0),
        data(1, 0, producer_id=OTHER, transactional=True),
        data(2, 1, transactional=True),
    )
    restored = ProducerStates()
    restored.load(states.snapshot())

    assert restored.first_unstable_offset == 1


def test_a_snapshot_has_the_bytes_that_kafka_writes() -> None:
    states = states_after(data(11, 3, count=2, epoch=1, transactional=True))
    body = b"".join(
        [
            (1).to_bytes(4, "big"),  # one producer
            PRODUCER.to_bytes(8, "big"),
            (1).to_bytes(2, "big"),  # epoch
            (4).to_bytes(4, "big"),  # last sequence
            (12).to_bytes(8, "big"),  # last offset
            (1).to_bytes(4, "big"),  # offset delta
            NOW_MS.to_bytes(8, "big"),
            (-1).to_bytes(4, "big", signed=True),  # coordinator epoch
            (11).to_bytes(8, "big"),  # first offset of the transaction
        ]
    )

    assert states.snapshot() == b"\x00\x01" + crc32c(body).to_bytes(4, "big") + body


def test_a_damaged_snapshot_is_refused_and_changes_nothing() -> None:
    good = full_states().snapshot()
    states = states_after(data(0, 0))

    for position in range(len(good)):
        damaged = bytearray(good)
        damaged[position] ^= 0x10
        with pytest.raises(StorageError):
            states.load(bytes(damaged))
    for size_bytes in range(len(good)):
        with pytest.raises(StorageError):
            states.load(good[:size_bytes])

    assert [state.producer_id for state in states] == [PRODUCER]


def test_nothing_is_known_after_clear() -> None:
    states = full_states()
    states.clear()

    assert len(states) == 0
    assert states.first_unstable_offset is None
    assert states.of(PRODUCER) is None
