"""What one partition's part of an answer to Fetch shows."""

import pytest

from ottla.client.consumer.fetched import fetched_of
from ottla.errors import BatchError
from ottla.model import TopicPartition
from ottla.records.builder import BatchOptions, build
from ottla.records.control import Marker, build_marker
from ottla.wire.messages.fetch import AbortedTransaction, PartitionData

ORDERS = TopicPartition("orders", 0)
MARKERS_ONLY_END = 9


def data_batch(offset: int, producer_id: int, *, transactional: bool = True) -> bytes:
    options = BatchOptions(
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=transactional,
    )
    return bytes(build([(1, None, b"%d" % offset, ())], options))


def marker(offset: int, producer_id: int, *, is_commit: bool) -> bytes:
    end = Marker(
        is_commit=is_commit,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp_ms=1,
    )
    return bytes(build_marker(end, base_offset=offset))


def interleaved() -> PartitionData:
    """Producer 7 aborts and then commits; 8 commits meanwhile; 9 uses no transactions."""
    return PartitionData(
        partition_index=0,
        high_watermark=10,
        last_stable_offset=MARKERS_ONLY_END,
        aborted_transactions=(AbortedTransaction(producer_id=7, first_offset=0),),
        records=b"".join(
            [
                data_batch(0, 7),
                data_batch(1, 8),
                data_batch(2, 9, transactional=False),
                data_batch(3, 7),
                marker(4, 7, is_commit=False),
                data_batch(5, 7),
                marker(6, 8, is_commit=True),
                marker(7, 7, is_commit=True),
                data_batch(8, 8),
            ]
        ),
    )


def test_what_was_rolled_back_is_left_out_up_to_its_marker() -> None:
    fetched = fetched_of(ORDERS, 0, interleaved(), read_committed=True)
    assert [record.offset for record in fetched.records()] == [1, 2, 5, 8]
    assert (fetched.next_offset, fetched.end_offset) == (9, MARKERS_ONLY_END)


def test_without_isolation_everything_but_markers_is_shown() -> None:
    fetched = fetched_of(ORDERS, 0, interleaved(), read_committed=False)
    assert [record.offset for record in fetched.records()] == [0, 1, 2, 3, 5, 8]
    assert fetched.end_offset == 10


def test_a_fetch_inside_a_batch_shows_only_what_was_asked_for() -> None:
    records = build([(1, None, b"%d" % n, ()) for n in range(5)])
    data = PartitionData(
        partition_index=0, high_watermark=5, aborted_transactions=None, records=bytes(records)
    )
    fetched = fetched_of(ORDERS, 3, data, read_committed=False)
    assert [record.value for record in fetched.records()] == [b"3", b"4"]


def test_a_batch_that_was_damaged_on_its_way_is_refused() -> None:
    records = build([(1, None, b"value", ())])
    records[-1] ^= 1
    data = PartitionData(
        partition_index=0, high_watermark=1, aborted_transactions=None, records=bytes(records)
    )
    with pytest.raises(BatchError):
        fetched_of(ORDERS, 0, data, read_committed=False)


def test_where_nothing_came_one_goes_on_where_one_was() -> None:
    data = PartitionData(
        partition_index=0, high_watermark=7, aborted_transactions=None, records=None
    )
    fetched = fetched_of(ORDERS, 7, data, read_committed=False)
    assert (list(fetched.records()), fetched.next_offset) == ([], 7)
