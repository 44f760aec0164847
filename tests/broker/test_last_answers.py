"""A broker that stops first answers those who wait for a sync: it is over, or it has failed."""

import asyncio
import errno
from collections.abc import Iterable
from typing import Any

import pytest

from ottla.broker.config import BrokerConfig
from ottla.broker.server import Server
from ottla.cluster.store.memory import MemoryStore
from ottla.errors import ErrorCode
from ottla.ports import File, Folder, Ports
from ottla.runtime.clock import SystemClock
from ottla.runtime.entropy import SystemEntropy
from ottla.runtime.network import RealNetwork
from ottla.testing.disk import SimDisk
from ottla.wire.header import decode_response
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ottla.wire.registry import api_for
from tests.broker.wire_client import (
    PRODUCE_VERSION,
    batch_of,
    framed,
    produce_request,
    request_bytes,
)

PATIENCE_S = 60
MARKERS_VERSION = 1


class HeldDisk(SimDisk):
    """A disk whose syncs take until the test lets them end, well or not."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()
        self.outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def sync_files(self, files: Iterable[File | Folder]) -> None:
        self.asked.set()
        await asyncio.shield(self.outcome)
        await super().sync_files(files)


class Scene:
    """A broker with a topic, and a client that waits for the sync of what it wrote."""

    def __init__(self) -> None:
        self.disk = HeldDisk()
        config = BrokerConfig.of({"listeners": "PLAINTEXT://127.0.0.1:0"})
        ports = Ports(
            clock=SystemClock(), disk=self.disk, network=RealNetwork(), entropy=SystemEntropy()
        )
        self.server = Server(config, ports, MemoryStore())

    async def answer_after(self, request: Any, version: int, *, error: OSError | None) -> Any:
        """What a request is answered that waits for a sync while the broker stops."""
        await self.server.start()
        reader, writer = await asyncio.open_connection(*self.server.address)
        topic = CreatableTopic(
            name="orders", num_partitions=1, replication_factor=1, assignments=(), configs=()
        )
        writer.write(framed(request_bytes(CreateTopicsRequest(topics=(topic,)), 5)))
        await _frame(reader)
        writer.write(framed(request_bytes(request, version)))
        await asyncio.wait_for(self.disk.asked.wait(), PATIENCE_S)
        stopping = asyncio.ensure_future(self._stop(when_failed=error is not None))
        for _ in range(20):
            await asyncio.sleep(0)  # it goes as far as it can
        if error is None:
            self.disk.outcome.set_result(None)
        else:
            self.disk.outcome.set_exception(error)
        frame = await _frame(reader)
        writer.close()
        await asyncio.wait_for(stopping, PATIENCE_S)
        _, body = decode_response(api_for(type(request)), version, frame)
        return body

    async def _stop(self, *, when_failed: bool) -> None:
        if when_failed:
            await asyncio.wait({self.server.failure})
        await self.server.stop()


async def _frame(reader: asyncio.StreamReader) -> bytes:
    async def read() -> bytes:
        size_bytes = int.from_bytes(await reader.readexactly(4), "big")
        return await reader.readexactly(size_bytes)

    return await asyncio.wait_for(read(), PATIENCE_S)


def answered(request: Any, version: int, error: OSError | None = None) -> Any:
    async def run() -> Any:
        return await Scene().answer_after(request, version, error=error)

    return asyncio.run(run())


def markers() -> WriteTxnMarkersRequest:
    topic = WritableTxnMarkerTopic(name="orders", partition_indexes=(0,))
    marker = WritableTxnMarker(
        producer_id=5,
        producer_epoch=1,
        transaction_result=True,
        topics=(topic,),
        coordinator_epoch=0,
    )
    return WriteTxnMarkersRequest(markers=(marker,))


OUTCOMES = pytest.mark.parametrize(
    ("failure", "told"),
    [(None, ErrorCode.NONE), (OSError(errno.EIO, "gone"), ErrorCode.KAFKA_STORAGE_ERROR)],
    ids=["synced", "failed"],
)


@OUTCOMES
def test_who_has_written_hears_of_the_last_sync_before_the_connection_ends(
    failure: OSError | None, told: ErrorCode
) -> None:
    response = answered(produce_request("orders", batch_of(b"one")), PRODUCE_VERSION, failure)

    assert response.responses[0].partition_responses[0].error_code == told


@OUTCOMES
def test_who_waits_in_a_task_of_its_own_hears_of_it_too(
    failure: OSError | None, told: ErrorCode
) -> None:
    response = answered(markers(), MARKERS_VERSION, failure)

    assert response.markers[0].topics[0].partitions[0].error_code == told
