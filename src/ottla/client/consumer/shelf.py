"""Between two threads: what was fetched and not yet read, of all assigned partitions.

The I/O thread puts chunks on the shelf, the caller takes records off it, each under the lock and
for a moment only: decoding happens outside it.  Partitions take turns, so that one with much to
tell does not keep the others waiting.
"""

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ottla.client.consumer.chunks import Chunk, Part, Trouble
from ottla.client.consumer.partition import Need, Partition
from ottla.client.records import NO_EPOCH, OffsetAndMetadata, Record, Span
from ottla.errors import BatchError, MisuseError, OttlaError, PositionError
from ottla.model import TopicPartition


class Taken(NamedTuple):
    """What a poll gets."""

    records: list[Record[Any, Any]]
    spans: dict[TopicPartition, Span]


class TakenBatches(NamedTuple):
    """What an Arrow poll gets: parts of batches, by partition."""

    parts: list[tuple[TopicPartition, list[Part]]]
    spans: dict[TopicPartition, Span]


class Shelf:
    """Every assigned partition, and whose turn it is."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._partitions: dict[TopicPartition, Partition] = {}
        self._turns: deque[Partition] = deque()
        self.has_room = False
        """There is room again, or a trouble is out of the way: worth telling the I/O thread."""
        self._was_full = False
        self._served: Partition | None = None
        """Of which records are taken now."""

    # Who is assigned.

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Have exactly these; those that stay go on as they were."""
        with self.lock:
            wanted = dict.fromkeys(partitions)
            self._partitions = {tp: self._partitions.get(tp) or Partition(tp) for tp in wanted}
            self._turns = deque(p for p in self._turns if p.tp in wanted)

    @property
    def assigned(self) -> frozenset[TopicPartition]:
        return frozenset(self._partitions)

    def __iter__(self) -> Iterator[Partition]:
        """All partitions; a copy, so that they may change meanwhile."""
        return iter(list(self._partitions.values()))

    def find(self, tp: TopicPartition) -> Partition | None:
        return self._partitions.get(tp)

    def require(self, tp: TopicPartition) -> Partition:
        """The partition; `MisuseError` if it is not assigned."""
        if (found := self._partitions.get(tp)) is None:
            raise MisuseError(f"{tp} is not assigned to this consumer")
        return found

    @property
    def queued_bytes(self) -> int:
        """What waits for the caller; what he paused he does not come for, and others go on."""
        return sum(p.queued_bytes for p in self._partitions.values() if not p.is_paused)

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Where the caller is, in partitions where that is known."""
        with self.lock:
            return {
                tp: place
                for tp, partition in self._partitions.items()
                if (place := partition.place) is not None
            }

    def passed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What needs no commit any more; forgotten with the partition that is given up."""
        with self.lock:
            return {
                tp: partition.passed
                for tp, partition in self._partitions.items()
                if partition.passed is not None
            }

    def note_passed(self, places: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """These need no commit any more."""
        with self.lock:
            for tp, place in places.items():
                if (partition := self._partitions.get(tp)) is not None:
                    partition.passed = place

    def largest_lag(self) -> int:
        """How far the caller is behind, where he is most, as far as the last answers told."""
        with self.lock:
            lags = [
                partition.end_offset - partition.position
                for partition in self._partitions.values()
                if partition.end_offset is not None and partition.position is not None
            ]
        return max(lags, default=0)

    # From the I/O thread.

    def look_for_room(self, max_chunks: int, max_bytes: int) -> bool:
        """Whether all together are below `max_bytes`; called before asking for more.

        If that, or `max_chunks`, keeps anything from being asked for, `has_room` will tell when it
        does not any more.  Otherwise nobody waits to be told.
        """
        queued_bytes, is_full = 0, False
        with self.lock:
            # One plain loop: this is asked for each answer, and there may be many partitions.
            for partition in self._partitions.values():
                if not partition.is_paused:
                    queued_bytes += partition.queued_bytes
                if len(partition.chunks) >= max_chunks:
                    is_full = True
            is_below = queued_bytes < max_bytes
            self._was_full = is_full or not is_below
        return is_below

    def put(self, partition: Partition, number: int, chunk: Chunk, epoch: int) -> bool:
        """Queue what was fetched; False if nobody waits for it any more."""
        with self.lock:
            if not self._is_current(partition, number, chunk.position):
                return False
            partition.queue(chunk, epoch)
            self._give_turn(partition)
            return True

    def put_trouble(self, partition: Partition, number: int, offset: int, trouble: Trouble) -> bool:
        """Queue the reason why nothing can be fetched at `offset`; as `put`."""
        with self.lock:
            if not self._is_current(partition, number, offset):
                return False
            partition.trouble = trouble
            self._give_turn(partition)
            return True

    def refuse(self, partition: Partition, error: OttlaError) -> None:
        """Nobody can tell where to read: raise that when the caller comes here."""
        with self.lock:
            if self._partitions.get(partition.tp) is partition and partition.trouble is None:
                partition.trouble = Trouble(error)
                self._give_turn(partition)

    # From the caller.

    @property
    def has_something(self) -> bool:
        with self.lock:
            for partition in self._turns:
                if not partition.is_paused and (partition.chunks or partition.trouble):
                    return True
        return False

    def take(self, max_records: int) -> Taken:
        """Up to `max_records` records of partitions in turn.

        Raises:
            OttlaError: What stands in place of records; records that came before it are given
                out first.
        """
        taken = Taken([], {})
        try:
            self._take(taken, max_records)
        except BaseException as error:
            self._undo(taken.spans, error)
            raise
        return taken

    def _take(self, taken: Taken, max_records: int) -> None:
        records = taken.records
        for partition in self._round():
            if not self._serve(partition):
                continue
            while len(records) < max_records:
                if (chunk := self._front(partition, records)) is None:
                    break
                try:
                    more = chunk.take(max_records - len(records))
                except BatchError:
                    if not records:
                        raise
                    return  # it will be raised when it comes first
                if more is not None:
                    records += more
                    self._advance(partition, chunk, more[-1].leader_epoch, taken.spans)
                else:
                    self._advance(partition, chunk, _epoch_of(partition), None)
            if len(records) == max_records:
                break

    def take_batches(self, max_records: int) -> TakenBatches:
        """As `take`, without making an object of each record."""
        taken = TakenBatches([], {})
        try:
            self._take_batches(taken, max_records)
        except BaseException as error:
            self._undo(taken.spans, error)
            raise
        return taken

    def _take_batches(self, taken: TakenBatches, max_records: int) -> None:
        left = max_records
        for partition in self._round():
            if not self._serve(partition):
                continue
            mine: list[Part] = []
            while left > 0 and (chunk := self._front(partition, taken.parts or mine)) is not None:
                parts: list[Part] = []
                try:
                    parts.extend(chunk.take_batches(left))
                except BatchError:
                    if not (taken.parts or mine or parts):
                        raise
                    left = 0  # it will be raised when it comes first
                # A bound, not a count: where compaction left holes, a poll gets a little less.
                left -= sum(part.batch.record_count for part in parts)
                epoch = parts[-1].batch.partition_leader_epoch if parts else NO_EPOCH
                mine += parts
                self._advance(partition, chunk, epoch, taken.spans if parts else None)
            if mine:
                taken.parts.append((partition.tp, mine))
            if left <= 0:
                break

    def give_back(self, spans: Mapping[TopicPartition, Span]) -> None:
        """Nobody has seen what was taken: whoever asks next finds it where it was."""
        with self.lock:
            for tp, span in spans.items():
                if (partition := self._partitions.get(tp)) is not None:
                    partition.seek(span.start_offset)

    def _undo(self, spans: Mapping[TopicPartition, Span], error: BaseException) -> None:
        """Nobody will see what was taken before an interrupt: let it be found again."""
        if isinstance(error, OttlaError):
            return  # it stands where there is nothing to take
        with self.lock:
            served = self._served
            if served is not None and served.tp not in spans and served.need is Need.NOTHING:
                served.seek(served.told_offset)
            self.give_back(spans)
            for partition in self._partitions.values():
                if partition.chunks or partition.trouble:
                    self._give_turn(partition)  # it may have been between two places

    def _round(self) -> list[Partition]:
        """All whose turn may come, in their order."""
        # No generator: one that is given up swallows an interrupt that comes right then.
        with self.lock:
            self._served = None
            return list(self._turns)

    def _serve(self, partition: Partition) -> bool:
        """Whether a partition has something; then it has its turn, and goes to the end."""
        with self.lock:
            if not partition.has_something:
                if not (partition.chunks or partition.trouble):
                    self._drop_turn(partition)
                return False
            self._served = partition
            self._drop_turn(partition)
            self._turns.append(partition)
            return True

    def _front(self, partition: Partition, so_far: object) -> Chunk | None:
        """The chunk to read next; raises the trouble that has come to the front."""
        with self.lock:
            if partition.chunks:
                return partition.chunks[0]
            if partition.trouble is None or so_far:
                return None
            trouble = partition.trouble
            self.has_room = True
            if trouble.error is not None:
                partition.trouble = None
                if isinstance(trouble.error, PositionError):
                    partition.ask(Need.RESET)
                raise trouble.error
            if trouble.offset is None:
                partition.ask(Need.RESET)
            else:
                partition.seek(trouble.offset)
            return None

    def _advance(
        self,
        partition: Partition,
        chunk: Chunk,
        epoch: int,
        spans: dict[TopicPartition, Span] | None,
    ) -> None:
        with self.lock:
            partition.reach(chunk.position, epoch)
            if chunk.is_done:
                self.has_room = self.has_room or self._was_full
                partition.chunks.popleft()
                partition.queued_bytes -= chunk.size_bytes
            if spans is not None:
                start = partition.told_offset
                if (known := spans.get(partition.tp)) is not None:
                    start = known.start_offset
                spans[partition.tp] = Span(start, chunk.position, epoch)
                partition.told_offset = chunk.position

    def _is_current(self, partition: Partition, number: int, offset: int) -> bool:
        return (
            self._partitions.get(partition.tp) is partition
            and partition.number == number
            and partition.need is Need.NOTHING
            and partition.fetch_offset == offset
            and partition.trouble is None
        )

    def _give_turn(self, partition: Partition) -> None:
        if partition not in self._turns:
            self._turns.append(partition)

    def _drop_turn(self, partition: Partition) -> None:
        if partition in self._turns:
            self._turns.remove(partition)


def _epoch_of(partition: Partition) -> int:
    return NO_EPOCH if partition.place is None else partition.place.leader_epoch


def rewound(spans: Mapping[TopicPartition, Span]) -> dict[TopicPartition, OffsetAndMetadata]:
    """Where a batch with these spans began."""
    return {tp: OffsetAndMetadata(s.start_offset, "", NO_EPOCH) for tp, s in spans.items()}
