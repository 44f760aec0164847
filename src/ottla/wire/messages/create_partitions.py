"""CreatePartitions (key 37): give topics more partitions.

v0  the first version                                      (KIP-195)
v1  the client waits out throttle_time_ms, not the broker  (KIP-219)
v2  first flexible version
v3  may answer THROTTLING_QUOTA_EXCEEDED                   (KIP-599)

The response has one result for each topic of the request: clients wait for theirs.
"""

from ottla.wire.schema import Bool, Int16, Int32, String, message, struct


@struct
class CreatePartitionsAssignment:
    broker_ids: tuple[Int32, ...]


@struct
class CreatePartitionsTopic:
    name: String
    count: Int32  # the new total, not how many to add
    assignments: tuple[CreatePartitionsAssignment, ...] | None  # of the new ones only; null: choose


@message(key=37, versions="0-3", flexible="2+")
class CreatePartitionsRequest:
    topics: tuple[CreatePartitionsTopic, ...]
    timeout_ms: Int32
    validate_only: Bool


@struct
class CreatePartitionsTopicResult:
    name: String
    error_code: Int16 = 0
    error_message: String | None = None


@message(key=37, versions="0-3", flexible="2+")
class CreatePartitionsResponse:
    throttle_time_ms: Int32 = 0
    results: tuple[CreatePartitionsTopicResult, ...]
