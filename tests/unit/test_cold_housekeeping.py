"""Housekeeping of logs that are not in memory: who waits for the disk, and what may happen then."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ottla.broker.cleaning import Cleaning
from ottla.errors import StorageError
from ottla.log import files
from ottla.log.log import Log
from ottla.ports import ColdReadError
from ottla.records.batch import Batch
from ottla.records.builder import BatchOptions, build
from ottla.records.control import Marker, build_marker
from ottla.testing.disk import SimDisk
from ottla.testing.simulation import Simulation
from tests.broker_fixture import NOW_MS, LittleBroker
from tests.cluster_samples import done
from tests.compaction_samples import FOLDER, begin, content_of, new_log, open_log, put, run
from tests.unit.test_damaged_logs import damage

OLD_MS = NOW_MS - 10_000
LARGE = bytes(900_000)
"""Several of these are more than is brought into memory at a time."""
KEY_COUNT = 3
COMPACTED = (
    ("cleanup.policy", "compact"),
    ("min.cleanable.dirty.ratio", "0"),
    ("min.compaction.lag.ms", "1000"),
    ("max.compaction.lag.ms", "100000"),
)
EXPIRED = (("retention.ms", "5000"), ("segment.index.bytes", "8"), ("index.interval.bytes", "0"))


def play(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """On virtual time: what waits for the disk waits there."""
    with Simulation(1) as sim:
        sim.run(scenario())


def append(
    broker: LittleBroker, topic: str, key: bytes, value: bytes, producer_id: int = 0
) -> None:
    options = BatchOptions()
    if producer_id:
        options = BatchOptions(
            producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True
        )
    data = bytearray(build([(OLD_MS, key, value, ())], options))
    assert broker.partition(topic).append(data, now_ms=NOW_MS).base_offset >= 0


def abort(broker: LittleBroker, topic: str, producer_id: int) -> None:
    marker = Marker(
        is_commit=False,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp_ms=OLD_MS,
    )
    broker.partition(topic).append_own(Batch.parse(build_marker(marker)), now_ms=NOW_MS)


def chill(broker: LittleBroker, topic: str) -> Log:
    """A while later: the log of a topic is not in memory any longer, nor is any index of it."""
    records = broker.partition(topic).log
    for segment in records.segments[:-1]:
        segment.forget_indexes()
        segment._max_timestamp_ms = None  # as after a restart
    broker.disk.chill(f"{topic}-0")
    return records


def to_compact() -> tuple[LittleBroker, Cleaning, Log]:
    """Keys that were written twice, something that was aborted, and nothing of it in memory."""
    broker = LittleBroker()
    broker.create("users", configs=COMPACTED)
    records = broker.partition("users").log
    for value in (b"first", LARGE):
        for number in range(KEY_COUNT):
            append(broker, "users", b"%d" % number, value)
        records.roll(NOW_MS)
    append(broker, "users", b"0", b"never mind", producer_id=7)
    abort(broker, "users", 7)
    records.roll(NOW_MS)
    records.sync()
    return broker, Cleaning(broker.node, broker.storage), chill(broker, "users")


def is_clean(records: Log) -> bool:
    return [(key, value) for _, key, value in content_of(records)] == [
        (b"%d" % number, LARGE) for number in range(KEY_COUNT)
    ]


async def begun(cleaning: Cleaning) -> "asyncio.Task[None]":
    """A compaction that waits for the disk, after it has looked at the log."""
    compacting = asyncio.create_task(cleaning.compact())
    for _ in range(10_000):
        await asyncio.sleep(0.0001)  # of virtual time, and a wait for the disk takes longer
        if cleaning._running is not None:
            return compacting
    raise AssertionError("it never began")


def test_compaction_reads_aside_what_is_not_in_memory() -> None:
    broker, cleaning, records = to_compact()

    async def scenario() -> None:
        await cleaning.compact()
        assert broker.disk.blocking_read_count == 0

    play(scenario)
    assert is_clean(records)


def test_compaction_comes_to_an_end_though_memory_is_emptied_again_and_again() -> None:
    broker, cleaning, records = to_compact()

    async def scenario() -> None:
        compacting = asyncio.create_task(cleaning.compact())
        while not compacting.done():
            broker.disk.chill()
            await asyncio.sleep(0.0001)

    play(scenario)
    assert is_clean(records)


def test_a_topic_may_be_deleted_while_its_compaction_waits_for_the_disk() -> None:
    broker, cleaning, records = to_compact()

    async def scenario() -> None:
        compacting = await begun(cleaning)
        cleaning.forget("users")
        done(broker.controller.delete_topics(["users"]))
        await compacting

    play(scenario)
    assert records.next_offset > 0
    assert not broker.disk.exists("users-0")


def test_a_topic_may_be_deleted_while_it_is_looked_at() -> None:
    broker, cleaning, _ = to_compact()

    async def scenario() -> None:
        working = [asyncio.create_task(cleaning.compact())]
        working += [asyncio.create_task(cleaning.delete_old())]
        await asyncio.sleep(0)
        assert not any(task.done() for task in working)
        done(broker.controller.delete_topics(["users"]))
        await asyncio.gather(*working)

    play(scenario)


def test_segments_may_be_deleted_while_their_compaction_waits_for_the_disk() -> None:
    broker, cleaning, records = to_compact()

    async def scenario() -> None:
        compacting = await begun(cleaning)
        records.advance_start(records.next_offset)
        records.delete_old_segments(NOW_MS)
        await compacting

    play(scenario)
    assert content_of(records) == []
    assert not [name for name in broker.disk.names("users-0") if name.endswith(files.CLEANED)]


class Unforeseen(SimDisk):
    """Waits for the device where compaction does not expect it."""

    def rename(self, old: str, new: str) -> None:
        raise ColdReadError(old, 0, 1)


def test_a_compaction_that_cannot_go_on_does_not_pass_for_one_that_is_done(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = Unforeseen()
    log = open_log(disk)
    put(log, (b"a", b"1"), (b"a", b"2"))
    log.roll(NOW_MS)
    compaction = begin(disk, log)

    run(disk, compaction)

    assert compaction.was_interrupted
    assert "compaction broken off" in caplog.text
    assert not [name for name in disk.names(FOLDER) if name.endswith(files.CLEANED)]


def test_a_damaged_log_is_not_compacted_and_its_neighbors_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker, cleaning, records = to_compact()
    broker.create("damaged", configs=COMPACTED)
    append(broker, "damaged", b"key", b"value")
    broker.partition("damaged").log.roll(NOW_MS)
    broker.partition("damaged").log.sync()
    chill(broker, "damaged")
    damage(broker, "damaged")

    async def scenario() -> None:
        await cleaning.compact()
        await cleaning.compact()

    play(scenario)
    assert is_clean(records)
    assert caplog.text.count("compaction gave up: topic=damaged partition=0") == 1


def test_retention_reads_aside_how_old_segments_are() -> None:
    broker = LittleBroker()
    broker.create("orders", configs=EXPIRED)
    for number in range(5):
        append(broker, "orders", b"key", b"%d" % number)
    records = chill(broker, "orders")
    assert len(records.segments) == 5

    async def scenario() -> None:
        await Cleaning(broker.node, broker.storage).delete_old()
        assert broker.disk.blocking_read_count == 0

    play(scenario)
    assert records.start_offset == records.next_offset == 5
    assert [segment.base_offset for segment in records.segments] == [5]


def test_a_step_that_is_broken_off_goes_on_where_it_was() -> None:
    disk, log = new_log(segment_bytes=10_000)
    for number in range(20):
        put(log, (b"%d" % (number % 4), b"%d" % number))
    log.roll(NOW_MS)
    compaction = begin(disk, log)
    disk.chill()
    cold: list[ColdReadError] = []

    while not compaction.is_done:
        try:
            for unsynced in disk.at_once(compaction.step):
                unsynced.sync()
        except ColdReadError as error:
            cold.append(error)
            disk.open(error.path).read(error.position, error.size_bytes)

    assert cold
    assert [value for _, _, value in content_of(log)] == [b"16", b"17", b"18", b"19"]


def test_damage_that_is_not_in_memory_is_told_like_any_other() -> None:
    disk, log = new_log()
    put(log, (b"a", b"1"))
    log.roll(NOW_MS)
    log.segments[0].file.write(64, b"\xff")
    compaction = begin(disk, log)
    disk.chill()

    with pytest.raises(ColdReadError):
        disk.at_once(compaction.step)
    with pytest.raises(StorageError, match="is damaged at byte"):
        compaction.step()
