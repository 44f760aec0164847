"""aiokafka: its schemas are written by hand, one for each version, without names we could rely on.

It has no tagged fields of its own, so only messages that send none are compared.
"""

from functools import cache
from importlib import import_module
from io import BytesIO
from pkgutil import iter_modules
from typing import Any

import aiokafka.protocol
from aiokafka.protocol.api import RequestStruct, Response
from aiokafka.protocol.types import Array, Schema, TaggedFields

from ottla.wire.schema import api_of
from tests.conformance.oracles import Sent, sent


@cache
def _classes() -> dict[tuple[str, int | None, int], Any]:
    """("Request" or "Response", key, version) -> class."""
    for module in iter_modules(aiokafka.protocol.__path__, "aiokafka.protocol."):
        import_module(module.name)
    return {
        (word, cls.API_KEY, cls.API_VERSION): cls
        for word, base in (("Request", RequestStruct), ("Response", Response))
        for cls in base.__subclasses__()
        if cls.__name__.endswith(f"{word}_v{cls.API_VERSION}")  # one class misstates its version
    }


def _class(cls: type[Any], version: int) -> Any:
    word = "Request" if cls.__name__.endswith("Request") else "Response"
    return _classes().get((word, api_of(cls).key, version))


def knows(cls: type[Any], version: int) -> bool:
    return ".messages." in cls.__module__ and _class(cls, version) is not None


def encoded(message: Any, version: int) -> bytes:
    schema = _class(type(message), version).SCHEMA
    return bytes(schema.encode(_to_theirs(schema, sent(message, version))))


def decoded(cls: type[Any], version: int, data: bytes) -> Sent:
    schema, stream = _class(cls, version).SCHEMA, BytesIO(data)
    values = schema.decode(stream)
    assert stream.tell() == len(data), f"aiokafka read {stream.tell()} bytes of {len(data)}"
    read = _to_ours(schema, values)
    assert isinstance(read, Sent)
    return read


def matches(theirs: Any, ours: Any) -> bool:
    """Whether decoded values are ours; aiokafka reads a struct of one field as that field."""
    if isinstance(ours, Sent) and not isinstance(theirs, Sent):
        return len(ours.values) == 1 and matches(theirs, ours.values[0])
    if isinstance(ours, Sent):
        return matches(theirs.values, ours.values) and not ours.tagged
    if isinstance(ours, tuple):
        return len(theirs) == len(ours) and all(map(matches, theirs, ours))
    return bool(theirs == ours)


def _to_theirs(schema: Any, value: Any) -> Any:
    if isinstance(schema, Schema):
        assert not value.tagged
        tags: list[Any] = [{}] if schema.fields and schema.fields[-1] is TaggedFields else []
        places = schema.fields[: len(schema.fields) - len(tags)]
        return [_to_theirs(p, v) for p, v in zip(places, value.values, strict=True)] + tags
    if isinstance(schema, Array) and value is not None:
        return [_to_theirs(schema.array_of, item) for item in value]
    return value.values[0] if isinstance(value, Sent) else value


def _to_ours(schema: Any, value: Any) -> Any:
    if isinstance(schema, Schema):
        pairs = zip(schema.fields, value, strict=True)
        return Sent(tuple(_to_ours(p, v) for p, v in pairs if p is not TaggedFields), {})
    if isinstance(schema, Array) and value is not None:
        return tuple(_to_ours(schema.array_of, item) for item in value)
    return value
