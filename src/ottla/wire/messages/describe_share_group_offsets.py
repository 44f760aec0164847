"""DescribeShareGroupOffsets (key 90): where share groups begin to read each partition.

v0  the first version                                     (KIP-932)
v1  adds lag                                              (KIP-1226)
"""

from ottla.wire.schema import Int16, Int32, Int64, String, Uuid, at, message, struct


@struct
class DescribeShareGroupOffsetsRequestTopic:
    topic_name: String
    partitions: tuple[Int32, ...]


@struct
class DescribeShareGroupOffsetsRequestGroup:
    group_id: String
    topics: tuple[DescribeShareGroupOffsetsRequestTopic, ...] | None  # null: all


@message(key=90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsRequest:
    groups: tuple[DescribeShareGroupOffsetsRequestGroup, ...]


@struct
class DescribeShareGroupOffsetsResponsePartition:
    partition_index: Int32
    start_offset: Int64  # -1: not begun
    leader_epoch: Int32
    lag: Int64 = at("1+", default=-1, ignorable=True)  # -1: unknown
    error_code: Int16 = 0
    error_message: String | None = None


@struct
class DescribeShareGroupOffsetsResponseTopic:
    topic_name: String
    topic_id: Uuid
    partitions: tuple[DescribeShareGroupOffsetsResponsePartition, ...]


@struct
class DescribeShareGroupOffsetsResponseGroup:
    group_id: String
    topics: tuple[DescribeShareGroupOffsetsResponseTopic, ...]
    error_code: Int16 = 0
    error_message: String | None = None


@message(key=90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsResponse:
    throttle_time_ms: Int32 = 0
    groups: tuple[DescribeShareGroupOffsetsResponseGroup, ...]
