"""JoinGroup (key 11): enter a group, and wait for its next generation.

v1  adds rebalance_timeout_ms, apart from the session's               (KIP-62)
v2  adds throttle_time_ms                                             (KIP-124)
v3  the client waits out throttle_time_ms, not the broker             (KIP-219)
v4  the first join is answered MEMBER_ID_REQUIRED                     (KIP-394)
v5  adds group_instance_id, static membership                         (KIP-345)
v6  first flexible version
v7  adds protocol_type to the response; protocol_name may be null     (KIP-559)
v8  adds reason, for the logs                                         (KIP-800)
v9  adds skip_assignment: a static leader came back, nothing changed  (KIP-814)

v4 costs new members a second round trip, and spares the group the members that never return: the
error carries the id with which to join again.  Static members are let in at once.  In v0 the
session time-out also limits the rebalance.
"""

from ottla.wire.schema import Bool, Bytes, Int16, Int32, String, at, message, struct


@struct
class JoinGroupRequestProtocol:
    name: String
    metadata: Bytes


@message(key=11, versions="0-9", flexible="6+")
class JoinGroupRequest:
    group_id: String
    session_timeout_ms: Int32
    rebalance_timeout_ms: Int32 = at("1+", default=-1, ignorable=True)  # -1: session_timeout_ms
    member_id: String  # empty: not yet known
    group_instance_id: String | None = at("5+", default=None)
    protocol_type: String
    protocols: tuple[JoinGroupRequestProtocol, ...]
    reason: String | None = at("8+", default=None, ignorable=True)


@struct
class JoinGroupResponseMember:
    member_id: String
    group_instance_id: String | None = at("5+", default=None, ignorable=True)
    metadata: Bytes


@message(key=11, versions="0-9", flexible="6+")
class JoinGroupResponse:
    throttle_time_ms: Int32 = at("2+", default=0, ignorable=True)
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: String | None = at("7+", default=None, ignorable=True)
    protocol_name: String | None = at("0+", nullable="7+")
    leader: String
    skip_assignment: Bool = at("9+", default=False)
    member_id: String
    members: tuple[JoinGroupResponseMember, ...]  # for the leader only
