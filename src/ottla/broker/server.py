"""One broker in the running loop: puts the parts together, starts and stops them.

    server = Server(config, ports, store)
    await server.start()
    ...
    await server.stop()

`ottla serve` runs it in a process of its own, `ottla.Broker` on a thread of the caller's process,
and the simulation on a loop whose time is its own.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from ottla.broker.chores import Chore
from ottla.broker.cleaning import Cleaning
from ottla.broker.config import BrokerConfig
from ottla.broker.context import Node
from ottla.broker.dispatch import Route, routes
from ottla.broker.flusher import Flusher, Syncable
from ottla.broker.following import Follower
from ottla.broker.listener import ConnectionLimits, Connections
from ottla.broker.partition import Partition
from ottla.broker.partitions import Partitions
from ottla.broker.storage import Opened, Storage
from ottla.cluster.controller import Controller
from ottla.cluster.image import BrokerImage
from ottla.cluster.store.interface import MetadataStore
from ottla.ports import Listener, Ports

if TYPE_CHECKING:
    from ottla.broker.control import ControlSocket
    from ottla.broker.fetch_sessions import FetchSessions
    from ottla.broker.freezing import Freezer
    from ottla.broker.http import HttpServer
    from ottla.broker.transactions import Transactions

log = logging.getLogger(__name__)

MIN_SESSION_IDLE_MS: Final = 2 * 60 * 1000
"""A fetch session that was used since then does not give its place to a new one."""

DELETION_INTERVAL_MS: Final = 1_000
"""How soon the files of a deleted topic go."""

OPENING_INTERVAL_MS: Final = 10_000
"""How often partitions are tried that there was no room for."""

_IDLE_CHECKS_PER_LIMIT: Final = 4

_TURNS_TO_ANSWER: Final = 8
"""From the end of a sync to the last answer that waited for it, it takes so many turns of the loop
at the most."""


class Server:
    """A broker.  `start` it once, `stop` it once."""

    def __init__(
        self,
        config: BrokerConfig,
        ports: Ports,
        store: MetadataStore,
        *,
        flusher: type[Flusher] = Flusher,
        transactions: "Callable[[Node], Transactions] | None" = None,
        serve: Callable[[Mapping[int, Route]], Mapping[int, Route]] | None = None,
        freezer: "type[Freezer] | None" = None,
        back_up: Callable[[str], None] = lambda folder: None,
        control: "ControlSocket | None" = None,
    ) -> None:
        """Take the parts; nothing happens before `start`.

        `back_up` puts a copy of metadata into a folder of the disk, if they are kept there at all;
        at the `control` socket such copies can be asked for.

        Tests bring a worse `flusher`, which makes appended data durable, worse coordinators of
        `transactions` or a slow `freezer`, and with `serve` put something between sessions and
        handlers of requests.
        """
        self._config = config
        self._ports = ports
        self._store = store
        self._listener: Listener | None = None
        self._connections: Connections | None = None
        self._storage: Storage | None = None
        self._cleaning: Cleaning | None = None
        self._node: Node | None = None
        self._make_flusher = flusher
        self._make_transactions = transactions
        self._flusher: Flusher | None = None
        self._http: HttpServer | None = None
        self._http_listener: Listener | None = None
        self._serve = serve
        self._make_freezer = freezer
        self._back_up = back_up
        self._control = control
        self._freezer: Freezer | None = None
        self._chores: list[Chore] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done once the broker cannot go on: its disk failed, or a background task crashed."""

    @property
    def address(self) -> tuple[str, int]:
        """Where clients connect; with port 0, the port that was free."""
        assert self._listener is not None, "the broker is not started"
        return self._listener.address

    @property
    def metrics_address(self) -> tuple[str, int] | None:
        """Where `/metrics` is answered; None if it is not."""
        return None if self._http_listener is None else self._http_listener.address

    @property
    def request_count(self) -> int:
        """How many requests have come since the start."""
        assert self._node is not None, "the broker is not started"
        return sum(self._node.meters.request_counts)

    def freezer(self) -> "Freezer":
        """What makes copies of the data directory."""
        from ottla.broker.freezing import Freezer  # here, as below

        assert self._storage is not None, "the broker is not started"
        if self._freezer is None:
            make = self._make_freezer or Freezer
            self._freezer = make(self._ports.disk, self._partitions, self._storage, self._back_up)
        return self._freezer

    async def start(self) -> Opened:
        """Open the data directory and the port; return what was found.

        Where it fails, everything is given back, and nothing is written about a clean end.
        """
        try:
            return await self._open()
        except (Exception, asyncio.CancelledError):
            self.abandon()
            raise

    async def _open(self) -> Opened:
        self._ports.disk.lock()
        controller = await Controller.open(
            self._store,
            node_id=self._config.node_id,
            config=self._config,
            entropy=self._ports.entropy,
        )
        partitions = Partitions()
        if self._config.flush == "commit":
            self._flusher = self._make_flusher(
                self._ports.disk, on_synced=_advance, on_failure=self._on_disk_failure
            )
        node = Node(
            config=self._config,
            ports=self._ports,
            controller=controller,
            partitions=partitions,
            flusher=self._flusher,
            make_fetch_sessions=self._new_fetch_sessions,
            routes=routes() if self._serve is None else self._serve(routes()),
            make_transactions=self._make_transactions,
        )
        if self._flusher is not None:
            self._flusher.on_duration = node.meters.sync_times.observe
        self._partitions = partitions
        self._node = node
        self._storage = Storage(
            config=self._config,
            ports=self._ports,
            controller=controller,
            partitions=partitions,
            flusher=self._flusher,
        )
        opened = self._storage.open()
        self._cleaning = Cleaning(node, self._storage)
        node.start_coordinators()
        follower = Follower(node, self._storage, self._cleaning, self._on_disk_failure)
        controller.subscribe(follower.on_change)
        await self._listen(node)
        if self._config.metrics_port >= 0:
            await self._show_metrics(node)
        if self._control is not None:
            await self._control.open(self.freezer)
        self._start_background()
        return opened

    def _new_fetch_sessions(self) -> "FetchSessions":
        from ottla.broker.fetch_sessions import FetchSessions

        return FetchSessions(
            max_sessions=self._config.fetch_session_slots,
            min_idle_ms=MIN_SESSION_IDLE_MS,
            entropy=self._ports.entropy,
        )

    async def stop(self) -> None:
        """Answer what can be answered, close the logs cleanly, give everything back."""
        self._close_listeners()
        if self._control is not None:
            await self._control.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._connections is not None:
            await self._answer_who_waits()
            self._connections.close_all()
        self._close_coordinators()
        if self._storage is not None:
            await self._close_logs(self._storage)
        if self._connections is not None:
            self._connections.abort_all()
            await self._connections.gone()
        self._store.close()
        self._ports.disk.close()

    def abandon(self) -> None:
        """Stop at once, as `kill -9` would: answer nobody, write nothing more."""
        self.failure.cancel()  # whatever goes wrong from here on was to be expected
        for task in self._tasks:
            task.cancel()
        if self._flusher is not None:
            self._flusher.abandon()
        if self._connections is not None:
            self._connections.abort_all()
        if self._control is not None:
            self._control.abandon()
        self._close_coordinators()
        self._close_listeners()
        if self._storage is not None:
            self._storage.abandon()
        self._store.close()
        self._ports.disk.close()

    async def housekeep(self) -> None:
        """Do now what is otherwise done every so often."""
        for chore in self._chores:
            await chore.run()

    async def _answer_who_waits(self) -> None:
        """Let those be told who wait for a sync: that it is over, or that it failed."""
        if self._flusher is not None:
            with suppress(OSError):  # which the flusher has told of
                await self._flusher.flush()
        for _ in range(_TURNS_TO_ANSWER):
            await asyncio.sleep(0)

    async def _close_logs(self, storage: Storage) -> None:
        try:
            if self._flusher is not None and not self.failure.done():
                await self._flusher.flush()
            if not self.failure.done():
                storage.close()
                return
        except OSError as error:
            log.error("logs not closed cleanly, the next start recovers them: %s", error)
        storage.abandon()

    def _close_coordinators(self) -> None:
        if self._node is not None:
            for coordinators in self._node.coordinators:
                coordinators.close()
            self._node.producer_ids.close()

    async def _listen(self, node: Node) -> None:
        self._connections = Connections(node, _limits_of(self._config))
        endpoint = self._config.listener
        self._listener = await self._connections.listen(endpoint.host, endpoint.port)
        advertised = self._config.advertised
        await node.controller.register(
            BrokerImage(
                node_id=self._config.node_id,
                host=advertised.host if advertised else endpoint.host or "localhost",
                port=advertised.port if advertised else self.address[1],
                rack=self._config.broker_rack,
            )
        )

    async def _show_metrics(self, node: Node) -> None:
        # Here, because most brokers start without: an import of these is time until the first
        # answer.
        from ottla.broker.http import HttpServer
        from ottla.broker.metrics import Metrics

        self._http = HttpServer(Metrics(node, self.failure.done).pages)
        host, port = self._config.listener.host, self._config.metrics_port
        try:
            self._http_listener = await self._ports.network.listen(host, port, self._http.accept)
        except OSError as error:  # which port it was is told with it: there are two
            raise OSError(error.errno, error.strerror, f"{host}:{port}") from error
        self._watch(asyncio.get_running_loop().create_task(node.meters.watch_loop()))

    def _close_listeners(self) -> None:
        for listener in (self._listener, self._http_listener):
            if listener is not None:
                listener.close()
        if self._http is not None:
            self._http.close()

    def _start_background(self) -> None:
        assert self._connections is not None
        assert self._storage is not None
        cleaning = self._cleaning
        assert cleaning is not None
        idle_ms = self._config.connections_max_idle_ms // _IDLE_CHECKS_PER_LIMIT
        if idle_ms > 0:
            self._every(idle_ms, self._connections.close_idle)
        self._every(self._config.recovery_point_interval_ms, cleaning.checkpoint)
        self._every(DELETION_INTERVAL_MS, self._storage.delete_doomed)
        self._every(OPENING_INTERVAL_MS, self._open_late)
        self._every(self._config.retention_check_interval_ms, cleaning.delete_old)
        if self._config.cleaner.enabled:
            self._every(self._config.cleaner.backoff_ms, cleaning.compact)
        if self._flusher is None:
            self._every(self._config.recovery_point_interval_ms, cleaning.sync_rolled)

    def _every(self, interval_ms: int, act: Callable[[], Awaitable[None] | None]) -> None:
        """Call `act` again and again; if it raises, the broker stops."""
        chore = Chore(interval_ms, act)
        self._chores.append(chore)
        self._watch(asyncio.get_running_loop().create_task(chore.repeat()))

    async def _open_late(self) -> None:
        assert self._storage is not None
        assert self._node is not None
        if not self.failure.done() and await self._storage.open_late():
            for coordinators in self._node.coordinators:
                coordinators.start()

    def _watch(self, task: "asyncio.Task[None]") -> None:
        task.add_done_callback(self._on_task_done)
        self._tasks.append(task)

    def _on_task_done(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("background task crashed", exc_info=error)
            self._fail(error)

    def _on_disk_failure(self, error: OSError) -> None:
        """Nobody knows what is on disk now: answer KAFKA_STORAGE_ERROR and stop."""
        assert self._storage is not None
        self._storage.take_offline()
        self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if not self.failure.done():
            self.failure.set_exception(error)
            self.failure.exception()  # it was logged: whoever stops us meanwhile need not look


def _limits_of(config: BrokerConfig) -> ConnectionLimits:
    return ConnectionLimits(
        max_connections=config.max_connections,
        max_connections_per_ip=config.max_connections_per_ip,
        max_idle_ms=config.connections_max_idle_ms,
        max_frame_bytes=config.socket_request_max_bytes,
        max_in_flight=config.max_in_flight_requests,
        max_queued_bytes=config.connection_queued_max_bytes,
        max_partial_bytes=config.queued_max_request_bytes,
    )


def _advance(synced: Syncable) -> None:
    assert isinstance(synced, Partition)
    synced.advance()
