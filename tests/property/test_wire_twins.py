"""Both interpreters agree on declarations that nobody has written yet.

`test_wire_round_trip` runs them over the messages we have; here hypothesis writes the messages
too, so a twin cannot be right merely by what Kafka happened to need.  They must agree on the
values and their types, the bytes, how they are split into buffers, and the words of a refusal.
"""

from struct import pack
from types import ModuleType
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from ottla.errors import WireError
from ottla.wire import interpreter
from ottla.wire.schema import (
    MISSING,
    Bool,
    Bytes,
    Declared,
    Field,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Records,
    String,
    UInt16,
    UInt32,
    Uuid,
    at,
    fields,
    message,
    replace,
    struct,
)
from tests.strategies import damaged, messages
from tests.wire_samples import Nested, Point
from tests.wire_twins import NEEDS_COMPILED, codec_of, compiled_twin

pytestmark = NEEDS_COMPILED

FIXED = [Bool, Int8, Int16, UInt16, Int32, UInt32, Int64, Float64, Uuid]
SIZED = [String, Bytes, Records]

VERSIONS = st.sampled_from([0, 1])
"""Of a drawn declaration: 0 is not flexible, 1 is."""


def annotations(depth: int) -> st.SearchStrategy[Any]:
    """The type of a field, without `| None`."""
    scalar: st.SearchStrategy[Any] = st.sampled_from([*FIXED, *SIZED])
    element = scalar if depth == 0 else scalar | structs(depth - 1)
    return element | element.map(lambda of: tuple[of, ...])  # type: ignore[valid-type]


@st.composite
def bodies(draw: st.DrawFn, depth: int) -> dict[str, Any]:
    """What stands in a class: a field that all versions have, and up to three more."""
    types: dict[str, Any] = {"always": draw(annotations(depth))}
    values: dict[str, Any] = {}
    for tag in range(draw(st.integers(0, 3))):
        name, annotation = f"field_{tag}", draw(annotations(depth))
        may_be_null = annotation not in FIXED and draw(st.booleans())
        types[name] = annotation | None if may_be_null else annotation
        where = draw(st.sampled_from(["0+", "0", "1+", "tagged"]))
        values[name] = at(
            "1+" if where == "tagged" else where,
            tag=tag if where == "tagged" else None,
            ignorable=draw(st.booleans()),
            default=None if may_be_null and draw(st.booleans()) else MISSING,
        )
    return {"__annotations__": types, **values}


def structs(depth: int) -> st.SearchStrategy[type[Any]]:
    return bodies(depth).map(lambda body: struct(type("Struct", (), body)))


DECLARATIONS: st.SearchStrategy[type[Any]] = bodies(2).map(
    lambda body: message(versions="0-1", flexible="1+")(type("Drawn", (), body))
)


def exact(value: Any) -> Any:
    """`value` in a form in which values of different types differ, and NaN equals itself."""
    if isinstance(value, Declared):
        return type(value), [exact(getattr(value, field.name)) for field in fields(type(value))]
    if isinstance(value, tuple | list):
        return type(value), [exact(item) for item in value]
    if isinstance(value, float):
        return float, pack(">d", value)
    return type(value), bytes(value) if isinstance(value, memoryview) else value


def decoded(twin: ModuleType, cls: type[Any], version: int, data: bytes) -> Any:
    try:
        value, end = codec_of(twin, cls, version).decode(data)
    except WireError as error:
        return str(error)
    return exact(value), end


def encoded(twin: ModuleType, cls: type[Any], version: int, value: Any) -> Any:
    try:
        return [exact(part) for part in codec_of(twin, cls, version).encode(value)]
    except WireError as error:
        return str(error)


@given(cls=DECLARATIONS, version=VERSIONS, data=st.data())
def test_both_twins_send_and_read_the_same(
    cls: type[Any], version: int, data: st.DataObject
) -> None:
    value = data.draw(messages(cls, version))

    parts = codec_of(interpreter, cls, version).encode(value)
    whole = b"".join(parts)

    assert encoded(compiled_twin(), cls, version, value) == [exact(part) for part in parts]
    assert decoded(compiled_twin(), cls, version, whole) == decoded(
        interpreter, cls, version, whole
    )
    assert codec_of(compiled_twin(), cls, version).decode(whole) == (value, len(whole))


@given(cls=DECLARATIONS, version=VERSIONS, data=st.data())
def test_both_twins_refuse_damaged_bytes_in_the_same_words(
    cls: type[Any], version: int, data: st.DataObject
) -> None:
    whole = b"".join(codec_of(interpreter, cls, version).encode(data.draw(messages(cls, version))))
    damage = data.draw(damaged(whole) | st.binary(max_size=40))

    assert decoded(compiled_twin(), cls, version, damage) == decoded(
        interpreter, cls, version, damage
    )


@given(cls=DECLARATIONS, version=VERSIONS, data=st.data())
def test_a_message_cut_short_is_refused_in_the_same_words(
    cls: type[Any], version: int, data: st.DataObject
) -> None:
    whole = b"".join(codec_of(interpreter, cls, version).encode(data.draw(messages(cls, version))))

    for size in range(min(len(whole), 64)):
        refusal = decoded(interpreter, cls, version, whole[:size])
        assert isinstance(refusal, str)
        assert decoded(compiled_twin(), cls, version, whole[:size]) == refusal


STRANGE = (
    *(None, True, -1, 1 << 15, 1 << 31, 1 << 70, 0.5, 1j, "text", "\ud800", b"", b"x" * 16),
    *(bytearray(b"ab"), memoryview(b"abcdef")[::2], memoryview(b"abcd").cast("h"), (), (None,)),
    *([1, 2], ["a"], {1: 2}, Point(x=1), object()),
)
"""Values that are right for some field and wrong for most."""


@st.composite
def spoiled(draw: st.DrawFn, value: Any) -> Any:
    """`value` with something strange in one of its fields, or in one of theirs."""
    if isinstance(value, tuple) and value and draw(st.booleans()):
        index = draw(st.integers(0, len(value) - 1))
        return (*value[:index], draw(spoiled(value[index])), *value[index + 1 :])
    if not isinstance(value, Declared):
        return STRANGE[draw(st.integers(0, len(STRANGE) - 1))]  # some have no hash
    field: Field = draw(st.sampled_from(fields(type(value))))
    return replace(value, **{field.name: draw(spoiled(getattr(value, field.name)))})


@given(cls=DECLARATIONS, version=VERSIONS, data=st.data())
def test_both_twins_refuse_strange_values_in_the_same_words(
    cls: type[Any], version: int, data: st.DataObject
) -> None:
    value = data.draw(messages(cls, version).flatmap(spoiled))

    assert encoded(compiled_twin(), cls, version, value) == encoded(
        interpreter, cls, version, value
    )


@given(data=st.binary(max_size=60))
@example(data=b"\x01\x02\x00\x80")
def test_both_twins_read_noise_as_the_same_structs(data: bytes) -> None:
    assert decoded(compiled_twin(), Nested, 0, data) == decoded(interpreter, Nested, 0, data)
