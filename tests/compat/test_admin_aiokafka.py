"""aiokafka's admin calls, and its consumer's questions about offsets."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from ottla.broker.embedded import Broker
from tests.compat.clients import Aiokafka, Message

THEN_MS = 1_600_000_000_000
T = TypeVar("T")


def with_admin(broker: Broker, act: Callable[[Any], Awaitable[T]]) -> T:
    """Run `act` with an admin client on a loop of its own."""

    async def run() -> T:
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
        await admin.start()
        try:
            return await act(admin)
        finally:
            await admin.close()

    return asyncio.run(run())


@pytest.fixture
def created(broker: Broker, topic: str) -> str:
    new = NewTopic(topic, 2, 1, topic_configs={"retention.ms": "1000000"})
    answer = with_admin(broker, lambda admin: admin.create_topics([new]))
    assert [error[1] for error in answer.topic_errors] == [0]
    return topic


def test_topics_are_created_described_and_deleted(broker: Broker, created: str) -> None:
    (described,) = with_admin(broker, lambda admin: admin.describe_topics([created]))
    assert described["topic"] == created
    assert sorted(p["partition"] for p in described["partitions"]) == [0, 1]

    with_admin(broker, lambda admin: admin.delete_topics([created]))

    assert created not in with_admin(broker, lambda admin: admin.list_topics())


def test_partitions_are_added(broker: Broker, created: str) -> None:
    wanted = {created: NewPartitions(4)}
    with_admin(broker, lambda admin: admin.create_partitions(wanted))

    (described,) = with_admin(broker, lambda admin: admin.describe_topics([created]))
    assert len(described["partitions"]) == 4


def test_settings_are_described_and_altered(broker: Broker, created: str) -> None:
    change = ConfigResource(ConfigResourceType.TOPIC, created, {"cleanup.policy": "compact"})
    with_admin(broker, lambda admin: admin.alter_configs([change]))

    resource = ConfigResource(ConfigResourceType.TOPIC, created)
    (answer,) = with_admin(broker, lambda admin: admin.describe_configs([resource]))

    ((code, _, _, name, entries),) = answer.resources
    assert (code, name) == (0, created)
    values = {entry[0]: entry[1] for entry in entries}
    assert values["cleanup.policy"] == "compact"
    assert values["retention.ms"] != "1000000", "this call replaces all settings of a topic"


def test_the_cluster_is_described(broker: Broker) -> None:
    described = with_admin(broker, lambda admin: admin.describe_cluster())

    (node,) = described["brokers"]
    assert f"{node['host']}:{node['port']}" == broker.bootstrap_servers


def test_records_are_deleted_up_to_an_offset(broker: Broker, created: str) -> None:
    client = Aiokafka(broker.bootstrap_servers)
    client.write(created, [Message(b"%d" % number) for number in range(10)])

    wanted = {TopicPartition(created, 0): RecordsToDelete(before_offset=6)}
    low_watermarks = with_admin(broker, lambda admin: admin.delete_records(wanted))

    assert low_watermarks == {TopicPartition(created, 0): 6}
    assert [record.offset for record in client.read(created, 4, offset=6)] == [6, 7, 8, 9]


def test_a_consumer_finds_the_ends_and_offsets_by_time(broker: Broker, created: str) -> None:
    messages = [Message(b"v", timestamp_ms=THEN_MS + 1_000 * number) for number in range(10)]
    Aiokafka(broker.bootstrap_servers).write(created, messages)
    partition = TopicPartition(created, 0)

    async def ask() -> tuple[Any, Any, Any]:
        consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap_servers)
        await consumer.start()
        try:
            return (
                await consumer.beginning_offsets([partition]),
                await consumer.end_offsets([partition]),
                await consumer.offsets_for_times({partition: THEN_MS + 2_001}),
            )
        finally:
            await consumer.stop()

    beginnings, ends, found = asyncio.run(ask())

    assert (beginnings, ends) == ({partition: 0}, {partition: 10})
    assert (found[partition].offset, found[partition].timestamp) == (3, THEN_MS + 3_000)
