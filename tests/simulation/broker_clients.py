"""Simulated clients of the whole broker: they speak its protocol, and write down what they see.

They are plain on purpose.  A producer without idempotence cannot repeat a send that timed out, as
the first one may have succeeded: every send has a value of its own, and an answer that never came
is `Outcome.UNKNOWN`.  What one connection sends is appended in order, so each connection is a
process of its own in the history; between two connections of a client nothing is promised.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from ottla.client import connection
from ottla.client.buffers import ViewedBuffers
from ottla.client.metrics import Metrics
from ottla.errors import ErrorCode, OttlaError, TransportError
from ottla.ports import Ports
from ottla.records.batch import batches
from ottla.records.builder import build
from ottla.testing.history import Operation, Outcome, Polled, Sent
from ottla.wire.frame import scratch_buffer
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.simulation.journal import Journal, key_of

BROKER: Final = "broker"
PORT: Final = 9092
REQUEST_TIMEOUT_S: Final = 0.7
ALL_REPLICAS: Final = -1
LEADER_ONLY: Final = 1
READ_UNCOMMITTED: Final = 0
LATEST: Final = -1
EARLIEST: Final = -2
MAX_REQUESTS: Final = 45
MAX_ANSWER_BYTES: Final = 256 * 1024 * 1024
PATIENCE_MS: Final = 600_000
MAX_FINAL_FETCHES: Final = 500

# The newest versions that name topics, as most clients do.
PRODUCE_VERSIONS: Final = range(3, 13)
FETCH_VERSIONS: Final = range(4, 13)
LIST_OFFSETS_VERSION: Final = 7


@dataclass(frozen=True, slots=True, order=True)
class Spot:
    """A partition, as its topic and number."""

    topic: str
    index: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"


class Connection(connection.Connection):
    """A connection of the real clients; how long to wait for an answer is up to who asks."""

    def __init__(self, client_id: str) -> None:
        options = connection.ConnectionOptions(
            client_id=client_id,
            max_in_flight=MAX_REQUESTS,
            max_answer_bytes=MAX_ANSWER_BYTES,
            send_buffer_bytes=-1,
            receive_buffer_bytes=-1,
            scratch=scratch_buffer(),
            buffers=ViewedBuffers(),
            metrics=Metrics(),
            on_room=_ignore,
        )
        super().__init__(BROKER, options, _ignore)

    def request(
        self, body: Any, version: int, *, timeout_ms: int = PATIENCE_MS
    ) -> "asyncio.Future[Any]":
        return super().request(body, version, timeout_ms=timeout_ms)


def _ignore(_reason: OttlaError | None = None) -> None:
    """Nobody has to be told."""


class Link:
    """One client's way to the broker: a connection at a time, and a new one after each trouble."""

    def __init__(self, ports: Ports, name: str) -> None:
        self.name = name
        self._ports = ports
        self._connection: Connection | None = None
        self._count = 0

    @property
    def process(self) -> str:
        """The name of the present connection in the history."""
        return f"{self.name}/{self._count}"

    async def open(self) -> Connection | None:
        """The connection, made if need be; None where the broker cannot be reached now."""
        if self._connection is not None and self._connection.is_open:
            return self._connection
        self.hang_up()
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                made = await self._ports.network.connect(
                    BROKER, PORT, lambda: Connection(self.name)
                )
        except (OSError, TimeoutError):
            return None
        assert isinstance(made, Connection)
        self._count += 1
        self._connection = made
        return made

    async def answer(self, asked: "asyncio.Future[Any]") -> Any | None:
        """What the broker answered; None if it did not, and then the connection is given up."""
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                return await asked
        except (TransportError, TimeoutError):
            self.hang_up()
            return None

    async def ask(self, body: Any, version: int) -> Any | None:
        """Ask once; None if there was no answer."""
        connection = await self.open()
        if connection is None:
            return None
        try:
            asked = connection.request(body, version)
        except TransportError:
            return None
        return await self.answer(asked)

    def hang_up(self) -> None:
        """Give the connection up; whoever waits for an answer gets none."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@dataclass(frozen=True, slots=True)
class _InFlight:
    """A produce request that has no answer yet."""

    process: str
    spot: Spot
    values: tuple[str, ...]
    acks: int
    answer: "asyncio.Future[Any]"


class Producer:
    """Sends batches of unique values, several requests at a time."""

    def __init__(self, ports: Ports, name: str, journal: Journal, rng: random.Random) -> None:
        self._link = Link(ports, name)
        self._clock = ports.clock
        self._journal = journal
        self._rng = rng
        self._in_flight: deque[_InFlight] = deque()
        self._value_count = 0

    async def work(self, spots: Iterable[Spot], is_over: Callable[[], bool]) -> None:
        """Send to any of `spots` until it `is_over`, and wait for the last answers.

        Some producers are lazy and some are busy; the busiest stop by themselves at some time.
        """
        choices = list(spots)
        window = self._rng.randint(1, 5)
        pause_s = self._rng.choice((0.005, 0.02, 0.06))
        for _ in range(MAX_REQUESTS):
            if is_over():
                break
            await asyncio.sleep(self._rng.uniform(0, pause_s))
            while len(self._in_flight) >= window:
                await self._settle()
            acks = LEADER_ONLY if self._rng.random() < 0.3 else ALL_REPLICAS
            await self._send(self._rng.choice(choices), acks)
        while self._in_flight:
            await self._settle()
        self._link.hang_up()

    async def send_one(self, spot: Spot) -> bool:
        """Send once with acks=all; whether that was acknowledged."""
        before = self._journal.done["acknowledged"]
        await self._send(spot, ALL_REPLICAS)
        while self._in_flight:
            await self._settle()
        return self._journal.done["acknowledged"] > before

    async def _send(self, spot: Spot, acks: int) -> None:
        connection = await self._link.open()
        if connection is None:
            return
        values = tuple(self._new_value() for _ in range(self._rng.choice((1, 1, 2, 5))))
        padding = b" " * self._rng.choice((0, 30, 700))
        now_ms = self._clock.now_ms()
        batch = build(
            (now_ms, key_of(value).encode(), value.encode() + padding, ()) for value in values
        )
        data = PartitionProduceData(index=spot.index, records=batch)
        request = ProduceRequest(
            acks=acks,
            timeout_ms=1000,
            topic_data=(TopicProduceData(name=spot.topic, partition_data=(data,)),),
        )
        try:
            answer = connection.request(request, self._rng.choice(PRODUCE_VERSIONS))
        except TransportError:
            return  # it was never sent, and nobody will look for it
        self._in_flight.append(_InFlight(self._link.process, spot, values, acks, answer))

    def _new_value(self) -> str:
        self._value_count += 1
        return f"{self._link.name}-{self._value_count}"

    async def _settle(self) -> None:
        """Wait for the oldest answer and write down what became of its request."""
        sent = self._in_flight.popleft()
        response = await self._link.answer(sent.answer)
        base_offset: int | None = None
        outcome = Outcome.UNKNOWN
        if response is not None:
            result = response.responses[0].partition_responses[0]
            match result.error_code:
                case ErrorCode.NONE:
                    outcome, base_offset = Outcome.OK, result.base_offset
                    self._journal.done["acknowledged"] += 1
                case ErrorCode.KAFKA_STORAGE_ERROR:
                    self._journal.done["storage error"] += 1
                case other:
                    self._journal.violate(f"produce to {sent.spot}: {ErrorCode(other).name}")
        sends = tuple(
            Sent(str(sent.spot), value, None if base_offset is None else base_offset + number)
            for number, value in enumerate(sent.values)
        )
        self._journal.add(
            Operation(process=sent.process, outcome=outcome, sends=sends),
            is_weak=sent.acks != ALL_REPLICAS,
        )


class Consumer:
    """Reads partitions from their start on, through every crash, and forgets nothing it saw."""

    isolation_level = READ_UNCOMMITTED

    def __init__(self, ports: Ports, name: str, journal: Journal, rng: random.Random) -> None:
        self._link = Link(ports, name)
        self._journal = journal
        self._rng = rng
        self.process = name
        """Its name in the history; what it reads under one name is one stretch of the log."""
        self._positions: dict[Spot, int] = {}
        self._high_watermarks: dict[Spot, int] = {}
        self._jumped: set[Spot] = set()
        self.fetched_bytes: dict[Spot, int] = {}

    async def work(self, spots: Iterable[Spot]) -> None:
        """Poll until the end of the run."""
        self._positions = dict.fromkeys(spots, 0)
        while True:
            await asyncio.sleep(self._rng.uniform(0, 0.05))
            await self._poll(max_wait_ms=self._rng.choice((0, 20, 300)))

    async def drain(self, spots: Iterable[Spot]) -> dict[Spot, int]:
        """Read everything there is, from the first offset on: where each partition begins.

        Retention goes on meanwhile, so that is asked for at the end.
        """
        self._positions = await self._offsets(spots, EARLIEST)
        ends = await self._offsets(spots, LATEST)
        for _ in range(MAX_FINAL_FETCHES):
            if all(self._positions[spot] >= end for spot, end in ends.items()):
                starts = await self._offsets(spots, EARLIEST)
                self._link.hang_up()
                return starts
            await self._poll(max_wait_ms=0)
        raise AssertionError(f"the end was never reached: at {self._positions}, ends {ends}")

    async def end_of(self, spot: Spot) -> int | None:
        """The high watermark; None if there is no answer."""
        return await self._offset(spot, LATEST)

    async def _offsets(self, spots: Iterable[Spot], timestamp_ms: int) -> dict[Spot, int]:
        found = {}
        for spot in spots:
            offset = await self._offset(spot, timestamp_ms)
            assert offset is not None, f"no answer about {spot}, though nothing is broken anymore"
            found[spot] = offset
        return found

    async def _offset(self, spot: Spot, timestamp_ms: int) -> int | None:
        asked = ListOffsetsPartition(partition_index=spot.index, timestamp=timestamp_ms)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=self.isolation_level,
            topics=(ListOffsetsTopic(name=spot.topic, partitions=(asked,)),),
        )
        answer = await self._link.ask(request, LIST_OFFSETS_VERSION)
        if answer is None or answer.topics[0].partitions[0].error_code != ErrorCode.NONE:
            return None
        offset: int = answer.topics[0].partitions[0].offset
        return offset

    async def _poll(self, *, max_wait_ms: int) -> None:
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            isolation_level=self.isolation_level,
            min_bytes=self._rng.choice((1, 1, 2000)),
            max_bytes=self._rng.choice((100, 5000, 1_000_000)),
            topics=tuple(
                FetchTopic(
                    topic=spot.topic,
                    partitions=(
                        FetchPartition(
                            partition=spot.index, fetch_offset=offset, partition_max_bytes=4000
                        ),
                    ),
                )
                for spot, offset in self._positions.items()
            ),
        )
        answer = await self._link.ask(request, self._rng.choice(FETCH_VERSIONS))
        if answer is None:
            return
        polls: list[Polled] = []
        for topic in answer.responses:
            for data in topic.partitions:
                polls += await self._take(Spot(topic.topic, data.partition_index), data)
        if polls:
            self._add(polls)

    def _add(self, polls: list[Polled]) -> None:
        seen = {polled.partition for polled in polls}
        jumped = [spot for spot in sorted(self._jumped) if str(spot) in seen]
        self._jumped.difference_update(jumped)
        self._journal.add(
            Operation(
                process=self.process,
                polls=tuple(polls),
                rebalanced=tuple(str(spot) for spot in jumped),
            )
        )

    async def _take(self, spot: Spot, data: PartitionData) -> list[Polled]:
        match data.error_code:
            case ErrorCode.NONE:
                self._watch(spot, data)
                return self._records(spot, data)
            case ErrorCode.OFFSET_OUT_OF_RANGE:
                await self._jump(spot)
            case ErrorCode.KAFKA_STORAGE_ERROR:
                self._journal.done["storage error"] += 1
            case other:
                self._journal.violate(f"fetch from {spot}: {ErrorCode(other).name}")
        return []

    def _watch(self, spot: Spot, data: PartitionData) -> None:
        """What was once shown as committed must stay so, whatever was lost meanwhile."""
        highest = self._high_watermarks.get(spot, 0)
        if data.high_watermark < highest:
            self._journal.miss(
                f"high watermark of {spot} went back from {highest} to {data.high_watermark}"
            )
        self._high_watermarks[spot] = max(highest, data.high_watermark)

    def _records(self, spot: Spot, data: PartitionData) -> list[Polled]:
        position = self._positions[spot]
        polls = []
        for batch in batches(data.records or b"", partial_tail=True):
            batch.check_crc()
            for record in batch.records():
                if record[0] < position:
                    continue  # the fetch began inside the batch
                assert record[3] is not None
                self._journal.done["gap"] += record[0] > position
                polls.append(Polled(str(spot), bytes(record[3]).decode().rstrip(), record[0]))
                position = record[0] + 1
            # Compaction may have taken the last records of a batch, or all of them.
            position = max(position, batch.last_offset + 1)
        if position > data.high_watermark:
            self._journal.violate(f"{spot} showed {position - 1}, beyond {data.high_watermark}")
        self._positions[spot] = position
        self.fetched_bytes[spot] = self.fetched_bytes.get(spot, 0) + len(data.records or b"")
        return polls

    async def _jump(self, spot: Spot) -> None:
        """The position is not in the log: deleted below its start, or lost beyond its end?"""
        position = self._positions[spot]
        start_offset = await self._offset(spot, EARLIEST)
        end_offset = await self._offset(spot, LATEST)
        if start_offset is None or end_offset is None:
            return
        if end_offset < position:
            self._journal.miss(f"{spot} ends at {end_offset}, but {position - 1} was read")
        elif start_offset <= position:
            return  # a crash brought back what had been deleted, which is no fault
        self._journal.done["jump"] += 1
        self._positions[spot] = start_offset
        self._jumped.add(spot)
