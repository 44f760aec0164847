"""InitProducerId (key 22): obtain a producer id and epoch, fencing older producers.

v0  the first version                                                            (KIP-98)
v1  the client waits out throttle_time_ms, not the broker                        (KIP-219)
v2  first flexible version
v3  adds producer_id and producer_epoch: a producer may bump its own epoch       (KIP-360)
v4  a fenced producer is told PRODUCER_FENCED                                    (KIP-588)
v5  may answer TRANSACTION_ABORTABLE: abort, and the producer lives on           (KIP-890)
v6  adds enable2_pc, keep_prepared_txn: prepared transactions outlive producers  (KIP-939)

Without a transactional id any broker answers, and every call gives a fresh id.  With one, the
coordinator answers; an open transaction of the older producer is aborted first, except in v6 with
`keep_prepared_txn`: then it stays, and the response names the id and epoch that may end it.

Apache Kafka still marks v6 as unstable, and does not advertise it unless told to.
"""

from ottla.wire.schema import Bool, Int16, Int32, Int64, String, at, message


@message(key=22, versions="0-6", flexible="2+")
class InitProducerIdRequest:
    transactional_id: String | None  # null: idempotence only
    transaction_timeout_ms: Int32
    producer_id: Int64 = at("3+", default=-1)  # -1: a new producer
    producer_epoch: Int16 = at("3+", default=-1)
    enable2_pc: Bool = at("6+", default=False)  # no time-out for its transactions
    keep_prepared_txn: Bool = at("6+", default=False)


@message(key=22, versions="0-6", flexible="2+")
class InitProducerIdResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16
    ongoing_txn_producer_id: Int64 = at("6+", default=-1)  # -1: none
    ongoing_txn_producer_epoch: Int16 = at("6+", default=-1)
