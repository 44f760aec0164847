"""Crashes in the very moments that once went wrong, or that one would rather not meet by chance."""

import asyncio
import errno
from collections.abc import Awaitable, Callable, Mapping

import pytest

from ottla.errors import ErrorCode
from ottla.ports import Ports
from ottla.testing.disk import SYNC_DELAY_MS, Operation
from ottla.testing.simulation import Simulation, seeds
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.simulation.admin_noise import COMPACTION, Admin, Bounds
from tests.simulation.broker_clients import (
    ALL_REPLICAS,
    BROKER,
    LEADER_ONLY,
    Consumer,
    Link,
    Producer,
    Spot,
)
from tests.simulation.broker_host import BrokerHost
from tests.simulation.journal import Journal

SPOT = Spot("events", 0)
Act = Callable[[Ports], Awaitable[None]]


class Stage:
    """A broker with one topic, and clients that do one thing after the other."""

    def __init__(self, sim: Simulation, *, flush: str = "commit") -> None:
        self.sim = sim
        self.journal = Journal()
        self.host = BrokerHost(sim, self.journal, flush=flush)
        self._client_count = 0
        self.host.start()
        self.run(self._create)

    def run(self, act: Act) -> None:
        """Let a new client act, until it is done."""
        self._client_count += 1
        name = f"client{self._client_count}"

        async def work(ports: Ports) -> None:
            await act(ports)

        async def wait() -> None:
            await self.sim.spawn(name, work)

        self.sim.run(wait(), limit_ms=60_000)

    def send(self) -> None:
        """Send a batch that is acknowledged."""
        number = self._client_count

        async def act(ports: Ports) -> None:
            rng = self.sim.stream(f"producer{number}")
            assert await Producer(ports, f"producer{number}", self.journal, rng).send_one(SPOT)

        self.run(act)

    def write_two_segments_without_sync(self) -> None:
        """Append two records, far enough apart that the log rolls, to a disk that is too slow."""
        self.host.disk.sync_delay_ms = (2000.0, 3000.0)

        async def act(ports: Ports) -> None:
            for _ in range(2):
                assert await self.admin(ports).fill(SPOT.topic, LEADER_ONLY) is ErrorCode.NONE
                await asyncio.sleep(0.3)

        self.run(act)

    def read_all(self) -> None:
        """Read everything from the start on."""
        number = self._client_count

        async def act(ports: Ports) -> None:
            rng = self.sim.stream(f"consumer{number}")
            await Consumer(ports, f"consumer{number}", self.journal, rng).drain([SPOT])

        self.run(act)

    def admin(self, ports: Ports) -> Admin:
        return Admin(ports, "admin", self.journal, self.sim.stream("admin"), Bounds())

    def lose_power(self) -> None:
        """Lose everything that was not synced."""
        self.sim.crash(BROKER)
        self.restart()

    def restart(self) -> None:
        """Start the broker again once it has ended."""
        self.sim.run_for(1000)
        assert not self.host.is_running
        self.host.start()
        self.sim.run_for(100)

    def verdict(self) -> list[str]:
        """What was wrong; everything acknowledged must have been read at the end."""
        return self.journal.verdict(start_offsets={}, keeps_weak_sends=False, last_process="")

    async def _create(self, ports: Ports) -> None:
        for name, settings in (("events", {}), ("doomed", COMPACTION)):
            assert await self.admin(ports).create(name, 1, settings)


@pytest.mark.parametrize("seed", seeds(10))
def test_what_a_consumer_read_after_a_killed_broker_came_back_is_there_for_good(seed: int) -> None:
    with Simulation(seed) as sim:
        stage = Stage(sim)
        stage.write_two_segments_without_sync()
        sim.kill(BROKER)
        stage.restart()
        stage.run(lambda ports: expect_end(stage, ports, 2))

        stage.lose_power()

        stage.run(lambda ports: expect_end(stage, ports, 2))


async def expect_end(stage: Stage, ports: Ports, offset: int) -> None:
    """The high watermark is at `offset`."""
    consumer = Consumer(ports, "eye", stage.journal, stage.sim.stream("eye"))
    assert await consumer.end_of(SPOT) == offset


@pytest.mark.parametrize("seed", seeds(10))
def test_records_after_a_failed_sync_and_a_restart_survive_power_loss(seed: int) -> None:
    with Simulation(seed) as sim:
        stage = Stage(sim)
        stage.send()
        stage.host.disk.fail(errno.EIO, Operation.SYNC, path="events-0")

        async def send_in_vain(ports: Ports) -> None:
            producer = Producer(ports, "vain", stage.journal, stage.sim.stream("vain"))
            assert not await producer.send_one(SPOT)

        stage.run(send_in_vain)
        stage.restart()
        assert stage.journal.done["broker failed"] == 1
        stage.send()
        stage.read_all()

        stage.lose_power()

        stage.send()
        stage.read_all()
        assert stage.verdict() == []


@pytest.mark.parametrize("flush", ["commit", "os"])
@pytest.mark.parametrize("seed", seeds(10))
def test_a_topic_can_be_deleted_while_it_is_synced_and_compacted(seed: int, flush: str) -> None:
    with Simulation(seed) as sim:
        stage = Stage(sim, flush=flush)
        stage.host.disk.sync_delay_ms = (5.0, 30.0)

        async def fill_and_delete(ports: Ports) -> None:
            admin = stage.admin(ports)
            for _ in range(6):
                for _ in range(sim.rng.randint(3, 12)):
                    await admin.fill("doomed", LEADER_ONLY)
                    await admin.fill("events", LEADER_ONLY)
                    await asyncio.sleep(sim.rng.uniform(0, 0.1))
                await asyncio.sleep(sim.rng.uniform(0, 0.2))
                assert await admin.delete("doomed")
                assert await admin.create("doomed", 1, COMPACTION)

        stage.run(fill_and_delete)
        sim.run_for(2000)  # so that no sync is left to wait for

        assert stage.host.is_running
        assert stage.journal.done["broker failed"] == 0
        stage.send()


@pytest.mark.parametrize("seed", seeds(10))
def test_a_broker_with_a_full_disk_can_be_read_and_stopped(seed: int) -> None:
    with Simulation(seed) as sim:
        stage = Stage(sim)
        stage.send()
        disk = stage.host.disk
        room_bytes = disk.capacity_bytes
        disk.capacity_bytes = 1  # even after something was deleted
        sim.run_for(2000)  # checkpoints and retention come by, and find no room
        stage.read_all()
        stage.host.stop()
        sim.run_for(1000)
        assert not stage.host.is_running

        disk.capacity_bytes = room_bytes
        stage.restart()

        stage.send()
        stage.read_all()
        assert stage.verdict() == []


@pytest.mark.parametrize("seed", seeds(10))
def test_a_topic_can_take_the_name_of_a_deleted_one_whatever_is_lost_between(seed: int) -> None:
    with Simulation(seed) as sim:
        stage = Stage(sim)

        async def fill(ports: Ports) -> None:
            assert await stage.admin(ports).fill("doomed", ALL_REPLICAS) is ErrorCode.NONE

        async def delete(ports: Ports) -> None:
            assert await stage.admin(ports).delete("doomed")

        async def create(ports: Ports) -> None:
            assert await stage.admin(ports).create("doomed", 1, {})

        for _ in range(3):
            stage.run(fill)
            sim.run_for(200)  # its offsets are written down
            for act in (delete, create):
                stage.run(act)
                if sim.rng.random() < 0.5:
                    stage.lose_power()
        stage.lose_power()

        stage.run(fill)
        assert stage.journal.violations == []


@pytest.mark.parametrize("seed", seeds(10))
def test_a_partition_that_could_not_be_opened_is_recovered_after_a_clean_stop(seed: int) -> None:
    with Simulation(seed) as sim:
        stage = Stage(sim)
        stage.write_two_segments_without_sync()
        disk = stage.host.disk
        room_bytes = disk.capacity_bytes
        disk.capacity_bytes, stage.host.is_disk_bad = 1, True
        sim.kill(BROKER)
        stage.restart()
        disk.capacity_bytes, stage.host.is_disk_bad = room_bytes, False

        stage.host.stop()
        stage.restart()

        stage.run(lambda ports: expect_end(stage, ports, 2))
        assert stage.journal.violations == []


@pytest.mark.parametrize("is_created_again", [False, True])
@pytest.mark.parametrize("seed", seeds(8))
def test_offsets_of_a_deleted_topic_do_not_come_back_with_the_power(
    seed: int, is_created_again: bool
) -> None:
    doomed = Spot("doomed", 0)
    with Simulation(seed) as sim:
        stage = Stage(sim)
        stage.run(lambda ports: commit_offsets(ports, {SPOT: 3, doomed: 5}))
        stage.run(lambda ports: expect_offsets(ports, {SPOT: 3, doomed: 5}))
        stage.host.disk.sync_delay_ms = (2000.0, 3000.0)  # too slow for the tombstones

        async def delete(ports: Ports) -> None:
            assert await stage.admin(ports).delete("doomed")
            if is_created_again:
                assert await stage.admin(ports).create("doomed", 1, {})

        stage.run(delete)
        stage.host.disk.sync_delay_ms = SYNC_DELAY_MS
        stage.lose_power()

        stage.run(lambda ports: expect_offsets(ports, {SPOT: 3, doomed: -1}))


async def commit_offsets(ports: Ports, offsets: Mapping[Spot, int]) -> None:
    """Commit for a group without members."""
    topics = tuple(
        OffsetCommitRequestTopic(
            name=spot.topic,
            partitions=(
                OffsetCommitRequestPartition(
                    partition_index=spot.index, committed_offset=offset, committed_metadata=""
                ),
            ),
        )
        for spot, offset in offsets.items()
    )
    request = OffsetCommitRequest(group_id="group", member_id="", topics=topics)
    answer = await Link(ports, "committer").ask(request, 8)
    assert answer is not None
    assert {p.error_code for topic in answer.topics for p in topic.partitions} == {0}


async def expect_offsets(ports: Ports, offsets: Mapping[Spot, int]) -> None:
    """These were committed, and -1 is none."""
    topics = tuple(
        OffsetFetchRequestTopics(name=spot.topic, partition_indexes=(spot.index,))
        for spot in offsets
    )
    asked = OffsetFetchRequestGroup(group_id="group", topics=topics)
    answer = await Link(ports, "reader").ask(OffsetFetchRequest(groups=(asked,)), 8)
    assert answer is not None
    found = {
        Spot(topic.name, p.partition_index): p.committed_offset
        for topic in answer.groups[0].topics
        for p in topic.partitions
    }
    assert found == offsets
