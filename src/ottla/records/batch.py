"""A view on the bytes of one record batch.

The header, which `layout` draws, is parsed once, the bytes are never copied, and the records are
read only when asked for.
"""

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import Any, Final, Self

from ottla.errors import BatchError, ErrorCode
from ottla.records.compression import Compression, decompress
from ottla.records.kernel import kernel
from ottla.records.layout import (
    CHECKED_FROM,
    COMPRESSION_BITS,
    CONTROL_BIT,
    CRC_AT,
    DELETE_HORIZON_BIT,
    HEADER,
    LENGTH_AT,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_AT,
    MAX_TIMESTAMP_AT,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
)
from ottla.records.shapes import (
    BATCH_HEADER_BYTES,
    MAX_INT32,
    Binary,
    Common,
    Decoded,
    Section,
    Survey,
)

__all__ = [
    "CHECKED_FROM",
    "COMPRESSION_BITS",
    "CONTROL_BIT",
    "CRC_AT",
    "DELETE_HORIZON_BIT",
    "HEADER",
    "LOG_APPEND_TIME_BIT",
    "LOG_OVERHEAD_BYTES",
    "MAGIC",
    "MAX_DECOMPRESSED_BYTES",
    "NO_LEADER_EPOCH",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "TRANSACTIONAL_BIT",
    "UINT32",
    "Batch",
    "TimestampType",
    "batches",
    "size_of_batch",
]  # what lies where is asked for together with the batch

MAX_DECOMPRESSED_BYTES: Final = 64 * 1024 * 1024
"""What the records of one batch may grow to, unless the caller says otherwise.

A batch has 1 MiB by default, and a whole fetch 50 MiB, so no honest batch comes near it, while
8 KiB of hostile zstd would otherwise grow to 256 MiB.
"""

_OFFSET_LENGTH_EPOCH: Final = Struct(">qii")
_INT64: Final = Struct(">q")
_INT32: Final = Struct(">i")
UINT32: Final = Struct(">I")
_INT16: Final = Struct(">h")
_LENGTH_AND_MAGIC: Final = Struct(">i4xb")


class TimestampType(IntEnum):
    """Who set the timestamps: the producer, or the broker when it appended the batch."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class Batch:
    """One batch of magic 2.  Make it with `Batch.parse` or `batches`."""

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp_ms",
        "crc",
        "data",
        "last_offset",
        "last_offset_delta",
        "max_timestamp_ms",
        "partition_leader_epoch",
        "producer_epoch",
        "producer_id",
        "record_count",
    )

    data: memoryview
    """The whole batch, nothing else.  Not a copy: it keeps the buffer it came from alive."""
    base_offset: int
    """This, what follows from it, and the leader epoch are changed by `place` alone."""
    partition_leader_epoch: int
    crc: int
    attributes: int
    last_offset_delta: int
    last_offset: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    def __init__(self, data: memoryview) -> None:
        """Take in the header of `data`, which `size_of_batch` has found to be one whole batch."""
        self.data = data
        (
            self.base_offset,
            _batch_length_bytes,
            self.partition_leader_epoch,
            _magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp_ms,
            self.max_timestamp_ms,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        ) = HEADER.unpack_from(data)
        if self.record_count < 0 or self.last_offset_delta < 0:
            raise BatchError(
                ErrorCode.INVALID_RECORD,
                f"record count {self.record_count} and last offset delta {self.last_offset_delta} "
                "must not be negative",
            )
        self.last_offset = self.base_offset + self.last_offset_delta

    @classmethod
    def parse(cls, data: Binary) -> Self:
        """A view on `data`, which must be one whole batch and no more.  The CRC is not checked.

        Raises:
            BatchError: The bytes are not one batch of magic 2.
        """
        view = _byte_view(data)
        size_bytes = size_of_batch(view)
        if size_bytes != len(view):
            raise BatchError(
                ErrorCode.CORRUPT_MESSAGE,
                f"the batch says it has {size_bytes} bytes, but {len(view)} are at hand",
            )
        return cls(view)

    def __repr__(self) -> str:
        return (
            f"<Batch {self.base_offset}..{self.last_offset}, {self.record_count} records, "
            f"{self.size_bytes} bytes, attributes {self.attributes:#04x}>"
        )

    @property
    def size_bytes(self) -> int:
        return len(self.data)

    def place(self, base_offset: int, leader_epoch: int) -> None:
        """Set base offset and leader epoch in place, in one go; the data must be writable."""
        length_bytes = len(self.data) - LOG_OVERHEAD_BYTES
        _OFFSET_LENGTH_EPOCH.pack_into(self.data, 0, base_offset, length_bytes, leader_epoch)
        self.base_offset = base_offset
        self.last_offset = base_offset + self.last_offset_delta
        self.partition_leader_epoch = leader_epoch

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1

    @property
    def last_sequence(self) -> int:
        """Sequence numbers start again at 0 after 2**31 - 1."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & MAX_INT32

    @property
    def compression(self) -> Compression:
        """How the records are compressed.

        Raises:
            BatchError: The number is none that the protocol knows.
        """
        return Compression(self.attributes & COMPRESSION_BITS)

    @property
    def timestamp_type(self) -> TimestampType:
        is_append_time = self.attributes & LOG_APPEND_TIME_BIT
        return TimestampType.LOG_APPEND_TIME if is_append_time else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may drop the tombstones and markers in here; `None` if not yet known."""
        return self.base_timestamp_ms if self.attributes & DELETE_HORIZON_BIT else None

    def check_crc(self) -> None:
        """Compare the checksum with the bytes.

        Raises:
            BatchError: They differ; the bytes were damaged on their way or on disk.
        """
        computed = kernel.crc32c(self.data[CHECKED_FROM:])
        if computed != self.crc:
            raise BatchError(
                ErrorCode.CORRUPT_MESSAGE,
                f"the batch at offset {self.base_offset} has checksum {self.crc:#010x}, "
                f"but its bytes give {computed:#010x}",
            )

    def stamp_append_time(self, append_time_ms: int) -> None:
        """Make this a LogAppendTime batch, in place: `append_time_ms` becomes every timestamp."""
        attributes = self.attributes | LOG_APPEND_TIME_BIT
        _INT64.pack_into(self.data, MAX_TIMESTAMP_AT, append_time_ms)
        _INT16.pack_into(self.data, CHECKED_FROM, attributes)
        self.attributes, self.max_timestamp_ms = attributes, append_time_ms
        self.crc = kernel.crc32c(self.data[CHECKED_FROM:])
        UINT32.pack_into(self.data, CRC_AT, self.crc)

    def section(self, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> Section:
        """The records as the codec reads them, decompressed if need be.

        Raises:
            BatchError: The records cannot be decompressed, or not into `max_bytes`.
        """
        body: Binary = self.data[BATCH_HEADER_BYTES:]
        attributes = self.attributes
        # Most batches have no bit set, and this is asked for each: no enum member is looked up.
        if attributes & COMPRESSION_BITS:
            compression = self.compression
            if len(body) > 0:
                body = decompress(compression, body, max_bytes)
        append_time_ms = self.max_timestamp_ms if attributes & LOG_APPEND_TIME_BIT else None
        return Section(
            body, self.record_count, self.base_offset, self.base_timestamp_ms, append_time_ms
        )

    def records(self, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> Iterator[Decoded]:
        """Each record as (offset, timestamp in ms, key, value, headers), read when it is asked for.

        Raises:
            BatchError: The records are not what the header announced.  What was yielded before
                a broken record is good.
        """
        return kernel.iterate(self.section(max_bytes))

    def record_list(self, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> list[Decoded]:
        """All records at once: faster than `records`, and all or nothing."""
        return kernel.decode(self.section(max_bytes))

    def record_list_as(self, common: Common, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> list[Any]:
        """As `record_list`, as tuples of the class that `common` says."""
        return kernel.decode_as(self.section(max_bytes), common)

    def survey(self, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> Survey:
        """Check all records as `record_list` does, and keep only what a broker asks about them."""
        return kernel.survey(self.section(max_bytes))


def batches(data: Binary, *, partial_tail: bool) -> Iterator[Batch]:
    """The batches in `data`, one after the other.

    With `partial_tail` a last batch that is cut short ends the walk, as it does in a fetch
    response, which a broker cuts where the byte limit falls.  Without, it is an error.

    Raises:
        BatchError: Something that is not a batch of magic 2, or a partial one that may not be.
    """
    view = _byte_view(data)
    end = len(view)
    position = 0
    while position < end:
        left_bytes = end - position
        if left_bytes > MAGIC_AT:
            length_bytes, magic = _LENGTH_AND_MAGIC.unpack_from(view, position + LENGTH_AT)
            size_bytes = LOG_OVERHEAD_BYTES + length_bytes
            if magic == MAGIC and BATCH_HEADER_BYTES <= size_bytes <= left_bytes:
                yield Batch(view[position : position + size_bytes])
                position += size_bytes
                continue
        rest = view[position:]
        if partial_tail and _is_partial(rest):
            return
        size_of_batch(rest)  # says what is wrong with it
        raise AssertionError(f"{rest[:BATCH_HEADER_BYTES].hex()} is a batch after all")


def size_of_batch(view: memoryview) -> int:
    """How many bytes the batch at the start of `view` has, all of them at hand.

    Raises:
        BatchError: No whole batch of magic 2 starts here.
    """
    if len(view) <= MAGIC_AT:
        raise BatchError(
            ErrorCode.CORRUPT_MESSAGE,
            f"{len(view)} bytes are less than the header of a batch, which has "
            f"{BATCH_HEADER_BYTES}",
        )
    if view[MAGIC_AT] != MAGIC:
        raise _wrong_magic(view[MAGIC_AT])
    size_bytes: int = LOG_OVERHEAD_BYTES + _INT32.unpack_from(view, LENGTH_AT)[0]
    if not BATCH_HEADER_BYTES <= size_bytes <= len(view):
        raise BatchError(
            ErrorCode.CORRUPT_MESSAGE,
            f"the batch says it has {size_bytes} bytes, but {len(view)} are at hand "
            f"and {BATCH_HEADER_BYTES} is the least",
        )
    return size_bytes


def _is_partial(view: memoryview) -> bool:
    """Whether the bytes end inside the batch.  False too where no batch starts at all."""
    if len(view) <= MAGIC_AT:
        return True
    size_bytes: int = LOG_OVERHEAD_BYTES + _INT32.unpack_from(view, LENGTH_AT)[0]
    return view[MAGIC_AT] == MAGIC and size_bytes >= BATCH_HEADER_BYTES and size_bytes > len(view)


def _wrong_magic(magic: int) -> BatchError:
    if magic in (0, 1):
        return BatchError(
            ErrorCode.INVALID_RECORD,
            f"magic {magic} is the record format from before Kafka 0.11, which is not supported; "
            "use a client that sends magic 2 (every one since 2017 can)",
        )
    return BatchError(ErrorCode.CORRUPT_MESSAGE, f"magic {magic} is no record format")


def _byte_view(data: Binary) -> memoryview:
    view = memoryview(data)
    return view if view.format == "B" and view.contiguous and view.ndim == 1 else view.cast("B")
