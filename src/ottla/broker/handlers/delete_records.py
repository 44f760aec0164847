"""DeleteRecords (key 21): move the start of partitions forward; what lies before it is gone.

As in Kafka the new start is written down with the next checkpoint of start offsets, and segments
are removed after that: until then a crash can bring the records back.
"""

from typing import Final

from ottla.broker.context import Context
from ottla.broker.partition import Partition
from ottla.errors import ErrorCode
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

UP_TO_HIGH_WATERMARK: Final = -1
_NO_OFFSET: Final = -1


def delete_records(request: DeleteRecordsRequest, context: Context) -> DeleteRecordsResponse:
    """Answer with the first offset that is left of each partition."""
    return DeleteRecordsResponse(
        topics=tuple(
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=tuple(_result(topic.name, asked, context) for asked in topic.partitions),
            )
            for topic in request.topics
        )
    )


def _result(
    topic: str, asked: DeleteRecordsPartition, context: Context
) -> DeleteRecordsPartitionResult:
    found = context.node.partitions.find(topic, asked.partition_index)
    if isinstance(found, ErrorCode):
        return _failed(asked, found)
    if context.node.partitions.is_reserved(topic):
        return _failed(asked, ErrorCode.INVALID_TOPIC_EXCEPTION)
    if error := _delete(found, asked.offset):
        return _failed(asked, error)
    return DeleteRecordsPartitionResult(
        partition_index=asked.partition_index, low_watermark=found.log.start_offset
    )


def _delete(partition: Partition, offset: int) -> ErrorCode:
    """Hide the records below `offset`; offsets that are gone already are no error."""
    if partition.config.is_compacted and not partition.config.is_deleted:
        return ErrorCode.POLICY_VIOLATION
    if offset == UP_TO_HIGH_WATERMARK:
        offset = partition.high_watermark
    if not 0 <= offset <= partition.high_watermark:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    partition.log.advance_start(offset)
    return ErrorCode.NONE


def _failed(asked: DeleteRecordsPartition, error: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=asked.partition_index, low_watermark=_NO_OFFSET, error_code=error
    )
