"""How a consumer reads from a broker that says what a test wants: sessions, leaders, truncation."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ottla.errors import DeniedError, ErrorCode, PositionError
from ottla.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from ottla.wire.registry import ApiKey
from tests.client.consumer_world import SimulatedConsumer
from tests.client.consumer_world import play as play_with
from tests.client.scripted import ScriptedBroker, topic
from tests.consumer_samples import TP, plain_batch

LOG_END = 10
SESSION = 99


class Log:
    """One partition with ten records; what its leader says of it can be changed."""

    def __init__(self) -> None:
        self.epoch = 1
        self.end = LOG_END
        self.refusals: list[ErrorCode] = []
        self.asked: list[tuple[int, int]] = []
        """Offset and leader epoch of each fetch that told of the partition."""
        self.sessions: list[tuple[int, int]] = []
        self._offset = 0
        self.broker = ScriptedBroker()
        self.elect(1)
        self.broker.handlers |= {
            ApiKey.FETCH: self.fetch,
            ApiKey.OFFSET_FOR_LEADER_EPOCH: self.epoch_end,
        }

    def elect(self, epoch: int) -> None:
        """A new leader, which happens to be the same broker."""
        self.epoch = epoch
        self.broker.topics = (topic("orders", 1, epoch=epoch),)

    def fetch(self, request: FetchRequest, version: int) -> FetchResponse:
        self.sessions.append((request.session_id, request.session_epoch))
        code, epoch = ErrorCode.NONE, self.epoch
        for told in request.topics:
            for wanted in told.partitions:
                self._offset, epoch = wanted.fetch_offset, wanted.current_leader_epoch
                self.asked.append((self._offset, epoch))
        if self.refusals:
            code = self.refusals.pop(0)
        elif epoch < self.epoch:
            code = ErrorCode.FENCED_LEADER_EPOCH
        elif self._offset > self.end:
            code = ErrorCode.OFFSET_OUT_OF_RANGE
        count = self.end - self._offset if code is ErrorCode.NONE else 0
        records = bytes(plain_batch(self._offset, count, epoch=self.epoch).data) if count else None
        data = PartitionData(
            partition_index=0,
            error_code=code,
            high_watermark=self.end,
            last_stable_offset=self.end,
            aborted_transactions=None,
            records=records,
        )
        topic_id = topic("orders", 1).topic_id
        return FetchResponse(
            session_id=SESSION,
            responses=(FetchableTopicResponse(topic_id=topic_id, partitions=(data,)),),
        )

    def epoch_end(
        self, request: OffsetForLeaderEpochRequest, version: int
    ) -> OffsetForLeaderEpochResponse:
        end = EpochEndOffset(partition=0, leader_epoch=1, end_offset=self.end)
        return OffsetForLeaderEpochResponse(
            topics=(OffsetForLeaderTopicResult(topic="orders", partitions=(end,)),)
        )


async def read(consumer: SimulatedConsumer, count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        found += [record.offset for record in await consumer.poll(30)]
    return found


def play(log: Log, story: Callable[[SimulatedConsumer], Any], **options: Any) -> Any:
    async def assigned(consumer: SimulatedConsumer) -> Any:
        await consumer.assign({TP: 0})
        return await story(consumer)

    return play_with(assigned, log.broker, **options)


def test_a_session_is_opened_once_and_then_only_changes_are_told() -> None:
    log = Log()

    async def story(consumer: SimulatedConsumer) -> list[int]:
        found = await read(consumer, LOG_END)
        await consumer.poll(3)
        return found

    assert play(log, story) == list(range(LOG_END))
    assert log.sessions[:3] == [(0, 0), (SESSION, 1), (SESSION, 2)]
    assert log.asked == [(0, 1), (LOG_END, 1)]


def test_a_new_leader_that_has_everything_is_read_from_where_we_are() -> None:
    log = Log()

    async def story(consumer: SimulatedConsumer) -> list[int]:
        await read(consumer, LOG_END)
        log.elect(2)
        log.end = LOG_END + 3
        return await read(consumer, 3)

    assert play(log, story) == [10, 11, 12]
    assert log.broker.count(OffsetForLeaderEpochRequest) == 1
    assert (10, 2) in log.asked


def truncated(log: Log, to: int) -> None:
    log.elect(2)
    log.end = to


def test_after_a_truncation_reading_goes_on_where_the_logs_part() -> None:
    log = Log()

    async def story(consumer: SimulatedConsumer) -> tuple[list[int], int]:
        await read(consumer, LOG_END)
        truncated(log, 7)
        await consumer.poll(3)
        position = await consumer.position(TP)
        log.end = 9
        return await read(consumer, 2), position

    assert play(log, story, auto_offset_reset="earliest") == ([7, 8], 7)


def test_without_a_reset_a_truncation_is_an_error() -> None:
    log = Log()

    async def story(consumer: SimulatedConsumer) -> None:
        await read(consumer, LOG_END)
        truncated(log, 7)
        with pytest.raises(PositionError, match="truncated below offset 10"):
            await consumer.poll(30)

    play(log, story, auto_offset_reset="none")


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_refusals_that_time_mends_are_waited_out(code: ErrorCode) -> None:
    log = Log()
    log.refusals = [code, code]
    assert play(log, lambda consumer: read(consumer, LOG_END)) == list(range(LOG_END))


def test_who_may_not_read_is_told_so() -> None:
    log = Log()
    log.refusals = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]

    async def story(consumer: SimulatedConsumer) -> list[int]:
        with pytest.raises(DeniedError, match="orders-0"):
            await consumer.poll(30)
        return await read(consumer, LOG_END)

    assert play(log, story) == list(range(LOG_END))


def test_what_is_fetched_ahead_is_bounded_and_reading_makes_room() -> None:
    log = Log()

    async def story(consumer: SimulatedConsumer) -> list[int]:
        assert len(await consumer.poll(30, max_records=1)) == 1
        for _ in range(10):
            log.end += 1
            await asyncio.sleep(1)
        assert [offset for offset, _ in log.asked] == [0, 10, 11]
        return await read(consumer, 19)

    assert play(log, story) == list(range(1, 20))
