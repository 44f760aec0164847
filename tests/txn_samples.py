"""A transaction coordinator on a desk: a shell without disk or loop, and partitions to write to.

`Desk` performs effects as the broker does, keeps the log it was given, and checks on the way what
must always hold: every ticket is answered once, and every answer can be encoded in its version.
Markers lie in `orders` until a test has them written.
"""

from itertools import count
from typing import Any

from ottla.coordinator.caller import Caller
from ottla.coordinator.config import TransactionConfig
from ottla.coordinator.effects import (
    Alarm,
    AlarmName,
    Answer,
    Effect,
    Persist,
    StoredRecord,
    WriteMarkers,
)
from ottla.coordinator.txn.machine import TransactionCoordinator
from ottla.coordinator.txn.transaction import Producer, Transaction
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.wire.codec import encode
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest, TransactionState
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

TXN = "payments-1"
START_MS = 1_700_000_000_000
TIMEOUT_MS = 60_000
NEW = Producer(-1, -1)
P0 = TopicPartition("orders", 0)
P1 = TopicPartition("orders", 1)


class Desk:
    """One coordinator, its log, its alarms, its orders, and the time."""

    def __init__(self, **settings: Any) -> None:
        self.config = TransactionConfig(**settings)
        self.now_ms = START_MS
        self.log: list[StoredRecord] = []
        self.orders: list[WriteMarkers] = []
        self.ids = count(1000)
        self.has_ids = True
        self.tickets = count(1)
        self.effects: list[Effect] = []  # those of the last question
        self.crash_after: int | None = None  # so many effects of the next question
        self.machine = self.started()

    def replayed(self) -> TransactionCoordinator:
        machine = TransactionCoordinator(
            self.config,
            coordinator_epoch=7,
            fresh_producer_id=lambda: next(self.ids) if self.has_ids else None,
            offsets_partition=len,
        )
        for record in self.log:
            machine.apply(record)
        return machine

    def started(self) -> TransactionCoordinator:
        """A coordinator that has read the log, with none of what the old one kept in mind."""
        self.alarms: dict[AlarmName, int] = {}
        self.orders = []
        self.reported: dict[int, set[TopicPartition]] = {}  # by order
        self.machine = self.replayed()
        self.perform(self.machine.on_loaded(self.now_ms))
        return self.machine

    def perform(self, effects: list[Effect]) -> dict[int, Any]:
        """Do what the machine says; the answers that came of it."""
        self.effects = effects
        answers: dict[int, Any] = {}
        crash_after, self.crash_after = self.crash_after, None
        for effect in effects[:crash_after]:
            match effect:
                case Persist(records):
                    self.log += [StoredRecord(r.key, r.value) for r in records]  # as on disk
                    for record in records:
                        self.machine.apply(record)
                case Answer(ticket, response):
                    assert ticket not in answers
                    answers[ticket] = response
                case Alarm(name, at_ms):
                    assert at_ms is not None
                    self.alarms[name] = at_ms
                case WriteMarkers():
                    self.orders.append(effect)
        if crash_after is not None:
            self.started()
        return answers

    def ask(self, verb: str, request: Any, version: int) -> Any:
        """Put a request; its answer, or `None` if the coordinator crashed before it."""
        ticket = next(self.tickets)
        will_crash = self.crash_after is not None
        decide = getattr(self.machine, verb)
        effects = decide(request, Caller("client", "/host", version), ticket, self.now_ms)
        answers = self.perform(effects)
        assert will_crash or list(answers) == [ticket], "each request has one answer"
        for response in answers.values():
            assert encode(response, version) is not None
        return answers.get(ticket)

    def init(self, expected: Producer = NEW, **fields: Any) -> InitProducerIdResponse | None:
        version = fields.pop("version", 6)
        request = InitProducerIdRequest(
            **{"transactional_id": TXN, "transaction_timeout_ms": TIMEOUT_MS, **fields},
            producer_id=expected.producer_id,
            producer_epoch=expected.epoch,
        )
        response: InitProducerIdResponse | None = self.ask("init_producer_id", request, version)
        return response

    def producer(self, expected: Producer = NEW, **fields: Any) -> Producer:
        """What a producer is given; the test fails if it is refused."""
        response = self.init(expected, **fields)
        assert response is not None
        assert response.error_code == ErrorCode.NONE
        return Producer(response.producer_id, response.producer_epoch)

    def add(
        self,
        producer: Producer,
        *partitions: TopicPartition,
        verify_only: bool = False,
        version: int = 3,
        transactional_id: str = TXN,
    ) -> list[int] | None:
        """The error of each partition; nobody answers if the coordinator crashes."""
        topics = tuple(
            AddPartitionsToTxnTopic(name=topic, partitions=(index,)) for topic, index in partitions
        )
        if version < 4:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=transactional_id,
                v3_and_below_producer_id=producer.producer_id,
                v3_and_below_producer_epoch=producer.epoch,
                v3_and_below_topics=topics,
            )
        else:
            asked = AddPartitionsToTxnTransaction(
                transactional_id=transactional_id,
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                verify_only=verify_only,
                topics=topics,
            )
            request = AddPartitionsToTxnRequest(transactions=(asked,))
        response = self.ask("add_partitions", request, version)
        if response is None:
            return None
        results = response.results_by_topic_v3_and_below
        if version >= 4:
            results = response.results_by_transaction[0].topic_results
        return [p.partition_error_code for topic in results for p in topic.results_by_partition]

    def add_offsets(self, producer: Producer, group_id: str, *, version: int = 3) -> int:
        request = AddOffsetsToTxnRequest(
            transactional_id=TXN,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            group_id=group_id,
        )
        code: int = self.ask("add_offsets", request, version).error_code
        return code

    def end(
        self, producer: Producer, *, is_commit: bool, version: int = 3, **fields: Any
    ) -> EndTxnResponse | None:
        request = EndTxnRequest(
            **{"transactional_id": TXN, **fields},
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=is_commit,
        )
        response: EndTxnResponse | None = self.ask("end_txn", request, version)
        return response

    def write_markers(self) -> None:
        """Write all that is ordered, and report it."""
        for order in list(self.orders):
            self.report(order, *order.partitions)

    def report(self, order: WriteMarkers, *partitions: TopicPartition) -> None:
        reported = self.reported.setdefault(order.order, set())
        reported.update(partitions)
        if reported.issuperset(order.partitions) and order in self.orders:
            self.orders.remove(order)
        self.perform(self.machine.on_markers_written(order, partitions, self.now_ms))

    def pass_time(self, duration_ms: int) -> None:
        """Let alarms ring as their time comes."""
        until_ms = self.now_ms + duration_ms
        while (due := min((at, name) for name, at in self.alarms.items()))[0] <= until_ms:
            self.now_ms = due[0]
            del self.alarms[due[1]]
            self.perform(self.machine.on_alarm(due[1], self.now_ms))
        self.now_ms = until_ms

    def set_clock(self, by_ms: int) -> None:
        """Alarms still ring when so much time has passed as they were set for."""
        self.now_ms += by_ms
        self.alarms = {name: at_ms + by_ms for name, at_ms in self.alarms.items()}
        self.machine.on_clock_set(by_ms)

    def put(self, transaction: Transaction, record: StoredRecord) -> None:
        """Start again from a log that says just this."""
        self.log = [record]
        self.started()
        assert self.now() == transaction

    def now(self) -> Transaction:
        """Where the transaction stands."""
        return self.machine.hard_state()[TXN]

    def describe(self, transactional_id: str = TXN) -> TransactionState:
        request = DescribeTransactionsRequest(transactional_ids=(transactional_id,))
        (state,) = self.ask("describe", request, 0).transaction_states
        assert isinstance(state, TransactionState)
        return state

    def list(self, **filters: Any) -> ListTransactionsResponse:
        request = ListTransactionsRequest(
            **{"state_filters": (), "producer_id_filters": (), **filters}
        )
        response: ListTransactionsResponse = self.ask("list_transactions", request, 2)
        return response
