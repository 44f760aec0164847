"""A consumer group in simulation: members, producers, faults of both sides, and the judgment.

    with Simulation(seed) as sim:
        assert GroupWorkload(sim).play() == []

After the faults everything is repaired, and the broker loses its power once more.  Then the group
has to prove that it lives: in bounded time it is stable with all of its members, and has read and
committed everything that was acknowledged, each record by somebody.
"""

import asyncio
import random
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from ottla.broker.flusher import Flusher
from ottla.errors import ErrorCode
from ottla.ports import Ports
from ottla.testing.simulation import Simulation
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.simulation import group_requests as requests
from tests.simulation.broker_clients import Consumer, Link, Producer, Spot
from tests.simulation.broker_host import BrokerHost, Serve
from tests.simulation.group_ledger import GroupLedger
from tests.simulation.group_member import CALM_PATIENCE_S, METADATA_VERSION, Manner, Member, Weather
from tests.simulation.group_nemesis import MemberNemesis
from tests.simulation.group_sharing import COOPERATIVE, EAGER, decode_share
from tests.simulation.journal import Journal
from tests.simulation.nemesis import LOSING_FAULTS, Fault, Nemesis

GROUP: Final = "kitchen"
TOPIC: Final = "orders"
PARTITION_COUNT: Final = 3
SPOTS: Final = tuple(Spot(TOPIC, index) for index in range(PARTITION_COUNT))
PRODUCERS: Final = ("ada", "bob")
DYNAMIC: Final = ("kim", "lou")
STATIC: Final = ("max", "ned")
DOUBLE: Final = "double"
STATIC_TO_DOUBLE: Final = "max"
EYE: Final = "eye"
WATCHER: Final = "watcher"
SESSION_TIMEOUTS_MS: Final = (900, 1300)
REBALANCE_TIMEOUTS_MS: Final = (800, 1500)
REST_WITHIN_S: Final = 15.0
SYNC_DELAYS_MS: Final = ((0.5, 10.0), (10.0, 60.0), (30.0, 90.0))
RUN_LIMIT_MS: Final = 300_000
DESCRIBE_VERSION: Final = 4

SETTINGS: Final = {
    "auto.create.topics.enable": True,
    "num.partitions": PARTITION_COUNT,
    "offsets.topic.num.partitions": 2,
    "group.min.session.timeout.ms": 100,
    "log.cleaner.min.cleanable.ratio": 0.1,
}
PROTOCOLS: Final = (
    ((EAGER,), (EAGER,)),
    ((COOPERATIVE,), (COOPERATIVE,)),
    ((EAGER, COOPERATIVE), (EAGER,)),
)
"""Of dynamic and of static members; the last one is a group on its way from one to the other.  A
restarted coordinator knows of each member only the protocol that was chosen, as in Kafka: so the
one that all of them speak has to be the favorite of all."""


@dataclass(slots=True)
class _Slot:
    """A member that is to be there: which node runs it, in which of its lives."""

    node: str
    instance_id: str | None
    manner: Manner


class GroupWorkload:
    """One run.

    Args:
        sim: Where it takes place.
        loses_power: Whether power and syncs may fail, or only processes and the network.
        flusher: Takes the place of the broker's own, to prove that the judge sees it.
        serve: Puts something between the sessions and the handlers, for the same reason.
        sync_delays_ms: How slow the disk may be; one of these.
    """

    def __init__(
        self,
        sim: Simulation,
        *,
        flush: str = "commit",
        loses_power: bool = True,
        flusher: type[Flusher] = Flusher,
        serve: Serve | None = None,
        sync_delays_ms: Sequence[tuple[float, float]] = SYNC_DELAYS_MS,
    ) -> None:
        self.journal = Journal()
        self._sim = sim
        self._loses_power = loses_power
        self._host = BrokerHost(
            sim, self.journal, flush=flush, flusher=flusher, serve=serve, settings=SETTINGS
        )
        self._host.disk.sync_delay_ms = sim.rng.choice(sync_delays_ms)
        self._ledger = GroupLedger(self.journal, self._coordinator)
        self._weather = Weather()
        self._doubt_count = 0
        self._life_count = 0
        self._is_over = False
        self._slots = self._drawn_slots()
        nodes = [slot.node for slot in self._slots]
        self._nemesis = Nemesis(
            sim,
            self._host,
            self.journal,
            clients=[*PRODUCERS, *nodes, DOUBLE],
            faults=frozenset(Fault) - (frozenset() if loses_power else LOSING_FAULTS),
            pause_s=(0.05, 0.9),
        )
        self._member_nemesis = MemberNemesis(
            sim, self.journal, self._weather, nodes=nodes, start_double=self._start_double
        )

    def play(self) -> list[str]:
        """Run it all; return everything that was wrong."""
        self._sim.run(self._story(), limit_ms=RUN_LIMIT_MS)
        self._ledger.judge_generations()
        has_lost_page_cache = any(self.journal.done[f"fault {f.value}"] for f in LOSING_FAULTS)
        return self.journal.verdict(
            start_offsets={}, keeps_weak_sends=not has_lost_page_cache, last_process=""
        )

    def _drawn_slots(self) -> list[_Slot]:
        rng = self._sim.rng
        of_dynamic, of_static = rng.choice(PROTOCOLS)
        common = partial(
            Manner,
            group_id=GROUP,
            spots=SPOTS,
            session_timeout_ms=rng.choice(SESSION_TIMEOUTS_MS),
            rebalance_timeout_ms=rng.choice(REBALANCE_TIMEOUTS_MS),
        )
        statics = STATIC[: rng.randint(0, len(STATIC))]
        return [
            *(_Slot(name, None, common(protocols=of_dynamic)) for name in DYNAMIC),
            *(_Slot(name, f"static-{name}", common(protocols=of_static)) for name in statics),
        ]

    def _coordinator(self) -> Hashable:
        """A full disk breaks coordinators: they may be replaced at any time from then on."""
        if self.journal.done[f"fault {Fault.FULL_DISK.value}"]:
            self._doubt_count += 1
        return (self._host.life, self._doubt_count)

    async def _story(self) -> None:
        keeping = [
            asyncio.create_task(self._host.keep_running()),
            asyncio.create_task(self._keep_members_running()),
        ]
        await self._sim.spawn("founder", self._prepare)
        producing = [self._start_producer(name) for name in PRODUCERS]
        self._sim.spawn(WATCHER, self._watch)
        await asyncio.gather(self._nemesis.work(), self._member_nemesis.work())
        self._is_over = True
        await asyncio.gather(*producing)
        self._nemesis.strike_last(Fault.POWER if self._loses_power else Fault.KILL)
        self._weather.is_calm = True
        self._weather.naps_s.clear()
        await self._sim.spawn(EYE, self._see_it_live)
        self._sim.kill(WATCHER)
        for task in keeping:
            task.cancel()

    # The clients

    async def _prepare(self, ports: Ports) -> None:
        """Ask for the topic until it is there: the broker makes it by itself."""
        link = Link(ports, "founder")
        request = MetadataRequest(topics=(MetadataRequestTopic(name=TOPIC),))
        while True:
            answer = await link.ask(request, METADATA_VERSION)
            if answer is not None and len(answer.topics[0].partitions) == PARTITION_COUNT:
                return
            await asyncio.sleep(0.05)

    def _start_producer(self, name: str) -> "asyncio.Task[None]":
        async def work(ports: Ports) -> None:
            producer = Producer(ports, name, self.journal, self._sim.stream(name))
            await producer.work(SPOTS, is_over=lambda: self._is_over)

        return self._sim.spawn(name, work)

    async def _keep_members_running(self) -> None:
        """Start every member again that ended, as an init system does."""
        rng = self._sim.stream("members")
        while True:
            for slot in self._slots:
                if not self._is_running(slot):
                    self._start_member(slot.node, slot)
            await asyncio.sleep(rng.uniform(0.05, 0.4))

    def _is_running(self, slot: _Slot) -> bool:
        nodes = [slot.node, DOUBLE] if slot.node == STATIC_TO_DOUBLE else [slot.node]
        return any(self._sim.node(node).is_running for node in nodes)

    def _start_member(self, node: str, slot: _Slot) -> None:
        self._life_count += 1
        label = f"{node}.{self._life_count}"

        async def work(ports: Ports) -> None:
            member = Member(
                ports,
                label,
                slot.manner,
                instance_id=slot.instance_id,
                ledger=self._ledger,
                journal=self.journal,
                weather=self._weather,
                rng=self._sim.stream(label),
            )
            await member.work()

        self._sim.spawn(node, work)

    def _start_double(self) -> None:
        """Another process of a static member: only one of them can stay."""
        for slot in self._slots:
            if slot.node == STATIC_TO_DOUBLE and not self._sim.node(DOUBLE).is_running:
                self._start_member(DOUBLE, slot)

    async def _watch(self, ports: Ports) -> None:
        """Look at the offsets all the time: what is wrong may be so for a moment only."""
        rng = self._sim.stream(WATCHER)
        eye = Eye(ports, WATCHER, self.journal, self._ledger, rng)
        while True:
            await asyncio.sleep(rng.uniform(0.01, 0.15))
            await eye.offsets()

    async def _see_it_live(self, ports: Ports) -> None:
        """The group comes to rest in bounded time; and again, after whoever slept has woken up."""
        eye = Eye(ports, EYE, self.journal, self._ledger, self._sim.stream(EYE))
        for _ in range(2):
            await self._see_it_rest(eye)
            await asyncio.sleep(CALM_PATIENCE_S)

    async def _see_it_rest(self, eye: "Eye") -> None:
        unrest = "nobody has looked"
        try:
            async with asyncio.timeout(REST_WITHIN_S):
                while unrest:
                    await asyncio.sleep(0.1)
                    unrest = await eye.unrest(len(self._slots))
        except TimeoutError:
            self.journal.violate(f"no rest within {REST_WITHIN_S} s: {unrest}")


class Eye:
    """Looks at a group from outside."""

    def __init__(
        self, ports: Ports, name: str, journal: Journal, ledger: GroupLedger, rng: random.Random
    ) -> None:
        self._link = Link(ports, name)
        self._consumer = Consumer(ports, name, journal, rng)
        self._ledger = ledger
        self._rng = rng

    async def offsets(self) -> dict[Spot, int] | None:
        """How far the group came, as the ledger is told too; None if there is no answer."""
        asked_at = self._ledger.now()
        answer = await self._link.ask(*requests.fetch_offsets(GROUP, SPOTS, self._rng))
        if answer is None:
            return None
        code, found = requests.offsets_of(answer)
        if code is not ErrorCode.NONE:
            return None
        for spot, (offset, note) in found.items():
            self._ledger.hear_of_offset(spot, offset, note, asked_at=asked_at)
        return {spot: offset for spot, (offset, _) in found.items()}

    async def unrest(self, member_count: int) -> str:
        """What is still missing; empty once everybody is there and everything is read."""
        answer = await self._link.ask(DescribeGroupsRequest(groups=(GROUP,)), DESCRIBE_VERSION)
        if answer is None or answer.groups[0].error_code:
            return f"no description: {answer}"
        (group,) = answer.groups
        if group.group_state != "Stable" or len(group.members) != member_count:
            return f"{group.group_state} with {len(group.members)} members"
        shares = [spot for each in group.members for spot in decode_share(each.member_assignment)]
        if sorted(shares) != list(SPOTS):
            return f"shared out is {shares}"
        return await self._unread()

    async def _unread(self) -> str:
        if (offsets := await self.offsets()) is None:
            return "no offsets"
        ends = {spot: await self._consumer.end_of(spot) for spot in SPOTS}
        behind = [
            f"{spot} at {offsets[spot]} of {end}"
            for spot, end in ends.items()
            if end is None or max(offsets[spot], 0) < end
        ]
        return ", ".join(behind)
