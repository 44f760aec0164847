"""The record codec, both twins: known bytes, every kind of input, and every broken record."""

from array import array
from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from ottla.errors import BatchError, ErrorCode
from ottla.records.rows import BinaryColumnWriter
from ottla.records.shapes import (
    MAX_BODY_BYTES,
    BinaryColumn,
    Common,
    HeaderColumn,
    Section,
    Survey,
    UnwrittenColumns,
)
from tests.record_twins import BOTH

NOW_MS = 1_700_000_000_000

# length 19, attributes, timestamp +5, offset 0, key "k", value "hello", 1 header "h" -> null
KNOWN_RECORD = bytes.fromhex("1e 00 0a 00 02 6b 0a 68656c6c6f 02 02 68 01".replace(" ", ""))


@pytest.fixture(params=BOTH)
def twin(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


def section(body: bytes, record_count: int = 1) -> Section:
    return Section(body, record_count, base_offset=100, base_timestamp_ms=NOW_MS)


def int32s(*numbers: int) -> bytes:
    return array("i", numbers).tobytes()


def int64s(*numbers: int) -> bytes:
    return array("q", numbers).tobytes()


def test_a_record_has_the_bytes_that_the_protocol_says(twin: ModuleType) -> None:
    encoded = twin.encode([(NOW_MS + 5, b"k", b"hello", [("h", None)])], NOW_MS)

    assert encoded.data == KNOWN_RECORD
    assert encoded[1:] == (1, NOW_MS, NOW_MS + 5, None)


def test_those_bytes_are_read_back(twin: ModuleType) -> None:
    expected = [(100, NOW_MS + 5, b"k", b"hello", (("h", None),))]

    assert twin.decode(section(KNOWN_RECORD)) == expected
    assert list(twin.iterate(section(KNOWN_RECORD))) == expected


class Handed(NamedTuple):
    """What a reader of records makes of them."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: object
    timestamp_ms: int
    timestamp_type: int
    leader_epoch: int


def test_records_are_made_as_the_tuples_that_a_reader_wants(twin: ModuleType) -> None:
    common = Common(Handed, "orders", 3, 1, 7, "none", list)
    bare = twin.encode([(NOW_MS, None, b"", ())]).data
    (made,) = twin.decode_as(section(KNOWN_RECORD), common)
    (plain,) = twin.decode_as(section(bare), common)

    assert type(made) is Handed
    assert made == ("orders", 3, 100, b"k", b"hello", [("h", None)], NOW_MS + 5, 1, 7)
    assert plain == Handed("orders", 3, 100, None, b"", "none", NOW_MS, 1, 7)
    with pytest.raises(BatchError):
        twin.decode_as(section(KNOWN_RECORD[:-1]), common)


def test_a_null_is_not_an_empty_string(twin: ModuleType) -> None:
    records = [(NOW_MS, None, None, ()), (NOW_MS, b"", b"", [("", b"")])]

    body = twin.encode(records).data

    assert twin.decode(section(body, 2)) == [
        (100, NOW_MS, None, None, ()),
        (101, NOW_MS, b"", b"", (("", b""),)),
    ]


def test_headroom_is_zero_and_lies_before_the_records(twin: ModuleType) -> None:
    with_room = twin.encode([(NOW_MS, b"k", b"v", ())], None, 61).data

    assert with_room == bytes(61) + twin.encode([(NOW_MS, b"k", b"v", ())]).data


def test_timestamps_may_go_back(twin: ModuleType) -> None:
    encoded = twin.encode(
        [(NOW_MS, None, b"", ()), (NOW_MS - 7, None, b"", ()), (-1, None, b"", ())]
    )

    assert encoded.base_timestamp_ms == encoded.max_timestamp_ms == NOW_MS
    assert [record[1] for record in twin.decode(section(encoded.data, 3))] == [
        NOW_MS,
        NOW_MS - 7,
        -1,
    ]


def test_no_records_give_no_bytes_and_no_timestamp(twin: ModuleType) -> None:
    assert twin.encode([]) == (bytearray(), 0, -1, -1, None)
    assert twin.decode(section(b"", 0)) == []


def test_append_time_replaces_every_timestamp(twin: ModuleType) -> None:
    body = twin.encode([(5, None, b"a", ()), (9, None, b"b", ())]).data
    appended = Section(body, 2, 0, 5, append_time_ms=77)

    assert [record[1] for record in twin.decode(appended)] == [77, 77]
    assert [record[1] for record in twin.iterate(appended)] == [77, 77]
    assert array("q", twin.columns([appended]).timestamp_ms).tolist() == [77, 77]
    assert twin.survey(appended) == Survey(77, 0, 2, True)


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_keys_and_values_may_be_any_bytes(twin: ModuleType, kind: Any) -> None:
    given = [(NOW_MS, kind(b"key"), kind(b"value"), [("h", kind(b"header"))])]

    assert twin.encode(given) == twin.encode([(NOW_MS, b"key", b"value", [("h", b"header")])])


def test_a_view_with_gaps_or_wide_items_is_written_byte_for_byte(twin: ModuleType) -> None:
    gaps, wide = memoryview(b"a-b-c-")[::2], memoryview(array("i", (1, 2)))

    assert twin.encode([(0, gaps, wide, ())]) == twin.encode([(0, b"abc", bytes(wide), ())])


def test_any_iterable_of_records_and_headers_will_do(twin: ModuleType) -> None:
    def records() -> Iterator[list[object]]:
        for number in range(3):
            yield [NOW_MS, None, b"%d" % number, iter([["h", b"1"]])]

    expected = [(NOW_MS, None, b"%d" % number, [("h", b"1")]) for number in range(3)]

    assert twin.encode(records()) == twin.encode(expected) == twin.encode(tuple(expected))


def test_no_headers_may_be_said_with_none(twin: ModuleType) -> None:
    assert twin.encode([(0, b"k", b"v", None)]) == twin.encode([(0, b"k", b"v", [])])


@pytest.mark.parametrize(
    ("record", "error", "words"),
    [
        ((0, "text", b"", ()), TypeError, "a key must be bytes, .* not str"),
        ((0, b"", 5, ()), TypeError, "a value must be bytes, .* not int"),
        ((0, b"", [1, 2], ()), TypeError, "a value must be bytes, .* not list"),
        ((0, None, b"", [(b"h", b"")]), TypeError, "a header key must be str, not bytes"),
        ((0, None, b"", [(None, b"")]), TypeError, "a header key must be str, not NoneType"),
        ((0, None, b"", [("h", "v")]), TypeError, "a header value must be bytes, .* not str"),
        ((0, None, b"", [("h",)]), ValueError, None),
        ((0, None, b"", 5), TypeError, None),
        ((1.0, None, b"", ()), TypeError, None),
        (("1", None, b"", ()), TypeError, None),
        ((None, None, b"", ()), TypeError, None),
        ((-2, None, b"", ()), ValueError, "timestamp -2 ms is outside"),
        ((2**63, None, b"", ()), ValueError, "timestamp 9223372036854775808 ms is outside"),
        ((-(2**70), None, b"", ()), ValueError, "is outside"),
        ((0, None, b""), ValueError, None),
        ((0, None, b"", (), 5), ValueError, None),
        (None, TypeError, None),
        ((0, None, b"", [("\ud800", b"")]), UnicodeEncodeError, None),
    ],
)
def test_what_cannot_be_written_is_refused(
    twin: ModuleType, record: object, error: type[Exception], words: str | None
) -> None:
    with pytest.raises(error, match=words):
        twin.encode([record])
    with pytest.raises(error, match=words):
        twin.encode([(0, None, b"good", ()), record])


def test_the_largest_timestamps_are_written_and_read(twin: ModuleType) -> None:
    records = [(2**63 - 1, None, None, ()), (-1, None, None, ())]
    encoded = twin.encode(records)

    read = twin.decode(Section(encoded.data, 2, 0, encoded.base_timestamp_ms))

    assert [record[1] for record in read] == [2**63 - 1, -1]


def test_timestamps_too_far_apart_are_refused(twin: ModuleType) -> None:
    with pytest.raises(ValueError, match="that far from the first"):
        twin.encode([(-1, None, None, ()), (2**63 - 1, None, None, ())])
    with pytest.raises(ValueError, match="that far from the first"):
        twin.encode_columns(UnwrittenColumns(2, int64s(-1, 2**63 - 1)))


@pytest.mark.parametrize("size_bytes", [MAX_BODY_BYTES, 2**31])
def test_a_value_that_no_batch_can_hold_is_refused(twin: ModuleType, size_bytes: int) -> None:
    value = bytes(size_bytes)  # zeros that the operating system never has to find

    with pytest.raises(BatchError, match="more than one batch can hold") as caught:
        twin.encode([(0, None, value, ())])

    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize(
    ("body", "words"),
    [
        # The length of the record.
        ("80808080808000000000", "record 0 .* its length"),
        ("ffffffff1f0000000000", "record 0 .* its length"),
        ("0d0000000101000000", "record 0 .* its length"),
        ("1000000001010000", "record 0 .* its length"),
        ("00000000000000", "record 0 .* its timestamp"),
        # Its numbers.
        ("0200000000000000", "record 0 .* its timestamp"),
        ("1600808080808080808080800100", "record 0 .* its timestamp"),
        ("1600ffffffffffffffffff0200", "record 0 .* its timestamp"),
        ("0400020000000000", "record 0 .* its offset"),
        ("0e00000808080808000000".replace("08", "80"), "record 0 .* its offset"),
        ("0e00ffffffffffffff", "record 0 .* its timestamp"),
        # Key and value.
        ("0600000001010000", "record 0 .* its key"),
        ("0c000000030100", "record 0 .* its key"),
        ("0c0000000c0100", "record 0 .* its key"),
        ("0c000000ff", "LENGTH"),
        ("0c000000010300", "record 0 .* its value"),
        ("0c000000010c00", "record 0 .* its value"),
        ("0c0000000101", "LENGTH"),
        # Headers.
        ("0c000000010101", "record 0 .* header count"),
        ("0c000000010102", "record 0 .* header count"),
        ("10000000010102" + "0100", "record 0 .* header key"),
        ("10000000010102" + "0400", "record 0 .* header key"),
        ("10000000010102" + "0003", "record 0 .* header value"),
        ("10000000010102" + "0002", "record 0 .* header value"),
        # Too much of it.
        ("0e00000001010000", "record 0 .* left over after its last field"),
        ("0c00000001010000", "1 bytes are left over after the 1 records"),
    ],
)
def test_a_broken_record_is_refused_and_named(twin: ModuleType, body: str, words: str) -> None:
    broken = section(bytes.fromhex(body))
    words = "hold 0 at the most" if words == "LENGTH" else words

    for read in (
        twin.decode,
        lambda s: list(twin.iterate(s)),
        twin.survey,
        lambda s: twin.columns([s]),
    ):
        with pytest.raises(BatchError, match=words) as caught:
            read(broken)
        assert caught.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(("offset", "timestamp_ms"), [(0, 2**63 - 1), (2**63 - 1, 0)])
def test_a_sum_that_leaves_64_bits_is_refused(
    twin: ModuleType, offset: int, timestamp_ms: int
) -> None:
    overflowing = Section(bytes.fromhex("0c000202010100"), 1, offset, timestamp_ms)

    for read in (twin.decode, twin.survey, lambda s: twin.columns([s])):
        with pytest.raises(BatchError, match="does not fit 64 bits"):
            read(overflowing)


@pytest.mark.parametrize("record_count", [-1, -(2**31), 2, 3, 2**31 - 1])
def test_a_record_count_that_lies_is_refused(twin: ModuleType, record_count: int) -> None:
    for read in (
        twin.decode,
        lambda s: list(twin.iterate(s)),
        twin.survey,
        lambda s: twin.columns([s]),
    ):
        with pytest.raises(BatchError) as caught:
            read(section(KNOWN_RECORD, record_count))
        assert caught.value.code is ErrorCode.INVALID_RECORD


def test_bytes_without_records_are_refused(twin: ModuleType) -> None:
    with pytest.raises(BatchError, match="16 bytes are left over after the 0 records"):
        twin.decode(section(KNOWN_RECORD, 0))


def test_records_before_a_broken_one_can_be_had_one_by_one(twin: ModuleType) -> None:
    records = twin.iterate(section(KNOWN_RECORD + b"\x40" + bytes(9), 2))

    assert next(records)[3] == b"hello"
    with pytest.raises(BatchError, match="record 1 of the batch: its length"):
        next(records)
    assert list(records) == []


def test_numbers_may_be_longer_than_they_need_to_be(twin: ModuleType) -> None:
    padded = bytes.fromhex("8c808000" + "000000010100")

    assert twin.decode(section(padded)) == [(100, NOW_MS, None, None, ())]


def test_a_header_key_that_is_not_utf_8_is_read_with_replacements(twin: ModuleType) -> None:
    body = bytes.fromhex("16000000010102" + "06" + "61ff62" + "01")

    assert twin.decode(section(body))[0][4] == (("a\ufffdb", None),)
    assert twin.columns([section(body)]).headers.keys.data == "a\ufffdb".encode()


@pytest.mark.parametrize("body", ["text", None, 5, [1]])
def test_a_body_that_is_not_bytes_is_refused(twin: ModuleType, body: Any) -> None:
    for read in (twin.decode, twin.iterate, twin.survey, lambda s: twin.columns([s])):
        with pytest.raises(TypeError):
            read(section(body))


def test_a_survey_finds_the_first_of_the_latest_records(twin: ModuleType) -> None:
    records = [(5, b"k", None, ()), (9, None, None, ()), (9, None, None, ()), (7, b"k", None, ())]
    encoded = twin.encode(records)

    assert twin.survey(Section(encoded.data, 4, 30, 5)) == Survey(9, 31, 2, True)


def test_a_survey_sees_gaps_between_offsets(twin: ModuleType) -> None:
    one, three = bytes.fromhex("0c000000010100"), bytes.fromhex("0c000004010100")

    assert twin.survey(section(one + three, 2)).is_dense is False


def test_columns_hold_what_the_records_say(twin: ModuleType) -> None:
    first = twin.encode([(5, b"k", None, ()), (6, None, b"value", [("h", b"1"), ("i", None)])])
    second = twin.encode([(9, b"", b"", [("j", b"")])])

    columns = twin.columns([Section(first.data, 2, 10, 5), Section(second.data, 1, 50, 9)])

    assert columns.record_count == 3
    assert columns.offset == int64s(10, 11, 50)
    assert columns.timestamp_ms == int64s(5, 6, 9)
    assert columns.key == BinaryColumn(int32s(0, 1, 1, 1), b"k", b"\x05")
    assert columns.value == BinaryColumn(int32s(0, 0, 5, 5), b"value", b"\x06")
    assert columns.headers == HeaderColumn(
        int32s(0, 0, 2, 3),
        BinaryColumn(int32s(0, 1, 2, 3), b"hij"),
        BinaryColumn(int32s(0, 1, 1, 1), b"1", b"\x05"),
    )


def test_columns_without_nulls_have_no_validity(twin: ModuleType) -> None:
    columns = twin.columns([section(KNOWN_RECORD)])

    assert columns.key.validity is None
    assert columns.value.validity is None


def test_no_sections_give_empty_columns(twin: ModuleType) -> None:
    columns = twin.columns([])

    assert columns.record_count == 0
    assert columns.key == BinaryColumn(int32s(0), b"")


def test_a_python_column_beyond_32_bit_offsets_is_refused() -> None:
    writer = BinaryColumnWriter("value")
    writer.append(b"x")

    with pytest.raises(BatchError, match="column value exceeds 2 GiB"):
        writer.append(bytes(2**31 - 1))


def test_columns_are_written_like_records(twin: ModuleType) -> None:
    columns = UnwrittenColumns(
        3,
        int64s(5, 6, 4),
        BinaryColumn(int32s(0, 1, 1, 1), b"k", b"\x05"),
        BinaryColumn(int32s(0, 0, 5, 5), b"value", b"\x06"),
        HeaderColumn(
            int32s(0, 0, 2, 3),
            BinaryColumn(int32s(0, 1, 2, 3), b"hij"),
            BinaryColumn(int32s(0, 1, 1, 1), b"1", b"\x05"),
        ),
    )
    records = [
        (5, b"k", None, ()),
        (6, None, b"value", [("h", b"1"), ("i", None)]),
        (4, b"", b"", [("j", b"")]),
    ]

    assert twin.encode_columns(columns) == twin.encode(records)
    assert twin.encode_columns(columns, 3, 61) == twin.encode(records, 3, 61)


@pytest.mark.parametrize("before", [0, 50, 5_000], ids=["no", "little", "much"])
def test_columns_may_be_written_over_memory_that_was_used_before(
    twin: ModuleType, before: int
) -> None:
    columns = UnwrittenColumns(2, 7, value=BinaryColumn(int32s(0, 5, 400), b"x" * 400))
    memory = bytearray(b"old" * before)
    encoded = twin.encode_columns(columns, None, 61, memory)
    assert encoded.data is memory
    assert encoded == twin.encode_columns(columns, None, 61)


def test_memory_that_somebody_looks_into_is_not_written_over(twin: ModuleType) -> None:
    memory = bytearray(b"old" * 1_000)
    with memoryview(memory), pytest.raises(BufferError):
        twin.encode_columns(UnwrittenColumns(2, 7), None, 61, memory)
    assert memory == b"old" * 1_000


def test_a_slice_of_columns_writes_its_own_rows(twin: ModuleType) -> None:
    columns = UnwrittenColumns(
        1,
        7,
        BinaryColumn(int32s(0, 1, 3), b"abb", b"\x02", first_row=1),
        BinaryColumn(int32s(0, 1, 2, 4), b"cdee", first_row=2),
        HeaderColumn(
            int32s(0, 1, 2),
            BinaryColumn(int32s(0, 1, 2, 3), b"xhi", first_row=1),
            BinaryColumn(int32s(0, 1, 2), b"12"),
            first_row=1,
        ),
    )

    assert twin.encode_columns(columns) == twin.encode([(7, b"bb", b"ee", [("i", b"2")])])


def test_columns_that_are_absent_are_null(twin: ModuleType) -> None:
    assert twin.encode_columns(UnwrittenColumns(2, 7)) == twin.encode([(7, None, None, ())] * 2)


def test_a_null_list_of_headers_is_none(twin: ModuleType) -> None:
    entries = BinaryColumn(int32s(0, 1), b"h")
    headers = HeaderColumn(int32s(0, 1), entries, entries, validity=b"\x00")

    assert twin.encode_columns(UnwrittenColumns(1, 7, headers=headers)) == twin.encode(
        [(7, None, None, ())]
    )


def binary(*offsets: int, validity: bytes | None = None, first_row: int = 0) -> BinaryColumn:
    return BinaryColumn(int32s(*offsets), b"data", validity, first_row)


@pytest.mark.parametrize(
    "columns",
    [
        UnwrittenColumns(2, 7, key=binary(0, 1)),
        UnwrittenColumns(1, 7, key=binary(0, 5)),
        UnwrittenColumns(1, 7, key=binary(-1, 2)),
        UnwrittenColumns(1, 7, value=binary(3, 2)),
        UnwrittenColumns(1, 7, value=binary(0, 1, validity=b"")),
        UnwrittenColumns(1, 7, value=binary(0, 1, first_row=-1)),
        UnwrittenColumns(1, 7, value=binary(0, 1, first_row=2**40)),
        UnwrittenColumns(1, 7, value=binary(0, 1, first_row=2**62)),
        UnwrittenColumns(-1, 7, value=binary(0, 1)),
        UnwrittenColumns(2, int64s(1)),
        UnwrittenColumns(1, int64s(-2)),
        UnwrittenColumns(1, -2),
        UnwrittenColumns(1, 2**63),
        UnwrittenColumns(1, 7, headers=HeaderColumn(int32s(0, 2), binary(0, 1), binary(0, 1))),
        UnwrittenColumns(1, 7, headers=HeaderColumn(int32s(1, 0), binary(0, 1), binary(0, 1))),
        UnwrittenColumns(1, 7, headers=HeaderColumn(int32s(-1, 1), binary(0, 1), binary(0, 1))),
        UnwrittenColumns(
            1, 7, headers=HeaderColumn(int32s(0, 1), binary(0, 1, validity=b"\0"), binary(0, 1))
        ),
        UnwrittenColumns(
            1,
            7,
            headers=HeaderColumn(int32s(0, 1), BinaryColumn(int32s(0, 1), b"\xff"), binary(0, 1)),
        ),
    ],
)
def test_columns_that_contradict_themselves_are_refused(
    twin: ModuleType, columns: UnwrittenColumns
) -> None:
    with pytest.raises(ValueError, match=r"column|timestamp"):
        twin.encode_columns(columns)


@pytest.mark.parametrize("wrong", ["text", None, 5])
def test_a_column_of_something_else_is_refused(twin: ModuleType, wrong: Any) -> None:
    for column in (BinaryColumn(wrong, b""), BinaryColumn(int32s(0, 0), wrong)):
        with pytest.raises(TypeError):
            twin.encode_columns(UnwrittenColumns(1, 7, value=column))
    with pytest.raises(TypeError):
        twin.encode_columns(UnwrittenColumns(1, "seven"))  # type: ignore[arg-type]
