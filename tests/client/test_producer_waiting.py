"""What a producer waits for, and who wakes it: brokers that come back, ids, room in the buffer."""

import asyncio
from contextlib import suppress

import pytest

from ottla.errors import DeadlineError, DeliveryErrors, ErrorCode
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.registry import ApiKey
from tests.client.scripted import HOLD, SILENCE, topic
from tests.client.txn_world import TOPIC, SimulatedProducer, Taker, play

SOON_S = 5
LONG_S = 35
RECORD_BYTES = 100


def now_s() -> float:
    return asyncio.get_running_loop().time()


def test_a_leader_that_hung_up_is_called_again_when_its_pause_is_over() -> None:
    leader = Taker(2, node_id=2, host="leader")
    first = Taker(2)
    first.knows(leader)

    async def story(producer: SimulatedProducer) -> float:
        await producer.send(TOPIC, b"a")
        leader.hang_up()
        await asyncio.sleep(0.005)  # metadata, which the other has, comes before the pause ends
        start_s = now_s()
        await producer.send(TOPIC, b"b")
        return now_s() - start_s

    assert play(story, first, leader, reconnect_backoff_ms=1_000) < SOON_S


def test_a_producer_asks_for_its_id_longer_than_one_call_takes() -> None:
    broker = Taker(1)
    plain = broker.init

    def init(request: InitProducerIdRequest, version: int) -> object:
        if now_s() < LONG_S:
            loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return InitProducerIdResponse(error_code=loading, producer_epoch=-1)
        return plain(request, version)

    broker.handlers[ApiKey.INIT_PRODUCER_ID] = init

    async def story(producer: SimulatedProducer) -> int:
        return (await producer.send(TOPIC, b"a")).offset

    assert play(story, broker, default_api_timeout_ms=10_000, request_timeout_ms=10_000) == 0


def test_who_waits_for_room_that_there_is_goes_on_at_once() -> None:
    async def story(producer: SimulatedProducer) -> float:
        await producer.send(TOPIC, b"a")
        start_s = now_s()
        # All memory may be freed between the look that found none, and the wait.
        await producer._core.intake.room(RECORD_BYTES, start_s + 60)
        return now_s() - start_s

    assert play(story, Taker(1)) == 0


def test_who_stops_waiting_for_room_is_not_called() -> None:
    broker = Taker(1)

    async def story(producer: SimulatedProducer) -> int:
        await producer.send(TOPIC, b"a")
        broker.handlers[ApiKey.PRODUCE] = lambda request, version: SILENCE
        await producer.enqueue(TOPIC, b"x" * 800)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await producer.enqueue(TOPIC, b"x" * 800)
        return len(producer._core.pump.memory_waiters)

    assert play(story, broker, buffer_memory=1_200) == 0


@pytest.mark.parametrize("in_flight", [1, 5])
def test_who_waits_for_room_has_it_when_a_batch_is_answered_while_others_wait(
    in_flight: int,
) -> None:
    async def story(producer: SimulatedProducer) -> float:
        await producer.send(TOPIC, b"a")
        start_s = now_s()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(12):
                tasks.create_task(producer.send(TOPIC, b"x" * 300))
        return now_s() - start_s

    options = {"max_in_flight_requests_per_connection": in_flight, "max_block_ms": 60_000}
    assert play(story, Taker(1), buffer_memory=1_200, batch_size=400, **options) < SOON_S


def test_who_waits_for_room_has_it_when_what_else_waits_cannot_be_sent() -> None:
    nowhere = 9

    async def story(producer: SimulatedProducer) -> float:
        await producer.send(TOPIC, b"a", partition=0)
        await producer.enqueue(TOPIC, b"x" * 300, partition=1)
        start_s = now_s()
        await producer.enqueue(TOPIC, b"x" * 600, partition=0)
        await producer.enqueue(TOPIC, b"x" * 600, partition=0)
        return now_s() - start_s

    options = {"buffer_memory": 1_200, "max_block_ms": 60_000}
    assert play(story, Taker(1, nowhere), **options) < SOON_S


def test_metadata_and_memory_are_waited_for_together_no_longer_than_max_block_ms() -> None:
    leader = Taker(2, node_id=2, host="leader")
    first = Taker(2)
    first.knows(leader)
    plain, known, late = first.handlers[ApiKey.METADATA], first.topics, "late"

    def metadata(request: MetadataRequest, version: int) -> object:
        """A topic that has a leader after a while."""
        unled = topic(late, error=ErrorCode.LEADER_NOT_AVAILABLE)
        first.topics = (*known, topic(late, 2) if now_s() > LONG_S else unled)
        return plain(request, version)

    first.handlers[ApiKey.METADATA] = leader.handlers[ApiKey.METADATA] = metadata

    async def story(producer: SimulatedProducer) -> float:
        await producer.send(TOPIC, b"a")
        leader.handlers[ApiKey.PRODUCE] = lambda request, version: HOLD
        await producer.enqueue(TOPIC, b"x" * 800)
        start_s = now_s()
        with pytest.raises(DeadlineError, match=r"buffer\.memory"):
            await producer.enqueue(late, b"x" * 800)
        return now_s() - start_s

    took_s = play(story, first, leader, buffer_memory=1_200, max_block_ms=60_000)
    assert took_s == pytest.approx(60, abs=1)


@pytest.mark.parametrize("timeout_s", [0.5, 10.0])
def test_closing_takes_no_longer_than_it_may_although_nobody_acknowledges(timeout_s: float) -> None:
    broker = Taker(1)

    async def story(producer: SimulatedProducer) -> float:
        await producer.send(TOPIC, b"a")
        broker.stop_reading()
        for _ in range(4):
            await producer.enqueue(TOPIC, b"x" * 900_000)
        await asyncio.sleep(1)
        start_s = now_s()
        with suppress(DeliveryErrors):
            await producer.aclose(timeout_s)
        return now_s() - start_s

    assert timeout_s <= play(story, broker, acks=0) < timeout_s + SOON_S
