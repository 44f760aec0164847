"""The segments of one log, as files: begun, sealed, taken out, replaced.

There is at most one gap-free row of them, oldest first; the last one is written to.  What is
written here is noted in the ledger, which knows what a sync must cover.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import Final

from ottla.log import files
from ottla.log.config import LogConfig
from ottla.log.durability import SyncLedger
from ottla.log.segment import Segment
from ottla.log.swap import swap_in
from ottla.ports import Disk

MAX_WARM_SEGMENTS: Final = 2
"""How many segments beside the last one keep their indexes in memory."""


class Segments:
    """The segments of the log in `folder`, oldest first."""

    __slots__ = ("_disk", "_ledger", "_warm", "all", "config", "folder")

    def __init__(
        self,
        disk: Disk,
        folder: str,
        config: LogConfig,
        segments: list[Segment],
        ledger: SyncLedger,
    ) -> None:
        self._disk = disk
        self.folder = folder
        self.config = config
        self.all = segments
        self._ledger = ledger
        self._warm: list[Segment] = []

    def from_offset(self, offset: int) -> Iterator[Segment]:
        """The segment where `offset` belongs, and those after it."""
        number = bisect_right(self.all, offset, key=base_offset_of)
        return islice(self.all, max(number - 1, 0), None)

    def end_before(self, offset: int) -> int:
        """Where the log would end after `truncate_to(offset)`."""
        segment = next(self.from_offset(offset), None)
        if segment is None or offset < segment.base_offset:
            return offset
        return segment.end_before(offset)[1]

    def truncate_to(self, offset: int) -> int:
        """Drop the batch that contains `offset` and all after it, durably: the new end."""
        above = self.all[bisect_right(self.all, offset, key=base_offset_of) :]
        self.remove(above)
        last = self.all[-1]
        last.truncate_to(offset)
        if last in self._warm:
            self._warm.remove(last)  # it is written to again: what is on disk is no longer true
        return last.next_offset

    def start_over(self, offset: int) -> None:
        """Drop everything and go on at `offset`, durably."""
        created_ms = self.all[-1].created_ms if self.all else 0
        self.remove(self.all[:])
        self.begin(offset, created_ms)

    def reconfigure(self, config: LogConfig) -> None:
        """Use other settings from the next append on."""
        self.config = config
        for segment in self.all:
            segment.config = config

    def begin(self, base_offset: int, now_ms: int) -> None:
        """Seal the last segment and begin another one.  After an error nothing has changed."""
        if self.all:
            self.write_out()
        else:
            # The folder may be there since a crash, and its name still not be durable.
            self._disk.make_folder(self.folder)
            self._disk.sync_folder(self.folder.rpartition("/")[0])
        segment = Segment.create(self._disk, self.folder, self.config, base_offset)
        segment.created_ms = now_ms
        # Records in a file without a name would be lost, however often they were synced.
        self._disk.sync_folder(self.folder)
        if self.all:
            self.all[-1].next_offset = base_offset
            self.all[-1].forget_indexes()
        self.all.append(segment)

    def write_out(self) -> None:
        """Give the unused room of the last segment back, and write its indexes."""
        last = self.all[-1]
        for file in last.write_out():
            self._ledger.note(file, close_after=file is not last.file)

    def keep_warm(self, segment: Segment) -> None:
        """Bound the memory that the indexes of old segments take while somebody reads there."""
        if segment is self.all[-1] or segment in self._warm:
            return
        self._warm.append(segment)
        if len(self._warm) > MAX_WARM_SEGMENTS:
            self._warm.pop(0).forget_indexes()

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.all)

    def take_out(self, segments: Sequence[Segment]) -> list[str]:
        """Rename the files of `segments`, newest first, and forget them: the new names."""
        for segment in reversed(segments):
            self._forget(segment)
            self.all.remove(segment)
            segment.close()
            segment.rename(files.DELETED)
        return [path for segment in segments for path in segment.paths()]

    def _forget(self, segment: Segment) -> None:
        if segment.is_open:
            self._ledger.forget(segment.file)
        if segment in self._warm:
            self._warm.remove(segment)

    def remove(self, segments: Sequence[Segment]) -> None:
        """Remove `segments`, and be sure that no crash brings them back."""
        paths = self.take_out(segments)
        if paths:
            self._disk.sync_folder(self.folder)
        for path in paths:
            self._disk.remove(path)

    def create_cleaned(self, base_offset: int) -> Segment:
        """A segment beside the log, to be filled and handed to `replace`."""
        return Segment.create(
            self._disk, self.folder, self.config, base_offset, state=files.CLEANED
        )

    def close(self) -> None:
        """Let go of all files."""
        for segment in self.all:
            segment.close()

    def replace(self, old: Sequence[Segment], new: Sequence[Segment]) -> list[str]:
        """Put `new` segments in the place of `old` ones: all of them or, after a crash, none.

        Both are in order, and the old ones do not include the last segment.  The new ones were
        written out and synced, have no gaps between them, and end with the batch that was last in
        the old ones, even if no record of it is left: recovery takes a gap between two segments
        for a loss.

        Returns:
            The files of the old segments, which end in `.deleted` now.  Remove them when it suits.
        """
        assert new[0].base_offset == old[0].base_offset, (old, new)
        assert new[-1].next_offset == old[-1].end_before(old[-1].next_offset)[1], (old, new)
        assert all(left.next_offset == right.base_offset for left, right in pairwise(new)), new
        first = self.all.index(old[0])
        assert self.all[first : first + len(old)] == list(old), old
        assert old[-1] is not self.all[-1], "the last segment is still written to"
        for segment in old:
            self._forget(segment)
            segment.close()
        paths = swap_in(self._disk, self.folder, old, new)
        new[-1].next_offset = old[-1].next_offset
        for segment in new:
            segment.created_ms = old[-1].created_ms
            segment.forget_indexes()
        self.all[first : first + len(old)] = new
        return paths


def base_offset_of(segment: Segment) -> int:
    """The key by which segments are in order."""
    return segment.base_offset
