"""TxnOffsetCommit (key 28): commit a group's offsets as part of a transaction."""

from typing import Final

from ottla.broker.context import Context
from ottla.broker.groups import GroupShard, put
from ottla.broker.shard import UnansweredError
from ottla.broker.transactional import TransactionalWrite, refusals
from ottla.coordinator.group.machine import GroupCoordinator
from ottla.coordinator.group.txn_committing import refused
from ottla.coordinator.txn.transaction import Producer
from ottla.errors import ErrorCode
from ottla.model import CONSUMER_OFFSETS_TOPIC, TopicPartition
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponseTopic,
)
from ottla.wire.schema import replace

_FIRST_VERSION_WITH_LOADING: Final = 2
_FIRST_ABORTABLE_VERSION: Final = 4
_FIRST_ADDING_VERSION: Final = 5
_FIRST_VERSION_WITH_TOPIC_IDS: Final = 6


async def txn_offset_commit(
    request: TxnOffsetCommitRequest, context: Context
) -> TxnOffsetCommitResponse:
    """Refuse what does not exist; commit the rest if producer and member are who they say."""
    known: list[TxnOffsetCommitRequestTopic] = []
    answered: list[TxnOffsetCommitResponseTopic] = []
    for topic in request.topics:
        exists, missing = _split(topic, context)
        known += [exists] if exists.partitions else []
        answered += missing
    if known:
        response = await _commit(replace(request, topics=tuple(known)), context)
        answered += response.topics
    return TxnOffsetCommitResponse(topics=_merged(answered))


async def _commit(request: TxnOffsetCommitRequest, context: Context) -> TxnOffsetCommitResponse:
    node = context.node
    if not request.group_id:
        return refused(request, ErrorCode.INVALID_GROUP_ID)
    shard = await node.groups.find(request.group_id)
    if isinstance(shard, GroupShard):
        error = await _refusal(request, shard, context)
        # While we waited the shard may have been given up; looking again does not wait.
        shard = error or await node.groups.find(request.group_id)
    if isinstance(shard, ErrorCode):
        return refused(request, _told(shard, context.version))
    try:
        response: TxnOffsetCommitResponse = await put(
            shard, context, GroupCoordinator.txn_commit, request
        )
    except UnansweredError as error:
        return refused(request, error.code)
    return response


async def _refusal(
    request: TxnOffsetCommitRequest, shard: GroupShard, context: Context
) -> ErrorCode:
    """Why the group's offsets cannot be part of the producer's transaction."""
    version = context.version
    write = TransactionalWrite(
        transactional_id=request.transactional_id,
        producer=Producer(request.producer_id, request.producer_epoch),
        adds=version >= _FIRST_ADDING_VERSION,
        knows_abortable=version >= _FIRST_ABORTABLE_VERSION,
    )
    place = TopicPartition(CONSUMER_OFFSETS_TOPIC, shard.partition.index)
    found = await refusals(context.node, write, {place: shard.partition})
    return found.get(place, ErrorCode.NONE)


def _told(error: ErrorCode, version: int) -> ErrorCode:
    is_concurrent = error is ErrorCode.CONCURRENT_TRANSACTIONS and version < _FIRST_ADDING_VERSION
    if is_concurrent:  # which these clients do not expect here; this one they ask again after
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    is_loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if is_loading and version < _FIRST_VERSION_WITH_LOADING:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE  # old clients crash on the other one
    return error


def _split(
    topic: TxnOffsetCommitRequestTopic, context: Context
) -> tuple[TxnOffsetCommitRequestTopic, tuple[TxnOffsetCommitResponseTopic, ...]]:
    """The partitions that exist, and the answer for those that do not."""
    image = context.node.controller.image
    name, error = topic.name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if context.version >= _FIRST_VERSION_WITH_TOPIC_IDS:
        name = image.topic_name(topic.topic_id) or ""
        error = error if name else ErrorCode.UNKNOWN_TOPIC_ID
    found = image.topics.get(name)
    count = 0 if found is None else len(found.partitions)
    existing = tuple(p for p in topic.partitions if 0 <= p.partition_index < count)
    absent = tuple(p for p in topic.partitions if not 0 <= p.partition_index < count)
    topic_id = topic.topic_id if found is None else found.topic_id
    exists = replace(topic, name=name, topic_id=topic_id, partitions=existing)
    missing = refused(
        TxnOffsetCommitRequest(
            transactional_id="",
            group_id="",
            producer_id=-1,
            producer_epoch=-1,
            topics=(replace(topic, partitions=absent),) if absent else (),
        ),
        error,
    )
    return exists, missing.topics


def _merged(
    topics: list[TxnOffsetCommitResponseTopic],
) -> tuple[TxnOffsetCommitResponseTopic, ...]:
    """Each topic once, though some of its partitions may be missing."""
    merged: dict[tuple[str, bytes], TxnOffsetCommitResponseTopic] = {}
    for topic in topics:
        key = (topic.name, topic.topic_id)
        seen = merged.get(key)
        partitions = (*seen.partitions, *topic.partitions) if seen else topic.partitions
        merged[key] = replace(topic, partitions=partitions)
    return tuple(merged.values())
