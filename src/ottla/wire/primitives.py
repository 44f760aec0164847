"""Bytes <-> values of the protocol's own making: varints, and the lengths that precede things.

A reader takes the data and a position, and returns a value and the next position.  It may raise
`IndexError` or `struct.error` where the data ends too early; `ottla.wire.interpreter` turns these
into `WireError` in one place.  A length is checked against the bytes that are left before anybody
can act on it.
"""

from struct import Struct
from typing import Final

from ottla.errors import WireError

INT16: Final = Struct(">h")
INT32: Final = Struct(">i")

MAX_UVARINT_BYTES: Final = 5
"""An unsigned varint holds 32 bits."""


def uvarint(value: int) -> bytes:
    """Encode an unsigned varint: seven bits a byte, lowest first."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_uvarint(data: memoryview, position: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 32 bits."""
    result = shift = 0
    for at in range(position, position + MAX_UVARINT_BYTES):
        byte: int = data[at]
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            if result > 0xFFFF_FFFF:
                break
            return result, at + 1
        shift += 7
    raise WireError("a varint does not fit 32 bits")


def read_length(
    data: memoryview, position: int, *, compact: bool, short: bool = False
) -> tuple[int, int]:
    """Read the length in front of a string, bytes or array; -1 means null."""
    if compact:
        length, position = read_uvarint(data, position)
        return length - 1, position
    fixed = INT16 if short else INT32
    (length,) = fixed.unpack_from(data, position)
    if length < -1:
        raise WireError(f"a length of {length}")
    return length, position + fixed.size


def length_prefix(length: int, *, compact: bool, short: bool = False) -> bytes:
    """Encode the length in front of a string, bytes or array; -1 means null."""
    if compact:
        return uvarint(length + 1)
    return INT16.pack(length) if short else INT32.pack(length)
