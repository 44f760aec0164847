"""ConsumerGroupDescribe (key 69): epochs, members and assignments of consumer groups.

v0  the first version                                        (KIP-848)
v1  adds member_type: classic members may be in a new group  (KIP-1099)

`authorized_operations` is a bit field: bit n stands for ACL operation n, and -2147483648 (no bit
but the sign) says that nobody asked.

`include_story` and `story` are Ottla's own, as in DescribeGroups: tagged, so others skip them, and
told only to who asks.
"""

from ottla.wire.messages.describe_groups import STORY_TAG, GroupStory
from ottla.wire.schema import Bool, Int8, Int16, Int32, String, Uuid, at, message, struct


@message(key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeRequest:
    group_ids: tuple[String, ...]
    include_authorized_operations: Bool
    include_story: Bool = at("0+", default=False, tag=STORY_TAG, ignorable=True)


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
    instance_id: String | None = None
    rack_id: String | None = None
    member_epoch: Int32
    client_id: String
    client_host: String
    subscribed_topic_names: tuple[String, ...]
    subscribed_topic_regex: String | None = None
    assignment: Assignment
    target_assignment: Assignment
    member_type: Int8 = at("1+", default=-1, ignorable=True)  # -1: unknown, 0: classic, 1: consumer


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
    story: GroupStory | None = at("0+", default=None, tag=STORY_TAG, ignorable=True)


@message(key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeResponse:
    throttle_time_ms: Int32 = 0
    groups: tuple[DescribedGroup, ...]
