"""Turns: what one producer sends is done in the order in which it came."""

import asyncio

from ottla.broker.transactional import Turns


def test_what_came_later_waits_for_what_came_before() -> None:
    async def run() -> list[str]:
        turns, done = Turns(), list[str]()
        admitted = asyncio.Event()

        async def first() -> None:
            await admitted.wait()
            done.append("first")

        async def second() -> None:
            done.append("second")

        tasks = [turns.run(1, first), turns.run(1, second)]
        await asyncio.sleep(0)
        assert not turns.is_free(1)
        admitted.set()
        await asyncio.gather(*tasks)
        return done

    assert asyncio.run(run()) == ["first", "second"]


def test_a_turn_that_fails_or_is_given_up_lets_the_next_one_in() -> None:
    async def run() -> list[str]:
        turns, done = Turns(), list[str]()

        async def fails() -> None:
            raise ConnectionError("gone")

        async def hangs() -> None:
            await asyncio.Event().wait()

        async def last() -> None:
            done.append("last")

        tasks = [turns.run(1, fails), turns.run(1, hangs), turns.run(1, last)]
        await asyncio.wait(tasks[:1])
        tasks[1].cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes[:2]] == [
            ConnectionError,
            asyncio.CancelledError,
        ]
        return done

    assert asyncio.run(run()) == ["last"]


def test_one_that_is_given_up_while_it_waits_does_not_let_others_past_the_first() -> None:
    async def run() -> list[str]:
        turns, done = Turns(), list[str]()
        admitted = asyncio.Event()

        async def first() -> None:
            await admitted.wait()
            done.append("first")

        async def last() -> None:
            done.append("last")

        tasks = [turns.run(1, first), turns.run(1, admitted.wait), turns.run(1, last)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        await asyncio.wait(tasks[1:2])
        for _ in range(3):
            await asyncio.sleep(0)
        assert done == []
        admitted.set()
        await asyncio.gather(tasks[0], tasks[2])
        return done

    assert asyncio.run(run()) == ["first", "last"]


def test_producers_do_not_wait_for_each_other_and_are_forgotten() -> None:
    async def run() -> None:
        turns = Turns()
        never = asyncio.Event()
        waiting = turns.run(1, never.wait)
        assert turns.is_free(2)
        assert await turns.run(2, done) == "done"
        never.set()
        await waiting
        await asyncio.sleep(0)
        assert turns.is_free(1)
        assert turns.is_free(2)

    async def done() -> str:
        return "done"

    asyncio.run(run())
