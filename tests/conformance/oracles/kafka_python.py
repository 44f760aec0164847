"""kafka-python 3: its messages are made from Kafka's schema files at import."""

import warnings
from io import BytesIO
from types import ModuleType
from typing import Any, Final
from uuid import UUID

from ottla.wire.schema import NO_UUID, api_of
from tests.conformance.oracles import Sent, sent

with warnings.catch_warnings():
    # It reads its schemas with functions that were deprecated in Python 3.11 and 3.12 only.
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    import kafka.protocol.admin
    import kafka.protocol.consumer
    import kafka.protocol.metadata
    import kafka.protocol.producer
    import kafka.protocol.sasl
    from kafka.protocol.api_header import ApiHeader, RequestHeader, ResponseHeader
    from kafka.protocol.api_message import ApiMessage

_MODULES: Final[list[ModuleType]] = [
    kafka.protocol.admin,
    kafka.protocol.consumer,
    kafka.protocol.metadata,
    kafka.protocol.producer,
    kafka.protocol.sasl,
]
_HEADERS: Final = {"RequestHeader": RequestHeader, "ResponseHeader": ResponseHeader}


def knows(cls: type[Any], version: int) -> bool:
    theirs = _class(cls.__name__)
    if theirs is None:
        return False
    most = theirs._valid_versions[1]
    return bool(version <= most)


def encoded(message: Any, version: int) -> bytes:
    theirs = _class(type(message).__name__)
    built = _built(theirs._struct, sent(message, version), version, theirs)
    if issubclass(theirs, ApiHeader):
        return bytes(built.encode(flexible=version in api_of(type(message)).flexible))
    options = {} if issubclass(theirs, ApiMessage) else {"header": False}
    return bytes(built.encode(version=version, **options))


def decoded(cls: type[Any], version: int, data: bytes) -> Sent:
    theirs = _class(cls.__name__)
    flexible = version in api_of(cls).flexible
    if issubclass(theirs, ApiMessage):
        # Not `theirs.decode`, which reads an ApiVersions response with an error as version 0.
        read = theirs._struct.compiled_decode_from(
            version, compact=flexible, tagged=flexible, data_class=theirs[None]
        )
        message, end = read(memoryview(data), 0)
    else:
        stream = BytesIO(data)
        is_header = issubclass(theirs, ApiHeader)
        options = {"flexible": flexible} if is_header else {"version": version, "header": False}
        message, end = theirs.decode(stream, **options), stream.tell()
    assert end == len(data), f"kafka-python read {end} bytes of {len(data)}"
    return _sent(theirs._struct, message, version)


def _class(name: str) -> Any:
    if name in _HEADERS:
        return _HEADERS[name]
    return next((getattr(m, name) for m in _MODULES if hasattr(m, name)), None)


def _tagged(struct: Any, version: int) -> dict[int, Any]:
    return {f.tag: f for f in struct.fields.values() if f.tagged_field_q(version)}


def _built(struct: Any, values: Sent, version: int, made_by: Any) -> Any:
    """Our values as an instance of their class for `struct`."""
    places = struct.untagged_fields(version)
    given = {
        place.name: _to_theirs(place, value, version)
        for place, value in zip(places, values.values, strict=True)
    }
    tagged = _tagged(struct, version)
    given |= {
        tagged[tag].name: _to_theirs(tagged[tag], value, version)
        for tag, value in values.tagged.items()
    }
    return made_by(version=version, **given)


def _to_theirs(place: Any, value: Any, version: int) -> Any:
    if isinstance(value, Sent):
        return _built(place, value, version, place.data_class)
    if place.is_struct_array() and value is not None:
        return [_built(place.array_of, v, version, place.data_class) for v in value]
    if isinstance(value, tuple):
        return [_scalar_to_theirs(place.type_str.removeprefix("[]"), item) for item in value]
    return _scalar_to_theirs(place.type_str, value)


def _scalar_to_theirs(kind: str, value: Any) -> Any:
    if kind == "uuid":
        return UUID(bytes=value)
    if kind == "bitfield":
        return {bit for bit in range(32) if value & 1 << bit}
    return value


def _sent(struct: Any, message: Any, version: int) -> Sent:
    """Their instance as values on the wire."""
    return Sent(
        tuple(
            _to_ours(place, getattr(message, place.name), version)
            for place in struct.untagged_fields(version)
        ),
        {
            tag: _to_ours(place, getattr(message, place.name), version)
            for tag, place in _tagged(struct, version).items()
            if message.tags and place.name in message.tags
        },
    )


def _to_ours(place: Any, value: Any, version: int) -> Any:
    if place.is_struct_array() and value is not None:
        return tuple(_sent(place.array_of, item, version) for item in value)
    if place.is_struct() and value is not None:
        return _sent(place, value, version)
    if isinstance(value, list):
        return tuple(_scalar_to_ours(place.type_str.removeprefix("[]"), item) for item in value)
    return _scalar_to_ours(place.type_str, value)


def _scalar_to_ours(kind: str, value: Any) -> Any:
    if kind == "uuid":
        return NO_UUID if value is None else value.bytes
    if kind == "bitfield":
        bits = sum(1 << bit for bit in ({31} if value is None else value))
        return bits - (1 << 32) if bits >> 31 else bits
    return bytes(value) if isinstance(value, memoryview) else value
