"""Columns of values and nothing else, for which the compiled twin has a way of its own."""

from array import array
from types import ModuleType

import pytest

from ottla.records import codec
from ottla.records.shapes import BinaryColumn, UnwrittenColumns
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
