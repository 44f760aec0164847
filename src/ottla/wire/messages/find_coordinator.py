"""FindCoordinator (key 10): which broker coordinates a group or a transactional id.

v1  adds key_type, throttle_time_ms, error_message                       (KIP-98)
v2  the client waits out throttle_time_ms, not the broker                (KIP-219)
v3  first flexible version
v4  coordinator_keys and coordinators replace the single key and answer  (KIP-699)
v5  may answer TRANSACTION_ABORTABLE: abort, and the producer lives on   (KIP-890)
v6  key_type 2: a share partition, keyed group:topic-id:partition        (KIP-932)
"""

from ottla.wire.schema import Int8, Int16, Int32, String, at, message, struct


@message(key=10, versions="0-6", flexible="3+")
class FindCoordinatorRequest:
    key: String = at("0-3", default="")
    key_type: Int8 = at("1+", default=0)  # 0: group, 1: transactional id, 2: share partition
    coordinator_keys: tuple[String, ...] = at("4+", default=())


@struct
class Coordinator:
    key: String
    node_id: Int32
    host: String
    port: Int32
    error_code: Int16 = 0
    error_message: String | None = None


@message(key=10, versions="0-6", flexible="3+")
class FindCoordinatorResponse:
    throttle_time_ms: Int32 = at("1+", default=0, ignorable=True)
    error_code: Int16 = at("0-3", default=0)
    error_message: String | None = at("1-3", default=None, ignorable=True)
    node_id: Int32 = at("0-3", default=0)
    host: String = at("0-3", default="")
    port: Int32 = at("0-3", default=0)
    coordinators: tuple[Coordinator, ...] = at("4+", default=())
