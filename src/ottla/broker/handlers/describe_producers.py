"""DescribeProducers (key 61): the producers that a partition remembers, and their transactions."""

from typing import Final

from ottla.broker.context import Context
from ottla.errors import ErrorCode
from ottla.log.producer_state import ProducerState as KnownProducer
from ottla.model import topic_name_error
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

_NO_TRANSACTION: Final = -1


def describe_producers(
    request: DescribeProducersRequest, context: Context
) -> DescribeProducersResponse:
    """Describe each partition's producers."""
    return DescribeProducersResponse(
        topics=tuple(
            TopicResponse(
                name=topic.name,
                partitions=tuple(
                    _partition(topic.name, index, context) for index in topic.partition_indexes
                ),
            )
            for topic in request.topics
        )
    )


def _partition(topic: str, index: int, context: Context) -> PartitionResponse:
    if (reason := topic_name_error(topic)) is not None:
        return PartitionResponse(
            partition_index=index,
            error_code=ErrorCode.INVALID_TOPIC_EXCEPTION,
            error_message=reason,
            active_producers=(),
        )
    found = context.node.partitions.find(topic, index)
    if isinstance(found, ErrorCode):
        return PartitionResponse(partition_index=index, error_code=found, active_producers=())
    return PartitionResponse(
        partition_index=index, active_producers=tuple(map(_described, found.producers))
    )


def _described(known: KnownProducer) -> ProducerState:
    start_offset = known.open_since_offset
    return ProducerState(
        producer_id=known.producer_id,
        producer_epoch=known.epoch,
        last_sequence=known.last_sequence,
        last_timestamp=known.last_timestamp_ms,
        coordinator_epoch=known.coordinator_epoch,
        current_txn_start_offset=_NO_TRANSACTION if start_offset is None else start_offset,
    )
