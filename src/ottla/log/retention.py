"""What of a log may go: by age, by size, and below its start.

The decision is a pure function of facts about the segments.  Only whole segments go, only from the
old end, and only below the high watermark: what nobody was shown yet is never deleted.  Kafka's
own rules: a segment's age is that of its youngest record, or where no record has a timestamp, that
of the file; a log goes down to `retention.bytes`, not below.
"""

from collections.abc import Sequence

from ottla.log.config import UNLIMITED, LogConfig
from ottla.log.index import NO_TIMESTAMP_MS
from ottla.log.log import Log
from ottla.log.segment import Segment
from ottla.values import NamedTuple


class SegmentFacts(NamedTuple):
    """What retention asks about one segment."""

    next_offset: int
    size_bytes: int
    youngest_ms: int
    """Largest timestamp; where there is none, when the segment was begun."""


def facts_of(segment: Segment) -> SegmentFacts:
    """The facts of a segment, from its time index alone where it has one."""
    youngest_ms = segment.max_timestamp_ms
    if youngest_ms == NO_TIMESTAMP_MS:
        youngest_ms = segment.created_ms
    return SegmentFacts(segment.next_offset, segment.size_bytes, youngest_ms)


def expired_count(
    segments: Sequence[SegmentFacts], config: LogConfig, *, now_ms: int, high_watermark: int
) -> int:
    """How many segments, oldest first, are past `retention.bytes` or `retention.ms`.

    The last one counts too: if it is past them, the log rolls before it goes.
    """
    if not config.is_deleted:
        return 0
    deletable = _deletable_count(segments, high_watermark)
    count = _surplus_count(
        segments[:deletable], config, sum(facts.size_bytes for facts in segments)
    )
    return count + _old_count(segments[count:deletable], config, now_ms)


def _deletable_count(segments: Sequence[SegmentFacts], high_watermark: int) -> int:
    """How many segments lie below the high watermark.  An empty one at the end is left alone."""
    count = 0
    for facts in segments:
        if facts.next_offset > high_watermark:
            break
        count += 1
    is_whole_log = count == len(segments)
    return count - 1 if is_whole_log and segments and not segments[-1].size_bytes else count


def _surplus_count(segments: Sequence[SegmentFacts], config: LogConfig, total_bytes: int) -> int:
    """How many segments can go so that `retention.bytes` are still left."""
    if config.retention_bytes < 0:
        return 0
    surplus_bytes = total_bytes - config.retention_bytes
    for count, facts in enumerate(segments):
        surplus_bytes -= facts.size_bytes
        if surplus_bytes < 0:
            return count
    return len(segments)


def _old_count(segments: Sequence[SegmentFacts], config: LogConfig, now_ms: int) -> int:
    """How many segments have no record that is young enough."""
    if config.retention_ms == UNLIMITED:
        return 0
    for count, facts in enumerate(segments):
        if now_ms - facts.youngest_ms <= config.retention_ms:
            return count
    return len(segments)


def apply_retention(records: Log, *, now_ms: int, high_watermark: int) -> bool:
    """Move the start of the log over what need not be kept: whether segments can go now.

    They cannot while compaction puts others in their place; there is always a next time.

    True too if some lie below a start that DeleteRecords moved.  Then write the start offset down,
    and call `Log.delete_old_segments`, which rolls where nothing would be left.
    """
    segments = records.segments
    if not segments or records.is_replacing:
        return False
    if records.config.is_deleted:
        facts = [facts_of(segment) for segment in segments]
        count = expired_count(facts, records.config, now_ms=now_ms, high_watermark=high_watermark)
        if count:
            records.advance_start(facts[count - 1].next_offset)
    first = segments[0]
    return first.size_bytes > 0 and first.next_offset <= records.start_offset
