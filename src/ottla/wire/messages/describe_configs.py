"""DescribeConfigs (key 32): the settings of topics and brokers, and where each comes from.

v1  the oldest version since Kafka 4.0; source and synonyms of each value  (KIP-226, KIP-896)
v2  the client waits out throttle_time_ms, not the broker                  (KIP-219)
v3  adds config_type and documentation, and the wish for it                (KIP-569)
v4  first flexible version

Resource types: 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group.  A broker is named
by its id in decimal; the empty name stands for the default of all brokers.

The response lists every setting, not only those that were changed: clients show the defaults.
"""

from ottla.wire.schema import Bool, Int8, Int16, Int32, String, at, message, struct


@struct
class DescribeConfigsResource:
    resource_type: Int8
    resource_name: String
    configuration_keys: tuple[String, ...] | None  # null: all


@message(key=32, versions="1-4", flexible="4+")
class DescribeConfigsRequest:
    resources: tuple[DescribeConfigsResource, ...]
    include_synonyms: Bool = False
    include_documentation: Bool = at("3+", default=False)


@struct
class DescribeConfigsSynonym:
    name: String
    value: String | None
    source: Int8  # numbered as config_source


@struct
class DescribeConfigsResourceResult:
    name: String
    value: String | None
    read_only: Bool
    # 1: this topic, 2: this broker, 3: all brokers, 4: the broker's own file, 5: default,
    # 6: this logger, 7: these client metrics, 8: this group.
    config_source: Int8 = -1
    is_sensitive: Bool
    synonyms: tuple[DescribeConfigsSynonym, ...]
    # 1: boolean, 2: string, 3: int, 4: short, 5: long, 6: double, 7: list, 8: class, 9: password.
    config_type: Int8 = at("3+", default=0, ignorable=True)
    documentation: String | None = at("3+", default="", ignorable=True)


@struct
class DescribeConfigsResult:
    error_code: Int16 = 0
    error_message: String | None = None
    resource_type: Int8
    resource_name: String
    configs: tuple[DescribeConfigsResourceResult, ...]


@message(key=32, versions="1-4", flexible="4+")
class DescribeConfigsResponse:
    throttle_time_ms: Int32 = 0
    results: tuple[DescribeConfigsResult, ...]
