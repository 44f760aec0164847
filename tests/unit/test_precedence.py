"""Small requests go first, and nobody is forgotten."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.blast import batch_of, produce_request
from bench.metered import Client, Port
from ottla.broker.config import BrokerConfig
from ottla.broker.embedded import open_server
from ottla.broker.precedence import LARGEST_BYTES, MAX_WAITING, RECENT_S, Precedence
from ottla.broker.session import Session
from ottla.wire.frame import SIZE, TRUSTED_BYTES, SpareBuffers, scratch_buffer
from ottla.wire.messages.heartbeat import HeartbeatResponse
from tests.session_line import Line, arrive, heartbeat_frame, large_frame, receive, served_by

SMALL = 1
"""The generation of a small heartbeat."""


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def crowded() -> Precedence:
    """Somebody has just sent a small request."""
    precedence = Precedence()
    precedence.note_small("somebody", asyncio.get_running_loop().time())
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
        precedence.note_small("somebody", asyncio.get_running_loop().time() - RECENT_S)
        arrive(session, large_frame(8))
        assert served == [7, 8], "the last one was long ago"

    asyncio.run(run())


def test_what_comes_behind_a_large_request_does_not_overtake_it() -> None:
    async def run() -> None:
        served: list[int] = []
        session, line = serving(served, crowded())
        arrive(session, large_frame(7))
        assert served == []
        receive(session, 1)
        await turns(4)
        assert served == [7, SMALL]
        assert line.reads

    asyncio.run(run())


def test_what_is_very_large_is_not_kept_for_others() -> None:
    precedence = Precedence()
    precedence.note_small("somebody", 1.0)
    assert precedence.lets_others_first("me", LARGEST_BYTES, 1.0)
    assert not precedence.lets_others_first("me", LARGEST_BYTES + 1, 1.0)


def test_a_large_request_does_not_wait_for_small_ones_of_its_own_client() -> None:
    precedence = Precedence()
    precedence.note_small("me", 1.0)
    assert not precedence.lets_others_first("me", LARGEST_BYTES, 1.0)
    assert precedence.lets_others_first("you", LARGEST_BYTES, 1.0)
    precedence.note_small("you", 1.0)
    assert precedence.lets_others_first("me", LARGEST_BYTES, 1.0)
    precedence.note_small("me", 1.0)
    precedence.note_small("me", 1.0)
    assert precedence.lets_others_first("me", LARGEST_BYTES, 1.0), "yours is as late as mine"
    assert not precedence.lets_others_first("me", LARGEST_BYTES, 1.0 + RECENT_S)
    precedence.note_small("me", 1.0 + RECENT_S)
    assert not precedence.lets_others_first("me", LARGEST_BYTES, 1.0 + RECENT_S)


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


def test_who_breaks_off_behind_a_large_request_is_served_all_the_same() -> None:
    """Who wants no answer, and goes while one of others is unread, resets the connection."""

    async def run(turn_count: int) -> None:
        served: list[int] = []
        precedence = crowded()
        session, line = serving(served, precedence)
        arrive(session, large_frame(7))
        line.abort()
        await turns(turn_count)
        assert served == []
        session.connection_lost(ConnectionResetError())
        assert served == [7]
        await turns(4)
        assert served == [7]
        assert precedence.waiting_count == 0

    for turn_count in range(4):
        asyncio.run(run(turn_count))


@pytest.mark.parametrize("good", [[], [heartbeat_frame()]], ids=["alone", "behind another one"])
def test_a_large_request_is_served_before_what_is_wrong_behind_it(good: list[bytes]) -> None:
    async def run() -> None:
        served: list[int] = []
        session, line = serving(served, crowded())
        arrive(session, large_frame(7))
        arrive(session, *good, SIZE.pack(-1))
        assert served == [7] + [SMALL] * len(good)
        assert line.written
        assert line.is_aborted

    asyncio.run(run())


@pytest.mark.parametrize("turn_count", [2, 3])
def test_the_answer_to_a_large_request_leaves_before_the_connection_is_closed(
    turn_count: int,
) -> None:
    async def run() -> None:
        served: list[int] = []
        session, line = serving(served, crowded())
        arrive(session, large_frame(7))
        await turns(turn_count)
        assert served == [7]
        session.close()
        assert line.written

    asyncio.run(run())


def test_what_comes_in_one_read_with_a_large_request_is_served_with_it() -> None:
    async def run() -> None:
        served: list[int] = []
        session, _ = serving(served, crowded())
        arrive(session, large_frame(7), heartbeat_frame())
        assert served == [7, SMALL]

    asyncio.run(run())


def test_the_next_large_request_of_a_client_is_not_copied_behind_one_that_waits() -> None:
    async def run() -> None:
        served: list[int] = []
        session, line = serving(served, crowded())
        for number in range(7, 10):
            arrive(session, large_frame(number))
        assert served == [7, 8], "the last one waits, and ended the wait of the others"
        await turns(4)
        assert served == [7, 8, 9]
        assert line.written
        assert line.reads

    asyncio.run(run())


def test_a_bug_in_a_handler_ends_the_connection_also_if_its_request_waited(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run() -> None:
        session, line = served_by(
            lambda body, context: "no answer", max_in_flight=10, precedence=crowded()
        )
        arrive(session, large_frame())
        await turns(4)
        assert line.is_aborted

    with caplog.at_level(logging.ERROR, logger="ottla"):
        asyncio.run(run())
    assert "request failed: api=Heartbeat" in caplog.text


def test_a_large_request_waits_for_those_of_other_connections(tmp_path: Path) -> None:
    async def run() -> None:
        port = Port()
        config = BrokerConfig.of({"log.dirs": str(tmp_path), "ottla.flush": "os"})
        server = open_server(config, network=port, is_temporary=True)
        await server.start()
        try:
            small, large = Client(port.accept()), Client(port.accept())
            request = produce_request(batch_of(100_000))
            assert large.send(request), "nobody else is there"
            assert small.send(produce_request(batch_of(0)))
            assert large.send(request) == 0
            assert await large.answered(b"")
        finally:
            await server.stop()

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
