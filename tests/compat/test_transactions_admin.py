"""What an administrator sees of transactions, and can do about them.

kafka-python is the only one of the three libraries that asks for it (KIP-664).
"""

from collections.abc import Iterator
from typing import Any

import kafka
import pytest
from kafka.admin import AbortTransactionSpec, KafkaAdminClient
from kafka.errors import TransactionalIdNotFoundError

from ottla.testing import TestBroker
from tests.broker.txn_wire import TxnWire, Version
from tests.broker.wire_client import WireClient
from tests.compat.txn_clients import TIMEOUT_MS, KafkaPythonTxn, TxnProducer


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    """Without verification, so that transactions can be left hanging as in the old days."""
    with TestBroker(config={"transaction.partition.verification.enable": False}) as broker:
        yield broker


@pytest.fixture
def client(broker: TestBroker) -> KafkaPythonTxn:
    return KafkaPythonTxn(broker.bootstrap_servers)


@pytest.fixture
def admin(broker: TestBroker) -> Iterator[Any]:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    yield admin
    admin.close()


@pytest.fixture
def created(broker: TestBroker, topic: str) -> str:
    broker.create_topic(topic, partitions=2)
    return topic


@pytest.fixture
def producer(client: KafkaPythonTxn, topic: str) -> Iterator[TxnProducer]:
    """Its id is the name of the topic."""
    with client.producer(topic) as producer:
        yield producer


def begin(producer: TxnProducer, topic: str) -> None:
    producer.begin()
    producer.send(topic, b"in partition 0", partition=0)
    producer.send(topic, b"in partition 1", partition=1)


def listed(admin: Any, **filters: Any) -> dict[str, str]:
    return {
        found.transactional_id: found.state.value
        for findings in admin.list_transactions(**filters).values()
        for found in findings
    }


def test_a_transaction_is_described(producer: TxnProducer, admin: Any, created: str) -> None:
    def state() -> tuple[str, int]:
        described = admin.describe_transactions([created])[created]
        assert described.transaction_timeout_ms == TIMEOUT_MS
        return described.state.value, len(described.topic_partitions)

    assert state() == ("Empty", 0)
    begin(producer, created)
    assert state() == ("Ongoing", 2)
    producer.commit()
    assert state() == ("CompleteCommit", 0)


def test_an_id_that_nobody_has_used_is_not_found(admin: Any) -> None:
    with pytest.raises(TransactionalIdNotFoundError):
        admin.describe_transactions(["nobody"])


def test_transactions_are_listed_by_state_id_and_age(
    broker: TestBroker, producer: TxnProducer, admin: Any, created: str
) -> None:
    assert listed(admin, transactional_id_pattern=f"{created}|nobody") == {created: "Empty"}
    begin(producer, created)
    assert listed(admin, state_filters=["Ongoing"]) == {created: "Ongoing"}
    assert created not in listed(admin, state_filters=["Empty", "CompleteCommit"])
    assert created not in listed(admin, duration_filter_ms=30_000)
    producer_id = admin.describe_transactions([created])[created].producer_id
    assert listed(admin, producer_id_filters=[producer_id]) == {created: "Ongoing"}

    broker.advance(31)

    assert listed(admin, duration_filter_ms=30_000)[created] == "Ongoing"
    producer.abort()


def test_the_producers_of_a_partition_are_described_with_where_their_transactions_began(
    broker: TestBroker, producer: TxnProducer, admin: Any, created: str
) -> None:
    broker.produce(created, "before", partition=0)
    begin(producer, created)
    (first,), (second,) = (
        admin.describe_producers([place])[place].active_producers
        for place in (kafka.TopicPartition(created, 0), kafka.TopicPartition(created, 1))
    )
    assert first.current_transaction_start_offset == 1
    assert second.current_transaction_start_offset == 0
    producer.commit()


def test_a_transaction_that_hangs_is_found_and_ended(
    broker: TestBroker, client: KafkaPythonTxn, admin: Any, created: str
) -> None:
    """It has a partition that its coordinator does not know of, so nobody will ever end it."""
    with WireClient(broker.bootstrap_servers) as wire:
        hanging = TxnWire(wire, created, version=Version.ONE)
        hanging.init()
        assert hanging.produce(created, b"hangs").error_code == 0
    broker.produce(created, "behind it", partition=0)
    assert client.values(created) == []

    place = kafka.TopicPartition(created, 0)
    (found,) = admin.describe_producers([place])[place].active_producers
    admin.abort_transaction(
        AbortTransactionSpec(
            topic_partition=place,
            producer_id=found.producer_id,
            producer_epoch=found.producer_epoch,
            coordinator_epoch=found.coordinator_epoch,
        )
    )

    assert client.values(created) == [b"behind it"]
