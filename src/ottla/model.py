"""Values everyone speaks of: partitions, topic names, identifiers.

Identifiers of topics and clusters are 16 bytes.  Kafka writes them as URL-safe base64 without
padding, 22 characters; `uuid_text` and `uuid_from_text` are the only places that know it.
"""

import base64
import binascii
import re
from functools import lru_cache
from typing import Final, NamedTuple, NewType

NodeId = NewType("NodeId", int)

UUID_BYTES: Final = 16
MAX_TOPIC_NAME_LENGTH: Final = 249
"""A folder is named `<topic>-<partition>`, and file systems end at 255."""

CONSUMER_OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC})
"""Topics that the broker itself writes; clients may read them."""

RESERVED_UUIDS: Final = frozenset({bytes(UUID_BYTES), bytes(UUID_BYTES - 1) + b"\x01"})
"""Kafka gives these a meaning (none at all, and the metadata topic), so no topic may have them."""

_LEGAL_TOPIC_NAME: Final = r"[a-zA-Z0-9._-]+"
_UUID_TEXT_LENGTH: Final = 22
_INT32_MASK: Final = 0xFFFF_FFFF
_INT32_POSITIVE: Final = 0x7FFF_FFFF
_REMEMBERED_HASHES: Final = 4096
_REMEMBERED_LENGTH: Final = 256


class TopicPartition(NamedTuple):
    """One partition of a topic.  A tuple, because it is hashed in every request."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def topic_name_error(name: str) -> str | None:
    """Why `name` cannot be the name of a topic, or None if it can."""
    if not name:
        return "the empty string is not a topic name"
    if name in (".", ".."):
        return f"{name!r} is not a topic name"
    if len(name) > MAX_TOPIC_NAME_LENGTH:
        return f"{name!r} has {len(name)} characters, {MAX_TOPIC_NAME_LENGTH} are allowed"
    if re.fullmatch(_LEGAL_TOPIC_NAME, name) is None:
        return f"{name!r} has characters other than ASCII letters, digits, '.', '_' and '-'"
    return None


def collision_key(name: str) -> str:
    """Equal for topic names that differ only in '.' and '_'.

    Metrics cannot tell such names apart, so only one of them may exist.
    """
    return name.replace(".", "_")


def uuid_text(uuid: bytes) -> str:
    """An identifier as Kafka writes it, 22 characters."""
    assert len(uuid) == UUID_BYTES, len(uuid)
    return base64.urlsafe_b64encode(uuid).rstrip(b"=").decode("ascii")


def random_uuid_text(random: bytes) -> str:
    """A random UUID (RFC 9562, version 4) as everybody writes it, from 16 random bytes.

    As `uuid.UUID` does, whose import takes longer than that of all that decides about a group.
    """
    assert len(random) == UUID_BYTES, len(random)
    version = bytes([random[6] & 0x0F | 0x40, random[7], random[8] & 0x3F | 0x80])
    digits = (random[:6] + version + random[9:]).hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def uuid_from_text(text: str) -> bytes:
    """The 16 bytes that `text` stands for; `ValueError` if it stands for none."""
    if len(text) != _UUID_TEXT_LENGTH or not text.isascii():
        raise ValueError(f"{text!r} is not an identifier of {_UUID_TEXT_LENGTH} characters")
    try:
        uuid = base64.b64decode(f"{text}==", altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(f"{text!r} is not an identifier: {error}") from None
    if uuid_text(uuid) != text:
        raise ValueError(f"{text!r} is not an identifier: bits are set that belong to no byte")
    return uuid


def java_string_hash(text: str) -> int:
    """Java's `String.hashCode`, with its sign.

    Clients and brokers must agree on it: it decides which partition of an internal topic a group
    or transactional id belongs to.  Java counts UTF-16 code units, so "😀" counts as two.
    """
    units = text.encode("utf-16-be", "surrogatepass")
    total = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        total = (31 * total + (high << 8 | low)) & _INT32_MASK
    return total - (1 << 32) if total > _INT32_POSITIVE else total


def coordinator_partition(identifier: str, partition_count: int) -> int:
    """The partition of an internal topic that looks after a group or transactional id."""
    if len(identifier) > _REMEMBERED_LENGTH:
        return (java_string_hash(identifier) & _INT32_POSITIVE) % partition_count
    return (_remembered_hash(identifier) & _INT32_POSITIVE) % partition_count


# Every heartbeat and every commit asks.  A client may make up long names, so these are not kept.
_remembered_hash: Final = lru_cache(maxsize=_REMEMBERED_HASHES)(java_string_hash)
