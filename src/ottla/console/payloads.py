"""Bytes of a record -> what a person reads; and which records somebody is looking for.

Nothing here trusts a payload: what is not text is shown as hex, what is long is cut, and a filter
is data, never code.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

Format = Literal["auto", "text", "json", "hex"]
FORMATS: Final[tuple[Format, ...]] = ("auto", "text", "json", "hex")

MAX_SHOWN: Final = 4_096
"""Characters of one key or value on a page; the rest is in the download."""

_MISSING: Final = object()


@dataclass(frozen=True, slots=True)
class Shown:
    """A key or a value as it is shown."""

    text: str
    kind: Literal["null", "empty", "json", "text", "hex"]
    is_cut: bool = False


def shown(data: bytes | None, wanted: Format = "auto") -> Shown:
    """What to show of some bytes."""
    if data is None:
        return Shown("null", "null")
    if not data:
        return Shown("empty", "empty")
    if wanted in ("auto", "json"):
        parsed = _json(data)
        if parsed is not _MISSING and (wanted == "json" or isinstance(parsed, dict | list)):
            return _cut(json.dumps(parsed, indent=2, ensure_ascii=False), "json")
    if wanted == "hex" or not _is_text(data):
        return _cut(data[:MAX_SHOWN].hex(" "), "hex")
    return _cut(data.decode("utf-8", "replace"), "text")


@dataclass(frozen=True, slots=True)
class Search:
    """What a record must have; empty parts ask for nothing."""

    key: str = ""
    """A part of the key."""
    value: str = ""
    """A part of the value."""
    header: str = ""
    """`name`, or `name=part`."""
    path: str = ""
    """A place in a JSON value, `items.0.price`, or `items.0.price=9.5`."""

    @property
    def is_empty(self) -> bool:
        return not (self.key or self.value or self.header or self.path)

    def finds(
        self, key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]]
    ) -> bool:
        return (
            _contains(key, self.key)
            and _contains(value, self.value)
            and (not self.header or _has_header(headers, self.header))
            and (not self.path or _has_path(value, self.path))
        )


def _contains(data: bytes | None, part: str) -> bool:
    return not part or (data is not None and part.encode() in data)


def _has_header(headers: Iterable[tuple[str, bytes | None]], wanted: str) -> bool:
    name, equals, part = wanted.partition("=")
    return any(
        found == name and (not equals or part.encode() in (data or b"")) for found, data in headers
    )


def _has_path(value: bytes | None, wanted: str) -> bool:
    path, equals, expected = wanted.partition("=")
    found: Any = _MISSING if value is None else _json(value)
    for step in filter(None, path.strip().removeprefix("$").split(".")):
        found = _member(found, step)
    if found is _MISSING:
        return False
    return not equals or expected in (found, json.dumps(found, ensure_ascii=False))


def _member(value: Any, step: str) -> Any:
    if isinstance(value, dict):
        return value.get(step, _MISSING)
    if isinstance(value, list) and step.isdecimal() and int(step) < len(value):
        return value[int(step)]
    return _MISSING


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return _MISSING


def _is_text(data: bytes) -> bool:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return all(char.isprintable() or char in "\n\r\t" for char in text[:MAX_SHOWN])


def _cut(text: str, kind: Literal["json", "text", "hex"]) -> Shown:
    return Shown(text[:MAX_SHOWN], kind, is_cut=len(text) > MAX_SHOWN)
