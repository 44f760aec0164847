"""Small fetches that the driver makes: to wait for records, and to see how large they are.

An idle query shall cost next to nothing, and wake at once: so one fetch for each leader waits at
the end of its partitions, and the broker answers when something is there.  What a fetch brings is
thrown away; tasks read it.
"""

import asyncio
import logging
from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla.client.consumer.fetch_session import NEWEST_WITH_NAMES
from ottla.client.engine import Engine
from ottla.errors import OttlaError
from ottla.model import TopicPartition
from ottla.records.layout import HEADER, LOG_OVERHEAD_BYTES
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from ottla.wire.schema import NO_UUID

log = logging.getLogger(__name__)

LANE: Final = "watch"
"""A fetch waits for records, and nothing else shall wait behind it."""
MAX_WAIT_MS: Final = 5_000
SAMPLE_BYTES: Final = 64 * 1024
_NO_SESSION_EPOCH: Final = -1


class Watched(NamedTuple):
    """A position, and who knows what is there."""

    tp: TopicPartition
    offset: int
    leader_id: int
    topic_id: bytes


class Watch:
    """Belongs to one engine; its methods run in the engine's loop."""

    def __init__(self, engine: Engine, is_committed_only: bool) -> None:
        self._engine = engine
        self._isolation_level = int(is_committed_only)
        self._waiting: dict[int, asyncio.Task[bool]] = {}

    async def wait(self, watched: Iterable[Watched], timeout_ms: int) -> bool:
        """Whether a record is at one of the positions; waits for one until time is up.

        A fetch that is under way stays so: it is the one that the next call waits for.  One that
        failed, or found nothing, is not repeated in this call, so that trouble costs no processor.
        """
        by_leader = _by_leader(watched)
        for leader_id, wanted in by_leader.items():
            if leader_id not in self._waiting:
                work = self._has_records(leader_id, wanted)
                self._waiting[leader_id] = asyncio.get_running_loop().create_task(work)
        deadline_s = asyncio.get_running_loop().time() + timeout_ms / 1000
        pending = set(self._waiting.values())
        has_records = False
        while not has_records:
            left_s = deadline_s - asyncio.get_running_loop().time()
            if left_s <= 0:
                break
            if not pending:
                await asyncio.sleep(left_s)
                break
            done, pending = await asyncio.wait(
                pending, timeout=left_s, return_when=asyncio.FIRST_COMPLETED
            )
            has_records = any(task.result() for task in done)
        self._waiting = {leader: t for leader, t in self._waiting.items() if not t.done()}
        return has_records

    async def sample(self, watched: Iterable[Watched]) -> dict[TopicPartition, float]:
        """Partition -> bytes for each offset in the next records, where there are some.

        Raises:
            OttlaError: A broker cannot be asked.
        """
        found: dict[TopicPartition, float] = {}
        for leader_id, wanted in _by_leader(watched).items():
            answer = await self._fetch(leader_id, wanted, max_wait_ms=0, max_bytes=SAMPLE_BYTES)
            names = {one.topic_id: one.tp.topic for one in wanted}
            for topic in answer.responses:
                name = topic.topic or names[topic.topic_id]
                for data in topic.partitions:
                    if data.records and (size := offset_bytes(memoryview(data.records))):
                        found[TopicPartition(name, data.partition_index)] = size
        return found

    async def _has_records(self, leader_id: int, wanted: list[Watched]) -> bool:
        try:
            answer = await self._fetch(leader_id, wanted, max_wait_ms=MAX_WAIT_MS, max_bytes=1)
        except OttlaError as error:
            # Whoever asks for offsets next hears of it, and knows what to do.
            log.debug("waiting for records at broker %d failed: %s", leader_id, error)
            return False
        return any(data.records for topic in answer.responses for data in topic.partitions)

    async def _fetch(
        self, leader_id: int, wanted: list[Watched], *, max_wait_ms: int, max_bytes: int
    ) -> FetchResponse:
        topics: dict[tuple[str, bytes], list[FetchPartition]] = {}
        for one in wanted:
            topics.setdefault((one.tp.topic, one.topic_id), []).append(
                FetchPartition(
                    partition=one.tp.partition,
                    fetch_offset=one.offset,
                    partition_max_bytes=max_bytes,
                )
            )
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            isolation_level=self._isolation_level,
            session_epoch=_NO_SESSION_EPOCH,
            topics=tuple(
                FetchTopic(topic=name, topic_id=topic_id, partitions=tuple(partitions))
                for (name, topic_id), partitions in topics.items()
            ),
        )
        has_ids = all(one.topic_id != NO_UUID for one in wanted)
        return await self._engine.ask(
            request,
            FetchResponse,
            to=leader_id,
            timeout_ms=self._engine.config.request_timeout_ms + max_wait_ms,
            max_version=None if has_ids else NEWEST_WITH_NAMES,
            lane=LANE,
        )


def offset_bytes(data: memoryview) -> float:
    """Bytes for each offset in batches, of which the last may be cut; 0 if there is none."""
    position = total_bytes = 0
    first_offset: int | None = None
    next_offset = 0
    while len(data) - position >= HEADER.size:
        header = HEADER.unpack_from(data, position)
        base_offset, length_bytes, last_offset_delta = header[0], header[1], header[6]
        first_offset = base_offset if first_offset is None else first_offset
        next_offset = base_offset + last_offset_delta + 1
        total_bytes += LOG_OVERHEAD_BYTES + length_bytes
        position += LOG_OVERHEAD_BYTES + length_bytes
    if first_offset is None or next_offset <= first_offset:
        return 0.0
    return total_bytes / (next_offset - first_offset)


def _by_leader(watched: Iterable[Watched]) -> dict[int, list[Watched]]:
    found: dict[int, list[Watched]] = {}
    for one in watched:
        found.setdefault(one.leader_id, []).append(one)
    return found
