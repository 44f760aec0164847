"""`ottla txn` and `ottla why topic`, against transactions of a real producer."""

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException, Producer

from ottla.broker.embedded import Broker
from ottla.cli import main as cli
from ottla.records.builder import BatchOptions, build
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.compat.cli_samples import Run, facts
from tests.kafka_cluster import until
from tests.keeping import KEEPS
from tests.raw_requests import ask

TIMEOUT_S = 60
VERSION_1_PRODUCE = 9
NOW_MS = 1_700_000_000_000
LOST_PRODUCER = 77_000


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker that believes producers, so that a transaction can be lost."""
    config = {**KEEPS, "transaction.partition.verification.enable": False}
    with Broker(config=config) as running:
        yield running


@pytest.fixture
def producer(broker: Broker, topic: str) -> Iterator[Producer]:
    """A producer with a transaction open: two records in one partition of the topic."""
    opened = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": f"of-{topic}"}
    )
    opened.init_transactions(TIMEOUT_S)
    opened.begin_transaction()
    for value in (b"a", b"b"):
        opened.produce(topic, value)
    assert opened.flush(TIMEOUT_S) == 0
    yield opened
    opened.purge()


@pytest.fixture
def lost(broker: Broker, topic: str) -> str:
    """A topic with a transaction that no coordinator knows of."""
    options = BatchOptions(
        producer_id=LOST_PRODUCER, producer_epoch=3, base_sequence=0, is_transactional=True
    )
    data = PartitionProduceData(index=0, records=build([(NOW_MS, None, b"v", ())], options))
    request = ProduceRequest(
        transactional_id="nobody",
        acks=-1,
        timeout_ms=1_000,
        topic_data=(TopicProduceData(name=topic, partition_data=(data,)),),
    )
    answer = ask(
        broker.bootstrap_servers,
        request,
        ProduceResponse,
        topic=topic,
        max_version=VERSION_1_PRODUCE,
    )
    assert answer.responses[0].partition_responses[0].error_code == 0
    return topic


def test_an_open_transaction_is_listed_and_described(
    run: Run, topic: str, producer: Producer
) -> None:
    listed = facts(run("txn", "list", "--state", "Ongoing", "-o", "json"))
    assert f"of-{topic}" in [line["transactional_id"] for line in listed]
    old = facts(run("txn", "list", "--older-than", "1d", "--state", "Ongoing", "-o", "json"))
    assert old == []
    (described,) = facts(run("txn", "describe", f"of-{topic}", "-o", "json"))
    assert described["state"] == "Ongoing"
    assert described["partitions"] == [{"topic": topic, "partition": 0}]
    text = run("txn", "describe", f"of-{topic}").stdout
    assert "Ongoing" in text
    assert topic in text


def test_an_aborted_producer_is_fenced(run: Run, topic: str, producer: Producer) -> None:
    done = run("txn", "abort", f"of-{topic}", "-y")
    assert done.exit_code == cli.OK, done.stderr
    with pytest.raises(KafkaException):
        producer.commit_transaction(TIMEOUT_S)
    again = run("txn", "abort", f"of-{topic}", "-y")
    assert "has nothing open" in again.stderr
    assert again.exit_code == 5


def test_why_topic_names_the_transaction_that_holds_it(
    run: Run, topic: str, producer: Producer
) -> None:
    (told,) = facts(run("why", "topic", topic, "-o", "json"))
    (finding,) = told["findings"]
    assert finding["code"] == "open_transaction"
    assert f"of-{topic}" in finding["text"]
    assert "stop at offset 0" in finding["text"]
    assert finding["until_ms"] == finding["since_ms"] + 60_000
    producer.commit_transaction(TIMEOUT_S)

    def is_free() -> bool:
        (told,) = facts(run("why", "topic", topic, "-o", "json"))
        return [finding["code"] for finding in told["findings"]] == ["nothing"]

    until(is_free)  # a commit is acknowledged a moment before its marks are written


def test_a_hanging_transaction_is_found_and_ended(run: Run, lost: str) -> None:
    (told,) = facts(run("why", "topic", lost, "-o", "json"))
    assert [finding["code"] for finding in told["findings"]] == ["hanging_transaction"]
    (found,) = facts(run("txn", "hanging", lost, "-o", "json"))
    assert (found["producer_id"], found["start_offset"]) == (LOST_PRODUCER, 0)
    place = ("--topic", lost, "--partition", 0, "--producer-id", LOST_PRODUCER)
    done = run("txn", "abort", *place, "-y")
    assert done.exit_code == cli.OK, done.stderr
    assert facts(run("txn", "hanging", lost, "-o", "json")) == []
    again = run("txn", "abort", *place, "-y")
    assert "has no transaction open" in again.stderr
    assert again.exit_code == 6


def test_a_transaction_with_an_owner_does_not_hang(
    run: Run, broker: Broker, topic: str, producer: Producer
) -> None:
    assert facts(run("txn", "hanging", topic, "-o", "json")) == []
    (described,) = facts(run("txn", "describe", f"of-{topic}", "-o", "json"))
    place = ("--topic", topic, "--partition", 0, "--producer-id", described["producer_id"])
    done = run("txn", "abort", *place, "-y")
    assert f"ottla txn abort of-{topic}" in done.stderr


def test_an_unknown_transactional_id_is_an_error(run: Run) -> None:
    done = run("txn", "describe", "nobody-has-this")
    assert done.exit_code == 6
    assert "TRANSACTIONAL_ID_NOT_FOUND" in done.stderr


def test_abort_wants_to_know_what(run: Run) -> None:
    assert run("txn", "abort", "-y").exit_code == cli.USAGE
    assert run("txn", "abort", "x", "--topic", "t", "-y").exit_code == cli.USAGE
