"""The indexes of a segment on disk: written when it is sealed, read when they are needed.

What is read is checked against the log: the last entry must name a batch that is there.  An offset
or time index that fails, or is missing, is rebuilt by a walk over the headers, with a warning.
"""

import logging
from collections import deque
from collections.abc import Callable

from ottla.errors import StorageError
from ottla.log import files
from ottla.log.checkpoints import read_file
from ottla.log.index import (
    NO_TIMESTAMP_MS,
    OFFSET_ENTRY_BYTES,
    TIME_ENTRY_BYTES,
    Indexes,
    OffsetIndex,
    TimeIndex,
    last_timestamp_of,
)
from ottla.log.scan import Spot, headers
from ottla.log.transaction_index import TransactionIndex
from ottla.ports import Disk, File
from ottla.values import NamedTuple

log = logging.getLogger(__name__)


class IndexFiles(NamedTuple):
    """What stands between a segment's index files and its log."""

    disk: Disk
    path_of: Callable[[str], str]
    log_file: File
    log_size_bytes: int
    base_offset: int

    def write(self, indexes: Indexes, transactions: TransactionIndex) -> list[File]:
        """Write all indexes.  The files still need a sync, and their folder too."""
        offsets, times = indexes.to_bytes()
        content = {files.OFFSET_INDEX: offsets, files.TIME_INDEX: times}
        # Most segments have no aborted transactions and no file for them.  One that is there is
        # emptied rather than removed: the sync of its content is waited for.
        if transactions or self.disk.exists(self.path_of(files.TRANSACTION_INDEX)):
            content[files.TRANSACTION_INDEX] = transactions.to_bytes()
        written: list[File] = []
        try:
            for kind, data in content.items():
                written.append(files.rewritten(self.disk, self.path_of(kind), data))
        except OSError:
            files.close_all(written)
            raise
        return written

    def load_transactions(self) -> TransactionIndex:
        """The transactions that were aborted in the segment.

        Raises:
            StorageError: The index is damaged.  It cannot be made anew from the segment alone.
        """
        path = self.path_of(files.TRANSACTION_INDEX)
        data = read_file(self.disk, path) or b""
        try:
            return TransactionIndex.parse(data, base_offset=self.base_offset)
        except StorageError as error:
            raise StorageError(f"{path} is damaged: {error}") from error

    def load(self, interval_bytes: int) -> Indexes:
        """Both indexes, up to the last batch."""
        indexes = Indexes(self.base_offset, interval_bytes)
        fault: StorageError | None = None
        try:
            position = indexes.resume(self._read_offsets(), self._read_times())
        except StorageError as error:
            fault, indexes, position = error, Indexes(self.base_offset, interval_bytes), 0
        for spot in headers(self.log_file, position, self.log_size_bytes):
            indexes.note(spot.position, spot.size_bytes, spot.last_offset, spot.max_timestamp_ms)
        if fault is not None:  # not before it is done: what is not in memory breaks the walk off
            log.warning("index rebuilt: log=%s reason=%s", self.log_file.path, fault)
        return indexes

    def _read_offsets(self) -> OffsetIndex:
        data = self._read(files.OFFSET_INDEX)
        index = OffsetIndex.parse(data, log_size_bytes=self.log_size_bytes)
        if data:
            self._check(index)
        return index

    def _check(self, index: OffsetIndex) -> Spot:
        """The batch that the last entry names."""
        relative_offset, position = index.entry(len(index) - 1)
        spot = next(headers(self.log_file, position, self.log_size_bytes))
        if spot.last_offset != self.base_offset + relative_offset:
            raise StorageError(
                f"the index says that the batch at byte {position} ends in offset "
                f"{self.base_offset + relative_offset}, but it ends in {spot.last_offset}"
            )
        return spot

    def _read_times(self) -> TimeIndex:
        return TimeIndex.parse(self._read(files.TIME_INDEX))

    def _read(self, kind: str) -> bytes:
        data = read_file(self.disk, self.path_of(kind))
        if data is None:
            raise StorageError(f"there is no {self.path_of(kind)}")
        return data

    def last_batch(self) -> Spot | None:
        """The last batch of the log, found from the last entry of the offset index alone.

        Raises:
            StorageError: The index or the log is damaged.
        """
        tail = self._tail(files.OFFSET_INDEX, OFFSET_ENTRY_BYTES)
        index = OffsetIndex.parse(tail, log_size_bytes=self.log_size_bytes)
        position = self._check(index).position if tail else 0
        walk = deque(headers(self.log_file, position, self.log_size_bytes), maxlen=1)
        return walk[0] if walk else None

    def max_timestamp_ms(self) -> int:
        """The largest timestamp, or -1, from the last entry of the time index alone.

        Raises:
            StorageError: There is no such index, or it is damaged.
        """
        last = last_timestamp_of(self._tail(files.TIME_INDEX, TIME_ENTRY_BYTES))
        return NO_TIMESTAMP_MS if last is None else last.timestamp_ms

    def _tail(self, kind: str, size_bytes: int) -> bytes:
        path = self.path_of(kind)
        if not self.disk.exists(path):
            raise StorageError(f"there is no {path}")
        file = self.disk.open(path)
        try:
            end_position = file.size_bytes()
            if end_position % size_bytes:
                raise StorageError(f"{path} has {end_position} bytes, no multiple of {size_bytes}")
            return file.read(max(0, end_position - size_bytes), size_bytes)
        finally:
            file.close()
