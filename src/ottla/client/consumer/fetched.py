"""What one partition's part of an answer to Fetch shows: for who asks for himself.

Consumers take what they fetch by and by; who reads a little, and all of it, is served here, by the
same rules (`chunks`): no markers, and nothing that was aborted.
"""

from collections.abc import Sequence
from typing import Any

from ottla.client.consumer.chunks import Chunk
from ottla.client.records import Record
from ottla.model import TopicPartition
from ottla.records.batch import batches
from ottla.values import dataclass
from ottla.wire.messages.fetch import PartitionData


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What one partition gave."""

    tp: TopicPartition
    from_offset: int
    next_offset: int
    """Where to go on: it moves over what is not shown, too."""
    end_offset: int
    """The end for this reader: the high watermark, or the last stable offset."""
    shown: Sequence[Record[Any, Any]]

    def records(self) -> Sequence[Record[Any, Any]]:
        """Every record from the offset that was asked for."""
        return self.shown


def fetched_of(
    tp: TopicPartition, from_offset: int, data: PartitionData, *, read_committed: bool
) -> Fetched:
    """What a partition's part of an answer shows; `BatchError` if it was damaged on its way."""
    whole = list(batches(data.records or b"", partial_tail=True))
    end_offset = data.last_stable_offset if read_committed else data.high_watermark
    aborted = [(entry.first_offset, entry.producer_id) for entry in data.aborted_transactions or ()]
    records: list[Record[Any, Any]] = []
    next_offset = from_offset
    if whole:
        chunk = Chunk(
            tp, from_offset, whole, aborted=aborted if read_committed else None, checks_crcs=True
        )
        next_offset = chunk.next_offset
        while (more := chunk.take(sum(batch.record_count for batch in whole))) is not None:
            records += more
    return Fetched(
        tp=tp,
        from_offset=from_offset,
        next_offset=next_offset,
        end_offset=end_offset,
        shown=records,
    )
