"""Transactions as compaction meets them: which data was aborted, and which markers may go.

A marker is needed as long as any batch of its transaction is in the log, even an empty one: a
reader of those must learn how they ended, and recovery must not find a transaction open for ever.
So a marker can go only in a pass that met none of them.
"""

from collections.abc import Iterable
from heapq import heappop, heappush

from ottla.records.batch import Batch
from ottla.records.control import ControlType, control_type_of
from ottla.values import NamedTuple
from ottla.wire.stored.log_files import AbortedTxn


class MarkerFate(NamedTuple):
    """What becomes of a control batch."""

    can_go: bool
    """Whether nothing in the log needs it anymore."""
    entry: AbortedTxn | None = None
    """What the transaction index must go on telling about it."""


class CleanedTransactions:
    """Follows the batches of one pass, in the order of their offsets."""

    __slots__ = ("_aborted", "_awaited", "_with_data")

    def __init__(self) -> None:
        self._awaited: list[tuple[int, int, AbortedTxn]] = []
        """Aborted transactions that begin further on: a heap, by their first offset."""
        self._aborted: dict[int, AbortedTxn] = {}
        """The transaction of each producer that turned out to be aborted, until its marker."""
        self._with_data: set[int] = set()
        """Producers with batches since their last marker."""

    def expect(self, entries: Iterable[AbortedTxn]) -> None:
        """Take in aborted transactions of the segments to come; known ones may be among them."""
        for entry in entries:
            heappush(self._awaited, (entry.first_offset, entry.last_offset, entry))

    def is_aborted(self, batch: Batch) -> bool:
        """Whether a data batch belongs to an aborted transaction."""
        self._begin_up_to(batch.last_offset)
        if not batch.is_transactional:
            return False
        self._with_data.add(batch.producer_id)
        return batch.producer_id in self._aborted

    def fate_of(self, batch: Batch) -> MarkerFate:
        """What becomes of a control batch.

        Raises:
            BatchError: Its record is broken.
        """
        self._begin_up_to(batch.last_offset)
        if batch.record_count == 0:
            return MarkerFate(can_go=True)
        _, _, key, _, _ = next(batch.records())
        if control_type_of(key) not in (ControlType.ABORT, ControlType.COMMIT):
            return MarkerFate(can_go=False)
        entry = self._aborted.pop(batch.producer_id, None)
        if batch.producer_id not in self._with_data:
            return MarkerFate(can_go=True)
        self._with_data.remove(batch.producer_id)
        return MarkerFate(can_go=False, entry=entry)

    def _begin_up_to(self, offset: int) -> None:
        awaited = self._awaited
        while awaited and awaited[0][0] <= offset:
            entry = heappop(awaited)[2]
            self._aborted.setdefault(entry.producer_id, entry)
