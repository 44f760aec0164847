"""Where in a segment an offset or a time is found: the two sparse indexes.

Both live in memory and are written out when their segment is sealed, in Kafka's format.  An entry
of the offset index names a batch by its *last* offset, and the position where that batch starts;
an entry of the time index says up to which timestamp everything before its offset goes.  Neither
is more than a shortcut: what is lost or damaged is rebuilt from the batches.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from struct import Struct
from typing import Final, Self

from ottla.errors import StorageError
from ottla.values import NamedTuple

OFFSET_ENTRY_BYTES: Final = 8
TIME_ENTRY_BYTES: Final = 12
NO_TIMESTAMP_MS: Final = -1
MAX_RELATIVE_OFFSET: Final = 2**31 - 1

_TIME_ENTRY: Final = Struct(">qi")
_SWAPS_BYTES: Final = sys.byteorder == "little"


class OffsetIndex:
    """Last offset of a batch, relative to the segment -> where the batch starts."""

    __slots__ = ("_offsets", "_positions")

    def __init__(self) -> None:
        self._offsets = array("i")
        self._positions = array("i")

    @classmethod
    def parse(cls, data: bytes, *, log_size_bytes: int) -> Self:
        """Read what `to_bytes` wrote.

        The first and the last entry are checked, which finds a file that is empty pages or that
        belongs to another log.  Each lookup checks the entry that it uses against the batch.

        Raises:
            StorageError: These are not the bytes of an index of such a log.
        """
        if len(data) % OFFSET_ENTRY_BYTES:
            raise StorageError(f"an offset index has {len(data)} bytes, no multiple of 8")
        words = array("i", data)
        if _SWAPS_BYTES:
            words.byteswap()
        index = cls()
        index._offsets, index._positions = words[0::2], words[1::2]
        if words and not (
            0 <= index._offsets[0] <= index._offsets[-1]
            and 0 < index._positions[0] <= index._positions[-1] < log_size_bytes
        ):
            raise StorageError(
                f"an offset index leads from {index.entry(0)} to {index.entry(len(index) - 1)}, "
                f"in a log of {log_size_bytes} bytes"
            )
        return index

    def to_bytes(self) -> bytes:
        """The index as it is on disk: for each entry, offset and position, both big-endian."""
        words = array("i", bytes(OFFSET_ENTRY_BYTES * len(self._offsets)))
        words[0::2], words[1::2] = self._offsets, self._positions
        if _SWAPS_BYTES:
            words.byteswap()
        return words.tobytes()

    def __len__(self) -> int:
        return len(self._offsets)

    def entry(self, number: int) -> tuple[int, int]:
        """Relative offset and position of one entry."""
        return self._offsets[number], self._positions[number]

    def append(self, relative_offset: int, position: int) -> None:
        assert not self._offsets or relative_offset > self._offsets[-1], relative_offset
        self._offsets.append(relative_offset)
        self._positions.append(position)

    def position_for(self, relative_offset: int) -> int:
        """Where to start the walk to the batch that contains `relative_offset`."""
        number = bisect_right(self._offsets, relative_offset)
        return self._positions[number - 1] if number else 0

    def last_position_within(self, relative_offset: int, position: int) -> int:
        """Where the last indexed batch starts that ends below the offset, before the position.

        0 where there is none: the segment's first batch.
        """
        number = min(
            bisect_left(self._offsets, relative_offset), bisect_left(self._positions, position)
        )
        return self._positions[number - 1] if number else 0

    def truncate_to(self, relative_offset: int) -> None:
        """Drop the entries at and above `relative_offset`."""
        count = bisect_left(self._offsets, relative_offset)
        del self._offsets[count:], self._positions[count:]


class TimeEntry(NamedTuple):
    """Up to `relative_offset`, no record is younger than `timestamp_ms`."""

    timestamp_ms: int
    relative_offset: int


class TimeIndex:
    """The largest timestamp so far -> last offset of the batch that has it."""

    __slots__ = ("_offsets", "_timestamps_ms")

    def __init__(self) -> None:
        self._timestamps_ms = array("q")
        self._offsets = array("i")

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read what `to_bytes` wrote.

        Raises:
            StorageError: These are not the bytes of a time index.
        """
        if len(data) % TIME_ENTRY_BYTES:
            raise StorageError(f"a time index has {len(data)} bytes, no multiple of 12")
        index = cls()
        index._timestamps_ms = array("q", _gather(data, 0, 8))
        index._offsets = array("i", _gather(data, 8, 4))
        if _SWAPS_BYTES:
            index._timestamps_ms.byteswap()
            index._offsets.byteswap()
        if data and not (
            0 <= index._timestamps_ms[0] <= index._timestamps_ms[-1]
            and 0 <= index._offsets[0] <= index._offsets[-1]
        ):
            raise StorageError(
                f"a time index leads from {index._timestamps_ms[0]} ms at {index._offsets[0]} "
                f"to {index._timestamps_ms[-1]} ms at {index._offsets[-1]}"
            )
        return index

    def to_bytes(self) -> bytes:
        """The index as it is on disk: for each entry, timestamp and offset, both big-endian."""
        return b"".join(map(_TIME_ENTRY.pack, self._timestamps_ms, self._offsets))

    def __len__(self) -> int:
        return len(self._offsets)

    def append(self, timestamp_ms: int, relative_offset: int) -> None:
        """Add an entry, unless no younger record came since the last one."""
        if timestamp_ms > (self._timestamps_ms[-1] if self._timestamps_ms else NO_TIMESTAMP_MS):
            self._timestamps_ms.append(timestamp_ms)
            self._offsets.append(relative_offset)

    def last(self) -> TimeEntry | None:
        if not self._offsets:
            return None
        return TimeEntry(self._timestamps_ms[-1], self._offsets[-1])

    def offset_before(self, timestamp_ms: int) -> int:
        """A relative offset below which every record is older than `timestamp_ms`."""
        number = bisect_left(self._timestamps_ms, timestamp_ms) - 1
        return self._offsets[number] if number >= 0 else 0

    def truncate_to(self, relative_offset: int) -> None:
        """Drop the entries at and above `relative_offset`."""
        count = bisect_left(self._offsets, relative_offset)
        del self._timestamps_ms[count:], self._offsets[count:]


def last_timestamp_of(tail: bytes) -> TimeEntry | None:
    """The last entry of a time index, from the last bytes of its file.

    Raises:
        StorageError: It is no entry of a time index.
    """
    if not tail:
        return None
    if len(tail) != TIME_ENTRY_BYTES:
        raise StorageError(f"a time index ends in {len(tail)} bytes, not a whole entry")
    entry = TimeEntry(*_TIME_ENTRY.unpack(tail))
    if entry.timestamp_ms < 0 or entry.relative_offset < 0:
        raise StorageError(f"a time index ends in {entry}")
    return entry


def _gather(entries: bytes, first_byte: int, size_bytes: int) -> bytes:
    """One column of a time index: some bytes of each entry, without a loop over the entries."""
    column = bytearray(len(entries) // TIME_ENTRY_BYTES * size_bytes)
    for byte in range(size_bytes):
        column[byte::size_bytes] = entries[first_byte + byte :: TIME_ENTRY_BYTES]
    return bytes(column)


class Indexes:
    """Both indexes of a segment, made from one note for each of its batches."""

    __slots__ = (
        "_base_offset",
        "_interval_bytes",
        "_unindexed_bytes",
        "max_timestamp_ms",
        "max_timestamp_offset",
        "offsets",
        "times",
    )

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        self._base_offset = base_offset
        self._interval_bytes = interval_bytes
        self._unindexed_bytes = 0
        self.offsets = OffsetIndex()
        self.times = TimeIndex()
        self.max_timestamp_ms = NO_TIMESTAMP_MS
        self.max_timestamp_offset = base_offset
        """Last offset of the first batch that has the largest timestamp."""

    def note(self, position: int, size_bytes: int, last_offset: int, max_timestamp_ms: int) -> bool:
        """Take in the next batch.  It gets entries if the last ones are far enough behind.

        Returns:
            Whether it got any.
        """
        if max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = max_timestamp_ms
            self.max_timestamp_offset = last_offset
        if self._unindexed_bytes <= self._interval_bytes:
            self._unindexed_bytes += size_bytes
            return False
        self.offsets.append(last_offset - self._base_offset, position)
        self._note_time()
        self._unindexed_bytes = size_bytes
        return True

    def _note_time(self) -> None:
        self.times.append(self.max_timestamp_ms, self.max_timestamp_offset - self._base_offset)

    def to_bytes(self) -> tuple[bytes, bytes]:
        """Offset index and time index as they are on disk.

        The last entry of a time index is the segment's largest timestamp: retention asks for it.
        """
        self._note_time()
        return self.offsets.to_bytes(), self.times.to_bytes()

    def has_room(self, max_size_bytes: int) -> bool:
        """Whether one more batch fits into index files of such a size.

        The time index keeps one place free for the entry that it gets in the end.
        """
        return (
            len(self.offsets._offsets) < max_size_bytes // OFFSET_ENTRY_BYTES
            and len(self.times._offsets) < max_size_bytes // TIME_ENTRY_BYTES - 1
        )

    def resume(self, offsets: OffsetIndex, times: TimeIndex) -> int:
        """Go on from indexes that were read from disk: the position of the first batch to note.

        That batch may have its entry already; it is noted again, for its timestamp and its size.
        """
        self.offsets, self.times = offsets, times
        last_time = times.last()
        if last_time is not None:
            self.max_timestamp_ms = last_time.timestamp_ms
            self.max_timestamp_offset = self._base_offset + last_time.relative_offset
        self._unindexed_bytes = 0
        return offsets.entry(len(offsets) - 1)[1] if offsets else 0

    def truncate_to(self, offset: int) -> int:
        """Forget the batches from `offset` on: the position from which to note again."""
        self.offsets.truncate_to(offset - self._base_offset)
        self.times.truncate_to(offset - self._base_offset)
        self.max_timestamp_ms, self.max_timestamp_offset = NO_TIMESTAMP_MS, self._base_offset
        return self.resume(self.offsets, self.times)
