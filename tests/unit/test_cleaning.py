"""Retention in a broker: what goes, and what a full disk changes about it."""

import asyncio
import errno

import pytest

from ottla.broker.cleaning import Cleaning
from ottla.errors import ErrorCode
from ottla.log import checkpoints, files
from ottla.log.files import CLEANED_OFFSETS
from ottla.log.log import Log
from ottla.records.builder import build
from ottla.testing.disk import Operation
from tests.broker_fixture import NOW_MS, LittleBroker
from tests.cluster_samples import done
from tests.compaction_samples import begin, content_of

LARGE = bytes(100_000)


def with_old_segments() -> LittleBroker:
    """Two topics that may keep nothing, with two full segments and a third one begun."""
    broker = LittleBroker()
    for topic in ("orders", "others"):
        broker.create(topic, configs=[("retention.bytes", "0")])
        for _ in range(3):
            broker.append(topic, LARGE)
            broker.partition(topic).log.roll(NOW_MS)
        broker.append(topic, b"newest")
    return broker


def fill_the_disk(broker: LittleBroker) -> None:
    broker.disk.capacity_bytes -= broker.disk.free_bytes()


def written_starts(broker: LittleBroker) -> dict[tuple[str, int], int]:
    return checkpoints.read_offsets(broker.disk, files.START_OFFSETS)


def test_old_segments_go_after_the_start_offset_is_on_disk() -> None:
    broker = with_old_segments()

    broker.delete_old()

    for topic in ("orders", "others"):
        assert broker.partition(topic).log.start_offset == 4
        assert written_starts(broker)[topic, 0] == 4
        assert broker.disk.names(f"{topic}-0")[0].startswith(f"{4:020d}")


@pytest.mark.parametrize("is_closed", [False, True])
def test_files_go_one_by_one_and_their_topic_may_go_meanwhile(is_closed: bool) -> None:
    broker = with_old_segments()
    counts: list[int] = []

    async def run() -> None:
        deleting = asyncio.create_task(Cleaning(broker.node, broker.storage).delete_old())
        while not deleting.done():
            await asyncio.sleep(0)
            counts.append(len(files_to_go(broker)))
            if is_closed and 0 < counts[-1] < max(counts) and broker.disk.exists("orders-0"):
                done(broker.controller.delete_topics(["orders"]))
        await deleting

    asyncio.run(run())

    assert files_to_go(broker) == []
    assert len(set(counts)) > 4, "there was time for others"
    assert broker.partition("others").log.start_offset == 4


def files_to_go(broker: LittleBroker) -> list[str]:
    """What is marked as deleted in folders of topics that are there."""
    folders = [name for name in ("orders-0", "others-0", "users-0") if broker.disk.exists(name)]
    names = [name for folder in folders for name in broker.disk.names(folder)]
    return [name for name in names if name.endswith(files.DELETED)]


def test_a_full_disk_is_freed_although_the_start_offset_cannot_be_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = with_old_segments()
    fill_the_disk(broker)
    refused = broker.partition("orders").append(build([(NOW_MS, None, LARGE, ())]), now_ms=NOW_MS)
    assert refused.error is ErrorCode.KAFKA_STORAGE_ERROR

    broker.delete_old()

    assert "start offsets not written, the disk is full" in caplog.text
    for topic in ("orders", "others"):
        assert broker.partition(topic).log.start_offset == 4
    assert broker.disk.free_bytes() > 5 * len(LARGE)
    broker.append("orders", LARGE)
    broker.delete_old()
    assert written_starts(broker)["orders", 0] == 5


def test_another_error_than_a_full_disk_is_passed_on_and_nothing_goes() -> None:
    broker = with_old_segments()
    broker.disk.fail(errno.EIO, Operation.WRITE, path=files.START_OFFSETS)

    with pytest.raises(OSError, match="Input/output error"):
        broker.delete_old()

    assert broker.disk.names("orders-0")[0].startswith(f"{0:020d}")


def test_a_full_disk_does_not_keep_a_topic_from_being_removed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = with_old_segments()
    checkpoints.write_offsets(broker.disk, CLEANED_OFFSETS, {("orders", 0): 3})
    cleaning = Cleaning(broker.node, broker.storage)
    fill_the_disk(broker)

    cleaning.forget("orders")

    assert "cleaned offsets not written" in caplog.text


def test_segments_that_are_being_replaced_stay_until_the_next_time() -> None:
    broker = LittleBroker()
    # So many that retention pauses once before it removes anything.
    broker.create(
        "users",
        partition_count=50,
        configs=[("cleanup.policy", "compact,delete"), ("retention.bytes", "0")],
    )
    for _ in range(3):
        broker.append("users", b"again")
        broker.partition("users").log.roll(NOW_MS)
    records = broker.partition("users").log
    compaction = begin(broker.disk, records)

    async def run() -> None:
        cleaning = Cleaning(broker.node, broker.storage)
        deletion = asyncio.create_task(cleaning.delete_old())
        await asyncio.sleep(0)
        while not records.is_replacing:
            compaction.step()
        await deletion

    asyncio.run(run())

    assert records.is_replacing
    assert len(records.segments) > 1
    while not compaction.is_done:
        compaction.step()
    broker.delete_old()
    assert [segment.base_offset for segment in records.segments] == [3]


def test_retention_may_delete_what_compaction_has_just_put_in_place() -> None:
    broker = LittleBroker()
    broker.create(
        "users",
        configs=[("cleanup.policy", "compact,delete"), ("min.cleanable.dirty.ratio", "0")],
    )
    broker.append("users", b"old", b"new")
    records = broker.partition("users").log
    records.roll(NOW_MS)
    records.sync()
    cleaning = Cleaning(broker.node, broker.storage)

    async def run() -> None:
        compacting = asyncio.create_task(cleaning.compact())
        while records.is_replacing or not files_to_go(broker):
            assert not compacting.done()
            await asyncio.sleep(0)
        records.advance_start(records.next_offset)
        await asyncio.gather(compacting, cleaning.delete_old())

    asyncio.run(run())

    assert [segment.base_offset for segment in records.segments] == [2]
    assert files_to_go(broker) == []


@pytest.mark.parametrize("is_refused", [False, True])
def test_old_segments_go_as_soon_as_new_ones_are_in_their_place(is_refused: bool) -> None:
    broker = LittleBroker()
    broker.create(
        "users",
        configs=[
            ("cleanup.policy", "compact"),
            ("min.cleanable.dirty.ratio", "0"),
            ("segment.bytes", str(1024 * 1024)),
        ],
    )
    records = broker.partition("users").log
    for _ in range(2):  # the one does not fit into a segment with the other
        broker.append("users", b"old", bytes(700_000))
        records.roll(NOW_MS)
    records.sync()
    cleaning = Cleaning(broker.node, broker.storage)
    if is_refused:
        broker.disk.fail(errno.EMFILE, Operation.REMOVE, path="users-0")
    broker.disk.fail(errno.ENOSPC, Operation.CREATE, path=f"users-0/{2:020d}.log.cleaned")

    with pytest.raises(OSError, match="Too many" if is_refused else "No space"):
        asyncio.run(cleaning.compact())
    left_count = len(files_to_go(broker))
    broker.disk.mend()
    asyncio.run(cleaning.compact())

    assert left_count == (3 if is_refused else 0)
    assert files_to_go(broker) == []
    assert [offset for offset, _, _ in content_of(records)] == [3]


def test_a_replacement_that_a_full_disk_broke_off_is_finished_before_the_next() -> None:
    broker = LittleBroker()
    broker.create(
        "users",
        configs=[("cleanup.policy", "compact"), ("min.cleanable.dirty.ratio", "0")],
    )
    records = broker.partition("users").log
    cleaning = Cleaning(broker.node, broker.storage)

    def compact(value: bytes) -> None:
        broker.append("users", b"old", value)
        records.roll(NOW_MS)
        records.sync()
        asyncio.run(cleaning.compact())

    broker.disk.fail(errno.ENOSPC, Operation.RENAME, path=f"users-0/{0:020d}.log", after=1)
    with pytest.raises(OSError, match="No space left"):
        compact(b"first")
    assert [name for name in broker.disk.names("users-0") if name.endswith(files.SWAP)]
    compact(b"second")

    assert not records.is_replacing
    assert [value for _, _, value in content_of(records)] == [b"second"]
    records.abandon()
    again = Log.open(broker.disk, "users-0", records.config, now_ms=NOW_MS)
    assert [value for _, _, value in content_of(again)] == [b"second"]
