"""The whole broker in simulation: producers, consumers, admin noise, faults, and the judgment.

    with Simulation(seed) as sim:
        assert Workload(sim).play() == []

After the faults everything is repaired, and the broker has to prove that it lives: it loses power
once more (or its process, where only the page cache is promised), comes back, takes a record for
each partition, and shows everything it ever acknowledged to a fresh consumer.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from ottla.broker.flusher import Flusher
from ottla.errors import ErrorCode
from ottla.ports import Ports
from ottla.testing.simulation import Simulation
from tests.simulation.admin_noise import Admin, Bounds
from tests.simulation.broker_clients import ALL_REPLICAS, Consumer, Producer, Spot
from tests.simulation.broker_host import BrokerHost
from tests.simulation.journal import Journal
from tests.simulation.nemesis import LOSING_FAULTS, Fault, Nemesis

PRODUCERS: Final = ("ada", "bob", "eve")
CONSUMERS: Final = ("kim", "lou")
ADMIN: Final = "admin"
LAST: Final = "last"
SYNC_DELAYS_MS: Final = ((0.2, 4.0), (1.0, 30.0), (10.0, 80.0))
MAX_TRIES: Final = 20
RUN_LIMIT_MS: Final = 300_000

EVENTS: Final = "events"
TRIMMED: Final = "trimmed"
RETAINED: Final = "retained"
RETENTION_BYTES: Final = 4000
COMPACTED: Final = "compacted"
SPOTS: Final = (
    Spot(EVENTS, 0),
    Spot(EVENTS, 1),
    Spot(TRIMMED, 0),
    Spot(RETAINED, 0),
    Spot(COMPACTED, 0),
)
TOPICS: Final = {
    EVENTS: (2, {}),
    TRIMMED: (1, {}),
    RETAINED: (1, {"retention.bytes": str(RETENTION_BYTES)}),
    COMPACTED: (1, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"}),
}


class Workload:
    """One run.

    Args:
        sim: Where it takes place.
        flush: What the broker waits for before it answers acks=all.
        loses_power: Whether power and syncs may fail, or only processes and the network.
        flusher: Takes the place of the broker's own, to prove that the judge sees it.
    """

    def __init__(
        self,
        sim: Simulation,
        *,
        flush: str = "commit",
        loses_power: bool = True,
        flusher: type[Flusher] = Flusher,
    ) -> None:
        self.journal = Journal(
            compacted=(str(Spot(COMPACTED, 0)),), is_forgiving=loses_power and flush == "os"
        )
        self._sim = sim
        self._loses_power = loses_power
        self._host = BrokerHost(sim, self.journal, flush=flush, flusher=flusher)
        # On a slow disk there is always something that is not durable yet.
        self._host.disk.sync_delay_ms = sim.rng.choice(SYNC_DELAYS_MS)
        self._bounds = Bounds()
        self._is_over = False
        self._starts: dict[Spot, int] = {}
        self._nemesis = Nemesis(
            sim,
            self._host,
            self.journal,
            clients=[*PRODUCERS, *CONSUMERS, ADMIN],
            faults=frozenset(Fault) - (frozenset() if loses_power else LOSING_FAULTS),
        )

    def play(self) -> list[str]:
        """Run it all; return everything that was wrong."""
        starts = self._sim.run(self._story(), limit_ms=RUN_LIMIT_MS)
        return [
            *self._bounds.violations(starts),
            *self.journal.verdict(
                start_offsets=starts,
                keeps_weak_sends=not self._has_lost_page_cache,
                last_process=LAST,
            ),
        ]

    @property
    def _has_lost_page_cache(self) -> bool:
        return any(self.journal.done[f"fault {fault.value}"] for fault in LOSING_FAULTS)

    async def _story(self) -> dict[str, int]:
        keeping = asyncio.create_task(self._host.keep_running())
        await self._sim.spawn("founder", self._prepare)
        producing = [self._start_producer(name) for name in PRODUCERS]
        for name in CONSUMERS:
            self._start_consumer(name)
        self._sim.spawn(ADMIN, self._make_noise)
        await self._nemesis.work()
        self._is_over = True
        await asyncio.gather(*producing)
        for name in (*CONSUMERS, ADMIN):
            self._sim.kill(name)
        self._nemesis.strike_last(Fault.POWER if self._loses_power else Fault.KILL)
        await self._sim.spawn(LAST, self._look_again)
        keeping.cancel()
        return {str(spot): offset for spot, offset in self._starts.items()}

    # The clients

    async def _prepare(self, ports: Ports) -> None:
        admin = self._admin(ports)
        for name, (partition_count, settings) in TOPICS.items():
            for _ in range(MAX_TRIES):
                if await admin.create(name, partition_count, settings):
                    break

    async def _make_noise(self, ports: Ports) -> None:
        await self._admin(ports).make_noise(altered=EVENTS, trimmed=Spot(TRIMMED, 0))

    def _admin(self, ports: Ports) -> Admin:
        return Admin(ports, ADMIN, self.journal, self._sim.stream(ADMIN), self._bounds)

    def _start_producer(self, name: str) -> "asyncio.Task[None]":
        async def work(ports: Ports) -> None:
            producer = Producer(ports, name, self.journal, self._sim.stream(name))
            await producer.work(SPOTS, is_over=lambda: self._is_over)

        return self._sim.spawn(name, work)

    def _start_consumer(self, name: str) -> None:
        async def work(ports: Ports) -> None:
            await Consumer(ports, name, self.journal, self._sim.stream(name)).work(SPOTS)

        self._sim.spawn(name, work)

    async def _look_again(self, ports: Ports) -> None:
        """The broker lives, and has everything: a fresh client sees that."""
        rng = self._sim.stream(LAST)
        producer = Producer(ports, LAST, self.journal, rng)
        for spot in SPOTS:
            await _insist(f"a send to {spot}", partial(producer.send_one, spot))
        consumer = Consumer(ports, LAST, self.journal, rng)
        self._starts = await consumer.drain(SPOTS)
        retained = Spot(RETAINED, 0)
        kept_bytes = consumer.fetched_bytes[retained]
        if self._starts[retained]:
            self.journal.done["retention"] += 1
            # With power, the newest records may be lost, for which others had to make room.
            if kept_bytes < RETENTION_BYTES and not self._has_lost_page_cache:
                self.journal.violate(f"{retained} kept {kept_bytes} bytes")
        for name, is_there in self._bounds.topics.items():
            code = await self._admin(ports).fill(name, ALL_REPLICAS)
            wanted = ErrorCode.NONE if is_there else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if is_there is not None and code is not wanted:
                self.journal.violate(f"{name} answers {code}, not {wanted.name}")


async def _insist(what: str, act: Callable[[], Awaitable[bool]]) -> None:
    """Do it until it succeeds; with nothing broken anymore, that is soon."""
    for _ in range(MAX_TRIES):
        if await act():
            return
        await asyncio.sleep(0.2)
    raise AssertionError(f"{what} was never acknowledged, though nothing is broken anymore")
