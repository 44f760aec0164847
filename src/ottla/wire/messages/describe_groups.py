"""DescribeGroups (key 15): state, protocol and members of classic groups.

v1  adds throttle_time_ms                                       (KIP-124)
v2  the client waits out throttle_time_ms, not the broker       (KIP-219)
v3  adds authorized_operations, and the wish for them           (KIP-430)
v4  adds group_instance_id, static membership                   (KIP-345)
v5  first flexible version; may carry our story, see below
v6  adds error_message; an unknown group is GROUP_ID_NOT_FOUND  (KIP-1043)

Before v6 an unknown group is answered as a group in state Dead, without an error.

`authorized_operations` is a bit field: bit n stands for ACL operation n, and -2147483648 (no bit
but the sign) says that nobody asked.

`include_story` and `story` are Ottla's own: what the group waits for, its last rebalances, and when
it committed what. They are tagged, so others skip them, and a story is told only to who asks. Its
times are milliseconds since 1970 by the clock of the coordinator, which says what time it has.
"""

from enum import IntEnum
from typing import Final

from ottla.wire.schema import (
    OWN_TAGS,
    Bool,
    Bytes,
    Int8,
    Int16,
    Int32,
    Int64,
    String,
    at,
    message,
    struct,
)

STORY_TAG: Final = OWN_TAGS


class Awaited(IntEnum):
    """What a group waits for one of its members to do."""

    JOIN = 0  # join again: the group rebalances
    FIRST_JOIN = 1  # join with the id that it was given
    ASSIGNMENT = 2  # share out the partitions: it is the leader
    SYNC = 3  # ask for its assignment
    HEARTBEAT = 4  # be heard of: more than half of its session has passed in silence
    REVOCATION = 5  # say that it gave up partitions that shall be another's (KIP-848)
    EPOCH = 6  # follow to the epoch of the group, with its next heartbeat (KIP-848)
    RETURN = 7  # come back: it is a static member that left for a while (KIP-848)


@message(key=15, versions="0-6", flexible="5+")
class DescribeGroupsRequest:
    groups: tuple[String, ...]
    include_authorized_operations: Bool = at("3+", default=False)
    include_story: Bool = at("5+", default=False, tag=STORY_TAG, ignorable=True)


@struct
class AwaitedMember:
    member_id: String
    what: Int8  # an `Awaited`; a newer broker may wait for more
    since_ms: Int64 = -1  # -1: longer than the coordinator remembers
    until_ms: Int64 = -1  # then the group goes on without; -1: there is no such time


@struct
class ToldRebalance:
    began_ms: Int64
    ended_ms: Int64 = -1  # -1: it goes on
    generation_id: Int32 = -1  # that it led to; -1: none, the next rebalance came first
    member_id: String  # who set it off; empty: the coordinator
    client_id: String
    client_host: String
    reason: String


@struct
class CommittedPartition:
    partition_index: Int32
    committed_ms: Int64


@struct
class CommittedTopic:
    name: String
    partitions: tuple[CommittedPartition, ...]


@struct
class GroupStory:
    now_ms: Int64
    since_ms: Int64 = -1  # how long the group is in its state; -1: not known
    until_ms: Int64 = -1  # when its wait ends at the latest; -1: it does not wait
    generation_id: Int32  # of a consumer group its epoch, here and in rebalances
    awaited: tuple[AwaitedMember, ...]
    rebalances: tuple[ToldRebalance, ...]  # the last ones, oldest first
    commits: tuple[CommittedTopic, ...]


@struct
class DescribedGroupMember:
    member_id: String
    group_instance_id: String | None = at("4+", default=None, ignorable=True)
    client_id: String
    client_host: String
    member_metadata: Bytes  # empty unless the group is Stable
    member_assignment: Bytes


@struct
class DescribedGroup:
    error_code: Int16 = 0
    error_message: String | None = at("6+", default=None)
    group_id: String
    group_state: String
    protocol_type: String
    protocol_data: String
    members: tuple[DescribedGroupMember, ...]
    authorized_operations: Int32 = at("3+", default=-2147483648)  # bits; -2147483648: not asked for
    story: GroupStory | None = at("5+", default=None, tag=STORY_TAG, ignorable=True)


@message(key=15, versions="0-6", flexible="5+")
class DescribeGroupsResponse:
    throttle_time_ms: Int32 = at("1+", default=0, ignorable=True)
    groups: tuple[DescribedGroup, ...]
