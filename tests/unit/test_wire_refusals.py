"""What both interpreters refuse: malformed bytes, and values that a version cannot carry."""

import mmap
from types import ModuleType
from typing import Any

import pytest

from ottla.errors import WireError
from ottla.wire.schema import blank, replace
from tests.wire_samples import (
    CENTER,
    COMPACT_NULLS,
    LONG_NULLS,
    ORDINARY,
    SIZED,
    Empty,
    Evolving,
    Nested,
    Numbers,
    Point,
    Sized,
    Strict,
    Tagged,
)
from tests.wire_twins import BOTH, codec_of, encoded

both_twins = pytest.mark.parametrize("twin", BOTH)


@both_twins
@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("field", ["text", "data", "records", "texts"])
def test_null_is_refused_where_the_version_does_not_allow_it(
    twin: ModuleType, version: int, field: str
) -> None:
    codec = codec_of(twin, Strict, version)
    nulls = bytes.fromhex(LONG_NULLS if version == 0 else COMPACT_NULLS)

    with pytest.raises(WireError, match=f"Strict v{version}: {field} is null"):
        codec.encode(replace(Strict(text=""), **{field: None}))
    with pytest.raises(WireError, match=f"Strict v{version}: text is null"):
        codec.decode(nulls)


@both_twins
@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ("00  02  02 03 010200  00 01 00", "tag 0 comes after tag 2"),
        ("00  02  05 00  05 00", "tag 5 comes after tag 5"),
        ("00  01  00 05 01", "tag 0 has 5 bytes, 1 are left"),
        ("00  01  00 02 0100", "tag 0 has 1 bytes too many"),
        ("00  01  00 01 02 61", "text has 1 bytes, 0 are left"),
        ("00  01  02 02 0102 00", "the data ends too early"),
        ("00  ffffffff0f", "the data ends too early"),
    ],
)
def test_malformed_tags_are_refused(twin: ModuleType, data: str, complaint: str) -> None:
    with pytest.raises(WireError, match=f"^Tagged v0: {complaint}$"):
        codec_of(twin, Tagged, 0).decode(bytes.fromhex(data))


@both_twins
def test_a_view_with_gaps_is_refused(twin: ModuleType) -> None:
    with pytest.raises(TypeError):
        codec_of(twin, Sized, 1).decode(memoryview(bytes(20))[::2])


@both_twins
def test_a_position_outside_the_data_is_refused(twin: ModuleType) -> None:
    with pytest.raises(ValueError, match="a position of -1"):
        codec_of(twin, Empty, 0).decode(b"", -1)
    with pytest.raises(WireError, match=r"^Empty v0: the data ends too early$"):
        codec_of(twin, Empty, 0).decode(b"", 1)


@both_twins
@pytest.mark.parametrize(
    ("cls", "version", "value"),
    [
        (Numbers, 0, ORDINARY),
        (Sized, 0, SIZED),
        (Sized, 1, SIZED),
        (Nested, 0, Nested(required=CENTER, optional=CENTER, path=(CENTER, CENTER))),
        (Tagged, 0, Tagged(text="abc", point=Point(x=1), records=b"abc")),
    ],
)
def test_a_message_cut_off_anywhere_is_refused(
    twin: ModuleType, cls: type[Any], version: int, value: Any
) -> None:
    codec = codec_of(twin, cls, version)
    data = encoded(codec, value)

    for size in range(len(data)):
        with pytest.raises(WireError):
            codec.decode(data[:size])


@both_twins
@pytest.mark.parametrize(
    ("version", "data", "complaint"),
    [
        (0, "fffe", "a length of -2"),
        (0, "0000 80000000", "a length of -2147483648"),
        (0, "0005 6161", "text has 5 bytes, 2 are left"),
        (0, "0000 7fffffff 00", "data has 2147483647 bytes, 1 are left"),
        (
            0,
            "0000 00000000 00000000 7fffffff 00",
            "texts has 2147483647 elements, 1 bytes are left",
        ),
        (1, "ffffffff0f", "text has 4294967294 bytes, at most 32767 are allowed"),
        (1, "818002", "text has 32768 bytes, at most 32767 are allowed"),
        (1, "ffffffff10", "a varint does not fit 32 bits"),
        (1, "808080808000", "a varint does not fit 32 bits"),
        (1, "01 ffffffff0f", "data has 4294967294 bytes, at most 2147483647 are allowed"),
        (1, "01 01 01 ffffffff0f", "texts has 4294967294 elements, 0 bytes are left"),
        (1, "02 ff", "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
        (1, "04 eda080", "'utf-8' codec can't decode byte 0xed in position 0: .*"),
    ],
)
def test_a_length_that_cannot_be_is_refused(
    twin: ModuleType, version: int, data: str, complaint: str
) -> None:
    with pytest.raises(WireError, match=f"^Strict v{version}: {complaint}$"):
        codec_of(twin, Strict, version).decode(bytes.fromhex(data))


@both_twins
@pytest.mark.parametrize(
    ("field", "low", "high"),
    [
        ("int8", -(2**7), 2**7 - 1),
        ("int16", -(2**15), 2**15 - 1),
        ("uint16", 0, 2**16 - 1),
        ("int32", -(2**31), 2**31 - 1),
        ("uint32", 0, 2**32 - 1),
        ("int64", -(2**63), 2**63 - 1),
    ],
)
def test_a_number_outside_the_range_of_its_type_is_refused(
    twin: ModuleType, field: str, low: int, high: int
) -> None:
    codec = codec_of(twin, Numbers, 0)

    for value in (low, high):
        sent = replace(ORDINARY, **{field: value})
        assert codec.decode(encoded(codec, sent))[0] == sent
    for value in (low - 1, high + 1, 10**30, -(10**30)):
        with pytest.raises(WireError, match=f"{field} = {value} is not of type {field.upper()}"):
            codec.encode(replace(ORDINARY, **{field: value}))


@both_twins
@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("int32", "1", "int32 = '1' is not of type INT32"),
        ("int64", 1.0, "int64 = 1.0 is not of type INT64"),
        ("int8", None, "int8 = None is not of type INT8"),
        ("float64", "1.0", "float64 = '1.0' is not of type FLOAT64"),
        ("float64", 10**400, "float64 = 10+ is not of type FLOAT64"),
        ("uuid", b"short", "uuid is a UUID of 5 bytes"),
        ("uuid", None, "uuid is a NoneType, not contiguous bytes"),
        ("uuid", "0123456789abcdef", "uuid is a str, not contiguous bytes"),
    ],
)
def test_a_fixed_value_of_the_wrong_type_is_refused(
    twin: ModuleType, field: str, value: Any, complaint: str
) -> None:
    with pytest.raises(WireError, match=f"^Numbers v0: {complaint}$"):
        codec_of(twin, Numbers, 0).encode(replace(ORDINARY, **{field: value}))


@both_twins
@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("text", b"bytes", "text is a bytes, not a str"),
        ("text", "\ud800", "text: 'utf-8' codec can't encode character .* surrogates not allowed"),
        ("text", "a" * 0x8000, "text has 32768 bytes, at most 32767 are allowed"),
        ("text", "é" * 0x4000, "text has 32768 bytes, at most 32767 are allowed"),
        ("data", "text", "data is a str, not contiguous bytes"),
        ("data", [1, 2], "data is a list, not contiguous bytes"),
        ("data", memoryview(b"abcd")[::2], "data is a memoryview, not contiguous bytes"),
        ("records", "text", "records is a str, not contiguous bytes"),
        ("texts", "abc", "texts is a str, not a tuple"),
        ("texts", 7, "texts is a int, not a tuple"),
        ("texts", ("ok", 7), ".* is a int, not a str"),
    ],
)
def test_a_sized_value_of_the_wrong_type_is_refused(
    twin: ModuleType, version: int, field: str, value: Any, complaint: str
) -> None:
    with pytest.raises(WireError, match=f"^Strict v{version}: {complaint}$"):
        codec_of(twin, Strict, version).encode(replace(Strict(text=""), **{field: value}))


@both_twins
@pytest.mark.parametrize("version", [0, 1])
def test_records_of_two_gibibytes_are_refused_before_they_are_read(
    twin: ModuleType, version: int
) -> None:
    with (
        mmap.mmap(-1, 2**31) as untouched,
        memoryview(untouched) as records,
        pytest.raises(WireError, match="records has 2147483648 bytes, at most 2147483647"),
    ):
        codec_of(twin, Strict, version).encode(Strict(text="", records=records))


@both_twins
@pytest.mark.parametrize("value", [None, 7, Empty(), blank(Point)])
def test_only_the_declared_class_itself_is_encoded(twin: ModuleType, value: Any) -> None:
    class Derived(Nested):
        pass

    codec = codec_of(twin, Nested, 0)
    complaint = f"^Nested v0: a {type(value).__name__} where a Nested belongs$"

    with pytest.raises(WireError, match=complaint):
        codec.encode(value)
    with pytest.raises(WireError, match="a Derived where a Nested belongs"):
        codec.encode(Derived(required=CENTER))
    with pytest.raises(WireError, match="a Empty where a Point belongs"):
        codec.encode(Nested(required=Empty()))  # type: ignore[arg-type]


@both_twins
@pytest.mark.parametrize("missing", ["sacred", "kept"])
def test_a_message_without_all_its_values_is_an_attribute_error(
    twin: ModuleType, missing: str
) -> None:
    unfinished = Evolving(kept=1)
    delattr(unfinished, missing)

    with pytest.raises(AttributeError, match=missing):
        codec_of(twin, Evolving, 0).encode(unfinished)
