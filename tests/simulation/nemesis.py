"""What goes wrong in a simulated run of the broker, drawn from the seed.

Each run draws its own subset of faults, which may be empty: some bugs show only when one kind of
trouble comes alone.
"""

import asyncio
import enum
import errno
import random
from collections.abc import Callable
from typing import Final

from ottla.testing.disk import WARM_DELAY_MS, Operation
from ottla.testing.simulation import Simulation
from tests.simulation.broker_clients import BROKER
from tests.simulation.broker_host import BrokerHost
from tests.simulation.journal import Journal

MAX_FAULTS: Final = 10
WARM_DELAYS_MS: Final = (WARM_DELAY_MS, (20.0, 300.0))


class Fault(enum.Enum):
    POWER = "power"
    POWER_AMID_OPERATION = "power amid operation"
    KILL = "kill"
    RESTART = "restart"
    RESET = "reset"
    CUT = "cut"
    CUT_ONE_WAY = "cut one way"
    SLOW = "slow"
    FULL_DISK = "full disk"
    BAD_SYNC = "bad sync"
    SHORT_MEMORY = "short memory"
    HEAL = "heal"


LOSING_FAULTS: Final = frozenset({Fault.POWER, Fault.POWER_AMID_OPERATION, Fault.BAD_SYNC})
"""After these, what was not synced may be gone."""


class Nemesis:
    """Breaks things for a while, then repairs everything."""

    def __init__(
        self,
        sim: Simulation,
        host: BrokerHost,
        journal: Journal,
        *,
        clients: list[str],
        faults: frozenset[Fault],
        pause_s: tuple[float, float] = (0.01, 0.4),
    ) -> None:
        self._sim = sim
        self._host = host
        self._journal = journal
        self._clients = clients
        self._pause_s = pause_s
        self._rng: random.Random = sim.stream("nemesis")
        allowed = [fault for fault in Fault if fault in faults]
        self._kinds = [*self._rng.sample(allowed, self._rng.randint(0, len(allowed))), Fault.HEAL]
        self._disk = host.disk
        self._capacity_bytes = self._disk.capacity_bytes
        self._acts: dict[Fault, Callable[[], None]] = {
            Fault.POWER: self._lose_power,
            Fault.POWER_AMID_OPERATION: self._lose_power_soon,
            Fault.KILL: lambda: sim.kill(BROKER),
            Fault.RESTART: host.stop,
            Fault.RESET: lambda: sim.network.reset(BROKER, self._some_client()),
            Fault.CUT: lambda: sim.network.cut([BROKER], [self._some_client()]),
            Fault.CUT_ONE_WAY: self._cut_one_way,
            Fault.SLOW: self._slow_down,
            Fault.FULL_DISK: self._fill_disk,
            Fault.BAD_SYNC: self._spoil_sync,
            Fault.SHORT_MEMORY: self._forget_pages,
            Fault.HEAL: self._heal,
        }

    async def work(self) -> None:
        """Let one fault follow the other, then repair everything."""
        for _ in range(self._rng.randint(3, MAX_FAULTS)):
            await asyncio.sleep(self._rng.uniform(*self._pause_s))
            if self._host.is_running:
                self._act(self._rng.choice(self._kinds))
        self._heal()

    def strike_last(self, fault: Fault) -> None:
        """Once more, when everything is well, and then never again."""
        if not self._host.is_running:
            self._host.start()
        self._act(fault)

    def _act(self, fault: Fault) -> None:
        self._sim.note(f"fault {fault.value}")
        self._journal.done[f"fault {fault.value}"] += 1
        self._acts[fault]()

    def _some_client(self) -> str:
        return self._rng.choice(self._clients)

    def _lose_power(self) -> None:
        self._sim.crash(BROKER)

    def _lose_power_soon(self) -> None:
        self._disk.crash_at = self._disk.operation_count + self._rng.randint(0, 40)

    def _cut_one_way(self) -> None:
        ends = [BROKER, self._some_client()]
        self._rng.shuffle(ends)
        self._sim.network.cut(ends[:1], ends[1:], one_way=True)

    def _slow_down(self) -> None:
        client = self._some_client()
        for source, target in ((BROKER, client), (client, BROKER)):
            self._sim.network.set_delay_ms(source, target, 20.0, 150.0)

    def _fill_disk(self) -> None:
        self._disk.capacity_bytes = self._capacity_bytes
        used_bytes = self._capacity_bytes - self._disk.free_bytes()
        self._host.is_disk_bad = True
        # Logs give room back when they roll; where the disk is overfull, that does not help.
        self._disk.capacity_bytes = max(0, used_bytes + self._rng.randint(-90_000, 3_000))

    def _spoil_sync(self) -> None:
        self._host.is_disk_bad = True
        self._disk.fail(errno.EIO, Operation.SYNC, after=self._rng.randint(0, 5))

    def _forget_pages(self) -> None:
        """What is read from now on comes from the device, and that takes its time."""
        self._disk.warm_delay_ms = self._rng.choice(WARM_DELAYS_MS)
        self._disk.chill()

    def _heal(self) -> None:
        self._disk.capacity_bytes = self._capacity_bytes
        self._disk.crash_at = None
        self._disk.mend()
        self._disk.warm_delay_ms = WARM_DELAY_MS
        self._host.is_disk_bad = False
        self._sim.network.heal()
        for client in self._clients:
            for source, target in ((BROKER, client), (client, BROKER)):
                self._sim.network.set_delay_ms(source, target, *self._sim.network.delay_ms)
