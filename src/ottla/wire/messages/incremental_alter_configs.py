"""IncrementalAlterConfigs (key 44): change some settings, and leave the others alone.

v0  the first version                                     (KIP-339)
v1  first flexible version

Resource types: 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group.  A broker is named
by its id in decimal; the empty name stands for the default of all brokers.
"""

from ottla.wire.schema import Bool, Int8, Int16, Int32, String, message, struct


@struct
class AlterableConfig:
    name: String
    config_operation: Int8  # 0: set, 1: delete, 2: append, 3: subtract
    value: String | None


@struct
class AlterConfigsResource:
    resource_type: Int8
    resource_name: String
    configs: tuple[AlterableConfig, ...]


@message(key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest:
    resources: tuple[AlterConfigsResource, ...]
    validate_only: Bool


@struct
class AlterConfigsResourceResponse:
    error_code: Int16 = 0
    error_message: String | None = None
    resource_type: Int8
    resource_name: String


@message(key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse:
    throttle_time_ms: Int32 = 0
    responses: tuple[AlterConfigsResourceResponse, ...]
