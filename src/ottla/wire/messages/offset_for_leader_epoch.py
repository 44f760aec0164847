"""OffsetForLeaderEpoch (key 23): where a leader epoch ended: has the log been truncated?

v2  the oldest version since Kafka 4.0; current_leader_epoch fences  (KIP-320, KIP-896)
v3  adds replica_id                                                  (KIP-392)
v4  first flexible version

librdkafka speaks exactly v2: without it in the range, it no longer notices truncation.
"""

from ottla.wire.schema import Int16, Int32, Int64, String, at, message, struct


@struct
class OffsetForLeaderPartition:
    partition: Int32
    current_leader_epoch: Int32 = -1
    leader_epoch: Int32


@struct
class OffsetForLeaderTopic:
    topic: String
    partitions: tuple[OffsetForLeaderPartition, ...]


@message(key=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochRequest:
    replica_id: Int32 = at("3+", default=-2, ignorable=True)  # -1: a consumer, -2: a tool
    topics: tuple[OffsetForLeaderTopic, ...]


@struct
class EpochEndOffset:
    error_code: Int16 = 0
    partition: Int32
    leader_epoch: Int32 = -1  # -1: unknown
    end_offset: Int64 = -1  # the first offset after the epoch


@struct
class OffsetForLeaderTopicResult:
    topic: String
    partitions: tuple[EpochEndOffset, ...]


@message(key=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochResponse:
    throttle_time_ms: Int32 = 0
    topics: tuple[OffsetForLeaderTopicResult, ...]
