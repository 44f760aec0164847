"""What is told about transactions: DescribeTransactions and ListTransactions.

Nothing here changes anything.
"""

from collections.abc import Iterable, Mapping

from ottla.coordinator.pattern_syntax import PatternError
from ottla.coordinator.patterns import compiled
from ottla.coordinator.txn.records import by_topic
from ottla.coordinator.txn.transaction import NO_TIME_MS, State, Transaction
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ottla.wire.messages import describe_transactions as describing
from ottla.wire.messages import list_transactions as listing


def described(
    transactional_id: str, transaction: Transaction | None, partitions: Iterable[TopicPartition]
) -> describing.TransactionState:
    """One transactional id; while it ends, with the `partitions` that have no marker yet."""
    if transaction is None:
        is_named = bool(transactional_id)
        return describing.TransactionState(
            error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
            if is_named
            else ErrorCode.INVALID_REQUEST,
            transactional_id=transactional_id,
            transaction_state="",
            transaction_timeout_ms=0,
            transaction_start_time_ms=NO_TIME_MS,
            producer_id=NO_PRODUCER_ID,
            producer_epoch=NO_PRODUCER_EPOCH,
            topics=(),
        )
    return describing.TransactionState(
        transactional_id=transactional_id,
        transaction_state=transaction.state.value,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.started_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=tuple(
            describing.TopicData(topic=topic, partitions=indexes)
            for topic, indexes in by_topic(partitions).items()
        ),
    )


def listed(
    transactions: Mapping[str, Transaction], request: listing.ListTransactionsRequest, now_ms: int
) -> listing.ListTransactionsResponse:
    """The transactions that pass all filters of the request."""
    names = {state.value for state in State}
    unknown = tuple(name for name in request.state_filters if name not in names)
    text = request.transactional_id_pattern
    try:
        pattern = compiled(text) if text else None
    except PatternError:
        return listing.ListTransactionsResponse(
            error_code=ErrorCode.INVALID_REGULAR_EXPRESSION,
            unknown_state_filters=unknown,
            transaction_states=(),
        )
    found = tuple(
        listing.TransactionState(
            transactional_id=transactional_id,
            producer_id=transaction.producer_id,
            transaction_state=transaction.state.value,
        )
        for transactional_id, transaction in transactions.items()
        if _passes(transaction, request, now_ms)
        and (pattern is None or pattern.matches(transactional_id))
    )
    return listing.ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=found)


def _passes(
    transaction: Transaction, request: listing.ListTransactionsRequest, now_ms: int
) -> bool:
    producer_ids, states = request.producer_id_filters, request.state_filters
    if producer_ids and transaction.producer_id not in producer_ids:
        return False
    if states and transaction.state.value not in states:
        return False
    # An id that never began a transaction passes, as in Kafka: its start lies infinitely far back.
    return request.duration_filter < 0 or now_ms - transaction.started_ms > request.duration_filter
