"""Compaction: what stays, what goes and when, and that nothing else changes."""

import pytest

from ottla.log import files
from ottla.log.compaction import grouped
from ottla.log.log import Log
from ottla.log.segment import LogRead
from ottla.records.batch import batches
from ottla.records.compression import Compression
from ottla.testing.disk import SimDisk
from tests.compaction_samples import (
    FOLDER,
    HOUR_MS,
    begin,
    committed_content_of,
    compact,
    content_of,
    end_transaction,
    new_log,
    open_log,
    put,
    run,
)
from tests.log_samples import NOW_MS, read_all

ADA, BOB = 7, 8


def reopened(disk: SimDisk, log: Log) -> Log:
    """The log after a crash in which everything was on disk."""
    log.sync()
    log.abandon()
    return open_log(disk, log.config)


# Records


def test_of_each_key_the_newest_record_stays_where_it_is() -> None:
    disk, log = new_log()
    put(log, (b"a", b"1"), (b"b", b"2"))
    put(log, (b"a", b"3"))
    put(log, (b"c", b"4"), (b"a", b"5"))

    assert compact(disk, log) == 5

    assert content_of(log) == [(1, b"b", b"2"), (3, b"c", b"4"), (4, b"a", b"5")]
    assert (log.start_offset, log.next_offset) == (0, 5)


def test_the_last_segment_is_never_cleaned() -> None:
    disk, log = new_log()
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    log.roll(NOW_MS)
    put(log, (b"a", b"3"))

    run(disk, begin(disk, log))

    assert content_of(log) == [(1, b"a", b"2"), (2, b"a", b"3")]


def test_records_without_a_key_go() -> None:
    disk, log = new_log()
    put(log, (None, b"1"), (b"a", b"2"))

    compact(disk, log)

    assert content_of(log) == [(1, b"a", b"2")]


def test_a_batch_that_loses_nothing_keeps_its_bytes() -> None:
    disk, log = new_log()
    put(log, (b"a", b"1"))
    put(log, (b"b", b"2"), compression=Compression.GZIP)
    put(log, (b"a", b"3"))
    before = [bytes(batch.data) for batch in read_all(log)]

    compact(disk, log)

    assert [bytes(batch.data) for batch in read_all(log)] == before[1:]


@pytest.mark.parametrize("codec", Compression)
def test_a_batch_that_loses_records_keeps_all_else(codec: Compression) -> None:
    disk, log = new_log()
    put(log, *((b"%d" % n, b"x" * 50) for n in range(9)), compression=codec)
    put(log, *((b"%d" % n, b"y") for n in range(0, 9, 2)))
    before = read_all(log)[0]

    compact(disk, log)

    after = read_all(log)[0]
    after.check_crc()
    assert [record[2] for record in after.records()] == [b"1", b"3", b"5", b"7"]
    assert [record[0] for record in after.records()] == [1, 3, 5, 7]
    assert after.record_count == 4
    assert after.size_bytes < before.size_bytes
    for same in ("base_offset", "last_offset", "attributes", "base_timestamp_ms", "base_sequence"):
        assert getattr(after, same) == getattr(before, same), same
    assert after.partition_leader_epoch == before.partition_leader_epoch


def test_the_largest_timestamp_is_that_of_the_records_that_stay() -> None:
    disk, log = new_log()
    put(log, (b"a", b"1"), (b"b", b"1"), timestamp_ms=NOW_MS + 100)
    put(log, (b"a", b"2"), timestamp_ms=NOW_MS)
    put(log, (b"c", b"2"), timestamp_ms=NOW_MS)

    compact(disk, log)

    assert [batch.max_timestamp_ms for batch in read_all(log)] == [NOW_MS + 100, NOW_MS, NOW_MS]


def test_a_read_inside_a_hole_goes_on_with_the_next_record() -> None:
    disk, log = new_log(segment_bytes=10_000)
    for number in range(30):
        put(log, (b"a", b"%d" % number))
    put(log, (b"b", b"end"))

    compact(disk, log)

    found = log.read(5, 1000)
    assert isinstance(found, LogRead)
    assert [batch.base_offset for batch in batches(found.data, partial_tail=False)] == [29, 30]


def test_small_segments_become_few_large_ones() -> None:
    disk, log = new_log(segment_bytes=300)
    for number in range(40):
        put(log, (b"%d" % (number % 4), b"%d" % number))
    assert len(log.segments) == 10

    compact(disk, log)  # leaves little of each segment
    compact(disk, log)  # puts that together

    assert len(log.segments) == 5
    assert [key for _, key, _ in content_of(log)] == [b"0", b"1", b"2", b"3"]


def test_segments_are_grouped_up_to_the_size_of_one() -> None:
    _, log = new_log(segment_bytes=200)
    for number in range(12):
        put(log, (b"%d" % number, b"x" * 40))
    sizes = [segment.size_bytes for segment in log.segments]

    groups = list(grouped(log.segments, 2 * max(sizes)))

    assert [segment for group in groups for segment in group] == list(log.segments)
    assert [len(group) for group in groups] == [2] * (len(sizes) // 2) + [1] * (len(sizes) % 2)


def test_a_segment_in_which_nothing_changes_is_not_replaced() -> None:
    disk, log = new_log()
    put(log, (b"a", b"1"))
    log.roll(NOW_MS)
    old = log.segments[0]

    compaction = begin(disk, log)
    run(disk, compaction)

    assert log.segments[0] is old
    assert [name for name in disk.names(FOLDER) if name.endswith(files.CLEANED)] == []


def test_no_gap_is_left_between_segments() -> None:
    disk, log = new_log(segment_bytes=200)
    for number in range(12):
        put(log, (b"a", b"%d" % number), (b"b", b"%d" % number))

    compact(disk, log)

    ends = [segment.next_offset for segment in log.segments[:-1]]
    assert ends == [segment.base_offset for segment in log.segments[1:]]
    assert content_of(reopened(disk, log)) == [(22, b"a", b"11"), (23, b"b", b"11")]


# Tombstones


def test_a_tombstone_deletes_what_came_before_and_stays_for_a_while() -> None:
    disk, log = new_log()
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", None))
    put(log, (b"end", b"."))

    compact(disk, log)

    assert content_of(log) == [(1, b"b", b"1"), (2, b"a", None), (3, b"end", b".")]


def test_a_tombstone_goes_with_the_first_cleaning_after_its_time() -> None:
    disk, log = new_log()
    put(log, (b"a", None))
    put(log, (b"end", b"."))
    compact(disk, log)
    assert read_all(log)[0].delete_horizon_ms == NOW_MS + HOUR_MS

    compact(disk, log, now_ms=NOW_MS + HOUR_MS - 1)
    assert content_of(log) == [(0, b"a", None), (1, b"end", b".")]

    compact(disk, log, now_ms=NOW_MS + HOUR_MS)
    assert content_of(log) == [(1, b"end", b".")]


def test_the_time_of_a_tombstone_begins_with_its_first_cleaning_and_not_with_the_second() -> None:
    disk, log = new_log()
    put(log, (b"a", None))
    put(log, (b"end", b"."))
    compact(disk, log)
    compact(disk, log, now_ms=NOW_MS + 10)

    assert read_all(log)[0].delete_horizon_ms == NOW_MS + HOUR_MS


@pytest.mark.parametrize("codec", Compression)
def test_records_keep_their_timestamps_when_a_delete_horizon_is_set(codec: Compression) -> None:
    disk, log = new_log()
    put(log, (b"a", None), (b"b", b"2"), (b"c", None), compression=codec)
    put(log, (b"c", b"3"))

    compact(disk, log)

    batch = read_all(log)[0]
    batch.check_crc()
    assert batch.delete_horizon_ms == NOW_MS + HOUR_MS
    assert batch.max_timestamp_ms == NOW_MS
    assert [record[:4] for record in batch.records()] == [
        (0, NOW_MS, b"a", None),
        (1, NOW_MS, b"b", b"2"),
    ]


def test_a_delete_horizon_never_passes_the_largest_time_there_is() -> None:
    disk, log = new_log(delete_retention_ms=2**63 - 1)
    put(log, (b"a", None))

    compact(disk, log)

    assert read_all(log)[0].delete_horizon_ms == 2**63 - 1
    assert content_of(log) == [(0, b"a", None)]


# Producers


def test_the_last_batch_of_a_producer_stays_with_its_sequence_number() -> None:
    disk, log = new_log()
    put(log, (b"a", b"1"), (b"a", b"2"), producer_id=ADA, sequence=0)
    put(log, (b"a", b"3"), producer_id=ADA, sequence=2, compression=Compression.GZIP)
    put(log, (b"a", b"4"))

    compact(disk, log)

    left, last = read_all(log)
    left.check_crc()
    assert left.compression is Compression.NONE
    assert (left.record_count, left.producer_id, left.last_sequence) == (0, ADA, 2)
    assert last.record_count == 1
    recovered = reopened(disk, log).producers.of(ADA)
    assert recovered is not None
    assert (recovered.last_sequence, recovered.last_data_offset) == (2, 2)


def test_a_producer_that_was_forgotten_leaves_no_batch_behind() -> None:
    disk, log = new_log()
    put(log, (b"a", b"1"), producer_id=ADA, sequence=0)
    put(log, (b"a", b"2"))
    log.producers.expire(NOW_MS, HOUR_MS)
    log.producers.expire(NOW_MS + HOUR_MS, HOUR_MS)

    compact(disk, log)

    assert [batch.producer_id for batch in read_all(log)] == [-1]


# Transactions


def test_aborted_records_go_and_do_not_hide_older_ones() -> None:
    disk, log = new_log()
    put(log, (b"a", b"good"))
    put(log, (b"a", b"bad"), producer_id=ADA, sequence=0, transactional=True)
    end_transaction(log, ADA, commit=False)
    put(log, (b"b", b"."))

    compact(disk, log)

    assert content_of(log) == [(0, b"a", b"good"), (3, b"b", b".")]
    assert committed_content_of(log) == content_of(log)


def test_committed_records_count_like_others() -> None:
    disk, log = new_log()
    put(log, (b"a", b"old"))
    put(log, (b"a", b"new"), producer_id=ADA, sequence=0, transactional=True)
    end_transaction(log, ADA, commit=True)

    compact(disk, log)

    assert content_of(log) == [(1, b"a", b"new")]


def test_an_open_transaction_holds_up_everything_from_its_segment_on() -> None:
    disk, log = new_log()
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    log.roll(NOW_MS)
    put(log, (b"a", b"3"), producer_id=ADA, sequence=0, transactional=True)
    put(log, (b"a", b"4"))

    assert compact(disk, log) == 2

    assert content_of(log) == [(1, b"a", b"2"), (2, b"a", b"3"), (3, b"a", b"4")]


def kinds(log: Log) -> list[str]:
    """Each batch in a word: data, marker, or empty."""
    return [
        "empty" if not batch.record_count else "marker" if batch.is_control else "data"
        for batch in read_all(log)
    ]


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_a_marker_outlives_the_data_of_its_transaction(commit: bool) -> None:
    disk, log = new_log(segment_bytes=10_000)
    put(log, (b"a", b"1"), producer_id=ADA, sequence=0, transactional=True)
    end_transaction(log, ADA, commit=commit)
    put(log, (b"a", b"2"), producer_id=ADA, sequence=1)
    put(log, (b"b", b"."))

    compact(disk, log)
    assert kinds(log) == ["marker", "data", "data"]
    marker = read_all(log)[0]
    assert marker.delete_horizon_ms is None

    compact(disk, log, now_ms=NOW_MS + 1)
    assert read_all(log)[0].delete_horizon_ms == NOW_MS + 1 + HOUR_MS

    compact(disk, log, now_ms=NOW_MS + HOUR_MS)
    assert kinds(log) == ["marker", "data", "data"]

    compact(disk, log, now_ms=NOW_MS + 1 + HOUR_MS)
    assert kinds(log) == ["data", "data"]


def test_each_marker_depends_on_the_data_of_its_own_transaction() -> None:
    disk, log = new_log(segment_bytes=10_000)
    put(log, (b"a", b"1"), producer_id=ADA, sequence=0, transactional=True)
    needed = end_transaction(log, ADA, commit=True)
    put(log, (b"b", b"1"), producer_id=ADA, sequence=1, transactional=True)
    end_transaction(log, ADA, commit=True)
    put(log, (b"b", b"2"), producer_id=ADA, sequence=2)

    for round_number in range(4):
        compact(disk, log, now_ms=NOW_MS + round_number * 2 * HOUR_MS)

    assert [batch.base_offset for batch in read_all(log) if batch.is_control] == [needed]


def test_a_marker_stays_as_long_as_an_empty_batch_of_its_transaction_does() -> None:
    disk, log = new_log(segment_bytes=10_000)
    put(log, (b"a", b"1"), producer_id=ADA, sequence=0, transactional=True)
    end_transaction(log, ADA, commit=False)
    put(log, (b"b", b"."))

    for round_number in range(4):
        compact(disk, log, now_ms=NOW_MS + round_number * 2 * HOUR_MS)

    assert kinds(log) == ["empty", "marker", "data"]
    recovered = reopened(disk, log)
    assert recovered.producers.first_undecided_offset is None


@pytest.mark.parametrize("segment_bytes", [200, 250, 10_000])
def test_the_transaction_index_follows_the_marker_into_the_new_segment(segment_bytes: int) -> None:
    disk, log = new_log(segment_bytes=segment_bytes)
    put(log, (b"a", b"1"), producer_id=ADA, sequence=0, transactional=True)
    put(log, (b"b", b"1"), producer_id=BOB, sequence=0, transactional=True)
    put(log, (b"c", b"1"))
    end_transaction(log, ADA, commit=False)
    end_transaction(log, BOB, commit=True)
    put(log, (b"d", b"0"), (b"d", b"1"))
    before = log.aborted_transactions(0, log.next_offset)

    compact(disk, log)

    assert [entry.producer_id for entry in before] == [ADA]
    assert log.aborted_transactions(0, log.next_offset) == before
    assert committed_content_of(log) == [(1, b"b", b"1"), (2, b"c", b"1"), (6, b"d", b"1")]
    log.close()
    again = Log.open(disk, FOLDER, log.config, now_ms=NOW_MS, was_clean=True)
    assert again.aborted_transactions(0, again.next_offset) == before
