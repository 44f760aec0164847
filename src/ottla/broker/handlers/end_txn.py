"""EndTxn (key 26): commit or abort a transaction."""

from ottla.broker.context import Context
from ottla.broker.shard import Reply
from ottla.broker.transactions import ask_settled
from ottla.coordinator.txn.machine import TransactionCoordinator
from ottla.errors import ErrorCode
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse


def end_txn(request: EndTxnRequest, context: Context) -> Reply[EndTxnResponse]:
    """Answered when the decision is durable; the markers follow."""
    return ask_settled(
        context, request.transactional_id, TransactionCoordinator.end_txn, request, _refused
    )


def _refused(error: ErrorCode) -> EndTxnResponse:
    return EndTxnResponse(error_code=error)
