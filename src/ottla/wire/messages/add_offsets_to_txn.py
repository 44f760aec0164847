"""AddOffsetsToTxn (key 25): announce a group's offsets to a transaction before sending them.

v0  the first version                                                   (KIP-98)
v1  the client waits out throttle_time_ms, not the broker               (KIP-219)
v2  a fenced producer is told PRODUCER_FENCED                           (KIP-588)
v3  first flexible version
v4  may answer TRANSACTION_ABORTABLE: abort, and the producer lives on  (KIP-890)

Producers with transactions v2 do not send it: TxnOffsetCommit v5 implies it.
"""

from ottla.wire.schema import Int16, Int32, Int64, String, message


@message(key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest:
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    group_id: String


@message(key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
