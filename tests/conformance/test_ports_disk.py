"""What every disk promises: the real one and the simulated one pass the same tests."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

from ottla.ports import Buffer, Disk, Folder
from ottla.runtime.disk import RealDisk
from ottla.testing.disk import SimDisk


class OpenAgain(Protocol):
    def __call__(self) -> Disk: ...


@dataclass(frozen=True, slots=True)
class Machine:
    """One tree, and a way in for a second process."""

    disk: Disk
    open_again: OpenAgain


@pytest.fixture(params=["real", "real with two descriptors", "simulated"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machine]:
    if request.param == "simulated":
        simulated = SimDisk()
        simulated.sync_delay_ms = (0.0, 0.0)
        yield Machine(simulated, lambda: simulated)
        return
    others: list[RealDisk] = []

    def open_again() -> RealDisk:
        others.append(RealDisk(tmp_path / "data"))
        return others[-1]

    max_descriptors = 2 if "two" in request.param else None
    real = RealDisk(tmp_path / "data", max_descriptors=max_descriptors)
    yield Machine(real, open_again)
    for disk in [real, *others]:
        disk.close()


@pytest.fixture
def disk(machine: Machine) -> Disk:
    return machine.disk


def put(disk: Disk, path: str, data: bytes) -> None:
    file = disk.open(path, create=True)
    file.write(0, data)
    file.close()


def content(disk: Disk, path: str) -> bytes:
    file = disk.open(path)
    data = file.read(0, file.size_bytes() + 1)
    file.close()
    return data


def use_other_files(disk: Disk) -> None:
    """Make a cache of descriptors give up those it can; then remove what was used for it."""
    files = [disk.open(f"other-{number}", create=True) for number in range(4)]
    for file in files:
        file.write(0, b"other")
    for file in files:
        file.close()
        disk.remove(file.path)


def test_what_was_written_is_read(disk: Disk) -> None:
    file = disk.open("a", create=True)
    file.write(0, b"espresso")
    file.write(2, b"PR")

    assert file.read(0, 8) == b"esPResso"
    assert file.read(6, 100) == b"so"
    assert file.read(8, 100) == b""
    assert file.read(0, 0) == b""
    assert file.size_bytes() == 8


@pytest.mark.parametrize("data", [b"latte", bytearray(b"latte"), memoryview(b"a latte")[2:]])
def test_every_kind_of_buffer_can_be_written(disk: Disk, data: Buffer) -> None:
    file = disk.open("a", create=True)
    file.write(0, data)
    assert file.read(0, 100) == b"latte"


def test_a_buffer_may_change_once_it_is_written(disk: Disk) -> None:
    file = disk.open("a", create=True)
    data = bytearray(b"latte")
    file.write(0, data)
    data[:] = b"mocha"
    assert file.read(0, 5) == b"latte"


def test_writing_beyond_the_end_leaves_zeros_between(disk: Disk) -> None:
    file = disk.open("a", create=True)
    file.write(3, b"x")
    assert file.read(0, 9) == b"\0\0\0x"


def test_writing_nothing_changes_nothing(disk: Disk) -> None:
    file = disk.open("a", create=True)
    file.write(5, b"")
    assert file.size_bytes() == 0


def test_two_openings_of_a_file_see_each_other(disk: Disk) -> None:
    one, other = disk.open("a", create=True), disk.open("a")
    one.write(0, b"one")
    assert other.read(0, 3) == b"one"


def test_truncating_cuts_and_extends(disk: Disk) -> None:
    file = disk.open("a", create=True)
    file.write(0, b"espresso")
    file.truncate(3)
    file.truncate(5)
    assert file.read(0, 9) == b"esp\0\0"


def test_allocating_extends_with_zeros_and_never_cuts(disk: Disk) -> None:
    file = disk.open("a", create=True)
    file.write(0, b"abc")
    file.allocate(10)
    file.allocate(4)
    assert file.read(0, 99) == b"abc" + bytes(7)


def test_a_file_that_is_missing_is_only_created_on_demand(disk: Disk) -> None:
    with pytest.raises(FileNotFoundError):
        disk.open("a")
    assert not disk.exists("a")

    disk.open("a", create=True)

    assert disk.exists("a")


def test_opening_to_create_keeps_what_is_there(disk: Disk) -> None:
    put(disk, "a", b"kept")
    assert disk.open("a", create=True).read(0, 9) == b"kept"


def test_a_closed_file_refuses_to_be_used(disk: Disk) -> None:
    file = disk.open("a", create=True)
    file.close()
    file.close()
    for use in (file.size_bytes, file.sync, lambda: file.read(0, 1), lambda: file.write(0, b"x")):
        with pytest.raises(OSError, match=r"closed|Bad file descriptor"):
            use()


@pytest.mark.parametrize("position", [-1, -(2**40)])
def test_a_negative_position_is_refused(disk: Disk, position: int) -> None:
    file = disk.open("a", create=True)
    with pytest.raises(OSError, match="Invalid argument"):
        file.write(position, b"x")
    with pytest.raises(OSError, match="Invalid argument"):
        file.read(position, 1)


def test_names_are_sorted_and_only_of_one_folder(disk: Disk) -> None:
    disk.make_folder("b")
    for path in ("c", "a", "b/z", "b/y"):
        put(disk, path, b"")
    assert disk.names("") == ["a", "b", "c"]
    assert disk.names("b") == ["y", "z"]


def test_names_of_what_is_no_folder_are_refused(disk: Disk) -> None:
    put(disk, "a", b"")
    with pytest.raises(FileNotFoundError):
        disk.names("missing")
    with pytest.raises(NotADirectoryError):
        disk.names("a")


def test_a_folder_may_be_made_twice_but_not_over_a_file(disk: Disk) -> None:
    disk.make_folder("f")
    disk.make_folder("f")
    put(disk, "a", b"")
    with pytest.raises(FileExistsError):
        disk.make_folder("a")
    with pytest.raises(FileNotFoundError):
        disk.make_folder("missing/f")


def test_a_folder_is_no_file(disk: Disk) -> None:
    disk.make_folder("f")
    with pytest.raises(IsADirectoryError):
        disk.open("f", create=True)
    with pytest.raises(OSError, match=r"directory|permitted"):
        disk.remove("f")


def test_only_an_empty_folder_can_be_removed(disk: Disk) -> None:
    disk.make_folder("f")
    put(disk, "f/a", b"")
    with pytest.raises(OSError, match="not empty"):
        disk.remove_folder("f")
    disk.remove("f/a")
    disk.remove_folder("f")
    assert not disk.exists("f")


def test_removing_what_is_missing_is_an_error(disk: Disk) -> None:
    with pytest.raises(FileNotFoundError):
        disk.remove("a")
    with pytest.raises(FileNotFoundError):
        disk.remove_folder("f")


def test_nothing_exists_below_a_file(disk: Disk) -> None:
    put(disk, "a", b"")
    assert not disk.exists("a/b")
    assert disk.exists("")


def test_renaming_replaces_what_had_the_name(disk: Disk) -> None:
    put(disk, "new", b"new")
    put(disk, "old", b"old")
    disk.rename("new", "old")
    assert disk.names("") == ["old"]
    assert content(disk, "old") == b"new"


def test_renaming_to_the_same_name_changes_nothing(disk: Disk) -> None:
    file = disk.open("a", create=True)
    file.write(0, b"abc")
    disk.rename("a", "a")
    use_other_files(disk)
    assert (file.path, file.read(0, 9), content(disk, "a")) == ("a", b"abc", b"abc")


def test_renaming_moves_between_folders(disk: Disk) -> None:
    disk.make_folder("f")
    put(disk, "a", b"moved")
    disk.rename("a", "f/b")
    assert disk.names("") == ["f"]
    assert content(disk, "f/b") == b"moved"


def test_a_rename_that_cannot_be_is_refused(disk: Disk) -> None:
    disk.make_folder("f")
    disk.make_folder("full")
    put(disk, "full/a", b"")
    put(disk, "a", b"")
    for old, new in [
        ("missing", "b"),
        ("a", "missing/b"),
        ("a", "f"),
        ("f", "a"),
        ("f", "full"),
        ("f", "f/inside"),
    ]:
        with pytest.raises(OSError, match=r"No such|directory|Invalid|not empty"):
            disk.rename(old, new)
    assert disk.names("") == ["a", "f", "full"]


def test_a_linked_file_has_two_names_until_both_are_removed(disk: Disk) -> None:
    disk.make_folder("f")
    file = disk.open("a", create=True)
    file.write(0, b"one")
    disk.link("a", "f/b")
    use_other_files(disk)

    file.write(3, b"two")

    assert (file.path, content(disk, "f/b")) == ("a", b"onetwo")
    disk.remove("a")
    assert content(disk, "f/b") == b"onetwo"
    put(disk, "a", b"another")
    assert content(disk, "f/b") == b"onetwo"
    disk.remove("f/b")
    assert disk.names("f") == []


def test_a_link_that_cannot_be_is_refused(disk: Disk) -> None:
    disk.make_folder("f")
    put(disk, "a", b"a")
    put(disk, "b", b"b")
    for path, new in [("missing", "c"), ("a", "missing/c"), ("a", "b"), ("f", "c")]:
        with pytest.raises(OSError, match=r"No such|exists|not permitted"):
            disk.link(path, new)
    assert (disk.names(""), content(disk, "b")) == (["a", "b", "f"], b"b")


def test_an_open_file_follows_its_new_name(disk: Disk) -> None:
    file = disk.open("a", create=True)
    file.write(0, b"one")
    disk.rename("a", "b")
    use_other_files(disk)

    file.write(3, b"two")

    assert file.path == "b"
    assert content(disk, "b") == b"onetwo"


def test_an_open_file_follows_its_folders_new_name(disk: Disk) -> None:
    disk.make_folder("f")
    file = disk.open("f/a", create=True)
    neighbor = disk.open("fa", create=True)
    disk.rename("f", "g")
    use_other_files(disk)

    file.write(0, b"found")

    assert file.path == "g/a"
    assert content(disk, "g/a") == b"found"
    assert neighbor.path == "fa"


def test_a_removed_file_lives_until_it_is_closed(disk: Disk) -> None:
    file = disk.open("a", create=True)
    file.write(0, b"ghost")
    use_other_files(disk)
    disk.remove("a")
    put(disk, "a", b"another")
    use_other_files(disk)

    assert file.read(0, 9) == b"ghost"
    file.close()
    assert content(disk, "a") == b"another"


def test_a_replaced_file_lives_until_it_is_closed(disk: Disk) -> None:
    replaced = disk.open("a", create=True)
    replaced.write(0, b"ghost")
    put(disk, "b", b"newer")
    use_other_files(disk)
    disk.rename("b", "a")
    use_other_files(disk)

    assert replaced.read(0, 9) == b"ghost"
    assert content(disk, "a") == b"newer"


def test_a_file_may_be_created_anew_after_a_rename(disk: Disk) -> None:
    old = disk.open("a", create=True)
    old.write(0, b"old")
    disk.rename("a", "a.deleted")
    new = disk.open("a", create=True)
    new.write(0, b"new")
    use_other_files(disk)

    assert (old.path, old.read(0, 3)) == ("a.deleted", b"old")
    assert (new.path, new.read(0, 3)) == ("a", b"new")


def test_many_files_may_be_open_at_once(disk: Disk) -> None:
    files = [disk.open(f"file-{number}", create=True) for number in range(50)]
    for number, file in enumerate(files):
        file.write(0, b"%d" % number)
    assert [file.read(0, 9) for file in files] == [b"%d" % number for number in range(50)]


@pytest.mark.parametrize("path", ["/a", "../a", "f/../a", "./a", "f//a", "f/", "a\0b", ".."])
def test_a_path_cannot_leave_the_tree(disk: Disk, path: str) -> None:
    disk.make_folder("f")
    put(disk, "known", b"")
    with pytest.raises(ValueError, match="not a relative path inside"):
        disk.open(path, create=True)
    with pytest.raises(ValueError, match="not a relative path inside"):
        disk.rename("known", path)
    with pytest.raises(ValueError, match="not a relative path inside"):
        disk.names(path)


def test_syncing_takes_files_and_folders(disk: Disk) -> None:
    disk.make_folder("f")
    file = disk.open("f/a", create=True)
    file.write(0, b"abc")
    file.sync()
    disk.sync_folder("f")
    disk.sync_folder("")
    with pytest.raises(FileNotFoundError):
        disk.sync_folder("missing")


LARGE = bytes(2 * 1024 * 1024)


@pytest.mark.parametrize("data", [b"small", LARGE])
def test_the_name_of_a_file_that_is_removed_aside_is_free_at_once(disk: Disk, data: bytes) -> None:
    put(disk, "a", data)

    async def remove() -> None:
        removing = asyncio.ensure_future(disk.remove_aside("a"))
        await asyncio.sleep(0)
        assert not disk.exists("a")
        put(disk, "a", b"another")
        await removing
        with pytest.raises(FileNotFoundError):
            await disk.remove_aside("missing")

    asyncio.run(remove())
    assert content(disk, "a") == b"another"


def test_a_file_that_is_removed_aside_lives_until_it_is_closed(disk: Disk) -> None:
    put(disk, "a", LARGE)
    disk.link("a", "second")
    removed = disk.open("a")
    asyncio.run(disk.remove_aside("a"))
    asyncio.run(disk.remove_aside("second"))
    use_other_files(disk)
    assert disk.names("") == []
    assert removed.read(0, len(LARGE)) == LARGE


def test_a_folder_may_be_among_the_files(disk: Disk) -> None:
    disk.make_folder("f")
    file = disk.open("f/a", create=True)
    file.write(0, b"abc")

    asyncio.run(disk.sync_files([Folder(disk, "f"), file, Folder(disk, ""), Folder(disk, "f")]))

    assert file.read(0, 3) == b"abc"


def test_a_folder_that_is_synced_beside_files_may_be_renamed_meanwhile(disk: Disk) -> None:
    disk.make_folder("f")
    disk.open("f/a", create=True).close()

    async def sync() -> None:
        syncing = asyncio.ensure_future(disk.sync_files([Folder(disk, "f")]))
        await asyncio.sleep(0)
        disk.rename("f", "g")
        await syncing

    asyncio.run(sync())
    assert disk.names("g") == ["a"]


def test_many_files_are_synced_at_once(disk: Disk) -> None:
    files = [disk.open(f"file-{number}", create=True) for number in range(20)]
    for file in files:
        file.write(0, b"abc")

    async def sync() -> None:
        await asyncio.gather(disk.sync_files(files), disk.sync_files(files[:3]))
        await disk.sync_files([])

    asyncio.run(sync())
    assert all(file.read(0, 3) == b"abc" for file in files)


def test_a_file_may_be_closed_or_removed_while_it_is_synced(disk: Disk) -> None:
    closed, removed = disk.open("a", create=True), disk.open("b", create=True)
    closed.write(0, b"abc")
    removed.write(0, b"abc")

    async def sync() -> None:
        syncing = asyncio.ensure_future(disk.sync_files([removed, closed]))
        await asyncio.sleep(0)
        disk.remove("b")
        closed.close()
        await syncing

    asyncio.run(sync())
    assert removed.read(0, 3) == b"abc"
    assert disk.names("") == ["a"]


def test_there_is_room(disk: Disk) -> None:
    assert 0 < disk.free_bytes() <= disk.total_bytes()


def test_a_tree_is_claimed_once(machine: Machine) -> None:
    machine.disk.lock()
    with pytest.raises(BlockingIOError, match="in use by"):
        machine.open_again().lock()

    machine.disk.close()
    machine.disk.close()

    machine.open_again().lock()
    assert machine.disk.names("") == [".lock"]
