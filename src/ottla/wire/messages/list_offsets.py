"""ListOffsets (key 2): find an offset by timestamp, or the first and last of a partition.

v1   the oldest version since Kafka 4.0; one offset, with its timestamp      (KIP-79, KIP-896)
v2   adds isolation_level (latest becomes last stable) and throttle_time_ms  (KIP-98, KIP-124)
v3   the client waits out throttle_time_ms, not the broker                   (KIP-219)
v4   adds current_leader_epoch and leader_epoch                              (KIP-320)
v5   a new leader may answer OFFSET_NOT_AVAILABLE until it knows better      (KIP-207)
v6   first flexible version
v7   timestamp -3: the record with the largest timestamp                     (KIP-734)
v8   timestamp -4: the first offset on local disk                            (KIP-405)
v9   timestamp -5: the last offset in tiered storage                         (KIP-1005)
v10  adds timeout_ms, for lookups in tiered storage                          (KIP-1075)
v11  timestamp -6: the first offset not yet uploaded to tiered storage       (KIP-1023)

A timestamp that is later than every record is answered with offset -1 and timestamp -1, and no
error.
"""

from ottla.wire.schema import Int8, Int16, Int32, Int64, String, at, message, struct


@struct
class ListOffsetsPartition:
    partition_index: Int32
    current_leader_epoch: Int32 = at("4+", default=-1, ignorable=True)
    timestamp: Int64  # in ms; -1: latest, -2: earliest; see above


@struct
class ListOffsetsTopic:
    name: String
    partitions: tuple[ListOffsetsPartition, ...]


@message(key=2, versions="1-11", flexible="6+")
class ListOffsetsRequest:
    replica_id: Int32  # -1: a consumer, -2: one that may look past the high watermark
    isolation_level: Int8 = at("2+", default=0)  # 0: read uncommitted, 1: read committed
    topics: tuple[ListOffsetsTopic, ...]
    timeout_ms: Int32 = at("10+", default=0, ignorable=True)


@struct
class ListOffsetsPartitionResponse:
    partition_index: Int32
    error_code: Int16 = 0
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Int32 = at("4+", default=-1)


@struct
class ListOffsetsTopicResponse:
    name: String
    partitions: tuple[ListOffsetsPartitionResponse, ...]


@message(key=2, versions="1-11", flexible="6+")
class ListOffsetsResponse:
    throttle_time_ms: Int32 = at("2+", default=0, ignorable=True)
    topics: tuple[ListOffsetsTopicResponse, ...]
