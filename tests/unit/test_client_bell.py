"""Threads that have things done in an event loop."""

import asyncio
import gc
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Any

import pytest

from ottla.client.bell import Bell, call_soon_in

PATIENCE_S = 60.0

needs_counters = pytest.mark.skipif(
    not hasattr(os, "eventfd"), reason="this system has no event counters"
)


class PlainLoop(asyncio.SelectorEventLoop):
    """One that cannot watch files, as on Windows."""

    def add_reader(self, *args: Any) -> None:  # type: ignore[override]
        raise NotImplementedError


@pytest.mark.parametrize("kind", [asyncio.SelectorEventLoop, PlainLoop])
def test_what_many_threads_want_is_done_in_the_loop_and_nothing_is_lost(
    kind: type[asyncio.SelectorEventLoop],
) -> None:
    done: list[tuple[int, int, int]] = []

    async def story() -> None:
        over = asyncio.get_running_loop().create_future()
        call_soon = call_soon_in(asyncio.get_running_loop())

        def act(thread: int, number: int) -> None:
            done.append((thread, number, threading.get_ident()))
            if len(done) == 4 * 500:
                over.set_result(None)

        def busy(thread: int) -> None:
            for number in range(500):
                call_soon(partial(act, thread, number))

        with ThreadPoolExecutor(4) as pool:
            for thread in range(4):
                pool.submit(busy, thread)
            await asyncio.wait_for(over, PATIENCE_S)

    with asyncio.Runner(loop_factory=kind) as runner:
        runner.run(story())
    assert {ident for _, _, ident in done} == {threading.get_ident()}
    for thread in range(4):
        assert [number for who, number, _ in done if who == thread] == list(range(500))


@needs_counters
def test_what_fails_is_told_to_the_loop_and_the_rest_is_done() -> None:
    told: list[Any] = []
    done: list[str] = []

    async def story() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: told.append(context["exception"]))
        over = loop.create_future()
        bell = Bell(loop)
        bell.call_soon(lambda: done.append("first"))
        bell.call_soon(lambda: 1 // 0)
        bell.call_soon(lambda: over.set_result(None))
        await asyncio.wait_for(over, PATIENCE_S)

    asyncio.run(story())
    assert done == ["first"]
    assert [type(error) for error in told] == [ZeroDivisionError]


@needs_counters
@pytest.mark.parametrize("line_number", range(1, 6))
def test_a_bell_that_was_interrupted_while_it_was_rung_can_be_heard(line_number: int) -> None:
    def interrupt(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal line_number
        if frame.f_code is Bell.call_soon.__code__ and event == "line":
            line_number -= 1
            if line_number == 0:
                raise KeyboardInterrupt
        return interrupt

    async def story() -> None:
        loop = asyncio.get_running_loop()
        over = loop.create_future()
        bell = Bell(loop)
        sys.settrace(interrupt)
        with suppress(KeyboardInterrupt):
            bell.call_soon(lambda: None)
        sys.settrace(None)
        bell.call_soon(lambda: over.set_result(None))
        await asyncio.wait_for(over, PATIENCE_S)

    asyncio.run(story())


@needs_counters
def test_a_loop_has_one_bell_which_goes_with_it() -> None:
    loop = asyncio.SelectorEventLoop()
    call_soon = call_soon_in(loop)
    bell = call_soon.__self__  # type: ignore[attr-defined]
    assert call_soon_in(loop).__self__ is bell  # type: ignore[attr-defined]
    descriptor = bell._descriptor
    loop.close()
    call_soon(lambda: pytest.fail("nobody is there to do it"))
    os.fstat(descriptor)
    del call_soon, bell, loop
    gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
