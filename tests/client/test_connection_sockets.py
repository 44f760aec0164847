"""A connection on real sockets: frames that the system does not take at once arrive whole."""

import asyncio
import socket

import pytest

from ottla.client.buffers import ViewedBuffers
from ottla.client.connection import Connection, ConnectionOptions
from ottla.client.metrics import Metrics
from ottla.errors import OttlaError, TransportError
from ottla.wire.frame import scratch_buffer
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

VERSION = 9
BATCH = bytes(range(256)) * 8_000
PATIENCE_MS = 60_000


def made(lost: list[OttlaError]) -> Connection:
    options = ConnectionOptions(
        client_id="sockets",
        max_in_flight=5,
        max_answer_bytes=1 << 20,
        send_buffer_bytes=16 * 1024,
        receive_buffer_bytes=-1,
        scratch=scratch_buffer(),
        buffers=ViewedBuffers(),
        metrics=Metrics(),
        on_room=lambda: None,
    )
    return Connection("broker", options, lost.append)


def produce() -> ProduceRequest:
    data = (PartitionProduceData(index=0, records=BATCH),)
    topics = (TopicProduceData(name="t", partition_data=data),)
    return ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics)


def test_frames_larger_than_the_sockets_buffer_arrive_whole_and_in_order() -> None:
    async def story() -> bytes:
        ours, theirs = socket.socketpair()
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: made([]), sock=ours)
        for _ in range(3):
            connection.ask(produce(), VERSION, lambda told: None, timeout_ms=PATIENCE_MS)
        theirs.setblocking(False)
        arrived = bytearray()
        while len(arrived) < 3 * len(BATCH) or arrived.count(BATCH) < 3:
            arrived += await loop.sock_recv(theirs, 1 << 16)
        connection.close()
        await connection.ended
        theirs.close()
        return bytes(arrived)

    arrived = asyncio.run(asyncio.wait_for(story(), PATIENCE_MS / 1000))
    first, second, third = (part for part in arrived.split(BATCH)[:3])
    size_bytes = int.from_bytes(first[:4], "big")
    assert arrived[4 + size_bytes :].startswith(size_bytes.to_bytes(4, "big"))
    assert len(second) == len(third) == 4 + size_bytes - len(BATCH)


def test_who_asked_a_connection_that_breaks_is_told_why_once() -> None:
    async def story() -> tuple[list[object], list[OttlaError]]:
        told: list[object] = []
        lost: list[OttlaError] = []
        ours, theirs = socket.socketpair()
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: made(lost), sock=ours)
        connection.ask(produce(), VERSION, told.append, timeout_ms=PATIENCE_MS)
        theirs.close()
        await connection.ended
        with pytest.raises(TransportError):
            connection.ask(produce(), VERSION, told.append, timeout_ms=PATIENCE_MS)
        return told, lost

    told, lost = asyncio.run(asyncio.wait_for(story(), PATIENCE_MS / 1000))
    assert [type(error) for error in told] == [TransportError]
    assert told == lost


@pytest.mark.parametrize(("waits", "arrives_whole"), [(False, True), (True, False)])
def test_closing_in_peace_sends_what_nobody_waits_for_and_nothing_else(
    waits: bool, arrives_whole: bool
) -> None:
    """With acks=0 nobody waits for an answer; who does is told that it may not be written."""

    async def story() -> int:
        ours, theirs = socket.socketpair()
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: made([]), sock=ours)
        if waits:
            connection.ask(produce(), VERSION, lambda told: None, timeout_ms=PATIENCE_MS)
        else:
            connection.tell(produce(), VERSION)
        assert connection.unsent_bytes > 0, "the system has no room for all of it"
        connection.close(in_peace=True)
        theirs.setblocking(False)
        arrived_bytes = 0
        while chunk := await loop.sock_recv(theirs, 1 << 16):
            arrived_bytes += len(chunk)
        await connection.ended
        theirs.close()
        return arrived_bytes

    arrived_bytes = asyncio.run(asyncio.wait_for(story(), PATIENCE_MS / 1000))
    assert (arrived_bytes > len(BATCH)) is arrives_whole
