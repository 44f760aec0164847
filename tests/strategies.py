"""Hypothesis strategies drawn from the declarations themselves, and damage to bytes.

`messages` yields every message that a version can carry; a field that the version lacks has its
default.  `damaged` yields what is left of valid bytes after a fault or a foe.
"""

from typing import Any, Final

from hypothesis import strategies as st

from ottla.wire.schema import Field, Kind, Shape, default_of, fields

_INTEGERS: Final = {
    Kind.INT8: st.integers(-(1 << 7), (1 << 7) - 1),
    Kind.INT16: st.integers(-(1 << 15), (1 << 15) - 1),
    Kind.UINT16: st.integers(0, (1 << 16) - 1),
    Kind.INT32: st.integers(-(1 << 31), (1 << 31) - 1),
    Kind.UINT32: st.integers(0, (1 << 32) - 1),
    Kind.INT64: st.integers(-(1 << 63), (1 << 63) - 1),
}
_SCALARS: Final[dict[Kind, st.SearchStrategy[Any]]] = {
    **_INTEGERS,
    Kind.BOOL: st.booleans(),
    Kind.FLOAT64: st.floats(allow_nan=False),  # a message with NaN would not equal itself
    Kind.UUID: st.binary(min_size=16, max_size=16),
    Kind.STRING: st.text(max_size=20),
    Kind.BYTES: st.binary(max_size=20),
    Kind.RECORDS: st.binary(max_size=20),
}


def messages(cls: type[Any], version: int) -> st.SearchStrategy[Any]:
    """Instances of the message or struct `cls` that `version` can carry."""
    if (cls, version) not in _MADE:
        _MADE[cls, version] = _messages(cls, version)
    return _MADE[cls, version]


_MADE: Final[dict[tuple[type[Any], int], st.SearchStrategy[Any]]] = {}


def _messages(cls: type[Any], version: int) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries({f.name: _field(f, version) for f in fields(cls)}).map(
        lambda values: cls(**values)
    )


def _field(field: Field, version: int) -> st.SearchStrategy[Any]:
    if version not in field.versions:
        return st.just(default_of(field))
    value = _value(field.shape, version)
    return st.none() | value if version in field.nullable else value


def _value(shape: Shape, version: int) -> st.SearchStrategy[Any]:
    if shape.struct is not None:
        return messages(shape.struct, version)
    if shape.element is not None:
        return st.lists(_value(shape.element, version), max_size=3).map(tuple)
    return _SCALARS[shape.kind]


HUGE: Final = (
    b"\x7f\xff\xff\xff",  # 2**31 - 1, as a length of bytes or an array
    b"\x7f\xff",  # 2**15 - 1, as a length of a string
    b"\xff\xff\xff\xff\x07",  # 2**31 - 1, as an unsigned varint
    b"\xff\xff\xff\xff\x0f",  # the largest varint
)
"""Lengths that nobody means."""

LIES: Final = (
    *HUGE,
    b"\xff\xff\xff\xff",  # -1
    b"\xff\xff\xff\xfe",  # -2
    b"\x80\x00\x00\x00",  # the smallest
    b"\xff\xfe",
    b"\xff\xff\xff\xff\x10",  # a varint one too large
    b"\x80\x80\x80\x80\x80\x80",  # one that never ends
    b"\x00",
)
"""What may stand where a length belongs."""


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """`data` with a few bits flipped, bytes put in or left out, and lengths that lie."""
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        head, tail = data[:at], data[at:]
        match draw(st.sampled_from(["flip", "insert", "delete", "lie"])):
            case "flip" if tail:
                data = head + bytes([tail[0] ^ (1 << draw(st.integers(0, 7)))]) + tail[1:]
            case "insert":
                data = head + draw(st.binary(min_size=1, max_size=6)) + tail
            case "delete":
                data = head + tail[draw(st.integers(1, 6)) :]
            case _:
                lie = draw(st.sampled_from(LIES))
                data = head + lie + tail[len(lie) :]
    return data
