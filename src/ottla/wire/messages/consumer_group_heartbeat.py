"""ConsumerGroupHeartbeat (key 68): join, stay in and leave a group whose broker assigns.

v0  the first version                                         (KIP-848)
v1  adds subscribed_topic_regex; the member makes its own id  (KIP-848, KIP-1082)

One request does what JoinGroup, SyncGroup, Heartbeat and LeaveGroup do for classic groups.  Fields
that did not change since the last heartbeat are null (-1 for `rebalance_timeout_ms`), so that most
requests are nearly empty; a null assignment in the response means "as before", not "nothing".

librdkafka speaks exactly v1.
"""

from ottla.wire.schema import Int16, Int32, String, Uuid, at, message, struct


@struct
class TopicPartitions:
    topic_id: Uuid
    partitions: tuple[Int32, ...]


@message(key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatRequest:
    group_id: String
    member_id: String
    member_epoch: Int32  # 0: join, -1: leave, -2: a static member leaves for a while
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: tuple[String, ...] | None = None
    subscribed_topic_regex: String | None = at("1+", default=None)
    server_assignor: String | None = None
    topic_partitions: tuple[TopicPartitions, ...] | None = None  # owned; null: as before


@struct
class Assignment:
    topic_partitions: tuple[TopicPartitions, ...]


@message(key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    assignment: Assignment | None = None
