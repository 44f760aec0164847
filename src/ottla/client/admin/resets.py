"""Moving a group to other offsets: where to is decided here, before anything is committed.

Nobody may be in the group meanwhile: a member would go on from where it is, and commit over it.
"""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Literal

from ottla.client.admin.calling import Caller, together
from ottla.client.admin.group_offsets import alter_group_offsets, in_use, list_group_offsets
from ottla.client.admin.groups import describe_group
from ottla.client.admin.outcomes import all_or_raise
from ottla.client.admin.positions import EARLIEST, LATEST, offsets_at, timestamp_ms_of
from ottla.client.admin.topics import list_partitions
from ottla.client.records import OffsetAndMetadata, Offsets
from ottla.errors import ErrorCode, NotFoundError, RequestError, exception_for
from ottla.model import TopicPartition
from ottla.values import dataclass

Destination = int | datetime | timedelta | Literal["earliest", "latest"] | Offsets


@dataclass(frozen=True, slots=True)
class OffsetChange:
    """Where a group goes on in a partition, before and after."""

    tp: TopicPartition
    old: int | None
    """None: it had committed nothing."""
    new: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a partition has, and where in it the time is that was asked for."""

    start_offset: int
    end_offset: int
    at_time: int | None = None
    """None: no time was asked for, or everything is older."""


async def reset_offsets(
    caller: Caller,
    group_id: str,
    *,
    topics: Collection[str] | None = None,
    to: Destination,
    dry_run: bool = False,
) -> list[OffsetChange]:
    """Let a group go on from elsewhere.

    Args:
        group_id: The group; nobody may be in it.
        topics: All partitions of these; None: all for which it has committed something, or those
            that `to` names.
        to: "earliest", "latest", an offset, a time, how long ago (a timedelta, of either sign), or
            partition -> offset.  What lies outside of a partition is moved to its nearest end.
        dry_run: Only say what would change; the group may be in use.

    Returns:
        What changes, partition by partition.

    Raises:
        ConflictError: Somebody is in the group.
        NotFoundError: There is no such group, and no topic is named.
        UnknownTopicError: There is no such topic.
    """
    is_active, exists = await _state(caller, group_id)
    if is_active and not dry_run:
        raise in_use(group_id)
    committed = await list_group_offsets(caller, group_id)
    partitions = await _partitions(caller, topics, to, committed)
    if not exists and topics is None and not isinstance(to, Mapping):
        raise exception_for(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id!r}")
    bounds = await _bounds(caller, partitions, to)
    changes = planned(to, bounds, {tp: place.offset for tp, place in committed.items()})
    if not dry_run:
        await alter_group_offsets(caller, group_id, _commits(to, changes))
    return changes


def planned(
    to: Destination,
    bounds: Mapping[TopicPartition, Bounds],
    committed: Mapping[TopicPartition, int],
) -> list[OffsetChange]:
    """What changes where, sorted; never to outside of what a partition has."""
    return [
        OffsetChange(
            tp,
            committed.get(tp),
            max(bound.start_offset, min(_wanted(to, tp, bound), bound.end_offset)),
        )
        for tp, bound in sorted(bounds.items())
    ]


def _wanted(to: Destination, tp: TopicPartition, bound: Bounds) -> int:
    if to == "earliest":
        return bound.start_offset
    if isinstance(to, int):
        return to
    if isinstance(to, Mapping):
        return _offset(to[tp])
    # The latest, or a time; beyond every record it is the end.
    return bound.end_offset if bound.at_time is None else bound.at_time


def _commits(to: Destination, changes: Collection[OffsetChange]) -> Offsets:
    """What to commit: metadata comes along where it was given, and the offset was not moved."""
    given = to if isinstance(to, Mapping) else {}
    found: dict[TopicPartition, int | OffsetAndMetadata] = {}
    for change in changes:
        asked = given.get(change.tp, change.new)
        found[change.tp] = asked if _offset(asked) == change.new else change.new
    return found


def _offset(place: int | OffsetAndMetadata) -> int:
    return place.offset if isinstance(place, OffsetAndMetadata) else place


async def _state(caller: Caller, group_id: str) -> tuple[bool, bool]:
    """Whether somebody is in the group, and whether it exists."""
    try:
        return (await describe_group(caller, group_id)).is_active, True
    except NotFoundError:
        return False, False


async def _partitions(
    caller: Caller,
    topics: Collection[str] | None,
    to: Destination,
    committed: Collection[TopicPartition],
) -> Collection[TopicPartition]:
    if isinstance(to, Mapping):
        strange = sorted(tp for tp in to if topics is not None and tp.topic not in topics)
        if strange:
            raise _refused(f"to has partition {strange[0]}, which is of none of the topics")
        return to.keys()
    if isinstance(to, int) and to < 0:
        raise _refused(f"offset {to} is below 0")
    if topics is None:
        return committed
    return await list_partitions(caller, topics)


async def _bounds(
    caller: Caller, partitions: Collection[TopicPartition], to: Destination
) -> dict[TopicPartition, Bounds]:
    asked_ms = [EARLIEST, LATEST]
    if (time_ms := _time_ms(caller, to)) is not None:
        asked_ms.append(time_ms)
    starts, ends, *at_time = [
        all_or_raise(found)
        for found in await together(
            offsets_at(caller, partitions, timestamp_ms) for timestamp_ms in asked_ms
        )
    ]
    return {
        tp: Bounds(
            start_offset=starts[tp],
            end_offset=ends[tp],
            at_time=at_time[0][tp] if at_time and at_time[0][tp] >= 0 else None,
        )
        for tp in partitions
    }


def _time_ms(caller: Caller, to: Destination) -> int | None:
    if isinstance(to, datetime):
        return max(0, timestamp_ms_of(to))
    if isinstance(to, timedelta):
        return max(0, caller.engine.ports.clock.now_ms() - int(abs(to).total_seconds() * 1000))
    return None


def _refused(detail: str) -> RequestError:
    return RequestError(ErrorCode.INVALID_REQUEST, detail)
