"""Reads and writes the decisions of a sink, in the loop of an engine.

What is committed is read, and nothing else.  A reader that has come to the end of the topic, as it
was when it began, knows all decisions that were committed by then; one that an open transaction
stops before that says so (`Journal.is_whole`), or waits.
"""

import asyncio
import json
from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.client.admin import positions, topics
from ottla.client.admin.calling import Caller
from ottla.client.consumer.fetched import Fetched, fetched_of
from ottla.client.engine import Engine
from ottla.client.targets import LeaderOf
from ottla.errors import DeadlineError, ErrorCode, PositionError, UnknownTopicError, exception_for
from ottla.model import TopicPartition
from ottla.records.builder import BatchOptions, build
from ottla.spark.sink.decisions import SETTLED_PREFIX, TOPIC_CONFIG, Decision, Identity
from ottla.spark.sink.protocol import Journal, Settle
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

_NAMES_TOPICS: Final = 12
"""The newest version of Fetch and Produce that has the names of topics, and not their ids."""
_VERSION_1_PRODUCE: Final = 11
_READ_COMMITTED: Final = 1
_MAX_WAIT_MS: Final = 200
_MAX_BYTES: Final = 4 * 1024 * 1024
_FIRST_LOOK: Final = 64
"""How many offsets before the end the last decision is looked for; then further back."""
_LOOK_FURTHER: Final = 16
_ALL_REPLICAS: Final = -1


class _Settled(NamedTuple):
    stamp: str
    is_void: bool


class JournalFile:
    """The topic of one sink's decisions; `catch_up` reads on where it stopped."""

    def __init__(self, engine: Engine, tp: TopicPartition) -> None:
        self._engine = engine
        self._tp = tp
        self._position: int | None = None
        self._last: Decision | None = None
        self._settled: _Settled | None = None

    async def catch_up(self, *, waits: bool) -> Journal:
        """Read what is new.

        Raises:
            DeadlineError: It `waits`, and an open transaction hides something all the time.
        """
        try:
            is_whole = await self._read_on(waits=waits)
        except PositionError:  # the topic was made anew
            self._position, self._last, self._settled = None, None, None
            is_whole = await self._read_on(waits=waits)
        last, settled = self._last, self._settled
        if settled is not None and settled.is_void:
            return Journal(None, is_settled=True, is_whole=is_whole)
        is_settled = last is None or last.settles_itself or settled is not None
        return Journal(last, is_settled=is_settled, is_whole=is_whole)

    async def everything(self) -> list[Decision]:
        """All decisions that are left, oldest first."""
        start, end_offset = await self._ends()
        found: list[Decision] = []
        position = start
        while position < end_offset:
            fetched = await self._fetch(position)
            found += [d for d in map(_decision, _records(fetched)) if d is not None]
            if fetched.next_offset == position:
                break  # the rest is not decided yet
            position = fetched.next_offset
        return found

    async def create(self) -> None:
        """Make the topic, if there is none."""
        await topics.create_topic(
            Caller(self._engine), self._tp.topic, config=TOPIC_CONFIG, exists_ok=True
        )

    async def write_decision(self, by: Identity, decision: Decision, *, is_version_2: bool) -> None:
        """Write it into the open transaction of `by`, which has written nothing here before."""
        batch = build(
            [(decision.decided_ms, decision.key, decision.encode(), ())],
            BatchOptions(
                producer_id=by.producer_id,
                producer_epoch=by.epoch,
                base_sequence=0,
                is_transactional=True,
            ),
        )
        newest = _NAMES_TOPICS if is_version_2 else _VERSION_1_PRODUCE
        await self._produce(batch, by.transactional_id, newest)

    async def write_settled(self, settle: Settle) -> None:
        """Write that a decision is carried out.  Twice is no harm."""
        told = {"stamp": settle.decision.stamp, "void": settle.is_void}
        now_ms = self._engine.ports.clock.now_ms()
        key = SETTLED_PREFIX + settle.decision.key
        batch = build([(now_ms, key, json.dumps(told).encode(), ())])
        await self._produce(batch, None, _NAMES_TOPICS)

    async def _read_on(self, *, waits: bool) -> bool:
        if self._position is None:
            await self._find_last()
        assert self._position is not None
        deadline_ms = self._engine.now_ms() + self._engine.config.default_api_timeout_ms
        end_offset: int | None = None
        while True:
            fetched, high_watermark = await self._fetch_with_end(self._position)
            end_offset = high_watermark if end_offset is None else end_offset
            self._take(fetched)
            self._position = fetched.next_offset
            if self._position >= end_offset:
                return True
            if fetched.next_offset > fetched.from_offset:
                continue
            if not waits:
                return False
            if self._engine.now_ms() > deadline_ms:
                raise DeadlineError(
                    f"an open transaction hides decisions in {self._tp} from offset "
                    f"{self._position} on; `ottla why topic {self._tp.topic}` says whose it is"
                )
            await asyncio.sleep(_MAX_WAIT_MS / 1000)

    async def _find_last(self) -> None:
        """Begin not at the start, which may be far, but where the last decision can be seen."""
        start, end_offset = await self._ends()
        distance = _FIRST_LOOK
        while True:
            self._position = max(start, end_offset - distance)
            fetched = await self._fetch(self._position)
            if self._position == start or any(map(_decision, _records(fetched))):
                return
            distance *= _LOOK_FURTHER

    async def _ends(self) -> tuple[int, int]:
        caller = Caller(self._engine)
        try:
            first = await positions.list_offsets(caller, [self._tp], at="earliest")
        except UnknownTopicError as error:
            raise UnknownTopicError(
                error.code, f"no sink has decided in {self._tp.topic}"
            ) from None
        last = await positions.list_offsets(caller, [self._tp], at="latest")
        await self._engine.topic(self._tp.topic)
        return first[self._tp] or 0, last[self._tp] or 0

    def _take(self, fetched: Fetched) -> None:
        for key, value in _records(fetched):
            if key is not None and key.startswith(SETTLED_PREFIX) and value is not None:
                told = json.loads(value)
                # A driver that was away for long may settle what nobody asks about any more.
                if self._last is not None and told["stamp"] == self._last.stamp:
                    self._settled = _Settled(told["stamp"], bool(told["void"]))
            elif (decision := _decision((key, value))) is not None:
                self._last, self._settled = decision, None

    async def _fetch(self, from_offset: int) -> Fetched:
        return (await self._fetch_with_end(from_offset))[0]

    async def _fetch_with_end(self, from_offset: int) -> tuple[Fetched, int]:
        wanted = FetchPartition(
            partition=self._tp.partition, fetch_offset=from_offset, partition_max_bytes=_MAX_BYTES
        )
        answer = await self._engine.call(
            FetchRequest(
                max_wait_ms=0,
                min_bytes=0,
                max_bytes=_MAX_BYTES,
                isolation_level=_READ_COMMITTED,
                topics=(FetchTopic(topic=self._tp.topic, partitions=(wanted,)),),
            ),
            FetchResponse,
            to=LeaderOf(self._tp),
            failure=_fetch_failure,
            max_version=_NAMES_TOPICS,
        )
        if code := _fetch_failure(answer):
            raise exception_for(code, f"decisions in {self._tp} at offset {from_offset}")
        ((data,),) = (topic.partitions for topic in answer.responses)
        return fetched_of(self._tp, from_offset, data, read_committed=True), data.high_watermark

    async def _produce(
        self, batch: bytearray, transactional_id: str | None, max_version: int
    ) -> None:
        await self._engine.topic(self._tp.topic)
        answer = await self._engine.call(
            ProduceRequest(
                transactional_id=transactional_id,
                acks=_ALL_REPLICAS,
                timeout_ms=self._engine.config.request_timeout_ms,
                topic_data=(
                    TopicProduceData(
                        name=self._tp.topic,
                        partition_data=(
                            PartitionProduceData(index=self._tp.partition, records=batch),
                        ),
                    ),
                ),
            ),
            ProduceResponse,
            to=LeaderOf(self._tp),
            failure=_produce_failure,
            max_version=max_version,
        )
        code = _produce_failure(answer)
        if code not in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            raise exception_for(code, f"decision in {self._tp}")


def _records(fetched: Fetched) -> Sequence[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in fetched.records()]


def _decision(record: tuple[bytes | None, bytes | None]) -> Decision | None:
    key, value = record
    if key is None or key.startswith(SETTLED_PREFIX) or value is None:
        return None
    return Decision.decode(value)


def _fetch_failure(answer: FetchResponse) -> int:
    if answer.error_code != ErrorCode.NONE:
        return int(answer.error_code)
    return int(answer.responses[0].partitions[0].error_code)


def _produce_failure(answer: ProduceResponse) -> int:
    return int(answer.responses[0].partition_responses[0].error_code)
