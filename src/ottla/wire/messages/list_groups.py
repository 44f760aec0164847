"""ListGroups (key 16): the groups that one broker coordinates.

v1  adds throttle_time_ms                                  (KIP-124)
v2  the client waits out throttle_time_ms, not the broker  (KIP-219)
v3  first flexible version
v4  adds states_filter and group_state                     (KIP-518)
v5  adds types_filter and group_type                       (KIP-848)

Each broker knows its own groups only: ask all of them.
"""

from ottla.wire.schema import Int16, Int32, String, at, message, struct


@message(key=16, versions="0-5", flexible="3+")
class ListGroupsRequest:
    states_filter: tuple[String, ...] = at("4+", default=())  # empty: all
    types_filter: tuple[String, ...] = at("5+", default=())  # empty: all


@struct
class ListedGroup:
    group_id: String
    protocol_type: String
    group_state: String = at("4+", default="", ignorable=True)
    group_type: String = at("5+", default="", ignorable=True)


@message(key=16, versions="0-5", flexible="3+")
class ListGroupsResponse:
    throttle_time_ms: Int32 = at("1+", default=0, ignorable=True)
    error_code: Int16 = 0
    groups: tuple[ListedGroup, ...]
