"""The simulated network: delays, cuts and resets, and no byte out of order."""

import asyncio
import random
from collections.abc import Iterator

import pytest

from ottla.testing.loop import SimLoop
from ottla.testing.network import CONNECT_TIMEOUT_MS, SimNetwork
from ottla.testing.process import Process, context_of


class Recorder(asyncio.Protocol):
    transport: asyncio.Transport

    def __init__(self) -> None:
        self.received = b""
        self.lost: list[Exception | None] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, error: Exception | None) -> None:
        assert self.transport.is_closing()
        self.lost.append(error)


class Pair:
    """A client on the node `near`, connected to a server on the node `far`."""

    def __init__(self, seed: int) -> None:
        self.loop = SimLoop(random.Random(seed))
        self.events: list[str] = []
        self.errors: list[object] = []
        self.loop.set_exception_handler(lambda _, context: self.errors.append(context["exception"]))
        self.network = SimNetwork(self.loop, random.Random(seed), self.events.append)
        self.loop.network = self.network
        self.far_process, self.near_process = Process("far"), Process("near")
        self.accepted: list[Recorder] = []
        self.run_as(self.far_process, self.network.listen("far", 9092, self._accept))
        self.near = self.connect()
        self.loop.run_for(200)
        self.far = self.accepted[0]

    def run_as(self, process: Process, work: object) -> object:
        assert asyncio.iscoroutine(work)
        task = self.loop.create_task(work, context=context_of(process))
        return self.loop.run_until_complete(task)

    def connect(self) -> Recorder:
        work = self.network.connect("far", 9092, Recorder)
        made = self.run_as(self.near_process, work)
        assert isinstance(made, Recorder)
        return made

    def _accept(self) -> Recorder:
        self.accepted.append(Recorder())
        return self.accepted[-1]


@pytest.fixture(params=range(5))
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    pair = Pair(request.param)
    yield pair
    pair.loop.close()


def test_bytes_are_cut_anywhere_but_never_change_their_order(pair: Pair) -> None:
    data = random.Random(1).randbytes(300_000)
    for start in range(0, len(data), 1000):
        pair.near.transport.write(data[start : start + 1000])
    pair.loop.run_for(60_000)
    assert pair.far.received == data
    sizes = {event.split()[-1] for event in pair.events if event.startswith("deliver")}
    assert len(sizes) > 10


def test_a_cut_holds_bytes_back_until_it_heals(pair: Pair) -> None:
    pair.network.cut(["near"], ["far"])
    pair.near.transport.write(b"held")
    pair.loop.run_for(5_000)
    assert pair.far.received == b""

    pair.network.heal()
    pair.loop.run_for(1_000)

    assert pair.far.received == b"held"
    assert pair.near.lost == pair.far.lost == []


def test_a_cut_may_be_one_way(pair: Pair) -> None:
    pair.network.cut(["near"], ["far"], one_way=True)
    pair.near.transport.write(b"held")
    pair.far.transport.write(b"passed")
    pair.loop.run_for(5_000)
    assert (pair.far.received, pair.near.received) == (b"", b"passed")


def test_a_connection_that_is_cut_for_too_long_gives_up(pair: Pair) -> None:
    pair.network.cut(["near"], ["far"])
    pair.near.transport.write(b"held")
    pair.loop.run_for(pair.network.give_up_ms + 1_000)
    (error,) = pair.near.lost
    assert isinstance(error, TimeoutError)
    assert pair.far.lost == []

    # The other end does not know, until it speaks.
    pair.network.heal()
    pair.far.transport.write(b"anybody there?")
    pair.loop.run_for(1_000)

    assert isinstance(pair.far.lost[0], ConnectionResetError)


def test_no_connection_passes_a_cut(pair: Pair) -> None:
    pair.network.cut(["far"], ["near"], one_way=True)
    began_s = pair.loop.time()
    with pytest.raises(TimeoutError, match="far:9092 does not answer"):
        pair.connect()
    assert pair.loop.time() - began_s >= CONNECT_TIMEOUT_MS / 1000


def test_a_reset_breaks_every_connection_between_two_nodes(pair: Pair) -> None:
    pair.connect()
    pair.loop.run_for(500)
    pair.network.reset("far", "near")
    pair.loop.run_for(10)
    assert len(pair.accepted) == 2
    for end in (pair.near, *pair.accepted):
        assert isinstance(end.lost[0], ConnectionResetError)
    pair.near.transport.write(b"into the void")
    pair.near.transport.close()
    pair.loop.run_for(1_000)
    assert len(pair.near.lost) == 1


def test_an_end_that_closes_without_reading_does_not_hold_the_other(pair: Pair) -> None:
    pair.far.transport.pause_reading()
    pair.near.transport.write(bytes(300_000))
    pair.loop.run_for(10_000)

    pair.far.transport.close()
    pair.loop.run_for(10_000)

    assert len(pair.near.lost) == len(pair.far.lost) == 1


def test_a_connection_that_is_lost_before_it_is_made_is_told_in_order(pair: Pair) -> None:
    async def connect_and_break() -> None:
        await pair.network.connect("far", 9092, Recorder)
        pair.network.reset("near", "far")

    pair.run_as(pair.near_process, connect_and_break())
    pair.loop.run_for(1_000)
    assert pair.accepted[1].transport.is_closing()
    assert len(pair.accepted[1].lost) == 1
    assert pair.errors == []


def test_a_link_can_be_slow(pair: Pair) -> None:
    pair.network.set_delay_ms("near", "far", 500, 600)
    pair.near.transport.write(b"x")
    pair.loop.run_for(499)
    assert pair.far.received == b""
    pair.loop.run_for(102)
    assert pair.far.received == b"x"


def test_a_killed_process_is_heard_to_go(pair: Pair) -> None:
    pair.loop.kill(pair.far_process)
    pair.network.end_process(pair.far_process, is_silent=False)
    pair.loop.run_for(1_000)
    assert pair.near.lost == [None]
    assert pair.far.lost == []
    with pytest.raises(ConnectionRefusedError):
        pair.connect()


def test_a_process_without_power_is_not_heard_to_go(pair: Pair) -> None:
    pair.loop.kill(pair.far_process)
    pair.network.end_process(pair.far_process, is_silent=True)
    pair.near.transport.write(b"anybody there?")
    pair.loop.run_for(5_000)
    assert pair.near.lost == []
    with pytest.raises(TimeoutError):
        pair.connect()

    pair.network.start_node("far")
    pair.loop.run_for(1_000)

    assert isinstance(pair.near.lost[0], ConnectionResetError)


def test_a_protocol_that_raises_loses_its_connection(pair: Pair) -> None:
    class Fragile(Recorder):
        def data_received(self, data: bytes) -> None:
            raise LookupError("a bug")

    fragile = Fragile()
    fragile.transport = pair.far.transport
    pair.far.transport.set_protocol(fragile)
    pair.near.transport.write(b"x")
    pair.loop.run_for(1_000)
    assert [str(error) for error in pair.errors] == ["a bug"]
    assert fragile.lost == [None]
    assert isinstance(pair.near.lost[0], ConnectionResetError)


def test_loopback_is_reached_from_its_own_node_only(pair: Pair) -> None:
    pair.run_as(pair.far_process, pair.network.listen("127.0.0.1", 1, Recorder))
    pair.run_as(pair.far_process, pair.network.connect("localhost", 1, Recorder))
    for host in ("127.0.0.1", "far"):
        with pytest.raises(ConnectionRefusedError):
            pair.run_as(pair.near_process, pair.network.connect(host, 1, Recorder))


def test_every_address_of_a_node_includes_its_name_and_loopback(pair: Pair) -> None:
    pair.run_as(pair.far_process, pair.network.listen("0.0.0.0", 2, Recorder))
    pair.run_as(pair.near_process, pair.network.connect("far", 2, Recorder))
    pair.run_as(pair.far_process, pair.network.connect("127.0.0.1", 2, Recorder))


def test_write_buffer_limits_are_asyncios(pair: Pair) -> None:
    transport = pair.near.transport
    assert transport.get_write_buffer_limits() == (16_384, 65_536)
    transport.set_write_buffer_limits(low=100)
    assert transport.get_write_buffer_limits() == (100, 400)
    transport.set_write_buffer_limits(high=100)
    assert transport.get_write_buffer_limits() == (25, 100)
    with pytest.raises(ValueError, match=">="):
        transport.set_write_buffer_limits(high=1, low=2)
    with pytest.raises(TypeError, match="str"):
        transport.write("text")  # type: ignore[arg-type]


def test_asyncios_own_servers_and_streams_are_simulated_too(pair: Pair) -> None:
    async def serve() -> asyncio.Server:
        async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write((await reader.readline()).upper())
            await writer.drain()
            writer.close()
            await writer.wait_closed()

        return await asyncio.start_server(shout, "0.0.0.0", 7)

    async def ask() -> bytes:
        reader, writer = await asyncio.open_connection("far", 7)
        writer.write(b"lungo\n")
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        return answer

    server = pair.run_as(pair.far_process, serve())
    assert isinstance(server, asyncio.AbstractServer)
    assert server.is_serving()
    assert pair.run_as(pair.near_process, ask()) == b"LUNGO\n"
    server.close()
    assert not server.is_serving()
