"""A copy keeps the newest record of each key, although the log is compacted while it is made."""

import asyncio
import errno
from collections.abc import Callable
from typing import NamedTuple, cast

import pytest

from ottla.broker.freezing import Freezer, Frozen
from ottla.broker.partitions import Partitions
from ottla.broker.storage import Storage
from ottla.log.log import Log
from ottla.log.segment import Segment
from ottla.testing.disk import Operation, SimDisk
from tests.compaction_samples import FOLDER, begin, compacted_config, new_log, put
from tests.log_samples import NOW_MS, read_all

FILLER = b"x" * 300
"""So that each segment stays by itself, and is replaced by itself."""

Values = dict[bytes | None, bytes | None]


class OpenLog(NamedTuple):
    """The part of a partition that a copy is made of."""

    log: Log
    is_closed: bool = False


class Shelf(NamedTuple):
    """The part of partitions and storage that knows of all logs; here it is one."""

    only: OpenLog

    def all(self) -> list[OpenLog]:
        return [self.only]

    def points(self) -> tuple[dict[tuple[str, int], int], dict[tuple[str, int], int]]:
        return {}, {}

    def idle_folders(self) -> list[str]:
        return []


class Interrupted(Freezer):
    """After its first cut, something else happens before it goes on."""

    meanwhile: Callable[[], None] = lambda: None

    async def pause(self) -> None:
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        await super().pause()


def copied(disk: SimDisk, frozen: Frozen) -> Values:
    """What recovery finds in the copy: of each key, the last value."""
    restored = SimDisk()
    restored.make_folder(FOLDER)
    for name in disk.names(f"{frozen.folder}/{FOLDER}"):
        path = f"{FOLDER}/{name}"
        file = disk.open(f"{frozen.folder}/{path}")
        data = file.read(0, frozen.ends.get(path, file.size_bytes()))
        restored.open(path, create=True).write(0, data)
    log = Log.open(restored, FOLDER, compacted_config(), now_ms=NOW_MS)
    return {key: value for batch in read_all(log) for _, _, key, value, _ in batch.records()}


def compact_until(disk: SimDisk, log: Log, is_enough: Callable[[], bool]) -> None:
    compaction = begin(disk, log)
    while not is_enough():
        assert not compaction.is_done, "it never came so far"
        for unsynced in compaction.step():
            unsynced.sync()


@pytest.mark.parametrize("is_in_place", [True, False], ids=["replaced", "being replaced"])
def test_a_key_whose_newer_record_came_after_the_cut_keeps_the_one_that_it_had(
    is_in_place: bool,
) -> None:
    disk, log = new_log()
    put(log, (b"key", b"before"), (b"filler 1", FILLER))
    log.roll(NOW_MS)
    put(log, (b"filler 2", FILLER))
    first: Segment = log.segments[0]

    def meanwhile() -> None:
        put(log, (b"key", b"after"))
        log.roll(NOW_MS)
        put(log, (b"filler 3", FILLER))
        replaced = lambda: first not in log.segments and not log.is_replacing  # noqa: E731
        compact_until(disk, log, replaced if is_in_place else lambda: log.is_replacing)

    shelf = Shelf(OpenLog(log))
    freezer = Interrupted(
        disk, cast(Partitions, shelf), cast(Storage, shelf), back_up=lambda folder: None
    )
    freezer.meanwhile = meanwhile

    frozen = asyncio.run(freezer.freeze())

    assert copied(disk, frozen).get(b"key") in (b"before", b"after")


def test_a_copy_that_could_not_be_cleared_away_does_not_keep_the_next_from_being_made() -> None:
    disk, log = new_log()
    put(log, (b"key", b"value"))
    shelf = Shelf(OpenLog(log))
    freezer = Freezer(
        disk, cast(Partitions, shelf), cast(Storage, shelf), back_up=lambda folder: None
    )
    disk.fail(errno.ENOSPC, Operation.LINK, path="")
    disk.fail(errno.EIO, Operation.REMOVE, path="")

    with pytest.raises(OSError, match="Input/output error"):
        asyncio.run(freezer.freeze())

    assert copied(disk, asyncio.run(freezer.freeze())) == {b"key": b"value"}
