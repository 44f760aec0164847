"""What can be asked of a log: records by offset and by time, epochs, aborted transactions.

Asking changes nothing that anybody could see.  `Log` adds what does.
"""

from collections.abc import Sequence

from ottla.log.config import LogConfig
from ottla.log.index import NO_TIMESTAMP_MS
from ottla.log.leader_epochs import EpochEnd
from ottla.log.recovery import Recovered
from ottla.log.search import TimedOffset, first_at_or_after, youngest
from ottla.log.segment import LogRead, Segment
from ottla.log.segments import Segments
from ottla.log.transaction_index import aborted_in
from ottla.ports import Disk
from ottla.records.batch import MAX_DECOMPRESSED_BYTES
from ottla.values import NamedTuple
from ottla.wire.stored.log_files import AbortedTxn


class OffsetOutOfRange(NamedTuple):
    """The answer to a read outside of the log."""

    offset: int
    start_offset: int
    next_offset: int


class LogView:
    """Batches in the order of their offsets, from `start_offset` up to `next_offset`."""

    __slots__ = (
        "_disk",
        "_epochs",
        "_is_written_out",
        "_ledger",
        "_producers",
        "_segments",
        "next_offset",
        "producers",
        "start_offset",
    )

    def __init__(self, disk: Disk, folder: str, config: LogConfig, found: Recovered) -> None:
        """Take over what `recover` found.  `Log.open` does both."""
        self._disk = disk
        self._ledger = found.ledger
        self._segments = Segments(disk, folder, config, found.segments, self._ledger)
        self._epochs = found.epochs
        self._producers = found.producers
        self.producers = found.producers.states
        self._is_written_out = found.was_clean
        self.start_offset = found.start_offset
        self.next_offset = found.next_offset

    def __repr__(self) -> str:
        return f"<Log {self.folder}, {self.start_offset}..{self.next_offset}>"

    @property
    def folder(self) -> str:
        return self._segments.folder

    @property
    def config(self) -> LogConfig:
        return self._segments.config

    @property
    def segments(self) -> Sequence[Segment]:
        """Oldest first.  The last one is still written to."""
        return self._segments.all

    @property
    def size_bytes(self) -> int:
        return self._segments.size_bytes

    @property
    def latest_epoch(self) -> int:
        """The leader epoch of the last batch; -1 before the first one."""
        return self._epochs.latest

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        below_offset: int | None = None,
        at_least_one: bool = True,
    ) -> LogRead | OffsetOutOfRange:
        """Whole batches from the one that contains `offset` on, of one segment.

        No batch reaches up to `below_offset`: the high watermark, or the last stable offset.
        With `at_least_one`, the first batch comes even if it is larger than `max_bytes`.

        Raises:
            StorageError: The batches are damaged.
        """
        if not self.start_offset <= offset <= self.next_offset:
            return OffsetOutOfRange(offset, self.start_offset, self.next_offset)
        if below_offset is None:
            below_offset = self.next_offset
        if offset >= below_offset:
            return LogRead(b"", offset)
        for segment in self._segments.from_offset(offset):
            self._segments.keep_warm(segment)
            found = segment.read(
                offset, max_bytes, below_offset=below_offset, at_least_one=at_least_one
            )
            if found is not None:
                return found
        return LogRead(b"", offset)

    def written_ms(self, offset: int) -> int | None:
        """When the batch was written that holds `offset`, or else the first one after it.

        By the largest timestamp in it, so that no record has to be decoded; `None` where there is
        no such batch, or it has no timestamp.

        Raises:
            StorageError: The batches are damaged.
        """
        for segment in self._segments.from_offset(offset):
            self._segments.keep_warm(segment)
            spot = segment.find(offset)
            if spot is not None:
                return spot.max_timestamp_ms if spot.max_timestamp_ms >= 0 else None
        return None

    def offset_for_time(
        self, timestamp_ms: int, *, max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES
    ) -> TimedOffset | None:
        """The first record that is not older than `timestamp_ms`.

        Raises:
            StorageError: The batches are damaged.
        """
        start_offset = self.start_offset
        for segment in self._segments.all:
            if segment.next_offset <= start_offset or segment.max_timestamp_ms < timestamp_ms:
                continue
            self._segments.keep_warm(segment)
            found = first_at_or_after(
                segment, timestamp_ms, start_offset, max_decompressed_bytes=max_decompressed_bytes
            )
            if found is not None:
                return found
        return None

    def max_timestamp(
        self, *, max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES
    ) -> TimedOffset | None:
        """The first record with the largest timestamp of all; `None` where no record has one.

        Raises:
            StorageError: The batches are damaged.
        """
        best = max(self._segments.all, key=lambda one: one.max_timestamp_ms, default=None)
        if best is None or best.max_timestamp_ms == NO_TIMESTAMP_MS:
            return None
        self._segments.keep_warm(best)
        return youngest(best, max_decompressed_bytes=max_decompressed_bytes)

    def aborted_transactions(self, from_offset: int, to_offset: int) -> list[AbortedTxn]:
        """The aborted transactions with records from `from_offset` up to `to_offset`.

        Raises:
            StorageError: The index of a segment is damaged.
        """
        segments = self._segments.from_offset(from_offset)
        return aborted_in((segment.transactions for segment in segments), from_offset, to_offset)

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """The largest epoch at or below `epoch`, and where it ended in this log."""
        return self._epochs.end_offset_for(epoch, self.next_offset)

    def epoch_for(self, offset: int) -> int:
        """The leader epoch in which the record at `offset` was written; -1 if not known."""
        return self._epochs.epoch_for(offset)
