"""EndTxn (key 26): commit or abort a transaction."""

from ottla.broker.context import Context
from ottla.broker.dispatch import handles
from ottla.broker.transactions import ask
from ottla.coordinator.txn.machine import TransactionCoordinator
from ottla.errors import ErrorCode
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse


@handles(EndTxnRequest, versions="0-5")
async def end_txn(request: EndTxnRequest, context: Context) -> EndTxnResponse:
    """Answered when the decision is durable; the markers follow."""
    return await ask(
        context, request.transactional_id, TransactionCoordinator.end_txn, request, _refused
    )


def _refused(error: ErrorCode) -> EndTxnResponse:
    return EndTxnResponse(error_code=error)
