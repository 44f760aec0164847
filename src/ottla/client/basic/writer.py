"""Producing: records to partitions, partitions to batches, batches to leaders.

Batches of one partition are sent in the order in which they were filled, a few at a time without
waiting for answers.  Nothing is sent twice: an error leaves some batches written and others not,
and the counts say how many records were acknowledged.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Final, NamedTuple

from ottla.client.basic.client import BasicClient
from ottla.client.basic.topics import TopicInfo
from ottla.errors import ErrorCode, RequestError, raise_for_code
from ottla.records.builder import BatchOptions, build, record_size_bound
from ottla.records.compression import Compression
from ottla.records.kernel import kernel
from ottla.records.shapes import BATCH_HEADER_BYTES, Unwritten
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

BATCH_BYTES: Final = 1_000_000
"""Below max.message.bytes as it is by default, 1,048,588."""

MAX_IN_FLIGHT: Final = 5
ALL_REPLICAS: Final = -1
NO_ACKS: Final = 0
_POSITIVE: Final = 0x7FFF_FFFF
_NEWEST_WITH_NAMES: Final = 12
"""Later versions of Produce name topics by their ids only."""


@dataclass(slots=True)
class Written:
    """How far it came."""

    record_count: int = 0
    """Acknowledged, or with acks=0 sent."""
    value_bytes: int = 0
    sent_bytes: int = 0
    unacknowledged_count: int = 0
    """Sent without an answer: they may be written or not."""


class _InFlight(NamedTuple):
    answer: "asyncio.Future[ProduceResponse]"
    partition: int
    record_count: int
    value_bytes: int


@dataclass(slots=True)
class _Filling:
    """The next batch of one partition."""

    records: list[Unwritten] = field(default_factory=list)
    size_bytes: int = BATCH_HEADER_BYTES
    value_bytes: int = 0


class Writer:
    """Writes records to one topic.  `flush` before you look at `written`."""

    def __init__(
        self,
        client: BasicClient,
        topic: TopicInfo,
        *,
        acks: int = ALL_REPLICAS,
        compression: Compression = Compression.NONE,
        batch_bytes: int = BATCH_BYTES,
    ) -> None:
        self._client = client
        self._topic = topic
        self._leaders = {p.index: p.leader_id for p in topic.partitions}
        self._acks = acks
        self._options = BatchOptions(compression=compression)
        self._batch_bytes = batch_bytes
        self._filling: dict[int, _Filling] = {}
        self._in_flight: deque[_InFlight] = deque()
        self._next_keyless = count()
        self.written = Written()

    def add(self, record: Unwritten, partition: int | None = None) -> None:
        """Put a record into the next batch of its partition; send that batch when it is full."""
        if partition is None:
            partition = self._partition_of(record)
        elif partition not in self._leaders:
            raise RequestError(
                ErrorCode.INVALID_PARTITIONS,
                f"topic {self._topic.name!r} has no partition {partition}, "
                f"only 0 to {len(self._leaders) - 1}",
            )
        _, key, value, headers = record
        size_bytes = record_size_bound(key, value, headers)
        filling = self._filling.setdefault(partition, _Filling())
        if filling.records and filling.size_bytes + size_bytes > self._batch_bytes:
            self._send(partition)
            filling = self._filling.setdefault(partition, _Filling())
        filling.records.append(record)
        filling.size_bytes += size_bytes
        filling.value_bytes += len(value or b"") + len(key or b"")

    def add_all(self, records: Iterable[Unwritten]) -> None:
        for record in records:
            self.add(record)

    def flush(self) -> None:
        """Send what is there, and wait until all of it is acknowledged."""
        for partition in sorted(self._filling):
            self._send(partition)
        while self._in_flight:
            self._take_oldest()

    def _partition_of(self, record: Unwritten) -> int:
        """By the hash that Java's producer uses for keys; records without a key take turns."""
        key = record[1]
        partition_count = len(self._leaders)
        if key is not None:
            return (kernel.murmur2(key) & _POSITIVE) % partition_count
        return next(self._next_keyless) % partition_count

    def _send(self, partition: int) -> None:
        filling = self._filling.pop(partition)
        data = build(filling.records, self._options)
        request = ProduceRequest(
            acks=self._acks,
            timeout_ms=self._client.timeout_ms,
            topic_data=(
                TopicProduceData(
                    name=self._topic.name,
                    partition_data=(PartitionProduceData(index=partition, records=data),),
                ),
            ),
        )
        leader_id, record_count = self._leaders[partition], len(filling.records)
        self.written.sent_bytes += len(data)
        if self._acks == NO_ACKS:
            self._client.tell(request, leader_id, max_version=_NEWEST_WITH_NAMES)
            self._count(record_count, filling.value_bytes)
            return
        while len(self._in_flight) >= MAX_IN_FLIGHT:
            self._take_oldest()
        self.written.unacknowledged_count += record_count
        answer = self._client.send(request, leader_id, max_version=_NEWEST_WITH_NAMES)
        self._in_flight.append(_InFlight(answer, partition, record_count, filling.value_bytes))

    def _take_oldest(self) -> None:
        oldest = self._in_flight.popleft()
        where = f"partition {self._topic.name}-{oldest.partition}"
        answer: ProduceResponse = self._client.wait(oldest.answer, f"Produce to {where}")
        self.written.unacknowledged_count -= oldest.record_count
        (topic,) = answer.responses
        (partition,) = topic.partition_responses
        detail = f"{where}: {partition.error_message}" if partition.error_message else where
        raise_for_code(partition.error_code, detail)
        self._count(oldest.record_count, oldest.value_bytes)

    def _count(self, record_count: int, value_bytes: int) -> None:
        self.written.record_count += record_count
        self.written.value_bytes += value_bytes
