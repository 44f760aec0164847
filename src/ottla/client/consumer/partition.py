"""One assigned partition: where its reader is, what it waits for, what is fetched ahead.

Two offsets matter.  `position` is what the caller gets next; it is the caller's, and moves as
records are handed out.  `fetch_offset` is what is asked for next; it is the I/O thread's, and runs
ahead by what is queued.  Whatever moves the position otherwise (a seek, a reset) drops the queue
and raises `number`, so that answers to older questions are recognized and ignored.
"""

import enum
from collections import deque

from ottla.client.cluster_view import Leader
from ottla.client.consumer.chunks import Chunk, Trouble
from ottla.client.records import NO_EPOCH, OffsetAndMetadata
from ottla.model import TopicPartition
from ottla.wire.messages.fetch import FetchPartition


class Need(enum.Enum):
    """What must be found out before a partition can be read."""

    NOTHING = "nothing"
    COMMITTED = "the committed offset"
    RESET = "the offset that auto.offset.reset, or a seek, stands for"


class Partition:
    """The state of one assigned partition; whoever changes it holds the lock of the `Shelf`."""

    __slots__ = (
        "chunks",
        "end_offset",
        "fetch_epoch",
        "fetch_offset",
        "is_in_flight",
        "is_paused",
        "need",
        "number",
        "passed",
        "place",
        "question",
        "queued_bytes",
        "reset_to",
        "retry_at_ms",
        "told_offset",
        "tp",
        "trouble",
        "validated",
    )

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.number = 0
        self.place: OffsetAndMetadata | None = None
        """What the caller gets next, as it is committed; None: not known yet.

        Kept as a whole: all of them are asked for with each poll, and few have moved.
        """
        self.passed: OffsetAndMetadata | None = None
        """What was processed and needs no commit any more: it, or one beyond it, was committed."""
        self.told_offset = -1
        """Where the last batch that was handed out ended, or the last seek led."""
        self.need = Need.COMMITTED
        self.reset_to: object = None
        """With Need.RESET: what a seek asked for; None: what auto.offset.reset says."""
        self.is_paused = False
        self.fetch_offset = -1
        self.fetch_epoch = NO_EPOCH
        self.is_in_flight = False
        self.question: FetchPartition | None = None
        """What was last asked about it."""
        self.validated: Leader | None = None
        """The leader that is known to have everything below the fetch offset."""
        self.retry_at_ms = 0
        self.chunks: deque[Chunk] = deque()
        self.trouble: Trouble | None = None
        """What comes after the chunks."""
        self.queued_bytes = 0
        self.end_offset: int | None = None
        """The end of what can be read, as the last answer told."""

    def seek(self, offset: int, epoch: int = NO_EPOCH) -> None:
        """Go to an offset that is known."""
        self._drop_queue()
        self.need, self.reset_to = Need.NOTHING, None
        self.told_offset = self.fetch_offset = offset
        self.fetch_epoch = epoch
        self.validated = None
        self.reach(offset, epoch)

    def ask(self, need: Need, reset_to: object = None) -> None:
        """Go to an offset that must be found out."""
        self._drop_queue()
        self.need, self.reset_to = need, reset_to
        self.place = None
        self.fetch_epoch = NO_EPOCH

    def reach(self, offset: int, epoch: int) -> None:
        """The caller gets the record at `offset` next; `epoch` is that of the one before it."""
        self.place = OffsetAndMetadata(offset, "", epoch)

    @property
    def position(self) -> int | None:
        """The offset that the caller gets next; None: not known yet."""
        return None if self.place is None else self.place.offset

    def queue(self, chunk: Chunk, epoch: int) -> None:
        """Add what the next fetch brought."""
        assert self.trouble is None, "nothing is fetched behind a trouble"
        self.chunks.append(chunk)
        self.queued_bytes += chunk.size_bytes
        self.fetch_offset, self.fetch_epoch = chunk.next_offset, epoch

    @property
    def has_something(self) -> bool:
        """Whether a caller would find records, or the reason why there are none."""
        return bool(self.chunks or self.trouble) and not self.is_paused

    def wants_fetch(self, max_chunks: int) -> bool:
        """Whether to ask for more of it, once `retry_at_ms` is over."""
        return (
            self.need is Need.NOTHING
            and self.trouble is None
            and not (self.is_paused or self.is_in_flight)
            and len(self.chunks) < max_chunks
        )

    def _drop_queue(self) -> None:
        self.number += 1
        self.chunks.clear()
        self.trouble = None
        self.queued_bytes = 0
        self.is_in_flight = False
        self.retry_at_ms = 0
