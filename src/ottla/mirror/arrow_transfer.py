"""What one transaction copies, as Arrow columns: no Python object is made for a record.

It is taken where pyarrow is installed, and does what `transfer.RecordTransfer` does, many times as
fast.
"""

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final

from ottla.client.arrow_offsets import spans_of_arrow
from ottla.client.consumer.consumer import Consumer
from ottla.client.producer.producer import Producer
from ottla.errors import ErrorCode, UnknownTopicError
from ottla.mirror.offset_map import Run, runs_of, thinned
from ottla.mirror.transfer import Ledger
from ottla.model import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

PIECE_BYTES: Final = 768 * 1024
"""What becomes one batch, at most: brokers take a mebibyte unless they are told otherwise."""


class ArrowTransfer:
    """One transaction's worth of records, as tables."""

    def __init__(self, producer: Producer[Any, Any], ledger: Ledger) -> None:
        """`producer` has a transaction open."""
        self.ledger = ledger
        self._producer = producer
        self._known: dict[str, list[int]] = {}
        self._sent: dict[TopicPartition, list[tuple[Any, Future[Mapping[int, range]]]]] = {}

    @staticmethod
    def poll(
        consumer: Consumer[Any, Any], timeout_s: float, max_records: int
    ) -> "pa.RecordBatch | None":
        """See `Transfer`."""
        return consumer.poll_arrow(timeout_s, max_records=max_records)

    def send(self, lot: "pa.RecordBatch") -> None:
        """See `Transfer`."""
        spans = spans_of_arrow(lot)
        assert spans is not None, "what poll_arrow returns says where it is from"
        self.ledger.cover(spans)
        for tp, rows in by_partition(lot):
            target = self.ledger.target_of(tp.topic)
            self._check_known(target, tp.partition)
            for piece in pieces(rows):
                future = self._producer.send_arrow(target, piece, partition="partition")
                self._sent.setdefault(tp, []).append((piece.column("offset"), future))
                self.ledger.count(tp.topic, piece.num_rows, piece.nbytes)

    def _check_known(self, target: str, partition: int) -> None:
        """Brokers may need a moment to tell each other of a new partition."""
        if target not in self._known:
            self._known[target] = self._producer.partitions_for(target)
        if partition not in self._known[target]:
            raise UnknownTopicError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"partition {partition} of topic {target!r} is not known yet",
            )

    def runs(self, tp: TopicPartition) -> tuple[Run, ...]:
        """See `Transfer`."""
        runs: list[Run] = []
        for offsets, future in self._sent.get(tp, ()):
            places = future.result().get(tp.partition)
            if places is None or len(places) != len(offsets):
                continue  # somebody else writes there, too: what is not known is not claimed
            first, last = offsets[0].as_py(), offsets[-1].as_py()
            if last - first == len(offsets) - 1:
                join(runs, [Run(first, places[0], len(offsets))])
            else:
                join(runs, runs_of(zip(offsets.to_pylist(), places, strict=True)))
        return tuple(thinned(runs))


def join(runs: list[Run], others: Iterable[Run]) -> None:
    """Append to `runs`; two that lie side by side in both logs become one."""
    for source, target, length in others:
        last = runs[-1] if runs else Run(-1, -1, 0)
        if (last.source_offset + last.length, last.target_offset + last.length) == (source, target):
            runs[-1] = Run(last.source_offset, last.target_offset, last.length + length)
        else:
            runs.append(Run(source, target, length))


def by_partition(rows: "pa.RecordBatch") -> Iterator[tuple[TopicPartition, "pa.RecordBatch"]]:
    """The rows of each partition, which lie side by side."""
    from pyarrow import compute

    if not rows.num_rows:
        return
    ends = compute.run_end_encode(rows.column("partition")).run_ends.to_pylist()
    topic_ends = compute.run_end_encode(rows.column("topic")).run_ends.to_pylist()
    start = 0
    for end in sorted({*ends, *topic_ends}):
        tp = TopicPartition(
            rows.column("topic")[start].as_py(), rows.column("partition")[start].as_py()
        )
        yield tp, rows.slice(start, end - start)
        start = end


def pieces(rows: "pa.RecordBatch") -> Iterator["pa.RecordBatch"]:
    """Slices that become a batch each; a record that is larger has one of its own."""
    if rows.num_rows <= 1 or rows.nbytes <= PIECE_BYTES:
        yield rows
        return
    half = rows.num_rows // 2
    yield from pieces(rows.slice(0, half))
    yield from pieces(rows.slice(half))
