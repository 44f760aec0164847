"""What decoding costs, and what encoding refuses: for every message, in both interpreters."""

import tracemalloc
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pytest

from ottla.errors import WireError
from ottla.wire.codec import Codec, encode
from ottla.wire.messages.fetch import FetchRequest, FetchResponse
from ottla.wire.messages.produce import ProduceResponse
from ottla.wire.primitives import uvarint
from ottla.wire.schema import Declared, Field, Kind, api_of, default_of, fields, replace
from tests.declared import EVERY_MESSAGE, every_message, twins
from tests.samples import Flavor, sample
from tests.strategies import HUGE
from tests.wire_twins import encoded

SPARE_BYTES: Final = 12 * 1024
BYTES_PER_INPUT_BYTE: Final = 40
"""A struct with one empty string is two bytes on the wire, and some sixty in memory."""

PLACES: Final = 40
"""The first bytes of each message: what follows is more of the same elements."""

MAY_BE_NULL_SOMEWHERE: Final = (Kind.STRING, Kind.BYTES, Kind.RECORDS, Kind.ARRAY, Kind.STRUCT)

EVERY_FLEXIBLE_MESSAGE: Final = pytest.mark.parametrize(
    "cls",
    [
        pytest.param(cls, id=cls.__name__)
        for cls in every_message()
        if api_of(cls).versions.high in api_of(cls).flexible
    ],
)


def hostile(whole: bytes) -> Iterator[bytes]:
    """Bytes that announce much and hold little: a lie at places of a valid message."""
    for lie in HUGE:
        yield (lie * 40)[:40]
        for at in range(min(len(whole), PLACES)):
            yield whole[:at] + lie + whole[at + len(lie) :]


def peak_bytes(codec: Codec, data: bytes) -> int:
    """How much memory it takes at most to decode `data`, or to refuse it.

    The least of a few tries: another thread of this process may allocate something meanwhile.
    """
    return min(_peak_bytes_once(codec, data) for _ in range(3))


def _peak_bytes_once(codec: Codec, data: bytes) -> int:
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    try:
        codec.decode(data)
    except WireError as error:
        error.__traceback__ = None
    return tracemalloc.get_traced_memory()[1] - before


@EVERY_MESSAGE
def test_a_lie_about_a_length_costs_no_memory(cls: type[Any]) -> None:
    tracemalloc.start()
    try:
        for version in {api_of(cls).versions.low, api_of(cls).versions.high}:
            whole = encode(sample(cls, version, Flavor.NULLS), version)
            for codec in twins(cls, version).values():
                for data in hostile(whole):
                    bound = SPARE_BYTES + BYTES_PER_INPUT_BYTE * len(data)
                    assert peak_bytes(codec, data) <= bound, data.hex()
    finally:
        tracemalloc.stop()


@EVERY_MESSAGE
def test_many_small_elements_cost_in_proportion(cls: type[Any]) -> None:
    version = api_of(cls).versions.high
    blank = sample(cls, version, Flavor.MINIMAL)
    tracemalloc.start()
    try:
        for field in fields(cls):
            element = field.shape.element
            if element is not None and element.struct is not None and version in field.versions:
                small = sample(element.struct, version, Flavor.MINIMAL)
                data = encode(replace(blank, **{field.name: (small,) * 500}), version)
                for codec in twins(cls, version).values():
                    bound = SPARE_BYTES + BYTES_PER_INPUT_BYTE * len(data)
                    assert peak_bytes(codec, data) <= bound, field.name
    finally:
        tracemalloc.stop()


@EVERY_FLEXIBLE_MESSAGE
def test_tagged_fields_of_newer_peers_are_skipped(cls: type[Any]) -> None:
    unknown = uvarint(1_000) + uvarint(3) + b"new" + uvarint(0xFFFF_FFFF) + uvarint(0)
    for version in api_of(cls).versions:
        if version in api_of(cls).flexible:
            known = sample(cls, version, Flavor.MINIMAL)
            whole = encode(known, version)
            assert whole.endswith(b"\x00"), "no tagged field of the message itself"

            extended = whole[:-1] + uvarint(2) + unknown

            for codec in twins(cls, version).values():
                assert codec.decode(extended) == (known, len(extended))


@pytest.mark.parametrize(
    ("newer", "version"),
    [
        (sample(FetchRequest, 18, Flavor.FULL), 18),  # two fields in each partition
        (sample(FetchResponse, 16, Flavor.FULL), 16),
        (sample(ProduceResponse, 10, Flavor.FULL), 10),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Declared) else str(value),
)
def test_an_older_version_skips_tagged_fields_inside_structs(newer: Any, version: int) -> None:
    """These versions differ from older ones in nothing but tagged fields."""
    older = version - 2 if isinstance(newer, FetchRequest) else version - 1

    for codec in twins(type(newer), older).values():
        message, end = codec.decode(encode(newer, version))
        assert end == len(encode(newer, version))
        assert encode(message, older) == encode(without_absent_fields(newer, older), older)


def without_absent_fields(message: Any, version: int) -> Any:
    """`message` with defaults where `version` has no field, all the way down."""
    if isinstance(message, tuple):
        return tuple(without_absent_fields(item, version) for item in message)
    if not isinstance(message, Declared):
        return message
    return type(message)(
        **{
            f.name: without_absent_fields(getattr(message, f.name), version)
            if version in f.versions
            else default_of(f)
            for f in fields(type(message))
        }
    )


class Changed(NamedTuple):
    """A message in which one field, maybe of a nested struct, has another value."""

    field: Field
    message: Any


def changed(message: Any, values: dict[Kind, Any]) -> Iterator[Changed]:
    """`message` once for each field of a kind in `values`, with that value there."""
    for field in fields(type(message)):
        if field.shape.kind in values:
            yield Changed(field, replace(message, **{field.name: values[field.shape.kind]}))
        value = getattr(message, field.name)
        is_array = isinstance(value, tuple) and bool(value) and isinstance(value[0], Declared)
        inner = value[0] if is_array else value
        if isinstance(inner, Declared):
            for below in changed(inner, values):
                nested = (below.message, *value[1:]) if is_array else below.message
                yield Changed(below.field, replace(message, **{field.name: nested}))


UNUSUAL: Final = {
    Kind.BOOL: True,
    Kind.INT8: 77,
    Kind.INT16: 7_777,
    Kind.UINT16: 7_777,
    Kind.INT32: 7_777,
    Kind.INT64: 7_777,
    Kind.UUID: b"\x77" * 16,
    Kind.STRING: "unusual",
    Kind.BYTES: b"unusual",
}
"""A value for each kind that is nobody's default."""


def refuses(codec: Codec, message: Any) -> bool:
    try:
        codec.encode(message)
    except WireError:
        return True
    return False


@EVERY_MESSAGE
def test_a_value_that_a_version_lacks_is_refused_unless_it_may_be_ignored(cls: type[Any]) -> None:
    for version in api_of(cls).versions:
        message = sample(cls, version, Flavor.FULL)
        whole = encode(message, version)
        for field, unusual in changed(message, UNUSUAL):
            if version in field.versions or UNUSUAL[field.shape.kind] == default_of(field):
                continue
            for name, codec in twins(cls, version).items():
                if field.ignorable:
                    assert encoded(codec, unusual) == whole, (name, version, field.name)
                else:
                    assert refuses(codec, unusual), (name, version, field.name)


@EVERY_MESSAGE
def test_null_is_refused_where_a_version_does_not_allow_it(cls: type[Any]) -> None:
    for version in api_of(cls).versions:
        message = sample(cls, version, Flavor.FULL)
        for field, with_null in changed(message, dict.fromkeys(MAY_BE_NULL_SOMEWHERE)):
            if version in field.versions:
                for name, codec in twins(cls, version).items():
                    is_allowed = version in field.nullable
                    assert refuses(codec, with_null) != is_allowed, (name, version, field.name)


@EVERY_MESSAGE
def test_a_number_out_of_its_range_is_refused(cls: type[Any]) -> None:
    version = api_of(cls).versions.high
    message = sample(cls, version, Flavor.FULL)
    too_large = {
        Kind.INT8: 1 << 7,
        Kind.INT16: 1 << 15,
        Kind.UINT16: 1 << 16,
        Kind.INT32: 1 << 31,
        Kind.UINT32: 1 << 32,
        Kind.INT64: 1 << 63,
    }
    for values in (too_large, {kind: -value - 1 for kind, value in too_large.items()}):
        for field, wrong in changed(message, values):
            if version in field.versions:
                for name, codec in twins(cls, version).items():
                    assert refuses(codec, wrong), (name, field.name)
