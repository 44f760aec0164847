"""What one transaction copies: records into the same partitions, and how far that is.

Key, value, headers and timestamp are handed on as they are, nulls too, in the order of each
partition.  `RecordTransfer` does it record by record; `arrow_transfer` does the same with columns.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any, Final, Protocol, TypeVar

from ottla.client.consumer.consumer import Consumer
from ottla.client.producer.producer import Producer
from ottla.client.records import Batch, Span
from ottla.client.results import RecordMetadata
from ottla.mirror.journal import Copy, Entry, Journal, checkpoint_entry
from ottla.mirror.offset_map import Checkpoint, Run, runs_of
from ottla.model import TopicPartition

MAX_RECORDS: Final = 50_000
MAX_BYTES: Final = 64 * 1024 * 1024
"""A transaction is over when it has one or the other, even if there is more to copy."""
LONGEST_S: Final = 20.0
"""And after so long, however much comes: one that is open for a minute is aborted
(transaction.timeout.ms), and its producer is fenced."""
SHORT_POLL_S: Final = 0.02
"""How long to wait for more where nothing new is waited for."""

Lot = TypeVar("Lot")


class Transfer(Protocol[Lot]):
    """One transaction's worth of records, in whatever form they come."""

    ledger: "Ledger"

    def __init__(self, producer: Producer[Any, Any], ledger: "Ledger") -> None: ...

    @staticmethod
    def poll(consumer: Consumer[Any, Any], timeout_s: float, max_records: int) -> Lot | None:
        """What there is to copy; None if nothing comes in time."""

    def send(self, lot: Lot) -> None:
        """Send what `poll` returned."""

    def runs(self, tp: TopicPartition) -> tuple[Run, ...]:
        """Where the records of a partition went; waits until they are there."""


class Ledger:
    """How far each partition comes by a transaction."""

    def __init__(self, copies: Mapping[str, Copy], journal: Journal) -> None:
        self._copies = copies
        self._journal = journal
        self._next_offsets: dict[TopicPartition, int] = {}
        self.counts: dict[str, int] = {}
        """Topic -> how many of its records are on their way."""
        self.record_count = 0
        self.size_bytes = 0

    @property
    def is_full(self) -> bool:
        return not self.room or self.size_bytes >= MAX_BYTES

    @property
    def room(self) -> int:
        """How many more records it takes."""
        return max(0, MAX_RECORDS - self.record_count)

    def target_of(self, topic: str) -> str:
        """What the copy of a topic is called."""
        return self._copies[topic].target

    def cover(self, spans: Mapping[TopicPartition, Span]) -> None:
        """Note what is about to be sent; it begins where the last ended."""
        for tp, span in spans.items():
            expected = self._next_offsets.get(tp)
            if expected is None:
                expected = self._last(tp).next_offset
            assert span.start_offset == expected, f"{tp}: {span.start_offset}, not {expected}"
            self._next_offsets[tp] = span.next_offset

    def count(self, topic: str, record_count: int, size_bytes: int) -> None:
        """Note what was sent."""
        self.counts[topic] = self.counts.get(topic, 0) + record_count
        self.record_count += record_count
        self.size_bytes += size_bytes

    def entries(self, transfer: Transfer[Any]) -> list[Entry]:
        """What is to be written down of it; waits until all records have their places.

        Raises:
            DeliveryError: One of them was not delivered.
        """
        found = []
        for tp, next_offset in self._next_offsets.items():
            last = self._last(tp)
            checkpoint = Checkpoint(
                number=last.number + 1,
                next_offset=next_offset,
                runs=transfer.runs(tp),
                lost_count=last.lost_count,
            )
            partition = self._copies[tp.topic].partition(tp.partition)
            found.append(checkpoint_entry(partition, checkpoint))
        return found

    def _last(self, tp: TopicPartition) -> Checkpoint:
        last = self._journal.offsets(self._copies[tp.topic].partition(tp.partition)).last
        assert last is not None, f"{tp} is copied without having been begun"
        return last


def more_lots(
    poll: Callable[[float, int], Lot | None],
    ledger: Ledger,
    interval_s: float | None,
    now_s: Callable[[], float] = time.monotonic,
) -> Iterator[Lot]:
    """What else goes into a transaction that has just begun.

    `poll` takes how long it may wait, and for how many records.  `interval_s` is how long to wait
    for more; None: what is there already shall be copied, and nothing is waited for.
    """
    begun_s = now_s()
    while not ledger.is_full:
        open_s = now_s() - begun_s
        if open_s > LONGEST_S:
            return
        wait_s = SHORT_POLL_S if interval_s is None else max(0.0, interval_s - open_s)
        lot = poll(wait_s, ledger.room)
        if lot is None:
            return
        yield lot


class _Sent:
    """What was sent of one partition."""

    __slots__ = ("futures", "source_offsets")

    def __init__(self) -> None:
        self.source_offsets: list[int] = []
        self.futures: list[Future[RecordMetadata]] = []


class RecordTransfer:
    """Record by record: needs nothing that is not always there."""

    def __init__(self, producer: Producer[Any, Any], ledger: Ledger) -> None:
        """`producer` has a transaction open."""
        self.ledger = ledger
        self._producer = producer
        self._sent: dict[TopicPartition, _Sent] = {}

    @staticmethod
    def poll(
        consumer: Consumer[Any, Any], timeout_s: float, max_records: int
    ) -> Batch[Any, Any] | None:
        """See `Transfer`."""
        batch = consumer.poll(timeout_s, max_records=max_records)
        return batch if batch.spans else None

    def send(self, lot: Batch[Any, Any]) -> None:
        """See `Transfer`."""
        self.ledger.cover(lot.spans)
        send = self._producer.send
        for tp, records in lot.partitions.items():
            target = self.ledger.target_of(tp.topic)
            sent = self._sent.setdefault(tp, _Sent())
            size_bytes = 0
            for record in records:
                future = send(
                    target,
                    record.value,
                    key=record.key,
                    partition=tp.partition,
                    headers=record.headers,
                    # One of long ago may have none, and gets that of its copy.
                    timestamp=record.timestamp_ms if record.timestamp_ms >= 0 else None,
                )
                sent.source_offsets.append(record.offset)
                sent.futures.append(future)
                size_bytes += len(record.key or b"") + len(record.value or b"")
            self.ledger.count(tp.topic, len(records), size_bytes)

    def runs(self, tp: TopicPartition) -> tuple[Run, ...]:
        """See `Transfer`."""
        sent = self._sent.get(tp)
        if sent is None:
            return ()
        first, last = sent.futures[0].result().offset, sent.futures[-1].result().offset
        if first < 0 or last < 0:
            return ()  # an answer got lost, and the broker no longer knows where they are
        if last - first == len(sent.futures) - 1:
            return runs_of(zip(sent.source_offsets, range(first, last + 1), strict=True))
        return runs_of(_each(sent))


def _each(sent: _Sent) -> Iterable[tuple[int, int]]:
    """Somebody else writes there, too: ask for each record."""
    for source_offset, future in zip(sent.source_offsets, sent.futures, strict=True):
        if (target_offset := future.result().offset) >= 0:
            yield source_offset, target_offset
