"""What one fetch brought of one partition, and how it is read: markers and aborted records unseen.

Everything here runs in the caller's thread: decompression, checksums and decoding are the larger
part of a consumer's work, and the I/O thread has heartbeats to send.

The rule of transactions: the answer lists which producers aborted, and where their transactions
began.  From that offset up to the producer's next abort marker, his transactional batches are left
out.  Markers themselves are never records.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ottla.client.records import Record, common_of
from ottla.errors import OttlaError
from ottla.model import TopicPartition
from ottla.records.batch import Batch
from ottla.records.control import read_marker


class Trouble(NamedTuple):
    """In place of records: why there are none from here on.

    With `error`, that is raised when a reader comes here.  Without, the reader goes to `offset`,
    or, if that is None, to where auto.offset.reset says.
    """

    error: OttlaError | None
    offset: int | None = None


class Part(NamedTuple):
    """Those records of a batch whose offsets lie in [from_offset, to_offset)."""

    batch: Batch
    from_offset: int
    to_offset: int


class Chunk:
    """Batches of a partition from `position` on; read from the front."""

    __slots__ = (
        "_aborted",
        "_aborting",
        "_at",
        "_batches",
        "_checks_crcs",
        "_row_index",
        "_rows",
        "next_offset",
        "position",
        "size_bytes",
        "tp",
    )

    def __init__(
        self,
        tp: TopicPartition,
        position: int,
        batches: list[Batch],
        *,
        aborted: Iterable[tuple[int, int]] | None,
        checks_crcs: bool,
    ) -> None:
        """`aborted` is (first offset, producer id) of transactions; None: all records are seen."""
        self.tp = tp
        self.position = position
        self.next_offset = max(position, batches[-1].next_offset)
        self.size_bytes = sum(batch.size_bytes for batch in batches)
        self._batches = batches
        self._at = 0
        self._checks_crcs = checks_crcs
        self._aborted = None if aborted is None else deque(sorted(aborted))
        self._aborting: set[int] = set()
        self._rows: list[Record[Any, Any]] | None = None
        self._row_index = 0

    @property
    def is_done(self) -> bool:
        return self._at == len(self._batches)

    def take(self, limit: int) -> list[Record[Any, Any]] | None:
        """Up to `limit` records of the next batch; None if there are no more.

        `position` moves along, and over all that nobody sees.

        Raises:
            BatchError: The next batch is damaged; the position stays in front of it.
        """
        while not self.is_done:
            batch = self._batches[self._at]
            rows = self._rows
            if rows is None:
                if not self._is_seen(batch):
                    self._pass(batch)
                    continue
                rows = self._rows = self._decoded(batch)
            part = rows[self._row_index : self._row_index + limit]
            self._row_index += len(part)
            if self._row_index < len(rows):
                self.position = part[-1].offset + 1
            else:
                self._pass(batch)
            if part:
                self._skip_unseen()
                return part
        return None

    def take_batches(self, limit: int) -> Iterator[Part]:
        """Batches as they are, up to `limit` records; `position` moves along.

        Only a batch that has more than that is decoded here, to find where to stop in it.
        """
        while not self.is_done and limit > 0:
            batch = self._batches[self._at]
            if self._rows is None:
                if not self._is_seen(batch):
                    self._pass(batch)
                    continue
                if self._checks_crcs:
                    batch.check_crc()
            start = self.position
            if batch.record_count <= limit:
                limit -= batch.record_count
                self._pass(batch)
                self._skip_unseen()
                yield Part(batch, start, batch.next_offset)
                continue
            rows = self._rows = self._decoded(batch) if self._rows is None else self._rows
            self._row_index = min(self._row_index + limit, len(rows))
            limit = 0
            if self._row_index < len(rows):
                self.position = rows[self._row_index].offset
                yield Part(batch, start, self.position)
            else:
                self._pass(batch)
                self._skip_unseen()
                yield Part(batch, start, batch.next_offset)

    def _decoded(self, batch: Batch) -> list[Record[Any, Any]]:
        if self._checks_crcs:
            batch.check_crc()
        rows: list[Record[Any, Any]] = batch.record_list_as(common_of(self.tp, batch))
        if rows and rows[0].offset < self.position:
            return rows[bisect_left(rows, self.position, key=lambda row: row.offset) :]
        return rows

    def _pass(self, batch: Batch) -> None:
        self.position = max(self.position, batch.next_offset)
        self._at += 1
        self._rows, self._row_index = None, 0

    def _skip_unseen(self) -> None:
        # Not left to the next call: whoever has read everything has no lag, marker or not.
        while not self.is_done and self._rows is None:
            batch = self._batches[self._at]
            if not batch.is_control:
                return
            self._is_seen(batch)
            self._pass(batch)

    def _is_seen(self, batch: Batch) -> bool:
        """Whether users see the batch; asked once of each, in order."""
        if batch.is_control:
            self._hear_marker(batch)
            return False
        if self._aborted is None or not batch.is_transactional:
            return True
        while self._aborted and self._aborted[0][0] <= batch.last_offset:
            self._aborting.add(self._aborted.popleft()[1])
        return batch.producer_id not in self._aborting

    def _hear_marker(self, batch: Batch) -> None:
        if self._aborted is None:
            return
        while self._aborted and self._aborted[0][0] <= batch.last_offset:
            self._aborting.add(self._aborted.popleft()[1])
        marker = read_marker(batch)
        if marker is not None and not marker.is_commit:
            self._aborting.discard(batch.producer_id)
