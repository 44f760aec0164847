"""DescribeGroups (key 15): state, protocol and members of classic groups.

v1  adds throttle_time_ms                                       (KIP-124)
v2  the client waits out throttle_time_ms, not the broker       (KIP-219)
v3  adds authorized_operations, and the wish for them           (KIP-430)
v4  adds group_instance_id, static membership                   (KIP-345)
v5  first flexible version
v6  adds error_message; an unknown group is GROUP_ID_NOT_FOUND  (KIP-1043)

Before v6 an unknown group is answered as a group in state Dead, without an error.

`authorized_operations` is a bit field: bit n stands for ACL operation n, and -2147483648 (no bit
but the sign) says that nobody asked.
"""

from ottla.wire.schema import Bool, Bytes, Int16, Int32, String, at, message, struct


@message(key=15, versions="0-6", flexible="5+")
class DescribeGroupsRequest:
    groups: tuple[String, ...]
    include_authorized_operations: Bool = at("3+", default=False)


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


@message(key=15, versions="0-6", flexible="5+")
class DescribeGroupsResponse:
    throttle_time_ms: Int32 = at("1+", default=0, ignorable=True)
    groups: tuple[DescribedGroup, ...]
