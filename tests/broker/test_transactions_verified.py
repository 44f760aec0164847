"""Writes that belong to no transaction are kept out, because nobody would ever end them.

In version 1 a producer announces its partitions, and the broker asks the coordinator whether it
did (KIP-890, part 1).  Clients from Produce v11 on know TRANSACTION_ABORTABLE; older ones are told
INVALID_TXN_STATE.
"""

import pytest

from ottla.errors import ErrorCode
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.broker.txn_wire import Identity, TxnWire, Version, committed
from tests.broker.wire_client import WireClient, batch_of

NO_ERROR = ErrorCode.NONE
VERSION_1 = pytest.mark.parametrize(
    ("version", "refusal"),
    [
        (Version.ONE, ErrorCode.INVALID_TXN_STATE),
        (Version.ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
    ],
)


def producer_of(client: WireClient, topic: str, version: Version = Version.ONE) -> TxnWire:
    """Its transactional id is the name of the topic."""
    producer = TxnWire(client, topic, version=version)
    assert producer.init().error_code == NO_ERROR
    return producer


@VERSION_1
def test_a_write_to_a_partition_that_was_not_added_is_refused(
    client: WireClient, topic: str, version: Version, refusal: ErrorCode
) -> None:
    producer = producer_of(client, topic, version)
    other = f"{topic}-other"
    client.create_topic(other)
    assert producer.add((other, 0)) == [NO_ERROR]

    assert producer.produce(topic, b"a").error_code == refusal

    assert client.values(topic) == []
    assert producer.produce(other, b"a").error_code == NO_ERROR
    producer.finish()
    assert committed(client, other) == [b"a"]


@VERSION_1
def test_offsets_of_a_group_that_was_not_added_are_refused(
    client: WireClient, topic: str, version: Version, refusal: ErrorCode
) -> None:
    producer = producer_of(client, topic, version)
    assert producer.add((topic, 0)) == [NO_ERROR]
    assert producer.commit_offset(f"group-{topic}", topic, 1) == refusal
    assert producer.add_offsets(f"group-{topic}") == NO_ERROR
    assert producer.commit_offset(f"group-{topic}", topic, 1) == NO_ERROR
    producer.finish()


@VERSION_1
def test_a_write_that_comes_after_the_end_is_refused(
    client: WireClient, topic: str, version: Version, refusal: ErrorCode
) -> None:
    """Without this it would be the beginning of a transaction that never ends."""
    producer = producer_of(client, topic, version)
    producer.add((topic, 0))
    producer.produce(topic, b"in time")
    late = producer.request(topic, b"late")
    producer.finish()

    (answer,) = client.ask(late, version.value.produce).responses

    assert answer.partition_responses[0].error_code == refusal
    fetched = client.fetch(topic)
    assert fetched.last_stable_offset == fetched.high_watermark == 2


def test_a_refused_write_does_not_keep_its_neighbors_out(client: WireClient, topic: str) -> None:
    producer = producer_of(client, topic)
    other = f"{topic}-other"
    client.create_topic(other)
    producer.add((other, 0))
    request = ProduceRequest(
        transactional_id=topic,
        acks=-1,
        timeout_ms=10_000,
        topic_data=tuple(
            TopicProduceData(
                name=name,
                partition_data=(
                    PartitionProduceData(index=0, records=producer.batch(name, 0, b"a")),
                ),
            )
            for name in (topic, other)
        ),
    )
    answer = client.ask(request, Version.ONE.value.produce)
    errors = [topic.partition_responses[0].error_code for topic in answer.responses]
    assert errors == [ErrorCode.INVALID_TXN_STATE, NO_ERROR]


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_of_version_1_that_is_sent_again_is_answered_by_its_outcome(
    client: WireClient, topic: str, commit: bool
) -> None:
    producer = producer_of(client, topic)
    producer.add((topic, 0))
    producer.produce(topic, b"a")
    assert producer.end(commit=commit).error_code == NO_ERROR
    assert producer.end(commit=commit).error_code == NO_ERROR
    assert producer.end(commit=not commit).error_code == ErrorCode.INVALID_TXN_STATE
    older = producer.end(commit=commit, producer=producer.producer.before)
    assert older.error_code == ErrorCode.PRODUCER_FENCED
    oldest = producer.end(commit=commit, producer=producer.producer.before, version=1)
    assert oldest.error_code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_partitions_are_added_all_or_none(client: WireClient, topic: str) -> None:
    producer = producer_of(client, topic)
    assert producer.add((topic, 0), (topic, 1), ("nowhere", 0)) == [
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert producer.state == "Empty"


@pytest.mark.parametrize("internal", ["__consumer_offsets", "__transaction_state"])
def test_internal_topics_take_part_in_no_transaction_of_a_client(
    client: WireClient, topic: str, internal: str
) -> None:
    first = producer_of(client, topic)
    first.add_offsets("anybody")  # so that both topics exist
    first.finish()
    assert first.add((internal, 0)) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]

    second = producer_of(client, topic, Version.TWO)

    assert second.produce(internal, b"a").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert second.state == "Empty"


def test_transactional_records_need_a_transactional_id(client: WireClient, topic: str) -> None:
    result = client.produce(
        topic,
        batch_of(b"a", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True),
    )
    assert result.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert client.values(topic) == []


def test_transactional_records_need_a_producer_id(client: WireClient, topic: str) -> None:
    producer = producer_of(client, topic)
    producer.add((topic, 0))
    producer.become(Identity(-1, -1))
    assert producer.produce(topic, b"a").error_code == ErrorCode.INVALID_RECORD
    assert client.values(topic) == []


def test_a_request_has_transactional_records_of_one_producer_only(
    client: WireClient, topic: str
) -> None:
    producer = producer_of(client, topic, Version.TWO)
    other = TxnWire(client, f"{topic}-other")
    other.init()
    client.create_topic(f"{topic}-two", partition_count=2)
    batches = (producer.batch(topic, 0, b"a"), other.batch(topic, 1, b"b"))
    request = ProduceRequest(
        transactional_id=topic,
        acks=-1,
        timeout_ms=10_000,
        topic_data=(
            TopicProduceData(
                name=f"{topic}-two",
                partition_data=tuple(
                    PartitionProduceData(index=index, records=records)
                    for index, records in enumerate(batches)
                ),
            ),
        ),
    )
    (answer,) = client.ask(request, Version.TWO.value.produce).responses
    errors = {result.error_code for result in answer.partition_responses}
    assert errors == {ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    assert [client.values(f"{topic}-two", partition=index) for index in (0, 1)] == [[], []]


def test_a_transaction_is_not_written_without_acknowledgements(
    broker_address: str, client: WireClient, topic: str
) -> None:
    producer = producer_of(client, topic, Version.TWO)
    with WireClient(broker_address) as other:
        other.send(producer.request(topic, b"a", acks=0), Version.TWO.value.produce)
        assert other.is_closed_by_peer()
    assert client.values(topic) == []
    assert producer.state == "Empty"


def test_what_is_outside_of_an_open_transaction_is_not_let_in_between(
    client: WireClient, topic: str
) -> None:
    producer = producer_of(client, topic, Version.TWO)
    producer.produce(topic, b"inside")
    plain = batch_of(
        b"outside",
        producer_id=producer.producer.producer_id,
        producer_epoch=producer.producer.epoch,
        base_sequence=1,
    )
    assert client.produce(topic, plain).error_code == ErrorCode.INVALID_TXN_STATE
    producer.finish()
    assert committed(client, topic) == [b"inside"]
