"""Room that is kept for a full disk: so that it can still be told to make room."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.cluster.store.interface import Put
from ottla.cluster.store.sqlite import FullError, SqliteStore
from ottla.runtime.reserve import PART_BYTES, RESERVE_BYTES, Reserve

LARGE = b"x" * 200_000


def test_a_reserve_has_real_blocks_and_gives_them_back_in_parts(tmp_path: Path) -> None:
    path = tmp_path / "reserve"
    reserve = Reserve(str(path))

    assert reserve.keep()
    assert os.stat(path).st_blocks * 512 >= RESERVE_BYTES
    assert reserve.release()
    assert path.stat().st_size == RESERVE_BYTES - PART_BYTES
    while reserve.release():
        pass
    assert path.stat().st_size == 0
    assert reserve.keep()
    assert path.stat().st_size == RESERVE_BYTES


def test_a_reserve_that_was_never_kept_has_nothing_to_give(tmp_path: Path) -> None:
    assert not Reserve(str(tmp_path / "reserve")).release()


def test_whatever_is_wrong_with_a_reserve_stops_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    no_file = Reserve(str(tmp_path))

    assert not no_file.keep()
    assert not no_file.release()

    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]


def test_whoever_asks_whether_a_reserve_is_needed_takes_none_of_the_room(tmp_path: Path) -> None:
    path = tmp_path / "reserve"
    reserve = Reserve(str(path))

    for size_bytes in (0, RESERVE_BYTES):
        assert not reserve.is_needed()
        assert path.stat().st_size == size_bytes
        assert reserve.keep()


@pytest.mark.parametrize(
    ("is_needed", "told"),
    [
        (True, ["the disk is full, and metadata uses its reserve", "True", "True"]),
        (False, ["disk I/O error", "failed before: disk I/O error"]),
    ],
)
def test_a_quota_that_is_used_up_is_a_full_disk_and_any_other_failed_write_is_not(
    is_needed: bool, told: list[str], tmp_path: Path
) -> None:
    # A limit for files makes SQLite say the same as a quota: that it could not write.
    script = (
        "import asyncio, resource, sys\n"
        "from ottla.cluster.store.interface import Put\n"
        "from ottla.cluster.store.sqlite import SqliteStore\n"
        "from ottla.errors import StorageError\n"
        "def limit(size_bytes):\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, resource.RLIM_INFINITY))\n"
        "class Room:\n"
        "    def keep(self): return True\n"
        f"    def is_needed(self): return {is_needed}\n"
        "    def release(self):\n"
        "        limit(resource.RLIM_INFINITY)\n"
        "        return True\n"
        "store = SqliteStore(sys.argv[1], reserve=Room())\n"
        "limit(65_536)\n"
        "for _ in range(2):\n"
        "    try:\n"
        "        print(asyncio.run(store.txn([], [Put('topic', bytes(200_000))])).is_applied)\n"
        "    except StorageError as error:\n"
        "        print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "store")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=True,
    )
    lines = sorted(done.stdout.splitlines(), key=lambda line: line in ("True", "False"))
    assert len(lines) == len(told)
    assert all(phrase in line for phrase, line in zip(told, lines, strict=True)), lines


class Parts:
    """A reserve of so many parts; each lets a database grow."""

    def __init__(self, count: int, grow: Callable[[], None] = lambda: None) -> None:
        self.count = count
        self._grow = grow
        self.kept_count = 0
        self.has_room = True

    def keep(self) -> bool:
        self.kept_count += 1
        return self.has_room

    def is_needed(self) -> bool:
        return not self.count

    def release(self) -> bool:
        if not self.count:
            return False
        self.count -= 1
        self._grow()
        return True


def full_store(path: Path, part_count: int) -> tuple[SqliteStore, Parts]:
    """A store that cannot grow, but for what its reserve gives."""

    def limit(page_count: int) -> None:
        store._db.execute(f"PRAGMA max_page_count = {page_count}")

    parts = Parts(part_count, lambda: limit(1_000))
    store = SqliteStore(str(path), reserve=parts)
    limit(1)  # never below what it has
    return store, parts


def test_a_change_on_a_full_disk_uses_the_reserve_which_is_kept_again(tmp_path: Path) -> None:
    store, parts = full_store(tmp_path / "store", part_count=2)

    assert asyncio.run(store.txn([], [Put("topic", LARGE)])).is_applied

    assert (parts.count, parts.kept_count) == (1, 1)
    assert asyncio.run(store.txn([], [Put("topic", b"small")])).is_applied
    assert (parts.count, parts.kept_count) == (1, 1)
    store.close()


def test_a_change_for_which_there_is_no_room_at_all_is_refused_whole(tmp_path: Path) -> None:
    store, _ = full_store(tmp_path / "store", part_count=0)

    with pytest.raises(FullError, match="full"):
        asyncio.run(store.txn([], [Put("small", b"1"), Put("topic", LARGE)]))

    assert asyncio.run(store.get("small")) is None
    assert asyncio.run(store.txn([], [Put("small", b"1")])).is_applied
    store.close()


def test_a_reserve_that_there_was_no_room_for_is_kept_when_there_is(tmp_path: Path) -> None:
    parts = Parts(0)
    store = SqliteStore(str(tmp_path / "store"), reserve=parts)

    for has_room in (False, False, True, True):
        parts.has_room = has_room
        asyncio.run(store.txn([], [Put("topic", b"any")]))

    assert parts.kept_count == 3, "once more, and then it is whole"
    store.close()
