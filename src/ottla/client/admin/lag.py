"""How far groups are behind: in records, and in time.

The lag of a partition is the distance from what was committed to its end.  Its time lag is the age
of the first record that was not read: how late the group is, rather than how much it has to do.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Final

from ottla.client.admin.calling import Caller, NoLeaderError
from ottla.client.admin.group_offsets import list_group_offsets
from ottla.client.admin.groups import describe_group
from ottla.client.admin.outcomes import all_or_raise, outcome_of
from ottla.client.admin.positions import LATEST, by_topic, existing, offsets_at
from ottla.errors import OttlaError, PositionError, UnknownTopicError, raise_for_code
from ottla.model import TopicPartition
from ottla.ports import Buffer
from ottla.records.batch import batches
from ottla.values import dataclass
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

_LAST_FETCH_BY_NAME: Final = 12
_PEEK_BYTES: Final = 64 * 1024
"""How much is read to find the first record that is no marker; at least one batch comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """One partition that a group reads or has read; what nobody knows is None."""

    tp: TopicPartition
    committed: int | None
    """None: never."""
    end_offset: int | None
    """None: the topic is gone, or nobody leads the partition."""
    lag: int | None
    """None: one of the two above is."""
    time_lag: timedelta | None
    """How old the first unread record is; zero: all is read; None: nobody knows."""
    member_id: str | None
    """Who has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLag:
    """How far a group is behind."""

    group_id: str
    state: str
    total: int
    """The sum of all that is known."""
    partitions: tuple[PartitionLag, ...]


async def lag(caller: Caller, group_id: str) -> GroupLag:
    """How far a group is behind, in every partition that it committed or that a member has.

    Raises:
        NotFoundError: There is no such group.
    """
    group = await describe_group(caller, group_id)
    committed = await list_group_offsets(caller, group_id)
    owners = {tp: member.member_id for member in group.members for tp in member.assignment}
    partitions = sorted({*committed, *owners})
    ends = all_or_raise(
        existing(await offsets_at(caller, partitions, LATEST, waits_for_leaders=False))
    )
    behind = {tp: place.offset for tp, place in committed.items() if place.offset < ends.get(tp, 0)}
    ages_ms = await _ages_ms(caller, behind)
    found = []
    for tp in partitions:
        place, end = committed.get(tp), ends.get(tp)
        count = None if place is None or end is None else max(0, end - place.offset)
        age_ms = 0 if count == 0 else ages_ms.get(tp)
        found.append(
            PartitionLag(
                tp=tp,
                committed=None if place is None else place.offset,
                end_offset=end,
                lag=count,
                time_lag=None if age_ms is None else timedelta(milliseconds=age_ms),
                member_id=owners.get(tp),
            )
        )
    return GroupLag(
        group_id=group_id,
        state=group.state,
        total=sum(partition.lag or 0 for partition in found),
        partitions=tuple(found),
    )


async def _ages_ms(
    caller: Caller, positions: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | None]:
    """Partition -> the age of the record at a position, or of the next one that there is."""

    async def ask(
        leader_id: int, asked: Sequence[TopicPartition]
    ) -> dict[TopicPartition, int | OttlaError | None]:
        answer = await caller.ask(
            _peek(asked, positions), FetchResponse, to=leader_id, max_version=_LAST_FETCH_BY_NAME
        )
        raise_for_code(answer.error_code, "ages of records")
        found: dict[TopicPartition, int | OttlaError | None] = {}
        for topic in answer.responses:
            for told in topic.partitions:
                tp = TopicPartition(topic.topic, told.partition_index)
                written_ms = _first_timestamp_ms(told.records or b"", positions[tp])
                found[tp] = outcome_of(told.error_code, f"partition {tp}", written_ms)
        return found

    now_ms = caller.engine.ports.clock.now_ms()
    outcomes = await caller.ask_leaders(
        positions, ask, what="ages of records", waits_for_leaders=False
    )
    ages: dict[TopicPartition, int | None] = {}
    for tp, outcome in outcomes.items():
        if isinstance(outcome, (PositionError, UnknownTopicError, NoLeaderError)):
            ages[tp] = None  # what was not read is gone
        elif isinstance(outcome, OttlaError):
            raise outcome
        else:
            ages[tp] = None if outcome is None else max(0, now_ms - outcome)
    return ages


def _peek(asked: Iterable[TopicPartition], positions: Mapping[TopicPartition, int]) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        topics=tuple(
            FetchTopic(topic=name, partitions=partitions)
            for name, partitions in by_topic(
                asked,
                lambda tp: FetchPartition(
                    partition=tp.partition,
                    fetch_offset=positions[tp],
                    partition_max_bytes=_PEEK_BYTES,
                ),
            ).items()
        ),
    )


def _first_timestamp_ms(data: Buffer, position: int) -> int | None:
    """When the first record at or after an offset was written; markers are no records."""
    for batch in batches(data, partial_tail=True):
        if batch.is_control or batch.last_offset < position:
            continue
        batch.check_crc()
        for offset, timestamp_ms, *_ in batch.records():
            if offset >= position:
                return timestamp_ms if timestamp_ms >= 0 else None
    return None
