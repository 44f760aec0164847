"""DescribeTransactions (key 65): what a coordinator knows of some transactional ids.

v0  the only version                                      (KIP-664)
"""

from ottla.wire.schema import Int16, Int32, Int64, String, message, struct


@message(key=65, versions="0", flexible="0+")
class DescribeTransactionsRequest:
    transactional_ids: tuple[String, ...]


@struct
class TopicData:
    topic: String
    partitions: tuple[Int32, ...]


@struct
class TransactionState:
    error_code: Int16 = 0
    transactional_id: String
    transaction_state: String
    transaction_timeout_ms: Int32
    transaction_start_time_ms: Int64  # -1: none began
    producer_id: Int64
    producer_epoch: Int16
    topics: tuple[TopicData, ...]  # while it ends: those without a marker yet


@message(key=65, versions="0", flexible="0+")
class DescribeTransactionsResponse:
    throttle_time_ms: Int32 = 0
    transaction_states: tuple[TransactionState, ...]
