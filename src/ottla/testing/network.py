"""A network in memory that delays, splits, cuts and resets, as its random numbers say.

A node is known by its name, which is also its host name.  It may listen on it, on every address
(`""`, `0.0.0.0`, `::`) or on loopback, which only the node itself can reach.

Bytes of one connection never change their order, and never get lost while it lives: like TCP, a
connection under a partition retransmits until the partition heals, or gives up.
"""

import asyncio
import contextvars
import errno
import random
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from ottla.testing.process import WORLD, Process, context_of, current_process
from ottla.testing.transport import SimTransport

if TYPE_CHECKING:
    from ssl import SSLContext

CONNECT_TIMEOUT_MS: Final = 3_000
"""How long a connection is tried to a node that does not answer."""

_EVERY_ADDRESS: Final = frozenset({"", "0.0.0.0", "::"})
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_FIRST_FREE_PORT: Final = 32_768


class SimListener(asyncio.AbstractServer):
    """See `ottla.ports.Listener`; and asyncio's server, for code that asks the loop for one."""

    def __init__(
        self,
        network: "SimNetwork",
        key: tuple[str, int],
        address: tuple[str, int],
        accept: Callable[[], asyncio.BaseProtocol],
    ) -> None:
        self.process = current_process()
        self.context = contextvars.copy_context()
        self.key = key
        self.accept = accept
        self._network = network
        self._address = address

    @property
    def address(self) -> tuple[str, int]:
        return self._address

    def close(self) -> None:
        self._network.stop_listening(self)

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._network.loop

    def is_serving(self) -> bool:
        return self._network.is_listening(self)

    async def start_serving(self) -> None:
        """It has been serving since it was made."""

    async def serve_forever(self) -> None:
        await self._network.loop.create_future()

    async def wait_closed(self) -> None:
        """Connections outlive their listener: there is nothing to wait for."""


class SimNetwork:
    """See `ottla.ports.Network`.  One object serves every node: it knows whose code is running.

    Args:
        rng: Delays, and where the stream of bytes is cut.
        observe: Called with a line about each thing that happens.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        rng: random.Random,
        observe: Callable[[str], None] | None = None,
    ) -> None:
        self.loop = loop
        self.rng = rng
        self.context = context_of(WORLD)
        self.delay_ms = (0.1, 2.0)
        self.slow_chance = 0.02
        self.slow_factor = 50.0
        self.retransmit_ms = 200.0
        self.give_up_ms = 15_000.0
        self._observe = observe
        self._listeners: dict[tuple[str, int], SimListener] = {}
        self._connections: list[tuple[SimTransport, SimTransport]] = []
        self._cuts: set[tuple[str, str]] = set()
        self._link_delays_ms: dict[tuple[str, str], tuple[float, float]] = {}
        self._silent: set[str] = set()
        self._next_port = _FIRST_FREE_PORT

    # The port.

    async def listen(
        self, host: str, port: int, accept: Callable[[], asyncio.BaseProtocol]
    ) -> SimListener:
        node = current_process().node
        port = port or self._free_port()
        key = (_place(node, host), port)
        if key in self._listeners:
            raise OSError(errno.EADDRINUSE, f"{host}:{port} is in use")
        listener = SimListener(self, key, (host or "0.0.0.0", port), accept)
        self._listeners[key] = listener
        self._note(f"listen {key[0]}:{port}")
        return listener

    async def connect(
        self,
        host: str,
        port: int,
        protocol: Callable[[], asyncio.BaseProtocol],
        *,
        tls: "SSLContext | None" = None,
    ) -> asyncio.BaseProtocol:
        assert tls is None, "nobody listens here who speaks TLS"
        _, made = await self.open_connection(protocol, host, port)
        assert isinstance(made, asyncio.BaseProtocol)
        return made

    def expect_much(self) -> None:
        """Nothing: nobody looks around here, for time passes only when all sleep."""

    # The same, as asyncio's loops offer it.

    async def open_server(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> asyncio.AbstractServer:
        return await self.listen(host, port, factory)

    async def open_connection(
        self, factory: Callable[[], Any], host: str, port: int
    ) -> tuple[asyncio.Transport, Any]:
        process = current_process()
        node = _host_node(process.node, host)
        await asyncio.sleep(self._draw_delay_s(process.node, node))
        if node in self._silent or self._is_cut(process.node, node):
            await asyncio.sleep(CONNECT_TIMEOUT_MS / 1000)
            raise TimeoutError(errno.ETIMEDOUT, f"{host}:{port} does not answer")
        listener = self._find_listener(process.node, host, port)
        if listener is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"nobody listens on {host}:{port}")
        near_address, far_address = (process.node, self._free_port()), (host, port)
        near = SimTransport(
            self,
            self.loop,
            process,
            contextvars.copy_context(),
            {"sockname": near_address, "peername": far_address},
        )
        far = SimTransport(
            self,
            self.loop,
            listener.process,
            listener.context.copy(),
            {"sockname": far_address, "peername": near_address},
        )
        near.peer, far.peer = far, near
        self._connections = [pair for pair in self._connections if not _is_over(pair)]
        self._connections.append((near, far))
        self._note(f"connect {process} {listener.process} {port}")
        self.loop.call_soon(self._accept, listener, far, context=far.context)
        protocol = factory()
        near.make(protocol)
        return near, protocol

    # What a test does to it.

    def cut(self, some: Iterable[str], others: Iterable[str], *, one_way: bool = False) -> None:
        """Let nothing pass from `some` nodes to `others`, nor back, unless it is `one_way`."""
        for source, target in ((a, b) for a in some for b in others):
            self._cuts.add((source, target))
            if not one_way:
                self._cuts.add((target, source))
            self._note(f"cut {source} {target}{' one way' if one_way else ''}")

    def heal(self) -> None:
        """Undo every `cut`; what was held back arrives with the next retransmission."""
        self._cuts.clear()
        self._note("heal")

    def set_delay_ms(self, source: str, target: str, low: float, high: float) -> None:
        """Let segments from `source` to `target` take this long, without the occasional delay."""
        self._link_delays_ms[source, target] = (low, high)

    def reset(self, one: str, other: str) -> None:
        """Break every connection between two nodes."""
        for near, far in self._connections:
            if {near.process.node, far.process.node} == {one, other}:
                for transport in (near, far):
                    transport.lose(_reset_error())
        self._note(f"reset {one} {other}")

    def end_process(self, process: Process, *, is_silent: bool) -> None:
        """`process` died.  If it is silent (lost power), nobody hears it until they ask."""
        for listener in [each for each in self._listeners.values() if each.process is process]:
            self.stop_listening(listener)
        if is_silent:
            self._silent.add(process.node)
        for pair in self._connections:
            for transport in pair:
                if transport.process is process:
                    transport.end_process(is_silent=is_silent)

    def start_node(self, node: str) -> None:
        """The machine has power (again): it refuses and resets what it does not know."""
        self._silent.discard(node)

    # What listeners and transports ask.

    def stop_listening(self, listener: SimListener) -> None:
        if self.is_listening(listener):
            del self._listeners[listener.key]

    def is_listening(self, listener: SimListener) -> bool:
        return self._listeners.get(listener.key) is listener

    def arrival_s(self, source: Process, target: Process) -> float:
        return self.loop.time() + self._draw_delay_s(source.node, target.node)

    def is_blocked(self, source: Process, target: Process) -> bool:
        return (source.node, target.node) in self._cuts or target.node in self._silent

    def delivered(self, source: Process, target: Process, size_bytes: int) -> None:
        self._note(f"deliver {source} {target} {size_bytes}")

    def reset_soon(self, transport: SimTransport) -> None:
        """Let a reset travel to `transport`."""
        source, target = transport.peer.process.node, transport.process.node
        deadline_s = self.loop.time() + self.give_up_ms / 1000
        delay_s = self._draw_delay_s(source, target)
        self.loop.call_later(
            delay_s, self._deliver_reset, transport, deadline_s, context=self.context
        )

    def _deliver_reset(self, transport: SimTransport, deadline_s: float) -> None:
        if not self.is_blocked(transport.peer.process, transport.process):
            transport.lose(_reset_error())
        elif self.loop.time() < deadline_s:
            self.loop.call_later(
                self.retransmit_ms / 1000,
                self._deliver_reset,
                transport,
                deadline_s,
                context=self.context,
            )

    def _accept(self, listener: SimListener, far: SimTransport) -> None:
        is_well = False
        try:
            far.make(listener.accept())
            is_well = True
        finally:
            # As with asyncio's servers: the connection is gone, the loop gets the exception.
            if not is_well:
                far.abort()

    def _find_listener(self, node: str, host: str, port: int) -> SimListener | None:
        found = self._listeners.get((_place(node, host), port))
        if found is None and host in _LOOPBACK:
            # A node that listens on every address listens on loopback too.
            found = self._listeners.get((node, port))
        return found

    def _is_cut(self, one: str, other: str) -> bool:
        return (one, other) in self._cuts or (other, one) in self._cuts

    def _draw_delay_s(self, source: str, target: str) -> float:
        link_delay_ms = self._link_delays_ms.get((source, target))
        delay_ms = self.rng.uniform(*(link_delay_ms or self.delay_ms))
        if link_delay_ms is None and self.rng.random() < self.slow_chance:
            delay_ms *= self.slow_factor
        return delay_ms / 1000

    def _free_port(self) -> int:
        self._next_port += 1
        return self._next_port

    def _note(self, line: str) -> None:
        if self._observe is not None:
            self._observe(line)


def _place(node: str, host: str) -> str:
    """Where `host` is, seen from `node`."""
    if host in _EVERY_ADDRESS:
        return node
    return f"{node}/loopback" if host in _LOOPBACK else host


def _host_node(node: str, host: str) -> str:
    return node if host in _EVERY_ADDRESS | _LOOPBACK else host


def _is_over(pair: tuple[SimTransport, SimTransport]) -> bool:
    return pair[0].is_lost and pair[1].is_lost


def _reset_error() -> ConnectionResetError:
    return ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
