"""Coordinators whose log cannot be read or written: what clients are told, and when it is over."""

import asyncio
import errno
import logging
from collections.abc import Awaitable, Callable

import pytest

from ottla.errors import ErrorCode, StorageError
from ottla.model import CONSUMER_OFFSETS_TOPIC, coordinator_partition
from ottla.ports import File
from ottla.testing.disk import Operation
from ottla.testing.loop import Order
from ottla.testing.simulation import Simulation
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.broker_office import Office
from tests.cluster_samples import done
from tests.group_samples import GROUP, TOPIC
from tests.unit.test_handlers_transactions import (
    NAME,
    NEWEST_INIT,
    VERSION_2_PRODUCE,
    end,
    errors_of_produce,
    init,
    write,
)

PARTITION_COUNT = 3
INDEX = coordinator_partition(GROUP, PARTITION_COUNT)
LOADING, LOST = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR
PAUSE_S = 1.0


def play(scenario: Callable[[Office], Awaitable[None]]) -> None:
    """Play it in simulated time, after one offset was committed."""

    async def run() -> None:
        office = Office()
        office.broker.create(TOPIC)
        assert await commit(office) is ErrorCode.NONE
        try:
            await scenario(office)
        finally:
            office.groups.close()

    with Simulation(seed=1, order=Order.FIFO) as sim:
        sim.run(run())


async def commit(office: Office, offset: int = 7, note: str = "") -> ErrorCode:
    place = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=note
    )
    topic = OffsetCommitRequestTopic(name=TOPIC, partitions=(place,))
    response = await office.ask(
        OffsetCommitRequest(group_id=GROUP, member_id="", topics=(topic,)), 8
    )
    return ErrorCode(response.topics[0].partitions[0].error_code)


async def fetch(office: Office) -> int | ErrorCode:
    """The offset that the group has committed, or why it cannot be told."""
    asked = OffsetFetchRequestGroup(group_id=GROUP, topics=None)
    (group,) = (await office.ask(OffsetFetchRequest(groups=(asked,)), 8)).groups
    if group.error_code:
        return ErrorCode(group.error_code)
    offset: int = group.topics[0].partitions[0].committed_offset
    return offset


async def loaded() -> None:
    """Let the shards load, which takes no time."""
    for _ in range(20):
        await asyncio.sleep(0)


def log_file(office: Office) -> File:
    return office.broker.disk.open(f"{CONSUMER_OFFSETS_TOPIC}-{INDEX}/{0:020d}.log")


def test_a_log_that_cannot_be_read_is_tried_again_after_a_pause(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(office: Office) -> None:
        good = log_file(office).read(0, 100)
        office.groups._shards[INDEX].give_up(StorageError("for some reason"))
        log_file(office).write(0, b"\xff" * 100)
        await asyncio.sleep(PAUSE_S)
        assert await fetch(office) is LOADING
        await loaded()

        log_file(office).write(0, good)  # nobody looks before the pause is over
        await asyncio.sleep(PAUSE_S / 2)
        assert [await fetch(office), await commit(office)] == [LOST, LOST]
        assert "coordinator not loaded" in caplog.text

        await asyncio.sleep(PAUSE_S / 2)
        assert await fetch(office) is LOADING
        await loaded()
        assert await fetch(office) == 7

    with caplog.at_level(logging.ERROR, logger="ottla"):
        play(scenario)


def test_a_full_disk_costs_a_commit_and_not_the_coordinator() -> None:
    async def scenario(office: Office) -> None:
        await asyncio.sleep(PAUSE_S)
        office.broker.disk.fail(errno.ENOSPC, Operation.WRITE, path=CONSUMER_OFFSETS_TOPIC)
        assert await commit(office, 8) is LOST
        assert await commit(office, 8) is LOADING
        await loaded()
        assert await fetch(office) == 7
        assert await commit(office, 8) is ErrorCode.NONE

    play(scenario)


def test_a_partition_that_is_offline_has_no_coordinator() -> None:
    async def scenario(office: Office) -> None:
        office.groups._shards[INDEX].give_up(StorageError("its disk is gone"))
        office.broker.partitions.put(CONSUMER_OFFSETS_TOPIC, INDEX, ErrorCode.KAFKA_STORAGE_ERROR)
        await asyncio.sleep(PAUSE_S)
        assert await fetch(office) is LOST

    play(scenario)


def test_a_partition_that_comes_online_late_has_a_coordinator_before_anybody_asks() -> None:
    async def scenario(office: Office) -> None:
        partition = office.broker.partition(CONSUMER_OFFSETS_TOPIC, INDEX)
        office.groups._shards.pop(INDEX).close()
        office.broker.partitions.put(CONSUMER_OFFSETS_TOPIC, INDEX, ErrorCode.KAFKA_STORAGE_ERROR)
        office.groups.start()
        assert INDEX not in office.groups._shards
        await asyncio.sleep(PAUSE_S)

        office.broker.partitions.put(CONSUMER_OFFSETS_TOPIC, INDEX, partition)
        office.groups.start()
        await loaded()

        assert await fetch(office) == 7

    play(scenario)


def test_groups_are_listed_without_those_of_a_coordinator_that_is_lost() -> None:
    async def scenario(office: Office) -> None:
        listed = await office.ask(ListGroupsRequest(), 4)
        assert [group.group_id for group in listed.groups] == [GROUP]

        office.groups._shards[INDEX].give_up(StorageError("its disk is gone"))

        listed = await office.ask(ListGroupsRequest(), 4)
        assert (listed.error_code, listed.groups) == (ErrorCode.NONE, ())

    play(scenario)


def test_a_coordinator_that_is_lost_comes_back_although_nobody_asks_for_it() -> None:
    async def scenario(office: Office) -> None:
        producer = await office.ask(init(), NEWEST_INIT)
        assert await errors_of_produce(office, write(producer), VERSION_2_PRODUCE) == [0]
        partition = office.broker.partition(TOPIC)
        try:
            ended = await office.ask(end(producer), 5)
            shard = office.transactions.loaded(NAME)
            assert shard is not None
            shard.give_up(StorageError("its disk was full"))  # and the markers are not written
            assert ended.error_code == ErrorCode.NONE
            assert partition.last_stable_offset == 0

            await asyncio.sleep(10 * PAUSE_S)
            await loaded()

            assert partition.last_stable_offset == partition.next_offset == 2
        finally:
            office.transactions.close()

    play(scenario)


def test_a_marker_that_a_full_disk_refuses_is_written_when_there_is_room() -> None:
    async def scenario(office: Office) -> None:
        producer = await office.ask(init(), NEWEST_INIT)
        assert await errors_of_produce(office, write(producer), VERSION_2_PRODUCE) == [0]
        partition = office.broker.partition(TOPIC)
        office.broker.disk.fail(errno.ENOSPC, Operation.WRITE, path=f"{TOPIC}-0")
        try:
            assert (await office.ask(end(producer), 5)).error_code == ErrorCode.NONE
            await loaded()
            assert partition.last_stable_offset == 0
            await asyncio.sleep(2 * PAUSE_S)
            assert partition.last_stable_offset == partition.next_offset == 2
        finally:
            office.transactions.close()

    play(scenario)


def test_a_coordinator_that_is_lost_after_the_end_does_not_come_back() -> None:
    async def scenario(office: Office) -> None:
        office.groups.close()
        lost = office.groups._shards[INDEX]
        lost.give_up(StorageError("its log is closed"))
        await asyncio.sleep(100 * PAUSE_S)
        assert office.groups._shards[INDEX] is lost

    play(scenario)


def test_a_coordinator_whose_topic_is_gone_does_not_come_back() -> None:
    async def scenario(office: Office) -> None:
        office.groups._shards[INDEX].give_up(StorageError("its disk is gone"))
        done(office.broker.controller.delete_topics([CONSUMER_OFFSETS_TOPIC]))
        await asyncio.sleep(100 * PAUSE_S)
        assert office.groups._shards[INDEX].is_broken

    play(scenario)
