"""The machine that the simulated broker runs on: starts it, stops it, starts it again.

Segments are rolled, checkpoints written and logs cleaned many times a second, so that a run of a
few seconds meets them all.
"""

import asyncio
import errno
from collections.abc import Callable, Mapping
from typing import Final

from ottla.broker.config import BrokerConfig
from ottla.broker.dispatch import Route
from ottla.broker.flusher import Flusher
from ottla.broker.freezing import Freezer
from ottla.broker.server import Server
from ottla.broker.transactions import Transactions
from ottla.cluster.store.memory import MemoryStore
from ottla.ports import Ports
from ottla.testing.simulation import Simulation
from tests.simulation.broker_clients import BROKER, PORT
from tests.simulation.journal import Journal

SETTINGS: Final[Mapping[str, object]] = {
    "listeners": f"PLAINTEXT://{BROKER}:{PORT}",
    "ottla.insecure": True,
    "auto.create.topics.enable": False,
    "log.roll.ms": 150,
    "log.index.interval.bytes": 0,
    "log.flush.offset.checkpoint.interval.ms": 110,
    "log.flush.start.offset.checkpoint.interval.ms": 70,
    "log.retention.check.interval.ms": 130,
    "log.cleaner.backoff.ms": 80,
}


class SurvivingStore(MemoryStore):
    """Metadata that is on disk, as far as one can tell: each process of the broker reopens it."""

    def reopened(self) -> "SurvivingStore":
        """The same content, without the watchers and leases of a process that is gone."""
        store = SurvivingStore()
        store._entries = dict(self._entries)
        store._revision = self._revision
        return store


Serve = Callable[[Mapping[int, Route]], Mapping[int, Route]]
"""Puts something between the sessions of a broker and its handlers."""


class BrokerHost:
    """One broker.  `flusher`, `transactions` and `serve` spoil a part of it, to prove that
    somebody notices.
    """

    def __init__(
        self,
        sim: Simulation,
        journal: Journal,
        *,
        flush: str = "commit",
        flusher: type[Flusher] = Flusher,
        transactions: type[Transactions] = Transactions,
        serve: Serve | None = None,
        settings: Mapping[str, object] | None = None,
        freezer: type[Freezer] | None = None,
        back_up: Callable[[str], None] = lambda folder: None,
    ) -> None:
        self.is_disk_bad = False
        """Whether there is an excuse for what cannot be opened: no room, or syncs that fail."""
        self.disk = sim.node(BROKER).disk
        self._sim = sim
        self._journal = journal
        self._flusher = flusher
        self._transactions = transactions
        self._serve_with = serve
        self._freezer = freezer
        self._back_up = back_up
        self.server: Server | None = None
        """The one that runs, or ran last."""
        self._config = BrokerConfig.of({**SETTINGS, **(settings or {}), "ottla.flush": flush})
        self._store = SurvivingStore()
        self._stop_asked: asyncio.Future[None] | None = None

    @property
    def is_running(self) -> bool:
        return self._sim.node(BROKER).is_running

    @property
    def life(self) -> int:
        """Which process of the broker it is that runs, or ran last."""
        return self._sim.node(BROKER).life

    def start(self) -> "asyncio.Task[None]":
        """Start a process of the broker, whatever became of the one before."""
        self._store = self._store.reopened()
        self._stop_asked = self._sim.loop.create_future()
        return self._sim.spawn(BROKER, self._serve)

    def stop(self) -> None:
        """Ask the broker to stop, as SIGTERM does."""
        assert self._stop_asked is not None
        if not self._stop_asked.done():
            self._stop_asked.set_result(None)

    async def keep_running(self) -> None:
        """Start it again whenever it ended, for whatever reason, as an init system does."""
        rng = self._sim.stream("init")
        while True:
            if not self.is_running:
                self.start()
            await asyncio.sleep(rng.uniform(0.02, 0.2))

    async def _serve(self, ports: Ports) -> None:
        """As `ottla serve` does it: until it is asked to stop, or cannot go on."""
        assert self._stop_asked is not None
        server = Server(
            self._config,
            ports,
            self._store,
            flusher=self._flusher,
            transactions=self._transactions,
            serve=self._serve_with,
            freezer=self._freezer,
            back_up=self._back_up,
        )
        try:
            opened = await server.start()
        except OSError as error:
            if not self.is_disk_bad:
                raise
            self._journal.done[f"start failed: {error.strerror}"] += 1
            return
        self.server = server
        if opened.offline and not self.is_disk_bad:
            self._journal.violate(f"offline after the start: {opened.offline}")
        await asyncio.wait({server.failure, self._stop_asked}, return_when=asyncio.FIRST_COMPLETED)
        if server.failure.done():
            self._journal.done["broker failed"] += 1
            failure = server.failure.exception()
            if not isinstance(failure, OSError) or failure.errno != errno.EIO:
                raise AssertionError("the broker failed, and no disk did") from failure
        await server.stop()
