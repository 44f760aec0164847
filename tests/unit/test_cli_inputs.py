"""How `ottla produce` reads lines."""

import io
import os
from typing import Any

import pytest

from ottla.cli.inputs import InputError, Rules, parse_path, read_lines

NOW_MS = 1_700_000_000_000


def lines_of(data: bytes) -> list[bytes]:
    return [line for group in read_lines(io.BytesIO(data)) for line in group.lines]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"one\n", [b"one"]),
        (b"one\ntwo", [b"one", b"two"]),
        (b"one\r\ntwo\r\n", [b"one", b"two"]),
        (b"\n\n", [b"", b""]),
    ],
)
def test_each_line_is_a_record_with_or_without_an_end(data: bytes, lines: list[bytes]) -> None:
    assert lines_of(data) == lines


def test_a_line_longer_than_a_read_stays_in_one_piece() -> None:
    long = b"x" * 1_000_000
    assert lines_of(long + b"\nshort\n") == [long, b"short"]


def test_a_pipe_that_has_nothing_more_for_now_says_so() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream, os.fdopen(writing, "wb") as end:
        groups = read_lines(stream)
        end.write(b"typed\n")
        end.flush()
        assert next(groups) == ([b"typed"], 6, True)


def parse(line: bytes, **rules: Any) -> tuple[object, ...]:
    record, partition = Rules(**rules).parse(line, NOW_MS)
    return (*record, partition)


def test_a_line_is_a_value() -> None:
    assert parse(b"espresso") == (NOW_MS, None, b"espresso", (), None)


def test_a_separator_parts_key_and_value_at_its_first_place() -> None:
    assert parse(b"a::b::c", key_separator=b"::")[1:3] == (b"a", b"b::c")


def test_a_line_without_the_separator_is_refused() -> None:
    with pytest.raises(InputError, match="no ':' between"):
        parse(b"espresso", key_separator=b":")


def test_one_key_headers_and_partition_serve_all_lines() -> None:
    rules = {"key": b"k", "headers": (("a", b"1"),), "partition": 2}
    assert parse(b"v", **rules) == (NOW_MS, b"k", b"v", (("a", b"1"),), 2)


def test_an_empty_value_is_a_tombstone_only_if_asked_for() -> None:
    assert parse(b"k:", key_separator=b":")[1:3] == (b"k", b"")
    assert parse(b"k:", key_separator=b":", empty_is_null=True)[1:3] == (b"k", None)


def test_the_key_is_found_inside_the_value() -> None:
    line = b'{"customer": {"id": 7}}'
    assert parse(line, key_path=("customer", "id"))[1:3] == (b"7", line)


@pytest.mark.parametrize("line", [b"no json", b'{"customer": 1}', b"[]"])
def test_a_value_without_the_key_is_refused(line: bytes) -> None:
    with pytest.raises(InputError):
        parse(line, key_path=("customer", "id"))


def test_a_json_object_says_everything_itself() -> None:
    line = b'{"key": "k", "value": {"id": 1}, "headers": {"a": "1"}, "timestamp_ms": 5}'
    assert parse(line, is_json=True) == (5, b"k", b'{"id":1}', (("a", b"1"),), None)


def test_where_a_record_was_does_not_say_where_it_goes() -> None:
    line = b'{"topic": "old", "partition": 9, "offset": 3, "value": "v"}'
    assert parse(line, is_json=True) == (NOW_MS, None, b"v", (), None)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "not JSON"),
        (b'"text"', "not a JSON object"),
        (b'{"id": 1}', "'id' is no part of a record"),
        (b'{"value_base64": "%"}', "not base64"),
        (b'{"value": "v", "headers": ["a"]}', "header 'a'"),
        (b'{"value": "v", "headers": 1}', "headers are not"),
        (b'{"value": "v", "timestamp_ms": "now"}', "not a number of milliseconds"),
    ],
)
def test_a_json_line_that_is_no_record_is_refused_with_the_reason(line: bytes, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        parse(line, is_json=True)


def test_a_path_is_names_with_dots_between() -> None:
    assert parse_path(".customer.id") == ("customer", "id")
    with pytest.raises(ValueError, match="not a path"):
        parse_path(".a..b")
