"""Open transactions and what else goes on with a log: deletion, retention, compaction, restarts."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.embedded import Broker
from ottla.errors import ErrorCode
from ottla.testing import TestBroker
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.broker.txn_wire import (
    READ_COMMITTED,
    Identity,
    TxnWire,
    Version,
    committed,
    wait_until_stable,
)
from tests.broker.wire_client import WireClient

NO_ERROR = ErrorCode.NONE
DAY_S = 24 * 3600.0
PATIENT: dict[str, Any] = {"enable2_pc": True, "timeout_ms": -1}

_numbers = count(1)


@pytest.fixture(scope="module")
def time_broker() -> Iterator[TestBroker]:
    """Its time can be moved, and transactions wait for it as long as need be."""
    with TestBroker(config={"transaction.two.phase.commit.enable": True}) as broker:
        yield broker


@pytest.fixture
def wire(time_broker: TestBroker) -> Iterator[WireClient]:
    with WireClient(time_broker.bootstrap_servers) as wire:
        yield wire


@pytest.fixture
def name() -> str:
    """Of a topic, and of a transactional id."""
    return f"log-{next(_numbers)}"


def producer_of(wire: WireClient, name: str, **wishes: Any) -> TxnWire:
    producer = TxnWire(wire, name)
    assert producer.init(**wishes).error_code == NO_ERROR
    return producer


def delete_topic(wire: WireClient, name: str) -> None:
    request = DeleteTopicsRequest(topic_names=(name,), timeout_ms=10_000)
    (result,) = wire.ask(request, 5).responses
    assert result.error_code == NO_ERROR


def test_a_transaction_ends_though_a_topic_of_it_was_deleted(wire: WireClient, name: str) -> None:
    kept = f"{name}-kept"
    for topic in (name, kept):
        wire.create_topic(topic)
    producer = producer_of(wire, name)
    for topic in (name, kept):
        producer.produce(topic, b"a")

    delete_topic(wire, name)
    producer.finish()

    assert producer.state == "CompleteCommit"
    assert committed(wire, kept) == [b"a"]
    producer.produce(kept, b"b")
    producer.finish()
    assert committed(wire, kept) == [b"a", b"b"]


def test_a_topic_of_the_same_name_is_not_held_up_by_the_transaction_of_the_one_before(
    wire: WireClient, name: str
) -> None:
    wire.create_topic(name)
    producer = producer_of(wire, name)
    producer.produce(name, b"in the old one")
    delete_topic(wire, name)
    wire.create_topic(name)

    producer.finish()

    fetched = wire.fetch(name)
    assert fetched.last_stable_offset == fetched.high_watermark
    assert committed(wire, name) == []


def test_retention_leaves_an_open_transaction_whole(
    time_broker: TestBroker, wire: WireClient, name: str
) -> None:
    """Nobody who reads committed has been shown it yet."""
    wire.create_topic(name, retention_ms=60_000, segment_ms=1_000)
    time_broker.produce(name, "old")
    time_broker.advance(10)
    time_broker.produce(name, "in the next segment")
    producer = producer_of(wire, name, **PATIENT)
    producer.produce(name, b"first")
    for _ in range(3):
        time_broker.advance(DAY_S)
        time_broker.produce(name, "beside")
    producer.produce(name, b"last")

    time_broker.run_housekeeping()
    assert wire.fetch(name, offset=1).log_start_offset == 1, "what is old has gone"
    producer.finish()

    found = committed(wire, name, offset=1)
    assert found == [b"in the next segment", b"first", *[b"beside"] * 3, b"last"]
    time_broker.advance(DAY_S)
    assert time_broker.records(name) == []


def test_an_open_transaction_whose_records_were_deleted_can_be_ended(
    wire: WireClient, name: str
) -> None:
    wire.create_topic(name)
    producer = producer_of(wire, name)
    producer.produce(name, b"gone", b"gone too")
    wanted = DeleteRecordsPartition(partition_index=0, offset=2)
    topic = DeleteRecordsTopic(name=name, partitions=(wanted,))
    wire.ask(DeleteRecordsRequest(topics=(topic,), timeout_ms=10_000), 2)
    assert wire.fetch(name, offset=2).last_stable_offset == 2

    producer.produce(name, b"left")
    producer.finish()

    assert committed(wire, name, offset=2) == [b"left"]


def test_compaction_waits_for_open_transactions_and_drops_what_was_aborted(
    time_broker: TestBroker, wire: WireClient, name: str
) -> None:
    wire.create_topic(
        name,
        cleanup_policy="compact",
        segment_ms=1_000,
        min_cleanable_dirty_ratio="0.01",
        delete_retention_ms=0,
    )
    for value in (b"1", b"2"):  # of one key: the last one counts
        time_broker.produce(name, value, key="k")
    aborted = producer_of(wire, f"{name}-aborted")
    aborted.produce(name, b"aborted")
    aborted.finish(commit=False)
    producer = producer_of(wire, name, **PATIENT)
    producer.produce(name, b"3")

    for _ in range(3):
        time_broker.advance(60)
        time_broker.produce(name, "x", key="other")

    assert committed(wire, name)[-1:] == [b"2"]
    producer.finish()
    for _ in range(3):
        time_broker.advance(60)
        time_broker.produce(name, "y", key="other")
    assert committed(wire, name)[0] == b"3", "the older ones of its key have gone"
    assert b"aborted" not in wire.values(name)
    # Whoever was aborted knows its epoch still, and goes on.
    aborted.produce(name, b"again")
    aborted.finish()
    assert committed(wire, name)[-1] == b"again"


def test_the_aborted_transactions_of_a_fetch_are_sorted_and_those_only_that_it_overlaps(
    wire: WireClient, name: str
) -> None:
    """Ended in another order than begun: a, b, c begin; b, a, c end; then d for itself."""
    wire.create_topic(name)
    a, b, c, d = (producer_of(wire, f"{name}-{letter}") for letter in "abcd")
    for producer in (a, b, c):
        producer.produce(name, b"x")  # at 0, 1, 2
    for producer in (b, a, c):
        producer.finish(commit=False)  # at 3, 4, 5
    d.produce(name, b"x", b"y")  # at 6
    d.finish(commit=False)  # at 8
    ids = {p.producer.producer_id: letter for p, letter in zip((a, b, c, d), "abcd", strict=True)}

    def aborted(offset: int, max_bytes: int) -> list[tuple[str, int]]:
        fetched = wire.fetch(
            name, offset, partition_max_bytes=max_bytes, isolation_level=READ_COMMITTED
        )
        assert fetched.aborted_transactions is not None
        return [(ids[e.producer_id], e.first_offset) for e in fetched.aborted_transactions]

    everything = 1 << 20
    assert aborted(0, 1) == [("a", 0)]
    assert aborted(3, 1) == [("a", 0), ("b", 1), ("c", 2)]
    assert aborted(4, 1) == [("a", 0), ("c", 2)]
    assert aborted(5, 1) == [("c", 2)]
    assert aborted(6, everything) == [("d", 6)]
    assert aborted(9, everything) == []
    assert wire.fetch(name).aborted_transactions is None, "nobody asked"
    assert committed(wire, name) == []


def test_a_marker_of_an_administrator_ends_a_transaction_in_one_partition(
    wire: WireClient, name: str
) -> None:
    wire.create_topic(name, partition_count=2)
    producer = producer_of(wire, name)
    for partition in (0, 1):
        producer.produce(name, b"a", partition=partition)

    assert mark(wire, name, 7, producer.producer) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    unknown = Identity(-1, -1)
    assert mark(wire, name, 0, unknown) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert mark(wire, name, 0, producer.producer) == NO_ERROR

    fetched = wire.fetch(name, partition=0)
    assert fetched.last_stable_offset == 2
    assert wire.fetch(name, partition=1).last_stable_offset == 0


def mark(wire: WireClient, topic: str, index: int, producer: Identity) -> ErrorCode:
    """An abort marker, in the way of version 1."""
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        transaction_result=False,
        topics=(WritableTxnMarkerTopic(name=topic, partition_indexes=(index,)),),
        coordinator_epoch=0,
    )
    (answer,) = wire.ask(WriteTxnMarkersRequest(markers=(marker,)), 1).markers
    return ErrorCode(answer.topics[0].partitions[0].error_code)


@contextmanager
def served(data_dir: Path) -> Iterator[WireClient]:
    with Broker(data_dir) as broker, WireClient(broker.bootstrap_servers) as wire:
        yield wire
    (data_dir / ".kafka_cleanshutdown").unlink(
        missing_ok=True
    )  # so that the next one looks at every batch


@pytest.mark.parametrize("version", [Version.ONE, Version.TWO])
@pytest.mark.parametrize("commit", [True, False])
def test_what_was_decided_is_carried_out_when_a_partition_is_back(
    tmp_path: Path, version: Version, commit: bool
) -> None:
    """A transaction of two partitions, one of them offline: decided, and not over."""
    with served(tmp_path) as wire:
        wire.create_topic("orders", partition_count=2)
        producer = TxnWire(wire, "id", version=version)
        producer.init()
        producer.add(("orders", 0), ("orders", 1))
        for partition in (0, 1):
            producer.produce("orders", b"a", partition=partition)
    path = tmp_path / "orders-1" / f"{0:020d}.log"
    good = path.read_bytes()
    path.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))

    with served(tmp_path) as wire:
        producer.client = wire
        assert wire.fetch("orders", partition=1).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        producer.finish(commit=commit)
        wait_until_stable(wire, "orders", partition=0)
        told = producer.described()
        assert told.transaction_state == ("PrepareCommit" if commit else "PrepareAbort")
        assert [topic.partitions for topic in told.topics] == [(1,)], "the one that is missing"
    path.write_bytes(good)

    with served(tmp_path) as wire:
        producer.client = wire
        # An answer to the next transaction comes when the last one is over.
        producer.add(("orders", 1))
        assert producer.produce("orders", b"b", partition=1).error_code == NO_ERROR
        producer.finish()
        wait_until_stable(wire, "orders", partition=1)
        wanted = [b"a", b"b"] if commit else [b"b"]
        assert committed(wire, "orders", partition=1) == wanted
        assert committed(wire, "orders", partition=0) == wanted[:-1]
