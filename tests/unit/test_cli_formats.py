"""How `ottla consume` prints a record."""

import json

import pytest

from ottla.cli.formats import Format, date_text, json_line
from ottla.cli.inputs import Rules
from ottla.client.headers import Headers
from ottla.client.records import Record
from ottla.records.batch import TimestampType
from ottla.records.shapes import DecodedHeaders


def record(
    value: bytes | None = b"espresso",
    key: bytes | None = b"table-4",
    headers: DecodedHeaders = (("till", b"1"), ("note", None)),
) -> Record[bytes | None, bytes | None]:
    return Record(
        topic="orders",
        partition=3,
        offset=42,
        timestamp_ms=1_700_000_000_123,
        timestamp_type=TimestampType.CREATE_TIME,
        key=key,
        value=value,
        headers=Headers.of_pairs(headers),
        leader_epoch=0,
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("%s", b"espresso\n"),
        ("%t %p %o", b"orders 3 42\n"),
        ("%k=%v", b"table-4=espresso\n"),
        ("%K %S %V", b"7 8 8\n"),
        ("%h", b"till=1,note=\n"),
        ("%T", b"1700000000123\n"),
        ("%d", b"2023-11-14T22:13:20.123Z\n"),
        (r"%p\t%o\x21\\%%", b"3\t42!\\%\n"),
        (r"%s\n", b"espresso\n"),
        ("plain", b"plain\n"),
    ],
)
def test_a_format_has_the_letters_of_kcat(text: str, line: bytes) -> None:
    assert Format(text).line(record()) == line


def test_null_is_printed_as_nothing_and_counts_minus_one() -> None:
    assert Format("[%k|%s] %K %S").line(record(value=None, key=None)) == b"[|] -1 -1\n"


@pytest.mark.parametrize("text", ["%q", "50%", r"\y", "\\"])
def test_a_letter_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="means nothing"):
        Format(text)


def test_bytes_are_printed_as_they_are() -> None:
    assert Format("%s").line(record(value=b"\xff\x00")) == b"\xff\x00\n"


def test_a_time_that_no_calendar_has_is_a_number() -> None:
    assert date_text(2**62) == str(2**62)


def test_json_has_everything_that_a_record_has() -> None:
    assert json.loads(json_line(record())) == {
        "topic": "orders",
        "partition": 3,
        "offset": 42,
        "timestamp": "2023-11-14T22:13:20.123Z",
        "timestamp_ms": 1_700_000_000_123,
        "key": "table-4",
        "value": "espresso",
        "headers": [["till", "1"], ["note", None]],
    }


def test_a_document_is_shown_as_one() -> None:
    assert json.loads(json_line(record(b'{"id":1,"paid":true}')))["value"] == {
        "id": 1,
        "paid": True,
    }


@pytest.mark.parametrize(
    "value", [b'{"amount": 1.10}', b'{"a":1,"a":2}', b"[1, 2", b'"text"', b"7"]
)
def test_what_would_change_on_the_way_is_shown_as_text(value: bytes) -> None:
    assert json.loads(json_line(record(value)))["value"] == value.decode()


@pytest.mark.parametrize(
    "value",
    [b"espresso", b"", None, b"\xff\xfe", b'{"id":1}', b"[1,2]", b'{"amount": 1.10}', b'"x"', b"7"],
)
@pytest.mark.parametrize("key", [b"k", None, b"\x00\xff"])
def test_what_consume_prints_as_json_produce_reads_back(
    key: bytes | None, value: bytes | None
) -> None:
    original = record(value, key, (("a", b"\xff"), ("a", b"2"), ("b", None)))

    parsed, _ = Rules(is_json=True).parse(json_line(original), now_ms=0)

    assert parsed == (original.timestamp_ms, key, value, original.headers.pairs)
