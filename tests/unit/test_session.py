"""A session whose handler fails: the client is not left waiting, whenever its request is served."""

import asyncio
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.complaints import Complaints
from ottla.broker.context import Context
from ottla.broker.dispatch import Route
from ottla.broker.meters import Meters
from ottla.broker.read_budget import ReadBudget
from ottla.broker.session import Session
from ottla.wire.frame import FrameReader, scratch_buffer, with_size
from ottla.wire.header import encode_request
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.registry import ApiKey
from ottla.wire.schema import Versions

VERSION = 4


class Line(asyncio.Transport):
    """A connection that remembers what became of it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.is_aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.is_aborted

    def abort(self) -> None:
        self.is_aborted = True

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


def served_by(handler: Callable[[Any, Any], Any], *, max_in_flight: int) -> tuple[Session, Line]:
    """A session in which every heartbeat is answered by `handler`."""
    session = Session(
        routes={ApiKey.HEARTBEAT: Route(ApiKey.HEARTBEAT, Versions.parse("0-4"), handler)},
        reader=FrameReader(scratch_buffer(), 1000),
        max_in_flight=max_in_flight,
        max_queued_bytes=1000,
        budget=ReadBudget(0),
        complaints=Complaints(asyncio.get_running_loop().time),
        meters=Meters(),
        make_context=lambda session, version, client_id: cast(
            Context, SimpleNamespace(version=version, client_id=client_id)
        ),
        on_open=lambda session: True,
        on_closed=lambda session: None,
    )
    line = Line()
    session.connection_made(line)
    return session, line


def receive(session: Session, count: int) -> None:
    """Let so many heartbeats arrive in one read."""
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    frame = encode_request(request, VERSION, correlation_id=1, client_id=None)
    data = b"".join(with_size(frame)) * count
    session.get_buffer(-1)[: len(data)] = data
    session.buffer_updated(len(data))


@pytest.mark.parametrize("waits", [False, True])
def test_a_handler_that_raises_ends_the_connection_also_if_its_request_had_to_wait(
    waits: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        first: asyncio.Future[HeartbeatResponse] = asyncio.get_running_loop().create_future()
        answers: list[Any] = [first] if waits else []

        def heartbeat(request: Any, context: Any) -> Any:
            if answers:
                return answers.pop()
            raise RuntimeError("a bug")

        session, line = served_by(heartbeat, max_in_flight=1)
        receive(session, len(answers) + 1)
        if waits:
            assert not line.is_aborted
            first.set_result(HeartbeatResponse())
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert line.is_aborted
        session.connection_lost(None)

    with caplog.at_level(logging.ERROR, logger="ottla"):
        asyncio.run(run())
    assert "request failed: api=Heartbeat" in caplog.text
