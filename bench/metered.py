"""`python -m bench.metered NAME=COUNT ...`: a broker serves so many requests, with no socket.

What is sent and answered goes from memory to memory, in the same pieces each time, so that two runs
differ in nothing but their number of requests.  Each answer is counted, by its bytes.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from bench.blast import (
    TOPIC,
    Bytes,
    WrongAnswerError,
    batch_of,
    fetch_request,
    framed,
    produce_request,
)
from ottla.broker.config import BrokerConfig
from ottla.broker.embedded import open_server
from ottla.broker.precedence import RECENT_S
from ottla.wire.messages import create_topics

LARGE_BYTES = 1_000_000
DEPTH = 64
"""Small requests that come in one piece, as from a busy client."""

SETTLED_S = 0.1
PATIENCE_S = 60.0
DEPTHS = {
    "produce one record": DEPTH,
    "fetch one record": DEPTH,
    "produce 1 MB": 1,
    "fetch 1 MB": 1,
}
"""Path -> how many of its requests come in one piece.  To fetch, something must be produced."""
PATHS = tuple(DEPTHS)


class Port:
    """Takes the place of the network: whoever listens is remembered, and nobody connects."""

    address = ("127.0.0.1", 9092)
    accept: Callable[[], Any]

    async def listen(self, host: str, port: int, accept: Callable[[], Any]) -> "Port":
        self.accept = accept
        return self

    async def connect(self, *to: Any, **how: Any) -> Any:
        raise NotImplementedError("nobody is connected to")

    def expect_much(self) -> None:
        pass

    def close(self) -> None:
        pass


class Ear(asyncio.Transport):
    """Counts what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.heard_bytes = 0
        self.heard = asyncio.Event()

    def write(self, data: Any) -> None:
        self.heard_bytes += len(data)
        self.heard.set()

    def writelines(self, list_of_data: Any) -> None:
        for data in list_of_data:
            self.heard_bytes += len(data)
        self.heard.set()

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self) -> None:
        pass

    abort = close


class Client:
    """One connection."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._ear = Ear()
        session.connection_made(self._ear)

    def send(self, request: Bytes) -> int:
        """Send, and have the answers: how many bytes they are."""
        before = self._ear.heard_bytes
        view, position = memoryview(request), 0
        while position < len(view):
            buffer = self._session.get_buffer(-1)
            size = min(len(buffer), len(view) - position)
            buffer[:size] = view[position : position + size]
            self._session.buffer_updated(size)
            position += size
        return self._ear.heard_bytes - before

    async def answered(self, request: Bytes, at_least_bytes: int = 1) -> int:
        """Send, and wait for answers of so many bytes: how many bytes they are."""
        wanted_bytes = self._ear.heard_bytes + at_least_bytes
        self.send(request)
        async with asyncio.timeout(PATIENCE_S):
            while self._ear.heard_bytes < wanted_bytes:
                self._ear.heard.clear()
                await self._ear.heard.wait()
        return self._ear.heard_bytes - wanted_bytes + at_least_bytes

    def repeat(self, request: bytes, count: int, depth: int) -> None:
        """Send the same again and again, and see that each is answered."""
        answer_bytes = self.send(request)
        together = request * depth
        for _ in range(count // depth):
            heard_bytes = self.send(together)
            if not answer_bytes or heard_bytes != answer_bytes * depth:
                raise WrongAnswerError(f"{heard_bytes} bytes for {depth} times {answer_bytes}")


@dataclass(frozen=True, slots=True)
class Served:
    """A broker that is asked from memory, and what it is asked."""

    client: Client
    requests: Mapping[str, bytes]
    """Path -> the request."""

    def serve(self, path: str, count: int) -> None:
        """So many requests of a path; small ones come together, and large ones find nobody else."""
        if DEPTHS[path] == 1:
            time.sleep(RECENT_S)  # or they would let others go first, in turns of the loop
        self.client.repeat(self.requests[path], count, DEPTHS[path])

    async def serve_later(self, request: bytes, count: int) -> None:
        """Requests that come together, and are answered in other turns of the loop."""
        answer_bytes = await self.client.answered(request)
        expected_bytes = answer_bytes * DEPTH
        for _ in range(count // DEPTH):
            heard_bytes = await self.client.answered(request * DEPTH, expected_bytes)
            if heard_bytes != expected_bytes:
                raise WrongAnswerError(f"{heard_bytes} bytes for {DEPTH} times {answer_bytes}")


@asynccontextmanager
async def served(flush: str = "os") -> AsyncIterator[Served]:
    """A broker with two topics, for as long as the block runs."""
    port = Port()
    with tempfile.TemporaryDirectory(prefix="ottla-metered-") as folder:
        config = BrokerConfig.of({"log.dirs": folder, "ottla.flush": flush})
        server = open_server(config, network=port, is_temporary=True)
        await server.start()
        client = Client(port.accept())
        small, large = batch_of(0), batch_of(LARGE_BYTES)
        requests = {
            "produce one record": produce_request(small),
            "fetch one record": fetch_request(0, len(small)),
            "produce 1 MB": produce_request(large, topic="large"),
            "fetch 1 MB": fetch_request(0, len(large), topic="large"),
        }
        for name in (TOPIC, "large"):
            create(client, name)
        await asyncio.sleep(SETTLED_S)  # topics are made aside
        try:
            yield Served(client, requests)
        finally:
            await server.stop()


async def main(counts: dict[str, int]) -> None:
    """Serve the requests of each path."""
    async with served() as broker:
        for path, count in counts.items():
            broker.serve(path, count)


def create(client: Client, name: str) -> None:
    """Make a topic."""
    topic = create_topics.CreatableTopic(
        name=name, num_partitions=1, replication_factor=1, assignments=(), configs=()
    )
    client.send(framed(create_topics.CreateTopicsRequest(topics=(topic,), timeout_ms=60_000), 7))


if __name__ == "__main__":
    asyncio.run(main({name: int(count) for name, count in (a.split("=") for a in sys.argv[1:])}))
