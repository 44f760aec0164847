"""Reads of what is not in memory: who waits, what may happen meanwhile, and what is told then."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any

import pytest

from ottla.broker.answers import Pending
from ottla.broker.cold_reads import AHEAD_BYTES, MAX_ROUNDS, without_blocking
from ottla.broker.context import Context
from ottla.broker.fetch_sessions import FULL_OPENS_SESSION
from ottla.errors import ErrorCode
from ottla.records.batch import Batch, batches
from ottla.records.builder import BatchOptions
from ottla.records.control import Marker, build_marker
from ottla.testing.disk import SimDisk
from ottla.testing.simulation import Simulation
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.wire.schema import api_of
from tests.broker_fixture import NO_SESSION, NOW_MS, LittleBroker
from tests.cluster_samples import done

FETCH_VERSION = 12
LIST_OFFSETS_VERSION = 7
READ_COMMITTED = 1
MAX_TIMESTAMP = -3
ONE_BATCH_A_SEGMENT = (("segment.index.bytes", "8"), ("index.interval.bytes", "0"))
BATCH_COUNT = 5
TOPICS = ("orders", "others")


def play(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """On virtual time: what waits for the disk waits there."""
    with Simulation(1) as sim:
        sim.run(scenario())


def with_records() -> LittleBroker:
    """Two topics, with a record in each of their segments."""
    broker = LittleBroker()
    for topic in TOPICS:
        broker.create(topic, configs=ONE_BATCH_A_SEGMENT)
        for number in range(BATCH_COUNT):
            broker.append(topic, b"%d" % number)
    assert len(broker.partition("orders").log.segments) == BATCH_COUNT
    return broker


def chilled(topic: str = "") -> LittleBroker:
    """The same after a while: its log is no longer in memory, and of old segments no index is."""
    broker = with_records()
    for segment in broker.partition("orders").log.segments[:-1]:
        segment.forget_indexes()
    broker.disk.chill(f"{topic}-0" if topic else "")
    return broker


def handled(broker: LittleBroker, request: Any, version: int) -> Any:
    """What the handler makes of it: a response, or something to await."""
    key = api_of(type(request)).key
    assert key is not None
    context = Context(broker.node, NO_SESSION, version, "test")
    return broker.node.routes[key].handler(request, context)


async def answered(broker: LittleBroker, request: Any, version: int) -> Any:
    return await outcome_of(handled(broker, request, version))


async def outcome_of(answer: Any) -> Any:
    """The response, once it is there; who is canceled meanwhile wants it no longer."""
    if not isinstance(answer, Pending):
        return await answer if inspect.isawaitable(answer) else answer
    told: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    answer.when_known(told.set_result)
    try:
        return await told
    finally:
        answer.cancel()


async def settled() -> None:
    """Let everybody have the turns that are due; this is virtual time."""
    await asyncio.sleep(0.001)


def fetch(*topics: str, offset: int = 0, **others: Any) -> FetchRequest:
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1_000_000)
    options = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1_000_000, **others}
    return FetchRequest(
        topics=tuple(FetchTopic(topic=topic, partitions=(wanted,)) for topic in topics), **options
    )


def by_time(timestamp_ms: int) -> ListOffsetsRequest:
    asked = ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=timestamp_ms)
    topics = tuple(ListOffsetsTopic(name=topic, partitions=(asked,)) for topic in TOPICS)
    return ListOffsetsRequest(replica_id=-1, topics=topics)


def parts_of(response: FetchResponse) -> list[PartitionData]:
    return [part for topic in response.responses for part in topic.partitions]


def values_in(response: FetchResponse) -> list[bytes | None]:
    return [
        value
        for part in parts_of(response)
        for batch in batches(part.records or b"", partial_tail=False)
        for _, _, _, value, *_ in batch.records()
    ]


def test_what_is_in_memory_is_answered_at_once() -> None:
    response = handled(with_records(), fetch("orders", "others"), FETCH_VERSION)

    assert isinstance(response, FetchResponse)
    assert values_in(response) == [b"0", b"0"]


def test_who_reads_what_is_not_in_memory_waits_and_nobody_else_does() -> None:
    broker = chilled("orders")

    async def scenario() -> None:
        slow = asyncio.ensure_future(outcome_of(handled(broker, fetch("orders"), FETCH_VERSION)))
        await asyncio.sleep(0)
        quick = handled(broker, fetch("others"), FETCH_VERSION)
        assert isinstance(quick, FetchResponse)
        assert not slow.done()

        assert values_in(await slow) == [b"0"]
        assert broker.disk.blocking_read_count == 0

    play(scenario)


def test_every_partition_of_a_fetch_is_read_once_and_counted_once() -> None:
    broker = chilled()

    async def scenario() -> None:
        request = fetch("others", "orders", offset=1)
        response = await answered(broker, request, FETCH_VERSION)

        assert values_in(response) == [b"1", b"1"]
        for part, topic in zip(parts_of(response), request.topics, strict=True):
            assert broker.partition(topic.topic).fetched_bytes == len(part.records or b"")
        assert broker.disk.blocking_read_count == 0

    play(scenario)


def test_a_topic_may_be_deleted_while_a_fetch_waits_for_its_log() -> None:
    broker = chilled("orders")

    async def scenario() -> None:
        waiting = asyncio.ensure_future(
            outcome_of(handled(broker, fetch("orders", "others"), FETCH_VERSION))
        )
        await asyncio.sleep(0)
        done(broker.controller.delete_topics(["orders"]))

        gone, there = parts_of(await waiting)
        assert gone.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert there.error_code == ErrorCode.NONE

    play(scenario)


def test_records_may_be_deleted_while_a_fetch_waits_for_them() -> None:
    broker = chilled("orders")

    async def scenario() -> None:
        waiting = asyncio.ensure_future(outcome_of(handled(broker, fetch("orders"), FETCH_VERSION)))
        await asyncio.sleep(0)
        broker.partition("orders").log.advance_start(3)
        broker.partition("orders").log.delete_old_segments(NOW_MS)

        (part,) = parts_of(await waiting)
        assert part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    play(scenario)


def test_a_log_may_be_cut_while_a_fetch_waits_for_it() -> None:
    broker = chilled("orders")

    async def scenario() -> None:
        waiting = asyncio.ensure_future(
            outcome_of(handled(broker, fetch("orders", offset=2), FETCH_VERSION))
        )
        await asyncio.sleep(0)
        partition = broker.partition("orders")
        partition.log.truncate_to(2)
        partition.high_watermark = 2

        (part,) = parts_of(await waiting)
        assert (part.error_code, part.records) == (ErrorCode.NONE, b"")

    play(scenario)


def test_aborted_transactions_that_are_not_in_memory_are_told() -> None:
    broker = with_records()
    options = BatchOptions(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    broker.append("orders", b"never mind", options=options)
    abort = Marker(
        is_commit=False, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp_ms=NOW_MS
    )
    partition = broker.partition("orders")
    appended = partition.append_own(Batch.parse(build_marker(abort)), now_ms=NOW_MS)
    assert appended.error is ErrorCode.NONE
    broker.append("orders", b"after")
    for segment in partition.log.segments[:-1]:
        segment.forget_indexes()
    broker.disk.chill()

    async def scenario() -> None:
        request = fetch("orders", offset=BATCH_COUNT, isolation_level=READ_COMMITTED)
        (part,) = parts_of(await answered(broker, request, FETCH_VERSION))

        (aborted,) = part.aborted_transactions or ()
        assert (aborted.producer_id, aborted.first_offset) == (7, BATCH_COUNT)
        assert partition.fetched_bytes == len(part.records or b"")
        assert broker.disk.blocking_read_count == 0

    play(scenario)


def test_a_fetch_whose_time_is_up_is_answered_from_the_disk() -> None:
    broker = with_records()
    patient = fetch("orders", offset=BATCH_COUNT - 1, max_wait_ms=500, min_bytes=100_000)

    async def scenario() -> None:
        waiting = asyncio.ensure_future(outcome_of(handled(broker, patient, FETCH_VERSION)))
        await asyncio.sleep(0.4)
        assert not waiting.done()
        broker.disk.chill()

        assert values_in(await waiting) == [b"4"]
        assert broker.disk.blocking_read_count == 0
        await settled()
        assert not broker.partition("orders").waiters

    play(scenario)


@pytest.mark.parametrize("waits_before", [False, True])
def test_a_client_may_go_away_while_its_fetch_waits_for_the_disk(waits_before: bool) -> None:
    broker = with_records()
    broker.disk.warm_delay_ms = (1000.0, 1000.0)
    options = {"max_wait_ms": 100, "min_bytes": 100_000} if waits_before else {}

    async def scenario() -> None:
        if not waits_before:
            broker.disk.chill()
        request = fetch("orders", offset=BATCH_COUNT - 1, **options)
        waiting = asyncio.ensure_future(outcome_of(handled(broker, request, FETCH_VERSION)))
        await asyncio.sleep(0)
        broker.disk.chill()
        await asyncio.sleep(0.5)
        assert not waiting.done()

        waiting.cancel()
        await settled()

        assert waiting.cancelled()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert not broker.partition("orders").waiters

    play(scenario)


def test_a_fetch_session_goes_on_after_a_wait_for_the_disk() -> None:
    broker = chilled("orders")

    async def scenario() -> None:
        request = fetch("orders", session_id=0, session_epoch=FULL_OPENS_SESSION)
        first = await answered(broker, request, FETCH_VERSION)
        broker.disk.chill()
        following = fetch("orders", offset=1, session_id=first.session_id, session_epoch=1)
        second = await answered(broker, following, FETCH_VERSION)

        assert (values_in(first), values_in(second)) == ([b"0"], [b"1"])
        assert first.session_id == second.session_id != 0

    play(scenario)


@pytest.mark.parametrize(
    ("timestamp_ms", "offset"),
    [
        pytest.param(NOW_MS, 0, id="a time"),
        pytest.param(NOW_MS + 1, -1, id="later than all"),
        pytest.param(MAX_TIMESTAMP, 0, id="the largest"),
    ],
)
def test_offsets_are_found_by_time_in_what_is_not_in_memory(timestamp_ms: int, offset: int) -> None:
    broker = chilled()

    async def scenario() -> None:
        response = await answered(broker, by_time(timestamp_ms), LIST_OFFSETS_VERSION)

        found = [(t.name, p.error_code, p.offset) for t in response.topics for p in t.partitions]
        assert found == [(topic, ErrorCode.NONE, offset) for topic in TOPICS]
        assert broker.disk.blocking_read_count == 0

    play(scenario)


def test_a_lost_index_that_is_not_in_memory_is_rebuilt_and_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = chilled()
    segment = broker.partition("orders").log.segments[0]
    broker.disk.remove(segment.path(".index"))

    async def scenario() -> None:
        assert values_in(await answered(broker, fetch("orders"), FETCH_VERSION)) == [b"0"]

    play(scenario)
    assert [record.message for record in caplog.records if "rebuilt" in record.message] != []
    assert len(caplog.records) == 1


class ShortOfMemory(SimDisk):
    """A disk on a machine that forgets what it was asked to remember."""

    def __init__(self) -> None:
        super().__init__()
        self.asked_bytes: list[int] = []

    async def warm(self, path: str, position: int, size_bytes: int) -> None:
        self.asked_bytes.append(size_bytes)


def test_where_memory_is_too_short_the_loop_waits_in_the_end() -> None:
    disk = ShortOfMemory()
    file = disk.open("a", create=True)
    file.write(0, b"espresso")
    disk.chill()

    async def scenario() -> None:
        assert await without_blocking(disk, lambda: file.read(0, 8)) == b"espresso"

    play(scenario)
    assert disk.blocking_read_count == 1
    assert len(disk.asked_bytes) == MAX_ROUNDS
    assert disk.asked_bytes[0] == AHEAD_BYTES
    assert all(after == 2 * before for before, after in pairwise(disk.asked_bytes))
