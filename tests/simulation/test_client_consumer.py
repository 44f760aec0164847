"""Our consumers beside a real broker that crashes, restarts and loses its network.

Whatever happens in between: every record is processed, also those whose processing raised; between
two changes of hands nothing is skipped; and nothing is committed that was not processed.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest

from ottla.client.consumer.asynchronous import AsyncConsumer
from ottla.client.consumer.plugs import RebalanceListener
from ottla.client.records import OffsetAndMetadata, Record
from ottla.errors import OttlaError
from ottla.model import TopicPartition
from ottla.ports import Ports
from ottla.testing.simulation import Simulation, seeds
from tests.simulation.broker_clients import BROKER, PORT
from tests.simulation.broker_host import BrokerHost
from tests.simulation.journal import Journal
from tests.simulation.test_client_producer import SimulatedProducer, create_topic
from tests.simulation.trouble import trouble

TOPIC = "orders"
PARTITIONS = 2
RECORDS = 150
GROUP = "kitchen"
MEMBERS = ("ada", "bob")
TROUBLE_MS = 6_000
LIMIT_MS = 900_000


class UnluckyError(Exception):
    """What processing raises now and then."""


@dataclass
class Ledger:
    """What was written, and what became of it."""

    written: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """Partition -> how many records."""
    processed: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    committed: dict[TopicPartition, OffsetAndMetadata | None] = field(default_factory=dict)
    unlucky_count: int = 0
    skipped: list[str] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        return sum(map(len, self.processed.values())) == RECORDS


class SimulatedConsumer(AsyncConsumer[Any, Any]):
    """A consumer in the loop of the simulation."""

    def __init__(self, ports: Ports, *topics: str, **options: Any) -> None:
        self._ports = ports
        super().__init__(*topics, bootstrap_servers=f"{BROKER}:{PORT}", **options)


class Tenure(RebalanceListener):
    """Watches that offsets follow each other while a partition is in one hand."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._next: dict[TopicPartition, int] = {}

    def on_assigned(self, consumer: Any, partitions: Collection[TopicPartition]) -> None:
        for tp in partitions:
            self._next.pop(tp, None)

    def saw(self, record: "Record[Any, Any]") -> None:
        expected = self._next.get(record.tp, record.offset)
        if record.offset != expected:
            self._ledger.skipped.append(f"{record.tp}: {record.offset} after {expected - 1}")
        self._next[record.tp] = record.next_offset


async def write(ports: Ports, ledger: Ledger) -> None:
    async with SimulatedProducer(ports, request_timeout_ms=500, linger_ms=1) as producer:
        await create_topic(producer)
        for number in range(RECORDS):
            told = await producer.send(TOPIC, b"%d" % number, partition=number % PARTITIONS)
            ledger.written[told.partition] += 1


async def read(ports: Ports, sim: Simulation, name: str, ledger: Ledger, **options: Any) -> None:
    """One life of a member: until everything is processed, or its processing raises."""
    rng = sim.stream(f"reading of {name}")
    tenure = Tenure(ledger)
    async with SimulatedConsumer(
        ports, TOPIC, group_id=GROUP, listener=tenure, auto_offset_reset="earliest", **options
    ) as consumer:
        async for batch in consumer.batches(0.1, max_records=rng.randrange(1, 9), idle=True):
            for record in batch:
                await asyncio.sleep(rng.uniform(0, 0.02))
                if sim.loop.time() * 1000 < TROUBLE_MS and rng.random() < 0.02:
                    ledger.unlucky_count += 1
                    raise UnluckyError
                tenure.saw(record)
                ledger.processed[record.partition].add(record.offset)
            if ledger.is_done:
                return


async def read_for_ever(
    ports: Ports, sim: Simulation, name: str, ledger: Ledger, **options: Any
) -> None:
    while not ledger.is_done:
        try:
            await read(ports, sim, name, ledger, **options)
        except (UnluckyError, OttlaError):
            await asyncio.sleep(0.05)


def run(seed: int, **options: Any) -> Ledger:
    ledger = Ledger()
    settings: dict[str, Any] = {
        "request_timeout_ms": 500,
        "session_timeout_ms": 6_000,
        "heartbeat_interval_ms": 200,
        "auto_commit_interval_ms": 100,
        "fetch_max_wait_ms": 100,
        **options,
    }
    broker_settings = {
        "group.initial.rebalance.delay.ms": 0,
        "group.consumer.min.heartbeat.interval.ms": 200,
        "group.consumer.heartbeat.interval.ms": 200,
        "group.consumer.min.session.timeout.ms": 2_000,
        "group.consumer.session.timeout.ms": 2_000,
    }
    with Simulation(seed) as sim:
        host = BrokerHost(sim, Journal(), settings=broker_settings)
        sim.loop.create_task(host.keep_running())
        sim.loop.create_task(trouble(sim, host, TROUBLE_MS, pause_s=(0.2, 1.2), clients=MEMBERS))
        tasks = [sim.spawn("writer", lambda ports: write(ports, ledger))]

        def member(name: str) -> Callable[[Ports], Coroutine[Any, Any, None]]:
            return lambda ports: read_for_ever(ports, sim, name, ledger, **settings)

        tasks += [sim.spawn(name, member(name)) for name in MEMBERS]

        async def look(ports: Ports) -> None:
            await asyncio.wait(tasks)
            async with SimulatedConsumer(ports, group_id=GROUP) as consumer:
                tps = [TopicPartition(TOPIC, p) for p in range(PARTITIONS)]
                ledger.committed = await consumer.committed(tps)

        last = sim.spawn("looker", look)

        async def end() -> None:
            await asyncio.wait([*tasks, last])
            for task in (*tasks, last):
                task.result()

        sim.run(end(), limit_ms=LIMIT_MS)
    return ledger


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"assignors": ["range"]}, id="eager"),
        pytest.param({"assignors": ["cooperative-sticky"]}, id="cooperative"),
        pytest.param({"group_protocol": "consumer"}, id="consumer"),
    ],
)
@pytest.mark.parametrize("seed", seeds(4))
def test_every_record_is_processed_whatever_happens(seed: int, options: dict[str, Any]) -> None:
    ledger = run(seed, **options)
    assert ledger.unlucky_count > 0, "it proves nothing"
    assert ledger.skipped == []
    for partition in range(PARTITIONS):
        count = ledger.written[partition]
        assert ledger.processed[partition] == set(range(count))
        committed = ledger.committed[TopicPartition(TOPIC, partition)]
        assert committed is not None
        assert committed.offset <= count
