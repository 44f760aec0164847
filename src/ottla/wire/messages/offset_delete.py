"""OffsetDelete (key 47): forget a group's offsets of topics that it no longer reads.

v0  the only version, and not flexible                    (KIP-496)

In the response `error_code` comes before `throttle_time_ms`; nearly everywhere else it is the other
way round.  A topic to which the group is subscribed is answered GROUP_SUBSCRIBED_TO_TOPIC.
"""

from ottla.wire.schema import Int16, Int32, String, message, struct


@struct
class OffsetDeleteRequestPartition:
    partition_index: Int32


@struct
class OffsetDeleteRequestTopic:
    name: String
    partitions: tuple[OffsetDeleteRequestPartition, ...]


@message(key=47, versions="0")
class OffsetDeleteRequest:
    group_id: String
    topics: tuple[OffsetDeleteRequestTopic, ...]


@struct
class OffsetDeleteResponsePartition:
    partition_index: Int32
    error_code: Int16 = 0


@struct
class OffsetDeleteResponseTopic:
    name: String
    partitions: tuple[OffsetDeleteResponsePartition, ...]


@message(key=47, versions="0")
class OffsetDeleteResponse:
    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: tuple[OffsetDeleteResponseTopic, ...]
