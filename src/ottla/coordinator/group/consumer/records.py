"""Consumer groups as records of `__consumer_offsets`, byte for byte as Kafka writes them.

A group is spread over several records, so that a heartbeat that changes one member writes that
member only.  The newest record of a key counts; a tombstone says that the member, the target, or
with the last of them the group is gone.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, Final

from ottla.coordinator.effects import StoredRecord
from ottla.coordinator.group.consumer.member import ConsumerMember
from ottla.coordinator.group.consumer.topics import Place
from ottla.values import dataclass
from ottla.wire.stored.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
    TopicPartitions,
)
from ottla.wire.stored.versioned import (
    decode_key,
    decode_versioned,
    encode_key,
    encode_versioned,
    record_type_of,
)

_VERSION: Final = 0


class Kind(IntEnum):
    """What a record is about; the values are the types of its key."""

    EPOCH = 3
    OLD_TOPICS = 4
    MEMBER = 5
    TARGET_EPOCH = 6
    TARGET = 7
    CURRENT = 8
    PATTERN = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """The topics that an expression matched, and when it was asked."""

    topics: frozenset[str]
    version: int = 0
    resolved_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerChange:
    """Something about a consumer group has changed; without a value it is gone."""

    kind: Kind
    group_id: str
    subject: str = ""  # the member, or the expression
    value: Any | None


_KEYS: Final[Mapping[Kind, tuple[type[Any], type[Any], str | None]]] = {
    Kind.EPOCH: (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue, None),
    Kind.OLD_TOPICS: (
        ConsumerGroupPartitionMetadataKey,
        ConsumerGroupPartitionMetadataValue,
        None,
    ),
    Kind.MEMBER: (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue, "member_id"),
    Kind.TARGET_EPOCH: (
        ConsumerGroupTargetAssignmentMetadataKey,
        ConsumerGroupTargetAssignmentMetadataValue,
        None,
    ),
    Kind.TARGET: (
        ConsumerGroupTargetAssignmentMemberKey,
        ConsumerGroupTargetAssignmentMemberValue,
        "member_id",
    ),
    Kind.CURRENT: (
        ConsumerGroupCurrentMemberAssignmentKey,
        ConsumerGroupCurrentMemberAssignmentValue,
        "member_id",
    ),
    Kind.PATTERN: (
        ConsumerGroupRegularExpressionKey,
        ConsumerGroupRegularExpressionValue,
        "regular_expression",
    ),
}


def decode_change(record: StoredRecord) -> ConsumerChange | None:
    """What the record says; None if it is not about consumer groups, `WireError` for damage."""
    try:
        kind = Kind(record_type_of(record.key))
    except ValueError:
        return None
    key_class, value_class, subject = _KEYS[kind]
    key = decode_key(key_class, record.key)
    return ConsumerChange(
        kind=kind,
        group_id=key.group_id,
        subject="" if subject is None else getattr(key, subject),
        value=None if record.value is None else decode_versioned(value_class, record.value),
    )


def epoch_record(group_id: str, epoch: int, topics_hash: int) -> StoredRecord:
    """A new epoch of the group: its members, or what they read, have changed."""
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=topics_hash)
    return _record(Kind.EPOCH, group_id, value)


def member_record(group_id: str, member: ConsumerMember) -> StoredRecord:
    """Who a member is, and what it subscribes to."""
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(member.names)),
        subscribed_topic_regex=member.pattern,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=member.classic,
    )
    return _record(Kind.MEMBER, group_id, value, member.member_id)


def target_epoch_record(group_id: str, epoch: int, assigned_ms: int) -> StoredRecord:
    """There is a target for this epoch; 0 says that the next one need not wait."""
    value = ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=assigned_ms
    )
    return _record(Kind.TARGET_EPOCH, group_id, value)


def target_record(group_id: str, member_id: str, places: Iterable[Place]) -> StoredRecord:
    """What a member shall own."""
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=tuple(
            TopicPartition(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in by_topic(places).items()
        )
    )
    return _record(Kind.TARGET, group_id, value, member_id)


def current_record(group_id: str, member: ConsumerMember) -> StoredRecord:
    """What a member owns, and has yet to give up."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=int(member.state),
        assigned_partitions=_with_epochs(member.assigned),
        partitions_pending_revocation=_with_epochs(member.revoking),
    )
    return _record(Kind.CURRENT, group_id, value, member.member_id)


def pattern_record(group_id: str, pattern: str, resolved: Resolved) -> StoredRecord:
    """What an expression matches."""
    value = ConsumerGroupRegularExpressionValue(
        topics=tuple(sorted(resolved.topics)),
        version=resolved.version,
        timestamp=resolved.resolved_ms,
    )
    return _record(Kind.PATTERN, group_id, value, pattern)


def tombstone(kind: Kind, group_id: str, subject: str = "") -> StoredRecord:
    """Says that something is gone."""
    return StoredRecord(_key(kind, group_id, subject), None)


def member_tombstones(group_id: str, member_id: str) -> list[StoredRecord]:
    """Says that a member is gone, in the order in which Kafka wants to hear it."""
    kinds = (Kind.CURRENT, Kind.TARGET, Kind.MEMBER)
    return [tombstone(kind, group_id, member_id) for kind in kinds]


def group_tombstones(
    group_id: str, member_ids: Iterable[str], patterns: Iterable[str]
) -> list[StoredRecord]:
    """Says that a group is gone, and all that it was made of."""
    members = list(member_ids)
    return [
        *(tombstone(Kind.CURRENT, group_id, member_id) for member_id in members),
        *(tombstone(Kind.TARGET, group_id, member_id) for member_id in members),
        tombstone(Kind.TARGET_EPOCH, group_id),
        *(tombstone(Kind.MEMBER, group_id, member_id) for member_id in members),
        *(tombstone(Kind.PATTERN, group_id, pattern) for pattern in patterns),
        tombstone(Kind.OLD_TOPICS, group_id),
        tombstone(Kind.EPOCH, group_id),
    ]


def by_topic(places: Iterable[Place]) -> dict[bytes, tuple[int, ...]]:
    """Partitions by topic, both in order."""
    found: dict[bytes, list[int]] = {}
    for topic_id, partition in sorted(places):
        found.setdefault(topic_id, []).append(partition)
    return {topic_id: tuple(partitions) for topic_id, partitions in found.items()}


def places_of(topics: Iterable[Any]) -> frozenset[Place]:
    """The partitions of any list of structs with `topic_id` and `partitions`."""
    return frozenset((topic.topic_id, p) for topic in topics for p in topic.partitions)


def places_with_epochs(topics: Iterable[TopicPartitions], default: int) -> dict[Place, int]:
    """Since when each partition is assigned; older logs do not say, and mean the member's epoch."""
    found: dict[Place, int] = {}
    for topic in topics:
        epochs = topic.assignment_epochs or ()
        if len(epochs) != len(topic.partitions):
            epochs = (max(default, 0),) * len(topic.partitions)
        for partition, epoch in zip(topic.partitions, epochs, strict=True):
            found[topic.topic_id, partition] = epoch
    return found


def _with_epochs(places: Mapping[Place, int]) -> tuple[TopicPartitions, ...]:
    return tuple(
        TopicPartitions(
            topic_id=topic_id,
            partitions=partitions,
            assignment_epochs=tuple(places[topic_id, partition] for partition in partitions),
        )
        for topic_id, partitions in by_topic(places).items()
    )


def _record(kind: Kind, group_id: str, value: Any, subject: str = "") -> StoredRecord:
    return StoredRecord(_key(kind, group_id, subject), encode_versioned(value, _VERSION))


def _key(kind: Kind, group_id: str, subject: str) -> bytes:
    key_class, _, name = _KEYS[kind]
    given = {} if name is None else {name: subject}
    return encode_key(key_class(group_id=group_id, **given))
