"""What consumers see of transactions that each client writes: all of one, or nothing."""

from collections.abc import Iterator

import pytest

from ottla.testing import TestBroker
from tests.compat.txn_clients import TXN_CLIENTS, TxnClient, TxnProducer


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    with TestBroker() as broker:
        yield broker


@pytest.fixture(params=TXN_CLIENTS, ids=lambda kind: kind.name)
def client(request: pytest.FixtureRequest, broker: TestBroker) -> TxnClient:
    made: TxnClient = request.param(broker.bootstrap_servers)
    return made


@pytest.fixture(params=TXN_CLIENTS, ids=lambda kind: f"read by {kind.name}")
def reader(request: pytest.FixtureRequest, broker: TestBroker) -> TxnClient:
    made: TxnClient = request.param(broker.bootstrap_servers)
    return made


@pytest.fixture
def created(broker: TestBroker, topic: str) -> str:
    broker.create_topic(topic, partitions=3)
    return topic


@pytest.fixture
def producer(client: TxnClient, topic: str) -> Iterator[TxnProducer]:
    with client.producer(f"id-{topic}") as producer:
        yield producer


def test_a_transaction_becomes_visible_when_it_is_committed(
    producer: TxnProducer, reader: TxnClient, created: str
) -> None:
    producer.begin()
    producer.send(created, b"espresso", b"lungo")
    assert reader.values(created) == []
    assert reader.values(created, committed=False) == [b"espresso", b"lungo"]

    producer.commit()

    assert reader.values(created) == [b"espresso", b"lungo"]


def test_an_aborted_transaction_is_seen_by_those_only_who_read_uncommitted(
    producer: TxnProducer, reader: TxnClient, created: str
) -> None:
    producer.begin()
    producer.send(created, b"spilled")
    producer.abort()
    producer.begin()
    producer.send(created, b"served")
    producer.commit()

    assert reader.values(created) == [b"served"]
    assert reader.values(created, committed=False) == [b"spilled", b"served"]


def test_many_transactions_one_after_the_other_are_each_kept_or_dropped(
    producer: TxnProducer, reader: TxnClient, created: str
) -> None:
    for number in range(30):
        producer.begin()
        producer.send(created, b"%d first" % number, b"%d second" % number)
        if number % 3:
            producer.commit()
        else:
            producer.abort()

    kept = [number for number in range(30) if number % 3]
    assert reader.values(created) == [
        b"%d %s" % (number, part) for number in kept for part in (b"first", b"second")
    ]
    assert len(reader.values(created, committed=False)) == 60


def test_a_transaction_spans_partitions_and_topics(
    broker: TestBroker, client: TxnClient, producer: TxnProducer, created: str
) -> None:
    other = f"{created}-other"
    broker.create_topic(other, partitions=2)
    places = [(created, 0), (created, 2), (other, 1)]
    for outcome in (producer.abort, producer.commit):
        producer.begin()
        for topic, partition in places:
            producer.send(topic, outcome.__name__.encode(), partition=partition)
        assert [client.values(t, partition=p) for t, p in places] == [[], [], []]
        outcome()

    assert [client.values(t, partition=p) for t, p in places] == [[b"commit"]] * 3


def test_the_end_of_a_partition_is_before_an_open_transaction_for_those_who_read_committed(
    broker: TestBroker, producer: TxnProducer, reader: TxnClient, created: str
) -> None:
    broker.produce(created, "before", partition=0)
    producer.begin()
    producer.send(created, b"open", b"still open")
    broker.produce(created, "beside", partition=0)

    assert reader.end_offset(created, committed=True) == 1
    assert reader.end_offset(created, committed=False) == 4
    assert reader.values(created) == [b"before"]

    producer.commit()

    # The marker has an offset of its own.
    assert reader.end_offset(created, committed=True) == 5
    assert reader.end_offset(created, committed=False) == 5
    assert reader.values(created) == [b"before", b"open", b"still open", b"beside"]


def test_the_oldest_open_transaction_holds_back_those_that_are_committed(
    client: TxnClient, producer: TxnProducer, reader: TxnClient, created: str
) -> None:
    producer.begin()
    producer.send(created, b"first")
    with client.producer(f"other-{created}") as other:
        other.begin()
        other.send(created, b"second")
        other.commit()
    assert reader.values(created) == []

    producer.abort()

    assert reader.values(created) == [b"second"]


def test_a_transaction_may_be_empty(producer: TxnProducer, client: TxnClient, created: str) -> None:
    for outcome in (producer.commit, producer.abort, producer.commit):
        producer.begin()
        outcome()
    producer.begin()
    producer.send(created, b"after nothing")
    producer.commit()

    assert client.values(created) == [b"after nothing"]
