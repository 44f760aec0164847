"""Replacing segments by others, and finishing what a crash interrupted."""

from collections.abc import Sequence

from ottla.log import files
from ottla.log.log import Log
from ottla.log.segment import Segment
from ottla.records.batch import Batch
from ottla.testing.disk import SimDisk
from tests.log_samples import NOW_MS, append_all, log_config, values_in

FOLDER = "orders-0"
CONFIG = log_config()


def log_of_three_segments(disk: SimDisk) -> Log:
    """Values 0 to 5, two in each segment, and an empty segment after them."""
    log = Log.open(disk, FOLDER, CONFIG, now_ms=NOW_MS)
    for first in (0, 2, 4):
        append_all(log, [b"%d" % first, b"%d" % (first + 1)])
        log.roll(NOW_MS)
    log.sync()
    return log


def cleaned(log: Log, base_offset: int, batches: Sequence[Batch]) -> Segment:
    segment = log.create_cleaned_segment(base_offset)
    for batch in batches:
        segment.append(batch)
    for file in segment.write_out():
        file.sync()
    return segment


def compacted(log: Log) -> Segment:
    """The first two segments in one, without offsets 0 and 2."""
    kept = [batch for segment in log.segments[:2] for batch in segment.batches()][1::2]
    return cleaned(log, 0, kept)


def reopen(disk: SimDisk) -> Log:
    disk.end_process()
    return Log.open(disk, FOLDER, CONFIG, now_ms=NOW_MS)


def names_in(disk: SimDisk, state: str) -> list[str]:
    return [name for name in disk.names(FOLDER) if name.endswith(state)]


def test_the_snapshots_of_merged_segments_go_with_them() -> None:
    disk = SimDisk()
    log = log_of_three_segments(disk)
    log.replace_segments(log.segments[:2], [compacted(log)])
    offsets = [int(name.partition(".")[0]) for name in names_in(disk, files.SNAPSHOT)]
    assert offsets == [4, 6]


def test_new_segments_take_the_place_of_old_ones() -> None:
    disk = SimDisk()
    log = log_of_three_segments(disk)

    paths = log.replace_segments(log.segments[:2], [compacted(log)])

    assert [segment.base_offset for segment in log.segments] == [0, 4, 6]
    assert values_in(log) == [b"1", b"3", b"4", b"5"]
    assert all(path.endswith(files.DELETED) for path in paths)
    assert values_in(reopen(disk)) == [b"1", b"3", b"4", b"5"]


def test_new_segments_have_the_age_of_the_old_ones() -> None:
    log = log_of_three_segments(SimDisk())
    log.segments[1].created_ms = 777

    log.replace_segments(log.segments[:2], [compacted(log)])

    assert log.segments[0].created_ms == 777


def test_a_replacement_that_was_not_decided_is_undone() -> None:
    disk = SimDisk()
    log = log_of_three_segments(disk)
    compacted(log)

    again = reopen(disk)

    assert values_in(again) == [b"%d" % i for i in range(6)]
    assert names_in(disk, files.CLEANED) == []


def test_a_replacement_of_which_the_first_segment_is_not_decided_is_undone() -> None:
    disk = SimDisk()
    log = log_of_three_segments(disk)
    old = [batch for segment in log.segments[:2] for batch in segment.batches()]
    cleaned(log, 0, old[:1])
    cleaned(log, 1, old[3:]).rename(files.SWAP)

    again = reopen(disk)

    assert values_in(again) == [b"%d" % i for i in range(6)]
    assert names_in(disk, files.SWAP) == []


def test_a_replacement_that_was_decided_is_completed() -> None:
    disk = SimDisk()
    log = log_of_three_segments(disk)
    compacted(log).rename(files.SWAP)

    again = reopen(disk)

    assert values_in(again) == [b"1", b"3", b"4", b"5"]
    assert names_in(disk, files.SWAP) == []
    assert [segment.base_offset for segment in again.segments] == [0, 4, 6]


def test_a_replacement_that_lost_its_index_is_completed() -> None:
    disk = SimDisk()
    log = log_of_three_segments(disk)
    compacted(log).rename(files.SWAP)
    disk.remove(f"{FOLDER}/{0:020d}.index.swap")

    assert values_in(reopen(disk)) == [b"1", b"3", b"4", b"5"]
