"""The checksum of a batch and the hash of a key, without the compiled twin.

Call them as `ottla.records.crc32c.crc32c` and `ottla.records.murmur2.murmur2`, which are these
functions only where there are no compiled ones.  The checksum is that of the `crc32c` wheel, or by
a table where the wheel lacks.  The wheel is imported at the first checksum and not before:
importing it takes longer than importing the rest of Ottla.
"""

from array import array
from collections.abc import Callable
from functools import cache
from struct import unpack_from
from typing import Final

from ottla.records.rows import binary_rows
from ottla.records.shapes import Binary, BinaryColumn

POLYNOMIAL: Final = 0x82F63B78
"""Castagnoli's, with the bits reversed, as the checksum is computed lowest bit first."""

_ONE: Final = 0x80000000
"""The polynomial 1."""

Checksum = Callable[[Binary, int], int]


def crc32c(data: Binary, crc: int = 0, nogil_from_bytes: int = 0) -> int:
    """The checksum of `data`; `crc` is that of the bytes before it, if there are any.

    From `nogil_from_bytes` on, the compiled twin lets other threads run meanwhile.  Below it does
    not: to get the GIL back from a thread that is busy may take fifty times as long.
    """
    return _fastest()(data, crc)


def crc32c_joined(first: int, second: int, second_bytes: int) -> int:
    """The checksum of two pieces of data, one behind the other, from the checksum of each.

    Checksums are remainders of polynomials over two elements.  One moves past a byte by a factor of
    x^8, and past `second_bytes` of them by its power, which is made of a few squares.
    """
    factor = _ONE >> 8
    while second_bytes:
        if second_bytes & 1:
            first = _product(factor, first)
        factor = _product(factor, factor)
        second_bytes >>= 1
    return first ^ second


def _product(a: int, b: int) -> int:
    """Of two remainders; they have their highest power in their lowest bit."""
    product = 0
    while a:
        if a & _ONE:
            product ^= b
        a = (a << 1) & 0xFFFFFFFF
        b = (b >> 1) ^ (POLYNOMIAL if b & 1 else 0)
    return product


@cache
def _fastest() -> Checksum:
    try:
        from crc32c import crc32c as of_wheel
    except ModuleNotFoundError as error:
        if error.name != "crc32c":
            raise
        return table_crc32c
    return of_wheel


def table_crc32c(data: Binary, crc: int = 0) -> int:
    """The checksum, byte by byte: some hundred times slower than the wheel, and always there."""
    table = _table()
    crc ^= 0xFFFFFFFF
    for byte in memoryview(data).cast("B"):
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


@cache
def _table() -> tuple[int, ...]:
    """Entry `i` is the remainder of byte `i`."""
    table = []
    for remainder in range(256):
        for _ in range(8):
            remainder = (remainder >> 1) ^ (POLYNOMIAL if remainder & 1 else 0)
        table.append(remainder)
    return tuple(table)


SEED: Final = 0x9747B28C
_MIX: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def murmur2(key: Binary) -> int:
    """The hash of one key."""
    if not isinstance(key, bytes | bytearray | memoryview):
        raise TypeError(f"a key must be bytes, bytearray or memoryview, not {type(key).__name__}")
    data = bytes(key)
    size = len(data)
    whole_words = size >> 2
    hashed = SEED ^ size
    for word in unpack_from(f"<{whole_words}I", data):
        word = (word * _MIX) & _MASK
        word = ((word ^ (word >> 24)) * _MIX) & _MASK
        hashed = ((hashed * _MIX) & _MASK) ^ word
    if rest := data[whole_words << 2 :]:
        hashed = ((hashed ^ int.from_bytes(rest, "little")) * _MIX) & _MASK
    hashed = ((hashed ^ (hashed >> 13)) * _MIX) & _MASK
    hashed ^= hashed >> 15
    return hashed - (1 << 32) if hashed >> 31 else hashed


def murmur2_column(column: BinaryColumn, row_count: int) -> bytes:
    """The hashes of `row_count` keys as a buffer of 32-bit integers.

    A null key has no hash, and 0 is no exception to be told from: its row holds 0, and the
    column's own validity says which rows those are.
    """
    hashes = array("i")
    for key in binary_rows("key", column, row_count):
        hashes.append(0 if key is None else murmur2(key))
    return hashes.tobytes()
