"""The segments of one log, as files: begun, sealed, taken out, replaced.

There is at most one gap-free row of them, oldest first; the last one is written to.  What is
written here is noted in the ledger, which knows what a sync must cover.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import Final

from ottla.log import files, swap
from ottla.log.config import LogConfig
from ottla.log.durability import SyncLedger
from ottla.log.segment import Segment
from ottla.ports import Disk, File, Folder
from ottla.values import NamedTuple

MAX_WARM_SEGMENTS: Final = 2
"""How many segments beside the last one keep their indexes in memory."""


class Replacement(NamedTuple):
    """Segments that are to make way, and those that take their place."""

    old: Sequence[Segment]
    new: Sequence[Segment]


class Segments:
    """The segments of the log in `folder`, oldest first."""

    __slots__ = ("_disk", "_ledger", "_warm", "all", "config", "failure", "folder", "replaced")

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
        self.failure: OSError | None = None
        """Why nothing may be written until the log is opened anew: see `begin`."""
        self.replaced: Replacement | None = None
        """What is about to be replaced, past the point where that could be undone."""

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
        self._sync(self.folder)

    def reconfigure(self, config: LogConfig) -> None:
        """Use other settings from the next append on."""
        self.config = config
        for segment in self.all:
            segment.reconfigure(config)

    def begin(self, base_offset: int, now_ms: int) -> None:
        """Seal the last segment and begin another one.

        The name of the first one becomes durable with its first records, in a sync aside, or when
        there is a second one: that must not be found without it.

        After an `OSError` nothing has changed, with one exception: if a folder cannot be synced,
        nobody knows which names are on disk, and nothing may be written any more.
        """
        if not self.all:
            self._make_folder()
        sealed = self.all[-1].write_out() if self.all else []
        folder = Folder(self._disk, self.folder)
        try:
            if len(self.all) == 1 and self._ledger.owes(folder):
                self._sync(self.folder)
            segment = Segment.create(self._disk, self.folder, self.config, base_offset)
            # Records in a file without a name would be lost, however often they were synced.
            if self.all:
                self._sync(self.folder)
            else:
                self._ledger.note(folder)
        except OSError:
            files.close_all(sealed[1:])  # the first one is the segment's own
            raise
        segment.created_ms = now_ms
        if self.all:
            self._note(sealed)
            self.all[-1].next_offset = base_offset
            self.all[-1].forget_indexes()
        self.all.append(segment)

    def _make_folder(self) -> None:
        """Make it, durably; where it is there already, whoever made it has seen to that."""
        if not self._disk.exists(self.folder):
            self._disk.make_folder(self.folder)
            self._sync(self.folder.rpartition("/")[0])

    def _sync(self, folder: str) -> None:
        try:
            self._disk.sync_folder(folder)
        except OSError as error:
            self.failure = error
            raise

    def write_out(self) -> None:
        """Give the unused room of the last segment back, and write its indexes."""
        self._note(self.all[-1].write_out())

    def _note(self, sealed: Sequence[File]) -> None:
        own, *indexes = sealed
        self._ledger.note(own)
        for file in indexes:
            self._ledger.note(file, close_after=True)

    def keep_warm(self, segment: Segment) -> None:
        """Bound the memory that the indexes of old segments take while somebody reads there.

        To be said before they are read: what is not in memory breaks a read off.
        """
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

    def remove_oldest(self, segments: Sequence[Segment]) -> None:
        """Remove `segments`, the oldest ones, so that power loss at any moment leaves no gap.

        It takes no room on the disk, not even for a longer name, but a sync of the folder each.
        """
        assert list(segments) == self.all[: len(segments)], segments
        for segment in segments:
            # The log goes first: without it the others mean nothing, but a log that had lost its
            # transaction index would pass aborted records off as good ones.
            log_path, *others = reversed(segment.paths())
            self._disk.remove(log_path)
            self._forget(segment)
            self.all.remove(segment)
            segment.close()
            self._disk.sync_folder(self.folder)
            for path in others:
                self._disk.remove(path)

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
        """A segment beside the log, to be filled and handed to `replacing`."""
        return Segment.create(
            self._disk, self.folder, self.config, base_offset, state=files.CLEANED
        )

    def close(self) -> None:
        """Let go of all files."""
        for segment in self.all:
            segment.close()

    def replacing(self, old: Sequence[Segment], new: Sequence[Segment]) -> Iterator[None]:
        """Put `new` segments in the place of `old` ones: all of them or, after a crash, none.

        Both are in order, and the old ones do not include the last segment.  The new ones were
        written out and synced, have no gaps between them, and end with the batch that was last in
        the old ones, even if no record of it is left: recovery takes a gap between two segments
        for a loss.

        At each pause the folder must be synced before it goes on.  The log may be read and written
        meanwhile; whoever deletes segments looks at `replaced`.  At the end the files of the old
        segments end in `.deleted` and can be removed.

        After an `OSError` everything can be undone while `replaced` is None, as `swap.offer` says;
        otherwise nothing may be done about the segments before `finish_replacing` is through.
        """
        assert new[0].base_offset == old[0].base_offset, (old, new)
        assert all(left.next_offset == right.base_offset for left, right in pairwise(new)), new
        yield from swap.offer(new)
        first = self.all.index(old[0])
        assert self.all[first : first + len(old)] == list(old), old
        assert old[-1] is not self.all[-1], "the last segment is still written to"
        swap.decide(new)
        self.replaced = Replacement(old, new)
        yield from self.finish_replacing()

    def finish_replacing(self) -> Iterator[None]:
        """Carry out what was decided, from its beginning or from wherever an error broke it off."""
        assert self.replaced is not None, self.folder
        old, new = self.replaced
        yield
        if new[0] not in self.all:
            self._take_over(old, new)
        yield from swap.carry_out(old, new)
        self.replaced = None

    def _take_over(self, old: Sequence[Segment], new: Sequence[Segment]) -> None:
        """Be a log of the `new` segments, in memory."""
        first = self.all.index(old[0])
        for segment in old:
            self._forget(segment)
            segment.close()
        new[-1].next_offset = old[-1].next_offset
        for segment in new:
            segment.config = self.config
            segment.created_ms = old[-1].created_ms
            segment.forget_indexes()
        self.all[first : first + len(old)] = new


def base_offset_of(segment: Segment) -> int:
    """The key by which segments are in order."""
    return segment.base_offset
