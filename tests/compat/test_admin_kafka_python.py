"""kafka-python's admin calls, and its consumer's questions about offsets."""

import time
from collections.abc import Iterator
from typing import Any

import kafka.admin as kafka_admin
import kafka.errors as kafka_errors
import pytest
from kafka import KafkaConsumer, TopicPartition

from ottla.broker.embedded import Broker
from tests.compat.clients import TIMEOUT_S, KafkaPython, Message

THEN_MS = 1_600_000_000_000


@pytest.fixture
def admin(broker: Broker) -> Iterator[Any]:
    admin = kafka_admin.KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    yield admin
    admin.close()


@pytest.fixture
def created(admin: Any, topic: str) -> str:
    admin.create_topics(
        {topic: {"num_partitions": 2, "configs": {"retention.ms": "1000000"}}},
        wait_for_metadata=True,
    )
    return topic


def settings_of(admin: Any, topic: str) -> Any:
    resource = kafka_admin.ConfigResource(kafka_admin.ConfigResourceType.TOPIC, topic)
    return admin.describe_configs([resource], config_filter="all")["topic"][topic]


def test_topics_are_created_described_and_deleted(admin: Any, created: str) -> None:
    (described,) = admin.describe_topics([created])
    assert described["name"] == created
    assert sorted(p["partition_index"] for p in described["partitions"]) == [0, 1]
    assert {p["leader_id"] for p in described["partitions"]} == {1}

    admin.delete_topics([created])

    assert created not in admin.list_topics()


def test_a_topic_that_exists_is_not_created_again(admin: Any, created: str) -> None:
    with pytest.raises(kafka_errors.TopicAlreadyExistsError):
        admin.create_topics([created])


def test_partitions_are_added(admin: Any, created: str) -> None:
    admin.create_partitions({created: 4})

    (described,) = admin.describe_topics([created])
    assert len(described["partitions"]) == 4


def test_settings_are_described_and_altered(admin: Any, created: str) -> None:
    before = settings_of(admin, created)
    assert before["retention.ms"]["value"] == "1000000"
    assert before["cleanup.policy"]["value"] == "delete"

    change = kafka_admin.ConfigResource(
        kafka_admin.ConfigResourceType.TOPIC, created, configs={"cleanup.policy": "compact"}
    )
    admin.alter_configs([change])

    after = settings_of(admin, created)
    assert after["cleanup.policy"]["value"] == "compact"
    assert after["retention.ms"]["value"] == "1000000"


def test_settings_are_replaced_as_a_whole_by_the_older_call(admin: Any, created: str) -> None:
    change = kafka_admin.ConfigResource(
        kafka_admin.ConfigResourceType.TOPIC, created, configs={"cleanup.policy": "compact"}
    )
    admin.alter_configs([change], incremental=False)

    assert settings_of(admin, created)["cleanup.policy"]["value"] == "compact"


def test_the_cluster_is_described(admin: Any, broker: Broker) -> None:
    described = admin.describe_cluster()

    (node,) = described["brokers"]
    assert f"{node['host']}:{node['port']}" == broker.bootstrap_servers


def test_log_directories_are_described(admin: Any, broker: Broker, created: str) -> None:
    KafkaPython(broker.bootstrap_servers).write(created, [Message(bytes(1_000))])

    assert created in repr(admin.describe_log_dirs())


def test_records_are_deleted_up_to_an_offset(admin: Any, broker: Broker, created: str) -> None:
    client = KafkaPython(broker.bootstrap_servers)
    client.write(created, [Message(b"%d" % number) for number in range(10)])

    admin.delete_records({TopicPartition(created, 0): 7})

    assert [record.value for record in client.read(created, 3, offset=7)] == [b"7", b"8", b"9"]


@pytest.mark.parametrize(
    ("spec", "offset"),
    [
        pytest.param(-2, 0, id="earliest"),
        pytest.param(-1, 10, id="latest"),
        pytest.param(-3, 9, id="max timestamp"),
        pytest.param(THEN_MS + 3_500, 4, id="between two"),
    ],
)
def test_offsets_are_found_by_time(
    admin: Any, broker: Broker, created: str, spec: int, offset: int
) -> None:
    messages = [Message(b"v", timestamp_ms=THEN_MS + 1_000 * number) for number in range(10)]
    KafkaPython(broker.bootstrap_servers).write(created, messages, codec="gzip")

    partition = TopicPartition(created, 0)
    found = admin.list_partition_offsets({partition: spec})[partition]

    assert found.offset == offset


def test_a_consumer_finds_the_ends_and_offsets_by_time(broker: Broker, created: str) -> None:
    messages = [Message(b"v", timestamp_ms=THEN_MS + 1_000 * number) for number in range(10)]
    KafkaPython(broker.bootstrap_servers).write(created, messages)
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers)
    partition = TopicPartition(created, 0)
    try:
        assert consumer.beginning_offsets([partition]) == {partition: 0}
        assert consumer.end_offsets([partition]) == {partition: 10}
        found = consumer.offsets_for_times({partition: THEN_MS + 2_001})
        assert (found[partition].offset, found[partition].timestamp) == (3, THEN_MS + 3_000)
        assert created in consumer.topics()
        assert consumer.partitions_for_topic(created) == {0, 1}
    finally:
        consumer.close()


def test_a_pattern_finds_its_topics_without_a_group(admin: Any, broker: Broker, topic: str) -> None:
    wanted = [f"{topic}-orders-1", f"{topic}-orders-2"]
    admin.create_topics([*wanted, f"{topic}-others"], wait_for_metadata=True)
    client = KafkaPython(broker.bootstrap_servers)
    for name in wanted:
        client.write(name, [Message(name.encode())])
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers, group_id=None, auto_offset_reset="earliest"
    )
    try:
        consumer.subscribe(pattern=f"^{topic}-orders-.*")
        values: set[bytes] = set()
        deadline_s = time.monotonic() + TIMEOUT_S
        while len(values) < len(wanted) and time.monotonic() < deadline_s:
            for messages in consumer.poll(1_000).values():
                values |= {message.value for message in messages}
        assert values == {name.encode() for name in wanted}
    finally:
        consumer.close()
