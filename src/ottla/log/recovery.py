"""What is on disk when a log is opened, and what we make of it.

After a clean stop, sizes and indexes are trusted.  Otherwise everything from the recovery point on
is read and checked, and the log ends at the first batch that is bad: cut short, failing its
checksum, out of order, or the zeros of reserved room.  Below the recovery point everything was
durable once: what is bad there was damaged later, and is reported, never cut.

Gaps between the offsets of two batches are good, since compaction makes them.  A gap between two
segments is not: power loss can take the end of one file and spare the next.
"""

import logging
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import field
from itertools import pairwise
from typing import Final, TypeGuard

from ottla.errors import StorageError
from ottla.log import files
from ottla.log.append_file import AppendFile
from ottla.log.checkpoints import read_epochs
from ottla.log.config import LogConfig
from ottla.log.durability import SyncLedger
from ottla.log.files import LogFile
from ottla.log.index import MAX_RELATIVE_OFFSET, Indexes
from ottla.log.leader_epochs import LeaderEpochs
from ottla.log.producer_files import ProducerFiles
from ottla.log.producer_state import ProducerStates
from ottla.log.scan import Fault, damaged, whole_batches
from ottla.log.segment import Segment
from ottla.log.swap import finish_swap
from ottla.log.transaction_index import TransactionIndex
from ottla.ports import Disk, Folder
from ottla.records.batch import Batch
from ottla.values import dataclass

log = logging.getLogger(__name__)

_OTHER_FILES: Final = frozenset((files.LEADER_EPOCHS, files.PARTITION_METADATA))


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What the data directory says about a log before it is opened."""

    recovery_point: int = 0
    start_offset: int = 0
    was_clean: bool = False


@dataclass(slots=True, kw_only=True)
class Recovered:
    """A log as it was found, or mended."""

    segments: list[Segment]
    epochs: LeaderEpochs
    producers: ProducerFiles
    was_clean: bool
    start_offset: int = 0
    next_offset: int = 0
    ledger: SyncLedger = field(default_factory=lambda: SyncLedger(0))
    """Knows the files that recovery wrote, or that were maybe not synced before the crash."""

    def abandon(self) -> None:
        """Let go of all files."""
        for segment in self.segments:
            segment.close()
        self.ledger.abandon()


def recover(
    disk: Disk,
    folder: str,
    config: LogConfig,
    checkpoint: Checkpoint,
    producers: ProducerStates,
) -> Recovered:
    """Find the segments of a log, mend what a crash left, and restore the state of its producers.

    Raises:
        StorageError: Something below the recovery point is damaged or missing.
    """
    names = disk.names(folder) if disk.exists(folder) else []
    names = _tidy(disk, folder, finish_swap(disk, folder, config, names))
    bases = [file.base_offset for file in map(files.parse_name, names) if _is_log(file)]
    segments = [Segment(disk, folder, config, base_offset) for base_offset in sorted(bases)]
    segments = _without_deleted(disk, folder, segments, checkpoint.start_offset)
    for segment, following in pairwise(segments):
        segment.next_offset = following.base_offset
    epochs = LeaderEpochs(read_epochs(disk, folder) if files.LEADER_EPOCHS in names else ())
    snapshots = ProducerFiles(disk, folder, producers, names)
    found = Recovered(
        segments=segments, epochs=epochs, producers=snapshots, was_clean=checkpoint.was_clean
    )
    try:
        if segments and checkpoint.was_clean:
            segments[-1].find_end()
            segments[-1].close()
        elif segments:
            # The first sync of its records makes the name of a segment durable; was there one?
            found.ledger.note(Folder(disk, folder))
            _Scan(disk, folder, config, found).run(checkpoint.recovery_point)
        _settle_ends(disk, folder, found, checkpoint)
        if checkpoint.was_clean or not found.segments:
            snapshots.restore(found.segments, found.next_offset)
    except (OSError, StorageError):
        found.abandon()  # it may be tried again, and again
        raise
    return found


def names_to_read(names: Iterable[str], recovery_point: int) -> list[str]:
    """Which files of a log recovery reads, if the log is not known to be clean."""
    parsed = [(name, files.parse_name(name)) for name in names]
    bases = sorted(file.base_offset for _, file in parsed if _is_log(file))
    unsure = bases[_first_unsure(bases, recovery_point) :]
    return [
        name for name, file in parsed if file is None or not unsure or file.base_offset >= unsure[0]
    ]


def _first_unsure(bases: Sequence[int], recovery_point: int) -> int:
    """The number of the first segment that has to be read.

    The one before the recovery point comes too if the point is at its very end: its batches are
    durable, but the return of its unused room may not be.
    """
    return max(0, bisect_left(bases, recovery_point) - 1)


def _is_log(file: LogFile | None) -> TypeGuard[LogFile]:
    return file is not None and file.kind == files.LOG and file.state == ""


def _tidy(disk: Disk, folder: str, names: list[str]) -> list[str]:
    """Remove what a crash left half done: the names that are there then."""
    bases = {file.base_offset for file in map(files.parse_name, names) if _is_log(file)}
    kept = []
    for name in names:
        file = files.parse_name(name)
        if file is None:
            is_left = name.endswith(files.TEMPORARY)
            if not is_left and name not in _OTHER_FILES:
                log.warning("foreign file ignored: path=%s/%s", folder, name)
        else:
            # A snapshot stands for itself; every other file needs its log.
            is_orphan = file.kind != files.SNAPSHOT and file.base_offset not in bases
            is_left = file.state != "" or is_orphan
        if is_left:
            disk.remove(f"{folder}/{name}")
        else:
            kept.append(name)
    return kept


def _without_deleted(
    disk: Disk, folder: str, segments: list[Segment], start_offset: int
) -> list[Segment]:
    """Drop the segments that end at or below the start: somebody was about to remove them."""
    count = 0
    while count + 1 < len(segments) and segments[count + 1].base_offset <= start_offset:
        count += 1
    remove_segments(disk, folder, segments[:count])
    return segments[count:]


def remove_segments(disk: Disk, folder: str, segments: Sequence[Segment]) -> None:
    """Remove the files of `segments`, durably."""
    for segment in segments:
        segment.close()
        for path in segment.paths():
            disk.remove(path)
    if segments:
        disk.sync_folder(folder)


def _settle_ends(disk: Disk, folder: str, found: Recovered, checkpoint: Checkpoint) -> None:
    """Decide where the log starts and ends, by its segments and by what was checkpointed."""
    first = found.segments[0].base_offset if found.segments else checkpoint.start_offset
    end_offset = found.segments[-1].next_offset if found.segments else checkpoint.start_offset
    if end_offset < checkpoint.recovery_point:
        raise StorageError(
            f"{folder} ends at offset {end_offset}, but it was durable up to "
            f"{checkpoint.recovery_point}: files are missing. Restore them from a copy or a "
            "replica, or remove the folder to give its records up"
        )
    if end_offset < checkpoint.start_offset:
        # Records were deleted before they were durable.  Their offsets must not be used again.
        remove_segments(disk, folder, found.segments)
        found.segments, end_offset = [], checkpoint.start_offset
        found.ledger.abandon()
    found.next_offset = end_offset
    found.start_offset = max(first, checkpoint.start_offset)
    is_durable = checkpoint.was_clean or not found.segments
    found.ledger.start_at(end_offset if is_durable else min(checkpoint.recovery_point, end_offset))
    found.epochs.truncate_from_end(end_offset)
    found.epochs.truncate_from_start(found.start_offset)


class _Scan:
    """Reads every batch from the recovery point's segment on, and cuts at the first bad one."""

    def __init__(self, disk: Disk, folder: str, config: LogConfig, found: Recovered) -> None:
        self._disk = disk
        self._folder = folder
        self._config = config
        self._found = found

    def run(self, recovery_point: int) -> None:
        segments = self._found.segments
        first = _first_unsure([segment.base_offset for segment in segments], recovery_point)
        # From here on the batches themselves say what is true: what the files beside them say may
        # be of batches that were truncated, or lost.
        base_offset = segments[first].base_offset
        self._found.epochs.truncate_from_end(base_offset)
        self._found.producers.restore(segments[:first], base_offset)
        for number in range(first, len(segments)):
            segment = segments[number]
            following = segments[number + 1] if number + 1 < len(segments) else None
            end_position, fault = self._read(segment, following)
            is_last = following is None or following.base_offset != segment.next_offset
            if is_last and segment.next_offset < recovery_point:
                what = fault.reason if fault else "the file ends"
                raise damaged(
                    segment.file,
                    end_position,
                    f"{what}, although offsets up to {recovery_point} were durable",
                )
            self._cut(segment, end_position, fault)
            if is_last:
                self._drop(segments[number + 1 :])
                del segments[number + 1 :]
                return

    def _read(self, segment: Segment, following: Segment | None) -> tuple[int, Fault | None]:
        """Take in the good batches: where they end, and what is wrong with the rest."""
        file = segment.file
        indexes = Indexes(segment.base_offset, self._config.index_interval_bytes)
        transactions = TransactionIndex()
        most_offset = segment.base_offset + MAX_RELATIVE_OFFSET
        if following is not None:
            most_offset = min(most_offset, following.base_offset - 1)
        next_offset, end_position, fault = segment.base_offset, 0, None
        for item in whole_batches(file, file.size_bytes()):
            if isinstance(item, Fault):
                fault = item
                break
            position, batch = item
            if not next_offset <= batch.base_offset <= batch.last_offset <= most_offset:
                fault = Fault(position, f"{batch!r} is outside {next_offset}..{most_offset}")
                break
            self._note(indexes, position, batch)
            transactions.note(self._found.producers.replay(batch, file))
            next_offset, end_position = batch.last_offset + 1, position + batch.size_bytes
        segment.next_offset = next_offset
        segment.set_content(AppendFile(file, end_position), indexes, transactions)
        return end_position, fault

    def _note(self, indexes: Indexes, position: int, batch: Batch) -> None:
        indexes.note(position, batch.size_bytes, batch.last_offset, batch.max_timestamp_ms)
        epochs = self._found.epochs
        if batch.partition_leader_epoch > epochs.latest:
            epochs.assign(batch.partition_leader_epoch, batch.base_offset)

    def _cut(self, segment: Segment, end_position: int, fault: Fault | None) -> None:
        """Remove what follows the good part, durably, and write the indexes that it gave."""
        if fault is not None:
            surplus_bytes = segment.file.size_bytes() - end_position
            log.info(
                "log cut: path=%s position=%d surplus_bytes=%d reason=%s",
                segment.file.path,
                end_position,
                surplus_bytes,
                fault.reason,
            )
            segment.content.cut(end_position)
        for file in segment.write_out():
            self._found.ledger.note(file, close_after=file is not segment.file)
        if segment is not self._found.segments[-1]:
            segment.forget_indexes()

    def _drop(self, segments: list[Segment]) -> None:
        for segment in segments:
            log.warning("segment dropped, a gap precedes it: path=%s", segment.file.path)
        remove_segments(self._disk, self._folder, segments)
