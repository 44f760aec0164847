"""Transactions of a real producer in the hands of our admin client."""

import time
from collections.abc import Iterator
from datetime import timedelta

import pytest
from confluent_kafka import KafkaException, Producer

import ottla
from ottla.client.admin.transactions import HangingTransaction
from ottla.errors import NotFoundError, RequestError, raise_for_code
from ottla.records.builder import BatchOptions, build
from ottla.testing import TestBroker
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.kafka_cluster import OpenBroker, skip_before
from tests.raw_requests import ask

TIMEOUT_S = 90
VERSION_1_PRODUCE = 9
LONG_AGO_MS = 1_700_000_000_000
LOST_PRODUCER = 77_000


@pytest.fixture(scope="module")
def broker(open_broker: OpenBroker) -> Iterator[TestBroker]:
    """A broker that believes producers, so that a transaction can be lost."""
    with open_broker({"transaction.partition.verification.enable": False}) as running:
        yield running


@pytest.fixture(scope="module")
def admin(broker: TestBroker) -> Iterator[ottla.Admin]:
    with ottla.Admin(broker.bootstrap_servers) as admin:
        yield admin


@pytest.fixture
def place(admin: ottla.Admin, topic: str) -> ottla.TopicPartition:
    admin.create_topic(topic)
    return ottla.TopicPartition(topic, 0)


@pytest.fixture
def producer(broker: TestBroker, place: ottla.TopicPartition) -> Iterator[Producer]:
    """A producer with a transaction open, two records in it."""
    opened = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": f"of-{place.topic}"}
    )
    opened.init_transactions(TIMEOUT_S)
    opened.begin_transaction()
    for value in (b"a", b"b"):
        opened.produce(place.topic, value)
    assert opened.flush(TIMEOUT_S) == 0
    yield opened
    opened.purge()


def lose(broker: TestBroker, place: ottla.TopicPartition, written_ms: int) -> None:
    """Write to a partition in a transaction that no coordinator knows of."""
    options = BatchOptions(
        producer_id=LOST_PRODUCER, producer_epoch=3, base_sequence=0, is_transactional=True
    )
    data = PartitionProduceData(index=0, records=build([(written_ms, None, b"v", ())], options))
    request = ProduceRequest(
        transactional_id="nobody",
        acks=-1,
        timeout_ms=1_000,
        topic_data=(TopicProduceData(name=place.topic, partition_data=(data,)),),
    )
    answer = ask(broker.bootstrap_servers, request, ProduceResponse, max_version=VERSION_1_PRODUCE)
    raise_for_code(answer.responses[0].partition_responses[0].error_code)


def test_an_open_transaction_is_listed_and_described(
    admin: ottla.Admin, place: ottla.TopicPartition, producer: Producer
) -> None:
    name = f"of-{place.topic}"
    listed = {listing.transactional_id: listing for listing in admin.list_transactions()}
    info = admin.describe_transaction(name)

    assert (listed[name].state, listed[name].coordinator) == ("Ongoing", 1)
    assert (info.state, info.partitions) == ("Ongoing", (place,))
    assert info.timeout == timedelta(minutes=1)
    assert info.started is not None
    only = admin.list_transactions(states=["Ongoing"], producer_ids=[info.producer_id])
    assert [listing.transactional_id for listing in only] == [name]
    assert admin.list_transactions(states=["CompleteAbort"], producer_ids=[info.producer_id]) == []
    assert admin.list_transactions(older_than=timedelta(hours=1)) == []
    with pytest.raises(RequestError, match="Onging"):
        admin.list_transactions(states=["Onging"])


def test_transactions_are_listed_by_a_pattern(
    broker: TestBroker, admin: ottla.Admin, place: ottla.TopicPartition, producer: Producer
) -> None:
    skip_before("4.1", broker, "it knows no patterns of transactional ids (KIP-1152)")
    name = f"of-{place.topic}"
    found = admin.list_transactions(pattern=f".f-{place.topic}")
    assert [listing.transactional_id for listing in found] == [name]
    assert admin.list_transactions(pattern=f"no-{place.topic}") == []


def test_a_partition_knows_who_writes_to_it(
    admin: ottla.Admin, place: ottla.TopicPartition, producer: Producer
) -> None:
    (writer,) = admin.describe_producers([place])[place]

    info = admin.describe_transaction(f"of-{place.topic}")
    assert (writer.producer_id, writer.producer_epoch) == (info.producer_id, info.producer_epoch)
    assert (writer.transaction_start_offset, writer.last_sequence) == (0, 1)
    assert admin.list_offsets([place], isolation_level="read_committed") == {place: 0}


def test_an_aborted_transaction_is_over_and_its_producer_fenced(
    admin: ottla.Admin, place: ottla.TopicPartition, producer: Producer
) -> None:
    admin.abort_transaction(f"of-{place.topic}")

    info = admin.describe_transaction(f"of-{place.topic}")
    assert (info.started, info.partitions) == (None, ())
    assert admin.list_offsets([place], isolation_level="read_committed") == {place: 3}
    with pytest.raises(KafkaException):
        producer.commit_transaction(TIMEOUT_S)


def test_a_fenced_producer_gets_a_successor(
    admin: ottla.Admin, place: ottla.TopicPartition, producer: Producer
) -> None:
    before = admin.describe_transaction(f"of-{place.topic}")

    fenced = admin.fence_producers(f"of-{place.topic}", f"new-{place.topic}")

    after = fenced[f"of-{place.topic}"]
    assert (after.producer_id, after.producer_epoch) > (before.producer_id, before.producer_epoch)
    assert fenced[f"new-{place.topic}"].producer_epoch == 0


def test_aborting_what_nobody_uses_makes_no_transactional_id(admin: ottla.Admin) -> None:
    with pytest.raises(NotFoundError):
        admin.abort_transaction("nobody-has-this")
    with pytest.raises(NotFoundError):
        admin.describe_transaction("nobody-has-this")


def test_a_hanging_transaction_is_found_and_ended(
    broker: TestBroker, admin: ottla.Admin, place: ottla.TopicPartition
) -> None:
    lose(broker, place, LONG_AGO_MS)

    (found,) = admin.hanging_transactions(topics=[place.topic])
    assert isinstance(found, HangingTransaction)
    assert (found.tp, found.producer.producer_id) == (place, LOST_PRODUCER)
    assert admin.list_offsets([place], isolation_level="read_committed") == {place: 0}

    admin.abort_hanging(found)

    assert admin.hanging_transactions(topics=[place.topic]) == []
    assert admin.list_offsets([place], isolation_level="read_committed") == {place: 2}


def test_a_transaction_that_may_yet_go_on_does_not_hang(
    broker: TestBroker, admin: ottla.Admin, place: ottla.TopicPartition
) -> None:
    lose(broker, place, int(time.time() * 1000))

    assert admin.hanging_transactions(topics=[place.topic]) == []
    (found,) = admin.hanging_transactions(topics=[place.topic], older_than=timedelta(0))
    assert found.tp == place


def test_a_transaction_with_an_owner_does_not_hang(
    admin: ottla.Admin, place: ottla.TopicPartition, producer: Producer
) -> None:
    found = admin.hanging_transactions(older_than=timedelta(0))

    assert place not in {hanging.tp for hanging in found}
