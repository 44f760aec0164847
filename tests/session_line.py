"""Sessions of a broker without a network: what arrives, and what becomes of it."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from ottla.broker.complaints import Complaints
from ottla.broker.context import Context
from ottla.broker.dispatch import Route
from ottla.broker.meters import Meters
from ottla.broker.precedence import Precedence
from ottla.broker.read_budget import ReadBudget
from ottla.broker.session import LARGE_READ_BYTES, Session
from ottla.wire.frame import FrameReader, SpareBuffers, scratch_buffer, with_size
from ottla.wire.header import encode_request
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.registry import ApiKey
from ottla.wire.schema import Versions

MAX_FRAME_BYTES = 4 * LARGE_READ_BYTES
VERSION = 4
FETCH_VERSION = 12
MAX_NAME_BYTES = 2**15 - 1


class Line(asyncio.Transport):
    """A connection that remembers what became of it."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self.is_narrow = False
        """Whether it tells its session to stop, in the midst of each write."""
        self.written = bytearray()
        self.is_aborted = False
        self.reads = True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data
        if self.is_narrow:
            self._session.pause_writing()

    def is_closing(self) -> bool:
        return self.is_aborted

    def abort(self) -> None:
        self.is_aborted = True

    close = abort

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True


def served_by(
    handler: Callable[[Any, Any], Any],
    *,
    max_in_flight: int,
    max_queued_bytes: int = 1000,
    fetch: Any = None,
    expect_much: Callable[[], None] = lambda: None,
    precedence: Precedence | None = None,
    spares: SpareBuffers | None = None,
) -> tuple[Session, Line]:
    """A session in which every heartbeat is answered by `handler`, and every fetch by `fetch`."""
    routes: dict[int, Route] = {
        ApiKey.HEARTBEAT: Route(ApiKey.HEARTBEAT, Versions.parse("0-4"), handler)
    }
    if fetch is not None:
        routes[ApiKey.FETCH] = Route(ApiKey.FETCH, Versions.parse("4-12"), fetch)
    session = Session(
        routes=routes,
        reader=FrameReader(scratch_buffer(), MAX_FRAME_BYTES, spares),
        max_in_flight=max_in_flight,
        max_queued_bytes=max_queued_bytes,
        budget=ReadBudget(0),
        complaints=Complaints(asyncio.get_running_loop().time),
        meters=Meters(),
        precedence=Precedence() if precedence is None else precedence,
        expect_much=expect_much,
        make_context=lambda session, version, client_id: cast(
            Context, SimpleNamespace(version=version, client_id=client_id)
        ),
        on_open=lambda session: True,
        on_closed=lambda session: None,
    )
    line = Line(session)
    session.connection_made(line)
    return session, line


def receive(session: Session, count: int) -> None:
    """Let so many heartbeats arrive in one read."""
    arrive(session, *[heartbeat_frame()] * count)


def heartbeat_frame() -> bytes:
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    return framed(request, VERSION)


def fetch_frame() -> bytes:
    return framed(FetchRequest(max_wait_ms=0, min_bytes=0, topics=()), FETCH_VERSION)


def large_frame(number: int = 0) -> bytes:
    """A heartbeat that is large; the number is its generation."""
    name = "n" * MAX_NAME_BYTES
    request = HeartbeatRequest(
        group_id=name, generation_id=number, member_id=name, group_instance_id=name
    )
    return framed(request, VERSION)


def framed(request: Any, version: int) -> bytes:
    return b"".join(with_size(encode_request(request, version, correlation_id=1, client_id=None)))


def arrive(session: Session, *frames: bytes) -> None:
    """Let the frames arrive in one read."""
    data = b"".join(frames)
    session.get_buffer(-1)[: len(data)] = data
    session.buffer_updated(len(data))
