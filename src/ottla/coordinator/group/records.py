"""Groups and offsets as records of `__consumer_offsets`, byte for byte as Kafka writes them.

The newest record of a key counts, and a tombstone says that the group or the offset is gone.
Versions are those that Kafka 4 writes; older ones are read.  Records of other kinds (those of
KIP-848 are in `consumer.records`; share groups) are decoded to `None`.
"""

from typing import Final, TypeAlias

from ottla.coordinator.effects import StoredRecord
from ottla.values import NamedTuple, dataclass
from ottla.wire.schema import NO_UUID
from ottla.wire.stored.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ottla.wire.stored.versioned import (
    decode_key,
    decode_versioned,
    encode_key,
    encode_versioned,
    record_type_of,
)

NO_LEADER_EPOCH: Final = -1
NO_EXPIRY: Final = -1


_GROUP_VERSION: Final = 4
_OFFSET_VERSION: Final = 4
_OFFSET_VERSION_WITH_EXPIRY: Final = 1


class OffsetKey(NamedTuple):
    """What an offset is committed for."""

    group_id: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """How far a group has read a partition, and what it noted with it."""

    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    committed_ms: int
    expires_ms: int = NO_EXPIRY  # set by the commit itself; otherwise the retention decides
    topic_id: bytes = NO_UUID


@dataclass(frozen=True, slots=True)
class GroupChange:
    """A group has agreed on a generation, or is gone."""

    group_id: str
    value: GroupMetadataValue | None


@dataclass(frozen=True, slots=True)
class OffsetChange:
    """An offset was committed, or is gone."""

    key: OffsetKey
    offset: CommittedOffset | None


Change: TypeAlias = GroupChange | OffsetChange


def group_record(group_id: str, value: GroupMetadataValue) -> StoredRecord:
    """Says what a group has agreed on."""
    return StoredRecord(
        encode_key(GroupMetadataKey(group=group_id)), encode_versioned(value, _GROUP_VERSION)
    )


def group_tombstone(group_id: str) -> StoredRecord:
    """Says that a group is gone."""
    return StoredRecord(encode_key(GroupMetadataKey(group=group_id)), None)


def offset_record(key: OffsetKey, committed: CommittedOffset) -> StoredRecord:
    """Says how far a group has read a partition."""
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.committed_ms,
        expire_timestamp=committed.expires_ms,
        topic_id=committed.topic_id,
    )
    # Only version 1 has an expiry of its own; it costs the leader epoch, as it does in Kafka.
    if committed.expires_ms != NO_EXPIRY:
        return StoredRecord(_offset_key(key), encode_versioned(value, _OFFSET_VERSION_WITH_EXPIRY))
    encoded = encode_versioned(value, _OFFSET_VERSION)
    return StoredRecord(_offset_key(key), encoded, OffsetChange(key, committed))


def offset_tombstone(key: OffsetKey) -> StoredRecord:
    """Says that an offset is gone."""
    return StoredRecord(_offset_key(key), None)


def decode_record(record: StoredRecord) -> Change | None:
    """What the record says; `None` for a kind that is not ours, `WireError` for damage."""
    if isinstance(record.meaning, OffsetChange):
        return record.meaning
    match record_type_of(record.key):
        case 0:
            return _legacy_offset_change(record)
        case 1:
            return _offset_change(record)
        case 2:
            group_id = decode_key(GroupMetadataKey, record.key).group
            if record.value is None:
                return GroupChange(group_id, None)
            return GroupChange(group_id, decode_versioned(GroupMetadataValue, record.value))
        case _:
            return None


def _offset_key(key: OffsetKey) -> bytes:
    return encode_key(OffsetCommitKey(group=key.group_id, topic=key.topic, partition=key.partition))


def _offset_change(record: StoredRecord) -> OffsetChange:
    decoded = decode_key(OffsetCommitKey, record.key)
    key = OffsetKey(decoded.group, decoded.topic, decoded.partition)
    if record.value is None:
        return OffsetChange(key, None)
    value = decode_versioned(OffsetCommitValue, record.value)
    return OffsetChange(
        key,
        CommittedOffset(
            offset=value.offset,
            leader_epoch=value.leader_epoch,
            metadata=value.metadata,
            committed_ms=value.commit_timestamp,
            expires_ms=value.expire_timestamp,
            topic_id=value.topic_id,
        ),
    )


def _legacy_offset_change(record: StoredRecord) -> OffsetChange:
    decoded = decode_key(LegacyOffsetCommitKey, record.key)
    key = OffsetKey(decoded.group, decoded.topic, decoded.partition)
    if record.value is None:
        return OffsetChange(key, None)
    value = decode_versioned(LegacyOffsetCommitValue, record.value)
    committed = CommittedOffset(
        offset=value.offset, metadata=value.metadata, committed_ms=value.commit_timestamp
    )
    return OffsetChange(key, committed)
