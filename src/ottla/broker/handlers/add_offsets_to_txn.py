"""AddOffsetsToTxn (key 25): announce a group's offsets to a transaction before sending them."""

from ottla.broker.context import Context
from ottla.broker.transactions import ask
from ottla.coordinator.txn.machine import TransactionCoordinator
from ottla.errors import ErrorCode
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse


async def add_offsets_to_txn(
    request: AddOffsetsToTxnRequest, context: Context
) -> AddOffsetsToTxnResponse:
    """The partition that has the group's offsets takes part: it must be there."""
    if not request.group_id:
        return _refused(ErrorCode.INVALID_GROUP_ID)
    await context.node.groups.ensure_topic()
    return await ask(
        context, request.transactional_id, TransactionCoordinator.add_offsets, request, _refused
    )


def _refused(error: ErrorCode) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=error)
