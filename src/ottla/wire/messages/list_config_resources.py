"""ListConfigResources (key 74): what has settings of its own.

v0  client metrics resources only                              (KIP-714)
v1  adds resource_types and resource_type; no types means all  (KIP-1142)

Resource types: 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group.  A broker is named
by its id in decimal; the empty name stands for the default of all brokers.
"""

from ottla.wire.schema import Int8, Int16, Int32, String, at, message, struct


@message(key=74, versions="0-1", flexible="0+")
class ListConfigResourcesRequest:
    resource_types: tuple[Int8, ...] = at("1+", default=())


@struct
class ConfigResource:
    resource_name: String
    resource_type: Int8 = at("1+", default=16, ignorable=True)  # 16: client metrics


@message(key=74, versions="0-1", flexible="0+")
class ListConfigResourcesResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: tuple[ConfigResource, ...]
