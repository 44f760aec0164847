"""Retention: which segments may go, and what becomes of the log."""

import errno
from dataclasses import replace

import pytest

from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.log.retention import SegmentFacts, apply_retention, expired_count, facts_of
from ottla.testing.disk import Operation, SimDisk
from tests.log_samples import EPOCH, NOW_MS, append_all, batch_of, log_config, values_in

DAY_MS = 86_400_000
KEEP_ALL = LogConfig(retention_ms=-1, retention_bytes=-1)


def segments(*youngest_ms: int, size_bytes: int = 100) -> list[SegmentFacts]:
    """Segments of ten records each."""
    return [
        SegmentFacts(next_offset=10 * number, size_bytes=size_bytes, youngest_ms=time_ms)
        for number, time_ms in enumerate(youngest_ms, 1)
    ]


def count(
    facts: list[SegmentFacts], config: LogConfig, *, high_watermark: int | None = None
) -> int:
    end_offset = facts[-1].next_offset if facts else 0
    return expired_count(
        facts,
        config,
        now_ms=NOW_MS,
        high_watermark=end_offset if high_watermark is None else high_watermark,
    )


OLD_MS, YOUNG_MS = NOW_MS - DAY_MS - 1, NOW_MS - DAY_MS
ONE_DAY = replace(KEEP_ALL, retention_ms=DAY_MS)


# The decision


def test_segments_go_when_their_youngest_record_is_too_old() -> None:
    assert count(segments(OLD_MS, OLD_MS, YOUNG_MS, NOW_MS), ONE_DAY) == 2


def test_an_old_segment_behind_a_young_one_stays() -> None:
    assert count(segments(YOUNG_MS, OLD_MS, NOW_MS), ONE_DAY) == 0


def test_the_last_segment_goes_too_when_it_is_too_old() -> None:
    assert count(segments(OLD_MS, OLD_MS), ONE_DAY) == 2


def test_an_empty_segment_at_the_end_stays() -> None:
    facts = [*segments(OLD_MS), SegmentFacts(next_offset=10, size_bytes=0, youngest_ms=OLD_MS)]

    assert count(facts, ONE_DAY) == 1


def test_nothing_above_the_high_watermark_goes() -> None:
    facts = segments(OLD_MS, OLD_MS, OLD_MS)

    assert count(facts, ONE_DAY, high_watermark=19) == 1
    assert count(facts, ONE_DAY, high_watermark=20) == 2
    assert count(facts, replace(KEEP_ALL, retention_bytes=0), high_watermark=19) == 1


def test_without_a_limit_everything_stays() -> None:
    assert count(segments(0, 0, 0), KEEP_ALL) == 0


def test_a_timestamp_in_the_future_keeps_a_segment() -> None:
    assert count(segments(NOW_MS + DAY_MS, OLD_MS), replace(KEEP_ALL, retention_ms=0)) == 0


def test_as_many_segments_go_as_leave_the_size_that_is_to_be_kept() -> None:
    facts = segments(NOW_MS, NOW_MS, NOW_MS, NOW_MS)

    assert count(facts, replace(KEEP_ALL, retention_bytes=400)) == 0
    assert count(facts, replace(KEEP_ALL, retention_bytes=301)) == 0
    assert count(facts, replace(KEEP_ALL, retention_bytes=300)) == 1
    assert count(facts, replace(KEEP_ALL, retention_bytes=101)) == 2
    assert count(facts, replace(KEEP_ALL, retention_bytes=0)) == 4


def test_age_applies_to_what_the_size_leaves() -> None:
    config = replace(KEEP_ALL, retention_bytes=200, retention_ms=DAY_MS)

    assert count(segments(NOW_MS, OLD_MS, OLD_MS, NOW_MS), config) == 3
    assert count(segments(NOW_MS, NOW_MS, OLD_MS, NOW_MS), config) == 3
    assert count(segments(NOW_MS, NOW_MS, NOW_MS, OLD_MS), config) == 2


def test_a_compacted_log_keeps_what_is_old_unless_it_is_also_deleted() -> None:
    facts = segments(OLD_MS, OLD_MS, NOW_MS)

    assert count(facts, replace(ONE_DAY, cleanup_policy=("compact",))) == 0
    assert count(facts, replace(ONE_DAY, cleanup_policy=())) == 0
    assert count(facts, replace(ONE_DAY, cleanup_policy=("compact", "delete"))) == 2


def test_a_log_without_segments_has_nothing_to_lose() -> None:
    assert count([], ONE_DAY) == 0


# The log


def filled_log(disk: SimDisk, **settings: object) -> Log:
    """Ten records in five segments, all of them from `NOW_MS`."""
    config = log_config(segment_bytes=150, **settings)
    log = Log.open(disk, "orders-0", config, now_ms=NOW_MS)
    append_all(log, [b"%d" % number for number in range(10)])
    assert len(log.segments) == 5
    return log


def keep(log: Log, now_ms: int, *, high_watermark: int | None = None) -> bool:
    return apply_retention(
        log,
        now_ms=now_ms,
        high_watermark=log.next_offset if high_watermark is None else high_watermark,
    )


def test_a_young_log_stays_as_it_is() -> None:
    log = filled_log(SimDisk(), retention_ms=DAY_MS)

    assert not keep(log, NOW_MS + DAY_MS)
    assert log.start_offset == 0


def test_a_log_that_is_too_old_becomes_empty_and_goes_on_where_it_was() -> None:
    log = filled_log(SimDisk(), retention_ms=DAY_MS)

    assert keep(log, NOW_MS + DAY_MS + 1)
    log.delete_old_segments(NOW_MS)

    assert (log.start_offset, log.next_offset) == (10, 10)
    assert values_in(log) == []
    assert not keep(log, NOW_MS + 2 * DAY_MS)
    append_all(log, [b"next"])
    assert values_in(log) == [b"next"]


def test_a_log_that_is_too_large_loses_its_oldest_segments() -> None:
    log = filled_log(SimDisk())
    log.reconfigure(replace(log.config, retention_bytes=2 * log.segments[0].size_bytes))

    assert keep(log, NOW_MS)
    log.delete_old_segments(NOW_MS)

    assert values_in(log) == [b"6", b"7", b"8", b"9"]


def test_a_full_disk_without_room_for_a_new_segment_keeps_the_last_one_and_frees_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = SimDisk()
    log = filled_log(disk, retention_ms=DAY_MS)
    assert keep(log, NOW_MS + 2 * DAY_MS)
    disk.fail(errno.ENOSPC, Operation.CREATE, path="orders-0")

    log.remove_old_segments(NOW_MS)

    assert [segment.base_offset for segment in log.segments] == [8]
    assert (log.start_offset, log.next_offset) == (10, 10)
    assert "none can be begun" in caplog.text
    assert keep(log, NOW_MS + 2 * DAY_MS), "it is tried again"
    log.remove_old_segments(NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [10]
    assert [name for name in disk.names("orders-0") if not name.startswith("0" * 18 + "10")] == []


def test_a_last_segment_that_is_damaged_is_kept_and_the_others_go(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = SimDisk()
    filled_log(disk, retention_ms=DAY_MS).close()
    disk.open(f"orders-0/{8:020d}.txnindex", create=True).write(0, b"damaged")
    config = log_config(retention_ms=DAY_MS)
    log = Log.open(disk, "orders-0", config, now_ms=NOW_MS, was_clean=True)
    assert keep(log, NOW_MS + 2 * DAY_MS)

    paths = log.delete_old_segments(NOW_MS)

    assert any(f"{0:020d}.log" in path for path in paths)
    assert [segment.base_offset for segment in log.segments] == [8]
    assert "damaged" in caplog.text


def test_what_is_not_yet_visible_is_kept() -> None:
    log = filled_log(SimDisk(), retention_ms=DAY_MS)

    assert keep(log, NOW_MS + 2 * DAY_MS, high_watermark=5)

    assert log.start_offset == 4


def test_segments_below_a_start_that_somebody_moved_can_go_whatever_the_policy() -> None:
    log = filled_log(SimDisk(), cleanup_policy=("compact",))
    log.advance_start(1)
    assert not keep(log, NOW_MS)

    log.advance_start(2)
    assert keep(log, NOW_MS)


def test_a_segment_without_timestamps_is_as_old_as_its_file() -> None:
    log = Log.open(SimDisk(), "orders-0", log_config(retention_ms=DAY_MS), now_ms=NOW_MS)
    log.append(batch_of(b"x", timestamp_ms=-1), leader_epoch=EPOCH, now_ms=NOW_MS + 5)

    assert facts_of(log.segments[0]).youngest_ms == NOW_MS + 5
    assert not keep(log, NOW_MS + 5 + DAY_MS)
    assert keep(log, NOW_MS + 6 + DAY_MS)
