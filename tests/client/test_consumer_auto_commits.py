"""Automatic commits beside those of the program: none goes back behind what that has said."""

import asyncio
from typing import Any

import pytest

from ottla.errors import DeadlineError, DeniedError, ErrorCode
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from ottla.wire.registry import ApiKey
from tests.client.consumer_world import TOPIC, Library, SimulatedConsumer, play, tp

INTERVAL_S = 5
POLL_S = 60.0


class Keeper(Library):
    """Keeps offsets of one partition, and refuses some of them with a code."""

    def __init__(self) -> None:
        super().__init__(1)
        self.kept: list[int] = []
        self.refused: dict[int, ErrorCode] = {}
        self.handlers |= {
            ApiKey.OFFSET_FETCH: self.committed,
            ApiKey.OFFSET_COMMIT: self.commit,
        }

    def committed(self, request: OffsetFetchRequest, version: int) -> Any:
        """Nothing."""
        told = OffsetFetchResponseGroup(group_id=request.groups[0].group_id, topics=())
        return OffsetFetchResponse(groups=(told,))

    def commit(self, request: OffsetCommitRequest, version: int) -> Any:
        offset = request.topics[0].partitions[0].committed_offset
        code = self.refused.get(offset, ErrorCode.NONE)
        if code is ErrorCode.NONE:
            self.kept.append(offset)
        part = OffsetCommitResponsePartition(partition_index=0, error_code=code)
        return OffsetCommitResponse(
            topics=(OffsetCommitResponseTopic(name=TOPIC, partitions=(part,)),)
        )


def kept_by(keeper: Keeper, story: Any) -> list[int]:
    """What is kept at the end of a story, before the consumer is closed; or after it did that."""

    async def told(consumer: SimulatedConsumer) -> list[int]:
        await consumer.assign([tp(0)])
        await story(consumer)
        return list(keeper.kept)

    kept: list[int] = play(
        told,
        keeper,
        group_id="readers",
        auto_offset_reset="earliest",
        auto_commit_interval_ms=INTERVAL_S * 1000,
        default_api_timeout_ms=600_000,
    )
    return kept


async def read_one(consumer: SimulatedConsumer) -> None:
    """Take one record; the one before it is processed then."""
    assert len(await consumer.poll(POLL_S, max_records=1)) == 1


def test_a_commit_that_is_refused_brings_none_back_from_before_the_last_one() -> None:
    keeper = Keeper()
    keeper.refused[3] = ErrorCode.GROUP_AUTHORIZATION_FAILED

    async def story(consumer: SimulatedConsumer) -> None:
        await read_one(consumer)
        await read_one(consumer)
        await consumer.commit({tp(0): 2})
        with pytest.raises(DeniedError):
            await consumer.commit({tp(0): 3})
        await asyncio.sleep(3 * INTERVAL_S)

    assert kept_by(keeper, story) == [2]


def test_an_automatic_commit_that_was_slow_brings_none_back_from_before_the_programs() -> None:
    keeper = Keeper()
    keeper.refused[1] = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    async def story(consumer: SimulatedConsumer) -> None:
        await read_one(consumer)
        await read_one(consumer)
        await asyncio.sleep(2 * INTERVAL_S)  # the automatic one is tried again and again
        await read_one(consumer)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(consumer.commit({tp(0): 3}))
            await asyncio.sleep(INTERVAL_S)
            keeper.refused.clear()
        await asyncio.sleep(3 * INTERVAL_S)

    assert kept_by(keeper, story) == [1, 3]


def test_where_the_program_begins_in_a_partition_that_comes_back_is_committed_anew() -> None:
    keeper = Keeper()

    async def story(consumer: SimulatedConsumer) -> None:
        for _ in range(2):
            await consumer.assign({tp(0): 1})
            await read_one(consumer)
            await asyncio.sleep(2 * INTERVAL_S)
            await consumer.assign([])
            keeper.kept.append(3)  # by another, who has the partition meanwhile

    assert kept_by(keeper, story) == [1, 3, 1, 3]


def test_an_automatic_commit_that_fails_is_made_later() -> None:
    keeper = Keeper()
    keeper.refused[1] = ErrorCode.GROUP_AUTHORIZATION_FAILED

    async def story(consumer: SimulatedConsumer) -> None:
        await read_one(consumer)
        await read_one(consumer)
        await asyncio.sleep(2 * INTERVAL_S)
        keeper.refused.clear()
        await asyncio.sleep(2 * INTERVAL_S)

    assert kept_by(keeper, story) == [1]


async def close(consumer: SimulatedConsumer) -> None:
    await consumer.aclose()


async def unsubscribe(consumer: SimulatedConsumer) -> None:
    await consumer.unsubscribe()


@pytest.mark.parametrize("ends", [close, unsubscribe])
def test_the_last_commit_does_not_go_back_behind_the_programs(ends: Any) -> None:
    keeper = Keeper()

    async def story(consumer: SimulatedConsumer) -> None:
        await read_one(consumer)
        await read_one(consumer)
        await consumer.commit()
        await ends(consumer)

    assert kept_by(keeper, story) == [2]


def test_the_last_commit_is_not_made_behind_one_of_the_programs_that_is_under_way() -> None:
    keeper = Keeper()
    keeper.refused[2] = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    async def story(consumer: SimulatedConsumer) -> None:
        await read_one(consumer)
        await read_one(consumer)
        under_way = await consumer.commit_async()
        await asyncio.sleep(1)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(consumer.aclose())
            await asyncio.sleep(1)
            keeper.refused.clear()
        await under_way

    assert kept_by(keeper, story) == [2]


def test_the_last_commit_is_made_where_the_programs_was_refused() -> None:
    keeper = Keeper()
    keeper.refused[2] = ErrorCode.GROUP_AUTHORIZATION_FAILED

    async def story(consumer: SimulatedConsumer) -> None:
        await read_one(consumer)
        await read_one(consumer)
        with pytest.raises(DeniedError):
            await consumer.commit()
        await consumer.aclose()

    assert kept_by(keeper, story) == [1]


def test_a_commit_waits_behind_another_no_longer_than_it_may() -> None:
    keeper = Keeper()
    keeper.refused[1] = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    async def story(consumer: SimulatedConsumer) -> None:
        await read_one(consumer)
        await read_one(consumer)
        await asyncio.sleep(2 * INTERVAL_S)  # the automatic one is tried again and again
        begin_s = asyncio.get_running_loop().time()
        with pytest.raises(DeadlineError):
            await consumer.commit(timeout=1)
        assert asyncio.get_running_loop().time() - begin_s < 2
        keeper.refused.clear()

    assert 2 not in kept_by(keeper, story)
