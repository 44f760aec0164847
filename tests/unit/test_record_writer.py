"""Records that are written as they come, by both twins of the codec."""

from types import ModuleType
from typing import Any

import pytest

from ottla.records.shapes import MAX_RECORD_OVERHEAD_BYTES, Section
from tests.record_twins import BOTH

NOW_MS = 1_700_000_000_000
RECORDS: list[Any] = [
    (NOW_MS, None, b"a", ()),
    (NOW_MS - 5, b"k", None, [("h", b"1"), ("h", None)]),
    (NOW_MS + 7, b"", bytes(5_000), None),
]


@pytest.fixture(params=BOTH)
def twin(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


def test_one_by_one_or_together_they_are_the_same_bytes(twin: ModuleType) -> None:
    writer = twin.Writer(headroom_bytes=61)
    assert [writer.append(*record) for record in RECORDS] == [0, 1, 2]
    writer.extend(iter(RECORDS))
    assert len(writer) == 6
    assert writer.encoded() == twin.encode([*RECORDS, *RECORDS], headroom_bytes=61)


def test_headers_need_not_be_said(twin: ModuleType) -> None:
    writer = twin.Writer()
    writer.append(NOW_MS, b"k", b"v")
    assert writer.encoded() == twin.encode([(NOW_MS, b"k", b"v", ())])


@pytest.mark.parametrize(
    "refused",
    [
        (-2, None, b"x", ()),
        (2**63, None, b"x", ()),
        (NOW_MS, "text", b"x", ()),
        (NOW_MS, None, 7, ()),
        (NOW_MS, None, b"x", [(b"key", b"")]),
    ],
)
def test_what_is_refused_leaves_everything_as_it_was(twin: ModuleType, refused: Any) -> None:
    writer = twin.Writer(headroom_bytes=3)
    writer.append(*RECORDS[0])
    with pytest.raises((TypeError, ValueError)):
        writer.append(*refused)
    with pytest.raises((TypeError, ValueError)):
        writer.extend([RECORDS[1], refused, RECORDS[2]])
    assert len(writer) == 2
    assert writer.encoded() == twin.encode(RECORDS[:2], headroom_bytes=3)


def test_a_refused_first_record_does_not_set_the_base_timestamp(twin: ModuleType) -> None:
    writer = twin.Writer()
    with pytest.raises(TypeError):
        writer.append(NOW_MS, None, "text", ())
    writer.append(NOW_MS + 1, None, b"x", ())
    assert writer.encoded().base_timestamp_ms == NOW_MS + 1


def test_records_are_taken_out_once(twin: ModuleType) -> None:
    writer = twin.Writer()
    writer.append(*RECORDS[0])
    writer.encoded()
    with pytest.raises(ValueError, match="were taken"):
        writer.append(*RECORDS[0])
    with pytest.raises(ValueError, match="were taken"):
        writer.encoded()


def test_many_records_grow_the_buffer_and_are_read_back(twin: ModuleType) -> None:
    writer = twin.Writer()
    for number in range(3_000):
        writer.append(NOW_MS + number, None, b"%d" % number)
    encoded = writer.encoded()
    section = Section(encoded.data, encoded.record_count, 0, encoded.base_timestamp_ms)
    assert [row[3] for row in twin.decode(section)] == [b"%d" % number for number in range(3_000)]


def test_what_is_offered_is_written_while_it_is_allowed(twin: ModuleType) -> None:
    writer = twin.Writer(headroom_bytes=61)
    assert writer.size_bytes == 61
    assert writer.offer(NOW_MS, None, b"x") == -1, "nothing is allowed yet"
    writer.append(NOW_MS, b"k", b"a")
    used_bytes = writer.size_bytes
    writer.allow(used_bytes + MAX_RECORD_OVERHEAD_BYTES + 9)
    assert writer.offer(NOW_MS, b"12345", b"67890") == -1
    assert (writer.size_bytes, len(writer)) == (used_bytes, 1)
    assert writer.offer(NOW_MS + 3, b"1234", b"56789") == 1
    assert writer.offer(NOW_MS, None, b"") == -1
    written = writer.encoded()
    assert len(written.data) == writer.size_bytes
    records = [(NOW_MS, b"k", b"a", ()), (NOW_MS + 3, b"1234", b"56789", ())]
    assert written == twin.encode(records, headroom_bytes=61)


def test_what_is_offered_after_records_were_taken_out_is_refused(twin: ModuleType) -> None:
    writer = twin.Writer()
    writer.allow(1_000)
    assert writer.offer(NOW_MS, None, b"x") == 0
    writer.encoded()
    assert writer.offer(NOW_MS, None, b"x") == -1
