"""A session: whose turn it is to be served, and that nobody waits for a handler that failed."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker.answers import Outcome, Pending
from ottla.broker.session import LARGE_READ_BYTES
from ottla.wire.frame import SIZE
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.wire.messages.heartbeat import HeartbeatResponse
from tests.session_line import arrive, fetch_frame, heartbeat_frame, receive, served_by


class Awaited(Pending):
    """A response that is there when the test says so."""

    def __init__(self) -> None:
        self.is_canceled = False

    def when_known(self, tell: Callable[[Outcome], None]) -> None:
        self.tell = tell

    def cancel(self) -> None:
        self.is_canceled = True


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


def test_nothing_is_served_while_a_fetch_waits_because_its_answer_may_be_large() -> None:
    async def run() -> None:
        first: asyncio.Future[FetchResponse] = asyncio.get_running_loop().create_future()
        served: list[str] = []

        def fetch(request: Any, context: Any) -> Any:
            served.append("fetch")
            return first if len(served) == 1 else FetchResponse(responses=())

        def heartbeat(request: Any, context: Any) -> Any:
            served.append("heartbeat")
            return HeartbeatResponse()

        session, _ = served_by(heartbeat, max_in_flight=10, fetch=fetch)
        arrive(session, fetch_frame(), fetch_frame(), heartbeat_frame())
        assert served == ["fetch"]
        first.set_result(FetchResponse(responses=()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert served == ["fetch", "fetch", "heartbeat"]
        session.connection_lost(None)

    asyncio.run(run())


def test_a_request_that_waits_for_something_else_holds_up_nobody() -> None:
    async def run() -> None:
        waiting: list[asyncio.Future[HeartbeatResponse]] = []

        def heartbeat(request: Any, context: Any) -> Any:
            waiting.append(asyncio.get_running_loop().create_future())
            return waiting[-1]

        session, _ = served_by(heartbeat, max_in_flight=2)
        receive(session, 3)
        assert len(waiting) == 2, "so many, and no more"
        session.connection_lost(None)
        assert [future.cancelled() for future in waiting] == [True, True]

    asyncio.run(run())


def never(request: Any, context: Any) -> Any:
    raise AssertionError("nobody asks for that")


def test_a_fetch_that_waited_is_answered_in_the_turn_in_which_its_answer_is_known() -> None:
    async def run() -> None:
        awaited = Awaited()
        session, line = served_by(never, max_in_flight=10, fetch=lambda *_: awaited)
        arrive(session, fetch_frame())
        assert not line.written
        assert line.reads, "to stop and begin again costs as much as the answer"
        awaited.tell(FetchResponse(responses=()))
        assert line.written
        session.connection_lost(None)

    asyncio.run(run())


def test_what_comes_while_a_fetch_waits_is_served_after_it_and_nothing_more_is_read() -> None:
    async def run() -> None:
        awaited, served = Awaited(), 0

        def heartbeat(request: Any, context: Any) -> Any:
            nonlocal served
            served += 1
            return HeartbeatResponse()

        session, line = served_by(heartbeat, max_in_flight=10, fetch=lambda *_: awaited)
        arrive(session, fetch_frame())
        arrive(session, heartbeat_frame())
        is_paused = not line.reads
        assert is_paused, "a greedy client fills no memory"
        awaited.tell(FetchResponse(responses=()))
        assert served == 0, "we may be in the middle of somebody else's request"
        await asyncio.sleep(0)
        assert served == 1
        assert line.reads
        session.connection_lost(None)

    asyncio.run(run())


@pytest.mark.parametrize("outcome", [RuntimeError("a bug"), object()], ids=["error", "nonsense"])
def test_who_tells_an_answer_has_nothing_to_do_with_what_is_wrong_with_it(
    outcome: Outcome, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        awaited = Awaited()
        session, line = served_by(never, max_in_flight=10, fetch=lambda *_: awaited)
        arrive(session, fetch_frame())
        awaited.tell(outcome)
        assert line.is_aborted
        session.connection_lost(None)

    with caplog.at_level(logging.ERROR, logger="ottla"):
        asyncio.run(run())
    assert "request failed: api=Fetch" in caplog.text


def test_a_fetch_does_not_wait_for_a_client_that_is_gone() -> None:
    async def run() -> None:
        awaited = Awaited()
        session, _ = served_by(never, max_in_flight=10, fetch=lambda *_: awaited)
        arrive(session, fetch_frame())
        session.connection_lost(None)
        assert awaited.is_canceled

    asyncio.run(run())


def test_what_goes_wrong_when_a_client_is_gone_is_told_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def clumsy() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            raise RuntimeError("a bug in its end")

    async def run() -> None:
        session, _ = served_by(lambda *_: clumsy(), max_in_flight=10)
        receive(session, 1)
        await asyncio.sleep(0)
        session.connection_lost(None)
        for _ in range(3):
            await asyncio.sleep(0)

    with caplog.at_level(logging.ERROR, logger="ottla"):
        asyncio.run(run())
    assert "a bug in its end" in caplog.text


def test_a_write_that_stops_us_is_not_broken_into_by_another_one() -> None:
    def large(marks: bytes) -> FetchResponse:
        parts = tuple(
            PartitionData(
                partition_index=index,
                high_watermark=1,
                aborted_transactions=None,
                records=bytes([mark]) * 100_000,
            )
            for index, mark in enumerate(marks)
        )
        return FetchResponse(responses=(FetchableTopicResponse(topic="t", partitions=parts),))

    async def run() -> None:
        loop = asyncio.get_running_loop()
        waits: list[asyncio.Future[HeartbeatResponse]] = [loop.create_future() for _ in "12"]
        beats, answers = list(waits), [large(b"ab"), large(b"cd")]
        session, line = served_by(
            lambda *_: beats.pop(0),
            max_in_flight=10,
            max_queued_bytes=10**6,
            fetch=lambda *_: answers.pop(0),
        )
        # Heartbeats hold the fetches back, and then all four are ready at once.
        arrive(session, *[heartbeat_frame(), fetch_frame()] * 2)
        line.is_narrow = True
        for wait in waits:
            wait.set_result(HeartbeatResponse())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        places = [line.written.index(bytes([mark]) * 1_000) for mark in b"abcd"]
        assert places == sorted(places)
        session.connection_lost(None)

    asyncio.run(run())


def test_it_says_when_a_large_request_has_come_in_part() -> None:
    async def run() -> None:
        told: list[None] = []
        session, _ = served_by(
            lambda body, context: HeartbeatResponse(),
            max_in_flight=10_000,
            expect_much=lambda: told.append(None),
        )
        receive(session, LARGE_READ_BYTES // len(heartbeat_frame()) + 1)
        assert told == [], "it has come whole, however large it is"
        request = SIZE.pack(3 * LARGE_READ_BYTES)
        arrive(session, request + bytes(LARGE_READ_BYTES - len(request) - 1))
        assert told == [], "it is little"
        arrive(session, bytes(LARGE_READ_BYTES))
        assert len(told) == 1

        session, _ = served_by(
            lambda body, context: HeartbeatResponse(),
            max_in_flight=10_000,
            expect_much=lambda: told.append(None),
        )
        arrive(session, heartbeat_frame(), request + bytes(LARGE_READ_BYTES))
        assert len(told) == 2, "behind one that is whole, too"

    asyncio.run(run())
