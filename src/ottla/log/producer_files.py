"""The producer snapshots of a log: files from which the state of its producers is restored.

A snapshot named after an offset tells what all batches below it left behind.  One is written when
a segment begins and one at a clean stop, so that no more than one segment needs to be read again.
A snapshot is a shortcut: one that is damaged or lost is passed over, and more batches are read.
"""

import logging
from bisect import bisect_right
from collections.abc import Iterable

from ottla.errors import BatchError, StorageError
from ottla.log import files
from ottla.log.producer_state import CompletedTransaction, ProducerStates
from ottla.log.segment import Segment
from ottla.ports import Disk, File
from ottla.records.batch import Batch

log = logging.getLogger(__name__)


class ProducerFiles:
    """Keeps the state of the producers, and its snapshots on disk, in step with the log."""

    __slots__ = ("_disk", "_folder", "_offsets", "states")

    def __init__(
        self, disk: Disk, folder: str, states: ProducerStates, names: Iterable[str]
    ) -> None:
        """`names` are those of the files in `folder`."""
        self._disk = disk
        self._folder = folder
        self.states = states
        found = map(files.parse_name, names)
        self._offsets = sorted(
            file.base_offset for file in found if file and file.kind == files.SNAPSHOT
        )

    def restore(self, segments: Iterable[Segment], offset: int) -> None:
        """Know the batches below `offset`, and drop the snapshots above it."""
        # Should a crash bring them back, they are not believed: recovery begins at a segment that
        # is not newer than the truncation, or that synced the folder when it began.
        self._remove(self._offsets[bisect_right(self._offsets, offset) :])
        restored_offset = self._load()
        for segment in segments:
            if segment.next_offset <= restored_offset or segment.base_offset >= offset:
                continue
            for batch in segment.batches(max(restored_offset, segment.base_offset)):
                if batch.last_offset >= offset:
                    return
                self.replay(batch, segment.file)

    def replay(self, batch: Batch, file: File) -> CompletedTransaction | None:
        """Take in a batch that was read from `file`: the transaction that it ends.

        Raises:
            StorageError: It is a control batch, and broken.
        """
        try:
            return self.states.apply(batch)
        except BatchError as error:
            raise StorageError(f"{file.path}: {batch!r} cannot be read: {error}") from error

    def _load(self) -> int:
        """Load the newest snapshot that is good: its offset, or 0 where there is none."""
        for offset in reversed(self._offsets):
            path = files.path_of(self._folder, offset, files.SNAPSHOT)
            file = self._disk.open(path)
            try:
                self.states.load(file.read(0, file.size_bytes()))
            except StorageError as error:
                log.warning("producer snapshot passed over: path=%s reason=%s", path, error)
            else:
                return offset
            finally:
                file.close()
        self.states.clear()
        return 0

    def write(self, offset: int) -> File:
        """Write what is known of the batches below `offset`.  It still needs a sync."""
        path = files.path_of(self._folder, offset, files.SNAPSHOT)
        file = files.rewritten(self._disk, path, self.states.snapshot())
        if offset not in self._offsets:
            self._offsets.append(offset)
            self._offsets.sort()
        return file

    def keep(self, base_offsets: Iterable[int]) -> None:
        """Keep one snapshot for each segment, and the newest, and remove the others."""
        kept = {*base_offsets, *self._offsets[-1:]}
        self._remove([offset for offset in self._offsets if offset not in kept])

    def _remove(self, offsets: list[int]) -> None:
        for offset in offsets:
            self._disk.remove(files.path_of(self._folder, offset, files.SNAPSHOT))
            self._offsets.remove(offset)
