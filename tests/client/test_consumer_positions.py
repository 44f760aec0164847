"""Where consumers read although something is in the way: partitions, schemas, wishes given up."""

import asyncio

import pyarrow as pa
import pytest

from ottla.errors import SerializationError
from ottla.records.control import Marker, build_marker
from ottla.wire.messages.fetch import PartitionData
from ottla.wire.registry import ApiKey
from ottla.wire.schema import replace
from tests.client.consumer_world import TOPIC, Library, SimulatedConsumer, play, tp
from tests.client.scripted import SILENCE

SOON_S = 5


async def offsets(consumer: SimulatedConsumer, timeout_s: float = 30) -> list[tuple[int, int]]:
    batch = await consumer.poll(timeout_s)
    return [(record.partition, record.offset) for record in batch]


@pytest.mark.parametrize("leader", [-1, 2])
def test_a_partition_that_cannot_be_reached_keeps_no_other_from_being_read(leader: int) -> None:
    library = Library(1, leader, others=(2,))

    async def story(consumer: SimulatedConsumer) -> list[tuple[int, int]]:
        await consumer.assign([tp(0), tp(1)])
        first = await offsets(consumer, SOON_S)
        library.ends[0] = 4
        await consumer.seek(tp(0), 3)
        return first + await offsets(consumer, SOON_S)

    found = play(story, library, auto_offset_reset="earliest")
    assert found == [(0, 0), (0, 1), (0, 2), (0, 3)]


def test_a_partition_that_is_reached_at_last_is_read() -> None:
    library = Library(1, -1)

    async def story(consumer: SimulatedConsumer) -> list[tuple[int, int]]:
        await consumer.assign([tp(0), tp(1)])
        await offsets(consumer)
        library.topics = Library(1, 1).topics
        return await offsets(consumer)

    assert play(story, library, auto_offset_reset="earliest") == [(1, 0), (1, 1), (1, 2)]


def test_what_no_schema_fits_is_not_passed_over() -> None:
    async def story(consumer: SimulatedConsumer) -> list[tuple[int, int]]:
        await consumer.assign({tp(0): 0})
        with pytest.raises(SerializationError):
            await consumer.poll_arrow(30, schema=pa.schema([("a", pa.int64())]))
        assert await consumer.position(tp(0)) == 0
        return await offsets(consumer)

    assert play(story, Library(1)) == [(0, 0), (0, 1), (0, 2)]


class Bookends(Library):
    """Has nothing but marks of transactions, and never comes to an end."""

    def _data(self, partition: int, offset: int) -> PartitionData:
        mark = Marker(
            is_commit=True, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=1
        )
        records = build_marker(mark, base_offset=offset, partition_leader_epoch=0)
        data = super()._data(partition, offset)
        return replace(
            data, records=bytes(records), high_watermark=offset + 1, last_stable_offset=offset + 1
        )


@pytest.mark.parametrize("is_arrow", [True, False])
def test_what_is_no_record_does_not_make_a_poll_last_longer(is_arrow: bool) -> None:
    library = Bookends(1)

    async def story(consumer: SimulatedConsumer) -> None:
        await consumer.assign({tp(0): 0})
        async with asyncio.timeout(2):
            if is_arrow:
                assert await consumer.poll_arrow(0.5) is None
            else:
                assert not await consumer.poll(0.5)

    play(story, library)
    assert len(library.fetched) > 2, "there was something to read all the time"


def test_what_is_paused_takes_no_room_from_others() -> None:
    library = Library(1, 1)
    library.ends = {0: 500, 1: 0}

    async def story(consumer: SimulatedConsumer) -> list[tuple[int, int]]:
        await consumer.assign({tp(0): 0, tp(1): 0})
        await asyncio.sleep(1)
        await consumer.pause(tp(0))
        library.ends[1] = 2
        return await offsets(consumer)

    assert play(story, library, queued_max_bytes=1024) == [(1, 0), (1, 1)]


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_who_stops_waiting_to_unsubscribe_can_subscribe_again(turns: int) -> None:
    library = Library(1)

    async def story(consumer: SimulatedConsumer) -> list[tuple[int, int]]:
        await consumer.subscribe(TOPIC)
        assert await offsets(consumer) != []
        leaving = asyncio.ensure_future(consumer.unsubscribe())
        for _ in range(turns):
            await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.wait([leaving])
        await consumer.subscribe(TOPIC)
        library.ends[0] = 4
        return (await offsets(consumer))[-1:]

    assert play(story, library, auto_offset_reset="earliest") == [(0, 3)]


def test_a_fetch_without_answer_is_given_up_and_asked_again() -> None:
    library = Library(1)
    plain = library.fetch
    library.handlers[ApiKey.FETCH] = lambda request, version: SILENCE

    async def story(consumer: SimulatedConsumer) -> list[tuple[int, int]]:
        await consumer.assign({tp(0): 0})
        assert await offsets(consumer, 1) == []
        library.handlers[ApiKey.FETCH] = plain
        return await offsets(consumer)

    found = play(story, library, request_timeout_ms=2_000)
    assert found == [(0, 0), (0, 1), (0, 2)]


def test_the_next_record_is_not_given_after_a_stop_and_stays_unread() -> None:
    async def story(consumer: SimulatedConsumer) -> int:
        await consumer.assign({tp(0): 0})
        assert (await anext(consumer)).offset == 0
        consumer.stop()
        with pytest.raises(StopAsyncIteration):
            await anext(consumer)
        return await consumer.position(tp(0))

    assert play(story, Library(1)) == 1


def test_no_fetch_session_is_kept_with_a_broker_that_left() -> None:
    library = Library(1)

    async def story(consumer: SimulatedConsumer) -> tuple[list[int], list[int]]:
        core = consumer._reading.core
        await consumer.assign({tp(0): 0})
        await offsets(consumer)
        assert core._fetcher is not None
        before = list(core._fetcher.sessions)
        library.node_id, library.topics = 2, Library(2).topics
        await core.engine.refresh()
        # What the broker was asked before it left may be answered with the first of them.
        for end in (4, 5):
            library.ends[0] = end
            assert await offsets(consumer) == [(0, end - 1)]
        return before, list(core._fetcher.sessions)

    assert play(story, library) == ([1], [2])


def test_a_leader_that_says_nothing_does_not_delay_what_others_are_asked() -> None:
    library = Library(1, 2, 1, others=(2,))

    async def story(consumer: SimulatedConsumer) -> float:
        loop = asyncio.get_running_loop()
        await consumer.assign([tp(0), tp(1)])
        start_s = loop.time()
        found = await offsets(consumer)
        await consumer.seek(tp(0), "beginning")
        found += await offsets(consumer)
        await consumer.assign([tp(0), tp(1), tp(2)])
        found += await offsets(consumer)
        assert found == [(p, offset) for p in (0, 0, 2) for offset in range(3)]
        return loop.time() - start_s

    took_s = play(story, library, auto_offset_reset="earliest", is_nowhere_silent=True)
    assert took_s < SOON_S
