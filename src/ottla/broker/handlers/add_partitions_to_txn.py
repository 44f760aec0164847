"""AddPartitionsToTxn (key 24): announce partitions to a transaction before writing to them.

Brokers send v4 and later to each other; on one node there is nobody who would.
"""

from collections.abc import Callable

from ottla.broker.context import Context
from ottla.broker.transactions import ask
from ottla.coordinator.txn.machine import TransactionCoordinator
from ottla.errors import ErrorCode
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)


async def add_partitions_to_txn(
    request: AddPartitionsToTxnRequest, context: Context
) -> AddPartitionsToTxnResponse:
    """All partitions are added or none: one that does not exist keeps the others out."""
    errors = {
        (topic.name, index): _error(topic.name, index, context)
        for topic in request.v3_and_below_topics
        for index in topic.partitions
    }
    if any(errors.values()):
        return _answered(
            request,
            lambda name, index: errors[name, index] or ErrorCode.OPERATION_NOT_ATTEMPTED,
        )
    return await ask(
        context,
        request.v3_and_below_transactional_id,
        TransactionCoordinator.add_partitions,
        request,
        lambda error: _answered(request, lambda name, index: error),
    )


def _error(name: str, index: int, context: Context) -> ErrorCode:
    partitions = context.node.partitions
    if partitions.is_reserved(name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED  # only the broker writes internal topics
    found = partitions.find(name, index)
    # One that is offline may be added: it gets its marker when it is back.
    is_missing = found is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_missing else ErrorCode.NONE


def _answered(
    request: AddPartitionsToTxnRequest, error_of: Callable[[str, int], ErrorCode]
) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=tuple(
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=tuple(
                    AddPartitionsToTxnPartitionResult(
                        partition_index=index, partition_error_code=error_of(topic.name, index)
                    )
                    for index in topic.partitions
                ),
            )
            for topic in request.v3_and_below_topics
        )
    )
