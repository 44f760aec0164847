"""A broker that ends in the middle of a client's transaction, and comes back: nothing is torn."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.testing import TestBroker
from tests.broker.txn_wire import wait_until_stable
from tests.broker.wire_client import WireClient
from tests.compat.txn_clients import TXN_CLIENTS, TxnClient, TxnProducer

TOPICS = ("left", "right")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[TestBroker]:
    """One that keeps what it acknowledged."""
    with TestBroker(tmp_path) as broker:
        for name in TOPICS:
            broker.create_topic(name)
        yield broker


@pytest.fixture(params=TXN_CLIENTS, ids=lambda kind: kind.name)
def client(request: pytest.FixtureRequest, broker: TestBroker) -> TxnClient:
    made: TxnClient = request.param(broker.bootstrap_servers)
    return made


def crash(broker: TestBroker) -> None:
    broker.crash()
    broker.restart()


def stop(broker: TestBroker) -> None:
    broker.restart()


Ends = Callable[[TestBroker], None]

each_end = pytest.mark.parametrize("end", [crash, stop])


def write(producer: TxnProducer, value: bytes) -> None:
    for name in TOPICS:
        producer.send(name, value)


def seen(client: TxnClient, *, committed: bool = True) -> list[list[bytes]]:
    return [client.values(name, committed=committed) for name in TOPICS]


def seen_at_last(client: TxnClient) -> list[list[bytes]]:
    """What is committed when all that was decided is carried out."""
    with WireClient(client.bootstrap_servers) as wire:
        for name in TOPICS:
            wait_until_stable(wire, name)
    return seen(client)


@each_end
def test_a_transaction_goes_on_after_a_restart(
    broker: TestBroker, client: TxnClient, end: Ends
) -> None:
    with client.producer("id") as producer:
        producer.begin()
        write(producer, b"before")
        end(broker)
        assert seen(client) == [[], []]
        write(producer, b"after")
        producer.commit()

    assert seen_at_last(client) == [[b"before", b"after"]] * 2


@each_end
def test_a_transaction_can_be_aborted_after_a_restart(
    broker: TestBroker, client: TxnClient, end: Ends
) -> None:
    with client.producer("id") as producer:
        producer.begin()
        write(producer, b"before")
        end(broker)
        producer.abort()
        producer.begin()
        write(producer, b"after")
        producer.commit()

    assert seen_at_last(client) == [[b"after"]] * 2
    assert seen(client, committed=False) == [[b"before", b"after"]] * 2


@each_end
def test_what_was_committed_is_there_after_a_restart(
    broker: TestBroker, client: TxnClient, end: Ends
) -> None:
    """The restart may come before the markers: the decision is what counts."""
    for number in range(3):
        with client.producer("id") as producer:
            producer.begin()
            write(producer, b"%d" % number)
            producer.commit()
            end(broker)
        assert seen_at_last(client) == [[b"%d" % n for n in range(number + 1)]] * 2


def test_a_producer_goes_on_after_the_restart_that_followed_its_commit(
    broker: TestBroker, client: TxnClient
) -> None:
    with client.producer("id") as producer:
        for number in range(3):
            producer.begin()
            write(producer, b"%d" % number)
            producer.commit()
            crash(broker)

    assert seen_at_last(client) == [[b"0", b"1", b"2"]] * 2


def test_the_open_transaction_of_a_client_that_is_gone_ends_with_its_successor(
    broker: TestBroker, client: TxnClient
) -> None:
    with client.producer("id") as gone:
        gone.begin()
        write(gone, b"unfinished")
    crash(broker)

    with client.producer("id") as producer:
        producer.begin()
        write(producer, b"finished")
        producer.commit()

    assert seen_at_last(client) == [[b"finished"]] * 2


def test_a_transaction_is_committed_once_though_the_answer_is_lost(
    broker: TestBroker, client: TxnClient
) -> None:
    with client.producer("id") as producer:
        for number in range(3):
            fault = broker.faults.drop_reply("EndTxn")
            producer.begin()
            write(producer, b"%d" % number)
            producer.commit()
            assert fault.hit_count == 1

    assert seen_at_last(client) == [[b"0", b"1", b"2"]] * 2


def test_lost_answers_neither_lose_nor_double_what_a_transaction_writes(
    broker: TestBroker, client: TxnClient
) -> None:
    lost = ("AddPartitionsToTxn", "Produce", "AddOffsetsToTxn", "TxnOffsetCommit")
    with client.producer("id") as producer:
        faults = [broker.faults.drop_reply(api) for api in lost]
        producer.begin()
        write(producer, b"once")
        producer.send_offsets("left", {0: 1}, "group")
        producer.commit()

    assert [fault.hit_count for fault in faults] == [1] * len(lost)
    assert seen(client, committed=False) == [[b"once"]] * 2
