"""kio: its entities are generated, one class for each version, and read by native code.

kio gives values richer types (error codes, time spans, dates, UUIDs), so only samples in their
range can be compared.  It is compared in a circle: our bytes, its entity, its bytes.
"""

from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from io import BytesIO
from typing import Any, Final
from uuid import UUID

from kio.index import load_entity_schema
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from ottla.wire.schema import NO_UUID
from tests.conformance.kafka_schemas import snake_case
from tests.conformance.oracles import Sent

_SUFFIXES: Final = {
    "_request": EntityType.request,
    "_response": EntityType.response,
    "_header": EntityType.header,
}


def _place(cls: type[Any]) -> tuple[str, Any]:
    name = snake_case(cls.__name__)
    for suffix, kind in _SUFFIXES.items():
        if name.endswith(suffix):
            return (name if kind is EntityType.header else name.removesuffix(suffix)), kind
    return name, EntityType.data


def knows(cls: type[Any], version: int) -> bool:
    name, kind = _place(cls)
    return kind in schema_name_map.get(name, {}).get(version, {})


def decoded(cls: type[Any], version: int, data: bytes) -> Any:
    """Read `data`, all of it, as kio's entity for `cls` at `version`."""
    name, kind = _place(cls)
    read, size = entity_reader(load_entity_schema(name, version, kind))(data, 0)
    assert size == len(data), f"kio read {size} bytes of {len(data)}"
    return read


def encoded(read: Any) -> bytes:
    buffer = BytesIO()
    entity_writer(type(read))(buffer, read)
    return buffer.getvalue()


def values_of(read: Any) -> Sent:
    """The values of an entity, with those of tagged fields that were not sent."""
    places = fields(read)
    return Sent(
        tuple(
            _to_ours(p.metadata, getattr(read, p.name)) for p in places if "tag" not in p.metadata
        ),
        {
            p.metadata["tag"]: _to_ours(p.metadata, getattr(read, p.name))
            for p in places
            if "tag" in p.metadata
        },
    )


def _to_ours(metadata: Any, value: Any) -> Any:
    if is_dataclass(value):
        return values_of(value)
    if isinstance(value, tuple):
        return tuple(_to_ours(metadata, item) for item in value)
    if metadata.get("kafka_type") == "uuid":
        return value.bytes if isinstance(value, UUID) else NO_UUID
    if metadata.get("kafka_type") == "datetime_i64" and value is None:
        return -1
    return _scalar_to_ours(value)


def _scalar_to_ours(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, timedelta):
        return value // timedelta(milliseconds=1)
    if isinstance(value, datetime):
        return (value - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)
    return value
