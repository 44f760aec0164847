"""Groups and their offsets in the hands of each client's admin."""

import asyncio
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import kafka
import kafka.admin as kafka_admin
import pytest
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaError
from confluent_kafka import TopicPartition as ConfluentTopicPartition
from confluent_kafka.admin import AdminClient

from ottla.testing import TestBroker
from tests.compat.group_clients import GROUP_CLIENTS, TIMEOUT_S, GroupClient, KafkaPythonGroups


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    with TestBroker() as broker:
        yield broker


@pytest.fixture
def created(broker: TestBroker, topic: str) -> str:
    """A topic with one record."""
    broker.produce(topic, "first")
    return topic


@pytest.fixture
def group(broker: TestBroker, created: str) -> str:
    """A group that has committed offset 5 of the topic, and has no members."""
    KafkaPythonGroups(broker.bootstrap_servers).commit(f"group-{created}", created, 5, "note")
    return f"group-{created}"


@pytest.fixture
def active(broker: TestBroker, created: str) -> Iterator[str]:
    """A group with one member, which has everything."""
    consumer = kafka.KafkaConsumer(
        created,
        bootstrap_servers=broker.bootstrap_servers,
        group_id=f"active-{created}",
        client_id="ada",
        auto_offset_reset="earliest",
    )
    assert consumer.poll(TIMEOUT_S * 1000)
    yield f"active-{created}"
    consumer.close()


@pytest.fixture
def confluent(broker: TestBroker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers})


@pytest.fixture
def python_admin(broker: TestBroker) -> Iterator[Any]:
    admin = kafka_admin.KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    yield admin
    admin.close()


@pytest.mark.parametrize("kind", GROUP_CLIENTS, ids=lambda kind: kind.name)
def test_groups_are_listed_with_their_states(
    broker: TestBroker, kind: type[GroupClient], group: str, active: str
) -> None:
    client = kind(broker.bootstrap_servers)
    assert {group, active} <= client.groups()
    assert client.state(group) == "Empty"
    assert client.state(active) == "Stable"


def test_confluent_filters_groups_by_state(confluent: AdminClient, group: str, active: str) -> None:
    stable = confluent.list_consumer_groups(states={ConsumerGroupState.STABLE}).result(TIMEOUT_S)
    names = {listed.group_id for listed in stable.valid}
    assert active in names
    assert group not in names


def test_confluent_sees_members_and_what_they_have(
    confluent: AdminClient, active: str, created: str
) -> None:
    described = confluent.describe_consumer_groups([active])[active].result(TIMEOUT_S)
    (member,) = described.members
    assert (member.client_id, member.host) == ("ada", "/127.0.0.1")
    assert member.assignment.topic_partitions == [ConfluentTopicPartition(created, 0)]
    assert described.coordinator.id == 1


def test_confluent_lists_alters_and_deletes(
    confluent: AdminClient, group: str, created: str
) -> None:
    asked = [ConsumerGroupTopicPartitions(group)]

    def listed() -> list[int]:
        found = confluent.list_consumer_group_offsets(asked)[group].result(TIMEOUT_S)
        return [place.offset for place in found.topic_partitions]

    assert listed() == [5]
    wanted = [ConsumerGroupTopicPartitions(group, [ConfluentTopicPartition(created, 0, 1)])]
    confluent.alter_consumer_group_offsets(wanted)[group].result(TIMEOUT_S)
    assert listed() == [1]
    confluent.delete_consumer_groups([group])[group].result(TIMEOUT_S)
    assert listed() == []


def test_confluent_cannot_delete_a_group_with_members(confluent: AdminClient, active: str) -> None:
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        confluent.delete_consumer_groups([active])[active].result(TIMEOUT_S)
    assert caught.value.args[0].code() == KafkaError.NON_EMPTY_GROUP


def test_confluent_cannot_delete_a_group_that_is_not_there(confluent: AdminClient) -> None:
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        confluent.delete_consumer_groups(["nobody"])["nobody"].result(TIMEOUT_S)
    assert caught.value.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND


def test_kafka_python_lists_alters_and_deletes_offsets(
    python_admin: Any, group: str, created: str
) -> None:
    place = kafka.TopicPartition(created, 0)
    assert python_admin.list_group_offsets({group: [place]})[group][place].offset == 5
    python_admin.alter_group_offsets(group, {place: kafka.OffsetAndMetadata(1, "", -1)})
    assert python_admin.list_group_offsets({group: [place]})[group][place].offset == 1
    python_admin.delete_group_offsets(group, [place])
    found = python_admin.list_group_offsets({group: [place]})[group]
    assert found[place].offset == -1


def test_kafka_python_deletes_groups_without_members(
    python_admin: Any, group: str, active: str
) -> None:
    refused = python_admin.delete_groups([group, active])
    assert group not in {listed["group_id"] for listed in python_admin.list_groups()}
    assert "NonEmptyGroup" in str(refused)


def test_kafka_python_removes_a_member(python_admin: Any, active: str) -> None:
    (member,) = python_admin.describe_groups([active])[active]["members"]
    leaver = kafka_admin.MemberToRemove(member_id=member["member_id"])
    python_admin.remove_group_members(active, [leaver])
    described = python_admin.describe_groups([active])[active]
    assert (described["group_state"], described["members"]) == ("Empty", [])


def test_aiokafka_lists_offsets(broker: TestBroker, group: str, created: str) -> None:
    async def listed() -> Any:
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
        await admin.start()
        try:
            return await admin.list_consumer_group_offsets(group)
        finally:
            await admin.close()

    (found,) = asyncio.run(listed()).items()
    assert found[0] == AioTopicPartition(created, 0)
    assert (found[1].offset, found[1].metadata) == (5, "note")
