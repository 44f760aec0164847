"""What compaction leaves of one batch: all of it, some records, its header alone, or nothing.

Only what changes is written anew; a batch that loses nothing keeps its bytes.
"""

from collections.abc import Generator
from dataclasses import field
from typing import Final

from ottla.log.cleaned_batch import Kept, emptied, kept_records, rewritten
from ottla.log.cleaned_transactions import CleanedTransactions
from ottla.log.config import LogConfig
from ottla.log.offset_map import OffsetMap
from ottla.log.producer_state import ProducerStates
from ottla.ports import File
from ottla.records.batch import MAX_DECOMPRESSED_BYTES, NO_PRODUCER_ID, Batch
from ottla.records.kernel import kernel
from ottla.records.shapes import MAX_INT64, NO_TIMESTAMP_MS, Section
from ottla.values import NamedTuple, dataclass
from ottla.wire.stored.log_files import AbortedTxn

STEP_EFFORT_US: Final = 1000
RECORD_EFFORT_US: Final = 2
BYTES_PER_EFFORT_US: Final = 1024


@dataclass(slots=True)
class Pace:
    """Says when a step has done enough, by a rough estimate: no clock is read here."""

    effort_us: int = 0

    def is_enough(self, effort_us: int) -> bool:
        """Count some more work: whether it is time for a break."""
        self.effort_us += effort_us
        return self.effort_us >= STEP_EFFORT_US


class Filtered(NamedTuple):
    """What is left of a batch."""

    batch: Batch | None
    entry: AbortedTxn | None = None
    """What the transaction index tells about it."""


@dataclass(slots=True, kw_only=True)
class CompactionFilter:
    """Decides what is left of each batch, in the order of their offsets."""

    newest: OffsetMap
    mapped_offset: int
    """Records from here on are not in the map, and stay."""
    producers: ProducerStates
    config: LogConfig
    now_ms: int
    pace: Pace
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES
    transactions: CleanedTransactions = field(default_factory=CleanedTransactions)

    def filter(self, batch: Batch, *, is_last: bool) -> Generator[list[File], None, Filtered]:
        """What is left of `batch`, which stays in some form if it `is_last` in its segment.

        Yields, with nothing to sync, where a step may end.

        Raises:
            BatchError: The records cannot be read.
        """
        has_to_stay = is_last or self._has_last_sequence(batch)
        if batch.is_control:
            return (yield from self._filter_marker(batch, has_to_stay))
        if self.transactions.is_aborted(batch):
            return Filtered(_header_of(batch) if has_to_stay else None)
        left = yield from self._filter_records(batch)
        if left is None and has_to_stay:
            left = _header_of(batch)
        return Filtered(left)

    def _has_last_sequence(self, batch: Batch) -> bool:
        """Whether recovery would learn from no other batch where its producer is."""
        if batch.producer_id == NO_PRODUCER_ID:
            return False
        state = self.producers.of(batch.producer_id)
        if state is None:
            return False
        if state.last_data_offset is not None:
            return batch.last_offset == state.last_data_offset
        return batch.is_control and batch.producer_epoch == state.epoch

    def _filter_marker(
        self, batch: Batch, has_to_stay: bool
    ) -> Generator[list[File], None, Filtered]:
        can_go, entry = self.transactions.fate_of(batch)
        if not can_go:
            return Filtered(batch, entry)
        horizon_ms = batch.delete_horizon_ms
        if batch.record_count == 0 or (horizon_ms is not None and horizon_ms <= self.now_ms):
            return Filtered(_header_of(batch) if has_to_stay else None)
        if horizon_ms is not None:
            return Filtered(batch)
        section = batch.section(self.max_decompressed_bytes)
        kept = Kept([True] * batch.record_count, batch.max_timestamp_ms, self._horizon_ms())
        return Filtered((yield from self._rewrite(batch, section, kept)))

    def _horizon_ms(self) -> int:
        return min(self.now_ms + self.config.delete_retention_ms, MAX_INT64)

    def _filter_records(self, batch: Batch) -> Generator[list[File], None, Batch | None]:
        section = batch.section(self.max_decompressed_bytes)
        flags, max_timestamp_ms, has_tombstones = yield from self._judge(batch, section)
        if not any(flags):
            return None
        horizon_ms = batch.delete_horizon_ms
        is_new_horizon = has_tombstones and horizon_ms is None
        if all(flags) and not is_new_horizon:
            return batch
        kept = Kept(flags, max_timestamp_ms, self._horizon_ms() if is_new_horizon else horizon_ms)
        return (yield from self._rewrite(batch, section, kept))

    def _rewrite(
        self, batch: Batch, section: Section, kept: Kept
    ) -> Generator[list[File], None, Batch]:
        body = bytearray()
        for record in kept_records(batch, section, kept):
            body += record
            if self.pace.is_enough(RECORD_EFFORT_US):
                yield []
        level = self.config.compression_level(batch.compression)
        return rewritten(batch, body, kept, level)

    def _judge(
        self, batch: Batch, section: Section
    ) -> Generator[list[File], None, tuple[list[bool], int, bool]]:
        """Which records stay, their largest timestamp, and whether tombstones are among them."""
        flags = []
        max_timestamp_ms, has_tombstones = NO_TIMESTAMP_MS, False
        horizon_ms = batch.delete_horizon_ms
        keeps_tombstones = horizon_ms is None or self.now_ms < horizon_ms
        for offset, timestamp_ms, key, value, _ in kernel.iterate(section):
            stays = offset >= self.mapped_offset or (
                key is not None
                and (value is not None or keeps_tombstones)
                and offset >= self.newest.newest(key)
            )
            flags.append(stays)
            if stays:
                max_timestamp_ms = max(max_timestamp_ms, timestamp_ms)
                has_tombstones = has_tombstones or value is None
            if self.pace.is_enough(RECORD_EFFORT_US):
                yield []
        return flags, max_timestamp_ms, has_tombstones


def _header_of(batch: Batch) -> Batch:
    return batch if batch.record_count == 0 else emptied(batch)
