"""What counts as processed, and may be committed by itself.

A record is processed when the program asks for the next one: with a poll, or with the next turn of
a loop over records.  A record that was handed out and not followed by such a question is in work;
if its processing raises, the question never comes, and it is not committed.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from ottla.client.records import Batch, OffsetAndMetadata, Record
from ottla.model import TopicPartition

Offsets = dict[TopicPartition, OffsetAndMetadata]


class Cursor:
    """A batch that is read record by record."""

    __slots__ = ("_raw", "given_count", "read", "rest")

    def __init__(self, batch: Batch[Any, Any]) -> None:
        self._raw = batch.raw
        self.read: Callable[[Record[Any, Any]], Record[Any, Any]] | None = batch.read
        """What makes a record of a raw one; None: it is one."""
        self.rest: Iterator[Record[Any, Any]] = iter(self._raw)
        """Raw records that were not given out yet: take one, and count it."""
        self.given_count = 0

    @property
    def is_over(self) -> bool:
        return self.given_count >= len(self._raw)

    def offsets(self, *, includes_current: bool) -> Offsets:
        """How far the program came in this batch; the current record may be in work yet."""
        count = self.given_count if includes_current else self.given_count - 1
        return {
            record.tp: OffsetAndMetadata(record.next_offset, "", record.leader_epoch)
            for record in islice(list(self._raw), max(count, 0))
        }

    def next_offset(self, tp: TopicPartition) -> int | None:
        """The first record of a partition that was not given out yet."""
        rest = self._raw[self.given_count :]
        return next((record.offset for record in rest if record.tp == tp), None)

    def drop_rest(self, drops: Callable[[TopicPartition], bool]) -> dict[TopicPartition, int]:
        """Take out what was not given out yet, of some partitions; returns where they go on."""
        given = self.given_count
        dropped: dict[TopicPartition, int] = {}
        kept = []
        for record in self._raw[given:]:
            if drops(record.tp):
                dropped.setdefault(record.tp, record.offset)
            else:
                kept.append(record)
        # In place: whoever iterates goes on with what is left.
        self._raw[given:] = kept
        return dropped


class Progress:
    """What was handed out, and what of it is done.  The I/O thread may ask at any time."""

    def __init__(self, positions: Callable[[], Offsets]) -> None:
        self._positions = positions
        self._processed: Offsets = {}
        self.cursor: Cursor | None = None
        self.is_interrupted = False
        """Whether the caller left by an exception: what it had in work is not done."""

    def asked_for_more(self) -> None:
        """Everything that was handed out is done."""
        self.cursor = None
        self._processed = self._positions()

    def processed(self) -> Offsets:
        """What is done."""
        cursor, processed = self.cursor, self._processed
        if cursor is None:
            return processed
        return processed | cursor.offsets(includes_current=False)

    def handed_out(self) -> Offsets:
        """What is done if what is in work now is done, too."""
        if self.is_interrupted:
            return self.processed()
        cursor = self.cursor
        if cursor is None or cursor.is_over:
            return self._positions()
        return self._processed | cursor.offsets(includes_current=True)

    def keep(self, assigned: frozenset[TopicPartition]) -> None:
        """Forget partitions that are not assigned any more."""
        self._processed = {tp: at for tp, at in self._processed.items() if tp in assigned}

    def moved(self, tp: TopicPartition) -> None:
        """The caller went elsewhere in a partition: what was processed there says nothing now."""
        self._processed = {key: at for key, at in self._processed.items() if key != tp}
