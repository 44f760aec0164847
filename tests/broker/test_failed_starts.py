"""A broker that cannot start gives back what it has taken, and hangs up on those who came early."""

import asyncio
import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.broker.config import BrokerConfig
from ottla.broker.embedded import open_server
from ottla.runtime.network import RealListener, RealNetwork

PATIENCE_S = 60


class Contested(RealNetwork):
    """One port can be had, and somebody comes at once; the next one is taken."""

    def __init__(self) -> None:
        self.client: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._is_accepted = asyncio.Event()

    async def listen(
        self, host: str, port: int, accept: Callable[[], asyncio.BaseProtocol]
    ) -> RealListener:
        if self.client is not None:
            await self._is_accepted.wait()
            raise OSError(errno.EADDRINUSE, "as told")

        def accepted() -> asyncio.BaseProtocol:
            self._is_accepted.set()
            return accept()

        listener = await super().listen(host, port, accepted)
        self.client = await asyncio.open_connection(*listener.address)
        return listener


def test_who_came_before_the_start_failed_is_hung_up_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        network = Contested()
        settings = {
            "log.dirs": str(tmp_path),
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "ottla.metrics.port": 0,
        }
        server = open_server(BrokerConfig.of(settings), network=network)

        with pytest.raises(OSError, match="as told"):
            await server.start()

        assert network.client is not None
        reader, writer = network.client
        assert await asyncio.wait_for(reader.read(), PATIENCE_S) == b""
        writer.close()

    asyncio.run(scenario())
