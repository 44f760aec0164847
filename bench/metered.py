"""`python -m bench.metered NAME=COUNT ...`: a broker serves so many requests, with no socket.

What is sent and answered goes from memory to memory, in the same pieces each time, so that two runs
differ in nothing but their number of requests.  Each answer is counted, by its bytes.
"""

import asyncio
import sys
import tempfile
from collections.abc import Callable
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
from ottla.wire.messages import create_topics

LARGE_BYTES = 1_000_000
DEPTH = 64
"""Small requests that come in one piece, as from a busy client."""

SETTLED_S = 0.1
PATHS = ("produce one record", "fetch one record", "produce 1 MB", "fetch 1 MB")


class Port:
    """Takes the place of the network: whoever listens is remembered, and nobody connects."""

    address = ("127.0.0.1", 9092)
    accept: Callable[[], Any]

    async def listen(self, host: str, port: int, accept: Callable[[], Any]) -> "Port":
        self.accept = accept
        return self

    async def connect(self, *to: Any, **how: Any) -> Any:
        raise NotImplementedError("nobody is connected to")

    def close(self) -> None:
        pass


class Ear(asyncio.Transport):
    """Counts what is written."""

    heard_bytes = 0

    def write(self, data: Any) -> None:
        self.heard_bytes += len(data)

    def writelines(self, list_of_data: Any) -> None:
        for data in list_of_data:
            self.heard_bytes += len(data)

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

    def repeat(self, request: bytes, count: int, depth: int) -> None:
        """Send the same again and again, and see that each is answered."""
        answer_bytes = self.send(request)
        together = request * depth
        for _ in range(count // depth):
            heard_bytes = self.send(together)
            if not answer_bytes or heard_bytes != answer_bytes * depth:
                raise WrongAnswerError(f"{heard_bytes} bytes for {depth} times {answer_bytes}")


async def main(counts: dict[str, int]) -> None:
    """Serve the requests of each path."""
    port = Port()
    with tempfile.TemporaryDirectory(prefix="ottla-metered-") as folder:
        config = BrokerConfig.of({"log.dirs": folder, "ottla.flush": "os"})
        server = open_server(config, network=port, is_temporary=True)
        await server.start()
        client = Client(port.accept())
        small, large = batch_of(0), batch_of(LARGE_BYTES)
        requests = {
            "produce one record": (produce_request(small), DEPTH),
            "fetch one record": (fetch_request(0, len(small)), DEPTH),
            "produce 1 MB": (produce_request(large, topic="large"), 1),
            "fetch 1 MB": (fetch_request(0, len(large), topic="large"), 1),
        }
        for name in (TOPIC, "large"):
            create(client, name)
        await asyncio.sleep(SETTLED_S)  # topics are made aside
        for path, count in counts.items():
            client.repeat(requests[path][0], count, requests[path][1])
        await server.stop()


def create(client: Client, name: str) -> None:
    """Make a topic."""
    topic = create_topics.CreatableTopic(
        name=name, num_partitions=1, replication_factor=1, assignments=(), configs=()
    )
    client.send(framed(create_topics.CreateTopicsRequest(topics=(topic,), timeout_ms=60_000), 7))


if __name__ == "__main__":
    asyncio.run(main({name: int(count) for name, count in (a.split("=") for a in sys.argv[1:])}))
