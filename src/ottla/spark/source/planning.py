"""Which offsets a micro-batch has, and how they are shared out among tasks.  Pure.

Positions are offsets of the next record, so a range [start, end) may have gaps inside: transaction
markers, aborted records, and what compaction took away have offsets, too.  Nothing here counts
records; a range is finished by whoever comes to its end.

Invariant, and tested: ranges of consecutive batches cover each offset between the first start and
the last end exactly once, whatever the limits are.
"""

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heapreplace
from itertools import pairwise
from typing import NamedTuple

from ottla.model import TopicPartition

Positions = Mapping[TopicPartition, int]


class OffsetRange(NamedTuple):
    """What one task reads of one partition: offsets from start to end, end excluded."""

    tp: TopicPartition
    start_offset: int
    end_offset: int

    @property
    def size(self) -> int:
        return self.end_offset - self.start_offset


def ranges_between(start: Positions, end: Positions) -> list[OffsetRange]:
    """One range for each partition of `end` that has something to read, in order."""
    return [OffsetRange(tp, start[tp], end[tp]) for tp in sorted(end) if end[tp] > start[tp]]


def total_size(ranges: Iterable[OffsetRange]) -> int:
    """How many offsets there are in all ranges."""
    return sum(one.size for one in ranges)


def limited(start: Positions, end: Positions, max_offsets: int) -> dict[TopicPartition, int]:
    """An end that is not further than `end`, so that about `max_offsets` lie before it.

    Each partition gets a share of what it has to give, and at least one offset if it has one: small
    partitions never starve.
    """
    ranges = ranges_between(start, end)
    total = total_size(ranges)
    shortened = dict(end)
    if total <= max_offsets:
        return shortened
    for one in ranges:
        share = max(1, max_offsets * one.size // total)
        shortened[one.tp] = one.start_offset + min(share, one.size)
    return shortened


def limited_by_bytes(
    start: Positions, end: Positions, max_bytes: int, offset_bytes: Mapping[TopicPartition, float]
) -> dict[TopicPartition, int]:
    """As `limited`, for bytes: `offset_bytes` is about how many an offset of a partition has."""
    ranges = ranges_between(start, end)
    sizes = {one.tp: one.size * max(offset_bytes.get(one.tp, 0.0), 0.0) for one in ranges}
    total = sum(sizes.values())
    shortened = dict(end)
    if total <= max_bytes:
        return shortened
    for one in ranges:
        if (size_bytes := sizes[one.tp]) > 0:
            share = max(1, int(one.size * (max_bytes / total)))
            shortened[one.tp] = one.start_offset + min(share, one.size)
        else:
            assert size_bytes == 0, size_bytes
    return shortened


def bounded(positions: Positions, bound: Positions) -> dict[TopicPartition, int]:
    """Positions of those partitions that `bound` has, none further than there."""
    return {tp: min(offset, bound[tp]) for tp, offset in positions.items() if tp in bound}


def divided(
    ranges: Sequence[OffsetRange], *, min_count: int | None, max_size: int | None
) -> list[OffsetRange]:
    """Cut ranges so that there are `min_count` of them, if there can be, none over `max_size`.

    The next cut is always through the range whose parts are largest, so that tasks are as equal as
    they can be.  Parts of one range differ by one offset at most.
    """
    counts = [1 if max_size is None else -(-one.size // max_size) for one in ranges]
    largest_first = [(-one.size / counts[i], i) for i, one in enumerate(ranges)]
    heapify(largest_first)
    for _ in range(max(0, (min_count or 0) - sum(counts))):
        if not largest_first or largest_first[0][0] >= -1:
            break  # every part has one offset
        _, i = largest_first[0]
        counts[i] += 1
        heapreplace(largest_first, (-ranges[i].size / counts[i], i))
    return [part for one, count in zip(ranges, counts, strict=True) for part in _cut(one, count)]


def _cut(whole: OffsetRange, count: int) -> list[OffsetRange]:
    edges = [whole.start_offset + whole.size * i // count for i in range(count + 1)]
    return [OffsetRange(whole.tp, low, high) for low, high in pairwise(edges)]
