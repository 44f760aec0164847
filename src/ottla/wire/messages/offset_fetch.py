"""OffsetFetch (key 9): where a group left off.

v1   the oldest version since Kafka 4.0                                        (KIP-896)
v2   adds error_code for the group; null topics means all that have an offset  (KIP-88)
v3   adds throttle_time_ms                                                     (KIP-124)
v4   the client waits out throttle_time_ms, not the broker                     (KIP-219)
v5   adds committed_leader_epoch                                               (KIP-320)
v6   first flexible version
v7   adds require_stable: UNSTABLE_OFFSET_COMMIT while a transaction is open   (KIP-447)
v8   groups replaces group_id and topics: several groups in one request        (KIP-709)
v9   adds member_id and member_epoch, checked for groups of the new protocol   (KIP-848)
v10  topic_id replaces name; may answer UNKNOWN_TOPIC_ID                       (KIP-848)

A partition without a committed offset is answered with offset -1 and no error.  The structs with
a plural name (`OffsetFetchRequestTopics`, ...) are those of v8 and later.
"""

from ottla.wire.schema import NO_UUID, Bool, Int16, Int32, Int64, String, Uuid, at, message, struct


@struct
class OffsetFetchRequestTopic:
    name: String
    partition_indexes: tuple[Int32, ...]


@struct
class OffsetFetchRequestTopics:
    name: String = at("8-9", default="", ignorable=True)
    topic_id: Uuid = at("10+", default=NO_UUID, ignorable=True)
    partition_indexes: tuple[Int32, ...]


@struct
class OffsetFetchRequestGroup:
    group_id: String
    member_id: String | None = at("9+", default=None, ignorable=True)
    member_epoch: Int32 = at("9+", default=-1, ignorable=True)
    topics: tuple[OffsetFetchRequestTopics, ...] | None


@message(key=9, versions="1-10", flexible="6+")
class OffsetFetchRequest:
    group_id: String = at("0-7", default="")
    topics: tuple[OffsetFetchRequestTopic, ...] | None = at("0-7", default=(), nullable="2-7")
    groups: tuple[OffsetFetchRequestGroup, ...] = at("8+", default=())
    require_stable: Bool = at("7+", default=False)


@struct
class OffsetFetchResponsePartition:
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = at("5-7", default=-1, ignorable=True)
    metadata: String | None
    error_code: Int16 = 0


@struct
class OffsetFetchResponseTopic:
    name: String
    partitions: tuple[OffsetFetchResponsePartition, ...]


@struct
class OffsetFetchResponsePartitions:
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = -1
    metadata: String | None
    error_code: Int16 = 0


@struct
class OffsetFetchResponseTopics:
    name: String = at("8-9", default="", ignorable=True)
    topic_id: Uuid = at("10+", default=NO_UUID, ignorable=True)
    partitions: tuple[OffsetFetchResponsePartitions, ...]


@struct
class OffsetFetchResponseGroup:
    group_id: String
    topics: tuple[OffsetFetchResponseTopics, ...]
    error_code: Int16 = 0


@message(key=9, versions="1-10", flexible="6+")
class OffsetFetchResponse:
    throttle_time_ms: Int32 = at("3+", default=0, ignorable=True)
    topics: tuple[OffsetFetchResponseTopic, ...] = at("0-7", default=())
    error_code: Int16 = at("2-7", default=0, ignorable=True)
    groups: tuple[OffsetFetchResponseGroup, ...] = at("8+", default=())
