"""When a segment is full: by size, by age, or because its indexes can take no more."""

import sys
from typing import Final

from ottla.log import files
from ottla.log.config import LogConfig
from ottla.log.index import MAX_RELATIVE_OFFSET, NO_TIMESTAMP_MS
from ottla.log.segment import Room, Segment
from ottla.records.batch import Batch
from ottla.records.crc32c import crc32c

_ANY: Final = sys.maxsize
_NONE: Final = Room(0, NO_TIMESTAMP_MS, -1, -1)


def has_room_for(segment: Segment, batch: Batch, now_ms: int) -> bool:
    """Whether `batch` belongs into `segment`, or the log should roll first."""
    room = segment.room
    if room is None:
        room = segment.room = _room_of(segment)
    return (
        segment.size_bytes + len(batch.data) <= room.size_bytes
        and batch.max_timestamp_ms <= room.timestamp_ms
        and batch.last_offset <= room.last_offset
        and now_ms <= room.now_ms
    )


def _room_of(segment: Segment) -> Room:
    """How far the segment may grow, as long as its indexes have room for one more entry."""
    config = segment.config
    last_offset = segment.base_offset + MAX_RELATIVE_OFFSET
    if segment.size_bytes == 0:
        # A batch that is larger than `segment.bytes` gets a segment of its own.
        return Room(_ANY, _ANY, last_offset, _ANY)
    if not segment.indexes.has_room(config.segment_index_bytes):
        return _NONE
    jitter_ms = _jitter_ms(segment) if config.segment_jitter_ms else 0
    age_ms = longest_age_ms(config) - jitter_ms
    # By the records' own time where they have one: a replica rolls where its leader did.
    first_timestamp_ms = segment.first_timestamp_ms
    if first_timestamp_ms == NO_TIMESTAMP_MS:
        return Room(config.segment_bytes, _ANY, last_offset, segment.created_ms + age_ms)
    return Room(config.segment_bytes, first_timestamp_ms + age_ms, last_offset, _ANY)


def longest_age_ms(config: LogConfig) -> int:
    """How long one segment is written to; compaction may not have to wait for longer."""
    if config.is_compacted:
        return min(config.segment_ms, config.max_compaction_lag_ms)
    return config.segment_ms


def _jitter_ms(segment: Segment) -> int:
    """Keeps many partitions from rolling at once.  Drawn from the name, so always the same."""
    longest_ms = min(segment.config.segment_jitter_ms, segment.config.segment_ms)
    return crc32c(segment.path(files.LOG).encode()) % longest_ms if longest_ms > 0 else 0
