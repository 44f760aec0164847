"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources."""

import pytest

from ottla.broker.config import BrokerConfig
from ottla.cluster.alterations import Operator
from ottla.cluster.configs import ConfigSource, ResourceType
from ottla.config import ConfigType, settings_of
from ottla.errors import ErrorCode
from ottla.log.config import LogConfig, broker_level
from ottla.wire.messages import alter_configs, incremental_alter_configs
from ottla.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from ottla.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from tests.broker_fixture import LittleBroker, each_version

TOPIC = ResourceType.TOPIC
BROKER = ResourceType.BROKER
NEWEST_DESCRIBE = 4
NEWEST_ALTER = 2
NEWEST_INCREMENTAL = 1

Row = tuple[int, str, int]
"""Type and name of a resource, and its error code."""
Operated = tuple[int, str, list[tuple[str, int, str | None]]]
"""Type and name of a resource, and setting, operator and value of each operation."""


def with_topic() -> LittleBroker:
    broker = LittleBroker({"log.retention.hours": 2})
    broker.create("orders", configs=[("retention.ms", "5")])
    return broker


def resource(kind: int, name: str, keys: tuple[str, ...] | None = None) -> DescribeConfigsResource:
    return DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)


def describe(
    broker: LittleBroker,
    version: int,
    *resources: DescribeConfigsResource,
    synonyms: bool = False,
    documentation: bool = False,
) -> list[DescribeConfigsResult]:
    response: DescribeConfigsResponse = broker.ask(
        DescribeConfigsRequest(
            resources=resources, include_synonyms=synonyms, include_documentation=documentation
        ),
        version,
    )
    return list(response.results)


def described(
    broker: LittleBroker, kind: int, name: str, *, synonyms: bool = False
) -> dict[str, DescribeConfigsResourceResult]:
    (result,) = describe(broker, NEWEST_DESCRIBE, resource(kind, name), synonyms=synonyms)
    assert result.error_code == 0, result
    return {config.name: config for config in result.configs}


def alter(
    broker: LittleBroker,
    version: int,
    *resources: tuple[int, str, dict[str, str | None]],
    validate_only: bool = False,
) -> list[Row]:
    response: AlterConfigsResponse = broker.ask(
        AlterConfigsRequest(
            resources=tuple(
                alter_configs.AlterConfigsResource(
                    resource_type=kind,
                    resource_name=name,
                    configs=tuple(
                        alter_configs.AlterableConfig(name=key, value=value)
                        for key, value in configs.items()
                    ),
                )
                for kind, name, configs in resources
            ),
            validate_only=validate_only,
        ),
        version,
    )
    for row in response.responses:
        assert (row.error_message is None) is (row.error_code == 0), row
    return [(row.resource_type, row.resource_name, row.error_code) for row in response.responses]


def operate(
    broker: LittleBroker,
    version: int,
    *resources: Operated,
    validate_only: bool = False,
) -> list[Row]:
    response: IncrementalAlterConfigsResponse = broker.ask(
        IncrementalAlterConfigsRequest(
            resources=tuple(
                incremental_alter_configs.AlterConfigsResource(
                    resource_type=kind,
                    resource_name=name,
                    configs=tuple(
                        incremental_alter_configs.AlterableConfig(
                            name=key, config_operation=operator, value=value
                        )
                        for key, operator, value in operations
                    ),
                )
                for kind, name, operations in resources
            ),
            validate_only=validate_only,
        ),
        version,
    )
    for row in response.responses:
        assert (row.error_message is None) is (row.error_code == 0), row
    return [(row.resource_type, row.resource_name, row.error_code) for row in response.responses]


def overrides(broker: LittleBroker) -> dict[str, str]:
    return dict(broker.controller.image.topics["orders"].overrides)


@each_version(DescribeConfigsRequest)
def test_every_setting_of_a_topic_is_described(version: int) -> None:
    (result,) = describe(with_topic(), version, resource(TOPIC, "orders"))

    assert (result.resource_type, result.resource_name) == (TOPIC, "orders")
    configs = {config.name: config for config in result.configs}
    assert configs.keys() == settings_of(LogConfig).keys()
    changed, default = configs["retention.ms"], configs["flush.messages"]
    assert (changed.value, changed.config_source) == ("5", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert (default.value, default.config_source) == (
        str(2**63 - 1),
        ConfigSource.DEFAULT_CONFIG,
    )
    assert all(config.synonyms == () and not config.read_only for config in result.configs)
    if version >= 3:
        assert changed.config_type == ConfigType.LONG
        assert configs["cleanup.policy"].config_type == ConfigType.LIST
        assert changed.documentation is None


@each_version(DescribeConfigsRequest)
def test_every_setting_of_a_broker_is_described(version: int) -> None:
    (result,) = describe(with_topic(), version, resource(BROKER, "1"))

    configs = {config.name: config for config in result.configs}
    assert configs.keys() == settings_of(BrokerConfig).keys() | broker_level().keys()
    hours = configs["log.retention.hours"]
    assert (hours.value, hours.config_source) == ("2", ConfigSource.STATIC_BROKER_CONFIG)
    assert configs["node.id"].read_only
    assert not configs["log.retention.ms"].read_only


def test_synonyms_are_told_if_they_are_asked_for() -> None:
    retention = described(with_topic(), TOPIC, "orders", synonyms=True)["retention.ms"]
    assert [(s.name, s.value, s.source) for s in retention.synonyms] == [
        ("retention.ms", "5", ConfigSource.DYNAMIC_TOPIC_CONFIG),
        ("log.retention.hours", "2", ConfigSource.STATIC_BROKER_CONFIG),
        ("log.retention.hours", "168", ConfigSource.DEFAULT_CONFIG),
    ]


@each_version(DescribeConfigsRequest, low=3)
@pytest.mark.parametrize(("kind", "name"), [(TOPIC, "orders"), (BROKER, "1")])
def test_documentation_is_told_if_it_is_asked_for(kind: int, name: str, version: int) -> None:
    (result,) = describe(with_topic(), version, resource(kind, name), documentation=True)
    assert result.configs
    assert all(config.documentation for config in result.configs)


@each_version(DescribeConfigsRequest)
def test_a_client_can_ask_for_some_settings_only(version: int) -> None:
    keys = ("retention.ms", "no.such", "cleanup.policy")
    some, all_of_them = describe(
        with_topic(), version, resource(TOPIC, "orders", keys), resource(TOPIC, "orders", ())
    )
    assert {config.name for config in some.configs} == {"retention.ms", "cleanup.policy"}
    assert len(all_of_them.configs) == len(settings_of(LogConfig))


@each_version(DescribeConfigsRequest)
def test_a_resource_without_settings_says_why_and_spoils_no_other(version: int) -> None:
    *bad, good = describe(
        with_topic(),
        version,
        resource(TOPIC, "nowhere"),
        resource(TOPIC, "a/b"),
        resource(BROKER, "2"),
        resource(BROKER, "one"),
        resource(99, "orders"),
        resource(TOPIC, "orders"),
    )
    assert [(result.resource_name, result.error_code) for result in bad] == [
        ("nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("2", ErrorCode.INVALID_REQUEST),
        ("one", ErrorCode.INVALID_REQUEST),
        ("orders", ErrorCode.INVALID_REQUEST),
    ]
    assert all(result.error_message and result.configs == () for result in bad)
    assert (good.error_code, good.error_message) == (0, None)


@each_version(IncrementalAlterConfigsRequest)
def test_some_settings_change_and_the_others_stay(version: int) -> None:
    broker = with_topic()
    rows = operate(
        broker,
        version,
        (
            TOPIC,
            "orders",
            [
                ("max.message.bytes", Operator.SET, "7"),
                ("cleanup.policy", Operator.APPEND, "compact"),
            ],
        ),
    )
    assert rows == [(TOPIC, "orders", 0)]
    assert overrides(broker) == {
        "retention.ms": "5",
        "max.message.bytes": "7",
        "cleanup.policy": "delete,compact",
    }
    assert broker.partition("orders").config.max_message_bytes == 7


@each_version(IncrementalAlterConfigsRequest)
def test_a_deleted_setting_falls_back_to_the_brokers(version: int) -> None:
    broker = with_topic()
    rows = operate(broker, version, (TOPIC, "orders", [("retention.ms", Operator.DELETE, None)]))
    assert rows == [(TOPIC, "orders", 0)]
    assert broker.partition("orders").config.retention_ms == 2 * 3600 * 1000


@each_version(IncrementalAlterConfigsRequest)
def test_an_operation_that_cannot_be_done_says_why_and_spoils_no_other(version: int) -> None:
    broker = with_topic()
    rows = operate(
        broker,
        version,
        (TOPIC, "nowhere", [("retention.ms", Operator.SET, "7")]),
        (BROKER, "1", [("node.id", Operator.SET, "7")]),
        (BROKER, "7", [("log.retention.ms", Operator.SET, "7")]),
        (ResourceType.GROUP, "g", [("retention.ms", Operator.SET, "7")]),
        (TOPIC, "orders", [("retention.ms", Operator.SET, "8")]),
    )
    assert rows == [
        (TOPIC, "nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (BROKER, "1", ErrorCode.INVALID_REQUEST),
        (BROKER, "7", ErrorCode.INVALID_REQUEST),
        (ResourceType.GROUP, "g", ErrorCode.INVALID_REQUEST),
        (TOPIC, "orders", 0),
    ]
    assert overrides(broker) == {"retention.ms": "8"}


@pytest.mark.parametrize(
    ("operation", "error"),
    [
        (("retention.ms", Operator.APPEND, "7"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", Operator.SET, "soon"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", Operator.SET, None), ErrorCode.INVALID_REQUEST),
        (("retention.ms", 9, "7"), ErrorCode.INVALID_REQUEST),
        (("no.such", Operator.SET, "7"), ErrorCode.INVALID_CONFIG),
    ],
)
def test_an_operation_must_fit_its_setting(
    operation: tuple[str, int, str | None], error: ErrorCode
) -> None:
    broker = with_topic()
    rows = operate(broker, NEWEST_INCREMENTAL, (TOPIC, "orders", [operation]))
    assert rows == [(TOPIC, "orders", error)]
    assert overrides(broker) == {"retention.ms": "5"}


def test_a_resource_that_occurs_twice_is_refused_twice() -> None:
    broker = with_topic()
    change: Operated = (TOPIC, "orders", [("retention.ms", Operator.SET, "7")])
    rows = operate(broker, NEWEST_INCREMENTAL, change, change)
    assert rows == [(TOPIC, "orders", ErrorCode.INVALID_REQUEST)] * 2
    assert overrides(broker) == {"retention.ms": "5"}


def test_a_dry_run_changes_no_setting() -> None:
    broker = with_topic()
    change: Operated = (TOPIC, "orders", [("retention.ms", Operator.SET, "7")])
    assert operate(broker, NEWEST_INCREMENTAL, change, validate_only=True) == [(TOPIC, "orders", 0)]
    rows = alter(broker, NEWEST_ALTER, (TOPIC, "orders", {}), validate_only=True)
    assert rows == [(TOPIC, "orders", 0)]
    assert overrides(broker) == {"retention.ms": "5"}


def test_settings_of_one_broker_come_before_those_of_all_brokers() -> None:
    broker = with_topic()
    rows = operate(
        broker,
        NEWEST_INCREMENTAL,
        (BROKER, "", [("log.segment.bytes", Operator.SET, "2000000")]),
        (BROKER, "1", [("log.segment.bytes", Operator.SET, "3000000")]),
    )
    assert rows == [(BROKER, "", 0), (BROKER, "1", 0)]
    own = described(broker, BROKER, "1")["log.segment.bytes"]
    shared = described(broker, BROKER, "")
    assert (own.value, own.config_source) == ("3000000", ConfigSource.DYNAMIC_BROKER_CONFIG)
    assert list(shared) == ["log.segment.bytes"]
    assert shared["log.segment.bytes"].value == "2000000"
    source = shared["log.segment.bytes"].config_source
    assert source == ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    assert described(broker, TOPIC, "orders")["segment.bytes"].value == "3000000"


@each_version(AlterConfigsRequest)
def test_the_old_way_replaces_all_settings(version: int) -> None:
    broker = with_topic()
    rows = alter(broker, version, (TOPIC, "orders", {"max.message.bytes": "7"}))
    assert rows == [(TOPIC, "orders", 0)]
    assert overrides(broker) == {"max.message.bytes": "7"}


@each_version(AlterConfigsRequest)
def test_the_old_way_refuses_what_the_new_one_does(version: int) -> None:
    broker = with_topic()
    broker.create("other")
    rows = alter(
        broker,
        version,
        (TOPIC, "nowhere", {"retention.ms": "7"}),
        (TOPIC, "other", {"no.such": "7"}),
        (TOPIC, "orders", {"retention.ms": None}),
        (ResourceType.BROKER_LOGGER, "1", {}),
    )
    assert rows == [
        (TOPIC, "nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "other", ErrorCode.INVALID_CONFIG),
        (TOPIC, "orders", ErrorCode.INVALID_REQUEST),
        (ResourceType.BROKER_LOGGER, "1", ErrorCode.INVALID_REQUEST),
    ]
    assert overrides(broker) == {"retention.ms": "5"}


def listed(broker: LittleBroker, version: int, *types: int) -> ListConfigResourcesResponse:
    response: ListConfigResourcesResponse = broker.ask(
        ListConfigResourcesRequest(resource_types=types), version
    )
    return response


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ((), [(BROKER, "1"), (TOPIC, "a"), (TOPIC, "orders")]),
        ((TOPIC,), [(TOPIC, "a"), (TOPIC, "orders")]),
        ((BROKER, BROKER), [(BROKER, "1")]),
        ((ResourceType.GROUP, ResourceType.CLIENT_METRICS, ResourceType.BROKER_LOGGER), []),
    ],
)
def test_resources_are_listed_by_type(
    types: tuple[int, ...], expected: list[tuple[int, str]]
) -> None:
    broker = with_topic()
    broker.create("a")
    response = listed(broker, 1, *types)
    assert response.error_code == 0
    found = [(found.resource_type, found.resource_name) for found in response.config_resources]
    assert found == expected


def test_v0_lists_client_metrics_and_there_are_none() -> None:
    response = listed(with_topic(), 0)
    assert (response.error_code, response.config_resources) == (0, ())


def test_an_unknown_type_of_resource_cannot_be_listed() -> None:
    response = listed(with_topic(), 1, TOPIC, 3)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert response.config_resources == ()
