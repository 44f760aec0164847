"""What both interpreters carry, and how it looks on the wire."""

import inspect
from types import ModuleType
from typing import Any

import pytest

from ottla.errors import WireError
from ottla.wire import interpreter
from ottla.wire.schema import replace
from tests.wire_samples import (
    CENTER,
    COMPACT_LENGTHS,
    COMPACT_NULLS,
    LONG_LENGTHS,
    LONG_NULLS,
    NOTHING,
    ORDINARY,
    ORDINARY_BYTES,
    SIZED,
    Empty,
    Evolving,
    Nested,
    Numbers,
    Point,
    Sized,
    Tagged,
)
from tests.wire_twins import BOTH, NEEDS_COMPILED, codec_of, compiled_twin, encoded

both_twins = pytest.mark.parametrize("twin", BOTH)


@both_twins
def test_numbers_are_big_endian_and_have_their_sign(twin: ModuleType) -> None:
    codec = codec_of(twin, Numbers, 0)

    assert encoded(codec, ORDINARY) == ORDINARY_BYTES
    assert codec.decode(ORDINARY_BYTES) == (ORDINARY, len(ORDINARY_BYTES))


@both_twins
def test_a_decoded_flag_is_a_bool(twin: ModuleType) -> None:
    decoded, _ = codec_of(twin, Numbers, 0).decode(b"\x07" + ORDINARY_BYTES[1:])

    assert decoded.flag is True


@both_twins
@pytest.mark.parametrize(
    ("version", "value", "expected"),
    [
        pytest.param(0, SIZED, LONG_LENGTHS, id="lengths"),
        pytest.param(1, SIZED, COMPACT_LENGTHS, id="compact-lengths"),
        pytest.param(0, NOTHING, LONG_NULLS, id="nulls"),
        pytest.param(1, NOTHING, COMPACT_NULLS, id="compact-nulls"),
    ],
)
def test_a_length_precedes_what_has_one(
    twin: ModuleType, version: int, value: Sized, expected: str
) -> None:
    codec = codec_of(twin, Sized, version)
    data = bytes.fromhex(expected)

    assert encoded(codec, value) == data
    assert codec.decode(data) == (value, len(data))


@both_twins
def test_a_compact_length_over_126_takes_two_bytes(twin: ModuleType) -> None:
    codec = codec_of(twin, Sized, 1)
    value = replace(NOTHING, data=bytes(300))

    data = encoded(codec, value)

    assert data == b"\x00" + b"\xad\x02" + bytes(300) + b"\x00\x00\x00"
    assert codec.decode(data) == (value, len(data))


@both_twins
def test_a_message_may_end_anywhere_in_the_buffer_it_is_written_to(twin: ModuleType) -> None:
    codec = codec_of(twin, Sized, 0)

    for size in range(480, 520):  # the compiled twin starts with 512 bytes
        value = replace(NOTHING, text="a" * size, numbers=(7, 8, 9))
        assert encoded(codec, value) == (
            size.to_bytes(2) + b"a" * size + bytes.fromhex("ffffffff ffffffff  00000003")
        ) + bytes.fromhex("00000007 00000008 00000009")


@both_twins
def test_a_struct_that_may_be_null_is_preceded_by_1_or_replaced_by_minus_1(
    twin: ModuleType,
) -> None:
    codec = codec_of(twin, Nested, 0)
    with_one = Nested(required=Point(x=1), optional=Point(x=2), path=(Point(x=3),))
    without = Nested(required=Point(x=1))

    assert encoded(codec, with_one) == bytes.fromhex("010000  01 020000  02 030000  00")
    assert encoded(codec, without) == bytes.fromhex("010000  ff  01  00")
    for value in (with_one, without):
        assert codec.decode(encoded(codec, value))[0] == value


@both_twins
def test_a_tagged_field_is_sent_only_when_it_differs_from_its_default(twin: ModuleType) -> None:
    codec = codec_of(twin, Tagged, 0)
    changed = Tagged(first=9, text=None, point=Point(x=1, y=2), records=b"abc")

    assert encoded(codec, Tagged(first=9)) == bytes.fromhex("09 00")
    assert encoded(codec, Tagged(point=Point(x=0))) == bytes.fromhex("00 00")  # equal, not same
    assert encoded(codec, changed) == bytes.fromhex(
        "09  03  00 01 00  02 03 010200  03 04 04616263"
    )
    assert codec.decode(encoded(codec, changed))[0] == changed


@both_twins
def test_a_tagged_field_longer_than_127_bytes_has_a_longer_size(twin: ModuleType) -> None:
    codec = codec_of(twin, Tagged, 0)
    value = Tagged(text="a" * 200, records=b"b" * 20_000)

    data = encoded(codec, value)

    assert data.startswith(bytes.fromhex("00  02  00 ca01 c901") + b"aaa")
    assert codec.decode(data) == (value, len(data))


@both_twins
def test_tags_that_a_newer_peer_sends_are_skipped(twin: ModuleType) -> None:
    data = bytes.fromhex("09  03  01 02 ffff  02 03 010200  9601 00")

    decoded = codec_of(twin, Tagged, 0).decode(data)

    assert decoded == (Tagged(first=9, point=Point(x=1, y=2)), len(data))


@both_twins
@pytest.mark.parametrize(
    ("version", "expected"), [(0, "07"), (1, "07 ffffffff"), (2, "07 ffffffff 0004 6e6f6e65")]
)
def test_a_field_that_a_version_lacks_has_its_default(
    twin: ModuleType, version: int, expected: str
) -> None:
    codec = codec_of(twin, Evolving, version)

    assert encoded(codec, Evolving(kept=7)) == bytes.fromhex(expected)
    assert codec.decode(bytes.fromhex(expected))[0] == Evolving(kept=7)


@both_twins
def test_only_an_ignorable_value_is_dropped_silently(twin: ModuleType) -> None:
    codec = codec_of(twin, Evolving, 0)

    assert encoded(codec, Evolving(kept=7, trivial="lost")) == b"\x07"
    with pytest.raises(WireError, match="Evolving v0: this version cannot carry sacred = 5"):
        codec.encode(Evolving(kept=7, sacred=5))


@both_twins
def test_a_message_without_fields_takes_no_bytes(twin: ModuleType) -> None:
    codec = codec_of(twin, Empty, 0)

    assert codec.encode(Empty()) == []
    assert codec.decode(b"rest") == (Empty(), 0)


@both_twins
def test_records_are_passed_on_by_reference(twin: ModuleType) -> None:
    records = bytearray(b"xyz")

    parts = codec_of(twin, Sized, 1).encode(replace(NOTHING, records=records))

    assert parts == [b"\x00\x00\x04", records, b"\x00\x00"]
    assert parts[1] is records


@both_twins
def test_decoded_records_are_a_view_of_the_callers_buffer(twin: ModuleType) -> None:
    data = bytearray.fromhex(COMPACT_LENGTHS)

    decoded, _ = codec_of(twin, Sized, 1).decode(data)
    data[data.index(b"xyz")] = ord("X")

    assert isinstance(decoded.records, memoryview)
    assert decoded.records.obj is data
    assert bytes(decoded.records) == b"Xyz"


@both_twins
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_message_is_found_at_its_position_in_any_buffer(
    twin: ModuleType, kind: type[Any]
) -> None:
    data = kind(b"head" + bytes.fromhex(COMPACT_LENGTHS) + b"tail")

    decoded, end = codec_of(twin, Sized, 1).decode(data, 4)

    assert (decoded, end) == (SIZED, len(data) - 4)
    assert bytes(decoded.records) == b"xyz"


@both_twins
def test_a_view_of_wider_items_is_read_as_bytes(twin: ModuleType) -> None:
    data = bytes.fromhex(COMPACT_LENGTHS)
    view = memoryview(data + bytes(-len(data) % 4)).cast("i")

    assert codec_of(twin, Sized, 1).decode(view)[0] == SIZED


class Countable:
    """Not an int, but with a value."""

    def __index__(self) -> int:
        return 7


@both_twins
def test_whatever_has_an_index_is_a_number(twin: ModuleType) -> None:
    codec = codec_of(twin, Evolving, 0)

    assert encoded(codec, Evolving(kept=Countable())) == b"\x07"  # type: ignore[arg-type]
    assert encoded(codec, Evolving(kept=True)) == b"\x01"


@both_twins
def test_a_list_is_as_good_as_a_tuple(twin: ModuleType) -> None:
    codec = codec_of(twin, Nested, 0)
    listed: Any = [Point(x=1), Point(x=2)]

    assert encoded(codec, Nested(required=CENTER, path=listed)) == encoded(
        codec, Nested(required=CENTER, path=tuple(listed))
    )


class Saboteur:
    """Changes a list, or a message, at the moment it is converted to a number."""

    def __init__(self, sabotage: Any) -> None:
        self.sabotage = sabotage

    def __index__(self) -> int:
        self.sabotage()
        return 7


@both_twins
def test_a_list_that_changes_while_it_is_encoded_is_sent_as_it_was(twin: ModuleType) -> None:
    numbers: list[Any] = [1, 2, 3]
    numbers.insert(0, Saboteur(numbers.clear))
    value: Any = replace(NOTHING, numbers=numbers)

    assert encoded(codec_of(twin, Sized, 1), value) == bytes.fromhex(
        "00 00 00  05 00000007 00000001 00000002 00000003  00"
    )


@both_twins
def test_a_message_may_lose_its_values_while_they_are_encoded(twin: ModuleType) -> None:
    value: Any = Evolving(kept=0)
    value.kept = Saboteur(lambda: delattr(value, "kept"))

    assert encoded(codec_of(twin, Evolving, 0), value) == b"\x07"


@both_twins
def test_encoding_may_be_entered_again_while_it_is_under_way(twin: ModuleType) -> None:
    codec = codec_of(twin, Evolving, 0)
    inner: list[bytes] = []
    value: Any = Evolving(kept=0)
    value.kept = Saboteur(lambda: inner.append(encoded(codec, Evolving(kept=1))))

    assert encoded(codec, value) == b"\x07"
    assert inner == [b"\x01"]


@both_twins
def test_the_buffer_is_let_go_when_decoding_ends(twin: ModuleType) -> None:
    codec = codec_of(twin, Numbers, 0)
    data = bytearray(ORDINARY_BYTES)

    codec.decode(data)
    data.pop()  # a bytearray that is in use refuses to change its size
    was_refused = False
    try:
        codec.decode(data)
    except WireError:
        was_refused = True

    assert was_refused
    data.pop()


@both_twins
def test_a_codec_tells_its_plan(twin: ModuleType) -> None:
    codec = codec_of(twin, Evolving, 2)

    assert codec.plan.title == "Evolving v2"


@NEEDS_COMPILED
@pytest.mark.parametrize("method", ["decode", "encode"])
def test_both_twins_take_the_same_arguments(method: str) -> None:
    python, compiled = (
        inspect.signature(getattr(twin.Codec, method)).parameters
        for twin in (interpreter, compiled_twin())
    )

    assert [(p.name, p.default) for p in python.values()] == [
        (p.name, p.default) for p in compiled.values()
    ]
