"""ListOffsets (key 2): the offset of a time, or of one end of the log."""

from collections.abc import Awaitable
from enum import IntEnum
from itertools import islice
from typing import Final

from ottla.broker.cold_reads import aside
from ottla.broker.context import Context
from ottla.broker.partition import Partition
from ottla.errors import BatchError, ErrorCode, StorageError
from ottla.ports import ColdReadError
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

READ_COMMITTED: Final = 1
_FIRST_VERSION_WITH_EPOCH: Final = 4
_NO_EPOCH: Final = -1


class SpecialTime(IntEnum):
    """Timestamps that are questions."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


def list_offsets(
    request: ListOffsetsRequest, context: Context
) -> ListOffsetsResponse | Awaitable[ListOffsetsResponse]:
    """Look up each partition's offset; what is not in memory is waited for."""
    disk, lookup = context.node.ports.disk, Lookup(request, context)
    try:
        return disk.at_once(lookup.go_on)
    except ColdReadError as cold:
        return aside(disk, lookup.go_on, cold)


class Lookup:
    """One request while it is served: what is asked, and the answers so far."""

    def __init__(self, request: ListOffsetsRequest, context: Context) -> None:
        self._context = context
        self._topics = request.topics
        self._committed_only = request.isolation_level == READ_COMMITTED
        self._asked = [(topic.name, one) for topic in request.topics for one in topic.partitions]
        self._found: list[ListOffsetsPartitionResponse] = []

    def go_on(self) -> ListOffsetsResponse:
        """Look up what was not looked up yet: what is not in memory breaks it off."""
        for topic, asked in self._asked[len(self._found) :]:
            self._found.append(_look_up(topic, asked, self._committed_only, self._context))
        answers = iter(self._found)
        return ListOffsetsResponse(
            topics=tuple(
                ListOffsetsTopicResponse(
                    name=topic.name, partitions=tuple(islice(answers, len(topic.partitions)))
                )
                for topic in self._topics
            )
        )


def _look_up(
    topic: str, asked: ListOffsetsPartition, committed_only: bool, context: Context
) -> ListOffsetsPartitionResponse:
    found = context.node.partitions.find(topic, asked.partition_index)
    if isinstance(found, ErrorCode):
        return _failed(asked, found)
    if error := found.epoch_error(asked.current_leader_epoch):
        return _failed(asked, error)
    try:
        answer = _offset_of(asked.timestamp, found, committed_only)
    except (OSError, StorageError):
        return _failed(asked, ErrorCode.KAFKA_STORAGE_ERROR)
    except BatchError as refused:
        return _failed(asked, refused.code)
    if isinstance(answer, ErrorCode):
        return _failed(asked, answer)
    offset, timestamp_ms, epoch = answer
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        timestamp=timestamp_ms,
        offset=offset,
        leader_epoch=epoch if context.version >= _FIRST_VERSION_WITH_EPOCH else _NO_EPOCH,
    )


def _offset_of(
    timestamp_ms: int, partition: Partition, committed_only: bool
) -> tuple[int, int, int] | ErrorCode:
    """Offset, timestamp and leader epoch; offset -1 where nothing is that late."""
    end = partition.last_stable_offset if committed_only else partition.high_watermark
    match timestamp_ms:
        case SpecialTime.LATEST:
            return end, -1, partition.leader_epoch
        case SpecialTime.EARLIEST | SpecialTime.EARLIEST_LOCAL:
            start = partition.log.start_offset
            return start, -1, partition.log.epoch_for(start)
        case SpecialTime.LATEST_TIERED | SpecialTime.EARLIEST_PENDING_UPLOAD:
            return -1, -1, _NO_EPOCH
        case SpecialTime.MAX_TIMESTAMP:
            found = partition.max_timestamp()
        case _ if timestamp_ms < 0:
            return ErrorCode.UNSUPPORTED_VERSION
        case _:
            found = partition.offset_for_time(timestamp_ms)
    if found is None or found.offset >= end:
        return -1, -1, _NO_EPOCH
    return found.offset, found.timestamp_ms, found.leader_epoch


def _failed(asked: ListOffsetsPartition, error: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=error)
