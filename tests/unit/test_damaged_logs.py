"""Damage in one log, or a sync that failed: who asks is told, and nobody else suffers."""

import errno

import pytest

from ottla.broker.context import Context
from ottla.broker.flusher import Flusher, Syncable
from ottla.broker.handlers.write_txn_markers import write_txn_markers
from ottla.broker.partition import Partition
from ottla.errors import ErrorCode
from ottla.log import files
from ottla.testing.disk import Operation
from ottla.testing.loop import Order
from ottla.testing.simulation import Simulation
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.broker_fixture import NO_SESSION, NOW_MS, LittleBroker

LARGE = bytes(100_000)
FETCH_VERSION = 12
_SIZE_AT = 8


def damage(broker: LittleBroker, topic: str, base_offset: int = 0) -> None:
    """Make nonsense of the first header of a segment, and of what its indexes say."""
    folder = f"{topic}-0"
    for kind in (files.LOG, files.TIME_INDEX):
        path = files.path_of(folder, base_offset, kind)
        if broker.disk.exists(path):
            broker.disk.open(path).write(_SIZE_AT, b"\xff\xff\xff\xff")


def test_a_reader_that_wants_much_is_told_of_damage_like_everybody() -> None:
    broker = LittleBroker()
    broker.create("orders")
    broker.append("orders", b"one")
    damage(broker, "orders")
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000_000)

    response: FetchResponse = broker.ask(
        FetchRequest(
            max_wait_ms=500,
            min_bytes=1_000,
            max_bytes=1_000_000,
            topics=(FetchTopic(topic="orders", partitions=(wanted,)),),
        ),
        FETCH_VERSION,
    )

    (data,) = response.responses[0].partitions
    assert data.error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_retention_leaves_a_damaged_log_alone_and_goes_on_with_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = LittleBroker()
    for topic in ("damaged", "others"):
        broker.create(topic, configs=[("retention.bytes", "0")])
        broker.append(topic, LARGE)
        broker.partition(topic).log.roll(NOW_MS)
        broker.append(topic, b"newest")
    damage(broker, "damaged")
    broker.partition("damaged").log.segments[0]._max_timestamp_ms = None  # as after a restart

    broker.delete_old()

    assert "retention gave up: topic=damaged partition=0" in caplog.text
    assert broker.partition("damaged").log.start_offset == 0
    assert broker.partition("others").log.start_offset == 2
    broker.append("damaged", b"it can still be written")


def markers_written(broker: LittleBroker, sim: Simulation) -> WriteTxnMarkersResponse:
    """Ask for markers in a partition that there is, and in one that there is not."""
    topic = WritableTxnMarkerTopic(name="orders", partition_indexes=(0, 7))
    marker = WritableTxnMarker(
        producer_id=5,
        producer_epoch=1,
        transaction_result=True,
        topics=(topic,),
        coordinator_epoch=0,
    )
    request = WriteTxnMarkersRequest(markers=(marker,))
    return sim.run(write_txn_markers(request, Context(broker.node, NO_SESSION, 1, None)))


def test_markers_that_were_not_synced_are_not_said_to_be_written() -> None:
    broker = LittleBroker()
    broker.create("orders")
    found = broker.partition("orders")

    def advance(synced: Syncable) -> None:
        assert isinstance(synced, Partition)
        synced.advance()

    with Simulation(seed=1, order=Order.FIFO) as sim:
        failures: list[OSError] = []
        flusher = Flusher(broker.disk, on_synced=advance, on_failure=failures.append)
        broker.node.flusher = flusher
        found._flusher = flusher
        broker.disk.fail(errno.EIO, Operation.SYNC, path="orders-0")

        response = markers_written(broker, sim)

    results = {p.partition_index: p.error_code for p in response.markers[0].topics[0].partitions}
    assert results == {
        0: ErrorCode.KAFKA_STORAGE_ERROR,
        7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert [failure.errno for failure in failures] == [errno.EIO]
