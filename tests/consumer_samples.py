"""Small values for tests of the consumer: batches of the log, chunks, settings."""

from collections.abc import Iterable
from typing import Any

from ottla.client.consumer.chunks import Chunk
from ottla.client.consumer.config import ConsumerConfig
from ottla.client.headers import NO_HEADERS
from ottla.client.records import Record
from ottla.model import TopicPartition
from ottla.records.batch import Batch, TimestampType
from ottla.records.builder import BatchOptions, build
from ottla.records.control import Marker, build_marker

TP = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)


def settings(**options: Any) -> ConsumerConfig:
    return ConsumerConfig.of("localhost:9092", **options)


def record_at(
    tp: TopicPartition,
    offset: int,
    value: bytes | None = b"",
    timestamp_ms: int = 0,
    *,
    leader_epoch: int = 0,
) -> Record[Any, Any]:
    """A record without key and headers."""
    return Record(
        *tp,
        offset,
        key=None,
        value=value,
        headers=NO_HEADERS,
        timestamp_ms=timestamp_ms,
        timestamp_type=TimestampType.CREATE_TIME,
        leader_epoch=leader_epoch,
    )


def plain_batch(base_offset: int, count: int, *, epoch: int = 0) -> Batch:
    """A batch of `count` records at `base_offset`, with values v<offset>."""
    options = BatchOptions(base_offset=base_offset, partition_leader_epoch=epoch)
    rows = [(1_000, None, b"v%d" % (base_offset + n), ()) for n in range(count)]
    return Batch.parse(build(rows, options))


def transactional_batch(base_offset: int, count: int, producer_id: int) -> Batch:
    options = BatchOptions(
        base_offset=base_offset,
        partition_leader_epoch=0,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    rows = [(1_000, None, b"v%d" % (base_offset + n), ()) for n in range(count)]
    return Batch.parse(build(rows, options))


def marker(offset: int, producer_id: int, *, is_commit: bool) -> Batch:
    said = Marker(
        is_commit=is_commit,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp_ms=1_000,
    )
    return Batch.parse(build_marker(said, base_offset=offset, partition_leader_epoch=0))


def chunk(
    position: int,
    batches: Iterable[Batch],
    *,
    aborted: list[tuple[int, int]] | None = None,
    tp: TopicPartition = TP,
) -> Chunk:
    return Chunk(tp, position, list(batches), aborted=aborted, checks_crcs=True)


def offsets_in(part: Any) -> list[int]:
    return [] if part is None else [record.offset for record in part]
