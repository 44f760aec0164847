"""The broker's little HTTP: what it answers, what it refuses, and how little it takes."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from ottla.broker.http import MAX_CONNECTIONS, MAX_HEAD_BYTES, PATIENCE_S, HttpServer, Page
from ottla.testing.loop import SimLoop
from ottla.testing.network import SimNetwork

PORT = 9100


class Peer(asyncio.Protocol):
    """Remembers what it was told, and when the connection ended."""

    def __init__(self) -> None:
        self.told = b""
        self.ended: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.told += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set_result(asyncio.get_running_loop().time())


async def hello() -> Page:
    return Page(body="hello\n")


async def broken() -> Page:
    raise ZeroDivisionError


async def connected(network: SimNetwork) -> Peer:
    peer = await network.connect("broker", PORT, Peer)
    assert isinstance(peer, Peer)
    return peer


async def asked(network: SimNetwork, *parts: bytes) -> bytes:
    """What is answered before the connection ends."""
    peer = await connected(network)
    for part in parts:
        peer.transport.write(part)
    await peer.ended
    return peer.told


def play(scenario: Callable[[SimNetwork, HttpServer], Awaitable[None]]) -> None:
    loop = SimLoop(random.Random(1))
    network = SimNetwork(loop, random.Random(1))

    async def main() -> None:
        server = HttpServer({"/hello": hello, "/broken": broken})
        await network.listen("broker", PORT, server.accept)
        await scenario(network, server)

    try:
        loop.run_until_complete(main())
    finally:
        loop.close()


def test_a_page_is_answered_and_the_connection_closed() -> None:
    async def scenario(network: SimNetwork, _: HttpServer) -> None:
        told = await asked(network, b"GET /hello?x=1 HTTP/1.1\r\nHost", b": x\r\n\r\n")

        head, body = told.split(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"Content-Length: 6" in head
        assert b"Connection: close" in head
        assert body == b"hello\n"

    play(scenario)


def test_the_head_of_a_page_comes_alone() -> None:
    async def scenario(network: SimNetwork, _: HttpServer) -> None:
        told = await asked(network, b"HEAD /hello HTTP/1.1\r\n\r\n")

        assert b"Content-Length: 6" in told
        assert told.endswith(b"\r\n\r\n")

    play(scenario)


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /nothing HTTP/1.1", b"404"),
        (b"POST /hello HTTP/1.1", b"405"),
        (b"GET /hello", b"400"),
        (b"\x16\x03\x01 hello TLS", b"400"),
    ],
)
def test_what_cannot_be_answered_is_refused(request_line: bytes, status: bytes) -> None:
    async def scenario(network: SimNetwork, _: HttpServer) -> None:
        told = await asked(network, request_line + b"\r\n\r\n")

        assert told.split(b" ")[1] == status

    play(scenario)


def test_a_head_without_end_is_refused() -> None:
    async def scenario(network: SimNetwork, _: HttpServer) -> None:
        told = await asked(network, b"GET /hello HTTP/1.1\r\nX: " + b"x" * MAX_HEAD_BYTES)

        assert told.startswith(b"HTTP/1.1 431 ")

    play(scenario)


def test_who_says_nothing_is_not_waited_for_for_ever() -> None:
    async def scenario(network: SimNetwork, _: HttpServer) -> None:
        peer = await connected(network)

        assert await peer.ended == pytest.approx(PATIENCE_S, abs=1.0)
        assert peer.told == b""

    play(scenario)


def test_there_is_room_for_so_many_and_then_again_for_others() -> None:
    async def scenario(network: SimNetwork, server: HttpServer) -> None:
        peers = [await connected(network) for _ in range(MAX_CONNECTIONS)]

        assert await asked(network, b"GET /hello HTTP/1.1\r\n\r\n") == b""
        server.close()
        for peer in peers:
            await peer.ended

        assert b"200 OK" in await asked(network, b"GET /hello HTTP/1.1\r\n\r\n")

    play(scenario)


def test_a_page_that_fails_is_logged_and_ends_the_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(network: SimNetwork, _: HttpServer) -> None:
        assert await asked(network, b"GET /broken HTTP/1.1\r\n\r\n") == b""

    play(scenario)

    assert "page failed" in caplog.text
