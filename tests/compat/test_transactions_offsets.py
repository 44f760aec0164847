"""Consume, transform, produce: offsets and records of one transaction count together, or not."""

from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest

from ottla.testing import TestBroker
from tests.compat.group_clients import GROUP_CLIENTS, ConfluentGroups, GroupClient
from tests.compat.txn_clients import TXN_CLIENTS, TxnClient, TxnProducer

VALUES = [b"%d" % number for number in range(20)]
UNSTABLE_OFFSET_COMMIT = 88


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    with TestBroker() as broker:
        yield broker


@pytest.fixture(params=range(len(TXN_CLIENTS)), ids=[kind.name for kind in TXN_CLIENTS])
def number(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def client(number: int, broker: TestBroker) -> TxnClient:
    return TXN_CLIENTS[number](broker.bootstrap_servers)


@pytest.fixture
def groups(number: int, broker: TestBroker) -> GroupClient:
    """The same library, as it looks at groups."""
    found = GROUP_CLIENTS[number](broker.bootstrap_servers)
    assert found.name == TXN_CLIENTS[number].name
    return found


@pytest.fixture
def producer(client: TxnClient, topic: str) -> Iterator[TxnProducer]:
    with client.producer(f"id-{topic}") as producer:
        yield producer


@pytest.fixture
def source(broker: TestBroker, topic: str) -> str:
    name = f"{topic}-source"
    broker.create_topic(name)
    broker.produce(name, *VALUES)
    return name


@pytest.fixture
def target(broker: TestBroker, topic: str) -> str:
    name = f"{topic}-target"
    broker.create_topic(name)
    return name


def test_records_and_offsets_of_a_committed_transaction_count_together(
    client: TxnClient, groups: GroupClient, producer: TxnProducer, source: str, target: str
) -> None:
    assert client.copy(source, target, f"copies-{source}", producer) == len(VALUES)
    assert client.values(target) == []

    producer.commit()

    assert client.values(target) == VALUES
    assert groups.committed(f"copies-{source}", source) == len(VALUES)


def test_an_aborted_transaction_leaves_the_offsets_of_the_group_where_they_were(
    client: TxnClient, groups: GroupClient, producer: TxnProducer, source: str, target: str
) -> None:
    group = f"copies-{source}"
    groups.commit(group, source, 15)
    assert client.copy(source, target, group, producer) == 5

    producer.abort()

    assert groups.committed(group, source) == 15
    assert client.values(target) == []
    assert client.copy(source, target, group, producer) == 5, "the same once more"
    producer.commit()
    assert client.values(target) == VALUES[15:]
    assert groups.committed(group, source) == len(VALUES)


def test_what_was_copied_is_not_copied_again(
    broker: TestBroker, client: TxnClient, producer: TxnProducer, source: str, target: str
) -> None:
    group = f"copies-{source}"
    client.copy(source, target, group, producer)
    producer.commit()
    broker.produce(source, "one more")

    assert client.copy(source, target, group, producer) == 1
    producer.commit()

    assert client.values(target) == [*VALUES, b"one more"]


def test_offsets_of_several_partitions_and_groups_are_committed_at_once(
    broker: TestBroker, groups: GroupClient, producer: TxnProducer, topic: str
) -> None:
    broker.create_topic(topic, partitions=2)
    names = [f"{name}-{topic}" for name in ("first", "second", "third")]
    if groups.name == "aiokafka":
        names = names[:1]  # it announces the first group only, and brokers refuse the others
    producer.begin()
    for offset, group in enumerate(names, 1):
        producer.send_offsets(topic, {0: offset, 1: 10 * offset}, group)
    producer.commit()

    assert [groups.committed(group, topic) for group in names] == [1, 2, 3][: len(names)]


def test_a_fenced_producer_cannot_commit_offsets(
    client: TxnClient, groups: GroupClient, producer: TxnProducer, source: str, topic: str
) -> None:
    group = f"fenced-{source}"
    producer.begin()
    with (
        client.producer(f"id-{topic}"),
        pytest.raises(Exception) as told,  # noqa: PT011  (each library has its own)
    ):
        producer.send_offsets(source, {0: 7}, group)

    assert client.is_fenced(told.value), told.value
    assert groups.committed(group, source) is None


def test_offsets_are_not_told_while_a_transaction_may_change_them(
    broker: TestBroker, client: TxnClient, producer: TxnProducer, source: str
) -> None:
    """To those who ask for stable offsets; the newer of the three libraries do."""
    group = f"unstable-{source}"
    ConfluentGroups(broker.bootstrap_servers).commit(group, source, 3)
    producer.begin()
    producer.send_offsets(source, {0: 7}, group)

    with pytest.raises(confluent_kafka.KafkaException) as told:
        committed(broker, group, source, "read_committed", timeout_s=1)
    assert told.value.args[0].code() in (
        UNSTABLE_OFFSET_COMMIT,
        confluent_kafka.KafkaError._TIMED_OUT,
    )
    assert committed(broker, group, source, "read_uncommitted", timeout_s=90) == 3

    producer.commit()
    assert committed(broker, group, source, "read_committed", timeout_s=90) == 7


def committed(
    broker: TestBroker, group: str, topic: str, isolation: str, timeout_s: float
) -> int | None:
    settings: dict[str, Any] = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": group,
        "isolation.level": isolation,
    }
    consumer = confluent_kafka.Consumer(settings)
    try:
        (found,) = consumer.committed([confluent_kafka.TopicPartition(topic, 0)], timeout=timeout_s)
        assert found.error is None, found.error
        return found.offset
    finally:
        consumer.close()
