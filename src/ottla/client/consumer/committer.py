"""Commits offsets: one request at a time, in the order in which they were asked for.

So a later commit is never undone by an earlier one that was slow, and those who wait for their
commits hear of them in order.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping

from ottla.client.engine import Engine
from ottla.client.records import GroupMetadata, OffsetAndMetadata
from ottla.client.retries import within
from ottla.client.targets import group
from ottla.errors import (
    BrokerError,
    CommitFailedError,
    DeadlineError,
    ErrorCode,
    OttlaError,
    RetriableError,
    exception_for,
)
from ottla.model import TopicPartition
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

Offsets = Mapping[TopicPartition, OffsetAndMetadata]

_WITH_NAMES = 9
_GONE = frozenset({ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID})
"""The group went on without us: whoever has the partitions now will read the records again."""
_OUTDATED = _GONE | {ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.REBALANCE_IN_PROGRESS}
"""Refusals of who we said we are."""
_UNSETTLED = frozenset({ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.REBALANCE_IN_PROGRESS})
"""The next generation is on its way to us."""


class Committer:
    """Made in the loop of the engine."""

    def __init__(
        self,
        engine: Engine,
        identity: Callable[[], GroupMetadata],
        hear: Callable[[OttlaError], None],
        assigned: Callable[[], Collection[TopicPartition]],
    ) -> None:
        """`identity` is who commits; `hear` is told of refusals that say something of the group.

        `assigned` is what is ours now, for commits that are late.
        """
        self._engine = engine
        self._identity = identity
        self._hear = hear
        self._assigned = assigned
        self._order = asyncio.Lock()

    async def commit(
        self, offsets: Offsets, timeout_ms: int | None = None, *, waits: bool = False
    ) -> None:
        """Commit, and wait until it is done.

        One that `waits` is for a caller who cannot poll and commit again, because he is leaving: it
        is repeated until the group has settled.

        Raises:
            CommitFailedError: Another member has these partitions now.
            RejoinError: The group is being shared out anew; poll, then commit again.
            FencedError: Another consumer has our group.instance.id.
            DeadlineError: It was not done in time, and may be done yet.
        """
        if not offsets:
            return
        asked_as = self._identity()
        left_ms = await self._enter(timeout_ms)
        try:
            await self._engine.repeat(
                lambda: self._attempt(offsets, asked_as, waits=waits),
                what="commit of offsets",
                to=group(asked_as.group_id),
                timeout_ms=left_ms,
            )
        finally:
            self._order.release()
        self._engine.metrics.count("commit-total")

    async def settled(self, timeout_ms: int) -> int:
        """Wait until the commits that are under way are done; returns how much time is left."""
        left_ms = await self._enter(timeout_ms)
        self._order.release()
        return left_ms

    async def _enter(self, timeout_ms: int | None) -> int:
        """Be the one who commits; returns how much time is left.  To be released."""
        limit_ms = self._engine.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        since_ms = self._engine.now_ms()
        trouble: list[OttlaError] = [DeadlineError("another commit is under way")]
        async with within(limit_ms, "commit of offsets", trouble):
            # Locks are fair: whoever asked first commits first.
            await self._order.acquire()
        return max(0, limit_ms - (self._engine.now_ms() - since_ms))

    async def _attempt(self, offsets: Offsets, asked_as: GroupMetadata, *, waits: bool) -> None:
        who = self._identity()
        if who != asked_as:
            self._check_assigned(offsets, who)
        answer = await self._engine.ask(
            _request(who, offsets),
            OffsetCommitResponse,
            to=group(who.group_id),
            max_version=_WITH_NAMES,
        )
        for topic in answer.topics:
            for part in topic.partitions:
                if part.error_code != ErrorCode.NONE:
                    tp = TopicPartition(topic.name, part.partition_index)
                    error = self._refusal(part.error_code, tp, who)
                    if waits and error.code in _UNSETTLED:
                        raise RetriableError(error.number, error.detail)
                    raise error

    def _check_assigned(self, offsets: Offsets, who: GroupMetadata) -> None:
        """The group was shared out anew since: what is another's now is not ours to commit."""
        # Who is in no generation has nothing, even if the caller was not told yet.
        assigned = self._assigned() if who.generation_id >= 0 else ()
        if lost := [tp for tp in offsets if tp not in assigned]:
            raise CommitFailedError(
                ErrorCode.ILLEGAL_GENERATION,
                f"{lost[0]} was not committed: the group was shared out anew meanwhile, and it is "
                "not ours any more",
            )

    def _refusal(self, number: int, tp: TopicPartition, who: GroupMetadata) -> BrokerError:
        code = ErrorCode.of(number)
        if code in _OUTDATED and self._identity() != who:
            # We have moved on meanwhile: it says nothing of who we are now.
            return RetriableError(code, f"commit of {tp}")
        if code in _GONE:
            error: BrokerError = CommitFailedError(
                code,
                f"{tp} was not committed: member {who.member_id!r} is not in group "
                f"{who.group_id!r} any more; poll more often than max.poll.interval.ms, or take "
                "fewer records at a time",
            )
        else:
            error = exception_for(number, f"commit of {tp}")
        self._hear(error)
        return error


def _request(who: GroupMetadata, offsets: Offsets) -> OffsetCommitRequest:
    by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
    for tp, at in offsets.items():
        by_topic.setdefault(tp.topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=tp.partition,
                committed_offset=at.offset,
                committed_leader_epoch=at.leader_epoch,
                committed_metadata=at.metadata,
            )
        )
    return OffsetCommitRequest(
        group_id=who.group_id,
        generation_id_or_member_epoch=who.generation_id,
        member_id=who.member_id,
        group_instance_id=who.group_instance_id,
        topics=tuple(
            OffsetCommitRequestTopic(name=topic, partitions=tuple(partitions))
            for topic, partitions in by_topic.items()
        ),
    )
