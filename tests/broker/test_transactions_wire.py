"""Version 2 of the transaction protocol (KIP-890), byte by byte: each end has the next epoch.

No Python library speaks it yet; Java's does, and switches it on by what ApiVersions says.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.broker.embedded import Broker
from ottla.errors import ErrorCode
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.wire.messages.produce import ProduceRequest
from ottla.wire.registry import ApiKey
from tests.broker.txn_wire import Identity, TxnWire, Version, committed, wait_until_stable
from tests.broker.wire_client import WireClient

NO_ERROR = ErrorCode.NONE
UNKNOWN_ID = Identity(4711, 0)


@pytest.fixture
def producer(client: WireClient, topic: str) -> TxnWire:
    """Its transactional id is the name of the topic."""
    producer = TxnWire(client, topic)
    assert producer.init().error_code == NO_ERROR
    return producer


def test_a_write_adds_its_partition_to_the_transaction(
    client: WireClient, topic: str, producer: TxnWire
) -> None:
    assert producer.state == "Empty"
    assert producer.produce(topic, b"a").error_code == NO_ERROR
    described = producer.described()
    assert described.transaction_state == "Ongoing"
    assert [(t.topic, t.partitions) for t in described.topics] == [(topic, (0,))]
    assert committed(client, topic) == []

    producer.finish()

    assert committed(client, topic) == [b"a"]


def test_every_end_bumps_the_epoch(client: WireClient, topic: str, producer: TxnWire) -> None:
    first = producer.producer
    for number in range(3):
        producer.produce(topic, b"%d" % number)
        producer.finish(commit=number != 1)
        assert producer.producer == (first.producer_id, first.epoch + number + 1)

    assert committed(client, topic) == [b"0", b"2"]


def test_a_write_with_the_epoch_of_the_last_transaction_is_refused(
    client: WireClient, topic: str, producer: TxnWire
) -> None:
    late = TxnWire(client, topic)
    late.become(producer.producer)
    producer.produce(topic, b"in time")
    producer.finish()

    assert late.produce(topic, b"late").error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    other = f"{topic}-other"
    client.create_topic(other)
    assert late.produce(other, b"late").error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert committed(client, topic) == [b"in time"]
    assert client.values(other) == []


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_that_is_sent_again_is_answered_as_the_first(
    topic: str, producer: TxnWire, commit: bool
) -> None:
    producer.produce(topic, b"a")
    first = producer.end(commit=commit)
    for _ in range(3):
        assert producer.end(commit=commit) == first
    other = producer.end(commit=not commit)
    assert other.error_code == ErrorCode.INVALID_TXN_STATE


def test_ends_that_are_under_way_together_are_answered_alike(
    broker_address: str, client: WireClient, topic: str, producer: TxnWire
) -> None:
    """A client that was cut off asks again over another connection, while the first one counts."""
    producer.produce(topic, b"a")
    request = EndTxnRequest(
        transactional_id=topic,
        producer_id=producer.producer.producer_id,
        producer_epoch=producer.producer.epoch,
        committed=True,
    )
    with WireClient(broker_address) as other:
        connections = [client, other, client, other]
        for connection in connections:
            connection.send(request, Version.TWO.value.end)
        answers = [
            connection.receive(EndTxnRequest, Version.TWO.value.end)[1]
            for connection in connections
        ]
    assert {(a.error_code, a.producer_epoch) for a in answers} == {(0, producer.producer.epoch + 1)}
    assert committed(client, topic) == [b"a"]


def test_a_late_end_of_the_last_transaction_does_not_end_the_next(
    client: WireClient, topic: str, producer: TxnWire
) -> None:
    """What tore transactions in version 1 (KAFKA-17754)."""
    producer.produce(topic, b"first")
    producer.finish()
    producer.produce(topic, b"second")

    for commit in (True, False):
        late = producer.end(commit=commit, producer=producer.producer.before)
        assert late.error_code == ErrorCode.PRODUCER_FENCED

    assert producer.state == "Ongoing"
    assert committed(client, topic) == [b"first"]
    producer.finish(commit=False)
    assert committed(client, topic) == [b"first"]


def test_in_version_1_a_late_end_does_end_the_next(client: WireClient, topic: str) -> None:
    """The flaw of the protocol itself, here to be seen: nothing tells the two ends apart."""
    producer = TxnWire(client, topic, version=Version.ONE)
    producer.init()
    for value in (b"first", b"second"):
        producer.add((topic, 0))
        producer.produce(topic, value)
        late = producer.end(commit=True)
    assert late.error_code == NO_ERROR
    assert committed(client, topic) == [b"first", b"second"]


@pytest.mark.parametrize(
    ("shown", "error"),
    [
        (lambda current: current.after, ErrorCode.PRODUCER_FENCED),
        (lambda current: current.before.before, ErrorCode.PRODUCER_FENCED),
        (lambda current: UNKNOWN_ID, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
    ids=["a later epoch", "an epoch of long ago", "another producer"],
)
def test_only_its_producer_ends_a_transaction(
    topic: str, producer: TxnWire, shown: Callable[[Identity], Identity], error: ErrorCode
) -> None:
    for _ in range(2):
        producer.produce(topic, b"before")
        producer.finish()
    producer.produce(topic, b"a")

    answer = producer.end(commit=True, producer=shown(producer.producer))

    assert answer.error_code == error
    assert producer.state == "Ongoing"


def test_an_id_that_nobody_has_used_has_no_transaction_to_end(
    client: WireClient, topic: str
) -> None:
    nobody = TxnWire(client, f"nobody-{topic}")
    nobody.become(UNKNOWN_ID)
    assert nobody.end(commit=True).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert nobody.produce(topic, b"a").error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    unnamed = TxnWire(client, "")
    assert unnamed.end(commit=True).error_code == ErrorCode.INVALID_REQUEST
    assert client.values(topic) == []


def test_nothing_can_be_aborted_and_cannot_be_committed(producer: TxnWire) -> None:
    """A producer that is in doubt aborts, and must get another epoch whatever was there."""
    assert producer.end(commit=True).error_code == ErrorCode.INVALID_TXN_STATE
    answer = producer.end(commit=False)
    assert (answer.error_code, answer.producer_epoch) == (0, producer.producer.epoch + 1)


def test_a_transaction_begins_with_the_first_sequence_number(
    client: WireClient, topic: str, producer: TxnWire
) -> None:
    lost = producer.request(topic, b"lost on its way")
    assert lost.acks == -1
    result = producer.produce(topic, b"second")
    assert result.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert client.values(topic) == []


def test_writes_that_are_sent_together_are_written_in_order(tmp_path: Path) -> None:
    """The first ones wait for the coordinator, and nobody overtakes them while a sync goes on."""
    version = Version.TWO.value.produce
    with Broker(tmp_path) as durable, WireClient(durable.bootstrap_servers) as wire:
        wire.create_topic("orders")
        producer = TxnWire(wire, "id")
        producer.init()
        for _ in range(10):
            requests = [producer.request("orders", b"%d" % number) for number in range(20)]
            for request in requests:
                wire.send(request, version)
            errors = [
                wire.receive(ProduceRequest, version)[1].responses[0].partition_responses[0]
                for _ in requests
            ]
            assert [result.error_code for result in errors] == [NO_ERROR] * 20
            producer.finish()
        wait_until_stable(wire, "orders")
        assert committed(wire, "orders") == [b"%d" % number for number in range(20)] * 10


def test_what_is_sent_again_in_a_transaction_is_written_once(
    client: WireClient, topic: str, producer: TxnWire
) -> None:
    request = producer.request(topic, b"once")
    for _ in range(3):
        (answer,) = client.ask(request, Version.TWO.value.produce).responses
        assert answer.partition_responses[0].base_offset == 0
    producer.finish()
    assert client.fetch(topic).high_watermark == 2, "the record and the marker"


def stable_offset(client: WireClient, group: str, topic: str) -> tuple[int, int]:
    """Error and offset, as told to those who want to know what counts."""
    wanted = OffsetFetchRequestTopics(name=topic, partition_indexes=(0,))
    request = OffsetFetchRequest(
        groups=(OffsetFetchRequestGroup(group_id=group, topics=(wanted,)),), require_stable=True
    )
    (found,) = client.ask(request, 8).groups
    partition = found.topics[0].partitions[0]
    return partition.error_code, partition.committed_offset


def test_committing_offsets_adds_the_group_to_the_transaction(
    client: WireClient, topic: str, producer: TxnWire
) -> None:
    group = f"group-{topic}"
    assert producer.commit_offset(group, topic, 7) == NO_ERROR
    described = producer.described()
    assert [t.topic for t in described.topics] == ["__consumer_offsets"]
    assert stable_offset(client, group, topic) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)

    producer.finish()

    assert stable_offset(client, group, topic) == (0, 7)
    producer.commit_offset(group, topic, 8)
    producer.finish(commit=False)
    assert stable_offset(client, group, topic) == (0, 7)


def test_offsets_with_the_epoch_of_the_last_transaction_are_refused(
    client: WireClient, topic: str, producer: TxnWire
) -> None:
    group = f"group-{topic}"
    late = TxnWire(client, topic)
    late.become(producer.producer)
    producer.commit_offset(group, topic, 7)
    producer.finish()

    assert late.commit_offset(group, topic, 99) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert late.commit_offset(f"other-{topic}", topic, 99) == ErrorCode.INVALID_PRODUCER_EPOCH
    late.become(Identity(-1, -1))
    assert late.commit_offset(group, topic, 99) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert stable_offset(client, group, topic) == (0, 7)


@pytest.mark.parametrize("version", [3, 4])
def test_clients_are_told_that_version_2_is_on(client: WireClient, version: int) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    answer = client.ask(request, version)
    finalized = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    assert finalized["transaction.version"] == 2
    assert answer.finalized_features_epoch >= 0
    ranges = {entry.api_key: entry.max_version for entry in answer.api_keys}
    assert ranges[ApiKey.END_TXN] >= Version.TWO.value.end
