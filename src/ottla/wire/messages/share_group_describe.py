"""ShareGroupDescribe (key 77): epochs, members and assignments of share groups.

v1  the first stable version; Kafka 4.0 had a v0 on trial  (KIP-932)

`authorized_operations` is a bit field: bit n stands for ACL operation n, and -2147483648 (no bit
but the sign) says that nobody asked.
"""

from ottla.wire.schema import Bool, Int16, Int32, String, Uuid, message, struct


@message(key=77, versions="1", flexible="0+")
class ShareGroupDescribeRequest:
    group_ids: tuple[String, ...]
    include_authorized_operations: Bool


@struct
class TopicPartitions:
    topic_id: Uuid
    topic_name: String
    partitions: tuple[Int32, ...]


@struct
class Assignment:
    topic_partitions: tuple[TopicPartitions, ...]


@struct
class Member:
    member_id: String
    rack_id: String | None = None
    member_epoch: Int32
    client_id: String
    client_host: String
    subscribed_topic_names: tuple[String, ...]
    assignment: Assignment


@struct
class DescribedGroup:
    error_code: Int16 = 0
    error_message: String | None = None
    group_id: String
    group_state: String
    group_epoch: Int32
    assignment_epoch: Int32
    assignor_name: String
    members: tuple[Member, ...]
    authorized_operations: Int32 = -2147483648  # bits; -2147483648: not asked for


@message(key=77, versions="1", flexible="0+")
class ShareGroupDescribeResponse:
    throttle_time_ms: Int32 = 0
    groups: tuple[DescribedGroup, ...]
