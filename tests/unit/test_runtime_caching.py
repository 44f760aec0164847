"""The page cache of the real machine: what counts as being in it when the kernel does not say."""

import asyncio
import os
import threading
from pathlib import Path

import pytest

from ottla.ports import ColdReadError
from ottla.runtime.caching import PageCache, Wanted
from ottla.runtime.disk import RealDisk
from ottla.runtime.files import FRESH_BYTES
from tests.page_cache import ATTEMPTS, CONTENT, END, chill, drop


def test_where_the_kernel_cannot_be_asked_everything_counts_as_being_there() -> None:
    reading, writing = os.pipe()  # nobody can say what is at a position of a pipe
    try:
        assert PageCache().has(reading, 0, 1)
        assert PageCache().has(reading, 0, END)
    finally:
        os.close(reading)
        os.close(writing)


def test_what_nobody_wants_any_longer_is_not_brought(tmp_path: Path) -> None:
    path = tmp_path / "old"
    wanted = Wanted(str(path), 0, END)
    wanted.is_wanted = False

    for _ in range(ATTEMPTS):
        chill(path)
        wanted.bring()
        descriptor = os.open(path, os.O_RDONLY)
        try:
            if not PageCache().has(descriptor, END - 1, 1):
                return
        finally:
            os.close(descriptor)
    pytest.fail("all of it was brought")


def test_what_nobody_wants_when_its_turn_comes_is_not_even_opened(tmp_path: Path) -> None:
    wanted = Wanted(str(tmp_path / "gone"), 0, END)
    wanted.is_wanted = False

    wanted.bring()


def test_where_no_thread_can_be_had_the_reader_waits_itself(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(CONTENT)
    disk = RealDisk(tmp_path)
    usual_bytes = threading.stack_size(2**47)  # more than there are addresses
    try:
        asyncio.run(disk.warm("old", 0, END))
    finally:
        threading.stack_size(usual_bytes)
    disk.close()


def test_what_was_written_long_ago_is_asked_about(tmp_path: Path) -> None:
    chill(tmp_path / "any")  # or skip
    disk = RealDisk(tmp_path)
    others = disk.open("others", create=True)

    def is_asked_about(name: str, *, written_since_bytes: int) -> bool:
        file = disk.open(name, create=True)
        file.write(0, CONTENT)
        others.write(0, bytes(written_since_bytes))
        drop(tmp_path / name)
        try:
            return disk.at_once(lambda: file.read(0, END)) != CONTENT
        except ColdReadError:
            return True

    assert not is_asked_about("new", written_since_bytes=FRESH_BYTES)
    assert any(
        is_asked_about(f"old-{number}", written_since_bytes=3 * FRESH_BYTES)
        for number in range(ATTEMPTS)
    )
    disk.close()


def test_a_disk_can_be_closed_while_something_is_brought(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(CONTENT)
    disk = RealDisk(tmp_path)

    async def scenario() -> None:
        warming = [asyncio.ensure_future(disk.warm("old", 0, END)) for _ in range(10)]
        await asyncio.sleep(0)
        disk.close()
        await asyncio.gather(*warming)

    asyncio.run(scenario())
