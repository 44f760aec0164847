"""Sample messages, made from the declarations without any chance: same call, same message.

Hypothesis searches for surprises (`tests.strategies`); these are for comparing with encoders of
others, and for seeding fuzzers, where every field should be seen and none be astonishing.
"""

from collections.abc import Iterator
from enum import Enum
from itertools import count
from typing import Any, Final

from ottla.wire.schema import Field, Kind, Shape, default_of, fields


class Flavor(Enum):
    """What a sample is full of."""

    MINIMAL = "minimal"
    """Zeros, empty strings and arrays, no tagged field."""
    FULL = "full"
    """Two elements in every array, no two values alike, all tagged fields, no null."""
    NULLS = "nulls"
    """As full, but null wherever that is allowed."""
    EXTREME = "extreme"
    """The smallest and largest numbers, text of several bytes a character, long lengths."""


_BITS: Final = {Kind.INT8: 8, Kind.INT16: 16, Kind.INT32: 32, Kind.INT64: 64}
_UNSIGNED_BITS: Final = {Kind.UINT16: 16, Kind.UINT32: 32}
_UNALIKE: Final = {
    Kind.INT8: 0x10,
    Kind.INT16: 0x0102,
    Kind.UINT16: 0xF102,
    Kind.INT32: 0x0102_0304,
    Kind.UINT32: 0xF102_0304,
    Kind.INT64: 0x0102_0304_0506,  # as a timestamp, a day of this century
}
_LONG: Final = 200
"""More than one byte of a varint can count."""


def sample(cls: type[Any], version: int, flavor: Flavor, *, of_kafka: bool = False) -> Any:
    """A message `cls` that `version` can carry; fields that it lacks have their defaults.

    With `of_kafka` those have, too, that Kafka does not know.
    """
    return _Maker(version, flavor, of_kafka).struct(cls)


class _Maker:
    def __init__(self, version: int, flavor: Flavor, of_kafka: bool) -> None:
        self._version = version
        self._flavor = flavor
        self._of_kafka = of_kafka
        self._numbers: Iterator[int] = count(1)

    def struct(self, cls: type[Any]) -> Any:
        return cls(**{field.name: self._field(field) for field in fields(cls)})

    def _field(self, field: Field) -> Any:
        if self._version not in field.versions or (self._of_kafka and field.is_own):
            return default_of(field)
        if self._flavor is Flavor.MINIMAL:
            return default_of(field) if field.tag is not None else self._value(field.shape)
        if self._flavor is Flavor.NULLS and self._version in field.nullable:
            return None
        if field.name.endswith("error_code"):
            return next(self._numbers) % 100  # others map these to enumerations
        return self._value(field.shape)

    def _value(self, shape: Shape) -> Any:
        if shape.struct is not None:
            return self.struct(shape.struct)
        if self._flavor is Flavor.MINIMAL:
            return shape.zero
        if shape.element is not None:
            is_long = self._flavor is Flavor.EXTREME and shape.element.struct is None
            return tuple(self._value(shape.element) for _ in range(_LONG if is_long else 2))
        if self._flavor is Flavor.EXTREME:
            return self._extreme(shape.kind)
        return self._unalike(shape.kind)

    def _unalike(self, kind: Kind) -> Any:
        number = next(self._numbers)
        match kind:
            case Kind.BOOL:
                return True
            case Kind.FLOAT64:
                return number + 0.5
            case Kind.UUID:
                return number.to_bytes(16, "big")
            case Kind.STRING:
                return f"täxt-{number}"
            case Kind.BYTES | Kind.RECORDS:
                return b"bytes-%d" % number
            case _:
                return _UNALIKE[kind] + number % 100

    def _extreme(self, kind: Kind) -> Any:
        number = next(self._numbers)
        match kind:
            case Kind.BOOL:
                return number % 2 == 1
            case Kind.FLOAT64:
                return -1.7976931348623157e308 if number % 2 else 5e-324
            case Kind.UUID:
                return b"\xff" * 16
            case Kind.STRING:
                return "𝄞" * _LONG if number % 2 else ""
            case Kind.BYTES | Kind.RECORDS:
                return b"\xff" * _LONG if number % 2 else b""
            case Kind.UINT16 | Kind.UINT32:
                return (1 << _UNSIGNED_BITS[kind]) - 1 if number % 2 else 0
            case _:
                most = 1 << (_BITS[kind] - 1)
                return most - 1 if number % 2 else -most
