"""OffsetForLeaderEpoch (key 23): where an epoch ended, so that a client can see a truncation."""

from ottla.broker.context import Context
from ottla.errors import ErrorCode
from ottla.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def offset_for_leader_epoch(
    request: OffsetForLeaderEpochRequest, context: Context
) -> OffsetForLeaderEpochResponse:
    """Look up the end of each epoch."""
    return OffsetForLeaderEpochResponse(
        topics=tuple(
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=tuple(
                    _end_of(topic.topic, asked, context) for asked in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def _end_of(topic: str, asked: OffsetForLeaderPartition, context: Context) -> EpochEndOffset:
    found = context.node.partitions.find(topic, asked.partition)
    if isinstance(found, ErrorCode):
        return EpochEndOffset(error_code=found, partition=asked.partition)
    if error := found.epoch_error(asked.current_leader_epoch):
        return EpochEndOffset(error_code=error, partition=asked.partition)
    epoch, end_offset = found.log.end_offset_for_epoch(asked.leader_epoch)
    return EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end_offset)
