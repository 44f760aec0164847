"""Settings of clients: two names for each, defaults that are Kafka's, and errors that help."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ottla.client.addresses import Address
from ottla.client.admin.config import AdminConfig
from ottla.client.config import BOOTSTRAP_VARIABLE, ClientConfig
from ottla.client.consumer.config import ConsumerConfig
from ottla.client.producer.config import ProducerConfig
from ottla.config import Declared, documentation, settings_of
from ottla.errors import ConfigError

EVERY_CONFIG: list[Any] = [ClientConfig, ProducerConfig, ConsumerConfig, AdminConfig]


@pytest.mark.parametrize(
    "given",
    [
        {"linger_ms": 3},
        {"config": {"linger.ms": 3}},
        {"config": {"linger.ms": "3"}},
        {"config": {"linger_ms": 3.0}},
    ],
)
def test_a_setting_goes_by_its_python_name_and_by_kafkas(given: dict[str, Any]) -> None:
    assert ProducerConfig.of("localhost", **given).linger_ms == 3


def test_names_of_other_clients_work_where_they_mean_the_same() -> None:
    config = ConsumerConfig.of(
        config={
            "metadata.broker.list": "a:1",
            "fetch.wait.max.ms": 7,
            "sasl.mechanisms": "plain",
            "security.protocol": "sasl_ssl",
            "sasl.username": "u",
            "sasl.password": "p",
        }
    )
    assert config.addresses == [Address("a", 1)]
    assert config.fetch_max_wait_ms == 7
    assert (config.sasl_mechanism, config.security_protocol) == ("PLAIN", "SASL_SSL")


@pytest.mark.parametrize("cls", EVERY_CONFIG)
def test_every_setting_has_a_sentence_of_advice(cls: type[Declared]) -> None:
    assert [name for name, text in documentation(cls).items() if not text.endswith(".")] == []


@pytest.mark.parametrize("cls", EVERY_CONFIG)
def test_the_defaults_go_together(cls: type[Declared]) -> None:
    config = cls()
    for declared in settings_of(cls).values():
        declared.check(getattr(config, declared.attribute))


@pytest.mark.parametrize(
    ("cls", "name", "default"),
    [
        (ProducerConfig, "acks", -1),
        (ProducerConfig, "batch_size", 1_000_000),
        (ProducerConfig, "buffer_memory", 33_554_432),
        (ProducerConfig, "delivery_timeout_ms", 120_000),
        (ProducerConfig, "is_idempotent", True),
        (ProducerConfig, "max_in_flight_requests_per_connection", 5),
        (ConsumerConfig, "auto_offset_reset", "latest"),
        (ConsumerConfig, "assignors", ("range", "cooperative-sticky")),
        (ConsumerConfig, "fetch_max_bytes", 52_428_800),
        (ConsumerConfig, "max_poll_records", 500),
        (ConsumerConfig, "session_timeout_ms", 45_000),
        (AdminConfig, "connections_max_idle_ms", 300_000),
        (AdminConfig, "retries", 2_147_483_647),
    ],
)
def test_defaults_are_kafkas(cls: type[ClientConfig], name: str, default: object) -> None:
    assert getattr(cls.of(), name) == default


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"linger_mss": 3}, "unknown setting 'linger_mss'; did you mean linger_ms?"),
        ({"config": {"linger.mss": 3}}, "unknown setting 'linger.mss'; did you mean linger.ms?"),
        ({"linger_ms": "soon"}, "linger.ms = 'soon' is not a number"),
        ({"linger_ms": -1}, "linger.ms = -1.0 is not at least 0"),
        (
            {"linger_ms": 1, "config": {"linger.ms": 2}},
            "linger_ms is given twice, once as linger.ms",
        ),
        ({"acks": 2}, "acks = 2 is not one of all, -1, 0, 1"),
        ({"compression_type": "rar"}, "compression.type = rar is not one of none, gzip"),
        ({"partitioner": "random"}, "partitioner = 'random' is neither a function nor one of"),
        ({"interceptors": [object()]}, "has no method on_send"),
        ({"interceptors": "mine"}, "interceptors = 'mine' is not a sequence"),
        ({"config": {"key.serializer": "x"}}, "pass key_serde= or key_serializer="),
        ({"config": {"ssl.truststore.location": "x"}}, "use ssl.ca.location, a PEM file"),
        ({"delivery_timeout_ms": 100}, "leaves no time for one attempt"),
        ({"enable_idempotence": True, "acks": 1}, "does not go with acks = 1"),
        ({"transactional_id": "t", "acks": 0}, "transactional.id does not go with acks = 0"),
        ({"transactional_id": ""}, "transactional.id"),
        ({"max_in_flight_requests_per_connection": 6}, "more than the 5"),
        (
            {"transaction_two_phase_commit_enable": True, "transaction_timeout_ms": 5},
            "such transactions never expire",
        ),
        ({"bootstrap_servers": "a:b"}, "'a:b' is not an address like localhost:9092"),
        ({"bootstrap_servers": ""}, "bootstrap.servers"),
        ({"sasl_mechanism": "PLAIN"}, "is not used with security.protocol = PLAINTEXT"),
        ({"security_protocol": "SASL_SSL"}, "needs a sasl.mechanism"),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"},
            "needs sasl.username and sasl.password",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"},
            "needs sasl_oauth_token=",
        ),
        ({"sasl_oauth_token": "token"}, "sasl_oauth_token = 'token' is not a function"),
        ({"ssl_context": "tls"}, "is not an ssl.SSLContext"),
    ],
)
def test_what_a_producer_cannot_use_is_refused_with_a_way_out(
    given: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        ProducerConfig.of(**given)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"auto_offset_reset": "newest"}, "is not one of earliest, latest, none"),
        ({"auto_offset_reset": "by_duration:1h"}, "has no duration like PT1H"),
        ({"auto_offset_reset": "by_duration:P"}, "has no duration like PT1H"),
        ({"auto_offset_reset": datetime(2026, 1, 1)}, "has no time zone"),  # noqa: DTZ001
        ({"assignors": ["fair"]}, "'fair' is not one of range, roundrobin"),
        ({"assignors": []}, "assignors is empty"),
        ({"assignors": "range,range"}, "names one twice"),
        ({"assignors": [object()]}, "has no name or no method assign"),
        ({"assignors": 3}, "assignors = 3 is not a sequence"),
        ({"heartbeat_interval_ms": 45_000}, "must be less than session.timeout.ms = 45000"),
        ({"group_instance_id": "i"}, "group.instance.id needs a group.id"),
        ({"group_id": ""}, "group.id is empty"),
        ({"group_remote_assignor": "uniform"}, "needs group.protocol = consumer"),
        ({"offset_store": object()}, "has no method load"),
    ],
)
def test_what_a_consumer_cannot_use_is_refused_with_a_way_out(
    given: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        ConsumerConfig.of(**given)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("given", "idempotent"),
    [
        ({}, True),
        ({"acks": 1}, False),
        ({"acks": "all"}, True),
        ({"retries": 0}, False),
        ({"enable_idempotence": False}, False),
        ({"enable_idempotence": "true"}, True),
    ],
)
def test_idempotence_is_on_unless_something_forbids_it(
    given: dict[str, Any], idempotent: bool
) -> None:
    assert ProducerConfig.of(**given).is_idempotent is idempotent


@pytest.mark.parametrize(
    ("given", "understood"),
    [
        ("EARLIEST", "earliest"),
        ("by_duration:P1DT2H3M4.5S", timedelta(days=1, hours=2, minutes=3, seconds=4.5)),
        (timedelta(hours=-1), timedelta(hours=1)),
        (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_reset_is_a_word_a_moment_or_how_long_ago(given: object, understood: object) -> None:
    assert ConsumerConfig.of(auto_offset_reset=given).auto_offset_reset == understood


def test_assignors_go_by_their_java_names_too() -> None:
    text = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor, range"
    config = ConsumerConfig.of(config={"partition.assignment.strategy": text})
    assert config.assignors == ("cooperative-sticky", "range")


def test_a_function_is_a_partitioner() -> None:
    def first(topic: str, key: bytes | None, value: bytes | None, partitions: Any) -> int:
        return 0

    assert ProducerConfig.of(partitioner=first).partitioner is first


def test_brokers_come_from_the_environment_where_nobody_names_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(BOOTSTRAP_VARIABLE, "a:1, b:2")
    assert AdminConfig.of().addresses == [Address("a", 1), Address("b", 2)]
    assert AdminConfig.of(["c:3", "d"]).addresses == [Address("c", 3), Address("d", 9092)]
    monkeypatch.delenv(BOOTSTRAP_VARIABLE)
    assert AdminConfig.of().addresses == [Address("localhost", 9092)]


def test_a_path_may_be_a_path() -> None:
    assert AdminConfig.of(ssl_cafile=Path("ca.pem")).ssl_cafile == "ca.pem"


def test_a_password_does_not_show() -> None:
    config = AdminConfig.of(
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        sasl_username="ada",
        sasl_password="lovelace",
        ssl_key_password="difference",
    )
    assert "ada" in repr(config)
    assert "lovelace" not in repr(config)
    assert "difference" not in repr(config)
