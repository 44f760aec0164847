"""ShareFetch (key 78): acquire records of a share group, and acknowledge earlier ones.

v1  the first stable version; Kafka 4.0 had a v0 on trial  (KIP-932)
v2  adds share_acquire_mode and is_renew_ack               (KIP-1206, KIP-1222)

An acquired record is locked for this member until it is acknowledged or
`acquisition_lock_timeout_ms` has passed; then another member gets it, with a higher
`delivery_count`.  `records` may hold more than was acquired: whole batches are sent, and
`acquired_records` says which offsets are the member's.  A request with `is_renew_ack` fetches
nothing: its `max_wait_ms`, `min_bytes`, `max_bytes` and `max_records` must be 0.
"""

from ottla.wire.schema import (
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    Records,
    String,
    Uuid,
    at,
    message,
    struct,
)


@struct
class AcknowledgementBatch:
    first_offset: Int64
    last_offset: Int64
    # 0: gap, 1: accept, 2: release, 3: reject, 4: renew.  One for all offsets, or one for each.
    acknowledge_types: tuple[Int8, ...]


@struct
class FetchPartition:
    partition_index: Int32
    acknowledgement_batches: tuple[AcknowledgementBatch, ...]


@struct
class FetchTopic:
    topic_id: Uuid
    partitions: tuple[FetchPartition, ...]


@struct
class ForgottenTopic:
    topic_id: Uuid
    partitions: tuple[Int32, ...]


@message(key=78, versions="1-2", flexible="0+")
class ShareFetchRequest:
    group_id: String | None = None
    member_id: String | None
    share_session_epoch: Int32  # 0: open a session, -1: close it
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = 0x7FFFFFFF
    max_records: Int32
    batch_size: Int32
    # 0: whole batches, 1: no more than max_records.
    share_acquire_mode: Int8 = at("2+", default=0, ignorable=True)
    is_renew_ack: Bool = at("2+", default=False)
    topics: tuple[FetchTopic, ...]
    forgotten_topics_data: tuple[ForgottenTopic, ...]


@struct
class LeaderIdAndEpoch:
    leader_id: Int32
    leader_epoch: Int32


@struct
class AcquiredRecords:
    first_offset: Int64
    last_offset: Int64
    delivery_count: Int16


@struct
class PartitionData:
    partition_index: Int32
    error_code: Int16 = 0
    error_message: String | None = None
    acknowledge_error_code: Int16
    acknowledge_error_message: String | None = None
    current_leader: LeaderIdAndEpoch
    records: Records
    acquired_records: tuple[AcquiredRecords, ...]


@struct
class ShareFetchableTopicResponse:
    topic_id: Uuid
    partitions: tuple[PartitionData, ...]


@struct
class NodeEndpoint:
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = None


@message(key=78, versions="1-2", flexible="0+")
class ShareFetchResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    acquisition_lock_timeout_ms: Int32
    responses: tuple[ShareFetchableTopicResponse, ...]
    node_endpoints: tuple[NodeEndpoint, ...]
