"""Heartbeat (key 12): a group member is alive, and asks whether the group is rebalancing.

v1  adds throttle_time_ms                                  (KIP-124)
v2  the client waits out throttle_time_ms, not the broker  (KIP-219)
v3  adds group_instance_id, static membership              (KIP-345)
v4  first flexible version
"""

from ottla.wire.schema import Int16, Int32, String, at, message


@message(key=12, versions="0-4", flexible="4+")
class HeartbeatRequest:
    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: String | None = at("3+", default=None)


@message(key=12, versions="0-4", flexible="4+")
class HeartbeatResponse:
    throttle_time_ms: Int32 = at("1+", default=0, ignorable=True)
    error_code: Int16 = 0
