"""Fetch (key 1): read record batches, waiting for them if there are none yet.

v4   the oldest version since Kafka 4.0; isolation_level, aborted_transactions  (KIP-98, KIP-896)
v5   adds log_start_offset                                                      (KIP-107)
v6   a failed disk is reported as KAFKA_STORAGE_ERROR                           (KIP-112)
v7   adds session_id: in a session, only changes are asked for and answered     (KIP-227)
v8   the client waits out throttle_time_ms, not the broker                      (KIP-219)
v9   adds current_leader_epoch, which fences clients with old metadata          (KIP-320)
v10  batches may be compressed with zstd                                        (KIP-110)
v11  adds rack_id and preferred_read_replica: read from a close follower        (KIP-392)
v12  first flexible version; adds last_fetched_epoch and diverging_epoch        (KIP-595)
v13  topic_id replaces topic; may answer UNKNOWN_TOPIC_ID                       (KIP-516)
v14  may answer OFFSET_MOVED_TO_TIERED_STORAGE, to followers only               (KIP-405)
v15  replica_state replaces replica_id, and carries the broker's epoch          (KIP-903)
v16  adds node_endpoints, so a moved leader is found at once                    (KIP-951)
v17  adds replica_directory_id, for followers only                              (KIP-853)
v18  adds high_watermark to the request, for followers only                     (KIP-1166)

A fetch that starts inside a batch gets the whole batch, and the client skips what it did not ask
for.  The first batch is sent even if it exceeds `max_bytes` or `partition_max_bytes`, or a large
record could never be read (KIP-74).

Sessions are optional: answering `session_id` 0 declines one, and every fetch stays a full fetch.
With isolation level 1, `aborted_transactions` must be sorted by first offset: clients rely on it.
"""

from ottla.wire.schema import (
    NO_UUID,
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
class ReplicaState:
    replica_id: Int32 = -1  # -1: a consumer
    replica_epoch: Int64 = -1


@struct
class FetchPartition:
    partition: Int32
    current_leader_epoch: Int32 = at("9+", default=-1, ignorable=True)
    fetch_offset: Int64
    last_fetched_epoch: Int32 = at("12+", default=-1)  # -1: nothing fetched yet
    log_start_offset: Int64 = at("5+", default=-1, ignorable=True)  # the follower's own
    partition_max_bytes: Int32
    replica_directory_id: Uuid = at("17+", default=NO_UUID, tag=0, ignorable=True)
    # The follower's; -1: unknown, the default: it does not say.
    high_watermark: Int64 = at("18+", default=9223372036854775807, tag=1, ignorable=True)


@struct
class FetchTopic:
    topic: String = at("0-12", default="", ignorable=True)
    topic_id: Uuid = at("13+", default=NO_UUID, ignorable=True)
    partitions: tuple[FetchPartition, ...]


@struct
class ForgottenTopic:
    topic: String = at("7-12", default="", ignorable=True)
    topic_id: Uuid = at("13+", default=NO_UUID, ignorable=True)
    partitions: tuple[Int32, ...]


@message(key=1, versions="4-18", flexible="12+")
class FetchRequest:
    cluster_id: String | None = at("12+", default=None, tag=0, ignorable=True)
    replica_id: Int32 = at("0-14", default=-1)  # -1: a consumer
    replica_state: ReplicaState = at("15+", default=ReplicaState(), tag=1)
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = 0x7FFFFFFF
    isolation_level: Int8 = 0  # 0: read uncommitted, 1: read committed
    session_id: Int32 = at("7+", default=0, ignorable=True)  # 0: none yet
    # 0: open a session, -1: close it or have none.
    session_epoch: Int32 = at("7+", default=-1, ignorable=True)
    topics: tuple[FetchTopic, ...]
    forgotten_topics_data: tuple[ForgottenTopic, ...] = at("7+", default=())
    rack_id: String = at("11+", default="", ignorable=True)


@struct
class EpochEndOffset:
    epoch: Int32 = -1
    end_offset: Int64 = -1


@struct
class LeaderIdAndEpoch:
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@struct
class SnapshotId:
    end_offset: Int64 = -1
    epoch: Int32 = -1


@struct
class AbortedTransaction:
    producer_id: Int64
    first_offset: Int64


@struct
class PartitionData:
    partition_index: Int32
    error_code: Int16 = 0
    high_watermark: Int64
    last_stable_offset: Int64 = -1
    log_start_offset: Int64 = at("5+", default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = at("12+", default=EpochEndOffset(), tag=0)
    current_leader: LeaderIdAndEpoch = at("12+", default=LeaderIdAndEpoch(), tag=1)
    snapshot_id: SnapshotId = at("12+", default=SnapshotId(), tag=2)
    aborted_transactions: tuple[AbortedTransaction, ...] | None  # sorted by first_offset
    preferred_read_replica: Int32 = at("11+", default=-1)  # -1: the leader
    records: Records | None


@struct
class FetchableTopicResponse:
    topic: String = at("0-12", default="", ignorable=True)
    topic_id: Uuid = at("13+", default=NO_UUID, ignorable=True)
    partitions: tuple[PartitionData, ...]


@struct
class NodeEndpoint:
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = None


@message(key=1, versions="4-18", flexible="12+")
class FetchResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = at("7+", default=0, ignorable=True)
    session_id: Int32 = at("7+", default=0)  # 0: no session
    responses: tuple[FetchableTopicResponse, ...]
    node_endpoints: tuple[NodeEndpoint, ...] = at("16+", default=(), tag=0)
