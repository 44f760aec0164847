"""Columns of byte strings, read row by row and written row by row, in plain Python.

What comes from a caller is checked here before it is used: offsets that decrease or lead outside
the data, and buffers that are too short for their rows, raise `ValueError`.
"""

from array import array
from collections.abc import Iterator
from typing import Literal

from ottla.records.faults import column_too_large
from ottla.records.shapes import MAX_INT32, Binary, BinaryColumn, HeaderColumn


def integers(
    what: str, buffer: Binary, code: Literal["i", "q"], first_row: int, row_count: int
) -> "memoryview[int]":
    """`row_count` integers of 32 ("i") or 64 bits ("q") of `buffer`, from `first_row` on."""
    if first_row < 0 or row_count < 0:
        raise ValueError(f"column {what}: rows {first_row} and {row_count} must not be negative")
    width = 4 if code == "i" else 8
    view = memoryview(buffer).cast("B")
    if (first_row + row_count) * width > len(view):
        raise ValueError(f"column {what}: its buffer is too short for {row_count} rows")
    return view[first_row * width : (first_row + row_count) * width].cast(code)


def validity_of(
    what: str, column: BinaryColumn | HeaderColumn, row_count: int
) -> memoryview | None:
    """The validity bits of a column, or `None` where no row is null."""
    if column.validity is None:
        return None
    view = memoryview(column.validity).cast("B")
    if column.first_row + row_count > 8 * len(view):
        raise ValueError(f"column {what}: its validity is too short for {row_count} rows")
    return view


def is_valid(validity: memoryview | None, row: int) -> bool:
    """Whether the bit of `row` is set; without bits every row is valid."""
    return validity is None or bool(validity[row >> 3] >> (row & 7) & 1)


def binary_rows(what: str, column: BinaryColumn, row_count: int) -> Iterator[bytes | None]:
    """The rows of a column, one after the other."""
    ends = integers(what, column.offsets, "i", column.first_row, row_count + 1)
    validity = validity_of(what, column, row_count)
    data = memoryview(column.data).cast("B")
    for row in range(row_count):
        if not is_valid(validity, column.first_row + row):
            yield None
            continue
        start, end = ends[row], ends[row + 1]
        if not 0 <= start <= end <= len(data):
            raise ValueError(f"column {what}: row {row} lies outside its data")
        yield bytes(data[start:end])


class BinaryColumnWriter:
    """A column of byte strings that grows row by row."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._parts: list[bytes] = []
        self._null_rows: list[int] = []
        self._ends = array("i", (0,))
        self._size_bytes = 0

    def append(self, row: bytes | None) -> None:
        if row is None:
            self._null_rows.append(len(self._ends) - 1)
        else:
            self._size_bytes += len(row)
            if self._size_bytes > MAX_INT32:
                raise column_too_large(self._what)
            self._parts.append(row)
        self._ends.append(self._size_bytes)

    def finish(self) -> BinaryColumn:
        """The column; it has no validity where no row is null."""
        return BinaryColumn(self._ends.tobytes(), b"".join(self._parts), self._validity())

    def _validity(self) -> bytes | None:
        if not self._null_rows:
            return None
        row_count = len(self._ends) - 1
        bits = bytearray(b"\xff") * ((row_count + 7) // 8)
        for row in self._null_rows:
            bits[row >> 3] &= ~(1 << (row & 7))
        if row_count & 7:
            bits[-1] &= (1 << (row_count & 7)) - 1
        return bytes(bits)
