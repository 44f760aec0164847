"""SyncGroup (key 14): the leader brings the assignment, the others wait for theirs.

v1  adds throttle_time_ms                                        (KIP-124)
v2  the client waits out throttle_time_ms, not the broker        (KIP-219)
v3  adds group_instance_id, static membership                    (KIP-345)
v4  first flexible version
v5  adds protocol_type and protocol_name; a mismatch is refused  (KIP-559)

Assignments are bytes to the coordinator: their meaning is agreed among the members
(`ottla.wire.stored.consumer_protocol`).
"""

from ottla.wire.schema import Bytes, Int16, Int32, String, at, message, struct


@struct
class SyncGroupRequestAssignment:
    member_id: String
    assignment: Bytes


@message(key=14, versions="0-5", flexible="4+")
class SyncGroupRequest:
    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: String | None = at("3+", default=None)
    protocol_type: String | None = at("5+", default=None, ignorable=True)
    protocol_name: String | None = at("5+", default=None, ignorable=True)
    assignments: tuple[SyncGroupRequestAssignment, ...]  # from the leader only


@message(key=14, versions="0-5", flexible="4+")
class SyncGroupResponse:
    throttle_time_ms: Int32 = at("1+", default=0, ignorable=True)
    error_code: Int16 = 0
    protocol_type: String | None = at("5+", default=None, ignorable=True)
    protocol_name: String | None = at("5+", default=None, ignorable=True)
    assignment: Bytes
