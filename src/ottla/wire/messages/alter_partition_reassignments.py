"""AlterPartitionReassignments (key 45): move partitions to other brokers, or stop doing so.

v0  the first version                                     (KIP-455)
v1  adds allow_replication_factor_change                  (KIP-860)
"""

from ottla.wire.schema import Bool, Int16, Int32, String, at, message, struct


@struct
class ReassignablePartition:
    partition_index: Int32
    replicas: tuple[Int32, ...] | None = None  # null: cancel


@struct
class ReassignableTopic:
    name: String
    partitions: tuple[ReassignablePartition, ...]


@message(key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest:
    timeout_ms: Int32 = 60000
    allow_replication_factor_change: Bool = at("1+", default=True)
    topics: tuple[ReassignableTopic, ...]


@struct
class ReassignablePartitionResponse:
    partition_index: Int32
    error_code: Int16 = 0
    error_message: String | None = None


@struct
class ReassignableTopicResponse:
    name: String
    partitions: tuple[ReassignablePartitionResponse, ...]


@message(key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse:
    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Bool = at("1+", default=True, ignorable=True)
    error_code: Int16 = 0
    error_message: String | None = None
    responses: tuple[ReassignableTopicResponse, ...]
