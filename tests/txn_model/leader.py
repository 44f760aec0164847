"""A partition's leader: the real rules for producers, and the question to the coordinator.

Before a producer begins a transaction here, the leader asks the coordinator (KIP-890): of version
1, whether the partition was added; of version 2, to add it.  It keeps a guard for each such
producer until something is appended for it: an answer that comes after a marker is void.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from ottla.coordinator.effects import WriteMarkers
from ottla.coordinator.txn.transaction import Producer
from ottla.errors import ErrorCode
from ottla.log.producer_state import CompletedTransaction, ProducerStates
from ottla.model import TopicPartition
from ottla.records.batch import Batch
from ottla.records.builder import BatchOptions, build
from ottla.records.control import Marker, build_marker
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tests.txn_model.stage import Call, Connection, Node, Reply, Stage, added_error

BROKERS_VERSION = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Produce:
    """One record of a transaction, as a batch of its own."""

    transactional_id: str
    producer: Producer
    sequence: int
    value: str
    transaction_version: int


class Produced(NamedTuple):
    error_code: ErrorCode
    offset: int = -1


class _Question(NamedTuple):
    """What waits for the coordinator's answer."""

    connection: Connection
    call: Call
    guard: int


class Leader:
    """One partition."""

    def __init__(self, stage: Stage, partition: TopicPartition, coordinator: Node) -> None:
        self.name = f"{partition.topic}{partition.partition}"
        self.partition = partition
        self._stage = stage
        self._coordinator = coordinator
        self._log: list[tuple[Batch, str | None]] = []
        self._start(durable_count=0)

    def _start(self, durable_count: int) -> None:
        del self._log[durable_count:]
        self._durable_count = durable_count
        self._producers = ProducerStates()
        self._aborted: list[CompletedTransaction] = []
        self._guards: dict[int, int] = {}
        self._questions: dict[Connection, _Question] = {}
        self._waiting: list[tuple[int, Connection, Call, object]] = []
        for batch, _ in self._log:
            self._apply(batch)
        self._producers.advance_high_watermark(durable_count)

    def serve(self, connection: Connection, call: Call) -> None:
        if isinstance(call.body, WriteMarkers):
            self._mark(connection, call, call.body)
        elif not self._stage.rules.verifies or self._has_open(call.body.producer):
            self._append(connection, call, guard=None)
        else:
            self._ask(connection, call)

    def _has_open(self, producer: Producer) -> bool:
        state = self._producers.of(producer.producer_id)
        is_open = state is not None and state.open_since_offset is not None
        return is_open and state is not None and state.epoch == producer.epoch

    # Verification

    def _ask(self, connection: Connection, call: Call) -> None:
        produce: Produce = call.body
        topic, index = self.partition
        asked = AddPartitionsToTxnTransaction(
            transactional_id=produce.transactional_id,
            producer_id=produce.producer.producer_id,
            producer_epoch=produce.producer.epoch,
            verify_only=produce.transaction_version == 1,
            topics=(AddPartitionsToTxnTopic(name=topic, partitions=(index,)),),
        )
        number = next(self._stage.numbers)
        guard = self._guards.setdefault(produce.producer.producer_id, number)
        question = self._stage.connect(self, self._coordinator)
        self._questions[question] = _Question(connection, call, guard)
        verb = "may I" if asked.verify_only else "add"
        label = f"{verb} {self.name}? ({asked.producer_id}/{asked.producer_epoch})"
        request = AddPartitionsToTxnRequest(transactions=(asked,))
        question.send(Call(request, label, BROKERS_VERSION))

    def hear(self, connection: Connection, reply: Reply) -> None:
        question = self._questions.pop(connection)
        connection.abandon()
        error = added_error(reply.response)
        if error is ErrorCode.NONE:
            self._append(question.connection, question.call, question.guard)
        else:
            question.connection.reply(question.call, Produced(error))

    def give_up(self, connection: Connection) -> None:
        question = self._questions.pop(connection)
        question.connection.reply(question.call, Produced(ErrorCode.NOT_ENOUGH_REPLICAS))

    # Appends

    def _append(self, connection: Connection, call: Call, guard: int | None) -> None:
        produce: Produce = call.body
        options = BatchOptions(
            producer_id=produce.producer.producer_id,
            producer_epoch=produce.producer.epoch,
            base_sequence=produce.sequence,
            is_transactional=True,
        )
        record = (self._stage.now_ms, None, produce.value.encode(), ())
        batch = Batch.parse(build([record], options))
        verdict = self._producers.check(batch, self._stage.now_ms)
        if verdict is not None and verdict.error is not ErrorCode.NONE:
            connection.reply(call, Produced(verdict.error))
        elif verdict is not None:
            self._reply_later(
                verdict.last_offset, connection, call, Produced(verdict.error, verdict.base_offset)
            )
        elif not self._is_verified(produce.producer, guard):
            connection.reply(call, Produced(ErrorCode.INVALID_TXN_STATE))
        else:
            offset = self._store(batch, produce.value)
            self._reply_later(offset, connection, call, Produced(ErrorCode.NONE, offset))

    def _is_verified(self, producer: Producer, guard: int | None) -> bool:
        rules = self._stage.rules
        if not (rules.verifies and rules.guards) or self._has_open(producer):
            return True
        return guard is not None and self._guards.get(producer.producer_id) == guard

    def _mark(self, connection: Connection, call: Call, order: WriteMarkers) -> None:
        marker = Marker(
            is_commit=order.is_commit,
            producer_id=order.producer_id,
            producer_epoch=order.producer_epoch,
            coordinator_epoch=order.coordinator_epoch,
            timestamp_ms=self._stage.now_ms,
        )
        batch = Batch.parse(build_marker(marker))
        is_strict = self._stage.rules.refuses_late_markers
        verdict = self._producers.check(
            batch,
            self._stage.now_ms,
            transaction_version=order.transaction_version if is_strict else 0,
        )
        if verdict is not None:
            connection.reply(call, verdict.error)
        else:
            self._reply_later(self._store(batch, None), connection, call, ErrorCode.NONE)

    def _store(self, batch: Batch, value: str | None) -> int:
        offset = len(self._log)
        batch.place(offset, leader_epoch=0)
        self._log.append((batch, value))
        self._apply(batch)
        self._guards.pop(batch.producer_id, None)
        return offset

    def _apply(self, batch: Batch) -> None:
        completed = self._producers.apply(batch)
        if completed is not None and completed.is_aborted:
            self._aborted.append(completed)

    # Durability

    @property
    def is_dirty(self) -> bool:
        return self._durable_count < len(self._log)

    def _reply_later(
        self, offset: int, connection: Connection, call: Call, response: object
    ) -> None:
        must_wait = self._stage.rules.leaders_wait
        self._waiting.append((offset if must_wait else -1, connection, call, response))
        self._release()

    def _release(self) -> None:
        waiting, self._waiting = self._waiting, []
        for offset, connection, call, response in waiting:
            if offset < self._durable_count:
                connection.reply(call, response)
            else:
                self._waiting.append((offset, connection, call, response))

    def sync(self) -> None:
        self._durable_count = len(self._log)
        self._producers.advance_high_watermark(self._durable_count)
        self._release()

    def crash(self, thirds: int) -> None:
        tail_count = len(self._log) - self._durable_count
        self._stage.lose(self)
        self._start(self._durable_count + tail_count * thirds // 3)

    # Reading

    @property
    def last_stable_offset(self) -> int:
        first_unstable = self._producers.first_unstable_offset
        durable = self._durable_count
        return durable if first_unstable is None else min(first_unstable, durable)

    def committed(self, from_offset: int) -> Iterable[tuple[int, str]]:
        """What a read_committed consumer sees from an offset on."""
        for offset in range(from_offset, self.last_stable_offset):
            batch, value = self._log[offset]
            if value is not None and not self._is_aborted(batch, offset):
                yield offset, value

    def _is_aborted(self, batch: Batch, offset: int) -> bool:
        return any(
            ended.producer_id == batch.producer_id
            and ended.first_offset <= offset <= ended.last_offset
            for ended in self._aborted
        )

    def hanging(self) -> list[str]:
        """Producers whose transactions nobody has ended."""
        return [
            f"{self.name}: producer {state.producer_id} since offset {state.open_since_offset}"
            for state in self._producers
            if state.open_since_offset is not None
        ]
