"""AddPartitionsToTxn and AddOffsetsToTxn: what a transaction writes to, said before it writes.

Markers go to the partitions of this list and to no others, so a write to a partition that is not in
it would never be ended.  A leader asks, with `verify_only`, before it lets such a write in.
"""

from collections.abc import Iterable

from ottla.coordinator.txn.transaction import Producer, State, Transaction
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.values import NamedTuple
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)


def add_refusal(current: Transaction | None, producer: Producer) -> ErrorCode:
    """Why this producer may not add to the transaction now."""
    if current is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if current.is_ending:
        # Before all else: the producer may have been told of its next id or epoch already.
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return _producer_error(current, producer)


def verify_refusal(current: Transaction | None, producer: Producer) -> ErrorCode:
    """Why nothing that this producer writes now can be part of the transaction."""
    if current is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    error = _producer_error(current, producer)
    if not error and current.is_ending:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return error


def takes_part(current: Transaction | None, producer: Producer, partition: TopicPartition) -> bool:
    """Whether what `producer` writes to the partition now is part of an open transaction."""
    is_member = current is not None and partition in current.partitions
    return is_member and not verify_refusal(current, producer)


class Addition(NamedTuple):
    """What becomes of what is asked of one transaction."""

    error: ErrorCode
    """For all partitions; NONE if each has its own."""
    members: frozenset[TopicPartition]
    """The partitions that take part then."""
    added: Transaction | None = None
    """The transaction as it is to be recorded, if that is another one than before."""


def addition(
    asked: AddPartitionsToTxnTransaction, current: Transaction | None, version: int, now_ms: int
) -> Addition:
    """Decide what is `asked` of the `current` transaction of that id."""
    producer = Producer(asked.producer_id, asked.producer_epoch)
    partitions = frozenset(partitions_of(asked.topics))
    if not asked.transactional_id:
        return Addition(ErrorCode.INVALID_REQUEST, partitions)
    if asked.verify_only:
        members = frozenset[TopicPartition]() if current is None else current.partitions
        return Addition(verify_refusal(current, producer), members)
    error = add_refusal(current, producer)
    if current is None or error:
        return Addition(error, partitions)
    return Addition(error, partitions, added(current, partitions, version, now_ms))


def added(
    current: Transaction, partitions: Iterable[TopicPartition], version: int, now_ms: int
) -> Transaction | None:
    """The transaction with `partitions` in it; `None` if it has them already."""
    together = current.partitions.union(partitions)
    if current.state is State.ONGOING and together == current.partitions:
        return None
    return current.move(
        State.ONGOING,
        now_ms,
        partitions=together,
        started_ms=now_ms if current.is_at_rest else current.started_ms,
        client_version=version,
    )


def asked(
    request: AddPartitionsToTxnRequest, *, is_from_broker: bool
) -> tuple[AddPartitionsToTxnTransaction, ...]:
    """The transactions that a request is about: a client's is about one."""
    if is_from_broker:
        return request.transactions
    only = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    return (only,)


def partitions_of(topics: Iterable[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    """What a request names, one by one."""
    return [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]


def results(
    topics: Iterable[AddPartitionsToTxnTopic], error: ErrorCode, members: frozenset[TopicPartition]
) -> tuple[AddPartitionsToTxnTopicResult, ...]:
    """The same error for all partitions; without one, for those that are no members."""
    return tuple(
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=tuple(
                AddPartitionsToTxnPartitionResult(
                    partition_index=index,
                    partition_error_code=error
                    or (
                        ErrorCode.NONE
                        if TopicPartition(topic.name, index) in members
                        else ErrorCode.TRANSACTION_ABORTABLE
                    ),
                )
                for index in topic.partitions
            ),
        )
        for topic in topics
    )


def _producer_error(current: Transaction, producer: Producer) -> ErrorCode:
    if not current.knows(producer.producer_id):
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if current.is_kept and producer == current.owner:
        return ErrorCode.INVALID_TXN_STATE  # what is prepared can only be ended
    is_writer = producer == current.writer and not current.is_kept
    return ErrorCode.NONE if is_writer else ErrorCode.PRODUCER_FENCED
