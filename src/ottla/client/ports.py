"""The doors that a client uses: clock, network, entropy.  It has no use for a disk.

`ottla.ports.Ports` has them too, so a client takes the ports of a simulated node as they are.
"""

from typing import Protocol

from ottla.ports import Clock, Entropy, Network
from ottla.values import dataclass


class ClientPorts(Protocol):
    """What `ottla.ports.Ports` and `RealPorts` have in common."""

    @property
    def clock(self) -> Clock: ...

    @property
    def network(self) -> Network: ...

    @property
    def entropy(self) -> Entropy: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RealPorts:
    """The three, on this machine."""

    clock: Clock
    network: Network
    entropy: Entropy


def real_ports() -> RealPorts:
    """Open them."""
    from ottla.runtime.clock import SystemClock
    from ottla.runtime.entropy import SystemEntropy
    from ottla.runtime.network import RealNetwork

    return RealPorts(clock=SystemClock(), network=RealNetwork(), entropy=SystemEntropy())
