"""EndTxn (key 26): commit or abort a transaction.

v0  the first version                                                   (KIP-98)
v1  the client waits out throttle_time_ms, not the broker               (KIP-219)
v2  a fenced producer is told PRODUCER_FENCED                           (KIP-588)
v3  first flexible version
v4  may answer TRANSACTION_ABORTABLE: abort, and the producer lives on  (KIP-890)
v5  adds producer_id and producer_epoch: every end bumps the epoch      (KIP-890)

v5 is how a client asks for transactions v2: the epoch in the response is the one to go on with, and
a delayed EndTxn of the last transaction can no longer end the next one.
"""

from ottla.wire.schema import Bool, Int16, Int32, Int64, String, at, message


@message(key=26, versions="0-5", flexible="3+")
class EndTxnRequest:
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    committed: Bool


@message(key=26, versions="0-5", flexible="3+")
class EndTxnResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = at("5+", default=-1, ignorable=True)
    producer_epoch: Int16 = at("5+", default=-1, ignorable=True)
