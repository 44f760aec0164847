"""One file of batches, and its indexes.

A segment is owned by one log, and not safe for concurrent use.  Nothing of it is opened, read or
kept in memory before it is needed.  The indexes of the segment that is written to live in memory;
`write_out` puts them on disk, and from then on they can be forgotten and loaded again.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final

from ottla.errors import StorageError
from ottla.log import files
from ottla.log.append_file import AppendFile
from ottla.log.config import LogConfig
from ottla.log.index import Indexes
from ottla.log.index_files import IndexFiles
from ottla.log.scan import Spot, headers, read_batch
from ottla.log.transaction_index import TransactionIndex
from ottla.ports import Disk, File
from ottla.records.batch import Batch
from ottla.records.shapes import BATCH_HEADER_BYTES
from ottla.values import NamedTuple, dataclass

MAX_RESUME_POINTS: Final = 16
"""How many readers of one segment can go on reading without a search."""


class LogRead(NamedTuple):
    """Whole batches, maybe none, and the offset after the last of them."""

    data: bytes
    next_offset: int


@dataclass(frozen=True, slots=True)
class Room:
    """How far a segment may go: each of these is the last value that a batch may bring it to."""

    size_bytes: int
    timestamp_ms: int
    last_offset: int
    now_ms: int


class Segment:
    """Batches from `base_offset` on, in the order of their offsets.

    The offset index has an entry every `index.interval.bytes`, so a search reads at most that
    much too much, and a lost index can be rebuilt.
    """

    __slots__ = (
        "_content",
        "_disk",
        "_first_timestamp_ms",
        "_folder",
        "_indexes",
        "_max_timestamp_ms",
        "_resume_points",
        "_state",
        "_transactions",
        "base_offset",
        "config",
        "created_ms",
        "next_offset",
        "room",
    )

    def __init__(
        self, disk: Disk, folder: str, config: LogConfig, base_offset: int, *, state: str = ""
    ) -> None:
        """A segment that is on disk.  Its owner says where it ends, by setting `next_offset`."""
        self._disk = disk
        self._folder = folder
        self._state = state
        self.config = config
        self.base_offset = base_offset
        self.next_offset = base_offset
        """Where the next batch begins; in a segment that is not the last one, the next segment."""
        self.created_ms = 0
        """When it was created or, as nobody writes that down, opened."""
        self.room: Room | None = None
        """What `rolling` found out about it; None where that may have changed."""
        self._content: AppendFile | None = None
        self._indexes: Indexes | None = None
        self._transactions: TransactionIndex | None = None
        self._max_timestamp_ms: int | None = None
        self._first_timestamp_ms: int | None = None
        self._resume_points: dict[int, int] = {}

    @classmethod
    def create(
        cls, disk: Disk, folder: str, config: LogConfig, base_offset: int, *, state: str = ""
    ) -> "Segment":
        """Make the file of a new segment.  It survives power loss once the folder is synced."""
        segment = cls(disk, folder, config, base_offset, state=state)
        segment.set_content(
            AppendFile(disk.open(segment.path(files.LOG), create=True), 0),
            Indexes(base_offset, config.index_interval_bytes),
            TransactionIndex(),
        )
        return segment

    def __repr__(self) -> str:
        return f"<Segment {self.path(files.LOG)}, up to {self.next_offset}>"

    def path(self, kind: str) -> str:
        """Where one of the segment's files lies."""
        return files.path_of(self._folder, self.base_offset, kind, self._state)

    @property
    def content(self) -> AppendFile:
        """The batches, opened when they are first needed."""
        if self._content is None:
            file = self._disk.open(self.path(files.LOG))
            self._content = AppendFile(file, file.size_bytes())
        return self._content

    @property
    def is_open(self) -> bool:
        return self._content is not None

    # Every append asks for these, so an open file is reached in one step.

    @property
    def file(self) -> File:
        return (self._content or self.content).file

    @property
    def size_bytes(self) -> int:
        return (self._content or self.content).size_bytes

    @property
    def _index_files(self) -> IndexFiles:
        return IndexFiles(self._disk, self.path, self.file, self.size_bytes, self.base_offset)

    @property
    def indexes(self) -> Indexes:
        """Both indexes: as they are in memory, read from disk, or rebuilt from the batches."""
        if self._indexes is None:
            self._indexes = self._index_files.load(self.config.index_interval_bytes)
        return self._indexes

    @property
    def max_timestamp_ms(self) -> int:
        """The largest timestamp in here; -1 where no record has one."""
        if self._indexes is not None:
            return self._indexes.max_timestamp_ms
        if self._max_timestamp_ms is None:
            try:
                self._max_timestamp_ms = self._index_files.max_timestamp_ms()
            except StorageError:  # then the indexes are rebuilt, with a warning
                self._max_timestamp_ms = self.indexes.max_timestamp_ms
        return self._max_timestamp_ms

    @property
    def first_timestamp_ms(self) -> int:
        """The largest timestamp of the first batch, which there must be."""
        if self._first_timestamp_ms is None:
            self._first_timestamp_ms = next(self._spots(0)).max_timestamp_ms
        return self._first_timestamp_ms

    @property
    def transactions(self) -> TransactionIndex:
        """The transactions that were aborted by markers in here."""
        if self._transactions is None:
            self._transactions = self._index_files.load_transactions()
        return self._transactions

    def set_content(
        self, content: AppendFile, indexes: Indexes, transactions: TransactionIndex
    ) -> None:
        """Say what the segment holds, after it was created or scanned."""
        self._content, self._indexes, self._transactions = content, indexes, transactions
        self._first_timestamp_ms = None
        self.room = None
        self._resume_points.clear()

    def reconfigure(self, config: LogConfig) -> None:
        """Use other settings from the next append on."""
        self.config = config
        self.room = None

    def find_end(self) -> None:
        """Learn `next_offset` from the last batch, in a file that was written out.

        Raises:
            StorageError: The end of the file is not the end of a batch.
        """
        try:
            last = self._index_files.last_batch()
        except StorageError:  # of the index, we hope: the walk will tell
            whole_walk = deque(self._spots(0), maxlen=1)
            last = whole_walk[0] if whole_walk else None
        self.next_offset = self.base_offset if last is None else last.last_offset + 1

    def forget_indexes(self) -> None:
        """Free their memory; they must have been written out."""
        if self._indexes is not None:
            self._max_timestamp_ms = self._indexes.max_timestamp_ms
        self._indexes = self._transactions = None

    def _spots(self, position: int) -> Iterator[Spot]:
        """The batches from `position` on."""
        content = self.content
        return headers(content.file, position, content.size_bytes)

    # Writing

    def append(self, batch: Batch) -> File:
        """Write `batch` at the end: the file to sync.  After an error nothing has changed."""
        last_offset = batch.last_offset
        assert last_offset >= self.next_offset, (batch.base_offset, self.next_offset)
        indexes, content = self._indexes or self.indexes, self._content or self.content
        config = self.config
        position = content.size_bytes
        content.append(batch.data, config.segment_bytes, reserve_all=config.preallocate)
        self.next_offset = last_offset + 1
        has_entry = indexes.note(position, len(batch.data), last_offset, batch.max_timestamp_ms)
        if position == 0 or (has_entry and not indexes.has_room(config.segment_index_bytes)):
            self.room = None
        return content.file

    def write_out(self) -> list[File]:
        """Give reserved room back and write the indexes: the files that need a sync for it."""
        self.content.trim()
        self.room = None  # the time index gets an entry in the end
        return [self.file, *self._index_files.write(self.indexes, self.transactions)]

    # Reading

    def find(self, offset: int) -> Spot | None:
        """The batch that contains `offset`, or else the first one after it."""
        spots = self._spots(self._position_for(offset))
        return next((spot for spot in spots if spot.last_offset >= offset), None)

    def _position_for(self, offset: int) -> int:
        """Where to start the walk to `offset`."""
        position = self._resume_points.get(offset)
        if position is None:
            position = self.indexes.offsets.position_for(offset - self.base_offset)
        return position

    def read(
        self, offset: int, max_bytes: int, *, below_offset: int, at_least_one: bool
    ) -> LogRead | None:
        """Whole batches from the one that contains `offset` on; `None` if all end before it."""
        hides_nothing = below_offset >= self.next_offset
        resumed_at = self._resume_points.get(offset, self.size_bytes)
        if hides_nothing and resumed_at < self.size_bytes <= resumed_at + max_bytes:
            # All that came since somebody read up to here: there is no end to be looked for.
            return self._read_between(resumed_at, self.size_bytes, self.next_offset)
        spots = self._spots(self._position_for(offset))
        first = next((spot for spot in spots if spot.last_offset >= offset), None)
        if first is None:
            return None
        if first.last_offset >= below_offset or (first.size_bytes > max_bytes and not at_least_one):
            return LogRead(b"", offset)
        limit = first.position + max_bytes
        if limit >= self.size_bytes and hides_nothing:
            end_position, next_offset = self.size_bytes, self.next_offset
        else:
            end_position, next_offset = self._end_of_read(first, spots, limit, below_offset)
        return self._read_between(first.position, end_position, next_offset)

    def _end_of_read(
        self, first: Spot, after_first: Iterator[Spot], limit: int, below_offset: int
    ) -> tuple[int, int]:
        """Where the batches end that fit, and the offset after the last of them."""
        end_position, next_offset = first.end_position, first.last_offset + 1
        if limit < end_position + BATCH_HEADER_BYTES:
            return end_position, next_offset  # whatever comes next is too large
        position = self.indexes.offsets.last_position_within(below_offset - self.base_offset, limit)
        for spot in after_first if position <= end_position else self._spots(position):
            if spot.last_offset >= below_offset or spot.end_position > limit:
                return spot.position, max(next_offset, spot.base_offset)
            next_offset = spot.last_offset + 1
        return self.size_bytes, next_offset

    def _read_between(self, position: int, end_position: int, next_offset: int) -> LogRead:
        data = self.content.read(position, end_position)
        points = self._resume_points
        if len(points) >= MAX_RESUME_POINTS:
            del points[next(iter(points))]
        points[next_offset] = end_position  # the reader will most likely come back for what follows
        return LogRead(data, next_offset)

    def batches(self, offset: int | None = None) -> Iterator[Batch]:
        """All batches, or those from the one that contains `offset` on, checksums checked.

        Raises:
            StorageError: One of them is damaged.
        """
        first = None if offset is None else self.find(offset)
        position = 0 if offset is None else first.position if first else self.size_bytes
        for spot in self._spots(position):
            yield read_batch(self.file, spot)

    # Going away

    def end_before(self, offset: int) -> tuple[int, int]:
        """Where the batches end that lie wholly below `offset`: position, and next offset."""
        position = self.indexes.offsets.last_position_within(
            offset - self.base_offset, self.size_bytes
        )
        end_position, next_offset = 0, self.base_offset
        for spot in self._spots(position):
            if spot.last_offset >= offset:
                break
            end_position, next_offset = spot.end_position, spot.last_offset + 1
        return end_position, next_offset

    def truncate_to(self, offset: int) -> None:
        """Drop the batch that contains `offset` and all after it, durably."""
        end_position, self.next_offset = self.end_before(offset)
        indexes, transactions = self.indexes, self.transactions
        self.content.cut(end_position)
        transactions.truncate_to(self.next_offset)
        for spot in self._spots(indexes.truncate_to(self.next_offset)):
            indexes.note(spot.position, spot.size_bytes, spot.last_offset, spot.max_timestamp_ms)
        self.set_content(self.content, indexes, transactions)

    def rename(self, state: str) -> None:
        """Give all files of the segment another state.  The log comes last, so it decides."""
        old_state = self._state
        for kind in files.SEGMENT_KINDS:
            old = files.path_of(self._folder, self.base_offset, kind, old_state)
            if kind == files.LOG or self._disk.exists(old):
                self._disk.rename(old, files.path_of(self._folder, self.base_offset, kind, state))
        self._state = state

    def paths(self) -> list[str]:
        """The files of the segment that exist."""
        paths = (self.path(kind) for kind in files.SEGMENT_KINDS)
        return [path for path in paths if self._disk.exists(path)]

    def close(self) -> None:
        """Let go of the file; it is opened again when it is needed."""
        if self._content is not None:
            self._content.file.close()
            self._content = None
