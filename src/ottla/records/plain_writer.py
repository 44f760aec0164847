"""Writing records in plain Python: the part of `codec` that makes bytes of them.

Numbers are looked up, not computed: batches have small ones, again and again.
"""

from collections.abc import Iterable, Iterator
from operator import index
from typing import Final

from ottla.records.faults import body_too_large
from ottla.records.shapes import (
    MAX_BODY_BYTES,
    MAX_INT64,
    MAX_RECORD_OVERHEAD_BYTES,
    NO_TIMESTAMP_MS,
    Binary,
    Encoded,
    Headers,
    Unwritten,
)

_CACHED_VARINTS: Final = 1 << 16
"""Batches of this many records find each of their offset deltas ready made."""


class _Varints(dict[int, bytes]):
    """Number -> its varint between two constants; those of small numbers are kept."""

    def __init__(self, before: bytes = b"", after: bytes = b"") -> None:
        super().__init__()
        self._before, self._after = before, after

    def __missing__(self, number: int) -> bytes:
        raw = (number << 1) ^ (number >> 63)
        varint = bytearray()
        while raw > 0x7F:
            varint.append(raw & 0x7F | 0x80)
            raw >>= 7
        varint.append(raw)
        whole = self._before + varint + self._after
        if 0 <= number < _CACHED_VARINTS:
            self[number] = whole
        return whole


_VARINT: Final = _Varints()
_LENGTH_AND_ATTRIBUTES: Final = _Varints(after=b"\0")
_NULL_KEY_AND_VALUE_LENGTH: Final = _Varints(before=b"\1")
_NULL: Final = b"\1"
_NO_HEADERS: Final = b"\0"


class Writer:
    """Records of a batch to be, written one after the other as they come.

    What is refused leaves everything as it was.  `len` is how many there are.
    """

    def __init__(self, base_timestamp_ms: int | None = None, headroom_bytes: int = 0) -> None:
        """Timestamps are relative to `base_timestamp_ms`, or to that of the first record."""
        self._base_timestamp_ms = base_timestamp_ms
        self._max_timestamp_ms = NO_TIMESTAMP_MS
        self._parts: list[bytes] | None = [bytes(headroom_bytes)]
        self._headroom_bytes = headroom_bytes
        self._body_bytes = 0
        self._count = 0
        self.allowed_bytes = 0
        """How much `offer` may use, the headroom included; see `allow`."""

    def __len__(self) -> int:
        return self._count

    @property
    def size_bytes(self) -> int:
        """How much is used, the headroom included."""
        return self._headroom_bytes + self._body_bytes

    def allow(self, size_bytes: int) -> None:
        """Let `offer` use so much."""
        self.allowed_bytes = size_bytes

    def offer(self, timestamp_ms: int, key: Binary | None, value: Binary | None) -> int:
        """As `append`, but -1, and nothing done, if the records were taken out, or more than
        `allowed_bytes` would be used.
        """
        if self._parts is None or self.size_bytes + _bound_bytes(key, value) > self.allowed_bytes:
            return -1
        return self.append(timestamp_ms, key, value)

    def append(
        self,
        timestamp_ms: int,
        key: Binary | None,
        value: Binary | None,
        headers: Headers | None = None,
    ) -> int:
        """Write a record; which one it is.  Raises what `encode` raises."""
        if type(timestamp_ms) is not int:
            timestamp_ms = index(timestamp_ms)
        if timestamp_ms < NO_TIMESTAMP_MS:
            raise _impossible_timestamp(timestamp_ms)
        base_ms = timestamp_ms if self._base_timestamp_ms is None else self._base_timestamp_ms
        if max(timestamp_ms, timestamp_ms - base_ms) > MAX_INT64:
            raise _impossible_timestamp(timestamp_ms)
        timestamp, offset = _VARINT[timestamp_ms - base_ms], _VARINT[self._count]
        if key is None and type(value) is bytes and not headers:  # most records, three times faster
            size = _NULL_KEY_AND_VALUE_LENGTH[len(value)]
            length = len(timestamp) + len(offset) + len(size) + len(value) + 2
            parts = [_LENGTH_AND_ATTRIBUTES[length], timestamp, offset, size, value, _NO_HEADERS]
        else:
            payload = _field("key", key) + _field("value", value) + _headers(headers)
            length = len(timestamp) + len(offset) + len(payload) + 1
            parts = [_LENGTH_AND_ATTRIBUTES[length], timestamp, offset, payload]
        self._add(parts, length + len(parts[0]) - 1)
        self._base_timestamp_ms = base_ms
        self._max_timestamp_ms = max(self._max_timestamp_ms, timestamp_ms)
        self._count += 1
        return self._count - 1

    def extend(self, records: Iterable[Unwritten]) -> None:
        """Write records; of those before one that is refused, all are written."""
        rest = iter(records)
        while (other := self._write_plain(rest)) is not None:
            self.append(*other)

    def _write_plain(self, records: Iterator[Unwritten]) -> Unwritten | None:
        """Do as `append` would, in one loop; ends at, and returns, one that is not plain.

        Plain are values without key and headers, once there is a first timestamp: most records, and
        this is twice as fast.
        """
        held, base_ms = self._held(), self._base_timestamp_ms
        count, body_bytes, max_ms = self._count, self._body_bytes, self._max_timestamp_ms
        try:
            for record in records:
                timestamp_ms, key, value, headers = record
                if (
                    base_ms is None
                    or type(timestamp_ms) is not int
                    or not 0 <= timestamp_ms - base_ms <= MAX_INT64 >= timestamp_ms
                    or key is not None
                    or type(value) is not bytes
                    or headers
                ):
                    return record
                timestamp, offset = _VARINT[timestamp_ms - base_ms], _VARINT[count]
                size = _NULL_KEY_AND_VALUE_LENGTH[len(value)]
                length = len(timestamp) + len(offset) + len(size) + len(value) + 2
                before = _LENGTH_AND_ATTRIBUTES[length]
                grown_bytes = body_bytes + length + len(before) - 1
                if grown_bytes > MAX_BODY_BYTES:
                    return record
                held += (before, timestamp, offset, size, value, _NO_HEADERS)
                body_bytes = grown_bytes
                count += 1
                if timestamp_ms > max_ms:
                    max_ms = timestamp_ms
            return None
        finally:
            self._count, self._body_bytes, self._max_timestamp_ms = count, body_bytes, max_ms

    def encoded(self) -> Encoded:
        """What was written, once: nothing can be added to it."""
        parts, self._parts = self._held(), None
        base_ms = NO_TIMESTAMP_MS if self._base_timestamp_ms is None else self._base_timestamp_ms
        return Encoded(bytearray().join(parts), self._count, base_ms, self._max_timestamp_ms)

    def _add(self, parts: list[bytes], size_bytes: int) -> None:
        held = self._held()
        if self._body_bytes + size_bytes > MAX_BODY_BYTES:
            raise body_too_large()
        self._body_bytes += size_bytes
        held += parts

    def _held(self) -> list[bytes]:
        if self._parts is None:
            raise ValueError("the records were taken out of this writer")
        return self._parts


def _bound_bytes(key: Binary | None, value: Binary | None) -> int:
    return MAX_RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")


def _impossible_timestamp(timestamp_ms: int) -> ValueError:
    return ValueError(
        f"timestamp {timestamp_ms} ms is outside [-1, 2**63 - 1], or that far from the first"
    )


def _field(what: str, field: Binary | None) -> bytes:
    if field is None:
        return _NULL
    if type(field) is bytes and len(field) <= MAX_BODY_BYTES:
        return _VARINT[len(field)] + field
    if not isinstance(field, bytes | bytearray | memoryview):
        raise TypeError(
            f"a {what} must be bytes, bytearray, memoryview or None, not {type(field).__name__}"
        )
    if memoryview(field).nbytes > MAX_BODY_BYTES:
        raise body_too_large()
    data = bytes(field)
    return _VARINT[len(data)] + data


def _headers(headers: Headers | None) -> bytes:
    if not headers:
        return _NO_HEADERS
    parts = []
    for key, value in headers:
        if not isinstance(key, str):
            raise TypeError(f"a header key must be str, not {type(key).__name__}")
        parts.append(_field("header key", key.encode()) + _field("header value", value))
    return _VARINT[len(parts)] + b"".join(parts)
