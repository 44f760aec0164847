"""AlterConfigs (key 33): replace all settings of a topic or broker.

v0  the first version                                      (KIP-133)
v1  the client waits out throttle_time_ms, not the broker  (KIP-219)
v2  first flexible version

A setting that is not in the request falls back to its default, also one that somebody else has just
changed.  IncrementalAlterConfigs is the better request; old clients still send this one.

Resource types: 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group.  A broker is named
by its id in decimal; the empty name stands for the default of all brokers.
"""

from ottla.wire.schema import Bool, Int8, Int16, Int32, String, message, struct


@struct
class AlterableConfig:
    name: String
    value: String | None  # null: the default


@struct
class AlterConfigsResource:
    resource_type: Int8
    resource_name: String
    configs: tuple[AlterableConfig, ...]


@message(key=33, versions="0-2", flexible="2+")
class AlterConfigsRequest:
    resources: tuple[AlterConfigsResource, ...]
    validate_only: Bool


@struct
class AlterConfigsResourceResponse:
    error_code: Int16 = 0
    error_message: String | None = None
    resource_type: Int8
    resource_name: String


@message(key=33, versions="0-2", flexible="2+")
class AlterConfigsResponse:
    throttle_time_ms: Int32 = 0
    responses: tuple[AlterConfigsResourceResponse, ...]
