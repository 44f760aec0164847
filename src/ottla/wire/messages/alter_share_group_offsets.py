"""AlterShareGroupOffsets (key 91): move the start of a share group without members.

v0  the only version                                      (KIP-932)
"""

from ottla.wire.schema import Int16, Int32, Int64, String, Uuid, message, struct


@struct
class AlterShareGroupOffsetsRequestPartition:
    partition_index: Int32
    start_offset: Int64


@struct
class AlterShareGroupOffsetsRequestTopic:
    topic_name: String
    partitions: tuple[AlterShareGroupOffsetsRequestPartition, ...]


@message(key=91, versions="0", flexible="0+")
class AlterShareGroupOffsetsRequest:
    group_id: String
    topics: tuple[AlterShareGroupOffsetsRequestTopic, ...]


@struct
class AlterShareGroupOffsetsResponsePartition:
    partition_index: Int32
    error_code: Int16 = 0
    error_message: String | None = None


@struct
class AlterShareGroupOffsetsResponseTopic:
    topic_name: String
    topic_id: Uuid
    partitions: tuple[AlterShareGroupOffsetsResponsePartition, ...]


@message(key=91, versions="0", flexible="0+")
class AlterShareGroupOffsetsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    responses: tuple[AlterShareGroupOffsetsResponseTopic, ...]
