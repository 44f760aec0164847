"""Transactions in simulation: writers, copiers, consumers, faults on all sides, and the judgment.

    with Simulation(seed) as sim:
        assert TxnWorkload(sim).play() == []

Writers write transactions over several partitions.  Copiers read what was committed, write a copy
of each record, and commit how far they came in the same transaction.  Any of them may die, doze
beyond its timeout, or go on when another process has taken its place.

After the faults everything is repaired, and the broker loses its power once more.  Then, in bounded
time, the copiers have copied everything (unless they are stopped before), and no transaction holds
up the consumers of any partition.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.broker.dispatch import Route
from ottla.broker.flusher import Flusher
from ottla.broker.transactions import Transactions
from ottla.model import CONSUMER_OFFSETS_TOPIC
from ottla.ports import Ports
from ottla.testing.simulation import Simulation
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.simulation.broker_clients import Link, Spot
from tests.simulation.broker_host import BrokerHost, Serve
from tests.simulation.group_member import METADATA_VERSION, WatchedLink, Weather
from tests.simulation.journal import Journal
from tests.simulation.nemesis import Fault, Nemesis
from tests.simulation.txn_clients import (
    CommittedConsumer,
    Copier,
    LastReader,
    Offsets,
    Tap,
    UncommittedConsumer,
    Writer,
)
from tests.simulation.txn_ledger import TxnLedger
from tests.simulation.txn_nemesis import ClientNemesis, Echo, Trouble
from tests.simulation.txn_producer import Office, TxnProducer
from tests.simulation.txn_requests import Identity

ORDERS: Final = "orders"
EVENTS: Final = "events"
COPIES: Final = "copies"
TOPICS: Final = (ORDERS, EVENTS, COPIES)
PARTITION_COUNT: Final = 2
SOURCES: Final = (Spot(ORDERS, 0), Spot(ORDERS, 1))
WRITTEN: Final = (*SOURCES, Spot(EVENTS, 0))
TARGETS: Final = (Spot(COPIES, 0), Spot(COPIES, 1))
DATA: Final = (*WRITTEN, *TARGETS)
OFFSETS: Final = tuple(Spot(CONSUMER_OFFSETS_TOPIC, index) for index in range(PARTITION_COUNT))
GROUP: Final = "copiers"

WRITERS: Final = ("ada", "bob")
COPIERS: Final = ("cam", "dan")
DOUBLE: Final = "double"
COMMITTED_READER: Final = "kim"
UNCOMMITTED_READER: Final = "lou"
WATCHER: Final = "watcher"
LAST: Final = "last"

DONE_WITHIN_S: Final = 20.0
COPIED_WITHIN_S: Final = 20.0
STABLE_WITHIN_S: Final = 8.0
"""The timeout of a transaction, the time until it is noticed, and that of markers that failed."""
RUN_LIMIT_MS: Final = 300_000
SETTINGS: Final = {
    "auto.create.topics.enable": True,
    "num.partitions": PARTITION_COUNT,
    "offsets.topic.num.partitions": PARTITION_COUNT,
    "transaction.state.log.num.partitions": 2,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 150,
    "log.cleaner.min.cleanable.ratio": 0.1,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sabotage:
    """What is spoiled in the broker, to prove that the judge sees it."""

    flusher: type[Flusher] = Flusher
    transactions: type[Transactions] = Transactions
    serve: Serve | None = None
    settings: Mapping[str, object] | None = None


WELL: Final = Sabotage()
ALL_TROUBLE: Final = Trouble()


class TxnWorkload:
    """One run.

    Args:
        sim: Where it takes place.
        versions: Of the transaction protocol; each client draws one.
        loses_power: Whether power and syncs may fail, or only processes and the network.
        trouble: What may go wrong.
        sabotage: What is spoiled in the broker.
    """

    def __init__(
        self,
        sim: Simulation,
        *,
        versions: Sequence[int] = (1, 2),
        flush: str = "commit",
        loses_power: bool = True,
        trouble: Trouble = ALL_TROUBLE,
        sabotage: Sabotage = WELL,
    ) -> None:
        self.journal = Journal()
        self._appended = Journal(done=self.journal.done)
        self._sim = sim
        self._loses_power = loses_power
        trouble = trouble if loses_power else trouble.without_losses()
        self._max_rest_s = trouble.max_rest_s
        self._echo = Echo(sim, self.journal, trouble)
        self._sabotage = sabotage
        self._host = BrokerHost(
            sim,
            self.journal,
            flush=flush,
            flusher=sabotage.flusher,
            transactions=sabotage.transactions,
            serve=self._served,
            settings={**SETTINGS, **(sabotage.settings or {})},
        )
        self._host.disk.sync_delay_ms = sim.rng.choice(trouble.sync_delays_ms)
        self._weather = Weather()
        self._ledger = TxnLedger(self.journal, self._appended)
        self._office = Office(ledger=self._ledger, journal=self.journal, weather=self._weather)
        self._versions = {node: sim.rng.choice(versions) for node in (*WRITERS, *COPIERS)}
        self._copies_all = sim.rng.random() < 0.7
        self._life_count = 0
        self._doubled = ""
        self._is_over = False
        self._nemesis = Nemesis(
            sim,
            self._host,
            self.journal,
            clients=[*WRITERS, *COPIERS, COMMITTED_READER],
            faults=trouble.faults,
            pause_s=(0.05, 0.6),
        )
        self._client_nemesis = ClientNemesis(
            sim,
            self._host.disk,
            self.journal,
            self._weather,
            nodes=[*WRITERS, *COPIERS],
            trouble=trouble,
            start_double=self._start_double,
        )

    def _served(self, routes: Mapping[int, Route]) -> Mapping[int, Route]:
        spoiled = routes if self._sabotage.serve is None else self._sabotage.serve(routes)
        return self._echo.serve(spoiled)

    def play(self) -> list[str]:
        """Run it all; return everything that was wrong."""
        self._sim.run(self._story(), limit_ms=RUN_LIMIT_MS)
        return [
            *self._judged(self.journal),
            *(f"read_uncommitted: {finding}" for finding in self._judged(self._appended)),
        ]

    def _judged(self, journal: Journal) -> list[str]:
        return journal.verdict(start_offsets={}, keeps_weak_sends=True, last_process=LAST)

    async def _story(self) -> None:
        keeping = asyncio.create_task(self._host.keep_running())
        await self._sim.spawn("founder", self._prepare)
        self._keeping = asyncio.create_task(self._keep_clients_running())
        self._sim.spawn(COMMITTED_READER, self._read_committed)
        self._sim.spawn(UNCOMMITTED_READER, self._read_uncommitted)
        self._sim.spawn(WATCHER, self._watch_offsets)
        await asyncio.gather(self._nemesis.work(), self._client_nemesis.work())
        self._is_over = True
        self._echo.is_on = False
        # A partition for which there was no room at the start is back after the next one.
        self._nemesis.strike_last(Fault.POWER if self._loses_power else Fault.KILL)
        await self._finish_writing()
        self._weather.is_calm = True
        await self._sim.spawn(LAST, self._look_again)
        keeping.cancel()

    # Writers and copiers

    async def _keep_clients_running(self) -> None:
        """Start every client again that ended, as an init system does."""
        rng = self._sim.stream("clients")
        while True:
            for node in COPIERS if self._is_over else (*WRITERS, *COPIERS):
                if not self._is_running(node):
                    self._start_client(node, node)
            await asyncio.sleep(rng.uniform(0.02, 0.2))

    def _is_running(self, name: str) -> bool:
        is_doubled = self._doubled == name and self._sim.node(DOUBLE).is_running
        return is_doubled or self._sim.node(name).is_running

    def _start_double(self, name: str) -> None:
        """Another process with the same transactional id: the first is a zombie from then on."""
        if not self._sim.node(DOUBLE).is_running:
            self._doubled = name
            self._start_client(DOUBLE, name)

    def _start_client(self, node: str, name: str) -> None:
        self._life_count += 1
        label = f"{node}.{self._life_count}"
        rng = self._sim.stream(label)
        who = Identity(transactional_id=f"the {name}", version=self._versions[name])

        async def work(ports: Ports) -> None:
            producer = TxnProducer(ports, label, who, self._office, rng)
            if name in WRITERS:
                writer = Writer(producer, WRITTEN, max_rest_s=self._max_rest_s, rng=rng)
                await writer.work(lambda: self._is_over)
                return
            copier = Copier(
                producer,
                Tap(ports, f"{label}/tap", self.journal, rng),
                self._offsets(ports, label),
                source=SOURCES[COPIERS.index(name)],
                targets=TARGETS,
                max_rest_s=self._max_rest_s,
                rng=rng,
            )
            await copier.work()

        self._sim.spawn(node, work)

    def _offsets(self, ports: Ports, label: str) -> Offsets:
        rng = self._sim.stream(f"{label} offsets")
        link = WatchedLink(ports, f"{label}/offsets", self.journal, self._weather, rng)
        return Offsets(link, GROUP, self._ledger, rng)

    async def _finish_writing(self) -> None:
        """Let the writers come to an end; some come to a sudden one, amid a transaction."""
        for name in WRITERS:
            if self._sim.node(name).is_running and self._sim.rng.random() < 0.3:
                self._sim.kill(name)
        await self._wait(DONE_WITHIN_S, self._writing)

    async def _writing(self) -> str:
        return ", ".join(f"{name} still writes" for name in WRITERS if self._is_running(name))

    # Those who look

    async def _prepare(self, ports: Ports) -> None:
        """Ask for the topics until they are there: the broker makes them by itself."""
        link = Link(ports, "founder")
        topics = tuple(MetadataRequestTopic(name=name) for name in TOPICS)
        while True:
            answer = await link.ask(MetadataRequest(topics=topics), METADATA_VERSION)
            counts = [] if answer is None else [len(topic.partitions) for topic in answer.topics]
            if counts == [PARTITION_COUNT] * len(TOPICS):
                return
            await asyncio.sleep(0.05)

    async def _read_committed(self, ports: Ports) -> None:
        rng = self._sim.stream(COMMITTED_READER)
        await CommittedConsumer(ports, COMMITTED_READER, self.journal, rng).work(DATA)

    async def _read_uncommitted(self, ports: Ports) -> None:
        rng = self._sim.stream(UNCOMMITTED_READER)
        await UncommittedConsumer(ports, UNCOMMITTED_READER, self._appended, rng).work(DATA)

    async def _watch_offsets(self, ports: Ports) -> None:
        """Look at the offsets all the time: what is wrong may be so for a moment only."""
        rng = self._sim.stream(WATCHER)
        offsets = self._offsets(ports, WATCHER)
        while True:
            await asyncio.sleep(rng.uniform(0.01, 0.15))
            await offsets.peek(rng.choice(SOURCES), require_stable=rng.random() < 0.5)

    # The end

    async def _look_again(self, ports: Ports) -> None:
        """Everything is copied, nothing hangs, and the copies agree with the offsets."""
        rng = self._sim.stream(LAST)
        committed = LastReader(ports, LAST, self.journal, rng)
        uncommitted = UncommittedConsumer(ports, LAST, self._appended, rng)
        offsets = self._offsets(ports, LAST)
        await self._wait(STABLE_WITHIN_S, lambda: _hanging(WRITTEN, committed, uncommitted))
        await committed.drain(WRITTEN)
        if self._copies_all:
            await self._wait(COPIED_WITHIN_S, lambda: _uncopied(committed, offsets))
        self._stop_copying()
        everywhere = (*DATA, *OFFSETS)
        await self._wait(STABLE_WITHIN_S, lambda: _hanging(everywhere, committed, uncommitted))
        await committed.drain(TARGETS)
        await uncommitted.drain(DATA)
        self._ledger.judge_copies(
            {spot: committed.of(spot) for spot in SOURCES},
            [str(polled.value) for spot in TARGETS for polled in committed.of(spot)],
            {spot: await offsets.stable(spot) for spot in SOURCES},
        )
        self._ledger.close()

    async def _wait(self, limit_s: float, look: Callable[[], Awaitable[str]]) -> None:
        """Look until nothing is missing any more, which must be soon."""
        missing = "nobody has looked"
        try:
            async with asyncio.timeout(limit_s):
                while True:
                    missing = await look()
                    if not missing:
                        return
                    await asyncio.sleep(0.1)
        except TimeoutError:
            self.journal.violate(f"after {limit_s} s: {missing}")

    def _stop_copying(self) -> None:
        self._keeping.cancel()
        for node in (*COPIERS, DOUBLE, WATCHER):
            if self._sim.node(node).is_running:
                self._sim.kill(node)


async def _hanging(
    spots: Sequence[Spot], committed: CommittedConsumer, uncommitted: UncommittedConsumer
) -> str:
    """Where a transaction holds up consumers; empty if nowhere."""
    found = []
    for spot in spots:
        end_offset, stable_offset = await uncommitted.end_of(spot), await committed.end_of(spot)
        if end_offset is None or end_offset != stable_offset:
            found.append(f"{spot} hangs at {stable_offset} of {end_offset}")
    return ", ".join(found)


async def _uncopied(committed: LastReader, offsets: Offsets) -> str:
    """What is still to be copied; empty if nothing."""
    found = []
    for spot in SOURCES:
        last_offset = max((polled.offset for polled in committed.of(spot)), default=-1)
        offset = await offsets.peek(spot, require_stable=True)
        if last_offset >= 0 and (offset is None or offset <= last_offset):
            found.append(f"{spot} is copied up to {offset}, and {last_offset} was committed")
    return ", ".join(found)
