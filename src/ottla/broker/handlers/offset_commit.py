"""OffsetCommit (key 8): write down how far a group has come."""

from typing import Final

from ottla.broker.context import Context
from ottla.broker.groups import ask, ask_at_once
from ottla.broker.shard import Reply
from ottla.cluster.image import ClusterImage
from ottla.coordinator.group.committing import refused_commit
from ottla.coordinator.group.machine import GroupCoordinator
from ottla.errors import ErrorCode
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.schema import replace

_FIRST_VERSION_WITH_IDS: Final = 10


def offset_commit(request: OffsetCommitRequest, context: Context) -> Reply[OffsetCommitResponse]:
    """Put it to the group's coordinator; answered once it is durable.

    Partitions that do not exist are refused here, as in Kafka: no end of a topic would ever take
    their offsets along.
    """
    image = context.node.controller.image
    if context.version >= _FIRST_VERSION_WITH_IDS:
        named = (replace(t, name=image.topic_name(t.topic_id) or "") for t in request.topics)
        request = replace(request, topics=tuple(named))
    topics = [_existing(topic, image) for topic in request.topics]
    known = replace(request, topics=tuple([topic for topic in topics if topic.partitions]))
    if not known.topics:
        return _unknown(request)
    for asked, topic in zip(request.topics, topics, strict=True):
        if topic.partitions is not asked.partitions:
            return _commit_known(request, known, context)
    return ask_at_once(
        context,
        request.group_id,
        GroupCoordinator.commit,
        known,
        lambda error: refused_commit(known, error),
    )


async def _commit_known(
    request: OffsetCommitRequest, known: OffsetCommitRequest, context: Context
) -> OffsetCommitResponse:
    answered = await ask(
        context,
        request.group_id,
        GroupCoordinator.commit,
        known,
        lambda error: refused_commit(known, error),
    )
    return _joined(_unknown(request), answered)


def _unknown(request: OffsetCommitRequest) -> OffsetCommitResponse:
    """The answer if nothing of it exists; a topic that has no name is known by a wrong id."""
    nameless = refused_commit(request, ErrorCode.UNKNOWN_TOPIC_ID)
    named = refused_commit(request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    topics = (
        right if right.name else wrong
        for right, wrong in zip(named.topics, nameless.topics, strict=True)
    )
    return replace(named, topics=tuple(topics))


def _existing(topic: OffsetCommitRequestTopic, image: ClusterImage) -> OffsetCommitRequestTopic:
    """The partitions that exist, with the id of their topic, which may be another one tomorrow.

    Where all of them exist, it is the very tuple that was asked for.
    """
    found = image.topics.get(topic.name)
    if found is None:
        return replace(topic, partitions=())
    count = len(found.partitions)
    partitions = topic.partitions
    for asked in partitions:
        if not 0 <= asked.partition_index < count:
            partitions = tuple([p for p in partitions if 0 <= p.partition_index < count])
            break
    return OffsetCommitRequestTopic(name=topic.name, topic_id=found.topic_id, partitions=partitions)


def _joined(unknown: OffsetCommitResponse, answered: OffsetCommitResponse) -> OffsetCommitResponse:
    """`unknown`, in the order of the request, but for the partitions that were answered."""
    codes = {
        (topic.name, partition.partition_index): partition.error_code
        for topic in answered.topics
        for partition in topic.partitions
    }
    return replace(
        unknown,
        topics=tuple(
            replace(
                topic,
                partitions=tuple(
                    replace(p, error_code=codes.get((topic.name, p.partition_index), p.error_code))
                    for p in topic.partitions
                ),
            )
            for topic in unknown.topics
        ),
    )
