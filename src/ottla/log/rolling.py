"""When a segment is full: by size, by age, or because its indexes can take no more."""

from ottla.log import files
from ottla.log.config import LogConfig
from ottla.log.index import MAX_RELATIVE_OFFSET, NO_TIMESTAMP_MS
from ottla.log.segment import Segment
from ottla.records.batch import Batch
from ottla.records.crc32c import crc32c


def has_room_for(segment: Segment, batch: Batch, now_ms: int) -> bool:
    """Whether `batch` belongs into `segment`, or the log should roll first.

    A batch that is larger than `segment.bytes` gets a segment of its own.
    """
    if batch.last_offset - segment.base_offset > MAX_RELATIVE_OFFSET:
        return False
    size_bytes = segment.size_bytes
    if size_bytes == 0:
        return True
    config = segment.config
    jitter_ms = _jitter_ms(segment) if config.segment_jitter_ms else 0
    return (
        size_bytes + len(batch.data) <= config.segment_bytes
        and segment.indexes.has_room(config.segment_index_bytes)
        and _age_ms(segment, batch, now_ms) <= longest_age_ms(config) - jitter_ms
    )


def longest_age_ms(config: LogConfig) -> int:
    """How long one segment is written to; compaction may not have to wait for longer."""
    if config.is_compacted:
        return min(config.segment_ms, config.max_compaction_lag_ms)
    return config.segment_ms


def _age_ms(segment: Segment, batch: Batch, now_ms: int) -> int:
    """By the records' own time where they have one: a replica rolls where its leader did."""
    first_timestamp_ms = segment.first_timestamp_ms
    if first_timestamp_ms == NO_TIMESTAMP_MS:
        return now_ms - segment.created_ms
    return batch.max_timestamp_ms - first_timestamp_ms


def _jitter_ms(segment: Segment) -> int:
    """Keeps many partitions from rolling at once.  Drawn from the name, so always the same."""
    longest_ms = min(segment.config.segment_jitter_ms, segment.config.segment_ms)
    return crc32c(segment.path(files.LOG).encode()) % longest_ms if longest_ms > 0 else 0
