"""ShareAcknowledge (key 79): say what became of acquired records, without fetching more.

v1  the first stable version; Kafka 4.0 had a v0 on trial                    (KIP-932)
v2  adds is_renew_ack and acquisition_lock_timeout_ms: keep the lock longer  (KIP-1222)
"""

from ottla.wire.schema import Bool, Int8, Int16, Int32, Int64, String, Uuid, at, message, struct


@struct
class AcknowledgementBatch:
    first_offset: Int64
    last_offset: Int64
    # 0: gap, 1: accept, 2: release, 3: reject, 4: renew.  One for all offsets, or one for each.
    acknowledge_types: tuple[Int8, ...]


@struct
class AcknowledgePartition:
    partition_index: Int32
    acknowledgement_batches: tuple[AcknowledgementBatch, ...]


@struct
class AcknowledgeTopic:
    topic_id: Uuid
    partitions: tuple[AcknowledgePartition, ...]


@message(key=79, versions="1-2", flexible="0+")
class ShareAcknowledgeRequest:
    group_id: String | None = None
    member_id: String | None
    share_session_epoch: Int32  # 0: open a session, -1: close it
    is_renew_ack: Bool = at("2+", default=False)
    topics: tuple[AcknowledgeTopic, ...]


@struct
class LeaderIdAndEpoch:
    leader_id: Int32
    leader_epoch: Int32


@struct
class PartitionData:
    partition_index: Int32
    error_code: Int16 = 0
    error_message: String | None = None
    current_leader: LeaderIdAndEpoch


@struct
class ShareAcknowledgeTopicResponse:
    topic_id: Uuid
    partitions: tuple[PartitionData, ...]


@struct
class NodeEndpoint:
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = None


@message(key=79, versions="1-2", flexible="0+")
class ShareAcknowledgeResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    acquisition_lock_timeout_ms: Int32 = at("2+", default=0, ignorable=True)
    responses: tuple[ShareAcknowledgeTopicResponse, ...]
    node_endpoints: tuple[NodeEndpoint, ...]
