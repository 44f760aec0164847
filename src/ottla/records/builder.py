"""Records to batches.

`build` is the whole job: records in, bytes of one batch out, checksum included.  The result is a
`bytearray`, because the broker that receives a batch sets its base offset and leader epoch.
"""

from collections.abc import Iterable
from typing import Final

from ottla.records.batch import (
    CHECKED_FROM,
    CONTROL_BIT,
    CRC_AT,
    DELETE_HORIZON_BIT,
    HEADER,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    UINT32,
)
from ottla.records.compression import Compression, compress
from ottla.records.faults import body_too_large
from ottla.records.kernel import kernel
from ottla.records.shapes import (
    BATCH_HEADER_BYTES,
    MAX_BODY_BYTES,
    MAX_HEADER_OVERHEAD_BYTES,
    MAX_RECORD_OVERHEAD_BYTES,
    Binary,
    Encoded,
    Headers,
    Unwritten,
    UnwrittenColumns,
)
from ottla.values import NamedTuple, dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """What a batch says of itself beside its records."""

    base_offset: int = 0
    partition_leader_epoch: int = NO_LEADER_EPOCH
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE
    is_transactional: bool = False
    is_control: bool = False
    append_time_ms: int | None = None
    """Set it for LogAppendTime; without, the records keep the time their producer gave them."""
    delete_horizon_ms: int | None = None
    """When compaction may drop the tombstones of the batch; it takes the base timestamp's place."""
    compression: Compression = Compression.NONE
    compression_level: int | None = None

    def __post_init__(self) -> None:
        for name in ("append_time_ms", "delete_horizon_ms"):
            time_ms = getattr(self, name)
            if time_ms is not None and time_ms < 0:
                raise ValueError(f"{name} = {time_ms} must not be negative")

    @property
    def attributes(self) -> int:
        """The flags as the header has them."""
        return (
            self.compression
            | (LOG_APPEND_TIME_BIT if self.append_time_ms is not None else 0)
            | (TRANSACTIONAL_BIT if self.is_transactional else 0)
            | (CONTROL_BIT if self.is_control else 0)
            | (DELETE_HORIZON_BIT if self.delete_horizon_ms is not None else 0)
        )


_PLAIN: Final = BatchOptions()


class Unsealed(NamedTuple):
    """A batch without its checksum, and that of all behind its header; see `seal`."""

    data: bytearray
    body_crc: int


_HURRIED_BYTES: Final = 2 * 1024 * 1024
"""Batches up to this size are sealed in one go: mostly by a producer's I/O thread, while the thread
that sends is busy, and a broker waits for the batch."""


def build(records: Iterable[Unwritten], options: BatchOptions = _PLAIN) -> bytearray:
    """The bytes of one batch of `records`: tuples of timestamp in ms, key, value, headers.

    Raises:
        TypeError: A key or value is not bytes, bytearray, memoryview or None; a header key is
            not str; a timestamp is not an integer.
        ValueError: There are no records, one has not four parts, or a timestamp is below -1.
        BatchError: The records are more than a batch can hold.
    """
    data = finish(kernel.encode(records, options.delete_horizon_ms, BATCH_HEADER_BYTES), options)
    seal(data)
    return data


def build_columns(columns: UnwrittenColumns, options: BatchOptions = _PLAIN) -> bytearray:
    """The bytes of one batch of the rows of `columns`.

    Raises:
        ValueError: There are no rows, or the columns contradict themselves.
        BatchError: The records are more than a batch can hold.
    """
    data, body_crc = build_unsealed(columns, options)
    seal(data, body_crc)
    return data


def build_unsealed(
    columns: UnwrittenColumns, options: BatchOptions = _PLAIN, into: bytearray | None = None
) -> Unsealed:
    """As `build_columns`, for who changes the header once more, and then seals it.

    `into` is memory to be used again; what is compressed takes some more.
    """
    is_plain = options.compression is Compression.NONE
    encoded = kernel.encode_columns(
        columns, options.delete_horizon_ms, BATCH_HEADER_BYTES, into, is_plain
    )
    data, body_crc = finish(encoded, options), encoded.body_crc
    return Unsealed(data, crc_of_body(data) if body_crc is None else body_crc)


def finish(encoded: Encoded, options: BatchOptions) -> bytearray:
    """Compress the records if asked to, and write the header into the room before them.

    It has no checksum, so that the header can be changed once more: `seal` it then.
    """
    data, record_count, base_timestamp_ms, max_timestamp_ms, _ = encoded
    if record_count == 0:
        raise ValueError("a batch needs at least one record")
    if options.compression is not Compression.NONE:
        body = memoryview(data)[BATCH_HEADER_BYTES:]
        data = bytearray(BATCH_HEADER_BYTES)
        data += compress(options.compression, body, options.compression_level)
        if len(data) - BATCH_HEADER_BYTES > MAX_BODY_BYTES:
            raise body_too_large()
    if options.append_time_ms is not None:
        max_timestamp_ms = options.append_time_ms
    header = (
        options.base_offset,
        len(data) - LOG_OVERHEAD_BYTES,
        options.partition_leader_epoch,
        MAGIC,
        0,
        options.attributes,
        record_count - 1,
        base_timestamp_ms,
        max_timestamp_ms,
        options.producer_id,
        options.producer_epoch,
        options.base_sequence,
        record_count,
    )
    HEADER.pack_into(data, 0, *header)
    return data


def seal(data: bytearray, body_crc: int | None = None) -> None:
    """Write the checksum of a batch into its header; `body_crc` is that of all behind the header.

    Who has it from when the records were written need not go through them again.
    """
    if body_crc is None:
        with memoryview(data) as view:
            crc = kernel.crc32c(view[CHECKED_FROM:], 0, _HURRIED_BYTES)
    else:
        header_crc = kernel.crc32c(data[CHECKED_FROM:BATCH_HEADER_BYTES])  # a few bytes, copied
        crc = kernel.crc32c_joined(header_crc, body_crc, len(data) - BATCH_HEADER_BYTES)
    UINT32.pack_into(data, CRC_AT, crc)


def crc_of_body(data: bytearray) -> int:
    """The checksum of what is behind the header of a batch, for `seal`."""
    with memoryview(data) as view:
        return kernel.crc32c(view[BATCH_HEADER_BYTES:])


def record_size_bound(
    key: Binary | None, value: Binary | None, headers: Headers | None = ()
) -> int:
    """The most bytes that one record takes in a batch, before compression.

    An accumulator that adds these to `BATCH_HEADER_BYTES` never outgrows its batch size, if it
    does not compress.  Compressed, incompressible records can take slightly more.
    """
    size_bytes = MAX_RECORD_OVERHEAD_BYTES + _size_bytes(key) + _size_bytes(value)
    for header_key, header_value in headers or ():
        size_bytes += MAX_HEADER_OVERHEAD_BYTES
        size_bytes += len(header_key.encode()) + _size_bytes(header_value)
    return size_bytes


def _size_bytes(field: Binary | None) -> int:
    if field is None:
        return 0
    return field.nbytes if isinstance(field, memoryview) else len(field)
