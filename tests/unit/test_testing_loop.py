"""The simulated loop: time jumps, order is drawn, a stuck run says so, the dead stay dead."""

import asyncio
import random
import time
from collections.abc import Iterator

import pytest

from ottla.testing.loop import Order, SimLoop, StuckError
from ottla.testing.process import WORLD, Process, context_of, current_process


@pytest.fixture
def loop() -> Iterator[SimLoop]:
    loop = SimLoop(random.Random(1))
    yield loop
    loop.close()


def test_a_year_passes_at_once(loop: SimLoop) -> None:
    began = time.monotonic()
    loop.run_until_complete(asyncio.sleep(365 * 86_400))
    assert loop.time() == 365 * 86_400
    assert time.monotonic() - began < 3600


def test_deadlines_are_met_in_order_and_exactly(loop: SimLoop) -> None:
    seen: list[tuple[str, float]] = []

    def see(name: str) -> None:
        seen.append((name, loop.time()))

    for delay_s, name in [(0.3, "c"), (0.1, "a"), (0.2, "b")]:
        loop.call_later(delay_s, see, name)
    loop.run_for(250)
    assert seen == [("a", 0.1), ("b", 0.2)]
    assert loop.time() == 0.25
    loop.run_for(50)
    assert [name for name, _ in seen] == ["a", "b", "c"]


def order_of_callbacks(seed: int, order: Order) -> list[int]:
    loop = SimLoop(random.Random(seed), order)
    seen: list[int] = []
    for number in range(20):
        loop.call_soon(seen.append, number)
    loop.run_for(0)
    loop.close()
    return seen


def test_the_order_of_callbacks_is_drawn_from_the_seed() -> None:
    orders = [order_of_callbacks(seed, Order.DRAWN) for seed in range(5)]
    assert len({tuple(order) for order in orders}) == 5
    assert all(sorted(order) == list(range(20)) for order in orders)
    assert orders == [order_of_callbacks(seed, Order.DRAWN) for seed in range(5)]


def test_the_order_can_be_asyncios_own() -> None:
    assert order_of_callbacks(1, Order.FIFO) == list(range(20))


def test_a_stuck_run_says_who_waits_and_where(loop: SimLoop) -> None:
    async def wait_for_nothing() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        await wait_for_nothing()

    with pytest.raises(StuckError, match=r"main of world#1 at .*locks\.py:\d+"):
        loop.run_until_complete(main())


def test_a_call_in_a_thread_pool_runs_on_the_loop_after_a_while(loop: SimLoop) -> None:
    def fail() -> None:
        raise LookupError("in the thread")

    async def main() -> None:
        assert await asyncio.to_thread(lambda: current_process()) is WORLD
        assert loop.time() > 0
        with pytest.raises(LookupError, match="in the thread"):
            await loop.run_in_executor(None, fail)

    loop.run_until_complete(main())


def test_asyncios_tools_work(loop: SimLoop) -> None:
    async def main() -> list[int]:
        queue: asyncio.Queue[int] = asyncio.Queue(maxsize=2)

        async def put() -> None:
            for number in range(10):
                await queue.put(number)

        async def take() -> list[int]:
            return [await queue.get() for _ in range(10)]

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(put())
            taking = tasks.create_task(take())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await loop.create_future()
        async with asyncio.Lock():
            return taking.result()

    assert loop.run_until_complete(main()) == list(range(10))


def test_tasks_have_the_same_names_in_every_run(loop: SimLoop) -> None:
    async def work() -> str:
        task = asyncio.current_task()
        assert task is not None
        return task.get_name()

    assert loop.run_until_complete(work()).endswith("work")
    named = loop.create_task(work(), name="flusher")
    assert loop.run_until_complete(named) == "flusher"


def test_nothing_of_a_killed_process_ever_runs(loop: SimLoop) -> None:
    process = Process("node")
    events: list[str] = []

    async def child() -> None:
        await asyncio.sleep(0.2)
        events.append("child")

    async def main() -> None:
        keep = asyncio.ensure_future(child())
        loop.call_later(0.2, events.append, "timer")
        loop.call_soon(events.append, "soon")
        try:
            while True:
                events.append(str(current_process()))
                await asyncio.sleep(0.1)
        finally:
            events.append("finally")
            loop.call_soon(events.append, "after the end")
            await keep

    loop.create_task(main(), context=context_of(process))
    loop.run_for(50)
    assert sorted(events) == ["node#1", "soon"]

    loop.kill(process)
    loop.run_for(1000)

    assert sorted(events) == ["node#1", "soon"]


def test_a_killed_process_cannot_begin_anything(loop: SimLoop) -> None:
    process = Process("node")
    loop.kill(process)
    events: list[str] = []

    def begin() -> list[asyncio.Handle]:
        return [
            loop.call_soon(events.append, "soon"),
            loop.call_later(1, events.append, "later"),
            loop.call_soon_threadsafe(events.append, "from a thread"),
        ]

    for handle in context_of(process).run(begin):
        assert handle.cancelled()
        handle.cancel()
    loop.run_for(2000)
    assert events == []


def test_coroutines_that_never_ended_reach_nothing_when_the_loop_closes() -> None:
    loop = SimLoop(random.Random(1))
    events: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(1)
        finally:
            loop.call_soon(events.append, "called")
            events.append("finally")
            await asyncio.sleep(1)
            events.append("awaited")

    loop.create_task(work())
    loop.run_for(1)
    loop.create_task(work())
    loop.close()
    loop.close()
    assert events == ["finally"]
