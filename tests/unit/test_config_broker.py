"""A broker's settings: what starts it, what is ignored, and what is refused."""

import pytest

from ottla.broker.config import BrokerConfig, Endpoint
from ottla.broker.ignored import reason_to_ignore, reason_to_refuse
from ottla.config import documentation, settings_of, to_strings
from ottla.errors import ConfigError
from ottla.log.config import broker_level

KAFKA_SAMPLE = """
    process.roles=broker,controller
    node.id=1
    controller.quorum.bootstrap.servers=localhost:9093
    listeners=PLAINTEXT://:9092,CONTROLLER://:9093
    inter.broker.listener.name=PLAINTEXT
    advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
    controller.listener.names=CONTROLLER
    listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL
    num.network.threads=3
    num.io.threads=8
    socket.send.buffer.bytes=102400
    socket.receive.buffer.bytes=102400
    socket.request.max.bytes=104857600
    log.dirs=/tmp/kraft-combined-logs
    num.partitions=1
    num.recovery.threads.per.data.dir=2
    offsets.topic.replication.factor=1
    share.coordinator.state.topic.replication.factor=1
    share.coordinator.state.topic.min.isr=1
    transaction.state.log.replication.factor=1
    transaction.state.log.min.isr=1
    log.retention.hours=168
    log.segment.bytes=1073741824
    log.retention.check.interval.ms=300000
"""
"""The settings of the file that Kafka 4 comes with."""


def test_the_defaults_listen_on_loopback_and_sync_before_they_acknowledge() -> None:
    config = BrokerConfig()
    assert config.listener == Endpoint("PLAINTEXT", "localhost", 9092)
    assert config.listener.is_loopback
    assert config.flush == "commit"
    assert config.advertised is None


def test_kafkas_own_sample_file_starts_a_broker() -> None:
    lines = (line.strip().partition("=") for line in KAFKA_SAMPLE.split())
    sample = {name: value for name, _, value in lines}

    config = BrokerConfig.of({**sample, "ottla.insecure": "true"})

    assert config.listener == ("PLAINTEXT", "", 9092)
    assert config.advertised == ("PLAINTEXT", "localhost", 9092)
    assert config.data_dir == "/tmp/kraft-combined-logs"
    assert config.topic_defaults["log.retention.hours"] == "168"
    assert "num.io.threads" in config.ignored
    assert not set(config.ignored) & config.given


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"listeners": "PLAINTEXT://:9092"}, "set ottla.insecure = true"),
        ({"listeners": "PLAINTEXT://192.168.0.7:9092"}, "set ottla.insecure = true"),
        ({"listeners": "PLAINTEXT://example.org:9092"}, "set ottla.insecure = true"),
        ({"listeners": "PLAINTEXT://127.0.0.1.example.org:9092"}, "set ottla.insecure = true"),
        ({"listeners": "SSL://localhost:9093"}, "only PLAINTEXT is there"),
        ({"listeners": ""}, "exactly one listener, not 0"),
        ({"listeners": "PLAINTEXT://a:1,PLAINTEXT://b:2"}, "exactly one listener, not 2"),
        ({"listeners": "localhost:9092"}, "is not a listener like PLAINTEXT://localhost:9092"),
        ({"listeners": "PLAINTEXT://localhost:70000"}, "is not a listener like"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "is no address"),
        ({"log.dirs": "a,b"}, "exactly one directory, not 2"),
        ({"node.id": "1", "broker.id": "1"}, "node.id is given twice"),
        ({"queued.max.request.bytes": "1000"}, "has no room for one request"),
        ({"ottla.connection.queued.max.bytes": "1 MiB"}, "has no room for one request"),
        ({"ottla.flush": "never"}, "is not one of commit, os"),
        ({"ssl.keystore.location": "x"}, "there is no TLS yet"),
        ({"sasl.enabled.mechanisms": "PLAIN"}, "there is no SASL yet"),
        ({"authorizer.class.name": "x"}, "there are no access rules yet"),
        ({"nonsense": "x"}, "unknown setting 'nonsense'"),
        ({"log.retention.hour": "1"}, "did you mean log.retention.hours?"),
        ({"group.min.session.timeout.ms": "9999999"}, "is more than group.max.session.timeout.ms"),
        ({"group.consumer.heartbeat.interval.ms": "1"}, "is more than group.consumer.heartbeat"),
        ({"transaction.state.log.min.isr": "2"}, "is more than transaction.state.log.replication"),
        ({"log.cleaner.min.compaction.lag.ms": str(2**63)}, "does not fit into long"),
    ],
)
def test_a_setting_that_cannot_work_says_what_to_mend(
    mapping: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        BrokerConfig.of(mapping)
    assert message in str(raised.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "[::1]", "localhost"])
def test_only_this_machine_reaches_loopback(host: str) -> None:
    assert Endpoint.parse(f"PLAINTEXT://{host}:0").is_loopback


def test_insecure_listeners_can_be_asked_for() -> None:
    config = BrokerConfig.of({"listeners": "plaintext://[fe80::1]:9092", "ottla.insecure": True})
    assert config.listener == ("PLAINTEXT", "fe80::1", 9092)


def test_what_was_given_is_remembered_by_its_own_name() -> None:
    config = BrokerConfig.of({"broker.id": "7", "log.roll.hours": 3})
    assert config.node_id == 7
    assert config.given == {"node.id", "log.roll.hours"}
    assert config.topic_defaults == {"log.roll.hours": "3"}


def test_every_setting_can_be_written_and_read_back() -> None:
    written = to_strings(BrokerConfig())
    again = BrokerConfig.of(written)
    assert to_strings(again) == written


def test_every_setting_is_documented() -> None:
    assert [name for name, text in documentation(BrokerConfig).items() if not text] == []


def test_no_setting_is_declared_twice_or_ignored() -> None:
    own = settings_of(BrokerConfig)
    assert not set(own) & set(broker_level())
    known = [*own, *broker_level()]
    assert [name for name in known if reason_to_ignore(name) or reason_to_refuse(name)] == []


def test_a_whole_family_of_settings_can_be_ignored() -> None:
    assert reason_to_ignore("zookeeper.connection.timeout.ms") == "there is no ZooKeeper"
    assert reason_to_ignore("zookeeper") is None
    assert reason_to_ignore("ssl.protocol") is None
