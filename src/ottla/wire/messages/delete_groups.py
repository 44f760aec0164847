"""DeleteGroups (key 42): delete groups without members, and their offsets.

v0  the first version                                      (KIP-229)
v1  the client waits out throttle_time_ms, not the broker  (KIP-219)
v2  first flexible version
v3  adds error_message                                     (KIP-1331)
"""

from ottla.wire.schema import Int16, Int32, String, at, message, struct


@message(key=42, versions="0-3", flexible="2+")
class DeleteGroupsRequest:
    groups_names: tuple[String, ...]


@struct
class DeletableGroupResult:
    group_id: String
    error_code: Int16 = 0
    error_message: String | None = at("3+", default=None, ignorable=True)


@message(key=42, versions="0-3", flexible="2+")
class DeleteGroupsResponse:
    throttle_time_ms: Int32 = 0
    results: tuple[DeletableGroupResult, ...]
