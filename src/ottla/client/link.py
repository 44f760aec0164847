"""The way to one node: one connection at a time, and a new one after each trouble.

`Link` is a shell.  When it may connect, and how long that may take, `NodeState` decides.  However
many wait for a connection, it is made once, and all of them get it, or the reason why there is
none.
"""

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import Callable
from typing import Final

from ottla.client.backoff import Backoff
from ottla.client.cluster_view import Node
from ottla.client.config import ClientConfig
from ottla.client.connection import Connection, ConnectionOptions
from ottla.client.handshake import authenticate, negotiate
from ottla.client.node_state import ConnectPolicy, Load, NodeState, State
from ottla.client.ports import ClientPorts
from ottla.client.tls import refusal
from ottla.errors import (
    BrokerError,
    ClosedError,
    ConnectError,
    OttlaError,
    TransportError,
    TrustError,
    WireError,
)
from ottla.values import dataclass

log = logging.getLogger(__name__)

_END_TIMEOUT_S: Final = 1.0
"""How long a socket may take to close; the system does it in the next turn of the loop."""

SEND_TIMEOUT_S: Final = 30.0
"""How long a broker has to read what it need not answer, when we close; others may say less."""

_TLS_HINT: Final = " (does the broker speak TLS there?)"

_REAUTHENTICATE_AT: Final = (0.85, 0.95)
"""At which part of a session's life we say again who we are (KIP-368)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkContext:
    """What all links of a client share."""

    config: ClientConfig
    ports: ClientPorts
    options: ConnectionOptions
    tls: ssl.SSLContext | None
    cluster_id: Callable[[], str | None]
    on_ready: Callable[["Link"], None]
    on_lost: Callable[["Link", OttlaError], None]

    @property
    def policy(self) -> ConnectPolicy:
        config = self.config
        return ConnectPolicy(
            reconnect=Backoff(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms),
            setup_timeout=Backoff(
                config.socket_connection_setup_timeout_ms,
                config.socket_connection_setup_timeout_max_ms,
            ),
        )


class Link:
    """Connections to `node`, one after the other."""

    def __init__(self, node: Node, context: LinkContext) -> None:
        self.node = node
        self.failure: OttlaError | None = None
        """Why there is no connection, if the last one failed."""
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._state = NodeState(context.policy)
        self._connection: Connection | None = None
        self._opening: asyncio.Task[None] | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._renewal: asyncio.TimerHandle | None = None
        self._pause: asyncio.TimerHandle | None = None
        self._ending: list[Connection] = []
        """Closed by us; their sockets may still be open."""
        self._is_closed = False

    @property
    def state(self) -> State:
        return self._state.state

    @property
    def connection(self) -> Connection | None:
        """The connection, if it is ready."""
        return self._connection if self._state.state is State.READY else None

    @property
    def is_ready(self) -> bool:
        """Whether a request may be sent at once."""
        connection = self._connection
        return connection is not None and self._state.state is State.READY and connection.has_room

    @property
    def load(self) -> Load:
        connection = self.connection
        return Load(
            node_id=self.node.node_id,
            state=self.state,
            in_flight_count=0 if connection is None else connection.in_flight_count,
            delay_ms=self._delay_ms() if connection is None else connection.throttle_ms,
            last_attempt_ms=self._state.last_attempt_ms,
        )

    def start(self) -> None:
        """Begin to connect, if there is no connection and it is not too early."""
        is_wanted = not self._is_closed and self._opening is None and self.connection is None
        if is_wanted and self._delay_ms() == 0:
            self._opening = self._loop.create_task(self._open(), name=f"connect {self.node}")

    async def opened(self) -> Connection:
        """A ready connection, made if need be, once; waits out a back-off first.

        Raises:
            ConnectError: It could not be made.
            CredentialsError: The broker does not let us in.
            ClosedError: The client was closed.
        """
        while True:
            if self._is_closed:
                raise ClosedError("the client is closed")
            if (connection := self.connection) is not None:
                return connection
            if self._opening is None and (delay_ms := self._delay_ms()) > 0:
                await asyncio.sleep(delay_ms / 1000)
                continue
            self.start()
            assert self._opening is not None
            await asyncio.wait([self._opening])
            if (connection := self.connection) is not None:
                return connection
            if self.failure is not None and not self._is_closed:
                raise self.failure.with_traceback(None)

    def close(self, reason: OttlaError | None = None, *, forever: bool = True) -> None:
        """Close the connection in peace; not `forever`: it is made again when it is needed."""
        self._is_closed = self._is_closed or forever
        for task in (self._opening, self._renewing):
            if task is not None:
                task.cancel()
        connection, self._connection = self._connection, None
        self._state.close()
        if connection is not None:
            self._ending = [c for c in self._ending if not c.ended.done()] + [connection]
            connection.close(
                reason or ClosedError(f"{self.node}: the client closed the connection"),
                in_peace=True,
            )
        self._stop_renewal()
        self._stop_pause()

    @property
    def is_gone(self) -> bool:
        """Whether `ended` would wait for nothing."""
        tasks = (self._opening, self._renewing)
        return all(task is None or task.done() for task in tasks) and all(
            connection.ended.done() for connection in self._ending
        )

    async def ended(self, send_timeout_s: float = SEND_TIMEOUT_S) -> None:
        """Wait until everything that belonged to a closed link is gone, its socket too."""
        tasks = {task for task in (self._opening, self._renewing) if task is not None}
        waits = tasks | {connection.ended for connection in self._ending}
        if waits:
            is_owed = any(connection.unsent_bytes for connection in self._ending)
            await asyncio.wait(waits, timeout=send_timeout_s if is_owed else _END_TIMEOUT_S)
        for connection in self._ending:
            if unsent_bytes := connection.unsent_bytes:
                log.warning("%s: %d bytes were not sent: it does not read", self.node, unsent_bytes)
                connection.close()
        self._ending.clear()

    def _delay_ms(self) -> int:
        return self._state.delay_ms(self._now_ms())

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000)

    async def _open(self) -> None:
        entropy = self._context.ports.entropy
        timeout_ms = self._state.connect(self._now_ms(), entropy.random())
        try:
            await self._connect(timeout_ms)
        except (ConnectError, BrokerError) as error:
            self._failed(error)
        except (TransportError, WireError) as error:
            self._failed(ConnectError(f"{error} (is it a Kafka port? does it want TLS or SASL?)"))
        except OSError as error:
            self._failed(_explained(self.node, error, is_tls=self._context.tls is not None))
        finally:
            self._opening = None
        if self.state is State.READY:
            self._context.on_ready(self)

    async def _connect(self, timeout_ms: int) -> None:
        context, node = self._context, self.node
        made = await self._reach(timeout_ms)
        self._connection = made
        self._state.connected()
        made.versions = await negotiate(
            made,
            cluster_id=context.cluster_id(),
            node_id=node.node_id,
            timeout_ms=context.config.request_timeout_ms,
        )
        if context.config.uses_sasl:
            self._state.authenticate()
            lifetime_ms = await authenticate(
                made,
                context.config,
                context.ports.entropy,
                timeout_ms=context.config.request_timeout_ms,
            )
            self._plan_renewal(lifetime_ms)
        if not made.is_open:
            # It said all that it had to say, and was gone before we read it.
            raise ConnectError(f"{node}: the broker closed the connection")
        self.failure = None
        self._state.ready()
        log.debug("connected to %s", node)

    async def _reach(self, timeout_ms: int) -> Connection:
        context, node = self._context, self.node
        context.options.metrics.count("connection-creation-total")
        made: list[Connection] = []

        def accept() -> Connection:
            made.append(Connection(str(node), context.options, self._lost))
            return made[0]

        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await context.ports.network.connect(node.host, node.port, accept, tls=context.tls)
        except TimeoutError as error:
            if error.errno is not None:
                raise  # the system gave up before we did
            raise ConnectError(f"{node}: no connection within {timeout_ms} ms") from None
        return made[0]

    def _lost(self, reason: OttlaError) -> None:
        """A connection is over: told by itself, once."""
        self._context.options.metrics.count("connection-close-total")
        if self.state is State.READY:
            log.debug("lost %s: %s", self.node, reason)
            self._failed(reason)

    def _failed(self, reason: OttlaError) -> None:
        connection, self._connection = self._connection, None
        self.failure = reason
        self._stop_renewal()
        if self.state is not State.DISCONNECTED:
            self._state.lost(self._now_ms(), self._context.ports.entropy.random())
            self._stop_pause()
            # Who found us backing off asks again when that is over, and not before.
            pause_s = (self._delay_ms() + 1) / 1000
            self._pause = self._loop.call_later(pause_s, self._context.options.on_room)
        if connection is not None:
            self._ending = [c for c in self._ending if not c.ended.done()] + [connection]
            connection.close(reason)
        self._context.on_lost(self, reason)

    # Saying again who we are.

    def _plan_renewal(self, lifetime_ms: int) -> None:
        if lifetime_ms > 0:
            low, high = _REAUTHENTICATE_AT
            part = low + (high - low) * self._context.ports.entropy.random()
            self._renewal = self._loop.call_later(lifetime_ms * part / 1000, self._renew)

    def _stop_renewal(self) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
            self._renewal = None

    def _stop_pause(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None

    def _renew(self) -> None:
        connection = self.connection
        if connection is not None:
            work = self._authenticate_again(connection)
            self._renewing = self._loop.create_task(work, name=f"authenticate {self.node}")

    async def _authenticate_again(self, connection: Connection) -> None:
        """While it goes on, a broker takes nothing else on this connection."""
        config = self._context.config
        connection.hold()
        try:
            lifetime_ms = await authenticate(
                connection,
                config,
                self._context.ports.entropy,
                timeout_ms=config.request_timeout_ms,
            )
        except OttlaError as error:
            connection.close(error)
            return
        self._plan_renewal(lifetime_ms)
        connection.release()


def _explained(node: Node, error: OSError, *, is_tls: bool) -> ConnectError:
    """What the system said, without asyncio's words around it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return TrustError(f"{node}: {error.verify_message}")
    if (refused := refusal(str(node), error)) is not None:
        return refused
    if isinstance(error, ssl.SSLError):
        return ConnectError(f"{node}: TLS failed: {error.reason or error}{_TLS_HINT}")
    if is_tls and isinstance(error, ConnectionResetError | ConnectionAbortedError):
        return ConnectError(f"{node}: the connection was closed during the handshake{_TLS_HINT}")
    if error.errno is None or isinstance(error, socket.gaierror):
        return ConnectError(f"{node}: {error.strerror or str(error) or type(error).__name__}")
    return ConnectError(f"{node}: {os.strerror(error.errno)}")
