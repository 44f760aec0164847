"""The admin client beside a real broker that crashes, restarts and loses its network.

What a call says is true: a topic that was created is there, one that was deleted is gone, offsets
are those that were written.  That holds after answers were lost, too; only when time ran out is
nothing known, and then the name is not used again.
"""

import asyncio
import dataclasses
import random
from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

from ottla.broker.context import Context
from ottla.broker.dispatch import Route
from ottla.client.admin.calling import Caller
from ottla.client.admin.group_offsets import alter_group_offsets, list_group_offsets
from ottla.client.admin.topics import add_partitions, create_topic, delete_topic, list_topics
from ottla.client.config import ClientConfig
from ottla.client.engine import Engine
from ottla.errors import DeadlineError, RequestError, TopicExistsError
from ottla.model import TopicPartition
from ottla.ports import Ports
from ottla.testing.simulation import Simulation, seeds
from ottla.wire.registry import ApiKey
from tests.simulation.broker_clients import BROKER, PORT
from tests.simulation.broker_host import BrokerHost, Serve
from tests.simulation.journal import Journal
from tests.simulation.trouble import CLIENT, trouble

SEED_COUNT = 6
TROUBLE_MS = 6_000
CALM_MS = 60_000
TIMEOUT_MS = 2_500
LOST_SHARE = 0.1
CHANGES = frozenset({ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS})
SLACK_MS = 2
"""Two roundings to milliseconds."""


class Operator:
    """Works on topics of its own, and believes what it is told."""

    def __init__(self, engine: Engine, name: str, done: Counter[str]) -> None:
        self._engine = engine
        self._name = name
        self._done = done
        self._rng = random.Random(name)
        self._number = 0
        self.present: set[str] = set()
        self.absent: set[str] = set()

    async def work(self, until_ms: int) -> None:
        while self._engine.now_ms() < until_ms:
            began_ms = self._engine.now_ms()
            try:
                await self.live_through(f"{self._name}-{self._number}")
            except DeadlineError:
                self._done["late"] += 1
            else:
                self._done["done"] += 1
            self._number += 1
            # A life is seven calls at most.
            assert self._engine.now_ms() - began_ms <= 7 * (TIMEOUT_MS + SLACK_MS)
            await asyncio.sleep(self._rng.uniform(0, 0.4))

    async def live_through(self, name: str) -> None:
        """One topic, from its birth to its end."""
        await self.create(name)
        assert name in await list_topics(self.caller())
        await self.grow(name)
        await self.commit(name)
        if self._rng.random() < 0.3:
            self.present.add(name)
            return
        caller = self.caller()
        await delete_topic(caller, name)
        self._done["doubtful delete"] += caller.has_doubt
        assert name not in await list_topics(self.caller())
        self.absent.add(name)

    async def create(self, name: str) -> None:
        try:
            info = await create_topic(self.caller(), name, partitions=2)
            assert len(info.partitions) == 2
            return
        except TopicExistsError as error:
            notes = error.__notes__
        # Nobody else uses the name, so it is ours; and the error must say that this may be.
        assert "got no answer" in notes[0]
        self._done["doubtful create"] += 1

    async def grow(self, name: str) -> None:
        try:
            await add_partitions(self.caller(), name, total=3)
            return
        except RequestError as error:
            notes = error.__notes__
        assert "got no answer" in notes[0]
        self._done["doubtful growth"] += 1

    async def commit(self, name: str) -> None:
        offsets = {TopicPartition(name, index): self._rng.randrange(10**9) for index in range(3)}
        await alter_group_offsets(self.caller(), name, offsets)
        found = await list_group_offsets(self.caller(), name)
        assert {tp: place.offset for tp, place in found.items()} == offsets

    def caller(self) -> Caller:
        return Caller(self._engine)


async def final_topics(engine: Engine) -> set[str]:
    deadline_ms = engine.now_ms() + CALM_MS
    while True:
        try:
            return set(await list_topics(Caller(engine)))
        except DeadlineError:
            if engine.now_ms() >= deadline_ms:
                raise


def losing_answers(sim: Simulation) -> Serve:
    """Now and then the connection breaks between the work and its answer."""
    rng = sim.stream("lost answers")

    def serve(plain: Mapping[int, Route]) -> Mapping[int, Route]:
        return {key: lost(route) if key in CHANGES else route for key, route in plain.items()}

    def lost(route: Route) -> Route:
        def handle(request: Any, context: Context) -> Any:
            result = route.handler(request, context)
            if rng.random() < LOST_SHARE:
                sim.network.reset(CLIENT, BROKER)
            return result

        return dataclasses.replace(route, handler=handle)

    return serve


@cache
def played(seed: int) -> Counter[str]:
    """What took place in a run; it fails if a promise was broken."""
    done: Counter[str] = Counter()

    async def client(ports: Ports) -> None:
        config = ClientConfig.of(
            f"{BROKER}:{PORT}", request_timeout_ms=1000, default_api_timeout_ms=TIMEOUT_MS
        )
        engine = Engine(config, ports)
        await engine.start()
        operators = [Operator(engine, f"topic-{seed}-{n}", done) for n in range(2)]
        await asyncio.gather(*(operator.work(TROUBLE_MS) for operator in operators))
        found = await final_topics(engine)
        for operator in operators:
            assert operator.present <= found
            assert not operator.absent & found
            done["kept"] += len(operator.present)
        await engine.close(timeout_ms=1000)

    with Simulation(seed) as sim:
        host = BrokerHost(sim, Journal(), serve=losing_answers(sim))
        sim.loop.create_task(host.keep_running())
        sim.loop.create_task(trouble(sim, host, TROUBLE_MS, pause_s=(0.3, 1.5), crashes=True))
        task = sim.spawn(CLIENT, client)

        async def end() -> None:
            await asyncio.wait([task])

        sim.run(end(), limit_ms=10 * CALM_MS)
    return done


@pytest.mark.parametrize("seed", seeds(SEED_COUNT))
def test_what_an_admin_client_says_is_true_whatever_happens(seed: int) -> None:
    assert played(seed)["done"] > 0, "it proves nothing"


def test_the_runs_of_admin_clients_are_worth_something() -> None:
    done = sum((played(seed) for seed in range(SEED_COUNT)), Counter[str]())
    for what in ("late", "kept", "doubtful create", "doubtful delete", "doubtful growth"):
        assert done[what] > 0, (what, done)
