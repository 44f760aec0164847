"""What a log finds by time and by epoch, and what it knows of producers and transactions."""

from functools import partial

import pytest

from ottla.log.leader_epochs import EpochEnd
from ottla.log.log import Log
from ottla.log.search import TimedOffset
from ottla.log.segment import MAX_RESUME_POINTS, LogRead
from ottla.log.segments import MAX_WARM_SEGMENTS
from ottla.ports import ColdReadError
from ottla.records.batch import Batch
from ottla.records.builder import BatchOptions
from ottla.records.compression import Compression
from ottla.records.control import Marker, build_marker
from ottla.testing.disk import SimDisk
from tests.log_samples import (
    EPOCH,
    FOLDER,
    NOW_MS,
    append_all,
    batch_of,
    log_config,
    open_log,
)


def timed_log(segment_bytes: int = 10**6) -> Log:
    """Batches at 1000, 900, 2000, each with two records a millisecond apart."""
    log = open_log(index_interval_bytes=0, segment_bytes=segment_bytes)
    for timestamp_ms in (1000, 900, 2000):
        batch = batch_of(b"a", b"b", timestamp_ms=timestamp_ms)
        log.append(batch, leader_epoch=EPOCH, now_ms=NOW_MS)
    return log


def test_no_more_readers_are_remembered_than_there_is_room_for() -> None:
    log = open_log()
    append_all(log, [b"value"] * (MAX_RESUME_POINTS + 5))
    (segment,) = log.segments

    for offset in range(MAX_RESUME_POINTS + 5):
        log.read(offset, 1)

    assert len(segment._resume_points) == MAX_RESUME_POINTS
    assert log.next_offset in segment._resume_points, "who came last may come again"


@pytest.mark.parametrize("unseen_count", [0, 1, 2], ids=["all", "all but one", "all but two"])
@pytest.mark.parametrize("max_bytes", [1, 150, 10**6])
def test_who_reads_on_finds_what_everybody_finds(max_bytes: int, unseen_count: int) -> None:
    log = open_log()
    offset = 0
    for count in (1, 1, 3, 2):
        append_all(log, [b"value"] * count)
        (segment,) = log.segments
        below_offset = log.next_offset - unseen_count
        remembered = log.read(offset, max_bytes, below_offset=below_offset)
        segment._resume_points.clear()
        assert log.read(offset, max_bytes, below_offset=below_offset) == remembered
        assert isinstance(remembered, LogRead)
        offset = remembered.next_offset
    assert offset > 1, "something was read on"


@pytest.mark.parametrize("segment_bytes", [1, 10**6], ids=["many segments", "one segment"])
@pytest.mark.parametrize(
    ("timestamp_ms", "found"),
    [
        (0, TimedOffset(0, 1000, EPOCH)),
        (1000, TimedOffset(0, 1000, EPOCH)),
        (1001, TimedOffset(1, 1001, EPOCH)),
        (1002, TimedOffset(4, 2000, EPOCH)),
        (2001, TimedOffset(5, 2001, EPOCH)),
        (2002, None),
    ],
)
def test_a_time_leads_to_the_first_record_that_is_not_older(
    timestamp_ms: int, found: TimedOffset | None, segment_bytes: int
) -> None:
    assert timed_log(segment_bytes=segment_bytes).offset_for_time(timestamp_ms) == found


def loaded_count(log: Log) -> int:
    """Of how many segments the indexes are in memory."""
    return sum(segment._indexes is not None for segment in log.segments)


def test_a_search_by_time_leaves_few_indexes_in_memory() -> None:
    log = open_log(segment_bytes=1)
    times_ms = range(1000, 9000, 1000)
    for timestamp_ms in times_ms:
        batch = batch_of(b"a", timestamp_ms=timestamp_ms)
        log.append(batch, leader_epoch=EPOCH, now_ms=NOW_MS)
    assert len(log.segments) == len(times_ms)

    assert all(log.offset_for_time(timestamp_ms) for timestamp_ms in times_ms)

    assert loaded_count(log) <= 1 + MAX_WARM_SEGMENTS


def test_reads_that_are_broken_off_leave_few_indexes_in_memory() -> None:
    disk = SimDisk()
    log = open_log(disk, segment_bytes=1)
    append_all(log, [bytes(10_000)] * 8)
    disk.chill()
    for segment in log.segments[:-1]:
        _ = segment.indexes  # so that what they are loaded from is in memory
        segment.forget_indexes()

    for offset in range(len(log.segments) - 1):
        with pytest.raises(ColdReadError):
            disk.at_once(partial(log.read, offset, 20_000))

    assert 1 < loaded_count(log) <= 1 + MAX_WARM_SEGMENTS


def test_records_below_the_start_are_not_found_by_time() -> None:
    log = timed_log()

    log.advance_start(1)

    assert log.offset_for_time(0) == TimedOffset(1, 1001, EPOCH)


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP, Compression.ZSTD])
def test_a_time_is_found_inside_of_a_compressed_batch(compression: Compression) -> None:
    log = open_log()
    batch = batch_of(*[b"v"] * 50, timestamp_ms=1000, options=BatchOptions(compression=compression))
    log.append(batch, leader_epoch=EPOCH, now_ms=NOW_MS)

    assert log.offset_for_time(1033) == TimedOffset(33, 1033, EPOCH)


@pytest.mark.parametrize("segment_bytes", [1, 10**6], ids=["many segments", "one segment"])
def test_the_youngest_record_is_found(segment_bytes: int) -> None:
    assert timed_log(segment_bytes=segment_bytes).max_timestamp() == TimedOffset(5, 2001, EPOCH)


def test_records_without_time_have_no_youngest() -> None:
    log = open_log()
    log.append(batch_of(b"a", timestamp_ms=-1), leader_epoch=EPOCH, now_ms=NOW_MS)

    assert log.max_timestamp() is None
    assert log.offset_for_time(0) is None
    assert open_log().max_timestamp() is None


def test_an_epoch_ends_where_the_next_one_begins() -> None:
    log = open_log()
    append_all(log, [b"a", b"b"], epoch=2)
    append_all(log, [b"c"], epoch=5)

    assert log.end_offset_for_epoch(2) == EpochEnd(2, 2)
    assert log.end_offset_for_epoch(5) == EpochEnd(5, 3)
    assert log.latest_epoch == 5


# Producers and transactions


def transactional(producer_id: int, sequence: int) -> BatchOptions:
    return BatchOptions(
        producer_id=producer_id, producer_epoch=0, base_sequence=sequence, is_transactional=True
    )


def marker(producer_id: int, *, is_commit: bool) -> Batch:
    end = Marker(
        is_commit=is_commit,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp_ms=NOW_MS,
    )
    return Batch.parse(build_marker(end))


def log_with_aborted(disk: SimDisk) -> Log:
    """Producer 7 aborts 0-1, marker 2; producer 8 commits 3, marker 4; 9 aborts 5, marker 6."""
    log = open_log(disk)
    for batch in (
        batch_of(b"a", b"b", options=transactional(7, 0)),
        marker(7, is_commit=False),
        batch_of(b"c", options=transactional(8, 0)),
        marker(8, is_commit=True),
    ):
        log.append(batch, leader_epoch=EPOCH, now_ms=NOW_MS)
    log.roll(NOW_MS)
    for batch in (batch_of(b"d", options=transactional(9, 0)), marker(9, is_commit=False)):
        log.append(batch, leader_epoch=EPOCH, now_ms=NOW_MS)
    return log


def aborted(log: Log, from_offset: int, to_offset: int) -> list[tuple[int, int]]:
    found = log.aborted_transactions(from_offset, to_offset)
    return [(entry.producer_id, entry.first_offset) for entry in found]


def test_the_log_knows_which_transactions_were_aborted() -> None:
    log = log_with_aborted(SimDisk())

    assert aborted(log, 0, 7) == [(7, 0), (9, 5)]
    assert aborted(log, 3, 5) == []


@pytest.mark.parametrize("was_clean", [True, False])
def test_aborted_transactions_are_known_after_a_restart(was_clean: bool) -> None:
    disk = SimDisk()
    log = log_with_aborted(disk)
    if was_clean:
        log.close()
    disk.end_process()

    again = Log.open(disk, FOLDER, log_config(), now_ms=NOW_MS, was_clean=was_clean)

    assert aborted(again, 0, 7) == [(7, 0), (9, 5)]


@pytest.mark.parametrize("was_clean", [True, False])
def test_producers_are_known_after_a_restart(was_clean: bool) -> None:
    disk = SimDisk()
    log = log_with_aborted(disk)
    log.append(batch_of(b"e", options=transactional(7, 2)), leader_epoch=EPOCH, now_ms=NOW_MS)
    if was_clean:
        log.close()
    disk.end_process()

    again = Log.open(disk, FOLDER, log_config(), now_ms=NOW_MS, was_clean=was_clean)

    assert again.producers.snapshot() == log.producers.snapshot()
    assert again.producers.first_undecided_offset == 7


def test_a_damaged_snapshot_is_passed_over() -> None:
    disk = SimDisk()
    log = log_with_aborted(disk)
    log.close()
    disk.open(f"{FOLDER}/{7:020d}.snapshot").write(10, b"\xff\xff")
    disk.end_process()

    again = Log.open(disk, FOLDER, log_config(), now_ms=NOW_MS, was_clean=True)

    assert again.producers.snapshot() == log.producers.snapshot()


def test_truncation_forgets_what_producers_did_after_it() -> None:
    log = log_with_aborted(SimDisk())

    log.truncate_to(6)

    assert aborted(log, 0, 6) == [(7, 0)]
    assert log.producers.first_undecided_offset == 5
