"""The real disk where descriptors or threads are lacking: nothing is lost, nobody waits long."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.runtime.disk import LARGE_BYTES
from ottla.runtime.syncing import DiskThreads

SPEAKER = "ottla.runtime.syncing"


def run_without_descriptors(tmp_path: Path, *acts: str) -> list[str]:
    """What a program prints that opens a disk with a folder `f`, and then takes all descriptors."""
    lines = (
        "import asyncio, os, resource, sys",
        "from ottla.ports import Folder",
        "from ottla.runtime.disk import RealDisk",
        "from ottla.runtime.folders import FolderSyncs",
        "async def run():",
        "    disk = RealDisk(sys.argv[1])",
        "    disk.make_folder('f')",
        "    folders = FolderSyncs(sys.argv[1], patience_ms=20)",
        "    folders.close()",
        "    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))",
        "    try:",
        "        while os.dup(0): pass",
        "    except OSError: pass",
        *(f"    {act}" for act in acts),
        "asyncio.run(run())",
    )
    return printed_by("\n".join(lines), tmp_path)


def printed_by(script: str, folder: Path) -> list[str]:
    """What a program prints that is given a folder for its disk."""
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.splitlines()


def test_a_folder_is_synced_although_connections_have_all_descriptors(tmp_path: Path) -> None:
    printed = run_without_descriptors(
        tmp_path,
        "await disk.sync_files([Folder(disk, 'gone')])",
        "try: os.dup(0)",
        "except OSError: print('a spare one is kept')",
        "for _ in range(3):",  # what is left at the end of one is there for the next
        "    await disk.sync_files([Folder(disk, 'f'), Folder(disk, '')])",
        "await disk.sync_files([Folder(disk, 'gone')])",
        "disk.sync_folder('f')",
        "disk.sync_folder('')",
        "print('synced')",
    )
    assert printed == ["a spare one is kept", "synced"]


def test_a_folder_that_gets_no_descriptor_is_given_up_after_a_while(tmp_path: Path) -> None:
    printed = run_without_descriptors(
        tmp_path,
        "try:",
        "    folders.sync(sys.argv[1])",
        "except OSError as error:",
        "    print(error.strerror)",
    )
    assert printed == ["Too many open files"]


def test_a_large_file_is_removed_although_connections_have_all_descriptors(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(LARGE_BYTES))
    printed = run_without_descriptors(
        tmp_path, "await disk.remove_aside('large')", "print(disk.exists('large'))"
    )
    assert printed == ["False"]


def test_a_second_sync_of_a_file_waits_where_descriptors_are_lacking(tmp_path: Path) -> None:
    script = (
        "import asyncio, os, resource, sys\n"
        "from ottla.runtime.disk import RealDisk\n"
        "async def sync_twice():\n"
        "    disk = RealDisk(sys.argv[1])\n"
        "    file = disk.open('a', create=True)\n"
        "    file.write(0, b'abc')\n"
        "    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
        "    try:\n"
        "        while os.dup(0): pass\n"
        "    except OSError as error:\n"
        "        print(error.strerror)\n"
        "    await asyncio.gather(disk.sync_files([file]), disk.sync_files([file]))\n"
        "    print(file.pins, file.is_dirty)\n"
        "asyncio.run(sync_twice())\n"
    )
    assert printed_by(script, tmp_path) == ["Too many open files", "0 False"]


def test_if_connections_have_all_descriptors_an_open_file_makes_way(tmp_path: Path) -> None:
    script = (
        "import os, resource, sys\n"
        "from ottla.runtime.disk import RealDisk\n"
        "disk = RealDisk(sys.argv[1])\n"
        "files = [disk.open(name, create=True) for name in 'abcd']\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
        "try:\n"
        "    while os.dup(0): pass\n"
        "except OSError as error:\n"
        "    print(error.strerror)\n"
        "disk.open('e', create=True)\n"
        "disk.sync_folder('')\n"
        "print(disk.descriptor_count)\n"
    )
    assert printed_by(script, tmp_path) == ["Too many open files", "3"]


class Refused(DiskThreads):
    """Gets so many threads, and no more."""

    def __init__(self, granted_count: int) -> None:
        super().__init__("test", most=2)
        self._granted_count = granted_count

    def _start_thread(self) -> None:
        if len(self._threads) == self._granted_count:
            raise RuntimeError("can't start new thread")
        super()._start_thread()


@pytest.mark.parametrize("granted_count", [0, 1])
def test_without_a_thread_the_disk_is_waited_for_all_the_same(
    granted_count: int, caplog: pytest.LogCaptureFixture
) -> None:
    threads = Refused(granted_count)
    synced: list[int] = []

    async def run() -> None:
        async with asyncio.timeout(60):
            for _ in range(2):
                await threads.work_off([[1], [2], [3]], synced.append)

    asyncio.run(run())
    threads.stop()
    assert synced == [1, 2, 3, 1, 2, 3]
    told = [record.getMessage() for record in caplog.records if record.name == SPEAKER]
    assert told == ["a thread for the disk is missing: name=test can't start new thread"]


CLOSED = """
import asyncio, os, resource, sys
from ottla.runtime.disk import RealDisk

async def run():
    disk = RealDisk(sys.argv[1])
    file = disk.open("f", create=True)
    file.write(0, b"abc")
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    try:
        while os.dup(0): pass
    except OSError: pass
    syncs = [asyncio.ensure_future(disk.sync_files([file])) for _ in range(2)]
    await asyncio.sleep(0)
    file.close()  # of which the second sync has no descriptor of its own yet
    await asyncio.gather(*syncs)
    print("both are over")

asyncio.run(run())
"""


def test_a_file_may_be_closed_while_its_sync_waits_for_a_descriptor(tmp_path: Path) -> None:
    printed = printed_by(CLOSED, tmp_path)
    assert printed == ["both are over"]


CROWDED = """
import asyncio, os, resource, socket
from ottla.runtime.network import RealNetwork

async def run():
    told = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    listener = await RealNetwork().listen("127.0.0.1", 0, asyncio.Protocol)
    waiting = [socket.create_connection(listener.address, timeout=10) for _ in range(100)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
    try:
        while os.dup(0): pass
    except OSError: pass
    while not told:
        await asyncio.sleep(0)
    for _ in range(10):
        await asyncio.sleep(0)
    print(len(waiting), len(told), told[0]["message"])

asyncio.run(run())
"""


def test_that_nobody_can_be_accepted_is_told_once_however_many_wait(tmp_path: Path) -> None:
    printed = printed_by(CROWDED, tmp_path)
    assert printed == ["100 1 socket.accept() out of system resource"]
