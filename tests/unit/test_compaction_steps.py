"""Compaction in steps: within its budget, given up without harm, and only when it is time."""

import errno

import pytest

from ottla.errors import StorageError
from ottla.log import files
from ottla.log.checkpoints import read_file, write_offsets
from ottla.log.compaction import survey
from ottla.log.files import CLEANED_OFFSETS
from ottla.log.log import Log
from ottla.log.retention import apply_retention
from ottla.records.batch import Batch
from ottla.records.builder import BatchOptions, build
from ottla.records.compression import Compression
from ottla.testing.disk import SimDisk
from tests.compaction_samples import (
    FOLDER,
    begin,
    cleaner_config,
    compact,
    compacted_config,
    content_of,
    dirt_of,
    new_log,
    open_log,
    put,
    run,
)
from tests.log_samples import NOW_MS

# In steps


def test_many_keys_are_cleaned_in_several_passes_within_the_budget() -> None:
    disk, log = new_log()
    for number in range(60):
        put(log, (b"%d" % (number % 20), b"%d" % number))
    log.roll(NOW_MS)
    config = cleaner_config(dedupe_buffer_bytes=24 * 7)

    cleaned_offset: int | None = None
    passes = 0
    while cleaned_offset != log.next_offset:
        compaction = begin(disk, log, cleaned_offset=cleaned_offset, config=config)
        assert compaction.map_bytes <= 24 * 7
        cleaned_offset = run(disk, compaction)
        passes += 1

    assert passes > 3
    assert [offset for offset, _, _ in content_of(log)] == list(range(40, 60))


def test_a_map_that_fills_up_inside_a_batch_leaves_the_rest_of_it_alone() -> None:
    disk, log = new_log()
    put(log, (b"a", b"1"), (b"b", b"1"), (b"c", b"1"))
    put(log, (b"c", b"2"), (b"a", b"2"))
    config = cleaner_config(dedupe_buffer_bytes=24 * 3)

    assert compact(disk, log, config=config) == 2

    assert [offset for offset, _, _ in content_of(log)] == [0, 1, 2, 3, 4]


def test_what_the_map_does_not_cover_stays_whatever_it_is() -> None:
    disk, log = new_log(segment_bytes=10_000)
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"c", b"1"), (None, b"no key"))
    config = cleaner_config(dedupe_buffer_bytes=24 * 3)

    assert compact(disk, log, config=config) == 2

    assert content_of(log)[-1] == (3, None, b"no key")


def test_a_step_is_small_and_the_log_goes_on_in_between() -> None:
    disk, log = new_log(segment_bytes=2_000_000)
    pairs = [(b"%d" % (number % 900), b"x" * 10) for number in range(3000)]
    put(log, *pairs)
    log.roll(NOW_MS)
    compaction = begin(disk, log)

    steps = 0
    while not compaction.is_done:
        for file in compaction.step():
            file.sync()
        put(log, (b"new", b"%d" % steps))
        steps += 1

    assert steps > 6
    found = content_of(log)
    assert [offset for offset, _, _ in found[:900]] == list(range(2100, 3000))
    assert [value for _, _, value in found[900:]] == [b"%d" % number for number in range(steps)]


def test_an_abandoned_compaction_leaves_no_trace() -> None:
    disk, log = new_log(segment_bytes=100_000)
    put(log, *((b"%d" % (number % 9), b"x") for number in range(3000)))
    log.roll(NOW_MS)
    before = content_of(log)
    steps = 0
    while True:
        compaction = begin(disk, log)
        for _ in range(steps):
            compaction.step()
        if log.is_replacing:
            break
        names = disk.names(FOLDER)
        compaction.abandon()
        assert content_of(log) == before
        assert unfinished(disk) == []
        steps += 1
    assert any(name.endswith(files.CLEANED) for name in names)


def unfinished(disk: SimDisk) -> list[str]:
    return [name for name in disk.names(FOLDER) if name.endswith((files.CLEANED, files.SWAP))]


@pytest.mark.parametrize("more_steps", range(3))
def test_a_compaction_that_is_abandoned_after_its_decision_is_completed_by_the_next_start(
    more_steps: int,
) -> None:
    disk, log = new_log(segment_bytes=100_000)
    put(log, *((b"%d" % (number % 9), b"x") for number in range(3000)))
    log.roll(NOW_MS)
    compaction = begin(disk, log)
    while not log.is_replacing:
        compaction.step()
    for _ in range(more_steps):
        compaction.step()

    compaction.abandon()
    log.close()
    assert unfinished(disk) or more_steps == 2
    again = Log.open(disk, FOLDER, log.config, now_ms=NOW_MS, was_clean=True)

    assert [offset for offset, _, _ in content_of(again)] == list(range(2991, 3000))
    assert unfinished(disk) == []


def test_nothing_is_deleted_from_a_log_whose_segments_are_being_replaced() -> None:
    disk, log = new_log(segment_bytes=100_000)
    put(log, *((b"%d" % (number % 9), b"x") for number in range(3000)))
    log.roll(NOW_MS)
    compaction = begin(disk, log)
    while not log.is_replacing:
        compaction.step()
    log.advance_start(log.next_offset)

    assert not apply_retention(log, now_ms=NOW_MS, high_watermark=log.next_offset)
    run(disk, compaction)
    assert apply_retention(log, now_ms=NOW_MS, high_watermark=log.next_offset)


def test_a_compacted_segment_reaches_as_far_as_the_old_one_did() -> None:
    disk, log = new_log(segment_bytes=100_000)
    put(log, (b"a", b"1"), (b"a", b"2"))
    far = BatchOptions(base_offset=2**31 + 5)  # too far for one index, so there is a gap
    log.append_as_is(Batch.parse(build([(NOW_MS, b"b", b"3", ())], far)), now_ms=NOW_MS)
    before = [segment.next_offset for segment in log.segments]

    run(disk, begin(disk, log))

    assert [segment.next_offset for segment in log.segments] == before
    assert [key for _, key, _ in content_of(log)] == [b"a", b"b"]


def test_no_step_waits_for_the_disk() -> None:
    lines: list[str] = []
    disk = SimDisk(observe=lines.append)
    log = open_log(disk, compacted_config(segment_bytes=100_000))
    put(log, *((b"%d" % (number % 9), b"x") for number in range(300)))
    log.roll(NOW_MS)
    compaction = begin(disk, log)
    lines.clear()

    unsynced = 0
    while not compaction.is_done:
        unsynced += len(compaction.step())

    assert unsynced > 5, "others do the waiting"
    assert [line for line in lines if line.startswith("sync")] == []


def test_a_compaction_gives_up_when_its_segments_are_deleted() -> None:
    disk, log = new_log()
    for number in range(10):
        put(log, *((b"%d" % key, b"%d" % number) for key in range(20)))
    log.roll(NOW_MS)
    compaction = begin(disk, log)
    compaction.step()
    log.advance_start(log.next_offset)
    log.delete_old_segments(NOW_MS)

    compaction.step()

    assert compaction.is_done
    assert compaction.was_interrupted
    assert content_of(log) == []


class StubbornDisk(SimDisk):
    """Refuses to rename after a while."""

    renames_left = 10**9

    def rename(self, old: str, new: str) -> None:
        self.renames_left -= 1
        if self.renames_left < 0:
            raise OSError(errno.EIO, "no more renames", old)
        super().rename(old, new)


@pytest.mark.parametrize("renames", range(9))
def test_an_error_while_segments_are_replaced_loses_nothing(renames: int) -> None:
    disk = StubbornDisk()
    log = open_log(disk, compacted_config())
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", b"2"))
    log.roll(NOW_MS)
    compaction = begin(disk, log)
    disk.renames_left = renames

    with pytest.raises(OSError, match="no more renames"):
        run(disk, compaction)
    compaction.abandon()
    log.abandon()
    disk.renames_left = 10**9

    recovered = open_log(disk, compacted_config())
    assert content_of(recovered)[-2:] == [(1, b"b", b"1"), (2, b"a", b"2")]


@pytest.mark.parametrize("renames", range(9))
def test_a_log_goes_on_after_an_error_while_its_segments_were_replaced(renames: int) -> None:
    disk = StubbornDisk()
    log = open_log(disk, compacted_config())
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", b"2"))
    log.roll(NOW_MS)
    compaction = begin(disk, log)
    disk.renames_left = renames
    with pytest.raises(OSError, match="no more renames"):
        run(disk, compaction)
    compaction.abandon()
    disk.renames_left = 10**9

    assert log.is_replacing == (renames >= 3), "by then the first segment has its new name"
    if log.is_replacing:
        for _ in log.finish_replacing():
            disk.sync_folder(FOLDER)
    assert unfinished(disk) == []
    put(log, (b"b", b"2"), (b"c", b"1"))
    compact(disk, log)

    newest = [(2, b"a", b"2"), (3, b"b", b"2"), (4, b"c", b"1")]
    assert content_of(log) == newest
    assert not [name for name in disk.names(FOLDER) if name.endswith(".log.deleted")]
    log.abandon()
    assert content_of(open_log(disk, compacted_config())) == newest


def test_a_damaged_batch_is_reported_with_its_place_and_nothing_is_replaced() -> None:
    disk, log = new_log()
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    log.roll(NOW_MS)
    file = log.segments[0].file
    file.write(80, b"\xff")
    compaction = begin(disk, log)

    with pytest.raises(StorageError, match=r"00000000000000000000\.log is damaged at byte"):
        run(disk, compaction)
    compaction.abandon()

    assert log.segments[0].file.read(80, 1) == b"\xff"


def test_a_batch_that_decompresses_into_too_much_is_reported() -> None:
    disk, log = new_log(segment_bytes=100_000)
    put(log, (b"a", bytes(50_000)), compression=Compression.GZIP)
    log.roll(NOW_MS)
    compaction = begin(disk, log, max_decompressed_bytes=10_000)

    with pytest.raises(StorageError, match="byte 0"):
        run(disk, compaction)


# When it is time


def test_a_log_is_due_when_more_than_the_ratio_is_dirty() -> None:
    _, log = new_log(min_cleanable_dirty_ratio=0.5)
    for number in range(40):
        put(log, (b"%d" % number, b"x"))
    half = log.segments[len(log.segments) // 2].base_offset
    clean = log.segments[-1].base_offset

    assert dirt_of(log).ratio == 1.0
    assert dirt_of(log).is_due(log.config)
    assert 0 < dirt_of(log, cleaned_offset=half).ratio < 0.6
    later = log.segments[-3].base_offset
    assert not dirt_of(log, cleaned_offset=later).is_due(log.config)
    assert dirt_of(log, cleaned_offset=clean).dirty_bytes == 0
    assert not dirt_of(log, cleaned_offset=clean).is_due(log.config)


def test_a_log_that_is_not_compacted_is_never_due() -> None:
    _, log = new_log(cleanup_policy=("delete",))
    put(log, (b"a", b"1"))
    log.roll(NOW_MS)

    assert not dirt_of(log).is_due(log.config)


def test_what_power_loss_could_take_is_left_alone() -> None:
    _, log = new_log()
    put(log, (b"a", b"1"))
    log.roll(NOW_MS)
    log.sync()
    put(log, (b"a", b"2"))
    log.roll(NOW_MS)

    before = survey(log, cleaned_offset=None, last_stable_offset=2, now_ms=NOW_MS)
    log.sync()
    after = survey(log, cleaned_offset=None, last_stable_offset=2, now_ms=NOW_MS)

    assert (before.end_offset, after.end_offset) == (1, 2)


def test_a_cleaned_offset_outside_of_the_log_is_not_believed() -> None:
    _, log = new_log()
    put(log, (b"a", b"1"), (b"a", b"2"), (b"a", b"3"))
    log.roll(NOW_MS)
    log.advance_start(1)

    assert dirt_of(log, cleaned_offset=99).first_dirty_offset == 1
    assert dirt_of(log, cleaned_offset=0).first_dirty_offset == 1
    assert dirt_of(log, cleaned_offset=2).first_dirty_offset == 2


def test_records_younger_than_the_lag_are_left_alone() -> None:
    _, log = new_log(min_compaction_lag_ms=1000)
    put(log, (b"a", b"1"), timestamp_ms=NOW_MS - 1000)
    log.roll(NOW_MS)
    put(log, (b"a", b"2"), timestamp_ms=NOW_MS - 999)
    log.roll(NOW_MS)

    assert dirt_of(log).end_offset == 1
    assert dirt_of(log, now_ms=NOW_MS + 1).end_offset == 2


def test_an_old_dirty_record_makes_a_log_due_however_clean_it_is() -> None:
    _, log = new_log(min_cleanable_dirty_ratio=0.99, max_compaction_lag_ms=1000)
    put(log, (b"a", b"x" * 200))
    log.roll(NOW_MS)
    put(log, (b"b", b"1"), timestamp_ms=NOW_MS)
    log.roll(NOW_MS)

    assert not dirt_of(log, cleaned_offset=1, now_ms=NOW_MS + 1000).is_due(log.config)
    assert dirt_of(log, cleaned_offset=1, now_ms=NOW_MS + 1001).is_due(log.config)
    assert not dirt_of(log, cleaned_offset=2, now_ms=NOW_MS + 1001).is_due(log.config)


def test_how_far_logs_are_clean_is_written_down_as_kafka_does() -> None:
    disk = SimDisk()
    write_offsets(disk, CLEANED_OFFSETS, {("users", 0): 42})

    assert CLEANED_OFFSETS == "cleaner-offset-checkpoint"
    assert read_file(disk, CLEANED_OFFSETS) == b"0\n1\nusers 0 42\n"
