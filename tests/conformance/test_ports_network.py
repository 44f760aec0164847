"""What every network promises: loopback and the simulated one pass the same tests."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from ottla.ports import Network
from ottla.runtime.network import RealNetwork
from ottla.testing.loop import Order, SimLoop
from ottla.testing.network import SimNetwork

HOST = "127.0.0.1"

Scenario = Callable[[Network], Awaitable[None]]
Play = Callable[[Scenario], None]


def play_on_loopback(scenario: Scenario) -> None:
    async def main() -> None:
        await scenario(RealNetwork())

    asyncio.run(main())


def play_simulated(scenario: Scenario) -> None:
    for seed in range(10):
        play_seed(scenario, seed)


def play_seed(scenario: Scenario, seed: int) -> None:
    loop = SimLoop(random.Random(seed), Order.DRAWN if seed % 2 else Order.FIFO)
    failures: list[str] = []
    loop.set_exception_handler(lambda _, context: failures.append(str(context)))

    async def main() -> None:
        await scenario(SimNetwork(loop, random.Random(seed)))

    try:
        loop.run_until_complete(main())
    finally:
        loop.close()
    assert failures == []


@pytest.fixture(params=["loopback", "simulated"])
def play(request: pytest.FixtureRequest) -> Play:
    return play_on_loopback if request.param == "loopback" else play_simulated


class Recorder:
    """What protocols of both kinds have in common here: they remember, and can be awaited."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.received = bytearray()
        self.events: list[str] = []
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self.changed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._happened("made")

    def eof_received(self) -> bool:
        self._happened("end")
        return True

    def pause_writing(self) -> None:
        self._happened("pause")

    def resume_writing(self) -> None:
        self._happened("resume")

    def connection_lost(self, error: Exception | None) -> None:
        self._happened("lost")
        self.lost.set_result(error)

    def took(self, data: bytes | memoryview) -> None:
        self.received += data
        self._happened("data")

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.changed.clear()
            await self.changed.wait()

    def _happened(self, event: str) -> None:
        if self.events[-1:] != [event]:
            self.events.append(event)
        self.changed.set()


class Buffered(Recorder, asyncio.BufferedProtocol):
    """Takes bytes in portions of at most a thousand."""

    def __init__(self) -> None:
        super().__init__()
        self._buffer = bytearray(1000)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.took(memoryview(self._buffer)[:nbytes])


class Plain(Recorder, asyncio.Protocol):
    def data_received(self, data: bytes) -> None:
        self.took(data)


KINDS = pytest.mark.parametrize("kind", [Buffered, Plain])


async def connected(
    network: Network, kind: type[Buffered | Plain] = Plain
) -> tuple[Buffered | Plain, Buffered | Plain]:
    """The two ends of a connection; nobody else can connect."""
    accepted: asyncio.Future[Buffered | Plain] = asyncio.get_running_loop().create_future()

    def accept() -> Buffered | Plain:
        accepted.set_result(kind())
        return accepted.result()

    listener = await network.listen(HOST, 0, accept)
    near = await network.connect(*listener.address, kind)
    assert isinstance(near, Buffered | Plain)
    near.transport.write(b"?")
    far = await accepted
    await far.until(lambda: far.received == b"?")
    far.received.clear()
    far.events.clear()
    near.events.clear()
    listener.close()
    return near, far


@KINDS
def test_bytes_arrive_in_both_directions(play: Play, kind: type[Buffered | Plain]) -> None:
    async def scenario(network: Network) -> None:
        near, far = await connected(network, kind)
        near.transport.write(b"ping")
        await far.until(lambda: far.received == b"ping")
        far.transport.writelines([b"po", b"", bytearray(b"n"), memoryview(b"g")])
        await near.until(lambda: near.received == b"pong")
        near.transport.close()
        far.transport.close()
        assert await near.lost is None
        assert await far.lost is None

    play(scenario)


def test_a_protocol_is_told_first_of_its_connection_and_last_of_its_loss(play: Play) -> None:
    async def scenario(network: Network) -> None:
        accepted: asyncio.Future[Plain] = asyncio.get_running_loop().create_future()

        def accept() -> Plain:
            accepted.set_result(Plain())
            return accepted.result()

        listener = await network.listen(HOST, 0, accept)
        near = await network.connect(*listener.address, Plain)
        assert isinstance(near, Plain)
        near.transport.write(b"hello")
        near.transport.close()
        await near.lost
        far = await accepted
        await far.until(lambda: "end" in far.events)
        far.transport.close()
        await far.lost
        listener.close()

        assert near.events == ["made", "lost"]
        assert far.events == ["made", "data", "end", "lost"]
        assert far.received == b"hello"

    play(scenario)


@KINDS
def test_one_direction_may_end_before_the_other(play: Play, kind: type[Buffered | Plain]) -> None:
    async def scenario(network: Network) -> None:
        near, far = await connected(network, kind)
        assert near.transport.can_write_eof()
        near.transport.write(b"question")
        near.transport.write_eof()
        await far.until(lambda: "end" in far.events)
        assert far.received == b"question"

        far.transport.write(b"answer")
        far.transport.close()

        await near.until(lambda: "end" in near.events)
        assert near.received == b"answer"
        with pytest.raises(RuntimeError, match="write_eof"):
            near.transport.write(b"more")
        near.transport.close()
        await asyncio.gather(near.lost, far.lost)

    play(scenario)


@KINDS
def test_a_reader_that_pauses_holds_the_writer_back(
    play: Play, kind: type[Buffered | Plain]
) -> None:
    data = random.Random(1).randbytes(1 << 20)

    async def scenario(network: Network) -> None:
        near, far = await connected(network, kind)
        far.transport.pause_reading()
        rounds = 0
        while "pause" not in near.events:
            near.transport.write(data)
            rounds += 1
            assert rounds < 100, "the writer was never held back"
        assert near.transport.get_write_buffer_size() > 0
        assert not far.received

        far.transport.resume_reading()

        await near.until(lambda: near.events[-1] == "resume")
        await far.until(lambda: len(far.received) == rounds * len(data))
        assert far.received == data * rounds
        near.transport.abort()
        far.transport.abort()
        await asyncio.gather(near.lost, far.lost)

    play(scenario)


def test_closing_sends_what_was_written(play: Play) -> None:
    data = random.Random(2).randbytes(700_000)

    async def scenario(network: Network) -> None:
        near, far = await connected(network)
        near.transport.write(data)
        near.transport.close()
        assert near.transport.is_closing()
        near.transport.write(b"too late")
        await far.until(lambda: "end" in far.events)
        assert far.received == data
        far.transport.close()
        await asyncio.gather(near.lost, far.lost)

    play(scenario)


def test_both_ends_hear_of_an_abort(play: Play) -> None:
    async def scenario(network: Network) -> None:
        near, far = await connected(network)
        far.transport.abort()
        await far.lost
        # Where the other end was told in peace that there is no more, it closes.
        await near.until(lambda: near.events != [])
        near.transport.close()
        await near.lost

    play(scenario)


def test_nobody_can_connect_where_nobody_listens(play: Play) -> None:
    async def scenario(network: Network) -> None:
        listener = await network.listen(HOST, 0, Plain)
        listener.close()
        with pytest.raises(ConnectionRefusedError):
            await network.connect(*listener.address, Plain)

    play(scenario)


def test_connections_outlive_their_listener(play: Play) -> None:
    async def scenario(network: Network) -> None:
        near, far = await connected(network)
        near.transport.write(b"still here")
        await far.until(lambda: far.received == b"still here")
        near.transport.close()
        far.transport.close()
        await asyncio.gather(near.lost, far.lost)

    play(scenario)


def test_a_port_belongs_to_one_listener(play: Play) -> None:
    async def scenario(network: Network) -> None:
        listener = await network.listen(HOST, 0, Plain)
        _, port = listener.address
        assert port > 0
        with pytest.raises(OSError, match=r"in use|already"):
            await network.listen(HOST, port, Plain)
        listener.close()
        again = await network.listen(HOST, port, Plain)
        assert again.address == (HOST, port)
        again.close()

    play(scenario)


def test_each_end_knows_the_other_ones_address(play: Play) -> None:
    async def scenario(network: Network) -> None:
        near, far = await connected(network)
        assert near.transport.get_extra_info("peername") == far.transport.get_extra_info("sockname")
        assert far.transport.get_extra_info("peername") == near.transport.get_extra_info("sockname")
        near.transport.close()
        far.transport.close()
        await asyncio.gather(near.lost, far.lost)

    play(scenario)


def test_many_connections_live_side_by_side(play: Play) -> None:
    class Echo(Plain):
        def data_received(self, data: bytes) -> None:
            self.transport.write(data)

        def eof_received(self) -> bool:
            return False

    async def scenario(network: Network) -> None:
        listener = await network.listen(HOST, 0, Echo)

        async def ask(number: int) -> None:
            near = await network.connect(*listener.address, Plain)
            assert isinstance(near, Plain)
            question = b"%d " % number * 100
            near.transport.write(question)
            await near.until(lambda: near.received == question)
            near.transport.close()
            await near.lost

        await asyncio.gather(*(ask(number) for number in range(100)))
        listener.close()

    play(scenario)


def test_asyncio_streams_run_on_a_connection(play: Play) -> None:
    async def scenario(network: Network) -> None:
        loop = asyncio.get_running_loop()

        async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            async for line in reader:
                writer.write(line.upper())
                await writer.drain()
            writer.close()

        def accept() -> asyncio.StreamReaderProtocol:
            return asyncio.StreamReaderProtocol(asyncio.StreamReader(), shout)

        listener = await network.listen(HOST, 0, accept)
        reader = asyncio.StreamReader()
        protocol = await network.connect(
            *listener.address, lambda: asyncio.StreamReaderProtocol(reader)
        )
        assert isinstance(protocol, asyncio.StreamReaderProtocol)
        transport = protocol._transport  # type: ignore[attr-defined]  # no public way
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        for word in (b"ristretto\n", b"lungo\n"):
            writer.write(word)
            await writer.drain()
            assert await reader.readline() == word.upper()
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
        listener.close()

    play(scenario)
