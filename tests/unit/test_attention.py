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
    AttentiveLoop,
    AttentiveSelector,
    Expectation,
    attentive_loop,
    processor_count,
)
from ottla.runtime.network import RealNetwork
from ottla.runtime.syncing import DiskThreads

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
        ("ssssssss", "llllssss"),  # a client that asks one thing after the other
        ("slslslslsl", "llllllslsl"),  # the same, and a disk
        ("ssssssllllll", "llllssslllll"),  # a client that has gone
        ("ssllssllssllssll", "llllllllssllssll"),  # two waits decide
        (15 * "ssssssssl", 3 * "?????????" + 12 * "sssssssss"),  # one that is late at times
    ],
)
def test_a_wait_is_expected_to_be_what_it_was_twice_after_the_same_two(
    waits: str, expected: str
) -> None:
    found = guesses(waits)
    assert "".join(f if e != "?" else e for f, e in zip(found, expected, strict=True)) == expected


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


def spent_s(selector: AttentiveSelector, timeout_s: float) -> float:
    """How long a wait kept the processor busy."""
    began_s = time.thread_time()
    assert selector.select(timeout_s) == []
    return time.thread_time() - began_s


def test_after_short_waits_it_looks(eager: AttentiveSelector) -> None:
    assert spent_s(eager, 0.2) > 0.01


def test_after_long_waits_it_sleeps() -> None:
    with AttentiveSelector(0.02) as selector:
        for _ in range(4):
            selector.select(0.03)

        assert spent_s(selector, 0.1) < 0.01


def test_to_ask_without_waiting_is_no_short_wait() -> None:
    with AttentiveSelector(LONG_S) as selector:
        for _ in range(4):
            selector.select(0)

        assert spent_s(selector, 0.1) < 0.01


def test_looking_counts_as_waiting(eager: AttentiveSelector) -> None:
    began_s = time.monotonic()

    eager.select(0.5)

    assert 0.5 <= time.monotonic() - began_s < 0.9


def test_it_sleeps_while_a_thread_has_an_errand_for_it(eager: AttentiveSelector) -> None:
    eager.errand_count = 1

    assert spent_s(eager, 0.2) < 0.01

    eager.errand_count = 0
    assert spent_s(eager, 0.2) > 0.01, "and it has learned nothing from that"


def test_what_disk_threads_do_is_an_errand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.runtime.attention.processor_count", lambda: 2)
    threads = DiskThreads("test", most=2)

    def fail(_: int) -> None:
        raise OSError(5, "broken")

    async def run() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, AttentiveLoop)
        for act in (lambda _: None, fail):
            working = asyncio.ensure_future(threads.work_off([[1], [2]], act))
            await asyncio.sleep(0)
            assert loop.attention.errand_count == 1
            await asyncio.gather(working, return_exceptions=True)
            assert loop.attention.errand_count == 0

    with asyncio.Runner(loop_factory=lambda: attentive_loop(250)) as runner:
        runner.run(run())
    threads.stop()


def test_told_that_much_comes_it_sleeps_in_the_next_wait(eager: AttentiveSelector) -> None:
    eager.sleep_next()

    assert spent_s(eager, 0.2) < 0.01
    assert spent_s(eager, 0.2) > 0.01, "and looks in the one after that"

    eager.sleep_next()
    eager.errand_count = 1
    eager.select(0.01)  # which is no wait for a client
    eager.errand_count = 0
    assert spent_s(eager, 0.2) < 0.01


def test_a_network_tells_the_loop_that_much_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.runtime.attention.processor_count", lambda: 2)
    told: list[AttentiveSelector] = []
    monkeypatch.setattr(AttentiveSelector, "sleep_next", lambda selector: told.append(selector))

    async def run() -> None:
        RealNetwork().expect_much()

    asyncio.run(run())
    assert told == [], "a usual loop sleeps anyway"
    with asyncio.Runner(loop_factory=lambda: attentive_loop(250)) as runner:
        runner.run(run())
    assert len(told) == 1
