"""AddPartitionsToTxn (key 24): announce partitions to a transaction before writing to them.

v0  the first version                                                      (KIP-98)
v1  the client waits out throttle_time_ms, not the broker                  (KIP-219)
v2  a fenced producer is told PRODUCER_FENCED                              (KIP-588)
v3  first flexible version
v4  transactions replaces the single one; adds verify_only and error_code  (KIP-890)
v5  may answer TRANSACTION_ABORTABLE: abort, and the producer lives on     (KIP-890)

Clients speak v0-3, where a request is about one transaction and its fields are named
`v3_and_below_...`.  v4 and later are spoken between brokers: the leader of a partition asks
the coordinator, with `verify_only`, whether a write belongs to an open transaction.  Producers
with transactions v2 send neither: Produce v12 implies it.
"""

from ottla.wire.schema import Bool, Int16, Int32, Int64, String, at, message, struct


@struct
class AddPartitionsToTxnTopic:
    name: String
    partitions: tuple[Int32, ...]


@struct
class AddPartitionsToTxnTransaction:
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    verify_only: Bool = False  # ask, do not add
    topics: tuple[AddPartitionsToTxnTopic, ...]


@message(key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnRequest:
    transactions: tuple[AddPartitionsToTxnTransaction, ...] = at("4+", default=())
    v3_and_below_transactional_id: String = at("0-3", default="")
    v3_and_below_producer_id: Int64 = at("0-3", default=0)
    v3_and_below_producer_epoch: Int16 = at("0-3", default=0)
    v3_and_below_topics: tuple[AddPartitionsToTxnTopic, ...] = at("0-3", default=())


@struct
class AddPartitionsToTxnPartitionResult:
    partition_index: Int32
    partition_error_code: Int16


@struct
class AddPartitionsToTxnTopicResult:
    name: String
    results_by_partition: tuple[AddPartitionsToTxnPartitionResult, ...]


@struct
class AddPartitionsToTxnResult:
    transactional_id: String
    topic_results: tuple[AddPartitionsToTxnTopicResult, ...]


@message(key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = at("4+", default=0, ignorable=True)
    results_by_transaction: tuple[AddPartitionsToTxnResult, ...] = at("4+", default=())
    results_by_topic_v3_and_below: tuple[AddPartitionsToTxnTopicResult, ...] = at("0-3", default=())
