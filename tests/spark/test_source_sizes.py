"""What the driver learns from small fetches: how large offsets are, and that records have come."""

import threading
from collections.abc import Iterator

import pytest

import ottla
from ottla.model import TopicPartition
from ottla.spark.options import SourceOptions
from ottla.spark.source.brokers import Brokers
from ottla.testing import TestBroker
from tests.kafka_cluster import until


@pytest.fixture
def brokers(broker: TestBroker, topic: str) -> Iterator[Brokers]:
    broker.create_topic(topic)
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": topic}
    with Brokers(SourceOptions.of(given)) as made:
        made.topics()
        yield made


def test_the_size_of_offsets_is_seen_from_the_next_records(
    broker: TestBroker, brokers: Brokers, topic: str
) -> None:
    with ottla.Producer(broker.bootstrap_servers) as producer:
        for _ in range(1_000):
            producer.send(topic, bytes(1_000))

    found = brokers.offset_bytes({TopicPartition(topic, 0): 0})

    assert 1_000 < found[TopicPartition(topic, 0)] < 1_100


def test_nothing_is_said_of_partitions_without_records(brokers: Brokers, topic: str) -> None:
    assert brokers.offset_bytes({TopicPartition(topic, 0): 0}) == {}


def test_a_record_ends_the_wait_for_records(
    broker: TestBroker, brokers: Brokers, topic: str
) -> None:
    fetches = broker.faults.delay("Fetch", 0.0)
    woken = threading.Event()

    def wait() -> None:
        brokers.wait_for_records({TopicPartition(topic, 0): 0}, timeout_ms=100_000)
        woken.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    broker.produce(topic, "v")

    assert woken.wait(60)
    waiting.join()
    assert fetches.hit_count >= 1


def test_a_wait_that_is_in_vain_ends_in_time(brokers: Brokers, topic: str) -> None:
    brokers.wait_for_records({TopicPartition(topic, 0): 0}, timeout_ms=10)


def test_an_open_transaction_holds_back_the_end_that_may_be_seen(
    broker: TestBroker, brokers: Brokers, topic: str
) -> None:
    with (
        ottla.Producer(broker.bootstrap_servers, transactional_id=topic) as producer,
        producer.transaction() as transaction,
    ):
        transaction.send(topic, b"v").result()
        assert brokers.latest([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): 0}
        assert brokers.high_watermarks([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): 1}
    # Kafka answers a commit before its markers are written.
    until(lambda: brokers.latest([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): 2})
