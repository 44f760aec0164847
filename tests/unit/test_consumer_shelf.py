"""The shelf: records in turn, chains of spans, and troubles when their time has come."""

import pytest

from ottla.client.consumer.chunks import Trouble
from ottla.client.consumer.partition import Need, Partition
from ottla.client.consumer.shelf import Shelf
from ottla.errors import BatchError, ErrorCode, MisuseError, PositionError
from ottla.model import TopicPartition
from ottla.records.batch import Batch
from tests.consumer_samples import OTHER, TP, chunk, marker, plain_batch


def shelf_at(offset: int, *tps: TopicPartition) -> Shelf:
    """All partitions assigned, and at `offset`."""
    shelf = Shelf()
    shelf.assign(tps)
    for tp in tps:
        shelf.require(tp).seek(offset)
    return shelf


def put(shelf: Shelf, tp: TopicPartition, *batches: Batch, number: int | None = None) -> bool:
    partition = shelf.require(tp)
    made = chunk(partition.fetch_offset, batches, tp=tp)
    return shelf.put(partition, partition.number if number is None else number, made, 0)


def taken(shelf: Shelf, limit: int = 100) -> list[tuple[int, int]]:
    """Partition and offset of each record that a poll would get."""
    return [(record.partition, record.offset) for record in shelf.take(limit).records]


def test_spans_chain_over_polls_markers_and_empty_fetches() -> None:
    shelf = shelf_at(5, TP)
    put(shelf, TP, plain_batch(5, 2), marker(7, 1, is_commit=True))
    first = shelf.take(100).spans[TP]
    put(shelf, TP, marker(8, 1, is_commit=True))
    assert shelf.take(100).spans == {}
    put(shelf, TP, plain_batch(9, 1))
    second = shelf.take(100).spans[TP]

    assert (first.start_offset, first.next_offset) == (5, 8)
    assert (second.start_offset, second.next_offset) == (8, 10)


def test_a_partition_that_was_served_waits_until_the_others_were() -> None:
    shelf = shelf_at(0, TP, OTHER)
    put(shelf, TP, plain_batch(0, 4))
    put(shelf, OTHER, plain_batch(0, 4))
    assert taken(shelf, 2) == [(0, 0), (0, 1)]
    assert taken(shelf, 2) == [(1, 0), (1, 1)]
    assert taken(shelf, 2) == [(0, 2), (0, 3)]
    assert taken(shelf, 2) == [(1, 2), (1, 3)]


def test_one_poll_may_have_records_of_several_partitions() -> None:
    shelf = shelf_at(0, TP, OTHER)
    put(shelf, TP, plain_batch(0, 1))
    put(shelf, OTHER, plain_batch(0, 1))
    assert sorted(taken(shelf)) == [(0, 0), (1, 0)]


def test_a_paused_partition_keeps_its_records_for_later() -> None:
    shelf = shelf_at(0, TP)
    put(shelf, TP, plain_batch(0, 2))
    shelf.require(TP).is_paused = True
    assert taken(shelf) == []
    assert not shelf.has_something
    shelf.require(TP).is_paused = False
    assert taken(shelf) == [(0, 0), (0, 1)]


def test_what_was_fetched_before_a_seek_is_dropped() -> None:
    shelf = shelf_at(0, TP)
    number = shelf.require(TP).number
    shelf.require(TP).seek(0)
    assert not put(shelf, TP, plain_batch(0, 2), number=number)
    assert taken(shelf) == []


def test_what_was_fetched_for_a_partition_that_is_gone_is_dropped() -> None:
    shelf = shelf_at(0, TP)
    gone = shelf.require(TP)
    shelf.assign([OTHER])
    assert not shelf.put(gone, gone.number, chunk(0, [plain_batch(0, 1)]), 0)


def test_a_partition_that_stays_assigned_goes_on_where_it_was() -> None:
    shelf = shelf_at(7, TP)
    shelf.assign([TP, OTHER])
    assert shelf.require(TP).position == 7
    assert shelf.require(OTHER).need is Need.COMMITTED


def out_of_range(partition: Partition, shelf: Shelf, trouble: Trouble) -> None:
    shelf.put_trouble(partition, partition.number, partition.fetch_offset, trouble)


def test_a_trouble_is_raised_after_the_records_before_it() -> None:
    shelf = shelf_at(0, TP)
    put(shelf, TP, plain_batch(0, 1))
    error = PositionError(ErrorCode.OFFSET_OUT_OF_RANGE, "truncated")
    out_of_range(shelf.require(TP), shelf, Trouble(error))
    assert taken(shelf) == [(0, 0)]
    with pytest.raises(PositionError, match="truncated"):
        shelf.take(100)
    assert shelf.require(TP).need is Need.RESET


def test_a_trouble_without_error_asks_for_a_reset_when_it_is_reached() -> None:
    shelf = shelf_at(0, TP)
    out_of_range(shelf.require(TP), shelf, Trouble(None))
    assert shelf.require(TP).need is Need.NOTHING
    assert taken(shelf) == []
    assert shelf.require(TP).need is Need.RESET
    assert shelf.has_room


def test_after_a_truncation_reading_goes_on_where_the_log_ends() -> None:
    shelf = shelf_at(0, TP)
    put(shelf, TP, plain_batch(0, 3))
    out_of_range(shelf.require(TP), shelf, Trouble(None, 1))
    assert taken(shelf) == [(0, 0), (0, 1), (0, 2)]
    assert taken(shelf) == []
    assert shelf.require(TP).position == 1


def test_a_damaged_batch_does_not_take_the_records_of_others_with_it() -> None:
    shelf = shelf_at(0, TP, OTHER)
    put(shelf, TP, plain_batch(0, 2))
    data = bytearray(plain_batch(0, 2).data)
    data[-1] ^= 1
    put(shelf, OTHER, Batch.parse(data))
    assert taken(shelf) == [(0, 0), (0, 1)]
    with pytest.raises(BatchError):
        shelf.take(100)


def test_a_partition_has_room_until_enough_chunks_are_queued() -> None:
    shelf = shelf_at(0, TP)
    partition = shelf.require(TP)
    assert partition.wants_fetch(2)
    put(shelf, TP, plain_batch(0, 1))
    assert partition.wants_fetch(2)
    put(shelf, TP, plain_batch(1, 1))
    assert not partition.wants_fetch(2)
    assert shelf.queued_bytes > 0
    taken(shelf)
    assert partition.wants_fetch(2)
    assert shelf.queued_bytes == 0


def test_a_partition_that_is_not_assigned_is_a_clear_error() -> None:
    with pytest.raises(MisuseError, match="orders-0 is not assigned"):
        Shelf().require(TP)


def test_room_is_told_of_only_where_it_was_missed() -> None:
    shelf = shelf_at(0, TP)
    put(shelf, TP, plain_batch(0, 1))
    put(shelf, TP, plain_batch(1, 1))
    assert shelf.look_for_room(3, 1_000_000)
    taken(shelf, 1)
    assert not shelf.has_room, "nobody waits for it"

    put(shelf, TP, plain_batch(2, 1))
    assert shelf.look_for_room(2, 1_000_000)
    taken(shelf, 1)
    assert shelf.has_room


def test_partitions_that_are_full_together_miss_room_too() -> None:
    shelf = shelf_at(0, TP, OTHER)
    put(shelf, TP, plain_batch(0, 1))
    put(shelf, OTHER, plain_batch(0, 1))
    assert not shelf.look_for_room(3, shelf.queued_bytes)
    taken(shelf, 1)
    assert shelf.has_room
