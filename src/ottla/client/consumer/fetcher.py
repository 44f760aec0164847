"""Asks leaders for records, ahead of what the caller reads; lives on the I/O thread.

At any time one fetch is under way to each broker that leads something with room on the shelf: while
the caller works on one chunk, the next one is on its way.  A partition has room while few chunks of
it are queued and all together are below `queued.max.bytes`.

Answers to questions that nobody asks any more (a seek came between) are recognized by the number
of their partition, and dropped.
"""

import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.client.cluster_view import Leader, Node
from ottla.client.consumer.chunks import Chunk, Trouble
from ottla.client.consumer.config import ConsumerConfig
from ottla.client.consumer.fetch_session import FetchLimits, FetchSession, partitions_of
from ottla.client.consumer.partition import Partition
from ottla.client.consumer.shelf import Shelf
from ottla.client.duty import Duty
from ottla.client.engine import Engine
from ottla.errors import (
    BatchError,
    ErrorCode,
    OttlaError,
    RefreshError,
    UnknownTopicError,
    exception_for,
)
from ottla.model import TopicPartition
from ottla.records.batch import batches
from ottla.wire.messages.fetch import FetchPartition, FetchResponse, PartitionData

log = logging.getLogger(__name__)

LANE: Final = "fetch"
"""Fetches wait for records, and nothing else shall wait behind them."""
MAX_CHUNKS: Final = 3
"""How many answers of one partition are queued."""


class Asked(NamedTuple):
    """What a request in flight asked about a partition."""

    partition: Partition
    number: int
    offset: int


class Fetcher:
    """Made in the loop of the engine; `wake` it when something has room or a position."""

    def __init__(
        self, engine: Engine, shelf: Shelf, config: ConsumerConfig, on_news: Callable[[], None]
    ) -> None:
        self._engine = engine
        self._shelf = shelf
        self._config = config
        self._on_news = on_news
        self._duty = Duty(self._send_all)
        self.sessions: dict[int, FetchSession] = {}
        """With whom, by node id."""
        self._cluster_version = -1
        self._in_flight: set[int] = set()
        self._has_news = False
        """Whether something was put on the shelf that the caller was not told of."""
        self._limits = FetchLimits(
            max_wait_ms=config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            isolation_level=int(config.is_committed_only),
            rack_id=config.client_rack,
        )
        engine.subscribe(self.wake)

    def wake(self) -> None:
        """Look again for what can be fetched."""
        self._duty.call()

    async def run(self) -> None:
        """Fetch for ever."""
        await self._duty.run()

    def _send_all(self) -> float | None:
        """Send what can be sent now; when something else may be, None: not by itself."""
        engine = self._engine
        if not self._shelf.look_for_room(MAX_CHUNKS, self._config.queued_max_bytes):
            return None  # who makes room wakes us
        now_ms = engine.now_ms()
        waiting: list[int] = []
        for node_id, partitions in self._plan(now_ms, waiting).items():
            if engine.is_ready(node_id, lane=LANE):
                self._send(node_id, partitions)
            elif (delay_ms := engine.delay_ms(node_id, lane=LANE)) > 0:
                waiting.append(delay_ms)
        return (now_ms + min(waiting)) / 1000 if waiting else None

    def _plan(self, now_ms: int, waiting: list[int]) -> dict[int, list[tuple[Partition, Leader]]]:
        """Node -> what to ask it, for nodes that have nothing to answer yet.

        How long others wait before they may be asked for goes to `waiting`.
        """
        cluster = self._engine.metadata.cluster
        if cluster.version != self._cluster_version:
            self._cluster_version = cluster.version
            self.sessions = {n: s for n, s in self.sessions.items() if n in cluster.nodes}
        plan: dict[int, list[tuple[Partition, Leader]]] = {}
        for partition in self._shelf:
            if partition.retry_at_ms > now_ms:
                waiting.append(partition.retry_at_ms - now_ms)
                continue
            if not partition.wants_fetch(MAX_CHUNKS):
                continue
            leader = cluster.leader(partition.tp)
            if leader is None:
                self._engine.metadata.refresh()
                self._engine.wake_metadata()
                self._pause(partition)
            elif leader == partition.validated and leader.node_id not in self._in_flight:
                plan.setdefault(leader.node_id, []).append((partition, leader))
        return plan

    def _send(self, node_id: int, partitions: list[tuple[Partition, Leader]]) -> None:
        engine = self._engine
        session = self.sessions.get(node_id)
        if session is None:
            session = self.sessions[node_id] = FetchSession(self._limits)
        asked: dict[TopicPartition, Asked] = {}
        wanted: dict[TopicPartition, FetchPartition] = {}
        with self._shelf.lock:
            for partition, leader in partitions:
                tp = partition.tp
                asked[tp] = Asked(partition, partition.number, partition.fetch_offset)
                wanted[tp] = self._question(partition, leader.epoch)
                partition.is_in_flight = True
        topics = engine.metadata.cluster.topics
        ids = {tp.topic: topics[tp.topic].topic_id for tp in wanted if tp.topic in topics}
        request, max_version = session.request(wanted, ids)
        timeout_ms = self._config.request_timeout_ms + self._config.fetch_max_wait_ms
        self._in_flight.add(node_id)
        self._tell_news()
        try:
            engine.hand(
                request,
                FetchResponse,
                lambda told: self._answered(node_id, session, asked, told),
                to=node_id,
                lane=LANE,
                timeout_ms=timeout_ms,
                max_version=max_version,
            )
        except OttlaError as error:
            self._failed(node_id, session, asked, error)

    def _question(self, partition: Partition, leader_epoch: int) -> FetchPartition:
        """What to ask about a partition; the same object as long as that is the same."""
        question = partition.question
        if (
            question is None
            or question.fetch_offset != partition.fetch_offset
            or question.current_leader_epoch != leader_epoch
        ):
            question = partition.question = FetchPartition(
                partition=partition.tp.partition,
                current_leader_epoch=leader_epoch,
                fetch_offset=partition.fetch_offset,
                partition_max_bytes=self._config.max_partition_fetch_bytes,
            )
        return question

    def _answered(
        self,
        node_id: int,
        session: FetchSession,
        asked: dict[TopicPartition, Asked],
        answer: FetchResponse | OttlaError,
    ) -> None:
        if self._engine.is_closed:
            return
        if isinstance(answer, OttlaError):
            self._failed(node_id, session, asked, answer)
            return
        self._engine.metrics.count("fetch-total")
        if not session.answered(answer):
            code = ErrorCode.of(answer.error_code)
            log.debug("fetch session with broker %d begins again: %s", node_id, code.name)
            trouble = exception_for(answer.error_code, f"fetch from broker {node_id}")
            self._failed(node_id, session, asked, trouble)
            return
        self._in_flight.discard(node_id)
        self._release(asked)
        if answer.node_endpoints:
            self._hear_leaders(answer)
        for tp, data in partitions_of(answer, self._engine.metadata.cluster.names):
            if (question := asked.get(tp)) is not None:
                self._has_news = self._take_in(question, data) or self._has_news
        # Now, and not in the next turn of the loop: the broker works while the caller reads.
        self._duty.turn()
        self._tell_news()

    def _tell_news(self) -> None:
        """Wake the caller, if there is something to read.

        As late as may be, but before a request is written: who is woken wants to run, and while we
        are in a system call he can.
        """
        if self._has_news:
            self._has_news = False
            self._on_news()

    def _take_in(self, question: Asked, data: PartitionData) -> bool:
        """Put one partition's part on the shelf; whether there is something to read now."""
        partition, number, offset = question
        if data.error_code != ErrorCode.NONE:
            return self._refused(question, data.error_code)
        with self._shelf.lock:
            if partition.number != number:
                return False
            partition.end_offset = (
                data.last_stable_offset if self._config.is_committed_only else data.high_watermark
            )
        if not data.records:
            return False
        try:
            found = list(batches(data.records, partial_tail=True))
        except BatchError as error:
            return self._shelf.put_trouble(partition, number, offset, Trouble(error))
        if not found:
            detail = (
                f"the batch at offset {offset} of {partition.tp} is larger than "
                f"max.partition.fetch.bytes = {self._config.max_partition_fetch_bytes}"
            )
            trouble = Trouble(exception_for(ErrorCode.RECORD_LIST_TOO_LARGE, detail))
            return self._shelf.put_trouble(partition, number, offset, trouble)
        aborted = None
        if self._config.is_committed_only:
            told = data.aborted_transactions or ()
            aborted = [(entry.first_offset, entry.producer_id) for entry in told]
        chunk = Chunk(
            partition.tp, offset, found, aborted=aborted, checks_crcs=self._config.check_crcs
        )
        self._engine.metrics.count("bytes-consumed-total", chunk.size_bytes)
        return self._shelf.put(partition, number, chunk, found[-1].partition_leader_epoch)

    def _refused(self, question: Asked, code: int) -> bool:
        partition, number, offset = question
        error = exception_for(code, f"partition {partition.tp} at offset {offset}")
        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
            # Whether that is an error is decided when the reader comes here.
            return self._shelf.put_trouble(partition, number, offset, Trouble(None))
        if error.retriable or error.code is ErrorCode.UNKNOWN_SERVER_ERROR:
            log.debug("fetch refused: %s", error)
            self._pause(partition)
            self._engine.hear(error)
            if isinstance(error, RefreshError) and not isinstance(error, UnknownTopicError):
                partition.validated = None
            return False
        return self._shelf.put_trouble(partition, number, offset, Trouble(error))

    def _hear_leaders(self, answer: FetchResponse) -> None:
        """A leader that is not one any more may say who is (KIP-951)."""
        found = {
            tp: Leader(data.current_leader.leader_id, data.current_leader.leader_epoch)
            for tp, data in partitions_of(answer, self._engine.cluster.names)
            if data.current_leader.leader_id >= 0
        }
        nodes = [Node(n.node_id, n.host, n.port, n.rack) for n in answer.node_endpoints]
        self._engine.metadata.update_leaders(found, nodes)

    def _failed(
        self,
        node_id: int,
        session: FetchSession,
        asked: dict[TopicPartition, Asked],
        error: OttlaError,
    ) -> None:
        session.lost()
        self._in_flight.discard(node_id)
        self._release(asked)
        for question in asked.values():
            self._pause(question.partition)
        if not self._engine.is_closed:
            self._engine.hear(error)
        self.wake()

    def _release(self, asked: dict[TopicPartition, Asked]) -> None:
        with self._shelf.lock:
            for partition, number, _ in asked.values():
                if partition.number == number:
                    partition.is_in_flight = False

    def _pause(self, partition: Partition) -> None:
        delay_ms = self._engine.backoff.delay_ms(1, self._engine.ports.entropy.random())
        partition.retry_at_ms = self._engine.now_ms() + delay_ms
