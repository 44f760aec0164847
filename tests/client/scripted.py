"""A broker that says what a test wants it to say: one handler per API, on any network.

A handler takes the request and its version, and returns the response, `SILENCE`, `HOLD` or
`HANG_UP`.
Handlers may be changed at any time.  Out of the box it knows the protocol's beginning: which
versions it speaks, and a cluster of which it is the only broker, and coordinates everything.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from ottla.client.config import ClientConfig
from ottla.client.engine import Engine
from ottla.ports import Listener, Network, Ports
from ottla.testing.loop import Order
from ottla.testing.simulation import Simulation
from ottla.wire.frame import FrameReader, scratch_buffer, with_size
from ottla.wire.header import UnsupportedRequestError, decode_request, encode_response
from ottla.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)
from ottla.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.registry import ApiKey, api

T = TypeVar("T")

BROKER: Final = "broker"
CLIENT: Final = "client"
PORT: Final = 9092


class SILENCE:
    """No answer at all."""


class HOLD:
    """No answer, and none to anything that comes behind it: brokers answer in order."""


class HANG_UP:  # noqa: N801  # a word of the script, not a type
    """The connection is closed instead."""


Handler = Callable[[Any, int], Any]


@dataclass(frozen=True, slots=True)
class Heard:
    """A request that arrived."""

    body: Any
    version: int
    connection: int


class ScriptedBroker:
    """Node `node_id`, listening at its own host name."""

    def __init__(self, node_id: int = 1, host: str = BROKER, port: int = PORT) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.heard: list[Heard] = []
        self.connection_count = 0
        self.topics: tuple[MetadataResponseTopic, ...] = ()
        self.handlers: dict[ApiKey, Handler] = {
            ApiKey.API_VERSIONS: api_versions(),
            ApiKey.METADATA: self._metadata,
            ApiKey.FIND_COORDINATOR: self._find_coordinator,
        }
        self._listener: Listener | None = None
        self._sessions: list[_Session] = []

    async def serve(self, network: Network) -> None:
        self._listener = await network.listen(self.host, self.port, self._accept)
        self.port = self._listener.address[1]

    def stop(self) -> None:
        """Nobody can connect, and nobody is connected."""
        if self._listener is not None:
            self._listener.close()
        self.hang_up()

    def hang_up(self) -> None:
        """Close the connections; new ones are welcome."""
        for session in self._sessions:
            session.transport.close()
        self._sessions.clear()

    def stop_reading(self) -> None:
        """Leave what comes where it is, on all connections that there are."""
        for session in self._sessions:
            session.transport.pause_reading()

    def count(self, request: type[Any]) -> int:
        """How many of these were heard."""
        return sum(isinstance(heard.body, request) for heard in self.heard)

    def answer(self, body: Any, version: int, connection: int) -> Any:
        self.heard.append(Heard(body, version, connection))
        handler = self.handlers.get(ApiKey(body.__api__.key))
        assert handler is not None, f"nobody said how to answer {body}"
        return handler(body, version)

    def _accept(self) -> "asyncio.BufferedProtocol":
        self.connection_count += 1
        session = _Session(self, self.connection_count)
        self._sessions.append(session)
        return session

    def _metadata(self, request: MetadataRequest, version: int) -> MetadataResponse:
        wanted = None if request.topics is None else {topic.name for topic in request.topics}
        return MetadataResponse(
            brokers=(MetadataResponseBroker(node_id=self.node_id, host=self.host, port=self.port),),
            cluster_id="the-cluster",
            controller_id=self.node_id,
            topics=tuple(t for t in self.topics if wanted is None or t.name in wanted),
        )

    def _find_coordinator(
        self, request: FindCoordinatorRequest, version: int
    ) -> FindCoordinatorResponse:
        """Whatever it is, it is coordinated here."""
        return FindCoordinatorResponse(
            coordinators=tuple(
                Coordinator(key=key, node_id=self.node_id, host=self.host, port=self.port)
                for key in request.coordinator_keys
            )
        )


class _Session(asyncio.BufferedProtocol):
    transport: asyncio.Transport

    def __init__(self, broker: ScriptedBroker, number: int) -> None:
        self._broker = broker
        self._number = number
        self._frames = FrameReader(scratch_buffer(), 1 << 20)
        self._is_held = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        for frame in self._frames.buffer_updated(nbytes):
            if not self._is_held:
                self._take(bytes(frame))

    def _take(self, frame: bytes) -> None:
        try:
            request = decode_request(frame)
        except UnsupportedRequestError as error:
            raise AssertionError(f"an unknown request: {error}") from error
        version = request.header.request_api_version
        answer = self._broker.answer(request.body, version, self._number)
        if answer is SILENCE or answer is HOLD:
            self._is_held = answer is HOLD
            return
        if answer is HANG_UP:
            self.transport.close()
            return
        is_fallback = isinstance(answer, ApiVersionsResponse) and answer.error_code != 0
        parts = encode_response(
            answer,
            0 if is_fallback else version,
            correlation_id=request.header.correlation_id,
        )
        self.transport.writelines(with_size(parts))


def api_versions(
    *,
    highest: Mapping[ApiKey, int] | None = None,
    features: Mapping[str, int] | None = None,
    without: frozenset[ApiKey] = frozenset(),
) -> Handler:
    """Every API that we declare, up to its newest version or the one in `highest`."""

    def answer(request: ApiVersionsRequest, version: int) -> ApiVersionsResponse:
        newest = {key: api(key).versions.high for key in ApiKey if key not in without}
        newest |= highest or {}
        is_too_new = version > newest[ApiKey.API_VERSIONS]
        keys = [ApiKey.API_VERSIONS] if is_too_new else sorted(newest)
        return ApiVersionsResponse(
            error_code=35 if is_too_new else 0,
            api_keys=tuple(
                ApiVersion(api_key=key, min_version=0, max_version=newest[key]) for key in keys
            ),
            finalized_features=tuple(
                FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
                for name, level in (features or {}).items()
            ),
            finalized_features_epoch=7,
        )

    return answer


def topic(name: str, *leaders: int, epoch: int = 0, error: int = 0) -> MetadataResponseTopic:
    """A topic with a partition for each of `leaders`."""
    return MetadataResponseTopic(
        name=name,
        error_code=error,
        topic_id=name.encode().ljust(16, b"."),
        partitions=tuple(
            MetadataResponsePartition(
                partition_index=index,
                leader_id=leader,
                leader_epoch=epoch,
                replica_nodes=(leader,),
                isr_nodes=(leader,),
            )
            for index, leader in enumerate(leaders)
        ),
    )


def engine(ports: Ports, *servers: str, **options: Any) -> Engine:
    """An engine at the scripted broker, not started."""
    config = ClientConfig.of(servers or (f"{BROKER}:{PORT}",), **options)
    return Engine(config, ports)


class World:
    """A simulation with scripted brokers and one client."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim

    def serve(self, *brokers: ScriptedBroker) -> None:
        """Start brokers, each on the node of its host name."""
        for broker in brokers:

            async def main(ports: Ports, broker: ScriptedBroker = broker) -> None:
                await broker.serve(ports.network)
                await asyncio.get_running_loop().create_future()

            self.sim.spawn(broker.host, main)
        self.sim.run_for(duration_ms=10)

    def play(self, client: Callable[[Ports], Coroutine[Any, Any, T]]) -> T:
        """Run a client to its end."""
        done: list[T] = []

        async def main(ports: Ports) -> None:
            done.append(await client(ports))

        async def wait(task: "asyncio.Task[None]") -> None:
            await asyncio.wait([task])

        self.sim.run(wait(self.sim.spawn(CLIENT, main)))
        return done[0]


class Worlds(AbstractContextManager[World]):
    """`with Worlds(seed) as world:`."""

    def __init__(self, seed: int = 0, order: Order = Order.DRAWN) -> None:
        self._sim = Simulation(seed, order=order)

    def __enter__(self) -> World:
        self._sim.__enter__()
        self._sim.network.slow_chance = 0
        return World(self._sim)

    def __exit__(self, *error: Any) -> None:
        self._sim.__exit__(*error)
