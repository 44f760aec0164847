"""Where records wait: a line of batches for each partition, and the memory that all of them share.

Pure: whoever calls brings the time, and holds the lock that callers and the I/O thread share.  A
line keeps its batches in order for ever: what comes back to be sent again goes before everything
that was behind it.

A batch that is filled gets its memory in grants, ahead of its records: within its grant it takes
plain ones without the lock (`Writer.offer`).  What it did not need it gives back when it leaves.
"""

from collections import deque
from collections.abc import Callable, Iterable
from sys import getrefcount
from typing import Final

from ottla.client.producer.batch import PendingBatch
from ottla.errors import ErrorCode, RequestError
from ottla.model import TopicPartition
from ottla.records.layout import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ottla.records.shapes import BATCH_HEADER_BYTES, Unwritten

MIN_LIMIT_BYTES: Final = 1024
"""A batch is never made smaller than this on a broker's account."""

GRANT_BYTES: Final = 16 * 1024
"""What a batch with several records gets ahead of them, where there is plenty."""

MAX_SPARES: Final = 6
"""How many batches' memory is kept: as many as may be delivered before the next one is built."""


class Line:
    """The batches of one partition, and how its records are numbered."""

    __slots__ = (
        "departed_bytes",
        "epoch",
        "in_flight",
        "is_broken",
        "is_established",
        "limit_bytes",
        "next_number",
        "numbering",
        "open",
        "partition",
        "producer_id",
        "queue",
        "refused_sequence",
        "sequence",
        "suspects",
        "topic",
        "tp",
    )

    def __init__(self, tp: TopicPartition, limit_bytes: int) -> None:
        self.tp = tp
        self.topic, self.partition = tp
        self.limit_bytes = limit_bytes
        """How large a batch may grow."""
        self.queue: deque[PendingBatch] = deque()
        self.open: PendingBatch | None = None
        """The last of the queue, if records may still be added to it."""
        self.in_flight: list[PendingBatch] = []
        """Sent and not answered, in order."""
        self.departed_bytes = 0
        """How much was ever sent, what was sent again included."""
        self.next_number = 0
        self.producer_id = NO_PRODUCER_ID
        self.epoch = NO_PRODUCER_EPOCH
        self.sequence = 0
        """Of the next record that leaves for the first time."""
        self.numbering = 0
        """How often numbers began anew, or went back."""
        self.refused_sequence: int | None = None
        """The number of records that the broker refused whole, and that are to be sent in another
        form: numbers go back there, as soon as nothing is in flight."""
        self.suspects: list[PendingBatch] = []
        """Batches that were in doubt, and that the broker finds out of order.  One that restarted
        remembers only the last batch of a producer: if it takes a batch behind them, it has them
        too, and has forgotten."""
        self.is_established = False
        """Whether the broker has written something of this producer.  Before that it takes any
        number for the first one, so that nothing may overtake the first batch."""
        self.is_broken = False
        """Whether a number was given to records that will never be written: numbers begin anew,
        under another epoch, as soon as nothing is in flight or in doubt."""

    def number(self) -> int:
        """The place of another batch in the line."""
        self.next_number += 1
        return self.next_number

    def number_anew(self, producer_id: int, epoch: int) -> None:
        """Begin with 0, as this producer in this epoch."""
        if producer_id != self.producer_id:
            self.is_established = False
        self.producer_id, self.epoch, self.sequence = producer_id, epoch, 0
        self.numbering += 1
        self.is_broken, self.refused_sequence = False, None

    def number_again(self) -> None:
        """Go back to the number that was refused."""
        assert self.refused_sequence is not None
        self.sequence, self.refused_sequence = self.refused_sequence, None
        self.numbering += 1

    def shut_open(self) -> None:
        """Another batch follows: what is open takes nothing more, also not without the lock."""
        if self.open is not None:
            self.open.writer.allow(0)
            self.open = None

    def put_back(self, batches: Iterable[PendingBatch]) -> None:
        """Take batches in again, each where it belongs."""
        for batch in batches:
            if batch is self.open:
                self.open = None
            place = sum(waiting.order < batch.order for waiting in self.queue)
            self.queue.insert(place, batch)

    def shrink(self, refused_bytes: int) -> None:
        """A broker found a batch of this size too large: make smaller ones from now on."""
        smaller = max(MIN_LIMIT_BYTES, refused_bytes // 2)
        self.limit_bytes = min(self.limit_bytes, smaller)

    @property
    def is_idle(self) -> bool:
        return not self.queue and not self.in_flight


class Spares:
    """Memory of batches that were built as a whole, and were delivered: the next ones take it.

    Fresh memory costs a third of what it takes to build a batch: the system fills it with zeros,
    page by page.  A batch that was given up may still be on its way out of the process, so only
    that is taken which nobody else holds.
    """

    def __init__(self) -> None:
        self._kept: list[bytearray] = []

    def give(self, data: bytearray) -> None:
        """It is not needed any more by who gives it."""
        if len(self._kept) < MAX_SPARES:
            self._kept.append(data)

    def take(self) -> bytearray | None:
        """Memory to write over, if there is some."""
        for place, kept in enumerate(self._kept):
            if getrefcount(kept) == _HELD_HERE:
                return self._kept.pop(place)
        return None


def _held_here() -> int:
    """References to memory that nobody else holds, measured as `Spares.take` asks."""
    for _, kept in enumerate([bytearray(1)]):
        return getrefcount(kept)
    raise AssertionError("a list of one has one")


_HELD_HERE: Final = _held_here()


class Accumulator:
    """All lines of a producer, and the memory that they share."""

    def __init__(
        self,
        *,
        batch_bytes: int,
        buffer_bytes: int,
        max_record_bytes: int,
        hasten: Callable[[PendingBatch], None],
    ) -> None:
        """`hasten` is called, without the lock, when somebody waits for a batch."""
        self._batch_bytes = max(1, batch_bytes)
        self._max_record_bytes = max_record_bytes
        self._hasten = hasten
        self.buffer_bytes = buffer_bytes
        self.used_bytes = 0
        self.spares = Spares()
        self.lines: dict[TopicPartition, Line] = {}
        self.busy: dict[Line, None] = {}
        """Lines with batches that wait or are in flight; who was served last comes last."""
        self.incomplete: dict[PendingBatch, None] = {}
        """Every batch of which it is not known what became of it, oldest first."""

    def line(self, tp: TopicPartition) -> Line:
        """The line of a partition."""
        found = self.lines.get(tp)
        if found is None:
            found = self.lines[tp] = Line(tp, self._batch_bytes)
        return found

    def check_size(self, size_bytes: int) -> None:
        """Raise `RequestError` for a record that no request, or no buffer, could hold."""
        limit_bytes = min(self._max_record_bytes, self.buffer_bytes)
        if size_bytes + BATCH_HEADER_BYTES > limit_bytes:
            setting = (
                "max.request.size" if limit_bytes == self._max_record_bytes else "buffer.memory"
            )
            raise RequestError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"the record has up to {size_bytes} bytes, more than {setting} = {limit_bytes}",
            )

    def has_room(self, size_bytes: int) -> bool:
        """Whether records of this size may be added now."""
        # The header of a batch that may have to be begun is counted in.
        return self.used_bytes + size_bytes + BATCH_HEADER_BYTES <= self.buffer_bytes

    def reserve(self, size_bytes: int) -> bool:
        """Keep room for a batch that is being built, until `release`; False if there is none."""
        if not self.has_room(size_bytes):
            return False
        self.used_bytes += size_bytes
        return True

    def release(self, size_bytes: int) -> None:
        """The batch is there, and counted by itself, or there will be none."""
        self.used_bytes -= size_bytes

    def append(self, line: Line, record: Unwritten, size_bytes: int) -> int | None:
        """Add a record to `line.open`: its place there; None, and nothing done, if it is full."""
        batch = line.open
        if batch is None or not batch.has_room_for(size_bytes):
            return None
        self._grant(batch, size_bytes)
        return batch.writer.append(*record)

    def begin(
        self, line: Line, records: list[Unwritten], size_bytes: int, now_ms: float
    ) -> PendingBatch:
        """Begin another batch with `records`; more can be added to it."""
        line.shut_open()
        batch = PendingBatch(line, line.number(), now_ms, self._hasten)
        batch.writer.extend(records)
        batch.size_bytes += size_bytes
        self._queue(batch)
        line.open = batch
        return batch

    def extend(self, line: Line, records: list[Unwritten], size_bytes: int) -> bool:
        """Add records to `line.open`; False, and nothing done, if they do not fit there."""
        batch = line.open
        if batch is None or not batch.has_room_for(size_bytes):
            return False
        self._grant(batch, size_bytes)
        batch.writer.extend(records)
        return True

    def append_built(
        self,
        line: Line,
        data: bytearray,
        record_count: int,
        now_ms: float,
        body_crc: int | None = None,
    ) -> PendingBatch:
        """Add a batch that is built already; nothing can be added to it."""
        line.shut_open()
        batch = PendingBatch(line, line.number(), now_ms, self._hasten)
        batch.data, batch.record_count, batch.body_crc = data, record_count, body_crc
        batch.is_awaited = True
        batch.size_bytes = len(data)
        self._queue(batch)
        return batch

    def take(self, line: Line) -> PendingBatch:
        """The first batch of a line, to be sent."""
        batch = line.queue.popleft()
        if batch is line.open:
            line.open = None
        self.used_bytes -= batch.close()
        line.departed_bytes += batch.size_bytes
        in_flight = line.in_flight
        if not in_flight or in_flight[-1].order < batch.order:
            in_flight.append(batch)  # unless it was sent before
        else:
            in_flight.insert(sum(sent.order < batch.order for sent in in_flight), batch)
        if len(self.busy) > 1:
            # Whoever was served goes behind those who were not.
            del self.busy[line]
            self.busy[line] = None
        return batch

    def split(self, batch: PendingBatch) -> None:
        """Put two halves where a batch was."""
        halves = batch.halves()
        batch.line.put_back(halves)
        self.busy[batch.line] = None
        kept: dict[PendingBatch, None] = {}
        for other in self.incomplete:
            kept.update(dict.fromkeys(halves if other is batch else (other,)))
        self.incomplete = kept

    def finish(self, batch: PendingBatch) -> None:
        """It is known what became of a batch: its memory is free."""
        if not batch.is_done:
            batch.is_done = True
            # Closed, lest somebody without the lock adds to it after its records were counted.
            self.used_bytes -= batch.close() + batch.size_bytes
            self.incomplete.pop(batch, None)
            if batch.body_crc is not None and batch.data is not None:
                self.spares.give(batch.data)
            batch.forget()

    def rest(self, line: Line) -> None:
        """Forget that a line was busy, if it is not."""
        if not line.queue and not line.in_flight:
            self.busy.pop(line, None)

    def _grant(self, batch: PendingBatch, size_bytes: int) -> None:
        """See to it that a batch has memory for records of this size, and for more of them."""
        lacking_bytes = batch.writer.size_bytes + size_bytes - batch.size_bytes
        if lacking_bytes <= 0:
            batch.writer.allow(batch.size_bytes)  # what it has may have been withheld
            return
        limit_bytes = batch.line.limit_bytes
        ahead_bytes = min(
            GRANT_BYTES,
            limit_bytes // 16,
            (self.buffer_bytes - self.used_bytes - lacking_bytes) // 16,
            limit_bytes - 1 - batch.size_bytes - lacking_bytes,
        )
        granted_bytes = lacking_bytes + max(0, ahead_bytes)
        batch.size_bytes += granted_bytes
        self.used_bytes += granted_bytes
        batch.writer.allow(batch.size_bytes)

    def _queue(self, batch: PendingBatch) -> None:
        batch.line.queue.append(batch)
        self.used_bytes += batch.size_bytes
        self.busy[batch.line] = None
        self.incomplete[batch] = None
