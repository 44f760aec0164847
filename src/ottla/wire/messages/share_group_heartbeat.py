"""ShareGroupHeartbeat (key 76): join, stay in and leave a share group.

v1  the first stable version; Kafka 4.0 had a v0 on trial  (KIP-932)

As in ConsumerGroupHeartbeat, what did not change is null.  The member makes its own id.  Members
share partitions: one may be assigned to several.
"""

from ottla.wire.schema import Int16, Int32, String, Uuid, message, struct


@message(key=76, versions="1", flexible="0+")
class ShareGroupHeartbeatRequest:
    group_id: String
    member_id: String
    member_epoch: Int32  # 0: join, -1: leave
    rack_id: String | None = None
    subscribed_topic_names: tuple[String, ...] | None = None


@struct
class TopicPartitions:
    topic_id: Uuid
    partitions: tuple[Int32, ...]


@struct
class Assignment:
    topic_partitions: tuple[TopicPartitions, ...]


@message(key=76, versions="1", flexible="0+")
class ShareGroupHeartbeatResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    assignment: Assignment | None = None
