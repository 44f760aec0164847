"""What a test writes and reads itself, in one line: `produce`, `records`, `wait_for`.

It asks over the network like any client, so it works with any Kafka cluster, and tests may call it
from any thread, and from inside an event loop.  All of it goes over connections that are made with
the first call and kept: faults that a test orders for new connections do not hit it.
"""

import itertools
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from ottla.client.admin.calling import Caller, is_doubtful
from ottla.client.admin.config import AdminConfig
from ottla.client.admin.outcomes import all_or_raise, outcome_of
from ottla.client.admin.positions import EARLIEST, LATEST, by_topic, offsets_at
from ottla.client.admin.topics import create_topic, list_partitions
from ottla.client.consumer.fetched import Fetched, fetched_of
from ottla.client.engine import Engine
from ottla.client.faces import Driver
from ottla.client.ports import real_ports
from ottla.client.producer.partitioners import murmur2
from ottla.client.records import Record
from ottla.errors import DeadlineError, OttlaError, TransportError, raise_for_code
from ottla.model import TopicPartition
from ottla.records.builder import build
from ottla.records.shapes import Unwritten
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

P = ParamSpec("P")
T = TypeVar("T")

PlainRecord = Record[bytes | None, bytes | None]

PATIENCE_MS: Final = 60_000
_PAUSE_S: Final = 0.01
_ALL_REPLICAS: Final = -1
_FETCH_WAIT_MS: Final = 500
_FETCH_BYTES: Final = 1024 * 1024
_NEWEST_WITH_NAMES: Final = 12
"""Later versions of Produce and Fetch name topics by their ids only."""


class Probe:
    """A client of one cluster, for the tests that use it."""

    def __init__(
        self, bootstrap_servers: str, *, client_id: str, now_ms: Callable[[], int]
    ) -> None:
        """Connect.

        Args:
            bootstrap_servers: Where the cluster is.
            client_id: How it is known there.
            now_ms: The clock that gives produced records their time.
        """
        config = AdminConfig.of(
            bootstrap_servers,
            client_id=client_id,
            default_api_timeout_ms=PATIENCE_MS,
            connections_max_idle_ms=-1,
            retry_backoff_ms=1,  # the pause between two looks at the metadata, too
        )
        self._now_ms = now_ms
        self._engine = Engine(config, real_ports(), creates_topics=True)
        self._driver = Driver(self._engine)
        try:
            self._driver.run_blocking(self._engine.connect())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connections and end the thread."""
        self._driver.close_blocking()

    def create_topic(self, topic: str, partitions: int, config: Mapping[str, str]) -> None:
        self._do(create_topic, topic, partitions=partitions, config=config)

    def produce(
        self, topic: str, values: list[bytes | None], key: bytes | None, partition: int | None
    ) -> None:
        now_ms = self._now_ms()
        self._do(_produce, topic, [(now_ms, key, value, ()) for value in values], partition)

    def records(self, topic: str, *, committed: bool) -> list[PlainRecord]:
        """Everything that is there now, sorted by partition and offset."""
        return self._do(_read, topic, committed)

    def end_offsets(self, topic: str, *, committed: bool) -> dict[int, int]:
        return self._do(_end_offsets, topic, committed)

    def wait_for(
        self, topic: str, count: int, *, timeout_s: float, committed: bool
    ) -> list[PlainRecord]:
        """What `records` gives once it is `count` records or more."""
        deadline = time.monotonic() + timeout_s
        ends: dict[int, int] | None = None
        found: list[PlainRecord] = []
        while True:
            now_ends = self.end_offsets(topic, committed=committed)
            if now_ends != ends:
                ends, found = now_ends, self.records(topic, committed=committed)
            if len(found) >= count:
                return found
            if time.monotonic() >= deadline:
                raise DeadlineError(
                    f"topic {topic!r} has {len(found)} of {count} records after {timeout_s:g} s"
                )
            time.sleep(_PAUSE_S)

    def _do(
        self,
        work: Callable[Concatenate[Caller, P], Coroutine[Any, Any, T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        async def call() -> T:
            return await work(Caller(self._engine), *args, **kwargs)

        return self._driver.run_blocking(call())


async def _produce(
    caller: Caller, topic: str, records: Sequence[Unwritten], partition: int | None
) -> None:
    """Write records, by key or in turns; a topic that is missing is created, if brokers do so."""
    if topic in caller.engine.cluster.topics:
        await caller.engine.refresh()  # the test may have deleted it since
    view = await caller.engine.topic(topic)
    turns = itertools.count()
    shares: dict[TopicPartition, list[Unwritten]] = {}
    for record in records:
        key = record[1]
        number = next(turns) if key is None else murmur2(bytes(key))
        chosen = number % len(view.partitions) if partition is None else partition
        shares.setdefault(TopicPartition(topic, chosen), []).append(record)

    async def ask(
        leader_id: int, asked: Sequence[TopicPartition]
    ) -> dict[TopicPartition, int | OttlaError]:
        data = tuple(
            PartitionProduceData(index=tp.partition, records=build(shares[tp])) for tp in asked
        )
        request = ProduceRequest(
            acks=_ALL_REPLICAS,
            timeout_ms=caller.answer_ms,
            topic_data=(TopicProduceData(name=topic, partition_data=data),),
        )
        try:
            answer = await caller.ask(
                request, ProduceResponse, to=leader_id, max_version=_NEWEST_WITH_NAMES
            )
        except TransportError as error:
            error.retriable = not is_doubtful(error)  # or the records might be written twice
            raise
        return {
            TopicPartition(topic, told.index): outcome_of(
                told.error_code, told.error_message or f"partition {topic}-{told.index}", 0
            )
            for told in answer.responses[0].partition_responses
        }

    all_or_raise(await caller.ask_leaders(shares, ask, what=f"producing to {topic!r}"))


async def _offsets(
    caller: Caller, topic: str, timestamp_ms: int, *, committed: bool = False
) -> dict[TopicPartition, int]:
    """An offset of each partition; nothing if there is no such topic."""
    partitions = await list_partitions(caller, [topic], missing_ok=True)
    return all_or_raise(await offsets_at(caller, partitions, timestamp_ms, is_committed=committed))


async def _end_offsets(caller: Caller, topic: str, committed: bool) -> dict[int, int]:
    ends = await _offsets(caller, topic, LATEST, committed=committed)
    return {tp.partition: offset for tp, offset in sorted(ends.items())}


async def _read(caller: Caller, topic: str, committed: bool) -> list[PlainRecord]:
    ends = await _offsets(caller, topic, LATEST, committed=committed)
    starts = await _offsets(caller, topic, EARLIEST)
    positions = {tp: offset for tp, offset in starts.items() if offset < ends.get(tp, 0)}
    found: list[PlainRecord] = []
    while positions:
        if not caller.left_ms:
            raise DeadlineError(f"topic {topic!r} could not be read within {PATIENCE_MS} ms")
        for tp, fetched in (await _fetched(caller, positions, committed)).items():
            found += [record for record in fetched.records() if record.offset < ends[tp]]
            positions[tp] = fetched.next_offset
            if fetched.next_offset >= ends[tp]:
                del positions[tp]
    return sorted(found, key=lambda record: (record.partition, record.offset))


async def _fetched(
    caller: Caller, positions: Mapping[TopicPartition, int], committed: bool
) -> dict[TopicPartition, Fetched]:
    """What each partition has from its position on."""

    async def ask(
        leader_id: int, asked: Sequence[TopicPartition]
    ) -> dict[TopicPartition, Fetched | OttlaError]:
        topics = by_topic(
            asked,
            lambda tp: FetchPartition(
                partition=tp.partition,
                fetch_offset=positions[tp],
                partition_max_bytes=_FETCH_BYTES,
            ),
        )
        answer = await caller.ask(
            FetchRequest(
                max_wait_ms=_FETCH_WAIT_MS,
                min_bytes=1,
                isolation_level=int(committed),
                topics=tuple(FetchTopic(topic=t, partitions=p) for t, p in topics.items()),
            ),
            FetchResponse,
            to=leader_id,
            max_version=_NEWEST_WITH_NAMES,
        )
        raise_for_code(answer.error_code, "fetch")
        return {
            tp: outcome_of(
                data.error_code,
                f"partition {tp} at offset {positions[tp]}",
                fetched_of(tp, positions[tp], data, read_committed=committed),
            )
            for topic in answer.responses
            for data in topic.partitions
            for tp in (TopicPartition(topic.topic, data.partition_index),)
        }

    return all_or_raise(await caller.ask_leaders(positions, ask, what="reading"))
