"""How records lie inside a batch: the readable twin of `_codec.pyx`.

A record is its length and then attributes (unused), timestamp delta, offset delta, key, value and
headers; numbers are zigzag varints, and the length -1 stands for null.  Both twins have the same
names, accept the same input and refuse the same bytes with the same `BatchError`: a length above
what is left, or below -1, a number that is too long, surplus bytes, a wrong record count.

Header keys that are not UTF-8 are read with replacement characters, as Kafka's own consumer does:
a record that everybody else can read must not block a partition here.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any

from ottla.errors import BatchError
from ottla.records.faults import (
    Fault,
    broken_record,
    column_too_large,
    trailing_bytes,
    wrong_count,
)
from ottla.records.layout import (
    CHECKED_FROM,
    HEADER,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
)
from ottla.records.plain_hashes import crc32c, crc32c_joined, murmur2, murmur2_column
from ottla.records.plain_writer import Writer
from ottla.records.rows import BinaryColumnWriter, binary_rows, integers, is_valid, validity_of
from ottla.records.shapes import (
    BATCH_HEADER_BYTES,
    MAX_INT32,
    MAX_INT64,
    MIN_RECORD_BYTES,
    NO_TIMESTAMP_MS,
    Binary,
    Columns,
    Common,
    Decoded,
    DecodedHeaders,
    Encoded,
    HeaderColumn,
    Headers,
    Section,
    Survey,
    Unwritten,
    UnwrittenColumns,
)

__all__ = [
    "Writer",
    "columns",
    "crc32c",
    "crc32c_joined",
    "decode",
    "decode_as",
    "encode",
    "encode_columns",
    "is_plain",
    "iterate",
    "murmur2",
    "murmur2_column",
    "survey",
]


def encode(
    records: Iterable[Unwritten], base_timestamp_ms: int | None = None, headroom_bytes: int = 0
) -> Encoded:
    """Write records one after the other, with `headroom_bytes` zero bytes before the first.

    Timestamps are relative to `base_timestamp_ms`, or to that of the first record.

    Raises:
        TypeError: A key or value is not bytes, bytearray, memoryview or None; a header key is
            not str; a timestamp is not an integer.
        ValueError: A record does not have four parts, or a timestamp is outside [-1, 2**63 - 1].
        BatchError: The records are more than a batch can hold.
    """
    writer = Writer(base_timestamp_ms, headroom_bytes)
    writer.extend(records)
    return writer.encoded()


def decode(section: Section) -> list[Decoded]:
    """All records as tuples of offset, timestamp in ms, key, value and headers.

    Raises:
        BatchError: The bytes are not the records that the batch announced.
    """
    return list(iterate(section))


def decode_as(section: Section, common: Common) -> list[Any]:
    """All records as tuples of the class that `common` says, with what they have in common.

    Raises:
        BatchError: The bytes are not the records that the batch announced.
    """
    make, topic, partition, kind, epoch, no_headers, headers_of = common
    new = tuple.__new__
    return [
        new(
            make,
            (
                topic,
                partition,
                offset,
                key,
                value,
                headers_of(headers) if headers else no_headers,
                timestamp_ms,
                kind,
                epoch,
            ),
        )
        for offset, timestamp_ms, key, value, headers in iterate(section)
    ]


def iterate(section: Section) -> Iterator[Decoded]:
    """The records one by one, as `decode` gives them; an error comes when it is reached."""
    body = bytes(memoryview(section.body))
    if section.record_count < 0 or section.record_count > len(body) // MIN_RECORD_BYTES:
        raise wrong_count(section.record_count, len(body))
    if section.record_count == 0 and body:
        raise trailing_bytes(0, len(body))
    return _walk(body, section)


def _walk(body: bytes, section: Section) -> Iterator[Decoded]:
    _, record_count, base_offset, base_timestamp_ms, append_time_ms = section
    position = 0
    for record_index in range(record_count):
        fault = Fault.LENGTH
        try:
            length, position = _number(body, position, 32)
            if not 0 <= length <= len(body) - position:
                raise ValueError
            record = body[position : position + length]
            position += length
            fault = Fault.TIMESTAMP
            delta, at = _number(record, 1, 64)
            timestamp_ms = base_timestamp_ms + delta
            if not -MAX_INT64 - 1 <= timestamp_ms <= MAX_INT64:
                raise ValueError
            fault = Fault.OFFSET
            delta, at = _number(record, at, 32)
            offset = base_offset + delta
            if not -MAX_INT64 - 1 <= offset <= MAX_INT64:
                raise ValueError
            fault = Fault.KEY
            key, at = _bytes_at(record, at)
            fault = Fault.VALUE
            value, at = _bytes_at(record, at)
            fault = Fault.HEADER_COUNT
            header_count, at = _number(record, at, 32)
        except (IndexError, ValueError):
            raise broken_record(record_index, fault) from None
        headers: DecodedHeaders = ()
        if header_count:
            headers, at = _headers_at(record, at, header_count, record_index)
        if at != length:
            raise broken_record(record_index, Fault.SURPLUS)
        if record_index == record_count - 1 and position != len(body):
            raise trailing_bytes(record_count, len(body) - position)
        if append_time_ms is not None:
            timestamp_ms = append_time_ms
        yield offset, timestamp_ms, key, value, headers


def _headers_at(
    record: bytes, at: int, header_count: int, record_index: int
) -> tuple[DecodedHeaders, int]:
    # A header takes two bytes at least, so this refuses counts that memory should not be spent on.
    if not 0 <= header_count <= (len(record) - at) // 2:
        raise broken_record(record_index, Fault.HEADER_COUNT)
    headers = []
    for _ in range(header_count):
        fault = Fault.HEADER_KEY
        try:
            key, at = _bytes_at(record, at)
            if key is None:
                raise ValueError
            fault = Fault.HEADER_VALUE
            value, at = _bytes_at(record, at)
        except (IndexError, ValueError):
            raise broken_record(record_index, fault) from None
        headers.append((key.decode(errors="replace"), value))
    return tuple(headers), at


def _number(data: bytes, position: int, bits: int) -> tuple[int, int]:
    """Read a zigzag varint; IndexError where the data ends, ValueError above `bits` bits."""
    raw = data[position]
    position += 1
    if raw > 0x7F:
        raw &= 0x7F
        shift = 7
        while True:
            byte = data[position]
            position += 1
            raw |= (byte & 0x7F) << shift
            if byte <= 0x7F:
                break
            shift += 7
            if shift >= bits:
                raise ValueError
        if raw >> bits:
            raise ValueError
    return (raw >> 1) ^ -(raw & 1), position


def _bytes_at(record: bytes, at: int) -> tuple[bytes | None, int]:
    raw = record[at]
    if raw <= 0x7F:  # `_number` would do, but most lengths are short, and calls are dear
        size = (raw >> 1) ^ -(raw & 1)
        at += 1
    else:
        size, at = _number(record, at, 32)
    if size < 0:
        if size != -1:
            raise ValueError
        return None, at
    end = at + size
    if end > len(record):
        raise ValueError
    return record[at:end], end


def survey(section: Section) -> Survey:
    """Walk over all records, check them as `decode` does, and keep none."""
    max_timestamp_ms, max_timestamp_offset = NO_TIMESTAMP_MS, -1
    null_key_count = 0
    is_dense = True
    expected_offset = section.base_offset
    for offset, timestamp_ms, key, _value, _headers in iterate(section):
        if max_timestamp_offset == -1 or timestamp_ms > max_timestamp_ms:
            max_timestamp_ms, max_timestamp_offset = timestamp_ms, offset
        null_key_count += key is None
        is_dense = is_dense and offset == expected_offset
        expected_offset += 1
    return Survey(max_timestamp_ms, max_timestamp_offset, null_key_count, is_dense)


def is_plain(data: Binary, latest_ms: int, needs_keys: bool) -> bool:
    """Whether `data` is a batch as producers make them, and a broker may append it as it is.

    One whole batch of magic 2 with a good checksum, neither compressed nor a control batch; at
    base offset 0, with the records that it announces, at offsets 0, 1, 2 and so on; a sequence
    number if it has a producer; timestamps of the producer's, none after `latest_ms`; and a key in
    every record if those are needed.  What is wrong, or merely unusual, a closer look must tell.
    """
    view = memoryview(data)
    if len(view) < BATCH_HEADER_BYTES:
        return False
    header = HEADER.unpack_from(view)
    base_offset, length_bytes, _epoch, magic, crc, attributes, last_offset_delta = header[:7]
    base_timestamp_ms, _max_timestamp_ms, producer_id, _, base_sequence, record_count = header[7:]
    if (
        LOG_OVERHEAD_BYTES + length_bytes != len(view)
        or magic != MAGIC
        or attributes & ~TRANSACTIONAL_BIT
        or base_offset != 0
        or record_count < 1
        or record_count != last_offset_delta + 1
        or (producer_id != NO_PRODUCER_ID and base_sequence == NO_SEQUENCE)
        or crc32c(view[CHECKED_FROM:]) != crc
    ):
        return False
    try:
        found = survey(Section(view[BATCH_HEADER_BYTES:], record_count, 0, base_timestamp_ms))
    except BatchError:
        return False
    return (
        found.is_dense
        and found.max_timestamp_ms <= latest_ms
        and not (needs_keys and found.null_key_count)
    )


def columns(sections: Sequence[Section], may_overwrite: bool = False) -> Columns:
    """The records of all sections as one set of columns.

    With `may_overwrite`, nobody reads the sections afterwards: a twin may leave the values where
    they are, moved together, and then the column keeps their buffer alive.

    Raises:
        BatchError: As for `decode`; or a column would exceed 2 GiB.
    """
    offsets, timestamps_ms, header_ends = array("q"), array("q"), array("i", (0,))
    keys, values = BinaryColumnWriter("key"), BinaryColumnWriter("value")
    header_keys, header_values = BinaryColumnWriter("headers"), BinaryColumnWriter("headers")
    header_count = 0
    for section in sections:
        for offset, timestamp_ms, key, value, headers in iterate(section):
            offsets.append(offset)
            timestamps_ms.append(timestamp_ms)
            keys.append(key)
            values.append(value)
            for header_key, header_value in headers:
                header_keys.append(header_key.encode())
                header_values.append(header_value)
            header_count += len(headers)
            if header_count > MAX_INT32:
                raise column_too_large("headers")
            header_ends.append(header_count)
    return Columns(
        len(offsets),
        offsets.tobytes(),
        timestamps_ms.tobytes(),
        keys.finish(),
        values.finish(),
        HeaderColumn(header_ends.tobytes(), header_keys.finish(), header_values.finish()),
    )


def encode_columns(
    columns: UnwrittenColumns,
    base_timestamp_ms: int | None = None,
    headroom_bytes: int = 0,
    into: bytearray | None = None,
    has_crc: bool = False,
) -> Encoded:
    """Write the rows of columns as `encode` writes records; to `into`, over what is there.

    With `has_crc` it comes with the checksum of the records, computed while they are at hand.

    Raises:
        BufferError: Somebody looks into `into`.
        ValueError: A buffer is too short for its rows, a row lies outside its data, a header key
            is null or not UTF-8, or a timestamp is outside [-1, 2**63 - 1].
        BatchError: The records are more than a batch can hold.
    """
    encoded = encode(_unwritten(columns), base_timestamp_ms, headroom_bytes)
    if has_crc:
        crc = crc32c(memoryview(encoded.data)[headroom_bytes:])
        encoded = encoded._replace(body_crc=crc)
    if into is None:
        return encoded
    into.clear()
    into += encoded.data
    return encoded._replace(data=into)


def _unwritten(columns: UnwrittenColumns) -> Iterator[Unwritten]:
    record_count, timestamp_ms, key, value, headers = columns
    if record_count < 0:
        raise ValueError(f"columns cannot have {record_count} rows")
    timestamps_ms = (
        repeat(timestamp_ms, record_count)
        if isinstance(timestamp_ms, int)
        else integers("timestamp", timestamp_ms, "q", 0, record_count)
    )
    return zip(
        timestamps_ms,
        repeat(None, record_count) if key is None else binary_rows("key", key, record_count),
        repeat(None, record_count) if value is None else binary_rows("value", value, record_count),
        repeat(None, record_count) if headers is None else _header_rows(headers, record_count),
        strict=True,
    )


def _header_rows(column: HeaderColumn, row_count: int) -> Iterator[Headers | None]:
    ends = integers("headers", column.offsets, "i", column.first_row, row_count + 1)
    validity = validity_of("headers", column, row_count)
    for row in range(row_count):
        start, end = ends[row], ends[row + 1]
        if not is_valid(validity, column.first_row + row):
            yield None
            continue
        if not 0 <= start <= end:
            raise ValueError(f"column headers: row {row} lies outside its data")
        yield list(_header_entries(column, start, end - start))


def _header_entries(
    column: HeaderColumn, first: int, count: int
) -> Iterator[tuple[str, bytes | None]]:
    keys = column.keys._replace(first_row=column.keys.first_row + first)
    values = column.values._replace(first_row=column.values.first_row + first)
    for key, value in zip(
        binary_rows("headers", keys, count), binary_rows("headers", values, count), strict=True
    ):
        if key is None:
            raise ValueError("column headers: a header key is null")
        try:
            yield key.decode(), value
        except UnicodeDecodeError as error:
            raise ValueError("column headers: a header key is not UTF-8") from error
