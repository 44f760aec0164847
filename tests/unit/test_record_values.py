"""Columns of values, which the compiled twin writes and reads by shorter ways than other rows."""

import sys
from array import array
from types import ModuleType

import pytest

from ottla.records import codec
from ottla.records.plain_hashes import crc32c
from ottla.records.shapes import BinaryColumn, HeaderColumn, Section, UnwrittenColumns
from tests.record_twins import BOTH

NOW_MS = 1_700_000_000_000

ODD_SIZES = [0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 100, 240, 255, 256, 257, 272, 8_191, 8_192]
"""Around the steps in which bytes are copied, and where a length takes another byte."""


@pytest.fixture(params=BOTH)
def twin(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


def value_of(size: int) -> bytes:
    return bytes(i % 251 for i in range(size))


def column_of(values: list[bytes], validity: bytes | None = None) -> BinaryColumn:
    offsets = array("i", [0])
    for value in values:
        offsets.append(offsets[-1] + len(value))
    return BinaryColumn(offsets.tobytes(), b"".join(values), validity)


@pytest.mark.parametrize("last", ODD_SIZES)
def test_values_of_any_size_are_written_as_records(twin: ModuleType, last: int) -> None:
    values = [value_of(size) for size in [*ODD_SIZES, last]]
    columns = UnwrittenColumns(len(values), NOW_MS, value=column_of(values))

    assert twin.encode_columns(columns, None, 61) == codec.encode(
        [(NOW_MS, None, value, ()) for value in values], None, 61
    )


def test_places_in_a_batch_take_as_many_bytes_as_they_need(twin: ModuleType) -> None:
    values = [b"%d" % i for i in range(8_200)]
    columns = UnwrittenColumns(len(values), NOW_MS, value=column_of(values))

    assert twin.encode_columns(columns) == codec.encode(
        [(NOW_MS, None, value, ()) for value in values]
    )


@pytest.mark.parametrize("base_ms", [NOW_MS - 1, NOW_MS, NOW_MS + 1])
def test_values_may_be_of_another_time_than_their_batch(twin: ModuleType, base_ms: int) -> None:
    columns = UnwrittenColumns(2, NOW_MS, value=column_of([b"a", b"b"]))

    assert twin.encode_columns(columns, base_ms) == codec.encode(
        [(NOW_MS, None, b"a", ()), (NOW_MS, None, b"b", ())], base_ms
    )


def test_a_null_among_values_is_written(twin: ModuleType) -> None:
    columns = UnwrittenColumns(3, NOW_MS, value=column_of([b"a", b"", b"c"], b"\x05"))

    assert twin.encode_columns(columns) == codec.encode(
        [(NOW_MS, None, b"a", ()), (NOW_MS, None, None, ()), (NOW_MS, None, b"c", ())]
    )


def test_no_values_are_no_records(twin: ModuleType) -> None:
    columns = UnwrittenColumns(0, NOW_MS, value=BinaryColumn(bytes(4), b""))

    assert twin.encode_columns(columns) == codec.encode([])


@pytest.mark.parametrize(
    "offsets", [(0, 9, 18, 12), (0, 9, 18, 28), (0, 9, -1, 27), (-9, 0, 9, 27)]
)
def test_the_value_that_lies_outside_is_named(twin: ModuleType, offsets: tuple[int, ...]) -> None:
    column = BinaryColumn(array("i", offsets).tobytes(), value_of(27))
    bad = next(i for i in range(3) if not 0 <= offsets[i] <= offsets[i + 1] <= 27)

    with pytest.raises(ValueError, match=f"column value: row {bad} lies outside its data"):
        twin.encode_columns(UnwrittenColumns(3, NOW_MS, value=column))


STRIDE_BYTES = 12_288
"""Behind how many bytes the compiled twin stops for their checksum."""


@pytest.mark.parametrize("has_keys", [False, True], ids=["values", "keys"])
@pytest.mark.parametrize("more", [-9, -8, -7, 0, 1, 300, STRIDE_BYTES - 8, 5 * STRIDE_BYTES])
@pytest.mark.parametrize("count", [1, 2, 150])
def test_records_come_with_their_checksum(
    twin: ModuleType, count: int, more: int, has_keys: bool
) -> None:
    values = [value_of(100)] * (count - 1) + [value_of(STRIDE_BYTES + more)]
    column = column_of(values)
    columns = UnwrittenColumns(count, NOW_MS, column if has_keys else None, column)

    encoded = twin.encode_columns(columns, None, 61, None, True)

    assert encoded.body_crc == crc32c(encoded.data[61:])
    assert encoded._replace(body_crc=None) == twin.encode_columns(columns, None, 61)


def test_rows_that_fill_strides_exactly_come_with_their_checksum(twin: ModuleType) -> None:
    # 128 records of 96 bytes each; the place of a record takes two bytes from the 65th on.
    values = [value_of(87)] * 64 + [value_of(86)] * 1_000
    columns = UnwrittenColumns(len(values), NOW_MS, value=column_of(values))

    encoded = twin.encode_columns(columns, None, 0, None, True)

    assert len(encoded.data) == 96 * len(values)
    assert encoded.body_crc == crc32c(encoded.data)


def test_no_rows_have_the_checksum_of_nothing(twin: ModuleType) -> None:
    assert twin.encode_columns(UnwrittenColumns(0, NOW_MS), None, 61, None, True).body_crc == 0


def section_of(values: list[bytes | None], key: bytes | None = None) -> Section:
    encoded = codec.encode([(NOW_MS, key, value, [("h", key)] if key else ()) for value in values])
    return Section(encoded.data, len(values), 0, NOW_MS)


@pytest.mark.parametrize("may_overwrite", [False, True], ids=["kept", "given up"])
@pytest.mark.parametrize("key", [None, b"key"])
@pytest.mark.parametrize("last", ODD_SIZES)
def test_values_of_any_size_are_read_from_sections(
    twin: ModuleType, last: int, key: bytes | None, may_overwrite: bool
) -> None:
    values: list[bytes | None] = [*map(value_of, ODD_SIZES), None, value_of(last)]

    read = twin.columns([section_of(values, key), section_of(values[-1:], key)], may_overwrite)

    assert read == codec.columns([section_of(values, key), section_of(values[-1:], key)])
    assert bytes(read.value.data) == b"".join(value or b"" for value in [*values, values[-1]])


def test_columns_keep_nothing_of_the_sections_alive(twin: ModuleType) -> None:
    memory = bytearray(section_of([value_of(100)]).body)
    read = twin.columns([Section(memory, 1, 0, NOW_MS)])

    memory.clear()  # which it refuses while somebody looks into it

    assert read.value.data == value_of(100)


@pytest.mark.parametrize("key", [None, value_of(1_000)], ids=["alone", "with keys"])
@pytest.mark.parametrize(
    "value", [value_of(5_000), value_of(20), b"", None], ids=["large", "small", "empty", "null"]
)
def test_a_column_holds_little_more_memory_than_its_values(
    twin: ModuleType, value: bytes | None, key: bytes | None
) -> None:
    section = section_of([value] * 100, key=key)

    data = twin.columns([section]).value.data

    assert data == (value or b"") * 100
    assert sys.getsizeof(data) <= 1.15 * sys.getsizeof(bytearray(len(data)))


def test_no_sections_have_no_values(twin: ModuleType) -> None:
    assert twin.columns([]) == codec.columns([])


@pytest.mark.parametrize("size", range(50, 110))
def test_rows_behind_one_that_fills_all_room_are_written(twin: ModuleType, size: int) -> None:
    """Null rows whose offsets go back: the room that was made by the offsets is too small."""
    header = ("k", value_of(size))
    lists = array("i", [0, 1, 0, 0]).tobytes()
    entries = column_of([b"k"]), column_of([header[1]])
    columns = UnwrittenColumns(3, NOW_MS, headers=HeaderColumn(lists, *entries, b"\x05"))

    assert twin.encode_columns(columns) == codec.encode(
        [(NOW_MS, None, None, (header,)), (NOW_MS, None, None, ()), (NOW_MS, None, None, ())]
    )
