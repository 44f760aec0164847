"""Offsets in partitions: where they start and end, what was written when, and dropping the oldest.

Everything here is asked of the leaders of the partitions.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, Literal, TypeVar

from ottla.client.admin.calling import Caller, NoLeaderError, Topics
from ottla.client.admin.outcomes import all_or_raise, outcome_of
from ottla.errors import OttlaError, UnknownTopicError
from ottla.model import TopicPartition
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

P = TypeVar("P")

Isolation = Literal["read_committed", "read_uncommitted"]
When = datetime | int | Literal["earliest", "latest", "max_timestamp"]

LATEST: Final = -1
EARLIEST: Final = -2
_MAX_TIMESTAMP: Final = -3
_NONE: Final = -1
_HIGH_WATERMARK: Final = -1
_CONSUMER: Final = -1
_WORDS: Final = {"latest": LATEST, "earliest": EARLIEST, "max_timestamp": _MAX_TIMESTAMP}
_FIRST_WITH_ISOLATION: Final = 2
_FIRST_WITH_MAX_TIMESTAMP: Final = 7


async def list_offsets(
    caller: Caller,
    partitions: Collection[TopicPartition],
    *,
    at: When = "latest",
    isolation_level: Isolation = "read_uncommitted",
    missing_ok: bool = False,
) -> dict[TopicPartition, int | None]:
    """An offset in each of several partitions.

    Args:
        partitions: Where to look.
        at: "earliest", the first record there is; "latest", behind the last one; a time
            (milliseconds since 1970, or a datetime with a zone), the first record that is not
            older;
            "max_timestamp", the record with the largest timestamp.
        isolation_level: With "read_committed", "latest" is where open transactions begin.
        missing_ok: Leave out partitions that do not exist, or that nobody leads now.

    Returns:
        Partition -> offset; None where there is no such record.

    Raises:
        UnknownTopicError: There is no such partition.
        DeadlineError: A partition has no leader, or it did not answer in time.
    """
    found = await offsets_at(
        caller,
        partitions,
        timestamp_ms_of(at),
        is_committed=isolation_level == "read_committed",
        waits_for_leaders=not missing_ok,
    )
    known = all_or_raise(existing(found) if missing_ok else found)
    return {tp: offset if offset != _NONE else None for tp, offset in known.items()}


async def offsets_at(
    caller: Caller,
    partitions: Iterable[TopicPartition],
    timestamp_ms: int,
    *,
    is_committed: bool = False,
    waits_for_leaders: bool = True,
    told: Topics | None = None,
) -> dict[TopicPartition, int | OttlaError]:
    """Partition -> the first offset of a time, or `LATEST` or `EARLIEST`; -1: none is that new."""
    least = _FIRST_WITH_ISOLATION if is_committed else None
    if timestamp_ms == _MAX_TIMESTAMP:
        least = _FIRST_WITH_MAX_TIMESTAMP

    async def ask(
        leader_id: int, asked: Sequence[TopicPartition]
    ) -> dict[TopicPartition, int | OttlaError]:
        request = ListOffsetsRequest(
            replica_id=_CONSUMER,
            isolation_level=int(is_committed),
            topics=tuple(
                ListOffsetsTopic(name=name, partitions=wanted)
                for name, wanted in by_topic(
                    asked,
                    lambda tp: ListOffsetsPartition(
                        partition_index=tp.partition, timestamp=timestamp_ms
                    ),
                ).items()
            ),
            timeout_ms=caller.answer_ms,
        )
        answer = await caller.ask(request, ListOffsetsResponse, to=leader_id, min_version=least)
        found: dict[TopicPartition, int | OttlaError] = {}
        for topic in answer.topics:
            for told in topic.partitions:
                tp = TopicPartition(topic.name, told.partition_index)
                found[tp] = outcome_of(told.error_code, f"partition {tp}", told.offset)
        return found

    return await caller.ask_leaders(
        partitions, ask, what="offsets", waits_for_leaders=waits_for_leaders, told=told
    )


def existing(
    outcomes: Mapping[TopicPartition, P | OttlaError],
) -> dict[TopicPartition, P | OttlaError]:
    """Leave out topics that are gone, and partitions that nobody leads."""
    return {
        tp: outcome
        for tp, outcome in outcomes.items()
        if not isinstance(outcome, (UnknownTopicError, NoLeaderError))
    }


async def delete_records(
    caller: Caller, before: Mapping[TopicPartition, int | Literal["latest"]]
) -> dict[TopicPartition, int]:
    """Drop the oldest records of partitions, for good.

    Args:
        before: Partition -> the first offset to keep; "latest": drop everything.

    Returns:
        Partition -> where it starts now.

    Raises:
        PositionError: An offset is beyond the end of its partition.
        UnknownTopicError: There is no such partition.
    """

    async def ask(
        leader_id: int, asked: Sequence[TopicPartition]
    ) -> dict[TopicPartition, int | OttlaError]:
        request = DeleteRecordsRequest(
            topics=tuple(
                DeleteRecordsTopic(name=name, partitions=wanted)
                for name, wanted in by_topic(asked, lambda tp: _deleted(tp, before[tp])).items()
            ),
            timeout_ms=caller.answer_ms,
        )
        answer = await caller.ask(request, DeleteRecordsResponse, to=leader_id)
        found: dict[TopicPartition, int | OttlaError] = {}
        for topic in answer.topics:
            for told in topic.partitions:
                tp = TopicPartition(topic.name, told.partition_index)
                detail = f"partition {tp}, records before {before.get(tp)}"
                found[tp] = outcome_of(told.error_code, detail, told.low_watermark)
        return found

    return all_or_raise(await caller.ask_leaders(before, ask, what="deleting records"))


def _deleted(tp: TopicPartition, before: int | Literal["latest"]) -> DeleteRecordsPartition:
    offset = _HIGH_WATERMARK if before == "latest" else before
    return DeleteRecordsPartition(partition_index=tp.partition, offset=offset)


def by_topic(
    partitions: Iterable[TopicPartition], make: Callable[[TopicPartition], P]
) -> dict[str, tuple[P, ...]]:
    """What `make` gives for each partition, topic by topic, as most requests want it."""
    found: dict[str, list[P]] = {}
    for tp in partitions:
        found.setdefault(tp.topic, []).append(make(tp))
    return {topic: tuple(items) for topic, items in found.items()}


def timestamp_ms_of(when: When) -> int:
    """What the protocol calls a moment, or one of the words for special ones."""
    if isinstance(when, str):
        return _WORDS[when]
    if isinstance(when, datetime):
        if when.tzinfo is None:
            raise ValueError(f"{when!r} has no time zone: it means something else on every machine")
        return int(when.timestamp() * 1000)
    return when
