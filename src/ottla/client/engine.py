"""The engine that producer, consumer and admin client share.

It lives in one event loop, and so do its methods; only `cluster` and `metrics` may be read from any
thread.  `ask` is one attempt, `call` repeats until a deadline.  Whom to ask is a `Target`: a node
id, `ANY`, `CONTROLLER`, `LeaderOf(partition)`, `group(id)` or `transaction(id)`.

Invariants: metadata is kept fresh in the background from `start` on; a request that got no answer
within its timeout closes its connection; a lost connection makes us look again for whatever its
node led or coordinated.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from ottla.client import coordinators
from ottla.client.asking import Asker
from ottla.client.backoff import Backoff
from ottla.client.buffers import ViewedBuffers
from ottla.client.cluster_view import ClusterView, Node, TopicView
from ottla.client.config import ClientConfig
from ottla.client.connection import ConnectionOptions
from ottla.client.coordinators import Coordinated, Coordinators
from ottla.client.durations import seconds
from ottla.client.keeper import MetadataKeeper
from ottla.client.link import SEND_TIMEOUT_S, Link, LinkContext
from ottla.client.links import Links
from ottla.client.metadata import Metadata, MetadataPolicy
from ottla.client.metrics import Metrics
from ottla.client.ports import ClientPorts
from ottla.client.router import Router
from ottla.client.tls import context_of
from ottla.errors import ClosedError, ConnectError, DeadlineError, OttlaError, TransportError
from ottla.wire.frame import scratch_buffer
from ottla.wire.messages.find_coordinator import FindCoordinatorResponse
from ottla.wire.messages.metadata import MetadataResponse

log = logging.getLogger(__name__)

_IDLE_SLACK_S: Final = 0.01
"""So that a limit of 0 does not keep the loop busy."""


class Engine(Asker):
    """Connections, metadata and coordinators of one client.  See the module's words."""

    def __init__(
        self,
        config: ClientConfig,
        ports: ClientPorts,
        *,
        client_id: str = "",
        creates_topics: bool = False,
        topic_idle_ms: int | None = None,
    ) -> None:
        """Prepare an engine; nothing happens before `start`.

        Args:
            config: Its settings.
            ports: The way outside.
            client_id: How it is called where the settings do not say.
            creates_topics: Whether asking for a topic may create it, where the broker does so.
            topic_idle_ms: How long a topic stays known after its last use; None: for ever.
        """
        super().__init__(config, ports)
        self.client_id = config.client_id or client_id or "ottla"
        self.metrics = Metrics()
        self.coordinators = Coordinators()
        self.metadata = Metadata(_metadata_policy(config, creates_topics, topic_idle_ms))
        self._tls = context_of(config)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._keeper: MetadataKeeper | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._features: Mapping[str, int] = {}
        self._features_epoch = -1
        self._listeners: list[Callable[[], None]] = []
        self.send_timeout_s = SEND_TIMEOUT_S
        """How long brokers have, when we close, to read what they need not answer."""

    # Its life.

    async def start(self) -> None:
        """Begin to work, in the running loop; nothing is waited for.  Twice is no error."""
        if self._loop is not None or self._failure is not None:
            return
        self._loop = asyncio.get_running_loop()
        links = Links(self._link_context(), self.config.addresses)
        self._keeper = MetadataKeeper(
            self.metadata,
            self.ports.entropy,
            ask=lambda request, least: self.ask(request, MetadataResponse, min_version=least),
            on_update=lambda cluster: self._on_update(links, cluster),
            on_bootstrap=lambda: links.disconnect(
                lambda node: node.node_id >= 0, TransportError("the brokers may have changed")
            ),
            check_open=self.check_open,
        )
        self._router = Router(
            links,
            self.metadata,
            self.coordinators,
            find=lambda request: self.ask(
                request, FindCoordinatorResponse, min_version=coordinators.MIN_VERSION
            ),
            wake_metadata=self._keeper.wake,
        )
        self.spawn("metadata", self._keeper.run())
        if self.config.connections_max_idle_ms >= 0:
            work = _close_idle(links, self.config.connections_max_idle_ms / 1000)
            self.spawn("idle connections", work)

    async def connect(self, timeout_ms: int | None = None, *, once: bool = False) -> ClusterView:
        """Wait until the cluster is known.

        With `once`, each address is tried once, rather than until the time is over.

        Raises:
            ConnectError: No broker could be reached in time; it names addresses and reasons.
            CredentialsError: The brokers do not let us in.
            DeadlineError: Somebody is there, but does not answer in time.
        """
        limit_ms = self._limit_ms(timeout_ms)
        try:
            return await self._kept.connected(limit_ms, once=once)
        except DeadlineError as late:
            if self._router is not None and self._router.links.reaches_anybody:
                raise
            asked = ", ".join(map(str, self.config.addresses))
            raise ConnectError(f"{asked}: no connection within {seconds(limit_ms)}") from late

    async def close(self, timeout_ms: int = 0) -> None:
        """Refuse what is new, wait for answers for up to `timeout_ms`, close the connections.

        Closing twice is no error.
        """
        self._fail(ClosedError("the client is closed"))
        tasks, self._tasks = self._tasks, {}
        for task in tasks.values():
            task.cancel()
        if tasks:
            await asyncio.wait(tasks.values())
        if self._answers and timeout_ms > 0:
            await asyncio.wait(self._answers, timeout=timeout_ms / 1000)
        if self._router is not None:
            assert self._failure is not None
            self._router.close()
            await self._router.links.close(self._failure, self.send_timeout_s)

    def spawn(self, name: str, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Run a task of the client until it ends or the client is closed.

        One that ends by an exception is a bug: it is logged, and the client fails from then on.
        """
        assert self._loop is not None, "the engine is not started"
        before = self._tasks.get(name)
        assert before is None or before.done(), f"there is a task {name!r}"
        task = self._loop.create_task(work, name=f"{self.client_id} {name}")
        self._tasks[name] = task
        task.add_done_callback(lambda done: self._on_task_end(name, done))
        return task

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Have `listener` called, in the loop, whenever something changed that may let it go on.

        A node became ready or was lost, a connection has room again, metadata is newer.  It should
        only take note of it.
        """
        self._listeners.append(listener)

    # What it knows.

    def now_ms(self) -> int:
        """The time for deadlines and pauses: it never jumps.  Records take `ports.clock`."""
        assert self._loop is not None, "the engine is not started"
        return int(self._loop.time() * 1000)

    @property
    def cluster(self) -> ClusterView:
        """The newest metadata.  Safe from any thread."""
        return self.metadata.cluster

    @property
    def features(self) -> Mapping[str, int]:
        """Finalized features of the cluster -> level; {} until a broker was reached."""
        return self._features

    async def topic(self, name: str, timeout_ms: int | None = None) -> TopicView:
        """Wait until a topic is known, and keep it so.

        Raises:
            UnknownTopicError: There is no such topic, to the end of the time.
            DeniedError: We may not know of it.
            RequestError: It cannot be the name of a topic.
            DeadlineError: No broker told in time; its cause says why.
        """
        return await self._kept.topic(name, self._limit_ms(timeout_ms))

    async def refresh(self, timeout_ms: int | None = None) -> ClusterView:
        """Ask for metadata now, and wait for it."""
        return await self._kept.refreshed(self._limit_ms(timeout_ms))

    def wake_metadata(self) -> None:
        """Something was asked of `metadata` (`want`, `refresh`): look when to ask next."""
        self._kept.wake()

    async def metadata_changed(self) -> ClusterView:
        """Wait for the next answer, or failure, about metadata."""
        await self._kept.news()
        return self.cluster

    async def coordinator(self, of: Coordinated) -> Node:
        """Find a coordinator: known, or asked for once; raises what the broker answered."""
        return await self._routed.coordinator(of)

    @property
    def _kept(self) -> MetadataKeeper:
        self.check_open()
        assert self._keeper is not None, "the engine is not started"
        return self._keeper

    def _link_context(self) -> LinkContext:
        config = self.config
        return LinkContext(
            config=config,
            ports=self.ports,
            options=ConnectionOptions(
                client_id=self.client_id,
                max_in_flight=config.max_in_flight_requests_per_connection,
                max_answer_bytes=config.receive_message_max_bytes,
                send_buffer_bytes=config.send_buffer_bytes,
                receive_buffer_bytes=config.receive_buffer_bytes,
                scratch=scratch_buffer(),
                buffers=ViewedBuffers(config.usual_answer_bytes),
                metrics=self.metrics,
                on_room=self._changed,
            ),
            tls=self._tls,
            cluster_id=lambda: (
                self.cluster.cluster_id if config.metadata_cluster_check_enable else None
            ),
            on_ready=self._on_ready,
            on_lost=self._on_lost,
        )

    def _on_update(self, links: Links, cluster: ClusterView) -> None:
        links.adopt(cluster)
        self._changed()

    def _on_ready(self, link: Link) -> None:
        connection = link.connection
        assert connection is not None
        told = connection.versions
        if told.features_epoch >= self._features_epoch:
            self._features, self._features_epoch = told.features, told.features_epoch
        self._count_connections()
        self._changed()

    def _on_lost(self, link: Link, reason: OttlaError) -> None:
        if self._router is not None and self._failure is None and link.node.node_id >= 0:
            self._router.node_lost(link.node.node_id)
        self._count_connections()
        self._changed()

    def _count_connections(self) -> None:
        if self._router is not None:
            self.metrics.set("connection-count", self._router.links.open_count)

    def _changed(self) -> None:
        for listener in self._listeners:
            listener()

    def _on_task_end(self, name: str, task: "asyncio.Task[None]") -> None:
        if self._tasks.get(name) is task:
            del self._tasks[name]
        if task.cancelled() or (error := task.exception()) in (None, self._failure):
            return
        log.error("task crashed: %s of %s", name, self.client_id, exc_info=error)
        failure = ClosedError(f"the client stopped: its task {name!r} crashed: {error!r}")
        failure.__cause__ = error
        self._fail(failure)

    def _fail(self, reason: OttlaError) -> None:
        """From now on everything that is asked raises `reason`; only the first one counts."""
        if self._failure is None:
            self._failure = reason
            if self._keeper is not None:
                self._keeper.tell()
            self._changed()


def _metadata_policy(
    config: ClientConfig, creates_topics: bool, topic_idle_ms: int | None
) -> MetadataPolicy:
    is_persistent = config.metadata_recovery_strategy == "none"
    return MetadataPolicy(
        max_age_ms=config.metadata_max_age_ms,
        backoff=Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms),
        idle_ms=topic_idle_ms,
        creates_topics=creates_topics,
        rebootstrap_after_ms=(
            None if is_persistent else config.metadata_recovery_rebootstrap_trigger_ms
        ),
    )


async def _close_idle(links: Links, limit_s: float) -> None:
    """Close what nobody used for so long."""
    loop = asyncio.get_running_loop()
    while True:
        now_s = loop.time()
        links.close_idle(now_s - limit_s)
        oldest_s = links.oldest_use_s()
        # A connection that waits for an answer is not idle, however long that takes.
        wait_s = limit_s if oldest_s is None else max(oldest_s + limit_s - now_s, limit_s / 10)
        await asyncio.sleep(wait_s + _IDLE_SLACK_S)
