"""Brings the batches of one range, ahead of the task that decodes them.

Of answers one is with Spark, one is decoded, `MAX_QUEUED` wait, and one arrives: what a task holds
is bounded by four times `max.partition.fetch.bytes`, unless a single batch is larger.

Requests name the topic by the id that the plan has, where brokers know ids: another topic of the
same name answers with an error, never with its records.
"""

import asyncio
from collections.abc import Iterator
from typing import Final

from ottla.client.admin.calling import Caller
from ottla.client.admin.outcomes import all_or_raise
from ottla.client.admin.positions import offsets_at
from ottla.client.consumer.chunks import Chunk
from ottla.client.consumer.config import ConsumerConfig
from ottla.client.consumer.fetch_session import NEWEST_WITH_NAMES
from ottla.client.engine import Engine
from ottla.client.faces import Driver, next_client_id
from ottla.client.ports import real_ports
from ottla.client.targets import LeaderOf
from ottla.config import MIB
from ottla.errors import (
    BatchError,
    DeadlineError,
    ErrorCode,
    OttlaError,
    UnknownTopicError,
    exception_for,
    raise_for_code,
)
from ottla.model import TopicPartition, uuid_from_text, uuid_text
from ottla.records.batch import batches
from ottla.spark.option_values import EARLIEST, LATEST
from ottla.spark.options import SourceOptions
from ottla.spark.source import loss
from ottla.spark.source.planning import OffsetRange
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from ottla.wire.schema import NO_UUID

MAX_QUEUED: Final = 1
FETCH_BYTES: Final = 7 * MIB
"""Each fetch has its price, and so has each batch that Spark is given, but only up to 8 MiB: beyond
that, Java takes fresh memory for it.  Columns are a little larger than what was fetched."""
MAX_CLIENTS: Final = 4
"""How many clients a worker process keeps: one for each set of settings."""
EMPTY_ANSWERS: Final = 2
"""How often a broker must say that nothing is there, before a range counts as read to its end."""

_NO_SESSION_EPOCH: Final = -1
_TOPIC_TIMEOUT_MS: Final = 2_000
"""How long to wait for news of a topic that seems to be gone, before finding out."""
_clients: Final[dict[tuple[tuple[str, str], ...], Driver]] = {}


def client_of(options: SourceOptions) -> Driver:
    """A client with these settings, kept for as long as the process lives: Spark ends it."""
    key = tuple(sorted(options.client.items()))
    found = _clients.get(key)
    if found is not None and not found.engine.is_closed:
        return found
    while len(_clients) >= MAX_CLIENTS:
        _clients.pop(next(iter(_clients))).close_blocking()
    defaults: dict[str, object] = {}
    if "max.partition.fetch.bytes" not in options.client:
        defaults["max.partition.fetch.bytes"] = FETCH_BYTES
    config = options.client_config(ConsumerConfig, defaults)
    engine = Engine(config, real_ports(), client_id=next_client_id("spark-task"))
    _clients[key] = Driver(engine)
    return _clients[key]


def close_clients() -> None:
    """Let go of all of them, in a process that lives on and reads no more."""
    while _clients:
        _clients.popitem()[1].close_blocking()


def fetched(options: SourceOptions, wanted: OffsetRange, topic_id: str) -> Iterator[Chunk]:
    """Chunks that cover the range, in order; what they have beyond it is for the caller to cut."""
    driver = client_of(options)
    fetcher = RangeFetcher(driver.engine, options, wanted, topic_id)
    driver.run_blocking(fetcher.start())
    try:
        while (chunk := driver.run_blocking(fetcher.next_chunk())) is not None:
            yield chunk
    finally:
        driver.run_blocking(fetcher.stop())


class RangeFetcher:
    """Fetches one range; its methods run in the engine's loop."""

    def __init__(
        self, engine: Engine, options: SourceOptions, wanted: OffsetRange, topic_id: str
    ) -> None:
        assert isinstance(engine.config, ConsumerConfig)
        self._engine = engine
        self._config = engine.config
        self._options = options
        self._wanted = wanted
        self._tp: TopicPartition = wanted.tp
        self._topic_id = uuid_from_text(topic_id) if topic_id else NO_UUID
        self._position = wanted.start_offset
        self._queue: asyncio.Queue[Chunk | OttlaError | None] = asyncio.Queue(MAX_QUEUED)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def next_chunk(self) -> Chunk | None:
        """The next one; None at the end.  Raises what went wrong."""
        found = await self._queue.get()
        if isinstance(found, OttlaError):
            raise found
        return found

    async def stop(self) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            while self._position < self._wanted.end_offset:
                if (chunk := await self._next()) is not None:
                    await self._queue.put(chunk)
            await self._queue.put(None)
        except OttlaError as error:
            await self._queue.put(error)

    async def _next(self) -> Chunk | None:
        """The chunk at the position, which moves along; None if it moved over nothing."""
        timeout_ms = self._options.poll_timeout_ms
        empty_count = 0
        while True:
            try:
                data = await self._engine.repeat(
                    self._ask,
                    what=f"reading {self._tp}",
                    to=LeaderOf(self._tp),
                    timeout_ms=timeout_ms,
                )
            except DeadlineError as error:
                raise DeadlineError(
                    f"no records of {self._tp} from offset {self._position} on came within "
                    f"{timeout_ms} ms (kafkaConsumer.pollTimeoutMs): {error}"
                ) from error
            if data is None:
                return None
            if data.records:
                return self._chunk(data)
            empty_count += 1
            if empty_count >= EMPTY_ANSWERS and self._is_seen_to_the_end(data):
                # Nothing is left between here and the end: compaction took it.
                self._position = self._wanted.end_offset
                return None

    def _is_seen_to_the_end(self, data: PartitionData) -> bool:
        end_offset = data.high_watermark
        if self._options.is_committed_only:
            end_offset = data.last_stable_offset
        return end_offset >= self._wanted.end_offset

    def _chunk(self, data: PartitionData) -> Chunk:
        found = list(batches(data.records or b"", partial_tail=True))
        if not found:
            raise BatchError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"the batch at offset {self._position} of {self._tp} is larger than "
                f"kafka.max.partition.fetch.bytes = {self._config.max_partition_fetch_bytes}",
            )
        aborted = None
        if self._options.is_committed_only:
            told = data.aborted_transactions or ()
            aborted = [(entry.first_offset, entry.producer_id) for entry in told]
        chunk = Chunk(
            self._tp, self._position, found, aborted=aborted, checks_crcs=self._config.check_crcs
        )
        self._position = chunk.next_offset
        return chunk

    async def _ask(self) -> PartitionData | None:
        """What the leader has at the position; None if there was loss, and the position moved."""
        try:
            if self._engine.cluster.leader(self._tp) is None:
                await self._engine.topic(self._tp.topic, _TOPIC_TIMEOUT_MS)
            answer = await self._engine.ask(
                self._request(),
                FetchResponse,
                to=LeaderOf(self._tp),
                timeout_ms=self._config.request_timeout_ms + self._config.fetch_max_wait_ms,
                max_version=NEWEST_WITH_NAMES if self._topic_id == NO_UUID else None,
            )
            found = [data for topic in answer.responses for data in topic.partitions]
            code = found[0].error_code if found else answer.error_code
            if code == ErrorCode.OFFSET_OUT_OF_RANGE:
                await self._hear_out_of_range()
                return None
            raise_for_code(code, f"partition {self._tp} at offset {self._position}")
        except UnknownTopicError:
            if await self._is_gone():
                return None
            raise
        if not found:  # the broker is busy, and wants to be left alone for a while
            raise exception_for(ErrorCode.THROTTLING_QUOTA_EXCEEDED, f"partition {self._tp}")
        return found[0]

    def _request(self) -> FetchRequest:
        wanted = FetchPartition(
            partition=self._tp.partition,
            fetch_offset=self._position,
            partition_max_bytes=self._config.max_partition_fetch_bytes,
        )
        return FetchRequest(
            max_wait_ms=self._config.fetch_max_wait_ms,
            min_bytes=1,
            max_bytes=self._config.fetch_max_bytes,
            isolation_level=int(self._options.is_committed_only),
            session_epoch=_NO_SESSION_EPOCH,
            topics=(
                FetchTopic(topic=self._tp.topic, topic_id=self._topic_id, partitions=(wanted,)),
            ),
        )

    async def _hear_out_of_range(self) -> None:
        first, last = [
            all_or_raise(await offsets_at(Caller(self._engine), [self._tp], at))[self._tp]
            for at in (EARLIEST, LATEST)
        ]
        fails = self._options.fail_on_data_loss
        if self._position < first:
            loss.report(loss.retention_passed(self._tp, self._position, first), fails=fails)
            self._position = min(first, self._wanted.end_offset)
        elif self._position > last:
            loss.report(loss.beyond_end(self._tp, self._position, last), fails=fails)
            self._position = self._wanted.end_offset

    async def _is_gone(self) -> bool:
        """Whether the topic is gone, or another has its name: then the range is at its end.

        Else it is only not known yet, or somebody else leads it.
        """
        topic, read = self._tp.topic, {self._tp: self._position}
        cluster = await self._engine.refresh()
        found = cluster.topics.get(topic)
        if found is None:
            if cluster.errors.get(topic) is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return False
            message = loss.topic_deleted(topic, read)
        elif self._topic_id == NO_UUID or found.topic_id in (NO_UUID, self._topic_id):
            return False
        else:
            ids = uuid_text(self._topic_id), uuid_text(found.topic_id)
            message = loss.topic_made_anew(topic, *ids, read)
        loss.report(message, fails=self._options.fail_on_data_loss)
        self._position = self._wanted.end_offset
        return True
