"""The two bytes in front of everything stored: a version, or the type of a record's key.

Values in the internal topics, the consumer protocol's blobs and control records begin with the
version they are encoded in.  Keys in the internal topics begin with the type of the record
instead, and have one version.
"""

import struct
from typing import Any, Final, TypeVar

from ottla.errors import WireError
from ottla.wire.codec import Part, codec, decode, encode
from ottla.wire.primitives import INT16
from ottla.wire.schema import api_of

T = TypeVar("T")

_KEY_VERSION: Final = 0


def encode_versioned(message: Any, version: int) -> bytes:
    """Encode `message` with its version in front."""
    return INT16.pack(version) + encode(message, version)


def decode_versioned(cls: type[T], data: Part) -> T:
    """Decode a `cls` that has its version in front; bytes left over are an error."""
    return decode(cls, memoryview(data)[INT16.size :], _prefix(data))


def decode_lenient(cls: type[T], data: Part) -> T:
    """Decode a `cls` that may come from a newer peer.

    A version above ours is read as our newest, and bytes after it are ignored: versions of the
    consumer protocol only ever add fields at the end.
    """
    version = min(_prefix(data), api_of(cls).versions.high)
    message: T
    message, _ = codec(cls, version).decode(data, INT16.size)
    return message


def encode_key(key: Any) -> bytes:
    """Encode the key of a record in an internal topic."""
    record_type = api_of(type(key)).key
    assert record_type is not None, f"{type(key).__name__} is not a key"
    return INT16.pack(record_type) + encode(key, _KEY_VERSION)


def record_type_of(key: Part) -> int:
    """The type of record that an encoded key belongs to."""
    return _prefix(key)


def decode_key(cls: type[T], data: Part) -> T:
    """Decode a key whose type was seen to be that of `cls`."""
    if record_type_of(data) != api_of(cls).key:
        raise WireError(f"record type {record_type_of(data)} is not that of {cls.__name__}")
    return decode(cls, memoryview(data)[INT16.size :], _KEY_VERSION)


def _prefix(data: Part) -> int:
    try:
        prefix: int = INT16.unpack_from(data)[0]
    except struct.error:
        raise WireError("too short for a version") from None
    return prefix
