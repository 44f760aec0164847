"""DescribeQuorum (key 55): who votes on the cluster's metadata, and how far each voter is.

v0  the first version                                       (KIP-595)
v1  adds last_fetch_timestamp and last_caught_up_timestamp  (KIP-836)
v2  adds nodes, replica_directory_id and error_message      (KIP-853)

The only topic to ask for is __cluster_metadata, partition 0.  There is no throttle_time_ms.
"""

from ottla.wire.schema import (
    NO_UUID,
    Int16,
    Int32,
    Int64,
    String,
    UInt16,
    Uuid,
    at,
    message,
    struct,
)


@struct
class PartitionData:
    partition_index: Int32


@struct
class TopicData:
    topic_name: String
    partitions: tuple[PartitionData, ...]


@message(key=55, versions="0-2", flexible="0+")
class DescribeQuorumRequest:
    topics: tuple[TopicData, ...]


@struct
class ReplicaState:
    replica_id: Int32
    replica_directory_id: Uuid = at("2+", default=NO_UUID)
    log_end_offset: Int64
    last_fetch_timestamp: Int64 = at("1+", default=-1, ignorable=True)  # in ms; -1: unknown
    last_caught_up_timestamp: Int64 = at("1+", default=-1, ignorable=True)  # in ms; -1: unknown


@struct
class PartitionQuorum:
    partition_index: Int32
    error_code: Int16 = 0
    error_message: String | None = at("2+", default=None, ignorable=True)
    leader_id: Int32  # -1: unknown
    leader_epoch: Int32
    high_watermark: Int64
    current_voters: tuple[ReplicaState, ...]
    observers: tuple[ReplicaState, ...]


@struct
class TopicQuorum:
    topic_name: String
    partitions: tuple[PartitionQuorum, ...]


@struct
class Listener:
    name: String
    host: String
    port: UInt16


@struct
class Node:
    node_id: Int32
    listeners: tuple[Listener, ...]


@message(key=55, versions="0-2", flexible="0+")
class DescribeQuorumResponse:
    error_code: Int16 = 0
    error_message: String | None = at("2+", default=None, ignorable=True)
    topics: tuple[TopicQuorum, ...]
    nodes: tuple[Node, ...] = at("2+", default=())
