"""Compaction: of each key, only the newest record stays.

`survey` says how dirty a log is, and `Compaction` cleans it: it reads the part that was not cleaned
yet and notes the newest offset of each key, then writes all segments anew up to there, without the
records that have a newer one.  Offsets never change; they get holes.

It never touches the last segment, nor one that reaches beyond the last stable offset, or beyond
what is durable.  It works in small steps between which the log may change; nothing of it shows
until new segments take the place of old ones, all at once.  Each new segment ends in the batch in
which its old ones ended, if need be an empty one: a gap between two segments would look like a loss
to recovery.

Kafka's rules, for what is not just an older record: a tombstone stays `delete.retention.ms` from
the pass that first met it, which writes that time into its batch (the delete horizon, KIP-534).
Aborted records go at once.  A marker stays while any batch of its transaction is there, and then as
long as a tombstone.  The last batch of each producer stays, if need be empty: it has the sequence
number.
"""

import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from ottla.errors import BatchError
from ottla.log import files
from ottla.log.cleaned_transactions import CleanedTransactions
from ottla.log.compaction_filter import (
    BYTES_PER_EFFORT_US,
    RECORD_EFFORT_US,
    CompactionFilter,
    Filtered,
    Pace,
)
from ottla.log.config import CleanerConfig, LogConfig
from ottla.log.index import MAX_RELATIVE_OFFSET
from ottla.log.log import Log
from ottla.log.offset_map import OffsetMap
from ottla.log.recovery import remove_segments
from ottla.log.retention import facts_of
from ottla.log.scan import Fault, damaged, whole_batches
from ottla.log.segment import Segment
from ottla.ports import ColdReadError, Disk, File, Folder
from ottla.records.batch import MAX_DECOMPRESSED_BYTES, Batch
from ottla.values import dataclass

log = logging.getLogger(__name__)

_T = TypeVar("_T")


Files = list[File]
Unsynced = Sequence[File] | Sequence[Folder]
Pause = Unsynced | ColdReadError
"""Where a step ends: what is to be synced before the next one, or what that would wait for."""
Steps = Generator[Pause, None, None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dirtiness:
    """What of a log can be cleaned now, and how urgent it is."""

    first_dirty_offset: int
    """Below, each key has one record already."""
    end_offset: int
    """Where the first segment begins that must not be touched yet."""
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool
    """Whether a dirty record is older than `max.compaction.lag.ms`."""

    @property
    def ratio(self) -> float:
        """Which part of what would be read is new."""
        total_bytes = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total_bytes if total_bytes else 0.0

    def is_due(self, config: LogConfig) -> bool:
        """Whether it is worth while to clean."""
        if not config.is_compacted or self.dirty_bytes == 0:
            return False
        return self.is_overdue or self.ratio > config.min_cleanable_dirty_ratio


def survey(
    log: Log, *, cleaned_offset: int | None, last_stable_offset: int, now_ms: int
) -> Dirtiness:
    """How dirty `log` is; `cleaned_offset` is where the last compaction came to, if known.

    After a truncation, the caller lowers `cleaned_offset` to where the log ended then.
    """
    first_dirty_offset = log.start_offset
    if cleaned_offset is not None and log.start_offset <= cleaned_offset <= log.next_offset:
        first_dirty_offset = cleaned_offset
    end_offset, clean_bytes, dirty_bytes = first_dirty_offset, 0, 0
    # Were a record dropped for a newer one that power loss takes, its key would be lost.
    limit = min(last_stable_offset, log.synced_offset)
    for segment in log.segments[:-1]:
        if segment.next_offset > limit:
            break
        if segment.next_offset <= first_dirty_offset:
            clean_bytes += segment.size_bytes
        elif _is_too_young(segment, log.config, now_ms):
            break
        else:
            dirty_bytes += segment.size_bytes
            end_offset = segment.next_offset
    return Dirtiness(
        first_dirty_offset=first_dirty_offset,
        end_offset=end_offset,
        clean_bytes=clean_bytes,
        dirty_bytes=dirty_bytes,
        is_overdue=_is_overdue(log, first_dirty_offset, now_ms),
    )


def _is_too_young(segment: Segment, config: LogConfig, now_ms: int) -> bool:
    lag_ms = config.min_compaction_lag_ms
    return lag_ms > 0 and facts_of(segment).youngest_ms > now_ms - lag_ms


def _is_overdue(log: Log, first_dirty_offset: int, now_ms: int) -> bool:
    due_ms = now_ms - log.config.max_compaction_lag_ms
    if due_ms <= 0:
        return False
    dirty = (item for item in log.segments[:-1] if item.next_offset > first_dirty_offset)
    return any(item.size_bytes and 0 < item.first_timestamp_ms < due_ms for item in dirty)


class Compaction:
    """Cleans one log once, in steps::

        while not compaction.is_done:
            for unsynced in compaction.step():
                unsynced.sync()

    It can be given up between any two steps: call `abandon`, and the log is as it was, or partly
    cleaned, which is as good.  If segments were deleted or truncated meanwhile, it gives up itself.
    A step that cannot be had at once is only broken off: the next one goes on where it was.
    """

    def __init__(
        self,
        disk: Disk,
        log: Log,
        dirtiness: Dirtiness,
        config: CleanerConfig,
        *,
        now_ms: int,
        max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    ) -> None:
        self._disk = disk
        self._log = log
        self._dirtiness = dirtiness
        self._pace = Pace()
        self._filter = CompactionFilter(
            newest=OffsetMap(
                config.dedupe_buffer_bytes,
                max_keys=dirtiness.end_offset - dirtiness.first_dirty_offset,
                load_factor=config.dedupe_load_factor,
            ),
            mapped_offset=dirtiness.first_dirty_offset,
            producers=log.producers,
            config=log.config,
            now_ms=now_ms,
            pace=self._pace,
            max_decompressed_bytes=max_decompressed_bytes,
        )
        self._at_work: list[Segment] = []
        self._place: tuple[File, int]
        self._cleaned: CleanedSegments | None = None
        self._steps = self._run()
        self.is_done = False
        self.was_interrupted = False
        """Whether it gave up, mostly because segments went away."""
        self._replaced_paths: list[str] = []
        self.io_bytes = 0
        """How much was read and written so far, for whoever limits the rate."""

    @property
    def cleaned_offset(self) -> int:
        """Up to here the log is clean, once all is done without interruption: write it down."""
        return self._filter.mapped_offset

    @property
    def map_bytes(self) -> int:
        """How much memory the offsets of the keys take."""
        return self._filter.newest.size_bytes

    def step(self) -> Unsynced:
        """Work for about a millisecond: what to sync before the next step, files or the folder.

        Nothing, if all is done, or was given up.

        Raises:
            ColdReadError: What comes next is not in memory, and this is in `Disk.at_once`.
            StorageError: The log is damaged, or has a batch that decompresses into more than
                allowed.  The log goes on as it is; call `abandon`, and do not try again soon.
        """
        if self.is_done:
            return []
        if not self._is_intact():
            self.was_interrupted = True
            self.abandon()
            return []
        self._pace.effort_us = 0
        try:
            pause = next(self._steps, None)
        except BatchError as error:
            file, position = self._place
            raise damaged(file, position, str(error)) from error
        except ColdReadError as cold:
            # Nobody has foreseen it there.  To go on would look as if all were done.
            log.warning("compaction broken off: folder=%s reason=%s", self._log.folder, cold)
            self.was_interrupted = True
            self.abandon()
            return []
        if isinstance(pause, ColdReadError):
            raise pause
        self.is_done = pause is None
        return pause or []

    def take_replaced(self) -> list[str]:
        """Files of old segments that were replaced since this was last asked: they can go."""
        paths, self._replaced_paths = self._replaced_paths, []
        return paths

    def abandon(self) -> None:
        """Stop, and remove what was written but not put in place."""
        self.is_done = True
        self._steps.close()
        self._discard()

    def _discard(self) -> None:
        if self._cleaned is not None:
            self._cleaned.discard()
            self._cleaned = None

    def _is_intact(self) -> bool:
        """Whether the segments at work are still those of the log."""
        if not self._at_work:
            return True
        current = self._log.segments
        if self._at_work[0] not in current:
            return False
        first = current.index(self._at_work[0])
        return list(current[first : first + len(self._at_work)]) == self._at_work

    def _run(self) -> Steps:
        end_offset = self._dirtiness.end_offset
        sealed = [item for item in self._log.segments[:-1] if item.next_offset <= end_offset]
        first_offset = self._dirtiness.first_dirty_offset
        self._at_work = [item for item in sealed if item.next_offset > first_offset]
        mapped_offset = yield from self._map_keys(first_offset)
        self._filter.mapped_offset = mapped_offset
        to_clean = [item for item in sealed if item.base_offset < mapped_offset]
        for group in grouped(to_clean, self._log.config.segment_bytes):
            self._at_work = group
            yield from self._clean(group)
        self._at_work = []

    def _map_keys(self, first_offset: int) -> Generator[Pause, None, int]:
        """Note the newest offset of each key: where it came to, at the end or at a full map."""
        end_offset = self._dirtiness.end_offset
        transactions = CleanedTransactions()
        aborted = partial(self._log.aborted_transactions, first_offset, end_offset)
        transactions.expect((yield from _patiently(aborted)))
        for segment in self._at_work:
            for batch in self._batches(segment):
                if isinstance(batch, ColdReadError):
                    yield batch
                    continue
                if self._pace.is_enough(batch.size_bytes // BYTES_PER_EFFORT_US):
                    yield []
                if batch.last_offset < first_offset:
                    continue
                if batch.is_control:
                    transactions.fate_of(batch)
                elif not transactions.is_aborted(batch):
                    full_offset = yield from self._map_batch(batch, first_offset)
                    if full_offset is not None:
                        return full_offset
        return end_offset

    def _map_batch(self, batch: Batch, first_offset: int) -> Generator[Pause, None, int | None]:
        """Note the keys of a batch: the offset at which the map was full, if it was."""
        for offset, _, key, _, _ in batch.records(self._filter.max_decompressed_bytes):
            if key is not None and offset >= first_offset:
                if not self._filter.newest.put(key, offset):
                    return offset
                if self._pace.is_enough(RECORD_EFFORT_US):
                    yield []
        return None

    def _clean(self, group: list[Segment]) -> Steps:
        """Write the segments of `group` anew, and put the result in their place."""
        cleaned = self._cleaned = CleanedSegments(self._disk, self._log, group)
        end_offset = group[0].base_offset
        for segment in group:
            bounds = segment.base_offset, segment.next_offset
            aborted = partial(self._log.aborted_transactions, *bounds)
            self._filter.transactions.expect((yield from _patiently(aborted)))
            for batch in self._batches(segment):
                if isinstance(batch, ColdReadError):
                    yield batch
                    continue
                is_last = segment is group[-1] and self._is_last_of(segment, batch)
                left = yield from self._filter.filter(batch, is_last=is_last)
                cleaned.append(batch, left)
                end_offset = batch.last_offset + 1
                self.io_bytes += left.batch.size_bytes if left.batch else 0
                if self._pace.is_enough(batch.size_bytes // BYTES_PER_EFFORT_US):
                    yield []
        assert cleaned.segments[-1].next_offset == end_offset, (group, cleaned.segments)
        if cleaned.is_worth_while:
            yield cleaned.write_out()
            cleaned.close_indexes()
            for _ in self._log.replacing(group, cleaned.segments):
                if self._log.is_replacing:
                    # They belong to the log: from here on only recovery could tell what is in place
                    # and what is not, and nobody takes the old ones away.
                    self._cleaned, self._at_work = None, []
                yield [Folder(self._disk, self._log.folder)]
            self._replaced_paths += [path for segment in group for path in segment.paths()]
            yield []  # they can go before others are written: there may be no room for both
        else:
            self._discard()

    def _is_last_of(self, segment: Segment, batch: Batch) -> bool:
        _, position = self._place
        return position + batch.size_bytes == segment.size_bytes

    def _batches(self, segment: Segment) -> Iterator[Batch | ColdReadError]:
        """Every batch of a segment, its checksum checked; and whatever had to be waited for."""
        position = 0
        while position < segment.size_bytes:
            try:
                for found in whole_batches(segment.file, segment.size_bytes, position):
                    if isinstance(found, Fault):
                        raise damaged(segment.file, found.position, found.reason)
                    position, batch = found
                    self._place = (segment.file, position)
                    self.io_bytes += batch.size_bytes
                    position += batch.size_bytes
                    yield batch
            except ColdReadError as cold:
                yield cold


def _patiently(read: Callable[[], _T]) -> Generator[Pause, None, _T]:
    """What `read` gives, with a pause whenever it would wait for the device."""
    while True:
        try:
            return read()
        except ColdReadError as cold:
            yield cold


class CleanedSegments:
    """What takes the place of a group of segments, as it is being written."""

    def __init__(self, disk: Disk, log: Log, group: Sequence[Segment]) -> None:
        self._disk = disk
        self._log = log
        self._has_changed = len(group) > 1
        self._written: Files = []
        self.segments = [log.create_cleaned_segment(group[0].base_offset)]

    @property
    def is_worth_while(self) -> bool:
        """Whether anything is different from the old segments."""
        return self._has_changed

    def append(self, original: Batch, left: Filtered) -> None:
        """Write what is left of a batch, if anything is."""
        batch, entry = left
        self._has_changed = self._has_changed or batch is not original
        if batch is None:
            return
        if not self._has_room_for(batch):
            # It begins where the last one ends, so that there is no gap between them.
            base_offset = self.segments[-1].next_offset
            self.segments.append(self._log.create_cleaned_segment(base_offset))
        self.segments[-1].append(batch)
        if entry is not None:
            self.segments[-1].transactions.append(entry)

    def _has_room_for(self, batch: Batch) -> bool:
        segment, config = self.segments[-1], self._log.config
        if segment.size_bytes == 0:
            return True
        has_room = segment.size_bytes + batch.size_bytes <= config.segment_bytes
        return has_room and segment.indexes.has_room(config.segment_index_bytes)

    def write_out(self) -> Files:
        """The files to sync before the segments can be put in place."""
        for segment in self.segments:
            self._written += segment.write_out()
        return self._written

    def close_indexes(self) -> None:
        """Let go of the index files; the segments open them again if need be."""
        batches = [segment.file for segment in self.segments]
        for file in self._written:
            if file not in batches:
                file.close()

    def discard(self) -> None:
        """Remove everything that was written."""
        self.close_indexes()
        first, *others = self.segments
        remove_segments(self._disk, self._log.folder, others)
        # Only now: by the first one, recovery knows that the others have not been decided on.
        first.close()
        for path in first.paths():
            self._disk.remove(path)
        self._remove_swapped_indexes()

    def _remove_swapped_indexes(self) -> None:
        """Indexes are renamed before their segment: where that failed, some went ahead.

        The next segment that begins here must not take them for its own.
        """
        for segment in self.segments:
            for kind in files.SEGMENT_KINDS:
                path = files.path_of(self._log.folder, segment.base_offset, kind, files.SWAP)
                if self._disk.exists(path):
                    self._disk.remove(path)


def grouped(segments: Iterable[Segment], max_bytes: int) -> Iterator[list[Segment]]:
    """Neighbors that together fit into one segment: compaction leaves few and large ones.

    Segments without a batch have nothing to clean, and are left out.
    """
    group: list[Segment] = []
    group_bytes = 0
    for segment in segments:
        size_bytes = segment.size_bytes
        is_near = not group or segment.next_offset - group[0].base_offset <= MAX_RELATIVE_OFFSET
        if group and not (is_near and 0 < size_bytes <= max_bytes - group_bytes):
            yield group
            group, group_bytes = [], 0
        if size_bytes:
            group.append(segment)
            group_bytes += size_bytes
    if group:
        yield group
