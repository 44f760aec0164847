"""A broker without a socket: its handlers are called as functions, on a simulated disk.

Requests and responses still go through the codec, at the version that is asked for.  So every call
shows, too, that the response can be encoded at that version.
"""

import asyncio
import inspect
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import pytest

from ottla.broker.cleaning import Cleaning
from ottla.broker.config import BrokerConfig
from ottla.broker.context import Context, Node
from ottla.broker.dispatch import routes
from ottla.broker.fetch_sessions import FetchSessions
from ottla.broker.partition import Partition
from ottla.broker.partitions import Partitions
from ottla.broker.session import Session
from ottla.broker.storage import Storage
from ottla.cluster.changes import (
    Change,
    PartitionsAdded,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
)
from ottla.cluster.controller import Controller
from ottla.cluster.image import TopicImage
from ottla.cluster.store.memory import MemoryStore
from ottla.cluster.topics import NewTopic
from ottla.errors import ErrorCode
from ottla.ports import Listener, Ports
from ottla.records.builder import BatchOptions, build
from ottla.testing.disk import SimDisk
from ottla.wire.header import decode_request, decode_response, encode_request, encode_response
from ottla.wire.schema import api_of
from tests.cluster_samples import SeededEntropy, broker, done

NOW_MS = 1_700_000_000_000
DATA_DIR = "/var/lib/ottla"
NO_SESSION = cast(Session, None)
"""Most handlers never look at their connection; one that does cannot be called from here."""


class StoppedClock:
    def now_ms(self) -> int:
        return NOW_MS


class Unplugged:
    """A network that nobody may use."""

    async def listen(
        self, host: str, port: int, accept: Callable[[], asyncio.BaseProtocol]
    ) -> Listener:
        raise AssertionError("there is no network")

    async def connect(
        self,
        host: str,
        port: int,
        protocol: Callable[[], asyncio.BaseProtocol],
        *,
        tls: ssl.SSLContext | None = None,
    ) -> asyncio.BaseProtocol:
        raise AssertionError("there is no network")

    def expect_much(self) -> None:
        raise AssertionError("there is no network")


class LittleBroker:
    """Node 1, in a data directory of its own; with `flush=os`, because that needs no loop."""

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        broker_count: int = 1,
        store: MemoryStore | None = None,
        disk: SimDisk | None = None,
    ) -> None:
        config = BrokerConfig.of({"ottla.flush": "os", "log.dirs": DATA_DIR, **(settings or {})})
        entropy = SeededEntropy()
        self.disk = disk or SimDisk()
        self.controller = done(
            Controller.open(
                store or MemoryStore(), node_id=config.node_id, config=config, entropy=entropy
            )
        )
        for node_id in range(config.node_id, config.node_id + broker_count):
            done(self.controller.register(broker(node_id)))
        self.partitions = Partitions()
        self.node = Node(
            config=config,
            ports=Ports(clock=StoppedClock(), disk=self.disk, network=Unplugged(), entropy=entropy),
            controller=self.controller,
            partitions=self.partitions,
            flusher=None,
            make_fetch_sessions=lambda: FetchSessions(
                max_sessions=10, min_idle_ms=1000, entropy=entropy
            ),
            routes=routes(),
        )
        self.storage = Storage(
            config=config,
            ports=self.node.ports,
            controller=self.controller,
            partitions=self.partitions,
            flusher=None,
        )
        self.storage.open()
        self.controller.subscribe(self._follow)

    def delete_doomed(self) -> None:
        """Remove the folders of deleted topics, as the server does after a while."""
        asyncio.run(self.storage.delete_doomed())

    def delete_old(self) -> None:
        """Let retention take what it may, as the server does every few minutes."""
        asyncio.run(Cleaning(self.node, self.storage).delete_old())

    def ask(self, request: Any, version: int) -> Any:
        """Send `request` at `version`; the response as the client would decode it."""
        sent = encode_request(request, version, correlation_id=1, client_id="test")
        received = decode_request(bytearray(b"".join(sent)))
        route = self.node.routes[received.api.key]
        assert version in route.versions, f"v{version} is not served"
        context = Context(self.node, NO_SESSION, version, received.header.client_id)
        answer = route.handler(received.body, context)
        if inspect.iscoroutine(answer):
            answer = done(answer)
        assert type(answer) is route.api.response
        frame = b"".join(encode_response(answer, version, correlation_id=1))
        _, response = decode_response(route.api, version, frame)
        return response

    def create(
        self,
        name: str,
        *,
        partition_count: int = 1,
        configs: Sequence[tuple[str, str]] = (),
    ) -> TopicImage:
        """Create a topic, past the handlers."""
        new = NewTopic(name=name, partition_count=partition_count, configs=configs)
        (outcome,) = done(self.controller.create_topics([new]))
        assert outcome.topic is not None, outcome
        return outcome.topic

    def partition(self, topic: str, index: int = 0) -> Partition:
        found = self.partitions.find(topic, index)
        assert isinstance(found, Partition), found
        return found

    def append(
        self, topic: str, *values: bytes, index: int = 0, options: BatchOptions | None = None
    ) -> None:
        """Append one batch to a partition."""
        records = [(NOW_MS, b"key", value, ()) for value in values]
        data = bytearray(build(records, options or BatchOptions()))
        appended = self.partition(topic, index).append(data, now_ms=NOW_MS)
        assert appended.error is ErrorCode.NONE, appended

    def _follow(self, change: Change) -> None:
        match change:
            case (
                TopicCreated(topic)
                | TopicDeleted(topic)
                | PartitionsAdded(topic, _)
                | TopicConfigChanged(topic)
            ):
                self.storage.follow(topic.name)
            case _:
                pass


def each_version(request: type[Any], *, low: int = 0) -> pytest.MarkDecorator:
    """Runs a test at every version of `request` that is served, from `low` on."""
    key = api_of(request).key
    assert key is not None, request
    versions = [version for version in routes()[key].versions if version >= low]
    return pytest.mark.parametrize("version", versions)
