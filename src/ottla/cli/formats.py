r"""How a record is printed: a format with kcat's letters, or one JSON object.

    %t topic       %k key           %K bytes of the key      %T timestamp in ms
    %p partition   %s or %v value   %S or %V bytes of value  %d the same as a date
    %o offset      %h headers: name=value,name=value         %% a percent sign
    \n \t \r \0 \\ \xHH as in Python

A null key or value is printed as nothing, and counts -1 bytes.
"""

import base64
import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ottla.client.records import Record as AnyRecord

    Record = AnyRecord[bytes | None, bytes | None]

_TOKEN: Final = re.compile(r"%(.)|\\x([0-9a-fA-F]{2})|\\(.)|([%\\])", re.DOTALL)
_ESCAPES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}

Piece = bytes | Callable[["Record"], bytes]


def _number(value: int) -> bytes:
    return b"%d" % value


def _size(data: bytes | None) -> bytes:
    return _number(-1 if data is None else len(data))


def _headers(record: "Record") -> bytes:
    return b",".join(name.encode() + b"=" + (value or b"") for name, value in record.headers)


_LETTERS: Final[Mapping[str, Callable[["Record"], bytes]]] = {
    "t": lambda record: record.topic.encode(),
    "p": lambda record: _number(record.partition),
    "o": lambda record: _number(record.offset),
    "k": lambda record: record.key or b"",
    "s": lambda record: record.value or b"",
    "v": lambda record: record.value or b"",
    "K": lambda record: _size(record.key),
    "S": lambda record: _size(record.value),
    "V": lambda record: _size(record.value),
    "h": _headers,
    "T": lambda record: _number(record.timestamp_ms),
    "d": lambda record: date_text(record.timestamp_ms).encode(),
}


class Format:
    """A format, taken apart once.  A newline is added to one that does not end in one."""

    def __init__(self, text: str) -> None:
        """`ValueError` for a letter that means nothing."""
        self._pieces: list[Piece] = []
        position = 0
        for token in _TOKEN.finditer(text):
            self._pieces.append(text[position : token.start()].encode())
            self._pieces.append(_piece(token))
            position = token.end()
        self._pieces.append(text[position:].encode())
        if not text.endswith(r"\n"):
            self._pieces.append(b"\n")

    def line(self, record: "Record") -> bytes:
        return b"".join(p if isinstance(p, bytes) else p(record) for p in self._pieces)


def _piece(token: "re.Match[str]") -> Piece:
    letter, hexadecimal, escape, _stray = token.groups()
    if letter == "%":
        return b"%"
    if letter in _LETTERS:
        return _LETTERS[letter]
    if hexadecimal is not None:
        return bytes.fromhex(hexadecimal)
    if escape in _ESCAPES:
        return _ESCAPES[escape]
    raise ValueError(f"{token[0]!r} means nothing in a format; try one of %{' %'.join(_LETTERS)}")


def date_text(timestamp_ms: int) -> str:
    """A timestamp as ISO 8601 in UTC; one that no calendar has is printed as the number."""
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, tz=UTC)
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def json_line(record: "Record") -> bytes:
    """A record as one line of JSON."""
    return json.dumps(json_facts(record), ensure_ascii=False).encode() + b"\n"


def json_facts(record: "Record") -> dict[str, object]:
    """A record as `ottla produce -i json` reads it back.

    A value that is a JSON object or array is shown as such if it can be written back exactly;
    bytes that are no text are given in base64, under a name of their own.
    """
    facts: dict[str, object] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": date_text(record.timestamp_ms),
        "timestamp_ms": record.timestamp_ms,
    }
    facts |= _bytes_fact("key", record.key)
    value = _bytes_fact("value", record.value)
    document = _document(record.value)
    facts |= value if document is None else {"value": document}
    facts["headers"] = [[name, _header_value(data)] for name, data in record.headers]
    return facts


def _bytes_fact(name: str, data: bytes | None) -> dict[str, object]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def _header_value(data: bytes | None) -> object:
    """Text as text, null as null, and what is no text as `{"base64": ...}`."""
    fact = _bytes_fact("value", data)
    return fact["value"] if "value" in fact else {"base64": fact["value_base64"]}


def _document(data: bytes | None) -> object | None:
    """The object or array that `data` is, if nothing gets lost on the way."""
    if data is None or data[:1] not in (b"{", b"["):
        return None
    try:
        document: object = json.loads(data)
    except ValueError:
        return None
    for separators in ((", ", ": "), (",", ":")):
        if json.dumps(document, ensure_ascii=False, separators=separators).encode() == data:
            return document
    return None
