"""InitProducerId (key 22): an identity for a producer, so that its repeats are recognized."""

from typing import Final

from ottla.broker.context import Context
from ottla.errors import ErrorCode, StorageError
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_FIRST_EPOCH: Final = 0


async def init_producer_id(
    request: InitProducerIdRequest, context: Context
) -> InitProducerIdResponse:
    """An idempotent producer gets a new id; a transactional one what belongs to its name."""
    if request.transactional_id == "":
        return _refused(ErrorCode.INVALID_REQUEST)
    producer_ids = context.node.producer_ids
    try:
        if request.transactional_id is None:
            producer_id = await producer_ids.next_id()
            return InitProducerIdResponse(producer_id=producer_id, producer_epoch=_FIRST_EPOCH)
        await producer_ids.prepare()
    except StorageError:
        return _refused(ErrorCode.KAFKA_STORAGE_ERROR)
    answer = await _ask(request.transactional_id, request, context)
    if answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
        # It has just aborted the transaction of its predecessor: wait for that, as a retry would.
        answer = await _ask(request.transactional_id, request, context)
    return answer


async def _ask(
    transactional_id: str, request: InitProducerIdRequest, context: Context
) -> InitProducerIdResponse:
    # Here, because most producers have no transactions, and no broker shall begin with them.
    from ottla.broker.transactions import ask
    from ottla.coordinator.txn.machine import TransactionCoordinator

    return await ask(
        context, transactional_id, TransactionCoordinator.init_producer_id, request, _refused
    )


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)
