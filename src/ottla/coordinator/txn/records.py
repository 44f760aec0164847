"""Transactions as records of `__transaction_state`, byte for byte as Kafka writes them.

The newest record of a transactional id counts, and a tombstone says that the id is forgotten.
Version 1 of the value is written, which Kafka reads from 3.9 on; version 0 is read too.
"""

from collections.abc import Iterable
from itertools import groupby
from typing import Final

from ottla.coordinator.effects import StoredRecord
from ottla.coordinator.txn.transaction import State, Transaction
from ottla.errors import WireError
from ottla.model import TopicPartition
from ottla.wire.stored.transaction_records import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from ottla.wire.stored.versioned import (
    decode_key,
    decode_versioned,
    encode_key,
    encode_versioned,
    record_type_of,
)

_VALUE_VERSION: Final = 1

# Dead (6) and PrepareEpochFence (7) have numbers too, but only memory ever knows them.
_STATUSES: Final = {
    State.EMPTY: 0,
    State.ONGOING: 1,
    State.PREPARE_COMMIT: 2,
    State.PREPARE_ABORT: 3,
    State.COMPLETE_COMMIT: 4,
    State.COMPLETE_ABORT: 5,
}
_STATES: Final = {status: state for state, status in _STATUSES.items()}


def transaction_record(transactional_id: str, transaction: Transaction) -> StoredRecord:
    """Says where the transaction of an id stands."""
    has_partitions = transaction.state is not State.EMPTY
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        next_producer_epoch=transaction.next_producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=_STATUSES[transaction.state],
        transaction_partitions=_stored(transaction.partitions) if has_partitions else None,
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
        client_transaction_version=transaction.client_version,
    )
    meaning = (transactional_id, transaction) if has_partitions else None
    return StoredRecord(_key(transactional_id), encode_versioned(value, _VALUE_VERSION), meaning)


def tombstone(transactional_id: str) -> StoredRecord:
    """Says that an id is forgotten."""
    return StoredRecord(_key(transactional_id), None)


def decode_record(record: StoredRecord) -> tuple[str, Transaction | None] | None:
    """The id, and where it stands; `None` for a kind that is not ours, `WireError` for damage."""
    if record.meaning is not None:
        known: tuple[str, Transaction] = record.meaning
        return known
    if record_type_of(record.key) != 0:
        return None
    transactional_id = decode_key(TransactionLogKey, record.key).transactional_id
    if record.value is None:
        return transactional_id, None
    value = decode_versioned(TransactionLogValue, record.value)
    state = _STATES.get(value.transaction_status)
    if state is None:
        raise WireError(f"{transactional_id}: no transaction has status {value.transaction_status}")
    partitions = frozenset(
        TopicPartition(stored.topic, index)
        for stored in value.transaction_partitions or ()
        for index in stored.partition_ids
    )
    return transactional_id, Transaction(
        producer_id=value.producer_id,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        producer_epoch=value.producer_epoch,
        next_producer_epoch=value.next_producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        partitions=partitions,
        updated_ms=value.transaction_last_update_timestamp_ms,
        started_ms=value.transaction_start_timestamp_ms,
        client_version=value.client_transaction_version,
    )


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, tuple[int, ...]]:
    """The partitions of each topic, both in order: sets have none of their own."""
    return {
        topic: tuple(partition.partition for partition in group)
        for topic, group in groupby(sorted(partitions), key=lambda partition: partition.topic)
    }


def _key(transactional_id: str) -> bytes:
    return encode_key(TransactionLogKey(transactional_id=transactional_id))


def _stored(partitions: frozenset[TopicPartition]) -> tuple[PartitionsSchema, ...]:
    return tuple(
        PartitionsSchema(topic=topic, partition_ids=indexes)
        for topic, indexes in by_topic(partitions).items()
    )
