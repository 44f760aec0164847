"""Append, read, roll, truncate, delete: one log on a disk that works."""

import pytest

from ottla.errors import BatchError
from ottla.log.log import Log
from ottla.log.segment import LogRead
from ottla.log.view import OffsetOutOfRange
from ottla.records.batch import batches
from ottla.records.builder import BatchOptions
from ottla.testing.disk import SimDisk
from ottla.testing.inodes import Survival
from tests.log_samples import (
    EPOCH,
    FOLDER,
    NOW_MS,
    append_all,
    batch_of,
    log_config,
    log_of_segments,
    names_in,
    open_log,
    read_all,
    values_in,
)


def offsets_of(read: LogRead | OffsetOutOfRange) -> list[int]:
    assert isinstance(read, LogRead)
    return [batch.base_offset for batch in batches(read.data, partial_tail=False)]


# Appending


def test_a_batch_gets_the_next_offsets_and_the_leader_epoch_in_place() -> None:
    log = open_log()
    log.append(batch_of(b"a", b"b", b"c"), leader_epoch=4, now_ms=NOW_MS)
    batch = batch_of(b"d")

    assert log.append(batch, leader_epoch=5, now_ms=NOW_MS) == 3

    assert (batch.base_offset, batch.partition_leader_epoch) == (3, 5)
    assert log.next_offset == 4
    found = read_all(log)
    assert [(item.base_offset, item.partition_leader_epoch) for item in found] == [(0, 4), (3, 5)]
    for item in found:
        item.check_crc()


def test_nothing_is_on_disk_before_the_first_append() -> None:
    disk = SimDisk()

    log = open_log(disk)

    assert names_in(disk) == []
    assert log.size_bytes == 0
    append_all(log, [b"a"])
    assert names_in(disk) == ["00000000000000000000.log"]


def test_the_first_records_wait_for_no_sync_of_a_folder() -> None:
    seen: list[str] = []
    disk = SimDisk(observe=seen.append)
    disk.make_folder(FOLDER)
    disk.sync_folder("")
    log = open_log(disk)
    seen.clear()

    append_all(log, [b"a"])
    assert [line for line in seen if line.startswith("sync")] == []

    log.sync()
    assert f"sync_folder {FOLDER}" in seen
    disk.lose_power(survival=Survival.NOTHING)
    assert len(read_all(open_log(disk))) == 1


def test_a_log_can_begin_at_any_offset() -> None:
    disk = SimDisk()
    log = open_log(disk, start_offset=7)

    append_all(log, [b"a"])

    assert names_in(disk) == ["00000000000000000007.log"]
    assert (log.start_offset, log.next_offset) == (7, 8)


def test_a_batch_of_another_replica_keeps_its_offsets() -> None:
    log = open_log()
    options = BatchOptions(base_offset=40, partition_leader_epoch=6)

    log.append_as_is(batch_of(b"a", b"b", options=options), now_ms=NOW_MS)

    assert log.next_offset == 42
    assert offsets_of(log.read(0, 1000)) == [40]
    assert log.epoch_for(41) == 6


def test_a_batch_of_another_replica_must_continue_the_log() -> None:
    log = open_log()
    append_all(log, [b"a", b"b"])

    with pytest.raises(BatchError, match="goes on at 2"):
        log.append_as_is(batch_of(b"c", options=BatchOptions(base_offset=1)), now_ms=NOW_MS)

    assert log.next_offset == 2


def test_a_segment_that_would_grow_too_large_is_rolled_first() -> None:
    size_bytes = batch_of(b"x").size_bytes
    log = open_log(segment_bytes=2 * size_bytes)

    append_all(log, [b"x"] * 5)

    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]
    assert [segment.size_bytes for segment in log.segments] == [
        2 * size_bytes,
        2 * size_bytes,
        size_bytes,
    ]


def test_a_batch_larger_than_a_segment_has_one_of_its_own() -> None:
    log = open_log(segment_bytes=200)

    append_all(log, [b"a", b"b" * 300, b"c"])

    assert [segment.base_offset for segment in log.segments] == [0, 1, 2]


@pytest.mark.parametrize(("later_ms", "segment_count"), [(1000, 1), (1001, 2)])
def test_a_segment_is_rolled_when_its_records_span_too_much_time(
    later_ms: int, segment_count: int
) -> None:
    log = open_log(segment_ms=1000)
    log.append(batch_of(b"a", timestamp_ms=NOW_MS), leader_epoch=EPOCH, now_ms=NOW_MS)

    late = batch_of(b"b", timestamp_ms=NOW_MS + later_ms)
    log.append(late, leader_epoch=EPOCH, now_ms=NOW_MS)

    assert len(log.segments) == segment_count


@pytest.mark.parametrize(("later_ms", "segment_count"), [(1000, 1), (1001, 2)])
def test_the_clock_decides_where_records_have_no_time(later_ms: int, segment_count: int) -> None:
    log = open_log(segment_ms=1000)
    log.append(batch_of(b"a", timestamp_ms=-1), leader_epoch=EPOCH, now_ms=NOW_MS)

    timeless = batch_of(b"b", timestamp_ms=-1)
    log.append(timeless, leader_epoch=EPOCH, now_ms=NOW_MS + later_ms)

    assert len(log.segments) == segment_count


def test_jitter_makes_partitions_roll_at_different_times() -> None:
    config = log_config(segment_ms=1_000_000, segment_jitter_ms=500_000)
    logs = [Log.open(SimDisk(), f"t-{i}", config, now_ms=NOW_MS) for i in range(20)]

    for log in logs:
        for timestamp_ms in (NOW_MS, NOW_MS + 750_000):
            batch = batch_of(b"a", timestamp_ms=timestamp_ms)
            log.append(batch, leader_epoch=EPOCH, now_ms=NOW_MS)

    assert {len(log.segments) for log in logs} == {1, 2}


def test_a_segment_is_rolled_when_its_index_is_full() -> None:
    log = open_log(segment_index_bytes=24, index_interval_bytes=0)

    append_all(log, [b"a"] * 6)

    assert max(len(segment.indexes.offsets) for segment in log.segments) <= 3
    assert len(log.segments) > 1
    assert len(values_in(log)) == 6


def test_a_segment_is_rolled_before_its_offsets_outgrow_the_index() -> None:
    log = open_log()
    append_all(log, [b"a"])
    far = 2**31 + 5

    log.append_as_is(batch_of(b"b", options=BatchOptions(base_offset=far)), now_ms=NOW_MS)

    assert [segment.base_offset for segment in log.segments] == [0, far]
    assert offsets_of(log.read(1, 1000)) == [far]


def test_a_segment_begins_where_the_last_one_ended_whatever_offset_comes_first() -> None:
    log = open_log(segment_bytes=1)
    append_all(log, [b"a"])

    log.append_as_is(batch_of(b"b", options=BatchOptions(base_offset=9)), now_ms=NOW_MS)

    assert [segment.base_offset for segment in log.segments] == [0, 1], "a gap would be a loss"
    assert offsets_of(log.read(1, 1000)) == [9]


def test_rolling_an_empty_segment_does_nothing() -> None:
    log = log_of_segments(1)

    log.roll(NOW_MS)

    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_room_is_reserved_ahead_and_given_back_by_the_roll() -> None:
    disk = SimDisk()
    log = open_log(disk)
    append_all(log, [b"a"])
    path = f"{FOLDER}/00000000000000000000.log"
    assert disk.open(path).size_bytes() == 16 * 1024

    log.roll(NOW_MS)

    assert disk.open(path).size_bytes() == log.segments[0].size_bytes == batch_of(b"a").size_bytes


def test_room_never_exceeds_the_segment() -> None:
    disk = SimDisk()
    log = open_log(disk, segment_bytes=1000)

    append_all(log, [b"a"])

    assert disk.open(f"{FOLDER}/00000000000000000000.log").size_bytes() == 1000


def test_preallocation_reserves_the_whole_segment() -> None:
    disk = SimDisk()
    log = open_log(disk, preallocate=True, segment_bytes=1_000_000)

    append_all(log, [b"a"])

    assert disk.open(f"{FOLDER}/00000000000000000000.log").size_bytes() == 1_000_000


def test_other_settings_hold_from_the_next_append_on() -> None:
    log = open_log()
    append_all(log, [b"a"])

    log.reconfigure(log_config(segment_bytes=100))
    append_all(log, [b"b"])

    assert len(log.segments) == 2
    assert log.config.segment_bytes == 100


# Reading


def test_a_read_inside_of_a_batch_gives_the_whole_batch() -> None:
    log = open_log()
    log.append(batch_of(b"a", b"b", b"c"), leader_epoch=EPOCH, now_ms=NOW_MS)

    assert offsets_of(log.read(2, 1000)) == [0]


def test_a_read_gives_no_part_of_a_batch() -> None:
    log = open_log()
    append_all(log, [b"a", b"b", b"c"])
    size_bytes = batch_of(b"a").size_bytes

    read = log.read(0, 2 * size_bytes + 10)

    assert offsets_of(read) == [0, 1]
    assert isinstance(read, LogRead)
    assert read.next_offset == 2


def test_the_first_batch_comes_even_if_it_is_too_large() -> None:
    log = open_log()
    append_all(log, [b"a" * 100, b"b"])

    assert offsets_of(log.read(0, 10)) == [0]
    assert log.read(0, 10, at_least_one=False) == LogRead(b"", 0)


@pytest.mark.parametrize(
    ("below_offset", "offsets"), [(0, []), (1, [0]), (2, [0]), (3, [0, 1]), (4, [0, 1, 3])]
)
def test_no_batch_reaches_up_to_the_high_watermark(below_offset: int, offsets: list[int]) -> None:
    log = open_log()
    append_all(log, [b"a"])
    log.append(batch_of(b"b", b"c"), leader_epoch=EPOCH, now_ms=NOW_MS)
    append_all(log, [b"d"])

    assert offsets_of(log.read(0, 10_000, below_offset=below_offset)) == offsets


def test_a_read_stops_at_the_end_of_a_segment() -> None:
    log = log_of_segments(3)

    assert offsets_of(log.read(1, 10_000)) == [1]
    assert offsets_of(log.read(2, 10_000)) == [2, 3]


def test_a_read_goes_over_a_gap_to_the_next_batch() -> None:
    log = open_log()
    append_all(log, [b"a"])
    log.append_as_is(batch_of(b"b", options=BatchOptions(base_offset=9)), now_ms=NOW_MS)

    assert offsets_of(log.read(4, 1000)) == [9]


def test_a_read_goes_over_a_gap_to_the_next_segment() -> None:
    log = log_of_segments(1)
    log.append_as_is(batch_of(b"b", options=BatchOptions(base_offset=9)), now_ms=NOW_MS)

    assert offsets_of(log.read(2, 1000)) == [9]


def test_a_read_at_the_end_is_empty() -> None:
    log = log_of_segments(1)

    assert log.read(2, 1000) == LogRead(b"", 2)
    assert open_log().read(0, 1000) == LogRead(b"", 0)


@pytest.mark.parametrize("offset", [-1, 1, 5])
def test_a_read_outside_of_the_log_says_where_the_log_is(offset: int) -> None:
    log = log_of_segments(2)
    log.advance_start(2)

    assert log.read(offset, 1000) == OffsetOutOfRange(offset, 2, 4)


@pytest.mark.parametrize("max_bytes", [1, 80, 200, 1000, 100_000])
def test_pieces_of_any_size_give_the_whole_log(max_bytes: int) -> None:
    log = open_log(segment_bytes=2000, index_interval_bytes=200)
    values = [b"%d" % i * (i % 30) for i in range(200)]
    append_all(log, values)

    found = [
        value for batch in read_all(log, max_bytes=max_bytes) for *_, value, _ in batch.records()
    ]

    assert found == values


def test_old_segments_do_not_keep_their_indexes_in_memory() -> None:
    log = log_of_segments(6)

    for offset in (0, 2, 4, 6, 8):
        log.read(offset + 1, 1000)

    loaded = [segment for segment in log.segments if segment._indexes is not None]
    assert len(loaded) <= 3
