"""WriteTxnMarkers (key 27): end a transaction in some partitions.

On one node coordinators write their markers themselves.  What remains is the administrator who ends
a transaction that no coordinator knows of (KIP-664).
"""

from ottla.broker.context import Context
from ottla.broker.markers import write_marker
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.records.control import Marker
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.wire.schema import replace


async def write_txn_markers(
    request: WriteTxnMarkersRequest, context: Context
) -> WriteTxnMarkersResponse:
    """Write all markers, then wait once until they are durable."""
    results = tuple(_write(marker, context) for marker in request.markers)
    if context.node.flusher is not None:
        try:
            await context.node.flusher.flush()
        except OSError:  # which the flusher has told of
            results = tuple(_lost(result) for result in results)
    return WriteTxnMarkersResponse(markers=results)


def _lost(written: WritableTxnMarkerResult) -> WritableTxnMarkerResult:
    """The answer if the sync fails: nobody knows which markers are on disk, so none of them is."""
    return replace(
        written,
        topics=tuple(
            replace(
                topic,
                partitions=tuple(
                    replace(p, error_code=p.error_code or ErrorCode.KAFKA_STORAGE_ERROR)
                    for p in topic.partitions
                ),
            )
            for topic in written.topics
        ),
    )


def _write(writable: WritableTxnMarker, context: Context) -> WritableTxnMarkerResult:
    node = context.node
    marker = Marker(
        is_commit=writable.transaction_result,
        producer_id=writable.producer_id,
        producer_epoch=writable.producer_epoch,
        coordinator_epoch=writable.coordinator_epoch,
        timestamp_ms=node.ports.clock.now_ms(),
    )

    has_producer = marker.producer_id >= 0 and marker.producer_epoch >= 0

    def result(name: str, index: int) -> WritableTxnMarkerPartitionResult:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
        if has_producer:
            error = write_marker(
                node,
                marker,
                TopicPartition(name, index),
                transaction_version=writable.transaction_version,
            )
        return WritableTxnMarkerPartitionResult(partition_index=index, error_code=error)

    return WritableTxnMarkerResult(
        producer_id=writable.producer_id,
        topics=tuple(
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=tuple(result(topic.name, index) for index in topic.partition_indexes),
            )
            for topic in writable.topics
        ),
    )
