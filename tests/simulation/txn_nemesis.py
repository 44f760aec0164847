"""What goes wrong with the clients of transactions, and between them and the broker.

Clients die, doze and meet their doubles; syncs stall; requests arrive again when nobody waits for
them any more.  The broker and its disk have a nemesis of their own (`nemesis`).
"""

import asyncio
import enum
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ottla.broker.context import Context
from ottla.broker.dispatch import Route
from ottla.broker.transactional_produce import keep
from ottla.testing.disk import SimDisk
from ottla.testing.simulation import Simulation
from ottla.wire.messages.produce import ProduceRequest
from ottla.wire.registry import ApiKey
from tests.simulation.broker_clients import BROKER
from tests.simulation.group_member import Weather
from tests.simulation.journal import Journal
from tests.simulation.nemesis import LOSING_FAULTS, Fault
from tests.simulation.txn_requests import COMMIT_OFFSETS_VERSIONS, END_VERSIONS, PRODUCE_VERSIONS

FAULT_COUNTS: Final = (4, 9)
SYNC_DELAYS_MS: Final = ((0.2, 4.0), (2.0, 20.0), (10.0, 30.0))
NAPS_S: Final = (0.3, 2.6)
"""Within the timeout of a transaction, and beyond it."""
STALLED_SYNC_MS: Final = (500.0, 1_500.0)
"""Beyond the patience of clients."""
ECHO_DELAYS_S: Final = (0.04, 0.6)
"""How late an echo may be, at most: one of these."""

SAFE_ECHOES: Final[Mapping[ApiKey, range]] = {
    ApiKey.PRODUCE: range(PRODUCE_VERSIONS[1].start, PRODUCE_VERSIONS[2].stop),
    ApiKey.END_TXN: END_VERSIONS[2],
    ApiKey.TXN_OFFSET_COMMIT: COMMIT_OFFSETS_VERSIONS[2],
}
"""Which requests may arrive twice, in which versions.  Of version 1 only batches, which have
sequence numbers; everything else may be taken for a part of the next transaction (KAFKA-17754)."""

EVERY_END: Final[Mapping[ApiKey, range]] = {
    ApiKey.END_TXN: range(END_VERSIONS[1].start, END_VERSIONS[2].stop)
}


class ClientFault(enum.Enum):
    KILL = "client killed"
    POWER = "client lost power"
    NAP = "client naps"
    DOUBLE = "client started twice"
    STALL = "syncs stall"
    RACK = "broker and clients lost power"


LOSING_CLIENT_FAULTS: Final = frozenset({ClientFault.RACK})
"""After these, what the broker has not synced may be gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What may go wrong in a run; each run draws some of it."""

    faults: frozenset[Fault] = frozenset(Fault)
    client_faults: frozenset[ClientFault] = frozenset(ClientFault)
    client_pause_s: tuple[float, float] = (0.1, 0.6)
    """Between two of the latter."""
    echoed: Mapping[ApiKey, range] = field(default_factory=lambda: SAFE_ECHOES)
    """Which requests may arrive late, or twice, in which versions."""
    echo_chance: float = 0.15
    sync_delays_ms: tuple[tuple[float, float], ...] = SYNC_DELAYS_MS
    """How slow the disk may be: one of these."""
    max_rest_s: float = 0.1
    """How long clients rest between two transactions."""

    def without_losses(self) -> "Trouble":
        """The same, where neither power nor syncs fail."""
        return replace(
            self,
            faults=self.faults - LOSING_FAULTS,
            client_faults=self.client_faults - LOSING_CLIENT_FAULTS,
        )


class ClientNemesis:
    """Troubles clients for a while; `start_double` starts another process of one of them."""

    def __init__(
        self,
        sim: Simulation,
        disk: SimDisk,
        journal: Journal,
        weather: Weather,
        *,
        nodes: list[str],
        trouble: Trouble,
        start_double: Callable[[str], None],
    ) -> None:
        self._sim = sim
        self._disk = disk
        self._sync_delay_ms = disk.sync_delay_ms
        self._journal = journal
        self._weather = weather
        self._nodes = nodes
        self._start_double = start_double
        self._rng = sim.stream("client nemesis")
        self._pause_s = trouble.client_pause_s
        allowed = [fault for fault in ClientFault if fault in trouble.client_faults]
        least = 0 if len(allowed) > 1 else len(allowed)  # who asks for one gets it
        self._kinds = self._rng.sample(allowed, self._rng.randint(least, len(allowed)))

    async def work(self) -> None:
        """Let one fault follow the other."""
        for _ in range(self._rng.randint(*FAULT_COUNTS)):
            await asyncio.sleep(self._rng.uniform(*self._pause_s))
            self._disk.sync_delay_ms = self._sync_delay_ms
            if self._kinds:
                self._act(self._rng.choice(self._kinds), self._rng.choice(self._nodes))
        self._disk.sync_delay_ms = self._sync_delay_ms

    def _act(self, fault: ClientFault, node: str) -> None:
        if not self._sim.node(node).is_running:
            return
        self._sim.note(f"fault {fault.value} {node}")
        self._journal.done[f"fault {fault.value}"] += 1
        match fault:
            case ClientFault.KILL:
                self._sim.kill(node)
            case ClientFault.POWER:
                self._sim.crash(node)
            case ClientFault.NAP:
                self._weather.naps_s[node] = self._rng.choice(NAPS_S)
            case ClientFault.DOUBLE:
                self._weather.naps_s[node] = self._rng.choice(NAPS_S)
                self._start_double(node)
            case ClientFault.STALL:
                self._disk.sync_delay_ms = STALLED_SYNC_MS
            case ClientFault.RACK:
                for each in (*self._nodes, BROKER):
                    if self._sim.node(each).is_running:
                        self._sim.crash(each)


class Echo:
    """Hands some requests to the broker late, as a network with detours would.

    Some have been there before, and their senders have an answer.  Of others the first copy is the
    late one: the connection breaks, and whoever sent it has to send it again, or give it up.
    """

    def __init__(self, sim: Simulation, journal: Journal, trouble: Trouble) -> None:
        self.is_on = True
        self._chance = trouble.echo_chance
        self._rng = sim.stream("echo")
        self._journal = journal
        self._echoed = trouble.echoed
        self._tasks: set[asyncio.Task[None]] = set()

    def serve(self, routes: Mapping[int, Route]) -> Mapping[int, Route]:
        """The routes of a broker with the echo in front of them."""
        return {
            **routes,
            **{key: self._repeating(routes[key], self._echoed[key]) for key in self._echoed},
        }

    def _repeating(self, route: Route, versions: range) -> Route:
        def handle(request: Any, context: Context) -> Any:
            is_chosen = context.version in versions and self._rng.random() < self._chance
            if not is_chosen or not self.is_on:
                return route.handler(request, context)
            kept = keep(request) if isinstance(request, ProduceRequest) else request
            self._start(self._repeat(route, kept, context))
            if self._rng.random() < 0.5:
                return route.handler(request, context)
            self._journal.done[f"detour of {route.api.name}"] += 1
            context.session.abort()
            return asyncio.get_running_loop().create_future()

        return replace(route, handler=handle)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _repeat(self, route: Route, request: Any, context: Context) -> None:
        await asyncio.sleep(self._rng.uniform(0, self._rng.choice(ECHO_DELAYS_S)))
        self._journal.done[f"echo of {route.api.name}"] += 1
        answer = route.handler(request, context)
        if not isinstance(answer, route.api.response):
            await answer
