"""When a log begins a new segment: the rules that are not plain from size and time."""

import errno
import os

import pytest

from ottla.errors import StorageError
from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.log.rolling import longest_age_ms
from ottla.records.batch import Batch
from ottla.records.builder import build
from ottla.testing.disk import Operation, SimDisk, SimFile
from tests.log_samples import FOLDER, append_all, log_config, open_log

NOW_MS = 1_700_000_000_000


def append(log: Log, *, now_ms: int = NOW_MS, timestamp_ms: int = NOW_MS) -> None:
    batch = Batch.parse(build([(timestamp_ms, b"key", b"value", ())]))
    log.append(batch, leader_epoch=0, now_ms=now_ms)


def filled(config: LogConfig, *, batch_count: int, timestamp_ms: int = NOW_MS) -> Log:
    log = Log.open(SimDisk(), "orders-0", config, now_ms=NOW_MS)
    for _ in range(batch_count):
        append(log, timestamp_ms=timestamp_ms)
    return log


def test_a_compacted_log_rolls_in_time_for_its_compaction() -> None:
    config = LogConfig(cleanup_policy=("compact",), segment_ms=60_000, max_compaction_lag_ms=10_000)
    assert longest_age_ms(config) == 10_000


def test_other_logs_roll_by_segment_ms_alone() -> None:
    config = LogConfig(cleanup_policy=("delete",), segment_ms=60_000, max_compaction_lag_ms=10_000)
    assert longest_age_ms(config) == 60_000


def test_other_settings_are_heeded_by_the_next_append() -> None:
    log = filled(LogConfig(), batch_count=3)
    size_bytes = log.segments[0].size_bytes
    log.reconfigure(LogConfig(segment_bytes=size_bytes))
    append(log)
    assert [segment.base_offset for segment in log.segments] == [0, 3]


def test_a_first_batch_without_time_leaves_the_age_to_the_clock() -> None:
    log = filled(LogConfig(segment_ms=60_000), batch_count=2, timestamp_ms=-1)
    append(log, now_ms=NOW_MS + 60_000, timestamp_ms=NOW_MS + 10**9)
    assert len(log.segments) == 1
    append(log, now_ms=NOW_MS + 60_001)
    assert len(log.segments) == 2


class Counting(SimDisk):
    """Knows the files that were opened."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[SimFile] = []

    def open(self, path: str, *, create: bool = False) -> SimFile:
        file = super().open(path, create=create)
        self.opened.append(file)
        return file

    def open_count(self) -> int:
        return sum(not file._is_closed for file in self.opened)


@pytest.mark.parametrize(
    ("operation", "name"),
    [
        (Operation.WRITE, f"{1:020d}.snapshot"),
        (Operation.WRITE, f"{0:020d}.timeindex"),
        (Operation.CREATE, f"{1:020d}.log"),
    ],
)
def test_a_log_that_cannot_roll_holds_no_more_with_every_try(
    operation: Operation, name: str
) -> None:
    disk = Counting()
    log = open_log(disk, segment_bytes=300)
    append_all(log, [bytes(200)])
    log.sync()
    open_count = disk.open_count()

    for _ in range(3):
        disk.fail(errno.ENOSPC, operation, path=f"{FOLDER}/{name}")
        with pytest.raises(OSError, match="No space left"):
            append_all(log, [bytes(200)])

    assert disk.open_count() == open_count
    assert len(log.unsynced_files()) <= 1, "the segment itself, which was trimmed"
    append_all(log, [bytes(200)])
    log.sync()
    assert [segment.base_offset for segment in log.segments] == [0, 1]
    log.abandon()
    assert open_log(disk, segment_bytes=300).next_offset == 2


def test_a_log_that_cannot_roll_over_damage_holds_no_more_with_every_try() -> None:
    disk = Counting()
    log = open_log(disk)
    append_all(log, [b"a"])
    log.close()
    disk.open(f"{FOLDER}/{0:020d}.txnindex", create=True).write(0, b"damaged")
    log = Log.open(disk, FOLDER, log_config(), now_ms=NOW_MS, was_clean=True)
    open_counts = []

    for _ in range(3):
        with pytest.raises(StorageError, match="damaged"):
            log.roll(NOW_MS)
        open_counts.append(disk.open_count())

    assert len(set(open_counts)) == 1


@pytest.mark.parametrize(("is_durable", "sync_count"), [(True, 1), (False, 2)])
def test_a_second_segment_waits_for_the_name_of_the_first_only_if_that_is_not_durable(
    is_durable: bool, sync_count: int
) -> None:
    operations: list[str] = []
    log = open_log(SimDisk(observe=operations.append))
    append_all(log, [b"a"])
    if is_durable:
        log.sync()
    operations.clear()

    log.roll(NOW_MS)

    assert operations.count(f"sync_folder {FOLDER}") == sync_count


def test_nothing_is_written_after_the_name_of_a_segment_could_not_be_synced() -> None:
    disk = SimDisk()
    log = open_log(disk)
    append_all(log, [b"a"])
    disk.fail(errno.EIO, Operation.SYNC_FOLDER)

    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        log.roll(NOW_MS)

    # The old segment has room, but a file that begins at this offset may be there after a crash.
    with pytest.raises(StorageError, match="was not synced"):
        append_all(log, [b"b"])
    assert open_log(disk).next_offset == 1
