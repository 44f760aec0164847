"""What a log makes of the files it finds: after a clean stop, after a crash, after damage."""

import errno
import logging
from collections.abc import Callable

import pytest

from ottla.errors import StorageError
from ottla.log import files
from ottla.log.log import Log
from ottla.log.search import TimedOffset
from ottla.testing.disk import Operation, SimDisk
from ottla.testing.inodes import Survival
from tests.log_samples import EPOCH, NOW_MS, append_all, batch_of, log_config, values_in

FOLDER = "orders-0"
VALUES = [b"%02d" % i for i in range(12)]
BATCH_BYTES = batch_of(VALUES[0]).size_bytes
CONFIG = log_config(segment_bytes=5 * BATCH_BYTES, index_interval_bytes=BATCH_BYTES)


def path_of(base_offset: int, kind: str = files.LOG) -> str:
    return files.path_of(FOLDER, base_offset, kind)


def written(disk: SimDisk) -> Log:
    """A log of twelve batches in the segments 0-4, 5-9 and 10-11, all of it synced."""
    log = Log.open(disk, FOLDER, CONFIG, now_ms=NOW_MS)
    append_all(log, VALUES)
    log.sync()
    assert log.settle() == 12
    return log


def crashed() -> SimDisk:
    """The process of that log is gone, without a clean stop."""
    disk = SimDisk()
    written(disk)
    disk.end_process()
    return disk


def stopped() -> SimDisk:
    """That log was closed."""
    disk = SimDisk()
    written(disk).close()
    disk.end_process()
    return disk


def reopen(disk: SimDisk, *, recovery_point: int = 0, was_clean: bool = False) -> Log:
    return Log.open(
        disk,
        FOLDER,
        CONFIG,
        now_ms=NOW_MS,
        recovery_point=recovery_point,
        was_clean=was_clean,
    )


def damage(disk: SimDisk, path: str, position: int) -> None:
    """Turn one bit."""
    file = disk.open(path)
    file.write(position, bytes([file.read(position, 1)[0] ^ 1]))


@pytest.mark.parametrize("recovery_point", [0, 4, 5, 6, 10, 11, 12])
def test_everything_is_found_again_after_a_crash(recovery_point: int) -> None:
    log = reopen(crashed(), recovery_point=recovery_point)

    assert values_in(log) == VALUES
    assert [segment.base_offset for segment in log.segments] == [0, 5, 10]
    assert log.epoch_for(3) == EPOCH
    assert log.offset_for_time(0) == TimedOffset(0, NOW_MS, EPOCH)


def test_everything_is_found_again_after_a_clean_stop() -> None:
    log = reopen(stopped(), recovery_point=12, was_clean=True)

    assert values_in(log) == VALUES
    assert log.epoch_for(3) == EPOCH
    append_all(log, [b"more"])
    assert values_in(log) == [*VALUES, b"more"]


def test_a_clean_stop_makes_the_next_start_read_next_to_nothing() -> None:
    disk = SimDisk()
    log = Log.open(disk, FOLDER, log_config(), now_ms=NOW_MS)
    append_all(log, [b"x" * 1000] * 200)
    log.close()
    disk.end_process()
    operation_count = disk.operation_count

    again = reopen(disk, recovery_point=200, was_clean=True)

    assert again.next_offset == 200
    assert again.segments[-1]._indexes is None
    assert disk.operation_count == operation_count


def test_a_log_goes_on_after_recovery() -> None:
    log = reopen(crashed())

    append_all(log, [b"more"] * 8)

    assert values_in(log) == [*VALUES, *[b"more"] * 8]


def test_what_was_recovered_is_not_called_durable() -> None:
    log = reopen(crashed(), recovery_point=7)

    assert log.synced_offset == 7
    log.sync()
    assert log.synced_offset == 12


# A tail that nobody finished


def torn(size_bytes: int) -> Callable[[SimDisk], None]:
    def tear(disk: SimDisk) -> None:
        disk.open(path_of(10)).truncate(size_bytes)

    return tear


def zeros(disk: SimDisk) -> None:
    file = disk.open(path_of(10))
    file.truncate(BATCH_BYTES)
    file.allocate(10 * BATCH_BYTES)


def flipped(position: int) -> Callable[[SimDisk], None]:
    def flip(disk: SimDisk) -> None:
        damage(disk, path_of(10), BATCH_BYTES + position)

    return flip


@pytest.mark.parametrize(
    "harm",
    [
        torn(2 * BATCH_BYTES - 1),
        torn(BATCH_BYTES + 61),
        torn(BATCH_BYTES + 5),
        torn(BATCH_BYTES),
        zeros,
        flipped(BATCH_BYTES - 1),
        flipped(11),
        flipped(8),
        flipped(16),
        flipped(7),
        flipped(25),
    ],
    ids=[
        "a byte short",
        "header alone",
        "half a header",
        "whole batch missing",
        "zeros",
        "a record",
        "length",
        "huge length",
        "magic",
        "offset going back",
        "last offset delta",
    ],
)
def test_a_bad_batch_ends_the_log(harm: Callable[[SimDisk], None]) -> None:
    disk = crashed()
    harm(disk)

    log = reopen(disk, recovery_point=11)

    assert values_in(log) == VALUES[:11]
    assert disk.open(path_of(10)).size_bytes() == BATCH_BYTES


def test_what_follows_a_bad_batch_is_dropped_with_its_segments() -> None:
    disk = crashed()
    damage(disk, path_of(5), 2 * BATCH_BYTES + 70)

    log = reopen(disk, recovery_point=6)

    assert values_in(log) == VALUES[:7]
    assert not disk.exists(path_of(10))
    append_all(log, [b"more"] * 5)
    assert values_in(log) == [*VALUES[:7], *[b"more"] * 5]


def test_a_segment_that_lost_its_end_ends_the_log() -> None:
    disk = crashed()
    disk.open(path_of(5)).truncate(3 * BATCH_BYTES)

    log = reopen(disk, recovery_point=8)

    assert values_in(log) == VALUES[:8]
    assert [segment.base_offset for segment in log.segments] == [0, 5]


def test_a_missing_segment_ends_the_log() -> None:
    disk = crashed()
    disk.remove(path_of(5))

    assert values_in(reopen(disk, recovery_point=5)) == VALUES[:5]


def test_unused_room_of_a_sealed_segment_is_no_damage() -> None:
    disk = crashed()
    disk.open(path_of(5)).allocate(20 * BATCH_BYTES)

    log = reopen(disk, recovery_point=10)

    assert values_in(log) == VALUES


def test_a_batch_that_belongs_into_the_next_segment_is_bad() -> None:
    disk = crashed()
    file = disk.open(path_of(5))
    file.write(5 * BATCH_BYTES, disk.open(path_of(10)).read(0, BATCH_BYTES))

    assert values_in(reopen(disk, recovery_point=10)) == VALUES


# Damage below the recovery point


@pytest.mark.parametrize(
    ("harm", "path", "position"),
    [
        (lambda disk: damage(disk, path_of(10), 70), path_of(10), 0),
        (lambda disk: damage(disk, path_of(10), BATCH_BYTES + 70), path_of(10), BATCH_BYTES),
        (lambda disk: disk.open(path_of(10)).truncate(BATCH_BYTES), path_of(10), BATCH_BYTES),
    ],
    ids=["first batch", "last batch", "missing batch"],
)
def test_damage_below_the_recovery_point_is_reported_and_nothing_is_cut(
    harm: Callable[[SimDisk], None], path: str, position: int
) -> None:
    disk = crashed()
    harm(disk)
    before = disk.open(path).read(0, 10_000)

    with pytest.raises(StorageError, match=rf"{path} is damaged at byte {position}"):
        reopen(disk, recovery_point=12)

    assert disk.open(path).read(0, 10_000) == before


@pytest.mark.parametrize("was_clean", [True, False])
def test_missing_files_below_the_recovery_point_are_reported(was_clean: bool) -> None:
    disk = stopped()
    disk.remove(path_of(10))

    with pytest.raises(StorageError, match="12"):
        reopen(disk, recovery_point=12, was_clean=was_clean)


def test_a_folder_that_lost_everything_is_reported() -> None:
    disk = SimDisk()

    with pytest.raises(StorageError, match="files are missing"):
        reopen(disk, recovery_point=12)


def test_damage_is_reported_when_it_is_read_after_a_clean_stop() -> None:
    disk = stopped()
    disk.open(path_of(0)).write(2 * BATCH_BYTES, b"\0" * BATCH_BYTES)
    log = reopen(disk, recovery_point=12, was_clean=True)

    with pytest.raises(StorageError, match=r"00000\.log is damaged"):
        log.read(3, 10_000)


# Indexes


@pytest.mark.parametrize("kind", [files.OFFSET_INDEX, files.TIME_INDEX])
@pytest.mark.parametrize("base_offset", [0, 10])
@pytest.mark.parametrize("harm", ["removed", "zeros", "half an entry"])
def test_a_lost_index_is_rebuilt(
    kind: str, base_offset: int, harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    disk = stopped()
    path = path_of(base_offset, kind)
    size_bytes = disk.open(path).size_bytes()
    if harm == "removed":
        disk.remove(path)
    elif harm == "zeros":
        disk.open(path).write(0, b"\0" * size_bytes)
    else:
        disk.open(path).truncate(max(size_bytes - 1, 3))
        disk.open(path).write(0, b"\0\0\0")

    with caplog.at_level(logging.ERROR):
        log = reopen(disk, recovery_point=12, was_clean=True)

    assert values_in(log) == VALUES
    assert log.offset_for_time(NOW_MS) == TimedOffset(0, NOW_MS, EPOCH)
    append_all(log, [b"more"])
    assert values_in(log) == [*VALUES, b"more"]


def test_an_index_of_another_log_is_rebuilt() -> None:
    disk = stopped()
    entries = disk.open(path_of(5, files.OFFSET_INDEX)).read(0, 1000)
    foreign = entries[:-4] + (int.from_bytes(entries[-4:], "big") - 7).to_bytes(4, "big")
    disk.open(path_of(5, files.OFFSET_INDEX)).write(0, foreign)

    assert values_in(reopen(disk, recovery_point=12, was_clean=True)) == VALUES


# What else may lie there


@pytest.mark.parametrize(
    "name",
    [
        "00000000000000000003.log.deleted",
        "00000000000000000003.log.cleaned",
        "00000000000000000003.index.swap",
        "00000000000000000003.index",
        "leader-epoch-checkpoint.tmp",
    ],
)
def test_what_a_crash_left_half_done_is_removed(name: str) -> None:
    disk = crashed()
    disk.open(f"{FOLDER}/{name}", create=True).write(0, b"anything")

    log = reopen(disk)

    assert values_in(log) == VALUES
    assert not disk.exists(f"{FOLDER}/{name}")


@pytest.mark.parametrize("name", ["notes.txt", "1.log", "00000000000000000003.log.bak"])
def test_a_foreign_file_is_left_alone_and_named(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    disk = crashed()
    disk.open(f"{FOLDER}/{name}", create=True).write(0, b"anything")

    with caplog.at_level(logging.WARNING):
        reopen(disk)

    assert disk.exists(f"{FOLDER}/{name}")
    assert name in caplog.text


def test_segments_below_the_start_are_removed() -> None:
    disk = crashed()

    log = Log.open(disk, FOLDER, CONFIG, now_ms=NOW_MS, start_offset=7)

    assert not disk.exists(path_of(0))
    assert values_in(log) == VALUES[7:]


def test_offsets_of_deleted_records_are_not_used_again() -> None:
    disk = crashed()

    log = Log.open(disk, FOLDER, CONFIG, now_ms=NOW_MS, start_offset=20)

    assert (log.start_offset, log.next_offset) == (20, 20)
    append_all(log, [b"a"])
    assert log.next_offset == 21


def test_a_start_before_the_first_segment_is_moved_there() -> None:
    disk = crashed()
    disk.remove(path_of(0))

    log = reopen(disk, recovery_point=8)

    assert log.start_offset == 5
    assert values_in(log) == VALUES[5:]


# A disk that fails


def test_an_append_to_a_full_disk_changes_nothing_and_can_be_repeated() -> None:
    disk = SimDisk(capacity_bytes=400)
    log = Log.open(disk, FOLDER, CONFIG, now_ms=NOW_MS)
    append_all(log, VALUES[:3])

    with pytest.raises(OSError, match="No space") as caught:
        append_all(log, [b"x" * 300])

    assert caught.value.errno == errno.ENOSPC
    assert log.next_offset == 3
    assert values_in(log) == VALUES[:3]
    disk.capacity_bytes = 10_000
    append_all(log, VALUES[3:])
    assert values_in(log) == VALUES


def test_half_a_batch_is_never_taken_for_another_one() -> None:
    """A value that is a batch itself, written in part, must not become one of the log's own."""
    disk = SimDisk()
    log = Log.open(disk, FOLDER, log_config(), now_ms=NOW_MS)
    planted = batch_of(b"planted")
    planted.place(1, 0)
    carrier = batch_of(bytes(planted.data) + b"-" * 5000)
    position = bytes(carrier.data).index(planted.data)
    short = batch_of(b"-" * (position - batch_of(b"").size_bytes))
    assert short.size_bytes == position
    disk.capacity_bytes = short.size_bytes + planted.size_bytes + 50
    with pytest.raises(OSError, match="No space"):
        log.append(carrier, leader_epoch=EPOCH, now_ms=NOW_MS)
    disk.capacity_bytes = 10**6
    log.append(short, leader_epoch=EPOCH, now_ms=NOW_MS)
    disk.end_process()

    again = Log.open(disk, FOLDER, log_config(), now_ms=NOW_MS)

    assert again.next_offset == 1


@pytest.mark.parametrize("after", range(8))
@pytest.mark.parametrize("operation", [None, Operation.CREATE, Operation.WRITE, Operation.TRUNCATE])
def test_a_roll_that_failed_can_be_repeated(operation: Operation | None, after: int) -> None:
    disk = SimDisk()
    log = Log.open(disk, FOLDER, CONFIG, now_ms=NOW_MS)
    append_all(log, VALUES[:5])
    disk.fail(errno.ENOSPC, operation, after=after)
    done = 5
    for _ in range(2):
        try:
            append_all(log, VALUES[done:])
            done = 12
        except OSError:
            done = log.next_offset

    assert values_in(log) == VALUES
    log.close()
    disk.end_process()
    assert values_in(reopen(disk, recovery_point=12, was_clean=True)) == VALUES


def test_a_failed_sync_promises_nothing() -> None:
    disk = SimDisk()
    log = Log.open(disk, FOLDER, CONFIG, now_ms=NOW_MS)
    append_all(log, VALUES[:3])
    disk.fail(errno.EIO, Operation.SYNC)

    with pytest.raises(OSError, match="Input/output"):
        log.sync()

    assert log.synced_offset == 0


def test_what_a_killed_process_left_becomes_durable_with_its_name() -> None:
    disk = SimDisk()
    disk.make_folder(FOLDER)
    disk.sync_folder("")
    append_all(Log.open(disk, FOLDER, CONFIG, now_ms=NOW_MS), VALUES[:2])
    disk.end_process()  # before the first sync

    reopen(disk).sync()
    disk.lose_power(survival=Survival.NOTHING)

    assert values_in(reopen(disk)) == VALUES[:2]
