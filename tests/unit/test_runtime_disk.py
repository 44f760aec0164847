"""The real disk: descriptors are bounded, failed syncs are remembered, the thread is invisible."""

import asyncio
import contextlib
import contextvars
import errno
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar, TypeVarTuple

import pytest

from ottla.runtime import disk as disk_module
from ottla.runtime import writeback
from ottla.runtime.disk import RealDisk
from ottla.runtime.files import OpenFiles, RealFile
from ottla.runtime.syncing import DiskThreads, Errors, first_of, sync_descriptor

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[RealDisk]:
    disk = RealDisk(tmp_path / "data", max_descriptors=3)
    yield disk
    disk.close()


def break_descriptor(file: RealFile) -> None:
    """Let the next sync of `file` fail, as a broken disk would: a pipe cannot be synced."""
    reader, writer = os.pipe()
    os.dup2(writer, file.descriptor)
    os.close(reader)
    os.close(writer)


def _open_inodes() -> set[int]:
    """Of everything that this process has open; threads of other tests may close some meanwhile."""
    found = set()
    for name in os.listdir("/dev/fd"):
        with contextlib.suppress(OSError):
            found.add(os.fstat(int(name)).st_ino)
    return found


def test_the_root_is_created(tmp_path: Path) -> None:
    RealDisk(tmp_path / "deep" / "data").close()
    assert (tmp_path / "deep" / "data").is_dir()


def test_the_number_of_descriptors_is_bounded(disk: RealDisk) -> None:
    files = [disk.open(f"file-{number}", create=True) for number in range(50)]
    for number, file in enumerate(files):
        file.write(0, b"%d" % number)
        assert disk.descriptor_count <= 3
    assert [file.read(0, 9) for file in files] == [b"%d" % number for number in range(50)]
    for file in files:
        file.close()
    assert disk.descriptor_count == 0


def test_by_default_half_of_the_descriptors_are_for_connections() -> None:
    script = (
        "import resource\n"
        "from ottla.runtime.disk import RealDisk, _default_max_descriptors\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))\n"
        "print(_default_max_descriptors())\n"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert answer.stdout == b"100\n"
    assert disk_module.MOST_DESCRIPTORS <= 2**14


def test_a_file_with_unsynced_writes_gives_up_its_descriptor_last(disk: RealDisk) -> None:
    written = disk.open("written", create=True)
    written.write(0, b"abc")
    clean = [disk.open(f"clean-{number}", create=True) for number in range(2)]

    disk.open("another", create=True)

    assert written.descriptor >= 0
    assert clean[0].descriptor == -1


def test_a_descriptor_with_unsynced_writes_is_synced_before_it_goes(disk: RealDisk) -> None:
    files = [disk.open(f"file-{number}", create=True) for number in range(3)]
    for file in files:
        file.write(0, b"abc")

    disk.open("another", create=True)

    assert [file.is_dirty for file in files] == [False, True, True]
    assert files[0].descriptor == -1


def test_an_error_at_giving_up_a_descriptor_is_not_lost(disk: RealDisk) -> None:
    files = [disk.open(f"file-{number}", create=True) for number in range(3)]
    for file in files:
        file.write(0, b"abc")
    break_descriptor(files[0])

    with pytest.raises(OSError, match="Invalid argument"):
        disk.open("another", create=True)

    with pytest.raises(OSError, match="an earlier sync failed"):
        files[0].sync()


def test_a_failed_sync_is_never_repeated(disk: RealDisk) -> None:
    file = disk.open("a", create=True)
    file.write(0, b"abc")
    good = os.dup(file.descriptor)
    break_descriptor(file)
    with pytest.raises(OSError, match="Invalid argument") as first:
        file.sync()
    os.dup2(good, file.descriptor)
    os.close(good)

    with pytest.raises(OSError, match=r"an earlier sync failed .*may be lost") as second:
        file.sync()
    with pytest.raises(OSError, match="an earlier sync failed"):
        asyncio.run(disk.sync_files([file]))

    assert first.value.errno == second.value.errno == errno.EINVAL
    assert file.pins == 0


def test_a_group_of_syncs_raises_the_first_error_and_remembers_each(disk: RealDisk) -> None:
    files = [disk.open(name, create=True) for name in "abc"]
    for file in files:
        file.write(0, b"abc")
    break_descriptor(files[1])

    with pytest.raises(OSError, match="Invalid argument"):
        asyncio.run(disk.sync_files(files))

    assert [file.is_dirty for file in files] == [False, True, False]
    assert [file.pins for file in files] == [0, 0, 0]
    with pytest.raises(OSError, match="an earlier sync failed"):
        files[1].sync()


def test_what_is_written_during_a_sync_still_needs_one(disk: RealDisk) -> None:
    file = disk.open("a", create=True)
    file.write(0, b"abc")

    async def sync() -> None:
        syncing = asyncio.ensure_future(disk.sync_files([file]))
        await asyncio.sleep(0)
        file.write(3, b"def")
        await syncing

    asyncio.run(sync())
    assert file.is_dirty


def test_a_sync_goes_on_when_its_caller_is_canceled(disk: RealDisk) -> None:
    file = disk.open("a", create=True)
    file.write(0, b"abc")
    errors: list[object] = []

    async def sync() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: errors.append(context["exception"]))
        syncing = asyncio.ensure_future(disk.sync_files([file]))
        await asyncio.sleep(0)
        syncing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await syncing
        async with asyncio.timeout(60):
            while file.pins:  # the other threads may be quicker
                await disk.sync_files([file])

    asyncio.run(sync())
    assert file.pins == 0
    assert errors == []


def test_a_file_keeps_its_descriptor_while_it_is_synced(disk: RealDisk) -> None:
    file = disk.open("a", create=True)

    async def sync() -> None:
        syncing = asyncio.ensure_future(disk.sync_files([file]))
        await asyncio.sleep(0)
        for number in range(5):
            disk.open(f"other-{number}", create=True)
        assert file.descriptor >= 0
        await syncing

    asyncio.run(sync())
    assert disk.descriptor_count == 3


def test_the_descriptor_of_a_closed_file_lives_until_its_sync_is_done(disk: RealDisk) -> None:
    file = disk.open("a", create=True)

    async def sync() -> None:
        syncing = asyncio.ensure_future(disk.sync_files([file]))
        await asyncio.sleep(0)
        file.close()
        assert disk.descriptor_count == 1
        await syncing

    asyncio.run(sync())
    assert disk.descriptor_count == 0


def test_two_syncs_of_a_file_have_a_descriptor_each(tmp_path: Path) -> None:
    """The kernel tells each of them once what went wrong: one alone would hear it for both."""
    open_files = OpenFiles(str(tmp_path), 3)
    file = open_files.open("a", os.O_RDWR | os.O_CREAT)
    first, second = open_files.pin(file), open_files.pin(file)
    assert first == file.descriptor
    assert os.path.samestat(os.fstat(first), os.fstat(second))
    assert first != second
    open_files.unpin(file, first)
    os.fstat(first)
    open_files.unpin(file, second)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(second)
    open_files.close_all()


def test_a_group_of_syncs_wakes_the_loop_once(disk: RealDisk) -> None:
    files = [disk.open(name, create=True) for name in "abc"]
    wakes: list[object] = []

    class Counting(asyncio.SelectorEventLoop):
        def call_soon_threadsafe(
            self,
            callback: Callable[[*_Ts], object],
            *args: *_Ts,
            context: contextvars.Context | None = None,
        ) -> asyncio.Handle:
            wakes.append(callback)
            return super().call_soon_threadsafe(callback, *args, context=context)

    with asyncio.Runner(loop_factory=Counting) as runner:
        runner.run(disk.sync_files(files))
        assert len(wakes) == 1


def test_shares_are_synced_at_the_same_time_and_each_in_its_order() -> None:
    threads = DiskThreads("test", most=2)
    begun = threading.Barrier(2, timeout=60)
    synced: list[int] = []

    def sync(number: int) -> None:
        if number in (10, 20):
            begun.wait()  # neither goes on before the other one is there
        synced.append(number)
        if number == 12:
            raise OSError(errno.EIO, "twelve is broken")

    async def run() -> Errors:
        told: asyncio.Future[Errors] = asyncio.get_running_loop().create_future()
        threads.begin([[10, 11, 12], [20, 21]], sync, told.set_result)
        return await told

    errors = asyncio.run(run())
    threads.stop()
    assert [number for number in synced if number < 20] == [10, 11, 12]
    assert [number for number in synced if number >= 20] == [20, 21]
    assert [error is None for error in errors] == [True, True, False, True, True]
    assert str(first_of(errors)) == "[Errno 5] twelve is broken"


def test_a_bug_in_a_thread_ends_neither_the_thread_nor_the_wait(
    caplog: pytest.LogCaptureFixture,
) -> None:
    threads = DiskThreads("test", most=1)

    def divide(number: int) -> None:
        assert 1 // number

    async def run() -> None:
        async with asyncio.timeout(60):
            with pytest.raises(OSError, match="ZeroDivisionError"):
                await threads.work_off([[0, 1]], divide)
            await threads.work_off([[1]], divide)

    asyncio.run(run())
    threads.stop()
    ours = [record for record in caplog.records if record.name == "ottla.runtime.syncing"]
    assert [record.exc_info is not None for record in ours] == [True]


def test_the_room_of_a_large_file_is_freed_in_a_thread(disk: RealDisk) -> None:
    freed_by: list[str] = []

    class Told(DiskThreads):
        async def work_off(self, shares: Sequence[Sequence[_T]], act: Callable[[_T], None]) -> None:
            def tell(item: _T) -> None:
                freed_by.append(threading.current_thread().name)
                act(item)

            await super().work_off(shares, tell)

    disk._remove_threads = Told("aside", most=1)
    for name, size_bytes in {"small": 1, "large": disk_module.LARGE_BYTES}.items():
        file = disk.open(name, create=True)
        file.write(0, bytes(size_bytes))
        file.close()
    inode = os.stat(os.path.join(disk.root, "large")).st_ino

    for name in ("small", "large"):
        asyncio.run(disk.remove_aside(name))

    assert freed_by == ["aside"]
    assert inode not in _open_inodes()


def test_who_waits_for_a_sync_learns_of_a_bug_at_its_end(
    disk: RealDisk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = disk.open("file", create=True)
    file.write(0, b"x")

    def fail(*_: object) -> None:
        raise ValueError("nobody expected this")

    async def run() -> None:
        async with asyncio.timeout(60):
            with pytest.raises(ValueError, match="nobody expected this"):
                await disk.sync_files([file])

    with monkeypatch.context() as patched:
        patched.setattr(disk, "_unpin", fail)
        asyncio.run(run())
    ours = [record for record in caplog.records if record.name == "ottla.runtime.disk"]
    assert [record.exc_info is not None for record in ours] == [True]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such call")
def test_writeback_begins_with_the_advice(disk: RealDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    advise = writeback._sync_file_range()
    assert advise is not None
    outcomes: list[int] = []
    monkeypatch.setattr(
        writeback, "_sync_file_range", lambda: lambda *about: outcomes.append(advise(*about))
    )
    file = disk.open("file", create=True)
    file.write(0, b"x")

    file.begin_writeback()

    assert outcomes == [0], "the system has taken it"
    file.close()
    file.begin_writeback()
    assert outcomes == [0], "there is no descriptor any more"


def test_a_file_that_gave_up_its_descriptor_needs_none_to_be_synced(disk: RealDisk) -> None:
    files = [disk.open(f"file-{number}", create=True) for number in range(4)]
    for file in files:
        file.write(0, b"abc")
    assert files[0].descriptor == -1, "it was synced for that"
    os.unlink(os.path.join(disk.root, "file-0"))  # so that it could not be opened again

    asyncio.run(disk.sync_files(files))

    assert not any(file.is_dirty or file.pins for file in files)
    assert files[0].descriptor == -1


def test_a_file_is_not_synced_after_it_was_closed(disk: RealDisk) -> None:
    file = disk.open("a", create=True)
    file.close()
    with pytest.raises(OSError, match="the file is closed"):
        asyncio.run(disk.sync_files([file]))


def test_many_files_are_synced_whatever_folders_they_are_in(disk: RealDisk) -> None:
    files = []
    for number in range(30):
        disk.make_folder(f"f{number % 11}")
        files.append(disk.open(f"f{number % 11}/{number}", create=True))
        files[-1].write(0, b"abc")
    asyncio.run(disk.sync_files(files))
    assert not any(file.is_dirty or file.pins for file in files)


def test_the_thread_survives_a_loop_that_closed(
    disk: RealDisk, caplog: pytest.LogCaptureFixture
) -> None:
    class Closed(asyncio.SelectorEventLoop):
        def call_soon_threadsafe(
            self,
            callback: Callable[[*_Ts], object],
            *args: *_Ts,
            context: contextvars.Context | None = None,
        ) -> asyncio.Handle:
            raise RuntimeError("Event loop is closed")

    file = disk.open("a", create=True)
    threads = DiskThreads("test", most=1)

    async def begin_and_leave() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await threads.work_off([[file.descriptor]], sync_descriptor)

    loop = Closed()
    loop.run_until_complete(begin_and_leave())
    loop.close()
    asyncio.run(threads.work_off([[file.descriptor]], sync_descriptor))
    threads.stop()
    threads.stop()

    told = [record.getMessage() for record in caplog.records if record.name.startswith("ottla")]
    assert told == ["a wait for the disk outlived its loop; errors: [None]"]


def test_a_locked_folder_names_the_process_that_holds_it(disk: RealDisk) -> None:
    disk.lock()
    script = (
        "import sys\n"
        "from ottla.runtime.disk import RealDisk\n"
        "try:\n"
        "    RealDisk(sys.argv[1]).lock()\n"
        "except BlockingIOError as error:\n"
        "    print(error.strerror)\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script, disk.root], capture_output=True, check=True, text=True
    )
    assert answer.stdout == f"the folder is in use by process {os.getpid()}\n"


def test_a_lock_ends_with_its_process(disk: RealDisk) -> None:
    script = "import sys; from ottla.runtime.disk import RealDisk; RealDisk(sys.argv[1]).lock()"
    subprocess.run([sys.executable, "-c", script, disk.root], check=True)
    disk.lock()


def test_closing_the_disk_closes_everything(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path / "data", max_descriptors=3)
    disk.make_folder("f")
    files = [disk.open(f"f/{number}", create=True) for number in range(5)]
    disk.lock()
    ours = {path.stat().st_ino for path in tmp_path.rglob("*")}
    disk.remove("f/4")
    asyncio.run(disk.sync_files(files[:2]))
    assert ours & _open_inodes()

    disk.close()
    disk.close()

    assert not ours & _open_inodes()
    assert all(file.is_closed for file in files)


def test_a_sync_that_ends_after_everything_was_closed_closes_nothing(tmp_path: Path) -> None:
    gc.collect()  # so that there are no gaps but ours
    for _ in range(10):  # threads that other tests have left may open and close something, too
        files = OpenFiles(str(tmp_path), 3)
        file = files.open("log", os.O_RDWR | os.O_CREAT)
        first, second = files.pin(file), files.pin(file)
        files.close_all()
        others = [os.open(tmp_path / name, os.O_RDWR | os.O_CREAT) for name in ("a", "b")]
        is_reused = sorted(others) == sorted((first, second))
        if is_reused:
            for descriptor in (first, second):
                files.unpin(file, descriptor)
        for other in others:
            os.close(other)  # nobody else has
        if is_reused:
            return
    pytest.fail("the system gives the lowest numbers again")
