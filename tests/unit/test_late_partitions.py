"""Partitions that cannot be opened: those for want of room come back by themselves."""

import asyncio
import errno
from pathlib import Path

import pytest

from ottla.broker.freezing import Freezer
from ottla.broker.partition import Partition
from ottla.broker.partitions import Partitions
from ottla.broker.storage import Storage
from ottla.errors import ErrorCode, StorageError
from ottla.log import checkpoints, files
from ottla.log.log import Log
from ottla.runtime.disk import RealDisk
from ottla.testing.disk import Operation, SimDisk, SimFile
from ottla.testing.inodes import Survival
from ottla.testing.simulation import Simulation
from tests.broker_fixture import LittleBroker
from tests.cluster_samples import done
from tests.log_samples import EPOCH, NOW_MS, batch_of, log_config

OFFLINE = ErrorCode.KAFKA_STORAGE_ERROR


class Restarted:
    """The data directory of a broker that was killed, opened by the next one."""

    def __init__(self, broker: LittleBroker) -> None:
        broker.storage.abandon()
        self.partitions = Partitions()
        self.storage = Storage(
            config=broker.node.config,
            ports=broker.node.ports,
            controller=broker.controller,
            partitions=self.partitions,
            flusher=None,
        )
        self.opened = self.storage.open()


def with_records(*topics: str) -> LittleBroker:
    broker = LittleBroker()
    for topic in topics:
        broker.create(topic)
        broker.append(topic, b"one")
    return broker


def open_late(storage: Storage) -> bool:
    return asyncio.run(storage.open_late())


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE])
def test_a_partition_that_finds_no_room_at_the_start_is_opened_when_there_is_some(
    error: int,
) -> None:
    broker = with_records("orders")
    broker.disk.fail(error, Operation.WRITE, path="orders-0")
    broker.disk.fail(error, Operation.WRITE, path="orders-0")
    restarted = Restarted(broker)
    assert restarted.opened.offline == ("orders-0",)
    assert not open_late(restarted.storage)
    assert restarted.partitions.find("orders", 0) is OFFLINE

    assert open_late(restarted.storage)

    found = restarted.partitions.find("orders", 0)
    assert isinstance(found, Partition)
    assert found.next_offset == 1
    assert not open_late(restarted.storage), "there is nothing left to open"


@pytest.mark.parametrize("is_deleted", [False, True])
def test_what_a_late_partition_needs_is_read_aside(is_deleted: bool) -> None:
    broker = with_records("orders")
    records = broker.partition("orders").log
    for number in range(3):
        records.roll(NOW_MS)
        broker.append("orders", b"%d" % number)
    records.sync()
    broker.storage.checkpoint()
    broker.disk.fail(errno.ENOSPC, Operation.WRITE, path="orders-0")
    restarted = Restarted(broker)
    broker.disk.chill("orders-0")

    async def scenario() -> None:
        before = broker.disk.blocking_read_count
        opening = asyncio.create_task(restarted.storage.open_late())
        await asyncio.sleep(0)
        assert not opening.done()
        if is_deleted:
            done(broker.controller.delete_topics(["orders"]))
            restarted.storage.follow("orders")
        assert await opening is not is_deleted
        assert broker.disk.blocking_read_count == before

    with Simulation(1) as sim:
        sim.run(scenario())
    if not is_deleted:
        found = restarted.partitions.find("orders", 0)
        assert isinstance(found, Partition)
        assert found.next_offset == 4


def test_a_partition_that_is_damaged_stays_offline() -> None:
    broker = with_records("orders")
    broker.disk.fail(errno.EIO, Operation.WRITE, path="orders-0")
    restarted = Restarted(broker)

    assert not open_late(restarted.storage)

    assert restarted.partitions.find("orders", 0) is OFFLINE


def test_those_that_there_is_no_room_for_are_not_all_tried_each_time() -> None:
    broker = with_records("orders", "others")
    for topic in ("orders", "orders", "others"):
        broker.disk.fail(errno.ENOSPC, Operation.WRITE, path=f"{topic}-0")
    restarted = Restarted(broker)

    assert not open_late(restarted.storage)
    assert restarted.partitions.offline_count == 2, "the other one was not tried"
    assert open_late(restarted.storage)
    assert restarted.partitions.offline_count == 0


def test_what_lacked_room_keeps_its_recovery_point_meanwhile() -> None:
    broker = with_records("orders")
    broker.partition("orders").log.sync()
    broker.storage.checkpoint()
    broker.disk.fail(errno.ENOSPC, Operation.WRITE, path="orders-0")
    restarted = Restarted(broker)

    restarted.storage.checkpoint()

    points = checkpoints.read_offsets(broker.disk, files.RECOVERY_POINTS)
    assert points == {("orders", 0): 1}


def test_a_topic_that_is_created_on_a_full_disk_can_be_written_when_there_is_room() -> None:
    broker = LittleBroker()
    broker.disk.fail(errno.ENOSPC, Operation.WRITE, path="orders-0")
    topic = broker.create("orders")
    assert broker.partitions.find("orders", 0) is OFFLINE

    assert open_late(broker.storage)

    broker.append("orders", b"one")
    assert checkpoints.read_topic_id(broker.disk, "orders-0") == topic.topic_id


def test_a_topic_that_is_deleted_while_it_lacks_room_takes_none() -> None:
    broker = LittleBroker()
    broker.disk.fail(errno.ENOSPC, Operation.WRITE, path="orders-0")
    broker.create("orders")

    done(broker.controller.delete_topics(["orders"]))
    broker.delete_doomed()

    assert not [name for name in broker.disk.names("") if name.startswith("orders")]
    assert not open_late(broker.storage)


def test_a_topic_that_is_deleted_while_it_lacks_room_takes_no_records_of_others_with_it() -> None:
    broker = LittleBroker()
    broker.disk.make_folder("orders-0")
    checkpoints.write_topic_id(broker.disk, "orders-0", b"another topic id")
    broker.disk.open(f"orders-0/{0:020d}.log", create=True)
    broker.disk.fail(errno.ENOSPC, Operation.RENAME, path="orders-0")
    broker.create("orders")
    assert broker.partitions.find("orders", 0) is OFFLINE

    done(broker.controller.delete_topics(["orders"]))
    broker.delete_doomed()

    assert f"{0:020d}.log" in broker.disk.names("orders-0")


class Illegible(SimDisk):
    """Cannot say to whom a folder belongs, for want of descriptors."""

    is_short = False

    def open(self, path: str, *, create: bool = False) -> SimFile:
        if self.is_short and path.endswith(files.PARTITION_METADATA):
            raise OSError(errno.EMFILE, "Too many open files", path)
        return super().open(path, create=create)


def test_a_topic_can_be_deleted_although_its_folder_cannot_be_looked_into(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = Illegible()
    broker = LittleBroker(disk=disk)
    broker.disk.fail(errno.ENOSPC, Operation.WRITE, path="orders-0")
    broker.create("orders", partition_count=2)
    disk.is_short = True

    done(broker.controller.delete_topics(["orders"]))

    assert "folder not removed: folder=orders-0" in caplog.text
    assert broker.disk.exists("orders-0"), "the next start moves it aside"
    assert not broker.disk.exists("orders-1")
    assert not open_late(broker.storage)


class Unsized(SimDisk):
    """Cannot say how large a file is, and knows whether anybody keeps one open."""

    def __init__(self) -> None:
        super().__init__()
        self.is_broken = False
        self.opened: list[SimFile] = []

    def open(self, path: str, *, create: bool = False) -> SimFile:
        file = super().open(path, create=create)
        if self.is_broken:
            file = _Unsized(self, file._inode, file._power_cycle)
            self.opened.append(file)
        return file


class _Unsized(SimFile):
    def size_bytes(self) -> int:
        raise OSError(errno.EIO, "Input/output error", self.path)


def test_what_a_late_partition_needs_is_not_left_open_if_it_cannot_be_read() -> None:
    disk = Unsized()
    broker = LittleBroker(disk=disk)
    disk.fail(errno.ENOSPC, Operation.WRITE, path="orders-0")
    broker.create("orders")
    disk.is_broken = True

    assert not open_late(broker.storage)

    assert disk.opened
    assert all(file._is_closed for file in disk.opened)


def test_a_topic_that_is_deleted_without_a_folder_is_simply_gone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = LittleBroker()
    broker.disk.fail(errno.ENOSPC, Operation.MAKE_FOLDER, path="orders-0")
    broker.create("orders")
    caplog.clear()

    done(broker.controller.delete_topics(["orders"]))

    assert caplog.text == ""


def test_a_partition_whose_folder_was_removed_begins_empty_and_is_not_called_damaged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = with_records("orders")
    broker.partition("orders").log.sync()
    broker.storage.checkpoint()
    broker.storage.abandon()
    for name in broker.disk.names("orders-0"):
        broker.disk.remove(f"orders-0/{name}")
    broker.disk.remove_folder("orders-0")

    for _ in range(2):  # what was written down of the old folder must not count at the next start
        restarted = Restarted(broker)
        assert restarted.opened.offline == ()
        restarted.storage.abandon()

    assert "partition begins empty, it had no folder: topic=orders partition=0" in caplog.text


def test_records_of_an_earlier_topic_of_that_name_are_moved_aside() -> None:
    broker = with_records("orders")
    checkpoints.write_topic_id(broker.disk, "orders-0", b"another topic id")

    restarted = Restarted(broker)

    found = restarted.partitions.find("orders", 0)
    assert isinstance(found, Partition)
    assert found.next_offset == 0
    (stray,) = [name for name in broker.disk.names("") if name.endswith("-stray")]
    assert f"{0:020d}.log" in broker.disk.names(stray)


def test_a_topic_that_was_deleted_does_not_come_back_with_the_power() -> None:
    broker = with_records("orders")
    broker.disk.sync_folder("")
    done(broker.controller.delete_topics(["orders"]))

    broker.disk.lose_power(survival=Survival.NOTHING)

    assert "orders-0" not in broker.disk.names("")


@pytest.mark.parametrize("is_offline", [True, False])
def test_a_stop_is_clean_only_if_it_is_so_for_all_partitions(is_offline: bool) -> None:
    broker = with_records("others")
    if is_offline:
        broker.disk.fail(errno.ENOSPC, Operation.WRITE, path="orders-0")
    broker.create("orders")

    broker.storage.close()

    assert checkpoints.had_clean_shutdown(broker.disk) is not is_offline


class Meanwhile(Freezer):
    """Whenever it gives the loop back, partitions are opened that there is room for now."""

    async def pause(self) -> None:
        await self._storage.open_late()
        await super().pause()


def test_a_partition_that_is_opened_while_a_copy_is_made_is_in_it() -> None:
    broker = with_records("orders")
    broker.disk.fail(errno.ENOSPC, Operation.WRITE, path="orders-0")
    restarted = Restarted(broker)
    freezer = Meanwhile(
        broker.disk, restarted.partitions, restarted.storage, back_up=lambda folder: None
    )

    frozen = asyncio.run(freezer.freeze())

    assert isinstance(restarted.partitions.find("orders", 0), Partition)
    assert f"{0:020d}.log" in broker.disk.names(f"{frozen.folder}/orders-0")


def test_a_folder_that_could_not_be_removed_is_removed_later() -> None:
    broker = with_records("orders")
    done(broker.controller.delete_topics(["orders"]))
    broker.disk.fail(errno.EMFILE, Operation.REMOVE, path="orders-0")

    with pytest.raises(OSError, match="Too many open files"):
        broker.delete_doomed()
    broker.delete_doomed()

    assert not [name for name in broker.disk.names("") if name.startswith("orders")]


def rolled(disk: RealDisk) -> Log:
    """A log whose old segment has indexes that wait for a sync."""
    log = Log.open(disk, "orders-0", log_config(), now_ms=NOW_MS)
    for _ in range(2):
        log.append(batch_of(b"value"), leader_epoch=EPOCH, now_ms=NOW_MS)
        log.roll(NOW_MS)
    return log


def test_a_log_that_is_let_go_of_holds_no_file_open(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    log = rolled(disk)
    assert disk.descriptor_count > 3

    log.abandon()

    assert disk.descriptor_count == 0


def test_an_attempt_to_open_a_damaged_log_leaves_no_file_open(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    rolled(disk).abandon()
    (tmp_path / "orders-0" / f"{1:020d}.log").write_bytes(b"damaged")

    with pytest.raises(StorageError, match="durable"):
        Log.open(disk, "orders-0", log_config(), now_ms=NOW_MS, recovery_point=2)

    assert disk.descriptor_count == 0


def test_an_attempt_to_put_damaged_segments_in_place_leaves_no_file_open(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    rolled(disk).abandon()
    (tmp_path / "orders-0" / f"{0:020d}.log.swap").write_bytes(b"damaged")

    with pytest.raises(StorageError, match="damaged"):
        Log.open(disk, "orders-0", log_config(), now_ms=NOW_MS)

    assert disk.descriptor_count == 0


def test_a_log_that_begins_behind_its_old_end_holds_none_of_its_old_files_open(
    tmp_path: Path,
) -> None:
    disk = RealDisk(tmp_path)
    rolled(disk).abandon()

    log = Log.open(disk, "orders-0", log_config(), now_ms=NOW_MS, start_offset=100)

    assert log.next_offset == 100
    assert disk.descriptor_count == 0
