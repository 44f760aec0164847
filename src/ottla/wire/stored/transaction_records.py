"""Transactions, as records of the topic __transaction_state.

Keys and values are framed as in `group_records`.  There is one record type, 0: a transactional id
and where its transaction stands.  The newest record of an id counts; a tombstone forgets the id.

v0  with transaction.version 0
v1  first flexible version; adds the tagged fields of transactions v2  (KIP-890, KIP-915)
"""

from ottla.wire.schema import Int8, Int16, Int32, Int64, String, at, message, struct


@message(key=0, versions="0")
class TransactionLogKey:
    transactional_id: String


@struct
class PartitionsSchema:
    topic: String
    partition_ids: tuple[Int32, ...]


@message(key=0, versions="0-1", flexible="1+")
class TransactionLogValue:
    producer_id: Int64
    previous_producer_id: Int64 = at("1+", default=-1, tag=0)
    next_producer_id: Int64 = at("1+", default=-1, tag=1)
    producer_epoch: Int16
    next_producer_epoch: Int16 = at("1+", default=-1, tag=3)
    transaction_timeout_ms: Int32
    # 0: empty, 1: ongoing, 2: prepare commit, 3: prepare abort, 4: complete commit,
    # 5: complete abort, 6: dead, 7: prepare epoch fence.
    transaction_status: Int8
    transaction_partitions: tuple[PartitionsSchema, ...] | None  # null in state 0
    transaction_last_update_timestamp_ms: Int64
    transaction_start_timestamp_ms: Int64  # -1: none began
    # Of the last transaction's producer.
    client_transaction_version: Int16 = at("1+", default=0, tag=2)
