"""A copy of the data directory as it is at one moment, made while the broker goes on.

The copy is what the end of the process at that moment, the cut, would have left behind: recovery
makes a broker of it, as after a crash.  At the cut, between two steps of the loop, metadata are
copied and the ends of all logs noted; nothing else needs to be quick.  Batches that lie below the
end of a log never change, so its files get a second name later, some partitions at a time, and of
the last one only the first bytes count.

Meanwhile logs grow, roll, are compacted and lose old segments.  Each folder is taken in one step,
in a state in which a crash could have left it, and what is newer than the cut is left out of it.
Everything is begun anew only if the very segment in which a log ended is gone, or its topic, or if
segments were compacted: records may have made way for newer ones that are not in the copy.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from ottla.broker.partition import Partition
from ottla.broker.partitions import Partitions
from ottla.broker.storage import Points, Storage
from ottla.errors import StorageError
from ottla.log import checkpoints, files
from ottla.log.segment import Segment
from ottla.ports import Disk
from ottla.values import NamedTuple, dataclass

log = logging.getLogger(__name__)

MAX_TRIES: Final = 10
"""How often logs may be deleted, or compacted, under our hands before we give up."""

RETRY_MS: Final = 50
"""For whoever compacts to come to an end meanwhile."""


@dataclass(frozen=True, slots=True)
class Frozen:
    """A copy, until it is let go of."""

    folder: str
    ends: Mapping[str, int]
    """Of these files, by their paths in the copy, only the first so many bytes count."""


class _Cut(NamedTuple):
    """Where a log ended."""

    partition: Partition
    segments: tuple[Segment, ...]
    size_bytes: int
    """Of the last one."""
    was_replacing: bool

    @property
    def segment(self) -> Segment | None:
        """The last one; None where the log had none."""
        return self.segments[-1] if self.segments else None

    @property
    def is_void(self) -> bool:
        """Whether the log has since lost what it ended with, or what it had for it.

        Compaction drops a record for a newer one, and that may have come after the cut: then the
        copy would have neither.
        """
        log = self.partition.log
        if self.partition.is_closed or (log.is_replacing and not self.was_replacing):
            return True
        if self.segment is None:
            return False
        known, end_offset = set(self.segments), self.segment.base_offset
        older = (segment for segment in log.segments if segment.base_offset < end_offset)
        return self.segment not in log.segments or not known.issuperset(older)

    @property
    def path(self) -> str:
        """The file in which the log ended; only if there is a segment."""
        assert self.segment is not None
        return files.path_of(self.partition.log.folder, self.segment.base_offset, files.LOG)

    def has(self, name: str) -> bool:
        """Whether a file of the log's folder belongs to the log as it was."""
        file = files.parse_name(name)
        if file is None:
            return not name.endswith(files.TEMPORARY)
        if self.segment is None or file.state == files.DELETED:
            return False
        if file.base_offset == self.segment.base_offset:
            # What its indexes say may be of other batches; recovery makes them anew.
            return file.state == "" and file.kind in {files.LOG, files.SNAPSHOT}
        return file.base_offset < self.segment.base_offset


class Freezer:
    """Makes one copy at a time, in a folder inside of the data directory.

    Nothing of the copy needs to survive a crash: what is left of one goes at the next start.
    """

    partitions_per_turn = 20

    def __init__(
        self, disk: Disk, partitions: Partitions, storage: Storage, back_up: Callable[[str], None]
    ) -> None:
        """`back_up` puts a copy of metadata into a folder, at once."""
        self._disk = disk
        self._partitions = partitions
        self._storage = storage
        self._back_up = back_up
        self._is_busy = False
        self._is_over = False

    async def freeze(self) -> Frozen:
        """Make a copy.  It takes room only for what is deleted while it exists: see `thaw`.

        Raises:
            StorageError: There is one already, or logs are deleted or compacted again and again.
            OSError: There is no room, or the file system knows no second names.
        """
        if self._is_busy:
            raise StorageError("another snapshot is being taken")
        self._is_busy = True
        try:
            for _ in range(MAX_TRIES):
                frozen = await self._attempt()
                if frozen is not None:
                    return frozen
                await asyncio.sleep(RETRY_MS / 1000)
            raise StorageError(
                f"logs were deleted or compacted in each of {MAX_TRIES} attempts to copy them"
            )
        except BaseException:
            self._is_busy = False
            if not self._is_over:
                remove_frozen(self._disk)
            raise

    async def thaw(self) -> None:
        """Let go of the copy, giving the loop back after each file.

        Of what was deleted meanwhile, the copy has the last name, and it takes a while to go.
        """
        try:
            if not self._is_over:
                for path in _removing(self._disk):
                    await self._disk.remove_aside(path)
                    self._refuse_if_over()
        finally:
            self._is_busy = False

    def abandon(self) -> None:
        """Touch nothing more, as if the process had ended."""
        self._is_over = True

    async def pause(self) -> None:
        """Give the loop back."""
        await asyncio.sleep(0)
        self._refuse_if_over()

    def _refuse_if_over(self) -> None:
        if self._is_over:
            raise StorageError("the broker has ended")

    async def _attempt(self) -> Frozen | None:
        """A copy; None if something went away that should be in it."""
        remove_frozen(self._disk)
        await self._open_ends()
        self._disk.make_folder(files.FROZEN)
        cuts, points = self._cut()
        # In the same turn: a log that is opened late would be neither among the cuts nor idle.
        self._copy_rest(points)
        await self.pause()
        for count, cut in enumerate(cuts, 1):
            if cut.is_void:
                log.info("copy begun anew: folder=%s", cut.partition.log.folder)
                return None
            self._link(cut.partition.log.folder, cut.has)
            if count % self.partitions_per_turn == 0:
                await self.pause()
        ends = {cut.path: cut.size_bytes for cut in cuts if cut.segment is not None}
        return Frozen(files.FROZEN, ends)

    async def _open_ends(self) -> None:
        """Have the last segments open, so that the cut itself need not wait for files."""
        for count, partition in enumerate(self._partitions.all(), 1):
            if not partition.is_closed and partition.log.segments:
                _ = partition.log.segments[-1].size_bytes
            if count % self.partitions_per_turn == 0:
                await self.pause()

    def _cut(self) -> tuple[list[_Cut], Points]:
        """Note where every log ends and starts, and copy metadata: all at one moment."""
        self._back_up(files.FROZEN)
        cuts = []
        for partition in self._partitions.all():
            segments, is_replacing = tuple(partition.log.segments), partition.log.is_replacing
            size_bytes = segments[-1].size_bytes if segments else 0
            cuts.append(_Cut(partition, segments, size_bytes, is_replacing))
        return cuts, self._storage.points()

    def _copy_rest(self, points: Points) -> None:
        """What is neither metadata nor an open log, and changes by being replaced, if at all."""
        names = (files.RECOVERY_POINTS, files.START_OFFSETS)
        for name, offsets in zip(names, points, strict=True):
            checkpoints.write_offsets(self._disk, f"{files.FROZEN}/{name}", offsets)
        for folder in self._storage.idle_folders():
            self._link(folder, lambda name: True)
        cleaned = files.CLEANED_OFFSETS
        if self._disk.exists(cleaned):
            self._disk.link(cleaned, f"{files.FROZEN}/{cleaned}")

    def _link(self, folder: str, belongs: Callable[[str], bool]) -> None:
        target = f"{files.FROZEN}/{folder}"
        self._disk.make_folder(target)
        for name in self._disk.names(folder):
            if belongs(name):
                self._disk.link(f"{folder}/{name}", f"{target}/{name}")


def remove_frozen(disk: Disk) -> None:
    """Remove a copy that was left behind, if there is one."""
    for path in _removing(disk):
        disk.remove(path)


def _removing(disk: Disk) -> Iterator[str]:
    """Remove the folders of the copy, after the caller has removed each file that this gives."""
    if not disk.exists(files.FROZEN):
        return
    for name in disk.names(files.FROZEN):
        path = f"{files.FROZEN}/{name}"
        try:
            inside = disk.names(path)
        except NotADirectoryError:
            yield path
            continue
        for file in inside:
            yield f"{path}/{file}"
        disk.remove_folder(path)
    disk.remove_folder(files.FROZEN)
