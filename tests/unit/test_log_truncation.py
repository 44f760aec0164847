"""What a log drops, from either end, and what it calls durable."""

from pathlib import Path

import pytest

from ottla.log import files
from ottla.log.leader_epochs import EpochEnd
from ottla.log.log import Log
from ottla.log.search import TimedOffset
from ottla.log.view import OffsetOutOfRange
from ottla.runtime.disk import RealDisk
from ottla.testing.disk import SimDisk
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
    values_in,
)


@pytest.mark.parametrize(
    ("offset", "next_offset"), [(0, 0), (1, 1), (2, 2), (5, 5), (6, 6), (9, 6)]
)
def test_truncation_drops_everything_from_the_offset_on(offset: int, next_offset: int) -> None:
    log = log_of_segments(3)

    assert log.truncation_point(offset) == next_offset
    log.truncate_to(offset)

    assert log.next_offset == next_offset
    assert values_in(log) == [b"%d" % i for i in range(next_offset)]


def test_truncation_inside_of_a_batch_drops_the_whole_batch() -> None:
    log = open_log()
    append_all(log, [b"a"])
    log.append(batch_of(b"b", b"c", b"d"), leader_epoch=EPOCH, now_ms=NOW_MS)

    assert log.truncation_point(3) == 1
    log.truncate_to(3)

    assert log.next_offset == 1


def test_truncation_leaves_what_appends_need() -> None:
    log = open_log(segment_bytes=1000, index_interval_bytes=100)
    append_all(log, [b"%d" % i for i in range(30)], epoch=2)

    log.truncate_to(17)
    append_all(log, [b"%d" % i for i in range(17, 40)], epoch=4)

    assert values_in(log) == [b"%d" % i for i in range(40)]
    assert log.end_offset_for_epoch(2) == EpochEnd(2, 17)
    assert log.max_timestamp() == TimedOffset(0, NOW_MS, 2)


def test_truncation_below_the_start_moves_the_start() -> None:
    log = log_of_segments(3)
    log.advance_start(4)

    log.truncate_to(2)

    assert (log.start_offset, log.next_offset) == (2, 2)


def test_truncation_before_the_first_segment_starts_over() -> None:
    disk = SimDisk()
    log = open_log(disk, start_offset=10)
    append_all(log, [b"a"])

    log.truncate_to(5)

    assert (log.start_offset, log.next_offset) == (5, 5)
    assert [name for name in names_in(disk) if name.endswith(files.LOG)] == [
        "00000000000000000005.log"
    ]


@pytest.mark.parametrize("offset", [0, 3, 6, 100])
def test_a_log_can_start_over_at_any_offset(offset: int) -> None:
    disk = SimDisk()
    log = log_of_segments(3, disk)

    log.truncate_fully_and_start_at(offset)
    append_all(log, [b"z"])

    assert (log.start_offset, log.next_offset) == (offset, offset + 1)
    assert values_in(log) == [b"z"]
    assert log.latest_epoch == EPOCH
    assert not [name for name in names_in(disk) if name.endswith(files.DELETED)]


def test_records_below_the_start_cannot_be_read() -> None:
    log = log_of_segments(3)

    log.advance_start(3)

    assert isinstance(log.read(2, 1000), OffsetOutOfRange)
    assert values_in(log) == [b"3", b"4", b"5"]


def test_the_start_never_goes_back() -> None:
    log = log_of_segments(3)
    log.advance_start(3)

    log.advance_start(1)

    assert log.start_offset == 3


def test_segments_below_the_start_are_renamed_and_left_to_be_removed() -> None:
    disk = SimDisk()
    log = log_of_segments(3, disk)
    log.advance_start(3)

    paths = log.delete_old_segments(NOW_MS)

    assert [segment.base_offset for segment in log.segments] == [2, 4, 6]
    assert f"{FOLDER}/00000000000000000000.log.deleted" in paths
    assert all(disk.exists(path) and path.endswith(files.DELETED) for path in paths)


def test_a_log_whose_records_are_all_deleted_keeps_its_next_offset() -> None:
    disk = SimDisk()
    log = open_log(disk)
    append_all(log, [b"a", b"b", b"c"])
    log.advance_start(3)

    for path in log.delete_old_segments(NOW_MS):
        disk.remove(path)

    logs = [name for name in names_in(disk) if name.endswith(files.LOG)]
    assert logs == ["00000000000000000003.log"]
    assert Log.open(disk, FOLDER, log_config(), now_ms=NOW_MS).next_offset == 3


# Durability


def test_a_sync_covers_what_was_there_when_it_began() -> None:
    log = open_log()
    append_all(log, [b"a"])
    up_to = log.next_offset
    syncing = log.unsynced_files()
    append_all(log, [b"b"])

    log.mark_synced(up_to)

    folder, file = syncing
    assert folder.path == FOLDER, "the first records make the name of their segment durable, too"
    assert log.synced_offset == 1
    assert log.unsynced_files() == [file]


def test_a_rolled_segment_is_synced_before_the_next() -> None:
    log = open_log()
    append_all(log, [b"a"])
    log.roll(NOW_MS)
    append_all(log, [b"b"])

    paths = [file.path for file in log.unsynced_files()]

    kinds = [path.removeprefix(f"{FOLDER}/") for path in paths]
    assert kinds[:2] == [FOLDER, "00000000000000000000.log"]
    assert kinds[-1] == "00000000000000000001.log"
    assert "00000000000000000000.index" in kinds


def test_a_sync_that_a_truncation_overtook_promises_less() -> None:
    log = open_log()
    append_all(log, [b"a", b"b", b"c"])
    up_to = log.next_offset
    log.unsynced_files()

    log.truncate_to(1)
    append_all(log, [b"d", b"e", b"f"])
    log.mark_synced(up_to)

    assert log.synced_offset == 1


def test_syncs_that_overlap_are_finished_one_by_one() -> None:
    log = open_log()
    append_all(log, [b"a"])
    log.unsynced_files()
    log.roll(NOW_MS)
    append_all(log, [b"b"])
    paths = [file.path.removeprefix(f"{FOLDER}/") for file in log.unsynced_files()]

    assert paths[1] == "00000000000000000000.log", "the older file first, as if nobody synced it"
    log.mark_synced(1)
    assert log.synced_offset == 1
    log.mark_synced(2)
    assert log.synced_offset == 2
    assert log.unsynced_files() == []


def test_a_sync_that_began_after_a_truncation_says_nothing_of_those_before() -> None:
    log = open_log()
    append_all(log, [b"a", b"b", b"c"])
    log.unsynced_files()
    log.truncate_to(1)
    append_all(log, [b"d", b"e"])
    log.unsynced_files()

    log.mark_synced(3)
    assert log.synced_offset == 1, "it began before the truncation, at the same offset"
    log.mark_synced(3)
    assert log.synced_offset == 3


def test_nothing_is_left_to_sync_after_a_sync() -> None:
    log = log_of_segments(3)

    log.sync()

    assert log.synced_offset == 6
    assert log.unsynced_files() == []


def test_closing_again_writes_nothing_again() -> None:
    disk = SimDisk()
    log = log_of_segments(2, disk)
    log.close()
    operation_count = disk.operation_count

    log.close()

    assert disk.operation_count == operation_count


def test_a_log_works_on_a_real_disk(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    config = log_config(segment_bytes=1000, index_interval_bytes=100)
    log = Log.open(disk, FOLDER, config, now_ms=NOW_MS)
    append_all(log, [b"%d" % i for i in range(100)])
    log.truncate_to(90)
    log.advance_start(30)
    for path in log.delete_old_segments(NOW_MS):
        disk.remove(path)
    log.close()

    again = Log.open(
        disk,
        FOLDER,
        config,
        now_ms=NOW_MS,
        recovery_point=90,
        start_offset=30,
        was_clean=True,
    )

    assert values_in(again) == [b"%d" % i for i in range(30, 90)]
    disk.close()
