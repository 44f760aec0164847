"""DescribeTopicPartitions (key 75): topics and their partitions, page by page.

v0  the only version                                      (KIP-966)

Topics are answered in the order of their names, so that a cursor can say where the next page
begins.  Admin clients prefer it to Metadata, and fall back where it is missing.

`topic_authorized_operations` is a bit field: bit n stands for ACL operation n,
and -2147483648 says that nobody asked.
"""

from ottla.wire.schema import Bool, Int16, Int32, String, Uuid, message, struct


@struct
class TopicRequest:
    name: String


@struct
class Cursor:
    topic_name: String
    partition_index: Int32


@message(key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsRequest:
    topics: tuple[TopicRequest, ...]
    response_partition_limit: Int32 = 2000
    cursor: Cursor | None = None


@struct
class DescribeTopicPartitionsResponsePartition:
    error_code: Int16 = 0
    partition_index: Int32
    leader_id: Int32  # -1: none
    leader_epoch: Int32 = -1
    replica_nodes: tuple[Int32, ...]
    isr_nodes: tuple[Int32, ...]
    eligible_leader_replicas: tuple[Int32, ...] | None = None
    last_known_elr: tuple[Int32, ...] | None = None
    offline_replicas: tuple[Int32, ...]


@struct
class DescribeTopicPartitionsResponseTopic:
    error_code: Int16 = 0
    name: String | None
    topic_id: Uuid
    is_internal: Bool = False
    partitions: tuple[DescribeTopicPartitionsResponsePartition, ...]
    topic_authorized_operations: Int32 = -2147483648  # bits; -2147483648: not asked for


@message(key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsResponse:
    throttle_time_ms: Int32 = 0
    topics: tuple[DescribeTopicPartitionsResponseTopic, ...]
    next_cursor: Cursor | None = None  # null: the last page
