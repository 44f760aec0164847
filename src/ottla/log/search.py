"""Finding records by time, in one segment: what ListOffsets asks.

Batches are skipped by their largest timestamp, and the records of one batch alone are decoded.
"""

from ottla.errors import BatchError
from ottla.log.scan import damaged, headers, read_batch
from ottla.log.segment import Segment
from ottla.records.batch import MAX_DECOMPRESSED_BYTES
from ottla.values import NamedTuple


class TimedOffset(NamedTuple):
    """A record that was found by its time."""

    offset: int
    timestamp_ms: int
    leader_epoch: int
    """Epoch of its batch; -1 where it has none."""


def first_at_or_after(
    segment: Segment,
    timestamp_ms: int,
    start_offset: int,
    *,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> TimedOffset | None:
    """The first record from `start_offset` on that is not older than `timestamp_ms`.

    `max_decompressed_bytes` must not be less than where the batches were accepted.
    """
    indexes = segment.indexes
    older = segment.base_offset + indexes.times.offset_before(timestamp_ms)
    position = indexes.offsets.position_for(max(older, start_offset) - segment.base_offset)
    for spot in headers(segment.file, position, segment.size_bytes):
        if spot.max_timestamp_ms < timestamp_ms or spot.last_offset < start_offset:
            continue
        batch = read_batch(segment.file, spot)
        try:
            for offset, record_timestamp_ms, *_ in batch.records(max_decompressed_bytes):
                if record_timestamp_ms >= timestamp_ms and offset >= start_offset:
                    return TimedOffset(offset, record_timestamp_ms, batch.partition_leader_epoch)
        except BatchError as error:
            raise damaged(segment.file, spot.position, error.detail) from error
    return None


def youngest(
    segment: Segment, *, max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES
) -> TimedOffset:
    """The first record with the largest timestamp of all, which there must be."""
    indexes = segment.indexes
    position = indexes.offsets.position_for(indexes.max_timestamp_offset - segment.base_offset)
    for spot in headers(segment.file, position, segment.size_bytes):
        if spot.max_timestamp_ms == segment.max_timestamp_ms:
            batch = read_batch(segment.file, spot)
            try:
                offset = batch.survey(max_decompressed_bytes).max_timestamp_offset
            except BatchError as error:
                raise damaged(segment.file, spot.position, error.detail) from error
            return TimedOffset(offset, spot.max_timestamp_ms, batch.partition_leader_epoch)
    raise damaged(segment.file, position, f"no record has the timestamp {segment.max_timestamp_ms}")
