"""What befalls the clients of a broker: it dies, stops, and cannot be reached, again and again."""

import asyncio
from collections.abc import Sequence

from ottla.testing.simulation import Simulation
from tests.simulation.broker_clients import BROKER
from tests.simulation.broker_host import BrokerHost

CLIENT = "client"


async def trouble(
    sim: Simulation,
    host: BrokerHost,
    until_ms: float,
    *,
    pause_s: tuple[float, float],
    clients: Sequence[str] = (CLIENT,),
    crashes: bool = False,
) -> None:
    """Kill, stop, reset and cut, with pauses of some seconds; with `crashes`, cut the power too."""
    rng = sim.stream("trouble")
    while sim.loop.time() * 1000 < until_ms:
        await asyncio.sleep(rng.uniform(*pause_s))
        match rng.randrange(5 if crashes else 4):
            case 0 if host.is_running:
                sim.kill(BROKER)
            case 1:
                host.stop()
            case 2:
                sim.network.reset(rng.choice(clients), BROKER)
            case 4 if host.is_running:
                sim.crash(BROKER)
            case _:
                sim.network.cut([rng.choice(clients)], [BROKER], one_way=rng.random() < 0.5)
                await asyncio.sleep(rng.uniform(0.1, 1.5))
                sim.network.heal()
