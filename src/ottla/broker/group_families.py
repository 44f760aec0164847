"""The numbers of groups: members, offsets, rebalances, and lag in records and in seconds.

Lag in seconds needs the time at which the first uncommitted record was written.  That is a look at
the header of one batch, in the log, for each partition that a group is behind in; what was found is
remembered until the next page, because a group that is stuck stays where it is.  Many such looks
are made a few at a time, with turns for clients in between.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Final, TypeVar

from ottla import measures
from ottla.broker.cold_reads import without_blocking
from ottla.broker.context import Node
from ottla.broker.partition import Partition
from ottla.coordinator.group.telling import GroupSummary
from ottla.errors import ErrorCode, StorageError
from ottla.exposition import MAX_SERIES, Exposition, Metric
from ottla.values import NamedTuple

log = logging.getLogger(__name__)

LOOKS_A_TURN: Final = 20
"""How many logs are looked into before others have their turn."""


ITEMS_A_TURN: Final = 500
"""How many things that cost next to nothing are done before others have their turn."""

T = TypeVar("T")


class Place(NamedTuple):
    """One partition of one group; the labels of its numbers."""

    group_id: str
    topic: str
    partition: int


class GroupFamilies:
    """What a broker tells of its groups, and what it remembers for that."""

    def __init__(self, node: Node, exposition: Exposition) -> None:
        self._node = node
        self._exposition = exposition
        self._written_ms: dict[tuple[Partition, int], int | None] = {}
        """When the record at an offset was written, as the last page has it."""

    async def all(self) -> AsyncIterator[str]:
        """All families; none while coordinators still read their logs."""
        shards = self._node.groups.all_loaded()
        if isinstance(shards, ErrorCode):
            return
        found = (group for shard in shards for group in shard.machine.summaries())
        groups = [group async for group in in_turns(found)]
        for part in self._told_of(groups):
            yield part
        committed = {place: at async for place, at in in_turns(_committed(groups))}
        for part in self._exposition.family(measures.GROUP_OFFSET, committed.items()):
            yield part
        lags: dict[Place, int] = {}
        sums: dict[tuple[str, str], int] = {}
        async for place, offset in in_turns(committed.items()):
            partition = self._partition_of(place)
            if isinstance(partition, Partition):
                lag = lags[place] = max(0, partition.high_watermark - offset)
                key = (place.group_id, place.topic)
                sums[key] = sums.get(key, 0) + lag
        for part in self._exposition.family(measures.GROUP_LAG, lags.items()):
            yield part
        for part in self._exposition.family(measures.GROUP_LAG_SUM, sums.items()):
            yield part
        ages = await self._ages_s(committed, lags)
        for part in self._exposition.family(measures.GROUP_LAG_SECONDS, ages):
            yield part

    def _told_of(self, groups: list[GroupSummary]) -> Iterator[str]:
        facts: tuple[tuple[Metric, Callable[[GroupSummary], float]], ...] = (
            (measures.GROUP_MEMBERS, lambda group: group.member_count),
            (measures.GROUP_REBALANCES, lambda group: group.rebalance_count),
            (measures.GROUP_REBALANCE_SECONDS, lambda group: group.rebalance_ms / 1000),
        )
        for metric, read in facts:
            yield from self._exposition.family(metric, (((g.group_id,), read(g)) for g in groups))

    async def _ages_s(
        self, committed: dict[Place, int], lags: dict[Place, int]
    ) -> list[tuple[Place, float]]:
        known, self._written_ms = self._written_ms, {}
        now_ms = self._node.ports.clock.now_ms()
        ages: list[tuple[Place, float]] = []
        looks = 0
        async for place, lag in in_turns(lags.items()):
            partition, offset = self._partition_of(place), committed[place]
            if not isinstance(partition, Partition):
                continue  # it went while others had their turn
            if lag == 0 or len(ages) >= MAX_SERIES:  # what is cut anyway is not looked up
                ages.append((place, 0.0))
                continue
            key = (partition, offset)
            if key not in known:
                known[key] = await self._look_up(partition, offset)
                looks += 1
            written_ms = self._written_ms[key] = known[key]
            if written_ms is not None:
                ages.append((place, max(0, now_ms - written_ms) / 1000))
            if looks >= LOOKS_A_TURN:
                looks = 0
                await asyncio.sleep(0)
        return ages

    async def _look_up(self, partition: Partition, offset: int) -> int | None:
        disk = self._node.ports.disk
        return await without_blocking(disk, lambda: _written_ms(partition, offset))

    def _partition_of(self, place: Place) -> Partition | ErrorCode:
        return self._node.partitions.find(place.topic, place.partition)


async def in_turns(items: Iterable[T]) -> AsyncIterator[T]:
    """The items, with turns for others in between."""
    for number, item in enumerate(items, 1):
        yield item
        if number % ITEMS_A_TURN == 0:
            await asyncio.sleep(0)


def _committed(groups: Iterable[GroupSummary]) -> Iterator[tuple[Place, int]]:
    for group in groups:
        for (topic, partition), offset in group.offsets:
            yield Place(group.group_id, topic, partition), offset


def _written_ms(partition: Partition, offset: int) -> int | None:
    if partition.is_closed:
        return None  # since it was waited for
    try:
        return partition.log.written_ms(max(offset, partition.log.start_offset))
    except (OSError, StorageError) as error:
        log.warning(
            "age of a record not known: topic=%s partition=%d offset=%d %s",
            partition.topic,
            partition.index,
            offset,
            error,
        )
        return None
