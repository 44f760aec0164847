"""DeleteRecords (key 21): move the start of partitions forward; what lies before it is gone.

v0  the first version                                      (KIP-107)
v1  the client waits out throttle_time_ms, not the broker  (KIP-219)
v2  first flexible version
"""

from ottla.wire.schema import Int16, Int32, Int64, String, message, struct


@struct
class DeleteRecordsPartition:
    partition_index: Int32
    offset: Int64  # the first to keep; -1: the high watermark


@struct
class DeleteRecordsTopic:
    name: String
    partitions: tuple[DeleteRecordsPartition, ...]


@message(key=21, versions="0-2", flexible="2+")
class DeleteRecordsRequest:
    topics: tuple[DeleteRecordsTopic, ...]
    timeout_ms: Int32


@struct
class DeleteRecordsPartitionResult:
    partition_index: Int32
    low_watermark: Int64  # the new start; -1 on error
    error_code: Int16 = 0


@struct
class DeleteRecordsTopicResult:
    name: String
    partitions: tuple[DeleteRecordsPartitionResult, ...]


@message(key=21, versions="0-2", flexible="2+")
class DeleteRecordsResponse:
    throttle_time_ms: Int32 = 0
    topics: tuple[DeleteRecordsTopicResult, ...]
