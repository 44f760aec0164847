"""LeaveGroup (key 13): members leave a group, or are removed from it.

v1  adds throttle_time_ms                                                     (KIP-124)
v2  the client waits out throttle_time_ms, not the broker                     (KIP-219)
v3  members replaces member_id: an admin may remove several, static ones too  (KIP-345)
v4  first flexible version
v5  adds reason, for the logs                                                 (KIP-800)
"""

from ottla.wire.schema import Int16, Int32, String, at, message, struct


@struct
class MemberIdentity:
    member_id: String
    group_instance_id: String | None = None
    reason: String | None = at("5+", default=None, ignorable=True)


@message(key=13, versions="0-5", flexible="4+")
class LeaveGroupRequest:
    group_id: String
    member_id: String = at("0-2", default="")
    members: tuple[MemberIdentity, ...] = at("3+", default=())


@struct
class MemberResponse:
    member_id: String
    group_instance_id: String | None
    error_code: Int16 = 0


@message(key=13, versions="0-5", flexible="4+")
class LeaveGroupResponse:
    throttle_time_ms: Int32 = at("1+", default=0, ignorable=True)
    error_code: Int16 = 0
    members: tuple[MemberResponse, ...] = at("3+", default=())
