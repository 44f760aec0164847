"""Duties: turns that are one when they are called together, alarms, and how they end."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from ottla.client.duty import Duty
from ottla.testing.loop import SimLoop

Story = Callable[[], Awaitable[None]]


def play(story: Story) -> None:
    loop = SimLoop(random.Random(1))
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(story())
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def now_s() -> float:
    return asyncio.get_running_loop().time()


class Worker:
    """Notes when it works, and wants to be called again at `due_s`."""

    def __init__(self) -> None:
        self.turns_s: list[float] = []
        self.due_s: float | None = None
        self.trouble: Exception | None = None
        self.duty = Duty(self.work)

    def work(self) -> float | None:
        self.turns_s.append(now_s())
        if self.trouble is not None:
            raise self.trouble
        return self.due_s


def test_calls_before_a_turn_are_one() -> None:
    async def story() -> None:
        worker = Worker()
        task = asyncio.create_task(worker.duty.run())
        await asyncio.sleep(1)
        worker.duty.call()
        worker.duty.call()
        await asyncio.sleep(1)
        assert worker.turns_s == [0, 1]
        task.cancel()

    play(story)


def test_an_alarm_rings_when_work_is_due_and_moves_only_forward() -> None:
    async def story() -> None:
        worker = Worker()
        worker.due_s = 5
        task = asyncio.create_task(worker.duty.run())
        await asyncio.sleep(1)
        worker.due_s = 3
        worker.duty.call()
        await asyncio.sleep(1)
        worker.due_s = 9  # the alarm at 3 stays, rings in vain, and then there is one at 9
        worker.duty.call()
        await asyncio.sleep(20)
        assert worker.turns_s[:5] == [0, 1, 2, 3, 9]
        task.cancel()

    play(story)


def test_what_is_overdue_does_not_stop_the_clock() -> None:
    async def story() -> None:
        worker = Worker()
        worker.due_s = 0
        task = asyncio.create_task(worker.duty.run())
        await asyncio.sleep(0.01)
        assert 2 < len(worker.turns_s) < 25
        task.cancel()

    play(story)


def test_work_that_raises_is_the_end_of_the_duty() -> None:
    async def story() -> None:
        worker = Worker()
        worker.trouble = LookupError("a bug")
        with pytest.raises(LookupError, match="a bug"):
            await worker.duty.run()
        worker.duty.turn()
        assert len(worker.turns_s) == 1

    play(story)


def test_nothing_is_done_before_it_runs_and_after_it_ended() -> None:
    async def story() -> None:
        worker = Worker()
        worker.duty.call()
        worker.duty.turn()
        worker.due_s = 1
        task = asyncio.create_task(worker.duty.run())
        await asyncio.sleep(0.5)
        task.cancel()
        worker.duty.call()
        await asyncio.sleep(5)
        assert worker.turns_s == [0]

    play(story)


def test_who_asks_is_told_whether_an_alarm_rings_by_then() -> None:
    async def story() -> None:
        worker = Worker()
        assert not worker.duty.rings_by(100)
        worker.due_s = 5
        task = asyncio.create_task(worker.duty.run())
        await asyncio.sleep(1)
        assert worker.duty.rings_by(5)
        assert not worker.duty.rings_by(4.9)
        worker.due_s = None
        await asyncio.sleep(5)
        assert not worker.duty.rings_by(100), "it rang, and nothing else is due"
        task.cancel()

    play(story)


def test_a_turn_that_was_taken_meanwhile_is_the_one_that_was_called_for() -> None:
    async def story() -> None:
        worker = Worker()
        task = asyncio.create_task(worker.duty.run())
        await asyncio.sleep(1)
        worker.duty.call()
        worker.duty.turn()
        await asyncio.sleep(1)
        assert worker.turns_s == [0, 1]
        worker.duty.call()
        await asyncio.sleep(1)
        assert worker.turns_s == [0, 1, 2]
        task.cancel()

    play(story)
