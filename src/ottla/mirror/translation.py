"""Translates what groups have committed, partition by partition, as the copies stand now."""

import time
from collections.abc import Collection, Mapping
from typing import Final

from ottla.client.admin.admin import Admin
from ottla.mirror.journal import Copy, Journal
from ottla.model import TopicPartition

SETTLE_POLL_S: Final = 0.05


class Translation:
    """From a partition and offset of the source to those of the target."""

    def __init__(
        self, copies: Mapping[str, Copy], journal: Journal, ends: Mapping[TopicPartition, int]
    ) -> None:
        """`ends` are those of copies in which nothing is undecided."""
        self._copies = copies
        self._journal = journal
        self._ends = ends

    def __call__(self, tp: TopicPartition, offset: int) -> tuple[TopicPartition, int] | None:
        """Where the first record is that was not read; None if it is not copied."""
        copy = self._copies.get(tp.topic)
        if copy is None:
            return None
        offsets = self._journal.offsets(copy.partition(tp.partition))
        found = offsets.translate(offset)
        if found is None:
            return None
        there = TopicPartition(copy.target, tp.partition)
        last = offsets.end
        if last is not None and found == last.target_offset + last.length:
            # Behind the last record is the mark of its transaction, if nobody else writes there:
            # who has seen everything has seen that, too, and has no lag.
            found += self._ends.get(there) == found + 1
        return there, found


def settled_ends(
    admin: Admin, partitions: Collection[TopicPartition], wait_s: float
) -> dict[TopicPartition, int]:
    """Where partitions end, of those in which nothing is undecided; waits so long for the others.

    The marks of a transaction come a moment after its end was acknowledged.
    """
    until_s = time.monotonic() + wait_s
    while True:
        ends = admin.list_offsets(partitions, missing_ok=True)
        stable = admin.list_offsets(partitions, isolation_level="read_committed", missing_ok=True)
        if ends == stable or time.monotonic() >= until_s:
            return {tp: end for tp, end in ends.items() if end and stable.get(tp) == end}
        time.sleep(SETTLE_POLL_S)
