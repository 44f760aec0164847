"""Fetching: batches of some partitions, from given offsets on.

`fetch` is one round: one request to each leader, one answer from each, what transactions aborted
left out if wanted.  It keeps no positions: the caller gives them, and gets new ones back.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.client.basic.client import BasicClient
from ottla.errors import raise_for_code
from ottla.model import TopicPartition
from ottla.records.batch import Batch, TimestampType, batches
from ottla.records.control import read_marker
from ottla.records.shapes import DecodedHeaders
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

MAX_BYTES: Final = 50 * 1024 * 1024
PARTITION_MAX_BYTES: Final = 1024 * 1024
_NEWEST_WITH_NAMES: Final = 12
"""Later versions of Fetch name topics by their ids only."""


class Record(NamedTuple):
    """A record and where it was."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    headers: DecodedHeaders


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What one partition gave."""

    partition: TopicPartition
    from_offset: int
    next_offset: int
    """Where to go on: it moves over what is not shown, too."""
    end_offset: int
    """The end for this reader: the high watermark, or the last stable offset."""
    batches: Sequence[Batch]

    def records(self) -> Iterator[Record]:
        """Every record from the offset that was asked for."""
        topic, index = self.partition
        for batch in self.batches:
            kind = batch.timestamp_type
            for offset, timestamp_ms, key, value, headers in batch.record_list():
                if offset >= self.from_offset:
                    yield Record(topic, index, offset, timestamp_ms, kind, key, value, headers)


def fetch(
    client: BasicClient,
    positions: Mapping[TopicPartition, int],
    leaders: Mapping[TopicPartition, int],
    *,
    max_wait_ms: int = 500,
    read_committed: bool = False,
    partition_max_bytes: int = PARTITION_MAX_BYTES,
) -> list[Fetched]:
    """What there is at `positions`; where there is nothing, wait up to `max_wait_ms` for it.

    Raises:
        PositionError: An offset lies outside its partition.
    """
    by_leader: dict[int, dict[str, list[FetchPartition]]] = {}
    for key, offset in positions.items():
        wanted = FetchPartition(
            partition=key.partition, fetch_offset=offset, partition_max_bytes=partition_max_bytes
        )
        by_leader.setdefault(leaders[key], {}).setdefault(key.topic, []).append(wanted)
    questions = [
        (
            leader_id,
            FetchRequest(
                max_wait_ms=max_wait_ms,
                min_bytes=1,
                max_bytes=MAX_BYTES,
                isolation_level=int(read_committed),
                topics=tuple(
                    FetchTopic(topic=topic, partitions=tuple(partitions))
                    for topic, partitions in topics.items()
                ),
            ),
        )
        for leader_id, topics in by_leader.items()
    ]
    answers: list[FetchResponse] = client.ask_each(questions, max_version=_NEWEST_WITH_NAMES)
    found = []
    for answer in answers:
        raise_for_code(answer.error_code, "fetch")
        for topic in answer.responses:
            for data in topic.partitions:
                key = TopicPartition(topic.topic, data.partition_index)
                raise_for_code(data.error_code, f"partition {key} at offset {positions[key]}")
                found.append(fetched_of(key, positions[key], data, read_committed))
    return found


def fetched_of(
    key: TopicPartition, from_offset: int, data: PartitionData, read_committed: bool
) -> Fetched:
    """What a partition's part of an answer shows; `BatchError` if it was damaged on its way."""
    whole = list(batches(data.records or b"", partial_tail=True))
    for batch in whole:
        batch.check_crc()
    aborted = {(entry.producer_id, entry.first_offset) for entry in data.aborted_transactions or ()}
    shown = list(_committed(whole, aborted) if read_committed else _without_control(whole))
    return Fetched(
        partition=key,
        from_offset=from_offset,
        next_offset=max(from_offset, whole[-1].next_offset) if whole else from_offset,
        end_offset=data.last_stable_offset if read_committed else data.high_watermark,
        batches=shown,
    )


def _without_control(whole: Sequence[Batch]) -> Iterator[Batch]:
    return (batch for batch in whole if not batch.is_control)


def _committed(whole: Sequence[Batch], aborted: set[tuple[int, int]]) -> Iterator[Batch]:
    """Leave out the batches of aborted transactions, each from its first offset to its marker."""
    left = sorted(aborted, key=lambda entry: entry[1])
    open_producers: set[int] = set()
    for batch in whole:
        while left and left[0][1] <= batch.last_offset:
            open_producers.add(left.pop(0)[0])
        if batch.is_control:
            marker = read_marker(batch)
            if marker is not None and not marker.is_commit:
                open_producers.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in open_producers):
            yield batch
