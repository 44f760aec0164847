"""A topic that grows while a producer knows it: its new partitions can be written to at once."""

import asyncio

import pytest

import ottla
from ottla.errors import UnknownTopicError
from ottla.testing import TestBroker
from tests.compat.client_producers import SOON_S, faulty, served

__all__ = ["faulty", "served"]  # fixtures


def grow(broker: TestBroker, topic: str) -> None:
    with ottla.Admin(broker.bootstrap_servers) as admin:
        admin.add_partitions(topic, total=2)


def test_a_record_goes_to_a_partition_that_is_new(served: TestBroker, topic: str) -> None:
    served.create_topic(topic, partitions=1)
    with ottla.Producer(served.bootstrap_servers) as producer:
        producer.send(topic, b"old").result(SOON_S)
        grow(served, topic)
        assert producer.send(topic, b"new", partition=1).result(SOON_S).partition == 1
        with pytest.raises(UnknownTopicError, match="has 2 partitions, no number 2"):
            producer.send(topic, b"nowhere", partition=2)


def test_the_same_for_asyncio(served: TestBroker, topic: str) -> None:
    served.create_topic(topic, partitions=1)

    async def main() -> int:
        async with ottla.AsyncProducer(served.bootstrap_servers) as producer:
            await producer.send(topic, b"old")
            await asyncio.to_thread(grow, served, topic)
            return (await producer.send(topic, b"new", partition=1)).partition

    assert asyncio.run(main()) == 1


def test_rows_go_to_a_partition_that_is_new(served: TestBroker, topic: str) -> None:
    pa = pytest.importorskip("pyarrow")
    served.create_topic(topic, partitions=1)
    with ottla.Producer(served.bootstrap_servers) as producer:
        producer.send(topic, b"old").result(SOON_S)
        grow(served, topic)
        rows = pa.table({"value": [b"a", b"b"], "to": [0, 1]})
        written = producer.send_arrow(topic, rows, value="value", partition="to").result(SOON_S)
        assert dict(written) == {0: range(1, 2), 1: range(1)}
        with pytest.raises(ValueError, match="partitions 0 to 1"):
            producer.send_arrow(
                topic, pa.table({"value": [b"c"], "to": [2]}), value="value", partition="to"
            )
