"""Settings are changed and described as Kafka does: sources, synonyms, refusals."""

import pytest

from ottla.cluster.alterations import (
    ConfigAlteration,
    ConfigOperation,
    ConfigOutcome,
    IncrementalAlteration,
    Operator,
)
from ottla.cluster.changes import BrokerConfigChanged, Change, TopicConfigChanged
from ottla.cluster.configs import ConfigEntry, ConfigSource, ConfigSynonym, ResourceType
from ottla.cluster.controller import Controller
from ottla.cluster.decision import Refusal
from ottla.cluster.store.memory import MemoryStore
from ottla.cluster.topics import NewTopic
from ottla.config import ConfigType, settings_of
from ottla.errors import ErrorCode
from ottla.log.config import LogConfig, broker_level
from tests.cluster_samples import done, opened

TOPIC = ResourceType.TOPIC
BROKER = ResourceType.BROKER


def with_topic(settings: dict[str, object] | None = None) -> Controller:
    controller = opened(settings=settings)
    new = NewTopic(name="orders", configs=[("retention.ms", "5"), ("preallocate", "true")])
    done(controller.create_topics([new]))
    return controller


def altered(controller: Controller, kind: int, name: str, **configs: str | None) -> ConfigOutcome:
    pairs = [(key.replace("_", "."), value) for key, value in configs.items()]
    alteration = ConfigAlteration(resource_type=kind, name=name, configs=pairs)
    (outcome,) = done(controller.alter_configs([alteration]))
    return outcome


def operated(
    controller: Controller, kind: int, name: str, *operations: tuple[str, int, str | None]
) -> ConfigOutcome:
    alteration = IncrementalAlteration(
        resource_type=kind, name=name, operations=[ConfigOperation(*op) for op in operations]
    )
    (outcome,) = done(controller.incremental_alter_configs([alteration]))
    return outcome


def described(controller: Controller, kind: int, name: str) -> dict[str, ConfigEntry]:
    entries = controller.describe_config(kind, name)
    assert not isinstance(entries, Refusal)
    return {entry.name: entry for entry in entries}


def overrides(controller: Controller) -> dict[str, str]:
    return dict(controller.image.topics["orders"].overrides)


def test_altering_replaces_all_settings() -> None:
    controller = with_topic()
    outcome = altered(controller, TOPIC, "orders", max_message_bytes="7")
    assert outcome.error is ErrorCode.NONE
    assert overrides(controller) == {"max.message.bytes": "7"}
    assert controller.topic_config("orders").max_message_bytes == 7
    assert controller.topic_config("orders").retention_ms == 604_800_000


def test_operations_change_some_settings_and_leave_the_others() -> None:
    controller = with_topic()
    outcome = operated(
        controller,
        TOPIC,
        "orders",
        ("max.message.bytes", Operator.SET, "7"),
        ("retention.ms", Operator.DELETE, None),
        ("flush.ms", Operator.DELETE, None),
    )
    assert outcome.error is ErrorCode.NONE
    assert overrides(controller) == {"max.message.bytes": "7", "preallocate": "true"}


def test_lists_are_appended_to_and_subtracted_from() -> None:
    controller = with_topic()
    operated(controller, TOPIC, "orders", ("cleanup.policy", Operator.APPEND, "compact,delete"))
    assert overrides(controller)["cleanup.policy"] == "delete,compact"
    operated(controller, TOPIC, "orders", ("cleanup.policy", Operator.SUBTRACT, "delete,other"))
    assert overrides(controller)["cleanup.policy"] == "compact"


def test_a_list_falls_back_to_the_brokers_before_it_is_appended_to() -> None:
    controller = with_topic({"log.cleanup.policy": "compact"})
    operated(controller, TOPIC, "orders", ("cleanup.policy", Operator.APPEND, "delete"))
    assert overrides(controller)["cleanup.policy"] == "compact,delete"


@pytest.mark.parametrize(
    ("operations", "error"),
    [
        ([("retention.ms", Operator.APPEND, "5")], ErrorCode.INVALID_CONFIG),
        ([("nonsense", Operator.SET, "5")], ErrorCode.INVALID_CONFIG),
        ([("nonsense", Operator.SUBTRACT, "5")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", Operator.SET, None)], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", 9, "5")], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", Operator.SET, "5")] * 2, ErrorCode.INVALID_REQUEST),
        ([("retention.ms", Operator.SET, "-2")], ErrorCode.INVALID_CONFIG),
        ([("min.compaction.lag.ms", Operator.SET, str(2**63))], ErrorCode.INVALID_CONFIG),
    ],
)
def test_operations_that_cannot_be_done_change_nothing(
    operations: list[tuple[str, int, str | None]], error: ErrorCode
) -> None:
    controller = with_topic()
    outcome = operated(controller, TOPIC, "orders", *operations)
    assert outcome.error is error
    assert outcome.message
    assert overrides(controller) == {"retention.ms": "5", "preallocate": "true"}


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (TOPIC, "nothing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "", ErrorCode.INVALID_REQUEST),
        (TOPIC, "a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (ResourceType.BROKER_LOGGER, "1", ErrorCode.INVALID_REQUEST),
        (0, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_resource_that_is_not_there_has_no_settings(
    kind: int, name: str, error: ErrorCode
) -> None:
    controller = with_topic()
    assert altered(controller, kind, name).error is error
    assert operated(controller, kind, name).error is error
    refusal = controller.describe_config(kind, name)
    assert isinstance(refusal, Refusal)
    assert refusal.error is error


def test_settings_without_a_value_or_given_twice_are_refused() -> None:
    controller = with_topic()
    assert altered(controller, TOPIC, "orders", flush_ms=None).error is ErrorCode.INVALID_REQUEST
    twice = ConfigAlteration(
        resource_type=TOPIC, name="orders", configs=[("flush.ms", "1"), ("flush.ms", "2")]
    )
    (outcome,) = done(controller.alter_configs([twice]))
    assert outcome.error is ErrorCode.INVALID_REQUEST


def test_a_resource_that_occurs_twice_is_refused_twice_and_others_are_not() -> None:
    controller = with_topic()
    done(controller.create_topics([NewTopic(name="other")]))
    alterations = [
        ConfigAlteration(resource_type=TOPIC, name=name, configs=[("flush.ms", "1")])
        for name in ("orders", "other", "orders")
    ]
    outcomes = done(controller.alter_configs(alterations))
    assert [(outcome.name, outcome.error) for outcome in outcomes] == [
        ("orders", ErrorCode.INVALID_REQUEST),
        ("other", ErrorCode.NONE),
        ("orders", ErrorCode.INVALID_REQUEST),
    ]


def test_validation_alone_changes_nothing() -> None:
    controller = with_topic()
    alteration = ConfigAlteration(resource_type=TOPIC, name="orders", configs=[])
    (outcome,) = done(controller.alter_configs([alteration], validate_only=True))
    assert outcome.error is ErrorCode.NONE
    assert overrides(controller) == {"retention.ms": "5", "preallocate": "true"}


def test_changed_settings_survive_a_restart() -> None:
    store = MemoryStore()
    controller = opened(store)
    done(controller.create_topics([NewTopic(name="orders", configs=[("flush.ms", "9")])]))
    altered(controller, TOPIC, "orders")
    altered(controller, BROKER, "", log_segment_bytes="1048577")
    again = opened(store)
    assert again.image.topics["orders"].overrides == {}
    assert again.topic_config("orders").segment_bytes == 1_048_577


def test_a_running_broker_takes_new_defaults_for_topics() -> None:
    controller = with_topic({"log.flush.interval.messages": 100})
    assert controller.topic_config("orders").flush_messages == 100

    altered(controller, BROKER, "", log_flush_interval_messages="200", log_retention_ms="8")
    assert controller.topic_config("orders").flush_messages == 200
    assert controller.topic_config("orders").retention_ms == 5

    altered(controller, BROKER, "1", log_flush_interval_messages="300")
    assert controller.topic_config("orders").flush_messages == 300

    operated(controller, BROKER, "1", ("log.flush.interval.messages", Operator.DELETE, None))
    assert controller.topic_config("orders").flush_messages == 200


@pytest.mark.parametrize(
    ("configs", "error"),
    [
        ({"num_partitions": "3"}, ErrorCode.INVALID_REQUEST),
        ({"log_retention_hours": "3"}, ErrorCode.INVALID_REQUEST),
        ({"nonsense": "3"}, ErrorCode.INVALID_CONFIG),
        ({"log_segment_bytes": "3"}, ErrorCode.INVALID_CONFIG),
        ({"log_cleaner_max_compaction_lag_ms": "999"}, ErrorCode.INVALID_CONFIG),
    ],
)
def test_what_a_running_broker_cannot_take_is_refused(
    configs: dict[str, str], error: ErrorCode
) -> None:
    controller = opened()
    new = NewTopic(name="orders", configs=[("min.compaction.lag.ms", "1000")])
    done(controller.create_topics([new]))
    assert altered(controller, BROKER, "", **configs).error is error
    assert controller.image.broker_settings == {}


def test_subscribers_hear_of_new_settings() -> None:
    controller = with_topic()
    heard: list[Change] = []
    controller.subscribe(heard.append)
    altered(controller, TOPIC, "orders", flush_ms="1")
    altered(controller, BROKER, "", log_retention_ms="1")
    assert heard == [
        TopicConfigChanged(controller.image.topics["orders"]),
        BrokerConfigChanged("", {"log.retention.ms": "1"}),
    ]


def test_topics_with_equal_overrides_share_one_config() -> None:
    controller = opened()
    done(controller.create_topics([NewTopic(name="a"), NewTopic(name="b")]))
    assert controller.topic_config("a") is controller.topic_config("b")
    altered(controller, TOPIC, "a", flush_ms="1")
    assert controller.topic_config("a").flush_ms == 1
    assert controller.topic_config("b").flush_ms == 2**63 - 1


def test_every_setting_of_a_topic_is_described() -> None:
    entries = described(with_topic(), TOPIC, "orders")
    assert set(entries) == set(settings_of(LogConfig))
    assert not any(entry.is_read_only or entry.is_sensitive for entry in entries.values())


def test_a_value_says_where_it_comes_from() -> None:
    controller = with_topic({"log.retention.hours": 2, "log.roll.ms": 7})
    altered(controller, BROKER, "", log_retention_ms="3", log_flush_interval_ms="4")
    altered(controller, BROKER, "1", log_retention_ms="2")
    entries = described(controller, TOPIC, "orders")

    assert entries["retention.ms"].value == "5"
    assert entries["retention.ms"].source is ConfigSource.DYNAMIC_TOPIC_CONFIG
    assert entries["retention.ms"].synonyms == (
        ConfigSynonym("retention.ms", "5", ConfigSource.DYNAMIC_TOPIC_CONFIG),
        ConfigSynonym("log.retention.ms", "2", ConfigSource.DYNAMIC_BROKER_CONFIG),
        ConfigSynonym("log.retention.ms", "3", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        ConfigSynonym("log.retention.hours", "2", ConfigSource.STATIC_BROKER_CONFIG),
        ConfigSynonym("log.retention.hours", "168", ConfigSource.DEFAULT_CONFIG),
    )
    assert entries["retention.ms"].type is ConfigType.LONG
    assert entries["segment.ms"].source is ConfigSource.STATIC_BROKER_CONFIG
    assert entries["segment.ms"].value == "7"
    assert entries["flush.ms"].source is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    assert entries["max.message.bytes"].source is ConfigSource.DEFAULT_CONFIG
    assert entries["remote.storage.enable"].source is ConfigSource.DEFAULT_CONFIG
    assert entries["remote.storage.enable"].synonyms == ()


def test_every_setting_of_a_broker_is_described() -> None:
    controller = opened(settings={"num.partitions": 1, "log.retention.hours": 2})
    altered(controller, BROKER, "1", log_segment_bytes="1048577")
    entries = described(controller, BROKER, "1")

    assert set(broker_level()) < set(entries)
    assert len(entries) == len(controller.describe_config(BROKER, "1"))  # type: ignore[arg-type]
    assert entries["num.partitions"].is_read_only
    assert entries["num.partitions"].source is ConfigSource.STATIC_BROKER_CONFIG
    assert entries["fetch.max.bytes"].source is ConfigSource.DEFAULT_CONFIG
    assert entries["log.retention.hours"].is_read_only
    assert entries["log.retention.hours"].value == "2"
    assert entries["log.retention.ms"].value is None
    assert not entries["log.segment.bytes"].is_read_only
    assert entries["log.segment.bytes"].value == "1048577"
    assert entries["log.segment.bytes"].source is ConfigSource.DYNAMIC_BROKER_CONFIG
    assert entries["group.max.size"].value == str(2**31 - 1)


def test_what_was_given_to_all_brokers_is_described_alone() -> None:
    controller = opened()
    assert described(controller, BROKER, "") == {}
    altered(controller, BROKER, "", log_retention_ms="3")
    (entry,) = described(controller, BROKER, "").values()
    assert (entry.name, entry.value) == ("log.retention.ms", "3")
    assert entry.source is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG


def test_some_settings_can_be_asked_for() -> None:
    entries = with_topic().describe_config(TOPIC, "orders", ["flush.ms", "nonsense"])
    assert not isinstance(entries, Refusal)
    assert [entry.name for entry in entries] == ["flush.ms"]


@pytest.mark.parametrize(("kind", "name"), [(TOPIC, "orders"), (BROKER, "1"), (BROKER, "")])
def test_documentation_comes_only_when_asked_for(kind: int, name: str) -> None:
    controller = with_topic()
    altered(controller, BROKER, "", log_retention_ms="3")
    without = controller.describe_config(kind, name)
    with_it = controller.describe_config(kind, name, with_documentation=True)
    assert not isinstance(without, Refusal)
    assert not isinstance(with_it, Refusal)
    assert all(entry.documentation is None for entry in without)
    assert all(entry.documentation for entry in with_it)


def test_the_settings_of_a_topic_that_would_be_can_be_described() -> None:
    entries = {e.name: e for e in opened().describe_overrides({"flush.ms": "4"})}
    assert entries["flush.ms"].value == "4"
    assert entries["flush.ms"].source is ConfigSource.DYNAMIC_TOPIC_CONFIG
