"""Accepts connections, bounds their number, and closes those that nobody uses."""

import asyncio
import logging
import mmap
from collections import Counter
from typing import Final

from ottla.broker.complaints import Complaints
from ottla.broker.context import Context, Node
from ottla.broker.precedence import Precedence
from ottla.broker.read_budget import ReadBudget
from ottla.broker.session import Session
from ottla.ports import Listener
from ottla.values import dataclass
from ottla.wire.frame import FrameReader, SpareBuffers, scratch_buffer

log = logging.getLogger(__name__)


_TURNS_TO_CLOSE: Final = 5
"""Accepting a connection, and closing it, takes so many turns of the loop at the most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """What one client, and all of them together, may take."""

    max_connections: int
    max_connections_per_ip: int
    max_idle_ms: int
    max_frame_bytes: int
    max_in_flight: int
    max_queued_bytes: int
    max_partial_bytes: int
    """What requests that have not arrived in full may hold, all connections together."""


class Connections:
    """All sessions of a broker."""

    def __init__(self, node: Node, limits: ConnectionLimits) -> None:
        self._node = node
        self._limits = limits
        self._complaints = Complaints(asyncio.get_running_loop().time)
        self._scratch = scratch_buffer()
        self._spares = SpareBuffers(_mapped_buffer)
        self._precedence = Precedence()
        self._sessions: dict[Session, None] = {}
        self._is_closed = False
        self._budget = ReadBudget(limits.max_partial_bytes)
        self._per_ip: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._sessions)

    async def listen(self, host: str, port: int) -> Listener:
        """Open the port; every connection becomes a session."""
        return await self._node.ports.network.listen(host, port, self._new_session)

    def close_idle(self) -> None:
        """Close the sessions that have been silent for too long and owe nothing."""
        oldest = asyncio.get_running_loop().time() - self._limits.max_idle_ms / 1000
        for session in self._sessions:
            session.note_progress()
        for session in [s for s in self._sessions if s.last_active < oldest]:
            if session.is_waiting:
                continue
            log.info("connection closed: peer=%s:%s reason=idle", *session.peer)
            session.expire()

    def close_all(self) -> None:
        """Close every session after what was answered has left."""
        for session in list(self._sessions):
            session.close()

    def abort_all(self) -> None:
        """Close every session at once, and those that are just being accepted as they come."""
        self._is_closed = True
        for session in list(self._sessions):
            session.abort()

    async def gone(self) -> None:
        """After `abort_all`: wait until the sockets are closed, too."""
        for _ in range(_TURNS_TO_CLOSE):
            await asyncio.sleep(0)

    def _new_session(self) -> Session:
        return Session(
            routes=self._node.routes,
            reader=FrameReader(self._scratch, self._limits.max_frame_bytes, self._spares),
            max_in_flight=self._limits.max_in_flight,
            max_queued_bytes=self._limits.max_queued_bytes,
            budget=self._budget,
            complaints=self._complaints,
            meters=self._node.meters,
            precedence=self._precedence,
            expect_much=self._node.ports.network.expect_much,
            make_context=self._context_of,
            on_open=self._admit,
            on_closed=self._forget,
        )

    def _context_of(self, session: Session, version: int, client_id: str | None) -> Context:
        return Context(self._node, session, version, client_id)

    def _admit(self, session: Session) -> bool:
        host = session.peer[0]
        if self._is_closed:
            return False
        if len(self._sessions) >= self._limits.max_connections:
            reason = f"max.connections = {self._limits.max_connections}"
        elif self._per_ip[host] >= self._limits.max_connections_per_ip:
            reason = f"max.connections.per.ip = {self._limits.max_connections_per_ip}"
        else:
            self._sessions[session] = None
            self._node.meters.connection_count = len(self._sessions)
            self._per_ip[host] += 1
            return True
        self._complaints.add("connection refused", session.peer, reason)
        return False

    def _forget(self, session: Session) -> None:
        if session in self._sessions:
            del self._sessions[session]
            self._node.meters.connection_count = len(self._sessions)
            self._per_ip[session.peer[0]] -= 1
            if not self._per_ip[session.peer[0]]:
                del self._per_ip[session.peer[0]]


def _mapped_buffer(size_bytes: int) -> memoryview:
    """A buffer that has its pages from the kernel, and gives them back when it goes.

    A page takes memory once it is filled: a client that announces much and sends little gets
    little.  The heap would keep the room of the busiest moment.
    """
    return memoryview(mmap.mmap(-1, size_bytes))
