"""Producer ids: fetched in blocks, for all who ask, and never for one alone."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import cast

import pytest

from ottla.broker.producer_ids import ProducerIds
from ottla.cluster.controller import Controller
from ottla.errors import StorageError


class Blocks:
    """A controller that gives a block of ids when the test says so."""

    def __init__(self) -> None:
        self.asked: list[asyncio.Future[Iterable[int]]] = []

    async def allocate_producer_ids(self) -> Iterable[int]:
        self.asked.append(asyncio.get_running_loop().create_future())
        return await self.asked[-1]


def play(scenario: Callable[[ProducerIds, Blocks], Awaitable[None]]) -> None:
    async def run() -> None:
        blocks = Blocks()
        await scenario(ProducerIds(cast(Controller, blocks)), blocks)

    asyncio.run(run())


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_one_block_is_fetched_for_all_who_wait() -> None:
    async def scenario(ids: ProducerIds, blocks: Blocks) -> None:
        waiting = [asyncio.ensure_future(ids.next_id()) for _ in range(3)]
        await settle()
        assert len(blocks.asked) == 1
        blocks.asked[0].set_result(range(10, 20))
        assert sorted(await asyncio.gather(*waiting)) == [10, 11, 12]

    play(scenario)


def test_the_fetch_goes_on_when_the_first_to_ask_is_gone() -> None:
    async def scenario(ids: ProducerIds, blocks: Blocks) -> None:
        first, second = (asyncio.ensure_future(ids.next_id()) for _ in range(2))
        await settle()
        first.cancel()
        await settle()
        blocks.asked[0].set_result(range(10, 20))
        assert await second == 10
        assert len(blocks.asked) == 1

    play(scenario)


def test_who_cannot_wait_finds_an_id_the_next_time() -> None:
    async def scenario(ids: ProducerIds, blocks: Blocks) -> None:
        assert ids.take() is None
        await settle()
        blocks.asked[0].set_result(range(10, 12))
        await settle()
        assert [ids.take(), ids.take(), ids.take()] == [10, 11, None]

    play(scenario)


def test_a_block_that_cannot_be_had_is_told_of_and_asked_for_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(ids: ProducerIds, blocks: Blocks) -> None:
        assert ids.take() is None
        await settle()
        blocks.asked[0].set_exception(StorageError("the store is gone"))
        await settle()
        assert "no producer ids: the store is gone" in caplog.text
        assert ids.take() is None
        await settle()
        assert len(blocks.asked) == 2
        ids.close()

    with caplog.at_level(logging.ERROR, logger="ottla"):
        play(scenario)
