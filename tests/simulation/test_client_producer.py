"""Our producer beside a real broker that crashes, restarts and loses its network.

Whatever happens in between: what was acknowledged is there, at the offset that was told; nothing is
there twice; and what one producer sent to a partition is there in the order in which it sent it.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from ottla.client.faces import SameLoop
from ottla.client.producer.asynchronous import AsyncProducer
from ottla.client.producer.config import ProducerConfig
from ottla.client.producer.core import Core
from ottla.client.results import RecordMetadata
from ottla.client.targets import CONTROLLER, LeaderOf
from ottla.errors import DeliveryError
from ottla.model import TopicPartition
from ottla.ports import Ports
from ottla.records.batch import batches
from ottla.testing.simulation import Simulation, seeds
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.simulation.broker_clients import BROKER, PORT
from tests.simulation.broker_host import BrokerHost
from tests.simulation.journal import Journal
from tests.simulation.trouble import CLIENT, trouble

TOPIC = "orders"
PARTITIONS = 2
TROUBLE_MS = 5_000
LIMIT_MS = 600_000
READABLE = 12
"""A version of Fetch that names topics."""


@dataclass
class Ledger:
    """What was sent, and what was told of it."""

    sent: dict[int, list[bytes]] = field(default_factory=dict)
    told: dict[tuple[int, int], bytes] = field(default_factory=dict)
    failed: set[bytes] = field(default_factory=set)
    found: dict[int, list[tuple[int, bytes]]] = field(default_factory=dict)


class SimulatedProducer(AsyncProducer[Any, Any]):
    """A producer in the loop of the simulation."""

    def __init__(self, ports: Ports, **options: Any) -> None:
        self._ports = ports
        super().__init__(f"{BROKER}:{PORT}", **options)

    def _made(self, config: ProducerConfig) -> Core:
        return Core(config, ports=self._ports, host=SameLoop)


async def create_topic(producer: AsyncProducer[Any, Any]) -> None:
    topic = CreatableTopic(
        name=TOPIC, num_partitions=PARTITIONS, replication_factor=1, assignments=(), configs=()
    )
    request = CreateTopicsRequest(topics=(topic,), timeout_ms=1000)
    answer = await producer._core.engine.call(request, CreateTopicsResponse, to=CONTROLLER)
    assert [told.error_code for told in answer.topics] in ([0], [36])


async def send_all(
    producer: AsyncProducer[Any, Any], sim: Simulation, ledger: Ledger, until_ms: float
) -> None:
    rng = sim.stream("sending")
    waiting: list[tuple[bytes, asyncio.Future[RecordMetadata]]] = []
    number = 0
    while sim.loop.time() * 1000 < until_ms:
        for _ in range(rng.randrange(1, 20)):
            number += 1
            value, partition = b"%d" % number, rng.randrange(PARTITIONS)
            ledger.sent.setdefault(partition, []).append(value)
            waiting.append((value, await producer.enqueue(TOPIC, value, partition=partition)))
        await asyncio.sleep(rng.uniform(0, 0.05))
    for value, future in waiting:
        try:
            metadata = await future
        except DeliveryError:
            ledger.failed.add(value)
        else:
            ledger.told[metadata.partition, metadata.offset] = value


async def read_all(producer: AsyncProducer[Any, Any], partition: int) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    tp = TopicPartition(TOPIC, partition)
    while True:
        at = found[-1][0] + 1 if found else 0
        wanted = FetchPartition(partition=partition, fetch_offset=at, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1 << 20,
            session_epoch=-1,
            topics=(FetchTopic(topic=TOPIC, partitions=(wanted,)),),
        )
        answer = await producer._core.engine.call(
            request, FetchResponse, to=LeaderOf(tp), max_version=READABLE
        )
        (data,) = answer.responses[0].partitions
        assert data.error_code == 0
        before = len(found)
        for batch in batches(data.records or b"", partial_tail=True):
            found += [(r[0], r[3] or b"") for r in batch.records() if r[0] >= at]
        if len(found) == before:
            return found


def run(seed: int, **options: Any) -> Ledger:
    ledger = Ledger()

    async def client(ports: Ports) -> None:
        settings = {"request_timeout_ms": 500, "batch_size": 300, "linger_ms": 2, **options}
        async with SimulatedProducer(ports, **settings) as producer:
            await create_topic(producer)
            await send_all(producer, sim, ledger, TROUBLE_MS)
            for partition in range(PARTITIONS):
                ledger.found[partition] = await read_all(producer, partition)

    with Simulation(seed) as sim:
        host = BrokerHost(sim, Journal())
        sim.loop.create_task(host.keep_running())
        sim.loop.create_task(trouble(sim, host, TROUBLE_MS, pause_s=(0.1, 0.8)))
        task = sim.spawn(CLIENT, client)

        async def end() -> None:
            await asyncio.wait([task])

        sim.run(end(), limit_ms=LIMIT_MS)
        task.result()
    return ledger


@pytest.mark.parametrize("seed", seeds(12))
def test_nothing_is_lost_doubled_or_reordered(seed: int) -> None:
    ledger = run(seed)
    assert len(ledger.told) > 100, "it proves nothing"
    assert not ledger.failed, "there was time enough"
    for partition, found in ledger.found.items():
        assert [value for _, value in found] == ledger.sent[partition]
        for offset, value in found:
            assert ledger.told.get((partition, offset), value) == value


@pytest.mark.parametrize("seed", seeds(6))
def test_what_was_given_up_is_there_once_or_never(seed: int) -> None:
    ledger = run(seed, delivery_timeout_ms=700)
    assert ledger.told
    for partition, found in ledger.found.items():
        there = [value for _, value in found]
        assert len(set(there)) == len(there), "nothing is there twice"
        expected = [v for v in ledger.sent[partition] if v not in ledger.failed]
        assert [v for v in there if v not in ledger.failed] == expected
        for offset, value in found:
            assert ledger.told.get((partition, offset), value) == value


def test_without_numbers_the_same_trouble_doubles_records() -> None:
    """The checks above are worth something: a producer that is not idempotent fails them."""
    doubled = 0
    for seed in range(6):
        ledger = run(seed, enable_idempotence=False)
        for found in ledger.found.values():
            there = [value for _, value in found]
            doubled += len(there) - len(set(there))
    assert doubled > 0
