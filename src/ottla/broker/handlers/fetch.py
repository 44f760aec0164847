"""Fetch (key 1): read batches, or wait until there are some."""

from collections.abc import Awaitable
from typing import Final

from ottla.broker.cold_reads import aside
from ottla.broker.context import Context
from ottla.broker.fetch_sessions import Fetch, Wanted
from ottla.broker.fetching import PendingFetch
from ottla.broker.partition import Partition
from ottla.errors import ErrorCode, StorageError
from ottla.ports import ColdReadError
from ottla.wire.messages.fetch import (
    AbortedTransaction,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)

READ_COMMITTED: Final = 1
_FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
_FIRST_VERSION_WITH_REPLICA_STATE: Final = 15

_NONE: Final = ErrorCode.NONE
"""To ask an enum for a member costs more than a call, and this is the way of every request."""


def fetch(
    request: FetchRequest, context: Context
) -> FetchResponse | Awaitable[FetchResponse] | PendingFetch:
    """Answer at once if there is enough to say, else when there is or when time is up."""
    node = context.node
    now_ms = node.ports.clock.now_ms()
    opened = node.fetch_sessions.open(request, version=context.version, now_ms=now_ms)
    if opened.error is not _NONE:
        return FetchResponse(error_code=opened.error, responses=())
    job = FetchJob(request, context, opened)
    if request.max_wait_ms <= 0 or not opened.wanted or job.has_enough():
        return job.answer()
    return PendingFetch(
        partitions=job.partitions,
        max_wait_ms=request.max_wait_ms,
        has_enough=job.has_enough,
        answer=job.answer_later,
    )


class FetchJob:
    """One fetch request while it is served: what it wants, resolved to partitions."""

    def __init__(self, request: FetchRequest, context: Context, opened: Fetch) -> None:
        self._context = context
        self._disk = context.node.ports.disk
        self._opened = opened
        self._committed_only = request.isolation_level == READ_COMMITTED
        self._min_bytes = request.min_bytes
        self._max_bytes = min(request.max_bytes, context.node.config.fetch_max_bytes)
        self._is_follower = _replica_id(request, context.version) >= 0
        self._found = [(wanted, self._find(wanted)) for wanted in opened.wanted]
        self._results: list[tuple[Wanted, PartitionData]] = []
        self._remaining_bytes = self._max_bytes
        self.partitions = [found for _, found in self._found if isinstance(found, Partition)]

    def has_enough(self) -> bool:
        """Whether there is an error to tell, or `min_bytes` to read."""
        available = 0
        for wanted, found in self._found:
            if isinstance(found, ErrorCode) or found.is_closed:
                return True
            offset, end = wanted.partition.fetch_offset, self._end_of(found)
            if not found.log.start_offset <= offset <= found.next_offset:
                return True
            if found.epoch_error(wanted.partition.current_leader_epoch):
                return True
            if offset < end:
                wanting = self._min_bytes - available
                available += 1 if wanting <= 1 else self._bytes_from(found, offset, wanting)
                if available >= self._min_bytes:
                    return True
        return available >= self._min_bytes

    def _bytes_from(self, partition: Partition, offset: int, wanting: int) -> int:
        """What there is to read; who is so far behind that it is not in memory has enough.

        So has who meets damage: that is an error, and the read that follows tells it.
        """
        try:
            return self._disk.at_once(lambda: partition.bytes_from(offset, at_least=wanting))
        except (ColdReadError, OSError, StorageError):
            return wanting

    def answer(self) -> FetchResponse | Awaitable[FetchResponse]:
        """Read what there is, partition by partition, within the limits of the request."""
        try:
            return self._disk.at_once(self._read_on)
        except ColdReadError as cold:
            return aside(self._disk, self._find_again_and_read_on, cold)

    def answer_later(self) -> FetchResponse | Awaitable[FetchResponse]:
        """The same after a wait."""
        self._find_again()
        return self.answer()

    def _read_on(self) -> FetchResponse:
        """Read the partitions that were not read yet: one that is not in memory breaks it off."""
        results = self._results
        for wanted, found in self._found[len(results) :]:
            is_first = self._remaining_bytes == self._max_bytes
            data = self._read(wanted, found, self._remaining_bytes, is_first=is_first)
            self._remaining_bytes -= len(data.records or b"")
            results.append((wanted, data))
        return self._opened.response(results)

    def _find_again_and_read_on(self) -> FetchResponse:
        self._find_again()
        return self._read_on()

    def _find_again(self) -> None:
        """There was a wait, in which partitions may have been deleted, and others come."""
        read_count = len(self._results)
        unread = self._opened.wanted[read_count:]
        self._found[read_count:] = [(wanted, self._find(wanted)) for wanted in unread]

    def _find(self, wanted: Wanted) -> Partition | ErrorCode:
        node = self._context.node
        if self._is_follower:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED  # nobody replicates from a single node
        name: str | None = wanted.topic
        if self._context.version >= _FIRST_VERSION_WITH_TOPIC_IDS:
            name = node.controller.image.topic_name(wanted.topic_id)
            if name is None:
                return ErrorCode.UNKNOWN_TOPIC_ID
        return node.partitions.find(name or "", wanted.partition.partition)

    def _end_of(self, partition: Partition) -> int:
        if self._committed_only:
            return partition.last_stable_offset
        return partition.high_watermark

    def _read(
        self, wanted: Wanted, found: Partition | ErrorCode, remaining: int, *, is_first: bool
    ) -> PartitionData:
        index = wanted.partition.partition
        if isinstance(found, ErrorCode):
            return _failed(index, found)
        if error := found.epoch_error(wanted.partition.current_leader_epoch):
            leader = LeaderIdAndEpoch(
                leader_id=self._context.node.config.node_id, leader_epoch=found.leader_epoch
            )
            return _failed(index, error, leader if self._context.version >= 12 else None)
        offset = wanted.partition.fetch_offset
        if not found.log.start_offset <= offset <= found.next_offset:
            return _failed(index, ErrorCode.OFFSET_OUT_OF_RANGE)
        try:
            return self._read_from(found, wanted, remaining, is_first)
        except (OSError, StorageError):
            return _failed(index, ErrorCode.KAFKA_STORAGE_ERROR)

    def _read_from(
        self, partition: Partition, wanted: Wanted, remaining: int, is_first: bool
    ) -> PartitionData:
        limit = min(remaining, wanted.partition.partition_max_bytes)
        records: bytes | memoryview = b""
        aborted: tuple[AbortedTransaction, ...] | None = None
        if limit > 0 or is_first:
            read = partition.read(
                wanted.partition.fetch_offset,
                max(limit, 0),
                committed_only=self._committed_only,
                at_least_one=is_first,
            )
            records = read.data
            if self._committed_only:
                aborted = _aborted_in(partition, wanted.partition.fetch_offset, read.next_offset)
            partition.fetched_bytes += len(records)
        return PartitionData(
            partition_index=partition.index,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset,
            log_start_offset=partition.log.start_offset,
            aborted_transactions=() if self._committed_only and aborted is None else aborted,
            records=records,
        )


def _replica_id(request: FetchRequest, version: int) -> int:
    """Which broker asks; consumers have negative numbers."""
    if version >= _FIRST_VERSION_WITH_REPLICA_STATE:
        return request.replica_state.replica_id
    return request.replica_id


def _aborted_in(
    partition: Partition, from_offset: int, to_offset: int
) -> tuple[AbortedTransaction, ...]:
    return tuple(
        AbortedTransaction(producer_id=entry.producer_id, first_offset=entry.first_offset)
        for entry in partition.log.aborted_transactions(from_offset, to_offset)
    )


def _failed(index: int, error: ErrorCode, leader: LeaderIdAndEpoch | None = None) -> PartitionData:
    return PartitionData(
        partition_index=index,
        error_code=error,
        high_watermark=-1,
        aborted_transactions=None,
        records=b"",
        current_leader=leader or LeaderIdAndEpoch(),
    )
