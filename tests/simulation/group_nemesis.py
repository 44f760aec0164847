"""What goes wrong with members of a simulated group: they crash, dawdle, and meet their doubles.

The broker, its disk and its network have a nemesis of their own (`nemesis`).
"""

import asyncio
import enum
from collections.abc import Callable
from typing import Final

from ottla.testing.simulation import Simulation
from tests.simulation.group_member import Weather
from tests.simulation.journal import Journal

MIN_FAULTS: Final = 5
MAX_FAULTS: Final = 10
PAUSE_S: Final = (0.2, 0.9)
NAPS_S: Final = (0.3, 2.5, 3.5)
"""Within a session, beyond it, and beyond a rebalance as well."""


class MemberFault(enum.Enum):
    KILL = "member killed"
    POWER = "member lost power"
    NAP = "member naps"
    DOUBLE = "static member started twice"


class MemberNemesis:
    """Troubles members for a while; `start_double` starts a static member once more."""

    def __init__(
        self,
        sim: Simulation,
        journal: Journal,
        weather: Weather,
        *,
        nodes: list[str],
        start_double: Callable[[], None],
    ) -> None:
        self._sim = sim
        self._journal = journal
        self._weather = weather
        self._nodes = nodes
        self._start_double = start_double
        self._rng = sim.stream("member nemesis")
        kinds = list(MemberFault)
        chosen = self._rng.sample(kinds, self._rng.randint(0, len(kinds)))
        self._kinds = [*chosen, MemberFault.NAP]  # which is what happens most

    async def work(self) -> None:
        """Let one fault follow the other."""
        for _ in range(self._rng.randint(MIN_FAULTS, MAX_FAULTS)):
            await asyncio.sleep(self._rng.uniform(*PAUSE_S))
            self._act(self._rng.choice(self._kinds), self._rng.choice(self._nodes))

    def _act(self, fault: MemberFault, node: str) -> None:
        if not self._sim.node(node).is_running:
            return
        self._sim.note(f"fault {fault.value} {node}")
        self._journal.done[f"fault {fault.value}"] += 1
        match fault:
            case MemberFault.KILL:
                self._sim.kill(node)
            case MemberFault.POWER:
                self._sim.crash(node)
            case MemberFault.NAP:
                self._weather.naps_s[node] = self._rng.choice(NAPS_S)
            case MemberFault.DOUBLE:
                self._start_double()
