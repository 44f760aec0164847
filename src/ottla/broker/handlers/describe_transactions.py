"""DescribeTransactions (key 65): where transactional ids stand."""

from functools import partial

from ottla.broker.context import Context
from ottla.broker.transactions import ask_at_once
from ottla.coordinator.txn.machine import TransactionCoordinator
from ottla.errors import ErrorCode
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)


async def describe_transactions(
    request: DescribeTransactionsRequest, context: Context
) -> DescribeTransactionsResponse:
    """Ask the coordinator of each id."""
    states: list[TransactionState] = []
    for transactional_id in dict.fromkeys(request.transactional_ids):
        answer = await ask_at_once(
            context,
            transactional_id,
            TransactionCoordinator.describe,
            DescribeTransactionsRequest(transactional_ids=(transactional_id,)),
            partial(_refused, transactional_id),
        )
        states += answer.transaction_states
    return DescribeTransactionsResponse(transaction_states=tuple(states))


def _refused(transactional_id: str, error: ErrorCode) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=(
            TransactionState(
                error_code=error,
                transactional_id=transactional_id,
                transaction_state="",
                transaction_timeout_ms=0,
                transaction_start_time_ms=-1,
                producer_id=-1,
                producer_epoch=-1,
                topics=(),
            ),
        )
    )
