"""Fetches that wait: for how long, and who still knows of them when they do not any more."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ottla.broker.fetching import MAX_WAIT_MS, PendingFetch
from ottla.broker.partition import Partition
from ottla.testing.loop import Order
from ottla.testing.simulation import Simulation
from ottla.wire.messages.fetch import FetchResponse
from tests.broker_fixture import LittleBroker

ANSWER = FetchResponse(responses=())


def simulate(scenario: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        await scenario()

    with Simulation(seed=1, order=Order.FIFO) as sim:
        sim.run(run())


def partition() -> Partition:
    broker = LittleBroker()
    broker.create("orders")
    return broker.partition("orders")


def pending(
    *partitions: Partition, max_wait_ms: int, has_enough: Callable[[], bool] = lambda: False
) -> PendingFetch:
    return PendingFetch(
        partitions=list(partitions),
        max_wait_ms=max_wait_ms,
        has_enough=has_enough,
        answer=lambda: ANSWER,
    )


@pytest.mark.parametrize(("max_wait_ms", "waited_ms"), [(500, 500), (MAX_WAIT_MS + 1, MAX_WAIT_MS)])
def test_a_fetch_waits_as_long_as_its_client_wants_but_not_for_ever(
    max_wait_ms: int, waited_ms: int
) -> None:
    async def scenario() -> None:
        assert await pending(max_wait_ms=max_wait_ms).future is ANSWER
        assert asyncio.get_running_loop().time() * 1000 == pytest.approx(waited_ms)

    simulate(scenario)


def test_a_fetch_waits_on_until_there_is_enough() -> None:
    async def scenario() -> None:
        waited_for, looks = partition(), iter([False, True])
        fetch = pending(waited_for, max_wait_ms=1000, has_enough=lambda: next(looks))
        for is_answered in (False, True):
            waiters, waited_for.waiters = waited_for.waiters, []
            for waiter in waiters:
                waiter.on_advance(waited_for)
            assert fetch.future.done() is is_answered

    simulate(scenario)


@pytest.mark.parametrize("is_given_up", [True, False], ids=["client gone", "answered"])
def test_a_fetch_that_is_over_is_forgotten_by_all_partitions(is_given_up: bool) -> None:
    async def scenario() -> None:
        places = [partition(), partition()]
        fetch = pending(*places, max_wait_ms=1000)
        assert [len(place.waiters) for place in places] == [1, 1]
        if is_given_up:
            fetch.future.cancel()
        else:
            await fetch.future
        await asyncio.sleep(0)
        assert [len(place.waiters) for place in places] == [0, 0]

    simulate(scenario)
