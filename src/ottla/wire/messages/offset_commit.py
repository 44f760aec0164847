"""OffsetCommit (key 8): remember how far a group has read.

v2   the oldest version since Kafka 4.0; has retention_time_ms          (KIP-896)
v3   adds throttle_time_ms                                              (KIP-124)
v4   the client waits out throttle_time_ms, not the broker              (KIP-219)
v5   drops retention_time_ms: offsets live as long as their group does  (KIP-211)
v6   adds committed_leader_epoch                                        (KIP-320)
v7   adds group_instance_id, static membership                          (KIP-345)
v8   first flexible version
v9   may carry a member epoch; STALE_MEMBER_EPOCH, GROUP_ID_NOT_FOUND   (KIP-848)
v10  topic_id replaces name                                             (KIP-848)

Generation -1 with an empty member id is a commit from outside the group: allowed only while the
group has no members.
"""

from ottla.wire.schema import NO_UUID, Int16, Int32, Int64, String, Uuid, at, message, struct


@struct
class OffsetCommitRequestPartition:
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = at("6+", default=-1, ignorable=True)
    committed_metadata: String | None


@struct
class OffsetCommitRequestTopic:
    name: String = at("0-9", default="", ignorable=True)
    topic_id: Uuid = at("10+", default=NO_UUID, ignorable=True)
    partitions: tuple[OffsetCommitRequestPartition, ...]


@message(key=8, versions="2-10", flexible="8+")
class OffsetCommitRequest:
    group_id: String
    generation_id_or_member_epoch: Int32 = -1  # -1: not a member
    member_id: String
    group_instance_id: String | None = at("7+", default=None)
    retention_time_ms: Int64 = at("0-4", default=-1, ignorable=True)  # -1: as the broker is set
    topics: tuple[OffsetCommitRequestTopic, ...]


@struct
class OffsetCommitResponsePartition:
    partition_index: Int32
    error_code: Int16 = 0


@struct
class OffsetCommitResponseTopic:
    name: String = at("0-9", default="", ignorable=True)
    topic_id: Uuid = at("10+", default=NO_UUID, ignorable=True)
    partitions: tuple[OffsetCommitResponsePartition, ...]


@message(key=8, versions="2-10", flexible="8+")
class OffsetCommitResponse:
    throttle_time_ms: Int32 = at("3+", default=0, ignorable=True)
    topics: tuple[OffsetCommitResponseTopic, ...]
