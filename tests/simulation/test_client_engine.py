"""The clients' engine beside a real broker that crashes, restarts and loses its network.

Whatever happens in between: an answer belongs to its question, a call ends by its deadline, and
when the trouble is over everything works again, with one connection a lane.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from ottla.client.config import ClientConfig
from ottla.client.engine import Engine
from ottla.client.targets import ANY, CONTROLLER, LeaderOf, Target, group
from ottla.errors import ConflictError, DeadlineError, ErrorCode, exception_for
from ottla.model import TopicPartition
from ottla.ports import Ports
from ottla.testing.simulation import Simulation, seeds
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tests.simulation.broker_clients import BROKER, PORT
from tests.simulation.broker_host import BrokerHost
from tests.simulation.journal import Journal
from tests.simulation.trouble import CLIENT, trouble

CALM_MS = 60_000
TROUBLE_MS = 6_000
TOPICS = ("orders", "bills", "notes")
TIMEOUT_MS = 2_500
SLACK_MS = 2
"""Two roundings to milliseconds."""


class Worker:
    """Asks all kinds of things, and checks that what it hears is an answer to that."""

    def __init__(self, engine: Engine, rng: random.Random) -> None:
        self._engine = engine
        self._rng = rng
        self.done_count = 0
        self.late_count = 0

    def now_ms(self) -> int:
        return self._engine.now_ms()

    async def work(self, until_ms: int) -> None:
        while self._engine.now_ms() < until_ms:
            began_ms = self._engine.now_ms()
            try:
                await self.ask(self._rng.randrange(3))
                self.done_count += 1
            except DeadlineError:
                self.late_count += 1
            assert self._engine.now_ms() - began_ms <= TIMEOUT_MS + SLACK_MS
            await asyncio.sleep(self._rng.uniform(0, 0.1))

    async def ask(self, kind: int) -> None:
        match kind:
            case 0:
                await self.create(self._rng.choice(TOPICS))
            case 1:
                await self.find(f"group-{self._rng.randrange(100)}")
            case _:
                await self.offsets(self._rng.choice(TOPICS))

    async def create(self, name: str) -> None:
        topic = CreatableTopic(
            name=name, num_partitions=2, replication_factor=1, assignments=(), configs=()
        )
        answer = await self._engine.call(
            CreateTopicsRequest(topics=(topic,), timeout_ms=1000),
            CreateTopicsResponse,
            to=CONTROLLER,
            timeout_ms=TIMEOUT_MS,
        )
        (created,) = answer.topics
        assert created.name == name
        if created.error_code != ErrorCode.NONE:
            assert isinstance(exception_for(created.error_code), ConflictError)

    async def find(self, key: str) -> None:
        to: Target = ANY if self._rng.random() < 0.5 else group("my group")
        answer = await self._engine.call(
            FindCoordinatorRequest(key_type=0, coordinator_keys=(key,)),
            FindCoordinatorResponse,
            to=to,
            failure=lambda answer: answer.coordinators[0].error_code,
            min_version=4,
            timeout_ms=TIMEOUT_MS,
        )
        assert answer.coordinators[0].key == key

    async def offsets(self, name: str) -> None:
        partition = ListOffsetsPartition(partition_index=1, timestamp=-1)
        to: Target = LeaderOf(TopicPartition(name, 1))
        self._engine.metadata.want([name], self._engine.now_ms())
        self._engine.wake_metadata()
        answer = await self._engine.call(
            ListOffsetsRequest(
                replica_id=-1, topics=(ListOffsetsTopic(name=name, partitions=(partition,)),)
            ),
            ListOffsetsResponse,
            to=to,
            failure=lambda answer: answer.topics[0].partitions[0].error_code,
            timeout_ms=TIMEOUT_MS,
        )
        assert answer.topics[0].name == name


async def recovered(worker: Worker, deadline_ms: int) -> None:
    """Everything works again, by then."""
    for name in TOPICS:
        await persist(partial(worker.create, name), worker, deadline_ms)
    await persist(partial(worker.find, "group-1"), worker, deadline_ms)
    for name in TOPICS:
        await persist(partial(worker.offsets, name), worker, deadline_ms)


async def persist(ask: Callable[[], Awaitable[None]], worker: Worker, deadline_ms: int) -> None:
    while True:
        try:
            await ask()
        except DeadlineError:
            if worker.now_ms() >= deadline_ms:
                raise
        else:
            return


@pytest.mark.parametrize("seed", seeds(12))
def test_an_engine_gets_through_all_the_trouble_its_broker_has(seed: int) -> None:
    outcome: list[Worker] = []

    async def client(ports: Ports) -> None:
        config = ClientConfig.of(
            f"{BROKER}:{PORT}",
            request_timeout_ms=1000,
            max_in_flight_requests_per_connection=2,
        )
        engine = Engine(config, ports)
        await engine.start()
        workers = [Worker(engine, random.Random(f"{seed} {n}")) for n in range(4)]
        await asyncio.gather(*(worker.work(TROUBLE_MS) for worker in workers))
        outcome.extend(workers)
        await recovered(Worker(engine, random.Random(seed)), engine.now_ms() + CALM_MS)
        assert engine.metrics.snapshot()["connection-count"] <= 2
        await engine.close(timeout_ms=1000)

    with Simulation(seed) as sim:
        host = BrokerHost(sim, Journal())
        sim.loop.create_task(host.keep_running())
        sim.loop.create_task(trouble(sim, host, TROUBLE_MS, pause_s=(0.3, 1.5), crashes=True))
        task = sim.spawn(CLIENT, client)

        async def end() -> None:
            await asyncio.wait([task])

        sim.run(end(), limit_ms=10 * CALM_MS)
    assert sum(worker.done_count for worker in outcome) > 0, "it proves nothing"
