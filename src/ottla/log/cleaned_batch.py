"""A batch without some of its records: what compaction writes.

Offsets, sequence numbers and the producer stay what they were, so the batch covers the same range
of offsets, with holes.  A record's bytes do not change, unless the batch gets a delete horizon:
that takes the place of the base timestamp, to which the timestamps of the records are relative.
"""

from collections.abc import Iterator
from typing import Final

from ottla.errors import BatchError, ErrorCode
from ottla.records.batch import (
    CHECKED_FROM,
    COMPRESSION_BITS,
    CRC_AT,
    DELETE_HORIZON_BIT,
    HEADER,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    UINT32,
    Batch,
)
from ottla.records.compression import Compression, compress
from ottla.records.crc32c import crc32c
from ottla.records.shapes import BATCH_HEADER_BYTES, NO_TIMESTAMP_MS, Section
from ottla.values import NamedTuple

_CONTINUES: Final = 0x80
_MAX_VARINT_BYTES: Final = 10


class Kept(NamedTuple):
    """What stays of a batch."""

    flags: list[bool]
    """For each of its records, whether it stays."""
    max_timestamp_ms: int
    """Of those that stay."""
    delete_horizon_ms: int | None
    """When tombstones and markers among them may go; `None` where none are."""

    def base_timestamp_ms(self, batch: Batch) -> int:
        """What the timestamps of the records will be relative to."""
        horizon_ms = self.delete_horizon_ms
        return batch.base_timestamp_ms if horizon_ms is None else horizon_ms


def kept_records(batch: Batch, section: Section, kept: Kept) -> Iterator[bytes]:
    """The bytes of each record that stays; `section` has all records of `batch`.

    Raises:
        BatchError: The records cannot be told apart.
    """
    records = bytes(section.body)
    spans = zip(_spans(records, section.record_count), kept.flags, strict=True)
    shift_ms = batch.base_timestamp_ms - kept.base_timestamp_ms(batch)
    for (start, content, end), stays in spans:
        if stays:
            yield _shifted(records, content, end, shift_ms) if shift_ms else records[start:end]


def rewritten(batch: Batch, body: bytearray, kept: Kept, compression_level: int | None) -> Batch:
    """`batch` with `body` in the place of its records: all that `kept_records` gave."""
    horizon_bit = 0 if kept.delete_horizon_ms is None else DELETE_HORIZON_BIT
    data: bytes | bytearray = body
    if batch.compression is not Compression.NONE:
        data = compress(batch.compression, body, compression_level)
    times_ms = (kept.base_timestamp_ms(batch), kept.max_timestamp_ms)
    return _with_body(batch, data, batch.attributes | horizon_bit, times_ms, sum(kept.flags))


def emptied(batch: Batch) -> Batch:
    """`batch` without any record: it keeps the offsets and the last sequence number."""
    attributes = batch.attributes & ~(COMPRESSION_BITS | DELETE_HORIZON_BIT)
    return _with_body(batch, b"", attributes, (NO_TIMESTAMP_MS, batch.max_timestamp_ms), 0)


def _with_body(
    batch: Batch,
    body: bytes | bytearray,
    attributes: int,
    times_ms: tuple[int, int],
    record_count: int,
) -> Batch:
    data = bytearray(BATCH_HEADER_BYTES)
    data += body
    HEADER.pack_into(
        data,
        0,
        batch.base_offset,
        len(data) - LOG_OVERHEAD_BYTES,
        batch.partition_leader_epoch,
        MAGIC,
        0,
        attributes,
        batch.last_offset_delta,
        *times_ms,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        record_count,
    )
    with memoryview(data) as view:
        UINT32.pack_into(data, CRC_AT, crc32c(view[CHECKED_FROM:]))
    return Batch.parse(data)


def _spans(records: bytes, count: int) -> Iterator[tuple[int, int, int]]:
    """For each record, where it starts, where its length ends, and where it ends itself."""
    position = 0
    for _ in range(count):
        size_bytes, content = _varint(records, position)
        yield position, content, content + size_bytes
        position = content + size_bytes


def _shifted(records: bytes, content: int, end: int, shift_ms: int) -> bytes:
    """One record, its time relative to a base timestamp that lies `shift_ms` earlier."""
    # One byte of attributes comes first.
    delta_ms, rest = _varint(records, content + 1)
    changed = records[content : content + 1] + _zigzag(delta_ms + shift_ms) + records[rest:end]
    return _zigzag(len(changed)) + changed


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """The zigzag number at `position`, and where it ends."""
    number = 0
    for count in range(_MAX_VARINT_BYTES):
        byte = data[position + count]
        number |= (byte & ~_CONTINUES) << (7 * count)
        if byte < _CONTINUES:
            return (number >> 1) ^ -(number & 1), position + count + 1
    raise BatchError(ErrorCode.INVALID_RECORD, f"the number at byte {position} does not end")


def _zigzag(number: int) -> bytes:
    number = number << 1 if number >= 0 else ~(number << 1)
    encoded = bytearray()
    while number >= _CONTINUES:
        encoded.append(number & 0x7F | _CONTINUES)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
