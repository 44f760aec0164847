"""DescribeTopicPartitions (key 75): topics and their partitions, page by page.

Topics come in the order of their names, and a page ends after so many partitions.  The cursor that
it ends with names the partition that the next page begins with.
"""

from collections.abc import Sequence
from typing import Final

from ottla.broker.context import Context
from ottla.cluster.image import ClusterImage, PartitionImage, TopicImage
from ottla.errors import ErrorCode
from ottla.model import topic_name_error
from ottla.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from ottla.wire.schema import NO_UUID

# Whoever can connect may do everything: read, write, create, delete, alter, describe, describe and
# alter settings.  The bits are the numbers of ACL operations.
_EVERYTHING: Final = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))

_START: Final = Cursor(topic_name="", partition_index=0)


def describe_topic_partitions(
    request: DescribeTopicPartitionsRequest, context: Context
) -> DescribeTopicPartitionsResponse:
    """Describe all topics, or those asked for, from the cursor on."""
    image = context.node.controller.image
    asked = {topic.name for topic in request.topics}
    cursor = request.cursor or _START
    is_asked = request.cursor is None or not asked or cursor.topic_name in asked
    if cursor.partition_index < 0 or not is_asked:
        return _refused(request)
    names = sorted(name for name in asked or image.topics if name >= cursor.topic_name)
    limit = min(context.node.config.max_request_partitions, request.response_partition_limit)
    return _page(names, cursor, max(limit, 1), image)


def _refused(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """The cursor leads nowhere.  There is no error for the whole request, so each topic has it."""
    return DescribeTopicPartitionsResponse(
        topics=tuple(_failed(topic.name, ErrorCode.INVALID_REQUEST) for topic in request.topics)
    )


def _page(
    names: Sequence[str], cursor: Cursor, limit: int, image: ClusterImage
) -> DescribeTopicPartitionsResponse:
    remaining = limit
    topics = []
    next_cursor: Cursor | None = None
    for name in names:
        if remaining == 0:
            next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = image.topics.get(name)
        if topic is None:
            is_legal = topic_name_error(name) is None
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            topics.append(_failed(name, unknown if is_legal else ErrorCode.INVALID_TOPIC_EXCEPTION))
            continue
        first_index = cursor.partition_index if name == cursor.topic_name else 0
        shown = topic.partitions[first_index : first_index + remaining]
        topics.append(_described(topic, shown))
        remaining -= len(shown)
        if first_index + len(shown) < len(topic.partitions):
            next_index = first_index + len(shown)
            next_cursor = Cursor(topic_name=name, partition_index=next_index)
            break
    return DescribeTopicPartitionsResponse(topics=tuple(topics), next_cursor=next_cursor)


def _failed(name: str, error: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=error, name=name, topic_id=NO_UUID, partitions=()
    )


def _described(
    topic: TopicImage, partitions: Sequence[PartitionImage]
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=tuple(
            DescribeTopicPartitionsResponsePartition(
                partition_index=partition.index,
                leader_id=partition.leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=partition.replicas,
                isr_nodes=partition.isr,
                eligible_leader_replicas=(),
                last_known_elr=(),
                offline_replicas=(),
            )
            for partition in partitions
        ),
        topic_authorized_operations=_EVERYTHING,
    )
