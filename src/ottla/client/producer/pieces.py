"""Rows of Arrow tables cut into pieces that fit into a batch each, by where their bytes lie.

Nothing of a row is looked at but its ends, and where Arrow does not keep those, it is asked.
"""

from collections.abc import Iterator
from typing import Any, Final

from ottla.records.arrow import pyarrow
from ottla.records.shapes import MAX_RECORD_OVERHEAD_BYTES

_VARINT_BITS: Final = 7
_TIMESTAMP_BYTES: Final = 10
_OFFSET_BYTES: Final = 4
"""Of a row of binary or text, beside its bytes: Arrow's number of where it ends."""


def pieces(rows: Any, limit_bytes: int) -> Iterator[Any]:
    """Slices that fit into a batch each, of about equal size, and as few as may be.

    A row that does not fit is refused when it is put there.
    """
    for start, count in piece_ranges(rows, limit_bytes):
        yield rows if count == rows.num_rows else rows.slice(start, count)


def piece_ranges(rows: Any, limit_bytes: int) -> Iterator[tuple[int, int]]:
    """Where each of the `pieces` begins, and how many rows it has."""
    limit_bytes = max(limit_bytes, 1)  # where nothing fits, each row is a piece
    return _ranges(Bounds(rows, limit_bytes), 0, rows.num_rows, limit_bytes)


def _ranges(
    bounds: "Bounds", first: int, row_count: int, limit_bytes: int
) -> Iterator[tuple[int, int]]:
    """Where pieces of some rows begin, and how many rows each has."""
    size_bytes = bounds.of(first, row_count)
    if row_count <= 1 or size_bytes <= limit_bytes:
        yield first, row_count
        return
    piece_count = min(-(-size_bytes // limit_bytes), row_count)
    share = -(-row_count // piece_count)
    end = first + row_count
    for start in range(first, end, share):
        yield from _ranges(bounds, start, min(share, end - start), limit_bytes)


class Bounds:
    """How many bytes rows take in a batch at the most, if they fit into `limit_bytes`.

    If they do not, it is too many.  In a batch that is no larger, no number of a record but its
    timestamp is above the limit.  Headers are those of `with_plain_headers`: what Arrow keeps of
    each, beside its bytes, is as much as a record needs to say how long they are.
    """

    def __init__(self, rows: Any, limit_bytes: int) -> None:
        names = rows.column_names
        # Its length, attributes, timestamp, offset, two fields and the count of no headers.
        number_bytes = -(-(limit_bytes.bit_length() + 1) // _VARINT_BITS)  # one bit is the sign
        self._row_bytes = 4 * number_bytes + 2 + (_TIMESTAMP_BYTES if "timestamp" in names else 1)
        if "headers" in names:
            self._row_bytes = MAX_RECORD_OVERHEAD_BYTES  # theirs have lengths of their own to spare
        self._ends: list[memoryview] = []
        self._others: list[Any] = []
        for name in names:
            if name != "timestamp":
                column = rows.column(name)
                is_binary = _is_binary(column)
                ends = _ends_of(column) if is_binary else None
                if ends is not None:
                    self._ends.append(ends)
                    continue
                self._others.append(column)
                if is_binary:
                    self._row_bytes -= _OFFSET_BYTES  # which Arrow counts in

    def of(self, first: int, count: int) -> int:
        """Of `count` rows from the one at `first` on."""
        size_bytes = count * self._row_bytes
        for ends in self._ends:
            size_bytes += ends[first + count] - ends[first]
        for column in self._others:
            size_bytes += column.slice(first, count).nbytes
        return size_bytes


def _is_binary(column: Any) -> bool:
    kind = pyarrow().types
    return bool(kind.is_binary(column.type) or kind.is_string(column.type))


def _ends_of(column: Any) -> memoryview | None:
    """Where each row of a column of binary or text ends, behind where the first begins.

    None where rows do not lie together.
    """
    pa = pyarrow()
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks != 1:
            return None
        column = column.chunk(0)
    buffer = column.buffers()[1]
    if buffer is None:  # there are no rows
        return None
    behind = column.offset + len(column) + 1
    return memoryview(buffer)[_OFFSET_BYTES * column.offset : _OFFSET_BYTES * behind].cast("i")
