"""For tests: a broker with faults and its own time; and whole runs in simulation.

Our users' tests need `TestBroker` only, from here or as the fixture `ottla_broker`: `plugin` has
the fixtures, `broker` the broker, `faults` what can go wrong, `probe` how tests write and read.

Our own go further and replace the ports: virtual time, a network that misbehaves, disks that
forget.  Start with `simulation`, one seeded run of several nodes.  `loop`, `network` and `disk` are
its parts, and each is of use alone: most tests of storage need a `SimDisk` and no loop at all.
`history` judges what clients saw, in simulated and in real runs.

The same seed gives the same run, to the last callback.  So in a simulation never take time,
randomness or order from anywhere else: no wall clock, no `random` module, no iteration over a set.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ottla.client.records import Record
    from ottla.testing.broker import TestBroker
    from ottla.testing.faults import Fault, Faults

__all__ = ["Fault", "Faults", "Record", "TestBroker"]

_HOMES: Final = {
    "Fault": "ottla.testing.faults",
    "Faults": "ottla.testing.faults",
    "Record": "ottla.client.records",
    "TestBroker": "ottla.testing.broker",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is used: the pytest plugin lives here, and must be light."""
    if (home := _HOMES.get(name)) is None:
        raise AttributeError(f"module 'ottla.testing' has no attribute {name!r}")
    found = getattr(import_module(home), name)
    globals()[name] = found
    return found
