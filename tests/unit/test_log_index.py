"""Where in a segment an offset or a time is found."""

import pytest

from ottla.errors import StorageError
from ottla.log.index import Indexes, OffsetIndex, TimeEntry, TimeIndex, last_timestamp_of


def offset_index(*entries: tuple[int, int]) -> OffsetIndex:
    index = OffsetIndex()
    for relative_offset, position in entries:
        index.append(relative_offset, position)
    return index


def time_index(*entries: tuple[int, int]) -> TimeIndex:
    index = TimeIndex()
    for timestamp_ms, relative_offset in entries:
        index.append(timestamp_ms, relative_offset)
    return index


def test_an_offset_index_is_written_as_pairs_of_big_endian_integers() -> None:
    index = offset_index((5, 4096), (0x01020304, 0x0A0B0C0D))

    assert index.to_bytes() == bytes.fromhex("00000005 00001000 01020304 0a0b0c0d")


def test_an_offset_index_reads_what_it_wrote() -> None:
    index = offset_index((5, 4096), (90, 9000), (91, 20000))

    again = OffsetIndex.parse(index.to_bytes(), log_size_bytes=20001)

    assert [again.entry(number) for number in range(len(again))] == [
        (5, 4096),
        (90, 9000),
        (91, 20000),
    ]


@pytest.mark.parametrize(
    ("data", "log_size_bytes"),
    [
        (b"\0" * 7, 100),
        (b"\0" * 16, 100),
        (bytes.fromhex("00000005 00001000"), 4096),
        (bytes.fromhex("00000009 00000010 00000005 00000020"), 100),
    ],
    ids=["half an entry", "zeros", "beyond the log", "going back"],
)
def test_a_damaged_offset_index_is_refused(data: bytes, log_size_bytes: int) -> None:
    with pytest.raises(StorageError):
        OffsetIndex.parse(data, log_size_bytes=log_size_bytes)


@pytest.mark.parametrize(
    ("relative_offset", "position"), [(0, 0), (4, 0), (5, 100), (6, 100), (9, 200), (10**6, 200)]
)
def test_a_walk_starts_at_the_last_batch_that_ends_at_or_below_the_offset(
    relative_offset: int, position: int
) -> None:
    assert offset_index((5, 100), (9, 200)).position_for(relative_offset) == position


@pytest.mark.parametrize(
    ("below", "limit", "position"),
    [(5, 1000, 0), (6, 1000, 100), (10, 1000, 200), (10, 200, 100), (10, 100, 0)],
)
def test_the_end_of_a_read_is_sought_below_both_limits(
    below: int, limit: int, position: int
) -> None:
    assert offset_index((5, 100), (9, 200)).last_position_within(below, limit) == position


def test_a_truncated_offset_index_has_no_entry_at_or_above_the_offset() -> None:
    index = offset_index((5, 100), (9, 200), (12, 300))

    index.truncate_to(9)

    assert index.to_bytes() == offset_index((5, 100)).to_bytes()


def test_a_time_index_is_written_as_timestamp_and_offset_both_big_endian() -> None:
    index = time_index((0x0102030405060708, 0x0A0B0C0D))

    assert index.to_bytes() == bytes.fromhex("0102030405060708 0a0b0c0d")


def test_a_time_index_reads_what_it_wrote() -> None:
    index = time_index((1000, 5), (2000, 90), (2**60, 2**31 - 1))

    again = TimeIndex.parse(index.to_bytes())

    assert again.to_bytes() == index.to_bytes()
    assert again.last() == TimeEntry(2**60, 2**31 - 1)


@pytest.mark.parametrize(
    "data",
    [
        b"\0" * 13,
        bytes.fromhex("ffffffffffffffff 00000005"),
        bytes.fromhex("0000000000000009 00000005 0000000000000005 00000009"),
        bytes.fromhex("0000000000000005 00000009 0000000000000009 00000005"),
    ],
    ids=["a byte too much", "negative time", "time going back", "offset going back"],
)
def test_a_damaged_time_index_is_refused(data: bytes) -> None:
    with pytest.raises(StorageError):
        TimeIndex.parse(data)


def test_a_time_index_has_entries_only_for_records_younger_than_all_before() -> None:
    index = time_index((1000, 5), (1000, 9), (900, 12), (1001, 15))

    assert index.to_bytes() == time_index((1000, 5), (1001, 15)).to_bytes()


@pytest.mark.parametrize(
    ("timestamp_ms", "relative_offset"), [(999, 0), (1000, 0), (1001, 5), (2000, 5), (2001, 9)]
)
def test_everything_below_the_found_offset_is_older(
    timestamp_ms: int, relative_offset: int
) -> None:
    assert time_index((1000, 5), (2000, 9)).offset_before(timestamp_ms) == relative_offset


def test_the_last_entry_of_a_time_index_can_be_read_alone() -> None:
    assert last_timestamp_of(time_index((1000, 5)).to_bytes()) == TimeEntry(1000, 5)
    assert last_timestamp_of(b"") is None


@pytest.mark.parametrize("tail", [b"\0" * 4, b"\xff" * 12])
def test_an_entry_that_cannot_be_is_refused(tail: bytes) -> None:
    with pytest.raises(StorageError):
        last_timestamp_of(tail)


def indexes(interval_bytes: int = 100) -> Indexes:
    return Indexes(1000, interval_bytes)


def test_a_batch_gets_entries_once_the_last_ones_are_an_interval_behind() -> None:
    both = indexes()
    both.note(0, 101, last_offset=1004, max_timestamp_ms=70)
    both.note(101, 60, last_offset=1006, max_timestamp_ms=50)
    both.note(161, 60, last_offset=1008, max_timestamp_ms=90)
    both.note(221, 60, last_offset=1010, max_timestamp_ms=80)

    offsets, times = both.to_bytes()

    assert offsets == offset_index((6, 101), (10, 221)).to_bytes()
    assert times == time_index((70, 4), (90, 8)).to_bytes()


def test_the_last_time_entry_is_the_largest_timestamp_of_the_segment() -> None:
    both = indexes(interval_bytes=10_000)
    both.note(0, 100, last_offset=1004, max_timestamp_ms=70)
    both.note(100, 100, last_offset=1009, max_timestamp_ms=60)

    assert both.to_bytes()[1] == time_index((70, 4)).to_bytes()


def test_a_batch_without_timestamp_leaves_the_time_index_empty() -> None:
    both = indexes()
    both.note(0, 200, last_offset=1004, max_timestamp_ms=-1)
    both.note(200, 200, last_offset=1009, max_timestamp_ms=-1)

    assert both.to_bytes() == (offset_index((9, 200)).to_bytes(), b"")


def test_the_time_index_keeps_a_place_for_its_last_entry() -> None:
    both = indexes(interval_bytes=0)
    both.note(0, 10, last_offset=1000, max_timestamp_ms=1)
    assert both.has_room(24)

    both.note(10, 10, last_offset=1001, max_timestamp_ms=2)

    assert not both.has_room(24)
    assert both.has_room(36)
