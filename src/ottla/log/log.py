"""The segments of one partition: append, read, roll, truncate.

A log is synchronous and owned by one loop: no locks, no awaits.  The last segment is the one that
is written to; a log without records may have no segment at all.  What is appended is visible at
once and durable after a sync, which the owner performs::

    up_to = log.next_offset
    await disk.sync_files(log.unsynced_files())
    log.mark_synced(up_to)

An `OSError` is passed on.  After one from `append` the log is as it was before; after one from a
sync nobody knows what is on disk, and the owner must not go on.
"""

import logging
from collections.abc import Iterator, Sequence

from ottla.errors import BatchError, ErrorCode, StorageError
from ottla.log.checkpoints import write_epochs
from ottla.log.config import LogConfig
from ottla.log.index import MAX_RELATIVE_OFFSET
from ottla.log.producer_state import ProducerStates
from ottla.log.recovery import Checkpoint, recover
from ottla.log.rolling import has_room_for
from ottla.log.segment import Segment
from ottla.log.view import LogView
from ottla.ports import MAY_PASS, Disk, File, Folder
from ottla.records.batch import NO_PRODUCER_ID, Batch

log = logging.getLogger(__name__)


class Log(LogView):
    """A log that is written to.  Whoever opens it is the only one who does."""

    __slots__ = ()

    @classmethod
    def open(
        cls,
        disk: Disk,
        folder: str,
        config: LogConfig,
        *,
        now_ms: int,
        recovery_point: int = 0,
        start_offset: int = 0,
        was_clean: bool = False,
        producers: ProducerStates | None = None,
    ) -> "Log":
        """The log in `folder`, mended if need be; an empty one where there is none.

        `recovery_point` and `start_offset` are what the data directory's checkpoints say;
        `was_clean` says that the log was closed, and nothing written since.  `producers`, or a
        new one, is told of every batch, from the oldest that still matters on.

        Raises:
            StorageError: Records that were durable are damaged or missing.
        """
        checkpoint = Checkpoint(
            recovery_point=recovery_point, start_offset=start_offset, was_clean=was_clean
        )
        if producers is None:
            producers = ProducerStates()
        found = recover(disk, folder, config, checkpoint, producers)
        for segment in found.segments:
            segment.created_ms = now_ms
        return cls(disk, folder, config, found)

    def reconfigure(self, config: LogConfig) -> None:
        """Use other settings from the next append on."""
        self._segments.reconfigure(config)

    # Appending

    def append(self, batch: Batch, *, leader_epoch: int, now_ms: int) -> int:
        """Give `batch` the next offsets, in place, and write it: its base offset.

        It can be read at once; it is durable after the next sync.  The batch must have been
        validated.  After an `OSError` nothing of it is in the log, and the call can be repeated.
        """
        assert leader_epoch >= self._epochs.latest, (leader_epoch, self._epochs.latest)
        base_offset = self.next_offset
        batch.place(base_offset, leader_epoch)
        self._write(batch, now_ms)
        return base_offset

    def append_as_is(self, batch: Batch, *, now_ms: int) -> None:
        """Write a batch that has its offsets and leader epoch already, from another replica.

        Raises:
            BatchError: Its offsets are in the log already.
        """
        if batch.base_offset < self.next_offset:
            raise BatchError(
                ErrorCode.INVALID_RECORD,
                f"{batch!r} does not continue the log, which goes on at {self.next_offset}",
            )
        self._write(batch, now_ms)

    def _write(self, batch: Batch, now_ms: int) -> None:
        segments = self._segments.all
        if self._segments.failure is not None:
            raise StorageError(f"{self.folder} was not synced: {self._segments.failure}")
        if not segments or not has_room_for(segments[-1], batch, now_ms):
            self._begin_segment(self._base_offset_for(batch), now_ms)
        segment = segments[-1]
        self._ledger.note(segment.append(batch))
        self._is_written_out = False
        self.next_offset = segment.next_offset
        leader_epoch = batch.partition_leader_epoch
        if leader_epoch > self._epochs.latest:
            self._epochs.assign(leader_epoch, batch.base_offset)
        if batch.producer_id != NO_PRODUCER_ID:
            completed = self.producers.apply(batch)
            if completed is not None:
                segment.transactions.note(completed)

    def _base_offset_for(self, batch: Batch) -> int:
        """Where to begin a segment for `batch`: at the end of the last one, if that can be.

        So there is no gap between segments, and recovery can tell when one was cut short.
        """
        is_near = batch.last_offset - self.next_offset <= MAX_RELATIVE_OFFSET
        return self.next_offset if is_near else batch.base_offset

    def roll(self, now_ms: int) -> None:
        """Begin a new segment, unless the last one is empty."""
        segments = self._segments.all
        if segments and segments[-1].size_bytes > 0:
            self._begin_segment(self.next_offset, now_ms)

    def _begin_segment(self, base_offset: int, now_ms: int) -> None:
        if not self._segments.all:
            self._segments.begin(base_offset, now_ms)
            return
        snapshot = self._producers.write(base_offset)
        try:
            self._segments.begin(base_offset, now_ms)
        except (OSError, StorageError):
            snapshot.close()
            raise
        self._ledger.note(snapshot, close_after=True)

    # Removing

    def truncation_point(self, offset: int) -> int:
        """Where the log would end after `truncate_to(offset)`."""
        return min(self._segments.end_before(offset), self.next_offset)

    def truncate_to(self, offset: int) -> None:
        """Drop the batch that contains `offset` and all after it, durably.

        The recovery point on disk must be at or below `truncation_point(offset)` before, or a
        crash in between would look like damage.
        """
        assert not self.is_replacing, self
        if offset >= self.next_offset:
            return
        if not self.segments or offset < self.segments[0].base_offset:
            self.truncate_fully_and_start_at(offset)
            return
        self._end_at(self._segments.truncate_to(offset))
        self._ledger.truncate_to(self.next_offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything and go on at `offset`, durably.

        Before, the recovery point on disk must be at or below `start_offset` and `offset`, and
        the start offset on disk at or below `offset`.
        """
        self._segments.start_over(offset)
        self.start_offset = offset
        self._end_at(offset)
        self._ledger.start_at(offset)

    def _end_at(self, next_offset: int) -> None:
        self.next_offset = next_offset
        self.start_offset = min(self.start_offset, next_offset)
        self._epochs.truncate_from_end(next_offset)
        self._producers.restore(self._segments.all, next_offset)
        self._is_written_out = False

    def advance_start(self, offset: int) -> None:
        """Hide the records below `offset`.

        Their segments go with `delete_old_segments`, once the start offset is on disk.
        """
        assert offset <= self.next_offset, (offset, self.next_offset)
        if offset > self.start_offset:
            self.start_offset = offset
            self._epochs.truncate_from_start(offset)

    def delete_old_segments(self, now_ms: int) -> list[str]:
        """Take the segments out of the log that end at or below `start_offset`.

        The start offset must be on disk before: after a crash it tells old segments from missing
        ones.  If no record is left, a new segment keeps the next offset; where the disk is too full
        for that, the last segment stays, and only the others go.

        Returns:
            The files, which end in `.deleted` now.  Remove them when it suits; `open` does it too.
        """
        paths = self._segments.take_out(self._old_segments())
        if self._rolls_over_the_last(now_ms):
            paths += self._segments.take_out(self._old_segments())
        self._producers.keep(segment.base_offset for segment in self.segments)
        return paths

    def remove_old_segments(self, now_ms: int) -> None:
        """Do the same where the disk is too full to write the start offset down before.

        The segments go one by one, oldest first, each of them durably.  So power loss leaves a row
        without gaps, and the first segment that is left says where the log starts.
        """
        self._segments.remove_oldest(self._old_segments())
        if self._rolls_over_the_last(now_ms):
            self._segments.remove_oldest(self._old_segments())
        self._producers.keep(segment.base_offset for segment in self.segments)

    def _old_segments(self) -> list[Segment]:
        assert not self.is_replacing, self
        return [
            segment for segment in self.segments[:-1] if segment.next_offset <= self.start_offset
        ]

    def _rolls_over_the_last(self, now_ms: int) -> bool:
        """Begin a new segment if no record is left in the last one, and if that can be.

        What was taken out of the log before goes all the same, whatever is wrong here.
        """
        if self.start_offset < self.next_offset:
            return False
        try:
            self.roll(now_ms)
        except (OSError, StorageError) as error:
            if isinstance(error, OSError) and error.errno not in MAY_PASS:
                raise
            log.warning("last segment kept, none can be begun: folder=%s %s", self.folder, error)
            return False
        return True

    def create_cleaned_segment(self, base_offset: int) -> Segment:
        """A segment beside the log, to be filled and handed to `replacing`."""
        return self._segments.create_cleaned(base_offset)

    def replacing(self, old: Sequence[Segment], new: Sequence[Segment]) -> Iterator[None]:
        """Put `new` segments in the place of `old` ones, step by step; see `Segments.replacing`."""
        yield from self._segments.replacing(old, new)
        self._producers.keep(segment.base_offset for segment in self.segments)

    def finish_replacing(self) -> Iterator[None]:
        """Go on with a replacement that an error broke off, and remove the old segments.

        At each pause the folder must be synced before it goes on.
        """
        broken_off = self._segments.replaced
        assert broken_off is not None, self
        yield from self._segments.finish_replacing()
        self._producers.keep(segment.base_offset for segment in self.segments)
        for path in [path for segment in broken_off.old for path in segment.paths()]:
            self._disk.remove(path)

    def replace_segments(self, old: Sequence[Segment], new: Sequence[Segment]) -> list[str]:
        """Do all of it now: the files of the old segments, which can be removed."""
        for _ in self.replacing(old, new):
            self._disk.sync_folder(self.folder)
        return [path for segment in old for path in segment.paths()]

    @property
    def is_replacing(self) -> bool:
        """Whether segments are being replaced, so that none may be deleted now."""
        return self._segments.replaced is not None

    # Durability

    @property
    def synced_offset(self) -> int:
        """Everything below would survive power loss."""
        return self._ledger.synced_offset

    def unsynced_files(self) -> list[File | Folder]:
        """Begin a sync: the files whose sync makes everything up to now durable, in order."""
        return self._ledger.begin(self.next_offset)

    def mark_synced(self, up_to_offset: int) -> None:
        """Finish a sync: `up_to_offset` is what `next_offset` was when it began."""
        self._ledger.finish(up_to_offset)

    def sync(self) -> None:
        """Make everything durable, and wait for it."""
        for file in self.unsynced_files():
            file.sync()
        self.mark_synced(self.next_offset)

    @property
    def is_settled(self) -> bool:
        """Whether `settle` has nothing to write."""
        return not self._epochs.is_changed

    def settle(self) -> int:
        """Make durable what recovery does not find again: the recovery point to write down."""
        if self._epochs.is_changed:
            write_epochs(self._disk, self.folder, self._epochs.entries)
            self._epochs.is_changed = False
        return self._ledger.synced_offset

    def write_out(self) -> None:
        """Prepare a clean stop: give unused room back, write indexes, snapshot and epochs.

        It is complete after one more sync; an append undoes it.
        """
        if self.segments and not self._is_written_out:
            self._segments.write_out()
            self._ledger.note(self._producers.write(self.next_offset), close_after=True)
            self._producers.keep(segment.base_offset for segment in self.segments)
            self._disk.sync_folder(self.folder)
            self._is_written_out = True
        self.settle()

    def close(self) -> None:
        """Stop cleanly: after it, the log can be opened with `was_clean`."""
        self.write_out()
        self.sync()
        self.abandon()

    def abandon(self) -> None:
        """Let go of all files and write nothing more, as when the disk is not to be trusted."""
        self._segments.close()
        self._ledger.abandon()
