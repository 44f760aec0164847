"""Where the records of `ottla produce` come from: lines of a stream, as they arrive.

A line is a value, or a key and a value with a separator between them, or a JSON object with the
names that `ottla consume -o json` writes: `value`, `key`, `headers`, `timestamp_ms`.  Where that
record was (`topic`, `partition`, `offset`) says nothing about where this one goes.
"""

import base64
import binascii
import json
import select
from collections.abc import Iterator, Mapping, Sequence
from io import UnsupportedOperation
from typing import Any, BinaryIO, Final, NamedTuple

from ottla.values import dataclass

CHUNK_BYTES: Final = 256 * 1024
MAX_LINE_BYTES: Final = 64 * 1024 * 1024
"""No broker takes a record of that size; a file without line ends is not a file of lines."""

_WHERE_IT_WAS: Final = ("topic", "partition", "offset", "timestamp")
_JSON_NAMES: Final = frozenset(
    ("key", "key_base64", "value", "value_base64", "headers", "timestamp_ms", *_WHERE_IT_WAS)
)


class InputError(ValueError):
    """A line that is not what it was said to be."""


class Lines(NamedTuple):
    """Some lines, and whether the stream has no more at the moment."""

    lines: Sequence[bytes]
    size_bytes: int
    is_drained: bool


def read_lines(stream: BinaryIO) -> Iterator[Lines]:
    """The lines of a stream without their ends, in groups as they arrive.

    A last line without an end counts, too.  Raises `InputError` for a line that never ends.
    """
    rest = b""
    read = getattr(stream, "read1", stream.read)
    while chunk := read(CHUNK_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > MAX_LINE_BYTES:
            raise InputError(f"a line has more than {MAX_LINE_BYTES} bytes")
        yield Lines([_without_return(line) for line in lines], len(chunk), not _has_more(stream))
    if rest:
        yield Lines([_without_return(rest)], 0, True)


def _without_return(line: bytes) -> bytes:
    return line[:-1] if line.endswith(b"\r") else line


def _has_more(stream: BinaryIO) -> bool:
    """Whether a read would return at once; a file always has, until its end."""
    try:
        ready, _, _ = select.select([stream.fileno()], [], [], 0)
    except UnsupportedOperation:
        return True
    return bool(ready)


Outgoing = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
"""Timestamp, key, value and headers of a record."""


class Parsed(NamedTuple):
    record: Outgoing
    partition: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How a line becomes a record."""

    is_json: bool = False
    key: bytes | None = None
    """For every record that has none of its own."""
    key_separator: bytes | None = None
    key_path: tuple[str, ...] = ()
    """Where in a value, which is JSON then, the key is found."""
    headers: tuple[tuple[str, bytes], ...] = ()
    partition: int | None = None
    empty_is_null: bool = False

    def parse(self, line: bytes, now_ms: int) -> Parsed:
        """The record in a line; `InputError` if there is none."""
        if self.is_json:
            return self._parse_json(line, now_ms)
        key, value = self.key, line
        if self.key_separator is not None:
            before, separator, after = line.partition(self.key_separator)
            if not separator:
                raise InputError(f"no {self.key_separator.decode()!r} between key and value")
            key, value = before, after
        if self.key_path:
            key = _key_at(self.key_path, line)
        record = (now_ms, self._nullable(key), self._nullable(value), self.headers)
        return Parsed(record, self.partition)

    def _nullable(self, data: bytes | None) -> bytes | None:
        return None if self.empty_is_null and data == b"" else data

    def _parse_json(self, line: bytes, now_ms: int) -> Parsed:
        facts = _object(line)
        if unknown := sorted(set(facts) - _JSON_NAMES):
            raise InputError(
                f"{unknown[0]!r} is no part of a record; without -i json a line is a value"
            )
        value = _field(facts, "value")
        key = _field(facts, "key") if {"key", "key_base64"} & set(facts) else self.key
        if self.key_path:
            key = _key_at(self.key_path, value or b"null")
        timestamp_ms = facts.get("timestamp_ms", now_ms)
        if not isinstance(timestamp_ms, int) or isinstance(timestamp_ms, bool):
            raise InputError(f"timestamp_ms = {timestamp_ms!r} is not a number of milliseconds")
        headers = (*self.headers, *_headers(facts.get("headers")))
        return Parsed((timestamp_ms, key, value, headers), self.partition)


def _object(line: bytes) -> Mapping[str, Any]:
    try:
        facts = json.loads(line)
    except ValueError as error:
        raise InputError(f"not JSON: {error}") from None
    if not isinstance(facts, dict):
        raise InputError('not a JSON object like {"key": "a", "value": "b"}')
    return facts


def _field(facts: Mapping[str, Any], name: str) -> bytes | None:
    """Text as it is, base64 as the bytes it stands for, anything else as JSON."""
    if (encoded := facts.get(f"{name}_base64")) is not None:
        return _from_base64(encoded)
    return _as_bytes(facts.get(name))


def _as_bytes(value: object) -> bytes | None:
    match value:
        case None:
            return None
        case str():
            return value.encode()
        case _:
            return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _from_base64(text: object) -> bytes:
    try:
        return base64.b64decode(str(text), validate=True)
    except binascii.Error as error:
        raise InputError(f"{text!r} is not base64: {error}") from None


def _headers(value: object) -> list[tuple[str, bytes | None]]:
    """Headers as a list of pairs, because names may come twice, or as an object."""
    pairs = list(value.items()) if isinstance(value, dict) else value or []
    if not isinstance(pairs, list):
        raise InputError('headers are not like [["name", "value"]]')
    found: list[tuple[str, bytes | None]] = []
    for pair in pairs:
        match pair:
            case [str(name), {"base64": encoded}] | (str(name), {"base64": encoded}):
                found.append((name, _from_base64(encoded)))
            case [str(name), data] | (str(name), data):
                found.append((name, _as_bytes(data)))
            case _:
                raise InputError(f"header {pair!r} is not a name and a value")
    return found


def _key_at(path: Sequence[str], value: bytes) -> bytes | None:
    try:
        found: Any = json.loads(value)
    except ValueError as error:
        raise InputError(f"no key, because the value is not JSON: {error}") from None
    for name in path:
        if not isinstance(found, dict) or name not in found:
            raise InputError(f"the value has no .{'.'.join(path)}")
        found = found[name]
    return _as_bytes(found)


def parse_path(text: str) -> tuple[str, ...]:
    """`.customer.id` -> its names; `ValueError` if one is empty."""
    names = tuple(text.removeprefix(".").split("."))
    if not all(names):
        raise ValueError(f"{text!r} is not a path like .customer.id")
    return names
