"""Committing, fetching and deleting offsets: what is allowed, and the answers in all versions.

A member commits in its own generation, so that one who was left behind cannot move the group back.
Generation -1 without a member id is a commit from outside (a tool, or a consumer that assigns its
partitions itself); it is allowed while the group has no members.
"""

from collections.abc import Callable
from typing import Final

from ottla.coordinator.config import GroupConfig
from ottla.coordinator.effects import StoredRecord
from ottla.coordinator.group.classic import CONSUMER, ClassicGroup, State
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.offsets import Offsets
from ottla.coordinator.group.records import (
    NO_EXPIRY,
    CommittedOffset,
    OffsetKey,
    offset_record,
    offset_tombstone,
)
from ottla.errors import ErrorCode
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.wire.schema import NO_UUID

NO_OFFSET: Final = -1
GROUP_ID_NOT_FOUND_SINCE: Final = 9
TXN_GROUP_ID_NOT_FOUND_SINCE: Final = 6
BATCHED_FETCH_SINCE: Final = 8

_DEFAULT_RETENTION: Final = -1


def commit_refusal(
    group: ClassicGroup | None, request: OffsetCommitRequest | TxnOffsetCommitRequest, version: int
) -> ErrorCode:
    """Whether the sender may commit for the group now; every partition is answered with it.

    In a transaction, who names no member is let in whatever the state of the group, because the
    versions before 3 had no place for it; nor does a rebalance keep anybody out.
    """
    is_transactional = isinstance(request, TxnOffsetCommitRequest)
    generation = request.generation_id_or_member_epoch
    if group is None:
        # A group that nobody has joined comes into being with its first offset.
        if generation < 0:
            return ErrorCode.NONE
        since = TXN_GROUP_ID_NOT_FOUND_SINCE if is_transactional else GROUP_ID_NOT_FOUND_SINCE
        return ErrorCode.GROUP_ID_NOT_FOUND if version >= since else ErrorCode.ILLEGAL_GENERATION
    if generation < 0 and group.state is State.EMPTY:
        return ErrorCode.NONE
    if generation < 0 and not request.member_id and request.group_instance_id is None:
        return ErrorCode.NONE if is_transactional else ErrorCode.UNKNOWN_MEMBER_ID
    if error := group.member_error(request.member_id, request.group_instance_id):
        return error
    if generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    # It was told of this generation and has no assignment in it yet: it cannot have read anything.
    if group.state is State.COMPLETING and not is_transactional:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def refused_commit(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    """The same error for every partition: the response has no place for one of the group."""
    return OffsetCommitResponse(
        topics=tuple(
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=error
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def commit(
    request: OffsetCommitRequest, config: GroupConfig, now_ms: int
) -> tuple[tuple[StoredRecord, ...], OffsetCommitResponse]:
    """The records of an allowed commit, and its answer: a partition may still be refused."""
    expires_ms = NO_EXPIRY
    if request.retention_time_ms != _DEFAULT_RETENTION:
        expires_ms = now_ms + request.retention_time_ms
    records = []
    topics = []
    none = ErrorCode.NONE
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            record = committed_record(
                request.group_id, topic, partition, config, now_ms, expires_ms
            )
            error = none
            if record is None:
                error = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                records.append(record)
            partitions.append(
                OffsetCommitResponsePartition(
                    partition_index=partition.partition_index, error_code=error
                )
            )
        topics.append(
            OffsetCommitResponseTopic(
                name=topic.name, topic_id=topic.topic_id, partitions=tuple(partitions)
            )
        )
    return tuple(records), OffsetCommitResponse(topics=tuple(topics))


def committed_record(
    group_id: str,
    topic: OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic,
    partition: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition,
    config: GroupConfig,
    now_ms: int,
    expires_ms: int = NO_EXPIRY,
) -> StoredRecord | None:
    """The record of one committed offset; None if its note is longer than allowed."""
    note = partition.committed_metadata or ""
    if len(note) > config.offset_metadata_max_bytes // 2 and _is_too_long(note, config):
        return None
    offset = CommittedOffset(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=note,
        committed_ms=now_ms,
        expires_ms=expires_ms,
        topic_id=topic.topic_id,
    )
    return offset_record(OffsetKey(group_id, topic.name, partition.partition_index), offset)


def _is_too_long(note: str, config: GroupConfig) -> bool:
    """Kafka counts what Java counts: UTF-16 code units, at most two for each character."""
    units = len(note.encode("utf-16-le", "surrogatepass")) // 2
    return units > config.offset_metadata_max_bytes


def fetch(
    offsets: Offsets,
    request: OffsetFetchRequest,
    version: int,
    refuse: Callable[[OffsetFetchRequestGroup], ErrorCode],
) -> OffsetFetchResponse:
    """Offsets in the shape of the version: one group before v8, several since.

    `refuse` says whether the sender may ask about a group.
    """
    if version >= BATCHED_FETCH_SINCE:
        found = []
        for group in request.groups:
            if error := refuse(group):
                found.append(_refused_fetch(group, error))
            else:
                found.append(_fetch_group(offsets, group, require_stable=request.require_stable))
        return OffsetFetchResponse(groups=tuple(found))
    topics = None
    if request.topics is not None:
        topics = tuple(
            OffsetFetchRequestTopics(name=t.name, partition_indexes=t.partition_indexes)
            for t in request.topics
        )
    asked = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
    answer = _fetch_group(offsets, asked, require_stable=request.require_stable)
    return OffsetFetchResponse(
        topics=tuple(
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in answer.topics
        )
    )


def delete(
    group: ClassicGroup | ConsumerGroup | None, offsets: Offsets, request: OffsetDeleteRequest
) -> tuple[tuple[StoredRecord, ...], OffsetDeleteResponse]:
    """The tombstones of offsets that nobody needs, and the answer."""
    if error := _delete_error(group, request.group_id):
        return (), OffsetDeleteResponse(error_code=error, topics=())
    assert group is not None, "an unknown group was refused"
    records: list[StoredRecord] = []
    topics = []
    for topic in request.topics:
        is_read = group.is_subscribed_to(topic.name)
        error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_read else ErrorCode.NONE
        if not is_read:
            records += _tombstones(offsets, request.group_id, topic)
        partitions = tuple(
            OffsetDeleteResponsePartition(partition_index=p.partition_index, error_code=error)
            for p in topic.partitions
        )
        topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=partitions))
    return tuple(records), OffsetDeleteResponse(topics=tuple(topics))


def _delete_error(group: ClassicGroup | ConsumerGroup | None, group_id: str) -> ErrorCode:
    if not group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if isinstance(group, ConsumerGroup):
        return ErrorCode.NONE
    # We can see what consumers read, and nobody else.
    if group.state is not State.EMPTY and group.protocol_type != CONSUMER:
        return ErrorCode.NON_EMPTY_GROUP
    return ErrorCode.NONE


def _tombstones(
    offsets: Offsets, group_id: str, topic: OffsetDeleteRequestTopic
) -> list[StoredRecord]:
    keys = [OffsetKey(group_id, topic.name, p.partition_index) for p in topic.partitions]
    return [
        offset_tombstone(key)
        for key in dict.fromkeys(keys)
        if offsets.of(key) is not None or offsets.is_held(key)
    ]


def _refused_fetch(group: OffsetFetchRequestGroup, error: ErrorCode) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=(), error_code=error)


def _fetch_group(
    offsets: Offsets, asked: OffsetFetchRequestGroup, *, require_stable: bool
) -> OffsetFetchResponseGroup:
    topics = asked.topics
    if topics is None:
        topics = _all_topics(offsets, asked.group_id)
    return OffsetFetchResponseGroup(
        group_id=asked.group_id,
        topics=tuple(
            OffsetFetchResponseTopics(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    _fetch_partition(
                        offsets,
                        OffsetKey(asked.group_id, topic.name, index),
                        topic.topic_id,
                        require_stable=require_stable,
                    )
                    for index in topic.partition_indexes
                ),
            )
            for topic in topics
        ),
    )


def _all_topics(offsets: Offsets, group_id: str) -> tuple[OffsetFetchRequestTopics, ...]:
    indexes: dict[str, list[int]] = {}
    for key, _ in offsets.of_group(group_id):
        indexes.setdefault(key.topic, []).append(key.partition)
    return tuple(
        OffsetFetchRequestTopics(name=topic, partition_indexes=tuple(partitions))
        for topic, partitions in indexes.items()
    )


def _fetch_partition(
    offsets: Offsets, key: OffsetKey, topic_id: bytes, *, require_stable: bool
) -> OffsetFetchResponsePartitions:
    error = ErrorCode.NONE
    found = offsets.of(key)
    if require_stable and offsets.is_held(key):
        error, found = ErrorCode.UNSTABLE_OFFSET_COMMIT, None
    if found is None or _is_of_another_topic(found, topic_id):
        return OffsetFetchResponsePartitions(
            partition_index=key.partition, committed_offset=NO_OFFSET, metadata="", error_code=error
        )
    return OffsetFetchResponsePartitions(
        partition_index=key.partition,
        committed_offset=found.offset,
        committed_leader_epoch=found.leader_epoch,
        metadata=found.metadata,
    )


def _is_of_another_topic(found: CommittedOffset, topic_id: bytes) -> bool:
    """The offset was committed for an earlier topic of the same name."""
    return NO_UUID not in (found.topic_id, topic_id) and found.topic_id != topic_id
