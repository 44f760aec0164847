"""The values that cross between the codec twins and the rest of the package.

Buffers are in the machine's byte order and hold no Python object per record.  A `BinaryColumn` is
laid out as Arrow lays out its `binary` type: row `i` is `data[offsets[i]:offsets[i + 1]]`, and bit
`i` of `validity`, lowest bit first, is 0 where the row is null.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from ottla.values import NamedTuple

NO_TIMESTAMP_MS: Final = -1
MAX_INT32: Final = 2**31 - 1
MAX_INT64: Final = 2**63 - 1

MIN_RECORD_BYTES: Final = 7
"""Length, attributes, two deltas, key, value and header count: one byte each at the least."""

MAX_RECORD_OVERHEAD_BYTES: Final = 36
"""What a record needs beside its key, value and headers at the most: six varints, one byte."""

MAX_HEADER_OVERHEAD_BYTES: Final = 10
"""The same for one header: the lengths of its key and value."""

BATCH_HEADER_BYTES: Final = 61
"""From the base offset to the record count; the records follow."""

MAX_BODY_BYTES: Final = MAX_INT32 - BATCH_HEADER_BYTES
"""A batch states its length in 32 bits."""

Binary = bytes | bytearray | memoryview
Headers = Iterable[tuple[str, Binary | None]]
Unwritten = tuple[int, Binary | None, Binary | None, Headers | None]
"""A record to be written: timestamp in ms, key, value, headers."""

DecodedHeaders = tuple[tuple[str, bytes | None], ...]
Decoded = tuple[int, int, bytes | None, bytes | None, DecodedHeaders]
"""A record that was read: offset, timestamp in ms, key, value, headers."""


class Section(NamedTuple):
    """The records of one batch, decompressed, and what their deltas are relative to."""

    body: Binary
    record_count: int
    base_offset: int
    base_timestamp_ms: int
    append_time_ms: int | None = None
    """Set for LogAppendTime: then it is the timestamp of every record."""


class Common(NamedTuple):
    """What the records of a batch have in common for who reads them, and what they are made as.

    `make` is a class of tuples with topic, partition, offset, key, value, headers, timestamp in ms,
    timestamp type and leader epoch, in this order.
    """

    make: type[tuple[Any, ...]]
    topic: str
    partition: int
    timestamp_type: int
    leader_epoch: int
    no_headers: object
    """What a record without headers has in their place."""
    headers_of: Callable[[DecodedHeaders], object]
    """What makes that of headers."""


class Encoded(NamedTuple):
    """The records of a batch to be: `headroom_bytes` free bytes, then the records."""

    data: bytearray
    record_count: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    body_crc: int | None = None
    """The checksum of the records, if it was asked for."""


class Survey(NamedTuple):
    """What a walk over the records found, without keeping any of them."""

    max_timestamp_ms: int
    max_timestamp_offset: int
    """Offset of the first record with the largest timestamp; -1 where there are no records."""
    null_key_count: int
    is_dense: bool
    """Whether the offsets are base_offset, base_offset + 1, and so on, without a gap."""


class BinaryColumn(NamedTuple):
    """A column of byte strings.  Rows are counted from `first_row` on, as in a slice."""

    offsets: Binary
    data: Binary
    validity: Binary | None = None
    first_row: int = 0


class HeaderColumn(NamedTuple):
    """A column of header lists: row `i` has the entries `offsets[i]` to `offsets[i + 1]`."""

    offsets: Binary
    keys: BinaryColumn
    values: BinaryColumn
    validity: Binary | None = None
    first_row: int = 0


class Columns(NamedTuple):
    """Decoded records as columns: `offset` and `timestamp_ms` are 64-bit integers."""

    record_count: int
    offset: bytes
    timestamp_ms: bytes
    key: BinaryColumn
    value: BinaryColumn
    headers: HeaderColumn


class UnwrittenColumns(NamedTuple):
    """Records to be written, as columns; what is `None` is null in every row.

    `timestamp_ms` is a buffer of 64-bit integers, or one integer for all rows.
    """

    record_count: int
    timestamp_ms: Binary | int
    key: BinaryColumn | None = None
    value: BinaryColumn | None = None
    headers: HeaderColumn | None = None
