"""InitProducerId (key 22): an identity for a producer, so that its repeats are recognized."""

from typing import Final

from ottla.broker.context import Context
from ottla.broker.dispatch import handles
from ottla.errors import ErrorCode, StorageError
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_FIRST_EPOCH: Final = 0


@handles(InitProducerIdRequest, versions="0-5")
async def init_producer_id(
    request: InitProducerIdRequest, context: Context
) -> InitProducerIdResponse:
    """Give an idempotent producer a new id; each gets its own, even if it had one before."""
    if request.transactional_id is not None:
        return _refused(
            ErrorCode.COORDINATOR_NOT_AVAILABLE
            if request.transactional_id
            else ErrorCode.INVALID_REQUEST
        )
    try:
        producer_id = await context.node.producer_ids.next_id()
    except StorageError:
        return _refused(ErrorCode.KAFKA_STORAGE_ERROR)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=_FIRST_EPOCH)


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)
