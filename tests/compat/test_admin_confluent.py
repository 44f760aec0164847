"""librdkafka's admin calls, as confluent-kafka offers them."""

import re
from collections.abc import Iterator

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    OffsetSpec,
    ResourceType,
)
from confluent_kafka.cimpl import NewPartitions, NewTopic

from ottla.broker.embedded import Broker
from tests.compat.clients import Confluent, Message

TIMEOUT_S = 90
THEN_MS = 1_600_000_000_000


@pytest.fixture
def admin(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers})


@pytest.fixture
def created(admin: AdminClient, topic: str) -> Iterator[str]:
    """A topic with two partitions, which is deleted at the end."""
    new = NewTopic(topic, 2, 1, config={"retention.ms": "1000000"})
    admin.create_topics([new])[topic].result(TIMEOUT_S)
    yield topic
    admin.delete_topics([topic])[topic].result(TIMEOUT_S)


def code_of(error: KafkaException) -> int:
    return int(error.args[0].code())


def test_topics_are_created_described_and_deleted(admin: AdminClient, topic: str) -> None:
    admin.create_topics([NewTopic(topic, 3, 1)])[topic].result(TIMEOUT_S)

    described = admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic]
    assert sorted(described.partitions) == [0, 1, 2]
    assert {partition.leader for partition in described.partitions.values()} == {1}

    admin.delete_topics([topic])[topic].result(TIMEOUT_S)
    assert topic not in admin.list_topics(timeout=TIMEOUT_S).topics


def test_describe_topics_knows_ids_leaders_and_replicas(admin: AdminClient, created: str) -> None:
    names = confluent_kafka.TopicCollection([created])
    described = admin.describe_topics(names)[created].result(TIMEOUT_S)

    assert str(described.topic_id)
    assert [partition.id for partition in described.partitions] == [0, 1]
    assert [[node.id for node in p.replicas] for p in described.partitions] == [[1], [1]]
    assert [[node.id for node in p.isr] for p in described.partitions] == [[1], [1]]


def test_a_topic_that_exists_is_not_created_again(admin: AdminClient, created: str) -> None:
    with pytest.raises(KafkaException) as caught:
        admin.create_topics([NewTopic(created, 1, 1)])[created].result(TIMEOUT_S)

    assert code_of(caught.value) == KafkaError.TOPIC_ALREADY_EXISTS


def test_a_topic_can_be_validated_without_being_created(admin: AdminClient, topic: str) -> None:
    admin.create_topics([NewTopic(topic, 1, 1)], validate_only=True)[topic].result(TIMEOUT_S)

    assert topic not in admin.list_topics(timeout=TIMEOUT_S).topics


def test_a_topic_that_does_not_exist_is_not_deleted(admin: AdminClient, topic: str) -> None:
    with pytest.raises(KafkaException) as caught:
        admin.delete_topics([topic])[topic].result(TIMEOUT_S)

    assert code_of(caught.value) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_partitions_are_added(admin: AdminClient, created: str) -> None:
    admin.create_partitions([NewPartitions(created, 5)])[created].result(TIMEOUT_S)

    assert len(admin.list_topics(created, timeout=TIMEOUT_S).topics[created].partitions) == 5


def test_partitions_are_not_taken_away(admin: AdminClient, created: str) -> None:
    with pytest.raises(KafkaException) as caught:
        admin.create_partitions([NewPartitions(created, 1)])[created].result(TIMEOUT_S)

    assert code_of(caught.value) == KafkaError.INVALID_PARTITIONS


def test_settings_are_described_with_their_source_and_altered(
    admin: AdminClient, created: str
) -> None:
    resource = ConfigResource(ResourceType.TOPIC, created)
    described = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
    assert described["retention.ms"].value == "1000000"
    assert described["retention.ms"].source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    assert described["cleanup.policy"].value == "delete"
    assert described["cleanup.policy"].is_default

    change = ConfigResource(
        ResourceType.TOPIC,
        created,
        incremental_configs=[
            ConfigEntry(
                "cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND
            ),
            ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE),
        ],
    )
    admin.incremental_alter_configs([change])[change].result(TIMEOUT_S)

    altered = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
    assert altered["cleanup.policy"].value == "delete,compact"
    assert altered["retention.ms"].is_default


def test_a_setting_that_does_not_exist_is_refused(admin: AdminClient, created: str) -> None:
    change = ConfigResource(
        ResourceType.TOPIC,
        created,
        incremental_configs=[
            ConfigEntry("no.such.setting", "1", incremental_operation=AlterConfigOpType.SET)
        ],
    )
    with pytest.raises(KafkaException) as caught:
        admin.incremental_alter_configs([change])[change].result(TIMEOUT_S)

    assert code_of(caught.value) == KafkaError.INVALID_CONFIG


def test_the_settings_of_the_broker_are_described(admin: AdminClient) -> None:
    resource = ConfigResource(ResourceType.BROKER, "1")

    described = admin.describe_configs([resource])[resource].result(TIMEOUT_S)

    assert described["num.partitions"].value == "1"
    assert described["listeners"].is_read_only


def test_the_cluster_is_described(admin: AdminClient, broker: Broker) -> None:
    described = admin.describe_cluster().result(TIMEOUT_S)

    (node,) = described.nodes
    assert f"{node.host}:{node.port}" == broker.bootstrap_servers
    assert described.controller.id == node.id == 1
    assert described.cluster_id == admin.list_topics(timeout=TIMEOUT_S).cluster_id


def test_records_are_deleted_up_to_an_offset(
    admin: AdminClient, broker: Broker, created: str
) -> None:
    client = Confluent(broker.bootstrap_servers)
    client.write(created, [Message(b"%d" % number) for number in range(10)])

    wanted = TopicPartition(created, 0, 4)
    deleted = admin.delete_records([wanted])[wanted].result(TIMEOUT_S)

    assert deleted.low_watermark == 4
    assert [record.value for record in client.read(created, 6, offset=4)] == [
        b"4",
        b"5",
        b"6",
        b"7",
        b"8",
        b"9",
    ]


@pytest.mark.parametrize(
    ("spec", "offset"),
    [
        pytest.param(OffsetSpec.earliest(), 0, id="earliest"),
        pytest.param(OffsetSpec.latest(), 10, id="latest"),
        pytest.param(OffsetSpec.max_timestamp(), 9, id="max timestamp"),
        pytest.param(OffsetSpec.for_timestamp(THEN_MS + 3_500), 4, id="between two"),
        pytest.param(OffsetSpec.for_timestamp(THEN_MS + 3_000), 3, id="exact"),
        pytest.param(OffsetSpec.for_timestamp(THEN_MS + 60_000), -1, id="too late"),
    ],
)
def test_offsets_are_found_by_time(
    admin: AdminClient, broker: Broker, created: str, spec: OffsetSpec, offset: int
) -> None:
    messages = [Message(b"v", timestamp_ms=THEN_MS + 1_000 * number) for number in range(10)]
    Confluent(broker.bootstrap_servers).write(created, messages, codec="zstd")

    partition = TopicPartition(created, 0)
    found = admin.list_offsets({partition: spec})[partition].result(TIMEOUT_S)

    assert found.offset == offset


def test_topics_are_found_by_a_pattern_without_a_group(admin: AdminClient, topic: str) -> None:
    wanted = [f"{topic}-orders-1", f"{topic}-orders-2"]
    for name in (*wanted, f"{topic}-others"):
        admin.create_topics([NewTopic(name, 1, 1)])[name].result(TIMEOUT_S)

    listed = admin.list_topics(timeout=TIMEOUT_S).topics

    pattern = re.compile(f"{topic}-orders-.*")
    assert sorted(name for name in listed if pattern.fullmatch(name)) == wanted


def test_a_topic_comes_into_being_when_a_producer_asks_for_it(
    admin: AdminClient, broker: Broker, topic: str
) -> None:
    assert topic not in admin.list_topics(timeout=TIMEOUT_S).topics

    Confluent(broker.bootstrap_servers).write(topic, [Message(b"v")])

    assert topic in admin.list_topics(timeout=TIMEOUT_S).topics


def test_a_consumer_finds_its_place_by_time_and_by_watermarks(broker: Broker, topic: str) -> None:
    messages = [Message(b"v", timestamp_ms=THEN_MS + 1_000 * number) for number in range(10)]
    Confluent(broker.bootstrap_servers).write(topic, messages)
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "unused"}
    )
    try:
        asked = TopicPartition(topic, 0, THEN_MS + 4_000)
        (found,) = consumer.offsets_for_times([asked], timeout=TIMEOUT_S)
        assert found.offset == 4
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT_S) == (0, 10)
    finally:
        consumer.close()
