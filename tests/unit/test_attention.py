"""Looking for the next event before sleeping: what is expected, and that nothing is missed."""

import asyncio
import os
import selectors
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from ottla.runtime.attention import (
    AttentiveSelector,
    Expectation,
    attentive_loop,
    processor_count,
)

LONG_S = 30.0
"""Attention that does not end during a test."""


def guesses(waits: str) -> str:
    """What is expected before each of the waits, "s" for a short one and "l" for a long one."""
    expectation = Expectation()
    found = ""
    for wait in waits:
        found += "s" if expectation.is_short else "l"
        expectation.learn(wait == "s")
    return found


@pytest.mark.parametrize(
    ("waits", "expected"),
    [
        ("llllllll", "llllllll"),  # at rest
        ("ssssssss", "lllsssss"),  # a client that asks one thing after the other
        ("slslslsl", "llllslsl"),  # the same, and a disk
        ("ssssllllll", "lllsslslll"),  # a client that has gone
        ("ssllssllssll", "llllssllssll"),  # two waits decide
    ],
)
def test_a_wait_is_expected_to_be_what_it_was_after_the_same_two(waits: str, expected: str) -> None:
    assert guesses(waits) == expected


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    reader, writer = socket.socketpair()
    with reader, writer:
        yield reader, writer


@pytest.fixture
def eager(ends: tuple[socket.socket, socket.socket]) -> Iterator[AttentiveSelector]:
    """One that looks around for a long time, because all of its waits were short."""
    reader, writer = ends
    with AttentiveSelector(LONG_S) as selector:
        selector.register(reader, selectors.EVENT_READ)
        writer.send(b"x")
        for _ in range(4):
            assert len(selector.select()) == 1
        reader.recv(1)
        yield selector


def test_what_comes_while_it_looks_is_found(
    eager: AttentiveSelector, ends: tuple[socket.socket, socket.socket]
) -> None:
    later = threading.Timer(0.05, ends[1].send, (b"x",))
    later.start()

    ((key, events),) = eager.select(LONG_S)

    assert (key.fileobj, events) == (ends[0], selectors.EVENT_READ)
    later.join()


def test_a_timeout_is_kept_while_it_looks(eager: AttentiveSelector) -> None:
    began_s = time.monotonic()

    assert eager.select(0.05) == []

    assert time.monotonic() - began_s >= 0.05


def test_a_look_without_a_timeout_ends_in_sleep(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    with AttentiveSelector(0.001) as selector:
        selector.register(ends[0], selectors.EVENT_READ)
        ends[1].send(b"x")
        for _ in range(4):
            selector.select()
        ends[0].recv(1)
        later = threading.Timer(0.1, ends[1].send, (b"x",))
        later.start()
        spent_s = time.thread_time()

        assert len(selector.select()) == 1

        assert time.thread_time() - spent_s < 0.05  # it did not look around for all of it
        later.join()


def test_timers_and_threads_are_heard_by_an_attentive_loop() -> None:
    async def wait() -> list[str]:
        loop = asyncio.get_running_loop()
        heard: list[str] = []
        for number in range(20):
            loop.call_later(number / 1000, heard.append, f"timer {number}")
        await asyncio.to_thread(lambda: loop.call_soon_threadsafe(heard.append, "thread"))
        await asyncio.sleep(0.1)
        return heard

    with asyncio.Runner(loop_factory=lambda: attentive_loop(250)) as runner:
        heard = runner.run(wait())

    assert "thread" in heard
    assert [each for each in heard if each != "thread"] == [f"timer {n}" for n in range(20)]


@pytest.mark.parametrize(
    ("attention_us", "processors", "is_attentive"), [(250, 2, True), (250, 1, False), (0, 2, False)]
)
def test_a_loop_is_attentive_where_it_may_be(
    attention_us: int, processors: int, is_attentive: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.runtime.attention.processor_count", lambda: processors)
    loop = attentive_loop(attention_us)
    try:
        assert isinstance(vars(loop)["_selector"], AttentiveSelector) is is_attentive
    finally:
        loop.close()


def test_the_processors_that_we_may_use_are_counted() -> None:
    assert 1 <= processor_count() <= (os.cpu_count() or 1)
