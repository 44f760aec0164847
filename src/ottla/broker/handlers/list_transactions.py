"""ListTransactions (key 66): all transactional ids that pass some filters."""

from ottla.broker.context import Context
from ottla.broker.shard import UnansweredError
from ottla.broker.transactions import put
from ottla.coordinator.txn.machine import TransactionCoordinator
from ottla.errors import ErrorCode
from ottla.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)


async def list_transactions(
    request: ListTransactionsRequest, context: Context
) -> ListTransactionsResponse:
    """Ask all coordinators and join their answers."""
    shards = context.node.transactions.all_loaded()
    if isinstance(shards, ErrorCode):
        return ListTransactionsResponse(
            error_code=shards, unknown_state_filters=(), transaction_states=()
        )
    unknown: tuple[str, ...] = ()
    found: list[TransactionState] = []
    for shard in shards:
        try:
            answer: ListTransactionsResponse = await put(
                shard, context, TransactionCoordinator.list_transactions, request
            )
        except UnansweredError as error:
            return ListTransactionsResponse(
                error_code=error.code, unknown_state_filters=(), transaction_states=()
            )
        if answer.error_code:
            return answer
        unknown = answer.unknown_state_filters
        found += answer.transaction_states
    return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=tuple(found))
