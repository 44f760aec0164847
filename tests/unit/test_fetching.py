"""Fetches that wait: for how long, and who still knows of them when they do not any more."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.broker.answers import Outcome
from ottla.broker.context import Context
from ottla.broker.fetching import MAX_WAIT_MS, PendingFetch
from ottla.broker.handlers.fetch import fetch
from ottla.broker.partition import Partition
from ottla.errors import ErrorCode
from ottla.testing.loop import Order
from ottla.testing.simulation import Simulation
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.broker_fixture import NO_SESSION, LittleBroker
from tests.cluster_samples import done

ANSWER = FetchResponse(responses=())
ONE_BATCH_A_SEGMENT = (("segment.index.bytes", "8"), ("index.interval.bytes", "0"))


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
        assert await pending(max_wait_ms=max_wait_ms) is ANSWER
        assert asyncio.get_running_loop().time() * 1000 == pytest.approx(waited_ms)

    simulate(scenario)


def test_a_fetch_waits_on_until_there_is_enough() -> None:
    async def scenario() -> None:
        waited_for, looks = partition(), iter([False, True])
        fetch = pending(waited_for, max_wait_ms=1000, has_enough=lambda: next(looks))
        told: list[Outcome] = []
        fetch.when_known(told.append)
        for is_answered in (False, True):
            waiters, waited_for.waiters = waited_for.waiters, {}
            for waiter in waiters:
                waiter.on_advance(waited_for)
            assert bool(told) is is_answered, "at once"

    simulate(scenario)


@pytest.mark.parametrize("is_given_up", [True, False], ids=["client gone", "answered"])
def test_a_fetch_that_is_over_is_forgotten_by_all_partitions(is_given_up: bool) -> None:
    async def scenario() -> None:
        places = [partition(), partition()]
        fetch = pending(*places, max_wait_ms=1000)
        assert [len(place.waiters) for place in places] == [1, 1]
        if is_given_up:
            fetch.cancel()
        else:
            await fetch
        assert [len(place.waiters) for place in places] == [0, 0]

    simulate(scenario)


@pytest.mark.parametrize("what", ["has_enough", "answer"])
def test_a_fetch_that_cannot_be_answered_is_nothing_to_whoever_moved_the_high_watermark(
    what: str,
) -> None:
    def broken() -> Any:
        raise OSError("an index cannot be read")

    async def scenario() -> None:
        place, told = partition(), list[Outcome]()
        parts: dict[str, Any] = {"has_enough": lambda: True, "answer": lambda: ANSWER, what: broken}
        fetch = PendingFetch(partitions=[place], max_wait_ms=1000, **parts)
        fetch.when_known(told.append)
        fetch.on_advance(place)
        assert [str(outcome) for outcome in told] == ["an index cannot be read"]
        assert not place.waiters

    simulate(scenario)


def test_who_asks_after_it_became_known_is_told_too_and_never_in_the_same_turn() -> None:
    async def scenario() -> None:
        place, told = partition(), list[Outcome]()
        fetch = pending(place, max_wait_ms=1000, has_enough=lambda: True)
        fetch.on_advance(place)
        fetch.when_known(told.append)
        assert told == []
        assert await fetch is ANSWER
        assert told == [ANSWER]

    simulate(scenario)


def patient(topic_id: bytes, min_bytes: int) -> FetchRequest:
    """A fetch of the first record, and of more than there is."""
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000_000)
    return FetchRequest(
        topics=(FetchTopic(topic="orders", topic_id=topic_id, partitions=(wanted,)),),
        max_wait_ms=MAX_WAIT_MS,
        min_bytes=min_bytes,
        max_bytes=1_000_000,
    )


@pytest.mark.parametrize(
    ("version", "error"),
    [(12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (13, ErrorCode.UNKNOWN_TOPIC_ID)],
)
@pytest.mark.parametrize("has_records", [True, False], ids=["too little", "nothing"])
def test_a_fetch_hears_at_once_that_what_it_waits_for_was_deleted(
    has_records: bool, version: int, error: ErrorCode
) -> None:
    async def scenario() -> None:
        broker = LittleBroker()
        topic = broker.create("orders")
        if has_records:
            broker.append("orders", b"one")
        context = Context(broker.node, NO_SESSION, version, "test")
        waiting = fetch(patient(topic.topic_id, min_bytes=100_000), context)
        assert isinstance(waiting, PendingFetch)
        told: list[Outcome] = []
        waiting.when_known(told.append)

        done(broker.controller.delete_topics(["orders"]))

        (response,) = told
        (part,) = response.responses[0].partitions
        assert part.error_code == error

    simulate(scenario)


def test_a_fetch_of_very_much_loads_no_indexes_of_what_it_counts_whole() -> None:
    async def scenario() -> None:
        broker = LittleBroker()
        topic = broker.create("orders", configs=ONE_BATCH_A_SEGMENT)
        for _ in range(5):
            broker.append("orders", b"one")
        _, *whole, _ = broker.partition("orders").log.segments
        context = Context(broker.node, NO_SESSION, 13, "test")

        fetch(patient(topic.topic_id, min_bytes=100_000), context)

        assert len(whole) == 3
        assert not any(segment._indexes for segment in whole)

    simulate(scenario)


@pytest.mark.parametrize("is_given_up", [True, False], ids=["client gone", "answered"])
def test_a_fetch_that_is_over_waits_for_no_garbage_collector(is_given_up: bool) -> None:
    async def scenario() -> None:
        place, told = partition(), list[Outcome]()
        fetch = pending(place, max_wait_ms=1000, has_enough=lambda: True)
        fetch.when_known(told.append)
        if is_given_up:
            fetch.cancel()
        else:
            fetch.on_advance(place)
        assert bool(told) is not is_given_up
        assert fetch._tell != told.append, "a session knows its fetches, and would be known by them"

    simulate(scenario)
