"""The simulated disk forgets what was not synced, and nothing else."""

import asyncio
import contextlib
import errno
import random
import re
from collections.abc import Callable

import pytest

from ottla.ports import Disk
from ottla.testing.disk import Operation, PowerLoss, SimDisk
from ottla.testing.inodes import SECTOR_BYTES, Survival

SEEDS = range(200)


def content(disk: Disk, path: str) -> bytes:
    return disk.open(path).read(0, 1 << 20)


def after_power_loss(work: Callable[[SimDisk], None], seed: int) -> SimDisk:
    disk = SimDisk(random.Random(seed))
    work(disk)
    disk.lose_power()
    return disk


def outcomes(work: Callable[[SimDisk], None], look: Callable[[SimDisk], object]) -> set[object]:
    """Everything that can be found after `work` and power loss."""
    return {look(after_power_loss(work, seed)) for seed in SEEDS}


def synced_file(disk: SimDisk, path: str, data: bytes) -> None:
    file = disk.open(path, create=True)
    file.write(0, data)
    file.sync()
    disk.sync_folder("")


def test_what_was_synced_survives() -> None:
    def work(disk: SimDisk) -> None:
        synced_file(disk, "a", b"kept")

    assert outcomes(work, lambda disk: content(disk, "a")) == {b"kept"}


def test_of_what_was_not_synced_any_beginning_may_survive() -> None:
    def work(disk: SimDisk) -> None:
        synced_file(disk, "a", b"kept")
        disk.open("a").write(4, b"abc")
        disk.open("a").write(7, b"d")

    expected = {b"kept", b"kepta", b"keptab", b"keptabc", b"keptabcd", b"kept\0\0\0d"}
    assert outcomes(work, lambda disk: content(disk, "a")) == expected


def test_sectors_are_written_in_any_order() -> None:
    sectors = [bytes([letter]) * SECTOR_BYTES for letter in b"abc"]

    def work(disk: SimDisk) -> None:
        synced_file(disk, "a", bytes(3 * SECTOR_BYTES))
        disk.open("a").write(0, b"".join(sectors))

    def without_first(data: object) -> bool:
        assert isinstance(data, bytes)
        return data.startswith(bytes(SECTOR_BYTES)) and data.endswith(sectors[2])

    assert any(map(without_first, outcomes(work, lambda disk: content(disk, "a"))))


def test_room_that_was_allocated_may_stay_full_of_zeros() -> None:
    def work(disk: SimDisk) -> None:
        synced_file(disk, "a", b"")
        file = disk.open("a")
        file.allocate(6)
        file.write(0, b"abc")

    found = outcomes(work, lambda disk: content(disk, "a"))
    assert found >= {b"", bytes(6), b"abc\0\0\0", b"ab\0\0\0\0"}


def test_a_truncation_that_was_not_synced_may_be_undone() -> None:
    def work(disk: SimDisk) -> None:
        synced_file(disk, "a", b"long")
        disk.open("a").truncate(1)

    assert outcomes(work, lambda disk: content(disk, "a")) == {b"long", b"l"}


def test_a_new_name_needs_its_folder_synced() -> None:
    def work(disk: SimDisk) -> None:
        file = disk.open("a", create=True)
        file.write(0, b"abc")
        file.sync()

    assert outcomes(work, lambda disk: tuple(disk.names(""))) == {(), ("a",)}


def test_a_new_folder_needs_the_folder_above_it_synced() -> None:
    def work(disk: SimDisk) -> None:
        disk.make_folder("f")
        disk.open("f/a", create=True)
        disk.sync_folder("f")

    def look(disk: SimDisk) -> object:
        return tuple(disk.names("f")) if disk.exists("f") else None

    assert outcomes(work, look) == {None, ("a",)}


def test_a_rename_happens_wholly_or_not_at_all() -> None:
    def work(disk: SimDisk) -> None:
        synced_file(disk, "old", b"old")
        synced_file(disk, "new", b"new")
        disk.rename("new", "old")

    def look(disk: SimDisk) -> object:
        return tuple((name, content(disk, name)) for name in disk.names(""))

    assert outcomes(work, look) == {(("new", b"new"), ("old", b"old")), (("old", b"new"),)}


def test_a_rename_does_not_save_the_content() -> None:
    def work(disk: SimDisk) -> None:
        disk.open("new", create=True).write(0, b"x")
        disk.rename("new", "old")
        disk.sync_folder("")

    assert outcomes(work, lambda disk: content(disk, "old")) == {b"", b"x"}


def test_a_rename_between_folders_is_synced_by_either() -> None:
    def work(disk: SimDisk) -> None:
        disk.make_folder("f")
        disk.open("f/b", create=True)
        synced_file(disk, "a", b"a")
        disk.rename("a", "f/b")
        disk.sync_folder("")

    def look(disk: SimDisk) -> object:
        return (tuple(disk.names("")), content(disk, "f/b"))

    assert outcomes(work, look) == {(("f",), b"a")}


def test_a_removed_file_may_come_back() -> None:
    def work(disk: SimDisk) -> None:
        synced_file(disk, "a", b"ghost")
        disk.remove("a")

    assert outcomes(work, lambda disk: tuple(disk.names(""))) == {(), ("a",)}


def test_no_file_ever_has_two_names() -> None:
    def work(disk: SimDisk) -> None:
        synced_file(disk, "a", b"x")
        disk.rename("a", "b")
        disk.rename("b", "c")

    found = outcomes(work, lambda disk: tuple(disk.names("")))
    assert found == {("a",), ("b",), ("c",)}


@pytest.mark.parametrize(
    ("survival", "expected"), [(Survival.NOTHING, b""), (Survival.EVERYTHING, b"abc")]
)
def test_what_survives_can_be_fixed(survival: Survival, expected: bytes) -> None:
    disk = SimDisk()
    synced_file(disk, "a", b"")
    disk.open("a").write(0, b"abc")
    disk.lose_power(survival=survival)
    assert content(disk, "a") == expected


def test_the_same_random_numbers_lose_the_same() -> None:
    def work(disk: SimDisk) -> None:
        for number in range(20):
            disk.open(f"file-{number}", create=True).write(0, b"abc" * 1000)

    def look(disk: SimDisk) -> object:
        return [(name, content(disk, name)) for name in disk.names("")]

    assert look(after_power_loss(work, 5)) == look(after_power_loss(work, 5))


def test_power_can_be_lost_at_every_operation() -> None:
    def work(disk: SimDisk) -> None:
        disk.make_folder("f")
        file = disk.open("f/a", create=True)
        file.allocate(10)
        file.write(0, b"abc")
        file.truncate(3)
        file.sync()
        disk.sync_folder("f")
        disk.rename("f/a", "f/b")
        disk.remove("f/b")
        disk.remove_folder("f")

    lines: list[str] = []
    whole = SimDisk(observe=lines.append)
    work(whole)
    assert whole.operation_count == len(lines) == 10
    for crash_at, line in enumerate(lines):
        disk = SimDisk(crash_at=crash_at)
        with pytest.raises(PowerLoss, match=re.escape(f"operation {crash_at}: {line}")):
            work(disk)
        with pytest.raises(PowerLoss):
            disk.names("")
        disk.lose_power()
        disk.names("")


def test_no_handler_of_the_program_survives_power_loss() -> None:
    disk = SimDisk(crash_at=1)
    file = disk.open("a", create=True)
    reached: list[str] = []

    def program() -> None:
        try:
            with contextlib.suppress(Exception):
                file.write(0, b"abc")
                reached.append("after the write")
            reached.append("after the handler")
        finally:
            file.sync()
            reached.append("finally")

    with pytest.raises(PowerLoss):
        program()
    disk.lose_power(survival=Survival.EVERYTHING)
    assert reached == []
    with pytest.raises(PowerLoss):
        file.size_bytes()
    assert content(disk, "a") == b""


def test_a_process_that_ends_loses_its_files_and_its_lock_but_no_data() -> None:
    disk = SimDisk()
    disk.lock()
    file = disk.open("a", create=True)
    file.write(0, b"abc")
    disk.end_process()
    with pytest.raises(PowerLoss):
        file.read(0, 1)
    disk.lock()
    assert content(disk, "a") == b"abc"


def test_a_full_disk_takes_what_fits() -> None:
    disk = SimDisk(capacity_bytes=10)
    file = disk.open("a", create=True)
    file.write(0, b"12345678")
    with pytest.raises(OSError, match="No space left") as full:
        file.write(8, b"90abc")
    assert full.value.errno == errno.ENOSPC
    assert file.read(0, 99) == b"1234567890"
    assert disk.free_bytes() == 0
    with pytest.raises(OSError, match="No space left"):
        disk.open("b", create=True).allocate(1)

    file.write(0, b"overwritten"[:10])
    disk.remove("b")
    file.truncate(2)

    assert disk.free_bytes() == 8
    file.write(2, b"ok")


def test_an_operation_can_be_made_to_fail() -> None:
    disk = SimDisk()
    file, other = disk.open("a", create=True), disk.open("b", create=True)
    disk.fail(errno.EIO, Operation.WRITE, path="a", after=1)
    file.write(0, b"first")
    other.write(0, b"other")
    with pytest.raises(OSError, match="Input/output error"):
        file.write(5, b"second")
    file.write(5, b"third")
    assert file.read(0, 99) == b"firstthird"


def test_a_failure_to_come_can_be_taken_back() -> None:
    disk = SimDisk()
    disk.fail(errno.EIO)
    disk.mend()
    disk.open("a", create=True).write(0, b"well")
    assert disk.open("a").read(0, 99) == b"well"


def test_data_whose_sync_failed_is_lost_whatever_a_later_sync_says() -> None:
    disk = SimDisk()
    synced_file(disk, "a", b"")
    file = disk.open("a")
    file.write(0, b"lost")
    disk.fail(errno.EIO, Operation.SYNC)
    with pytest.raises(OSError, match="Input/output error"):
        file.sync()
    with pytest.raises(OSError, match="an earlier sync failed"):
        file.sync()
    assert file.read(0, 9) == b"lost"

    disk.open("a").sync()
    disk.lose_power(survival=Survival.EVERYTHING)

    assert content(disk, "a") == b""


def test_of_a_group_of_syncs_all_are_tried_and_the_first_error_is_raised() -> None:
    disk = SimDisk()
    disk.sync_delay_ms = (0.0, 0.0)
    files = [disk.open(name, create=True) for name in "abc"]
    disk.sync_folder("")
    for file in files:
        file.write(0, b"x")
    disk.fail(errno.EIO, Operation.SYNC, path="a")
    disk.fail(errno.ENOSPC, Operation.SYNC, path="b")
    with pytest.raises(OSError, match="Input/output error"):
        asyncio.run(disk.sync_files(files))
    disk.lose_power(survival=Survival.NOTHING)
    assert [content(disk, name) for name in "abc"] == [b"", b"", b"x"]
