"""ListTransactions (key 66): the transactional ids that one broker coordinates.

v0  the first version                                          (KIP-664)
v1  adds duration_filter                                       (KIP-994)
v2  adds transactional_id_pattern; INVALID_REGULAR_EXPRESSION  (KIP-1152)

Each broker knows its own only: ask all of them.  An empty filter lets everything through.
"""

from ottla.wire.schema import Int16, Int32, Int64, String, at, message, struct


@message(key=66, versions="0-2", flexible="0+")
class ListTransactionsRequest:
    state_filters: tuple[String, ...]
    producer_id_filters: tuple[Int64, ...]
    duration_filter: Int64 = at("1+", default=-1)  # in ms; open for longer than this, -1: any
    transactional_id_pattern: String | None = at("2+", default=None)


@struct
class TransactionState:
    transactional_id: String
    producer_id: Int64
    transaction_state: String


@message(key=66, versions="0-2", flexible="0+")
class ListTransactionsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: tuple[String, ...]
    transaction_states: tuple[TransactionState, ...]
