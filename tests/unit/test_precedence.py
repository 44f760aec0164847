"""Small requests go first, and nobody is forgotten."""

import asyncio
from collections.abc import Callable
from typing import Any

from ottla.broker.precedence import MAX_WAITING, RECENT_S, Precedence
from ottla.broker.session import Session
from ottla.wire.frame import TRUSTED_BYTES, SpareBuffers, scratch_buffer
from ottla.wire.messages.heartbeat import HeartbeatResponse
from tests.session_line import Line, arrive, large_frame, receive, served_by

SMALL = 1
"""The generation of a small heartbeat."""


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def crowded() -> Precedence:
    """Somebody has just sent a small request."""
    precedence = Precedence()
    precedence.small_s = asyncio.get_running_loop().time()
    return precedence


def serving(served: list[int], precedence: Precedence) -> tuple[Session, Line]:
    """A session that notes which heartbeats it answers."""

    def heartbeat(request: Any, context: Any) -> Any:
        served.append(request.generation_id)
        return HeartbeatResponse()

    return served_by(heartbeat, max_in_flight=10, precedence=precedence)


def test_a_large_request_and_its_answer_let_small_ones_of_others_go_first() -> None:
    async def run() -> None:
        served: list[int] = []
        precedence = Precedence()
        small, small_line = serving(served, precedence)
        large, large_line = serving(served, precedence)
        receive(small, 1)
        arrive(large, large_frame(7))
        assert served == [SMALL], "it waits"
        await turns(1)
        receive(small, 1)
        await turns(1)
        assert served == [SMALL, SMALL, 7]
        assert large_line.written == b"", "its answer waits, too"
        await turns(2)
        assert large_line.written
        assert 2 * large_line.written == small_line.written

    asyncio.run(run())


def test_a_large_request_waits_for_nobody_if_nobody_is_there() -> None:
    async def run() -> None:
        served: list[int] = []
        precedence = Precedence()
        session, line = serving(served, precedence)
        arrive(session, large_frame(7))
        assert served == [7], "there was never a small one"
        assert line.written
        precedence.small_s = asyncio.get_running_loop().time() - RECENT_S
        arrive(session, large_frame(8))
        assert served == [7, 8], "the last one was long ago"

    asyncio.run(run())


def test_what_comes_behind_a_large_request_does_not_overtake_it() -> None:
    async def run() -> None:
        served: list[int] = []
        session, line = serving(served, Precedence())
        receive(session, 1)
        arrive(session, large_frame(7))
        receive(session, 1)
        await turns(4)
        assert served == [SMALL, 7, SMALL]
        assert line.reads

    asyncio.run(run())


def test_only_so_many_large_requests_wait_at_a_time() -> None:
    async def run() -> None:
        served: list[int] = []
        precedence = crowded()
        for number in range(MAX_WAITING + 1):
            session, _ = serving(served, precedence)
            arrive(session, large_frame(number))
        assert served == [MAX_WAITING]
        await turns(2)
        assert served == [MAX_WAITING, *range(MAX_WAITING)]
        assert precedence.waiting_count == 0

    asyncio.run(run())


def test_a_large_request_of_a_client_that_is_gone_is_not_served() -> None:
    async def run() -> None:
        served: list[int] = []
        precedence = crowded()
        session, _ = serving(served, precedence)
        arrive(session, large_frame())
        session.connection_lost(None)
        await turns(4)
        assert served == []
        assert precedence.waiting_count == 0

    asyncio.run(run())


def test_who_sends_a_large_request_and_nothing_more_is_served_before_the_end() -> None:
    async def run() -> None:
        served: list[int] = []
        session, line = serving(served, crowded())
        arrive(session, large_frame(7))
        session.eof_received()
        assert served == [7]
        assert line.written
        await turns(4)
        assert served == [7]

    asyncio.run(run())


def test_the_buffer_of_a_request_that_waited_is_free_when_it_was_served_and_not_held() -> None:
    async def run() -> None:
        made: list[int] = []

        def make(size_bytes: int) -> memoryview:
            made.append(size_bytes)
            return scratch_buffer(size_bytes)

        held: list[Callable[[], None]] = []
        session: Session

        def heartbeat(request: Any, context: Any) -> Any:
            if request.generation_id and (release := session.hold_frame()) is not None:
                held.append(release)
            return HeartbeatResponse()

        spares = SpareBuffers(make)
        session, _ = served_by(heartbeat, max_in_flight=10, precedence=crowded(), spares=spares)
        for _ in range(2):
            arrive(session, large_frame(0))
            await turns(4)
        assert made == [TRUSTED_BYTES], "the second one had that of the first"
        arrive(session, large_frame(1))
        await turns(4)
        assert len(made) == 1
        arrive(session, large_frame(0))
        await turns(4)
        assert len(made) == 2, "the first one is held"
        (release,) = held
        release()
        for _ in made:
            spares.take(TRUSTED_BYTES)
        assert len(made) == 2

    asyncio.run(run())
