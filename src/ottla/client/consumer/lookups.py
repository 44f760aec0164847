"""Questions about offsets: which there are, which were committed, where an epoch ended.

Each asks whoever knows, again where that may help, until its time is up.  Partitions whose leader
answered are not asked about again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from ottla.client.cluster_view import Leader
from ottla.client.engine import Engine
from ottla.client.records import NO_EPOCH, OffsetAndMetadata
from ottla.client.targets import group
from ottla.errors import ErrorCode, OttlaError, exception_for, raise_for_code
from ottla.model import TopicPartition
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from ottla.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

LATEST: Final = -1
EARLIEST: Final = -2
_CONSUMER: Final = -1
_WITH_GROUPS: Final = 8
_WITH_NAMES: Final = 9

_OFFSETS: Final = "offsets"

T = TypeVar("T")
Ask = Callable[[int, list[tuple[TopicPartition, Leader]]], Awaitable[dict[TopicPartition, T | int]]]
"""Asks a leader about its partitions: what it found, or an error code, for each."""


class Found(NamedTuple):
    """An offset, and the timestamp and epoch of the record there; offset -1: there is none."""

    offset: int
    timestamp_ms: int = -1
    leader_epoch: int = NO_EPOCH


class EpochEnd(NamedTuple):
    """Where the newest epoch up to the one in question ended; -1: nobody knows of it."""

    leader_epoch: int
    end_offset: int


class Lookups:
    """Asks for one consumer; lives on the I/O thread."""

    def __init__(self, engine: Engine, *, is_committed_only: bool) -> None:
        self._engine = engine
        self._isolation_level = int(is_committed_only)

    async def offsets(
        self, times: Mapping[TopicPartition, int], timeout_ms: int | None = None
    ) -> dict[TopicPartition, Found]:
        """The first offset of each partition from a timestamp on; or `LATEST`, `EARLIEST`."""
        return await self._each_leader(times, self._asking_offsets(times), _OFFSETS, timeout_ms)

    async def offsets_once(
        self,
        times: Mapping[TopicPartition, int],
        take: Callable[[dict[TopicPartition, Found]], None],
    ) -> None:
        """As `offsets`, but ask each leader once, and `take` what each says as soon as it does.

        So a leader that is not there keeps nobody from hearing of the others; then it raises.
        """
        await self._once(times, self._asking_offsets(times), take, _OFFSETS)

    def _asking_offsets(self, times: Mapping[TopicPartition, int]) -> "Ask[Found]":
        async def ask(
            node_id: int, tps: list[tuple[TopicPartition, Leader]]
        ) -> dict[TopicPartition, Found | int]:
            request = ListOffsetsRequest(
                replica_id=_CONSUMER,
                isolation_level=self._isolation_level,
                topics=tuple(
                    ListOffsetsTopic(
                        name=topic,
                        partitions=tuple(
                            ListOffsetsPartition(
                                partition_index=tp.partition,
                                current_leader_epoch=leader.epoch,
                                timestamp=times[tp],
                            )
                            for tp, leader in some
                        ),
                    )
                    for topic, some in _by_topic(tps)
                ),
            )
            answer = await self._engine.ask(request, ListOffsetsResponse, to=node_id)
            return {
                TopicPartition(topic.name, part.partition_index): part.error_code
                or Found(part.offset, part.timestamp, part.leader_epoch)
                for topic in answer.topics
                for part in topic.partitions
            }

        return ask

    async def epoch_ends_once(
        self,
        epochs: Mapping[TopicPartition, int],
        take: Callable[[dict[TopicPartition, EpochEnd]], None],
    ) -> None:
        """Where leader epochs ended: has the log been truncated? (KIP-320)  See `offsets_once`."""
        await self._once(epochs, self._asking_ends(epochs), take, "leader epochs")

    def _asking_ends(self, epochs: Mapping[TopicPartition, int]) -> "Ask[EpochEnd]":
        async def ask(
            node_id: int, tps: list[tuple[TopicPartition, Leader]]
        ) -> dict[TopicPartition, EpochEnd | int]:
            request = OffsetForLeaderEpochRequest(
                replica_id=_CONSUMER,
                topics=tuple(
                    OffsetForLeaderTopic(
                        topic=topic,
                        partitions=tuple(
                            OffsetForLeaderPartition(
                                partition=tp.partition,
                                current_leader_epoch=leader.epoch,
                                leader_epoch=epochs[tp],
                            )
                            for tp, leader in some
                        ),
                    )
                    for topic, some in _by_topic(tps)
                ),
            )
            answer = await self._engine.ask(request, OffsetForLeaderEpochResponse, to=node_id)
            return {
                TopicPartition(topic.topic, part.partition): part.error_code
                or EpochEnd(part.leader_epoch, part.end_offset)
                for topic in answer.topics
                for part in topic.partitions
            }

        return ask

    async def committed(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What a group has committed; None where it has nothing.  Waits for open transactions."""
        wanted = list(partitions)
        if not wanted:
            return {}
        by_topic: dict[str, list[int]] = {}
        for tp in wanted:
            by_topic.setdefault(tp.topic, []).append(tp.partition)
        request = OffsetFetchRequest(
            groups=(
                OffsetFetchRequestGroup(
                    group_id=group_id,
                    topics=tuple(
                        OffsetFetchRequestTopics(name=topic, partition_indexes=tuple(indexes))
                        for topic, indexes in by_topic.items()
                    ),
                ),
            ),
            require_stable=True,
        )
        answer = await self._engine.call(
            request,
            OffsetFetchResponse,
            to=group(group_id),
            timeout_ms=timeout_ms,
            failure=_worst_code,
            min_version=_WITH_GROUPS,
            max_version=_WITH_NAMES,
        )
        return _committed_in(answer, group_id, wanted)

    async def _each_leader(
        self,
        wanted: Iterable[TopicPartition],
        ask: "Ask[T]",
        what: str,
        timeout_ms: int | None,
    ) -> dict[TopicPartition, T]:
        """Ask the leader of each, all at once; again about those that did not answer."""
        left = dict.fromkeys(wanted)
        found: dict[TopicPartition, T] = {}

        async def attempt() -> None:
            by_leader = await self._by_leader(left, timeout_ms)
            asked = [ask(node_id, tps) for node_id, tps in by_leader.items()]
            trouble: OttlaError | None = None
            for answers in await asyncio.gather(*asked, return_exceptions=True):
                if isinstance(answers, OttlaError):
                    trouble = answers
                elif isinstance(answers, BaseException):
                    raise answers
                else:
                    trouble = _sort(answers, found, what) or trouble
            if missing := [tp for tp in left if tp not in found]:
                left.clear()
                left.update(dict.fromkeys(missing))
                raise trouble or exception_for(
                    ErrorCode.LEADER_NOT_AVAILABLE, f"{what} of {missing[0]}"
                )

        if left:
            await self._engine.repeat(attempt, what=what, timeout_ms=timeout_ms)
        return found

    async def _once(
        self,
        wanted: Iterable[TopicPartition],
        ask: "Ask[T]",
        take: Callable[[dict[TopicPartition, T]], None],
        what: str,
    ) -> None:
        async def ask_one(node_id: int, tps: list[tuple[TopicPartition, Leader]]) -> None:
            found: dict[TopicPartition, T] = {}
            answers = await ask(node_id, tps)
            try:
                if (trouble := _sort(answers, found, what)) is not None:
                    raise trouble
            finally:
                take(found)

        by_leader: dict[int, list[tuple[TopicPartition, Leader]]] = {}
        troubles: list[OttlaError] = []
        for tp in wanted:
            if (leader := self._engine.cluster.leader(tp)) is not None:
                by_leader.setdefault(leader.node_id, []).append((tp, leader))
            else:
                troubles.append(self._why_unled(tp, what))
        asked = [ask_one(node_id, tps) for node_id, tps in by_leader.items()]
        for ended in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(ended, OttlaError):
                troubles.append(ended)
            elif ended is not None:
                raise ended
        self._engine.check_open()
        for trouble in troubles:
            self._engine.hear(trouble)
        if troubles:
            raise min(troubles, key=lambda trouble: trouble.retriable)

    def _why_unled(self, tp: TopicPartition, what: str) -> OttlaError:
        self._engine.metadata.want([tp.topic], self._engine.now_ms())
        code = self._engine.cluster.errors.get(tp.topic, ErrorCode.LEADER_NOT_AVAILABLE)
        return exception_for(code, f"{what} of {tp}")

    async def _by_leader(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None
    ) -> dict[int, list[tuple[TopicPartition, Leader]]]:
        by_leader: dict[int, list[tuple[TopicPartition, Leader]]] = {}
        for tp in list(partitions):
            topic = await self._engine.topic(tp.topic, timeout_ms)
            if not 0 <= tp.partition < topic.partition_count:
                raise exception_for(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"topic {tp.topic!r} has {topic.partition_count} partitions, and no {tp}",
                )
            if (leader := self._engine.cluster.leader(tp)) is not None:
                by_leader.setdefault(leader.node_id, []).append((tp, leader))
        return by_leader


def _sort(
    answers: Mapping[TopicPartition, T | int], found: dict[TopicPartition, T], what: str
) -> OttlaError | None:
    """Keep what was found; return a trouble that time may mend, raise any other."""
    trouble: OttlaError | None = None
    for tp, answer in answers.items():
        if not isinstance(answer, int):
            found[tp] = answer
            continue
        trouble = exception_for(answer, f"{what} of {tp}")
        if not trouble.retriable:
            raise trouble
    return trouble


def _by_topic(
    tps: Iterable[tuple[TopicPartition, Leader]],
) -> Iterable[tuple[str, list[tuple[TopicPartition, Leader]]]]:
    grouped: dict[str, list[tuple[TopicPartition, Leader]]] = {}
    for tp, leader in tps:
        grouped.setdefault(tp.topic, []).append((tp, leader))
    return grouped.items()


def _worst_code(answer: OffsetFetchResponse) -> int:
    """An error that asking again may mend: of the group, or of one partition."""
    for found in answer.groups:
        if found.error_code:
            return found.error_code
        for topic in found.topics:
            for part in topic.partitions:
                if part.error_code:
                    return part.error_code
    return ErrorCode.NONE


def _committed_in(
    answer: OffsetFetchResponse, group_id: str, wanted: Iterable[TopicPartition]
) -> dict[TopicPartition, OffsetAndMetadata | None]:
    found: dict[TopicPartition, OffsetAndMetadata | None] = dict.fromkeys(wanted)
    for told in answer.groups:
        raise_for_code(told.error_code, f"group {group_id!r}")
        for topic in told.topics:
            for part in topic.partitions:
                tp = TopicPartition(topic.name, part.partition_index)
                raise_for_code(part.error_code, f"committed offset of {tp}")
                if part.committed_offset >= 0:
                    found[tp] = OffsetAndMetadata(
                        part.committed_offset, part.metadata or "", part.committed_leader_epoch
                    )
    return found
