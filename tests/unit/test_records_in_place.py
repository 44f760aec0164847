"""Columns whose values stay in the buffer that the records were received into."""

from array import array
from types import ModuleType
from typing import Any

import pytest

from ottla.records.shapes import Binary, BinaryColumn, Section
from tests.record_twins import BOTH, compiled_twin

# length 19, attributes, timestamp +5, offset 0, key "k", value "hello", 1 header "h" -> null
KNOWN_RECORD = bytes.fromhex("1e 00 0a 00 02 6b 0a 68656c6c6f 02 02 68 01".replace(" ", ""))


@pytest.fixture(params=BOTH)
def twin(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


def section(body: Binary) -> Section:
    return Section(body, 1, base_offset=100, base_timestamp_ms=0)


def test_columns_of_sections_that_may_be_overwritten_are_the_same(twin: ModuleType) -> None:
    records = [(5, b"key", None, ()), (6, None, b"", [("h", b"1")]), (7, b"k", b"v" * 300, ())]
    first, second = twin.encode(records), twin.encode([(9, b"", b"last", ())])
    buffer = bytearray(b"frame" + first.data + b"header" + second.data)
    end = 5 + len(first.data)
    views = memoryview(buffer)[5:end], memoryview(buffer)[end + 6 :]
    sections = [Section(views[0], 3, 10, 5), Section(views[1], 1, 50, 9)]
    expected = twin.columns(sections)

    columns = twin.columns(sections, True)

    assert columns == expected
    assert bytes(columns.value.data) == b"v" * 300 + b"last"
    assert bytes(buffer[:5]) == b"frame"


def test_values_stay_in_a_buffer_that_may_be_overwritten() -> None:
    buffer = bytearray(KNOWN_RECORD)
    columns = compiled_twin().columns([section(memoryview(buffer))], True)

    assert columns.value == BinaryColumn(array("i", (0, 5)).tobytes(), b"hello")
    assert columns.value.data.obj is buffer
    assert columns.key.data == b"k"


@pytest.mark.parametrize("kind", [bytes, lambda data: memoryview(bytes(data))])
def test_what_cannot_be_overwritten_is_copied(twin: ModuleType, kind: Any) -> None:
    body = kind(KNOWN_RECORD)

    assert twin.columns([section(body)], True) == twin.columns([section(body)])
    assert bytes(body) == KNOWN_RECORD


def test_sections_out_of_order_or_in_several_buffers_are_copied(twin: ModuleType) -> None:
    size = len(KNOWN_RECORD)
    buffer = bytearray(2 * KNOWN_RECORD)
    views = memoryview(buffer)[size:], memoryview(buffer)[:size]
    other = memoryview(bytearray(KNOWN_RECORD))

    assert twin.columns([section(views[0]), section(views[1])], True).value.data == b"hellohello"
    assert twin.columns([section(views[1]), section(other)], True).value.data == b"hellohello"
    assert buffer == 2 * KNOWN_RECORD
