"""Producers that are no longer who they think they are: each client is told, and writes nothing."""

from collections.abc import Iterator

import pytest

from ottla.testing import TestBroker
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from tests.broker.wire_client import WireClient
from tests.compat.txn_clients import TXN_CLIENTS, TxnClient

LONG_S = 3600.0
TIMEOUT_MS = 600_000


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    with TestBroker() as broker:
        yield broker


@pytest.fixture(params=TXN_CLIENTS, ids=lambda kind: kind.name)
def client(request: pytest.FixtureRequest, broker: TestBroker) -> TxnClient:
    made: TxnClient = request.param(broker.bootstrap_servers)
    return made


@pytest.fixture(params=TXN_CLIENTS, ids=lambda kind: f"then {kind.name}")
def successor(request: pytest.FixtureRequest, broker: TestBroker) -> TxnClient:
    made: TxnClient = request.param(broker.bootstrap_servers)
    return made


@pytest.fixture
def created(broker: TestBroker, topic: str) -> str:
    broker.create_topic(topic, config={"retention.ms": "-1"})
    return topic


def state_of(broker: TestBroker, transactional_id: str) -> str:
    with WireClient(broker.bootstrap_servers) as wire:
        request = DescribeTransactionsRequest(transactional_ids=(transactional_id,))
        (described,) = wire.ask(request, 0).transaction_states
        return str(described.transaction_state)


def test_a_second_producer_of_the_same_id_fences_the_first(
    client: TxnClient, successor: TxnClient, created: str
) -> None:
    with client.producer(created) as zombie:
        zombie.begin()
        zombie.send(created, b"by the zombie")
        with successor.producer(created) as heir:
            heir.begin()
            heir.send(created, b"by the heir")

            with pytest.raises(Exception) as told:  # noqa: PT011  (each library has its own)
                zombie.send(created, b"too late")

            assert client.is_fenced(told.value), told.value
            heir.commit()
    assert client.values(created) == [b"by the heir"]
    assert client.values(created, committed=False) == [b"by the zombie", b"by the heir"]


def test_a_fenced_producer_cannot_commit(
    client: TxnClient, successor: TxnClient, created: str
) -> None:
    with client.producer(created) as zombie:
        zombie.begin()
        zombie.send(created, b"by the zombie")
        with successor.producer(created), pytest.raises(Exception) as told:  # noqa: PT011
            zombie.commit()
        assert client.is_fenced(told.value), told.value
    assert client.values(created) == []


def test_a_transaction_that_takes_too_long_is_aborted(
    broker: TestBroker, client: TxnClient, created: str
) -> None:
    with client.producer(created, timeout_ms=TIMEOUT_MS) as producer:
        producer.begin()
        producer.send(created, b"too slow")
        assert state_of(broker, created) == "Ongoing"

        broker.advance(LONG_S)

        assert state_of(broker, created) == "CompleteAbort"
        with pytest.raises(Exception) as told:  # noqa: PT011
            producer.commit()
        assert client.is_fenced(told.value), told.value

    write(client, created, b"in time")
    assert client.values(created) == [b"in time"]


def test_a_transaction_in_time_is_not_aborted(
    broker: TestBroker, client: TxnClient, created: str
) -> None:
    with client.producer(created, timeout_ms=TIMEOUT_MS) as producer:
        broker.advance(LONG_S)  # time counts from the first write on
        producer.begin()
        producer.send(created, b"in time")
        broker.advance(TIMEOUT_MS / 1000 / 2)

        producer.commit()

    assert client.values(created) == [b"in time"]


def test_an_id_that_nobody_has_used_for_long_begins_anew(
    broker: TestBroker, client: TxnClient, created: str
) -> None:
    write(client, created, b"long ago")

    broker.advance(8 * 24 * LONG_S)

    assert state_of(broker, created) == ""
    write(client, created, b"today")
    assert client.values(created) == [b"long ago", b"today"]


def write(client: TxnClient, topic: str, value: bytes) -> None:
    """A whole transaction of a new producer; its id is the name of the topic."""
    with client.producer(topic) as producer:
        producer.begin()
        producer.send(topic, value)
        producer.commit()
