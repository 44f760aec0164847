"""ListPartitionReassignments (key 46): which partitions are on the move.

v0  the only version                                      (KIP-455)
"""

from ottla.wire.schema import Int16, Int32, String, message, struct


@struct
class ListPartitionReassignmentsTopics:
    name: String
    partition_indexes: tuple[Int32, ...]


@message(key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsRequest:
    timeout_ms: Int32 = 60000
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None = None  # null: all


@struct
class OngoingPartitionReassignment:
    partition_index: Int32
    replicas: tuple[Int32, ...]
    adding_replicas: tuple[Int32, ...]
    removing_replicas: tuple[Int32, ...]


@struct
class OngoingTopicReassignment:
    name: String
    partitions: tuple[OngoingPartitionReassignment, ...]


@message(key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    topics: tuple[OngoingTopicReassignment, ...]
