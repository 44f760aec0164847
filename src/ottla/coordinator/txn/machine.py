"""All transactional ids of one partition of `__transaction_state`: what the broker's shell drives.

Every method takes a request as it came over the wire and returns effects.  Hard state, the newest
record of every id, changes in `apply` alone, which is the same code live and at recovery.  A
transaction is decided when its decision is recorded; from then on it can only be carried out: the
markers are ordered with `WriteMarkers`, and ordered again after a restart, until every partition
has been reported with `on_markers_written`.

Soft state is which markers are missing, each producer's epoch before the last bump, and by how much
the clock was set while a transaction was open.  A restart forgets it: markers are written twice,
which does no harm, a producer that retries across the restart is fenced, and what a transaction has
left of its time is then for the clock to say.
"""

from collections.abc import Callable, Iterable
from itertools import count
from typing import Final

from ottla.coordinator.caller import Caller
from ottla.coordinator.config import TransactionConfig
from ottla.coordinator.effects import (
    Alarm,
    AlarmName,
    Answer,
    Effect,
    Persist,
    StoredRecord,
    Ticket,
    WriteMarkers,
)
from ottla.coordinator.txn import adding, beginning, ending, telling
from ottla.coordinator.txn.beginning import FreshProducerId, Next
from ottla.coordinator.txn.records import decode_record, tombstone, transaction_record
from ottla.coordinator.txn.transaction import (
    MOVES,
    NO_PRODUCER,
    VERSION_1,
    VERSION_2,
    Producer,
    State,
    Transaction,
)
from ottla.errors import ErrorCode
from ottla.model import CONSUMER_OFFSETS_TOPIC, TopicPartition
from ottla.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ottla.values import dataclass
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
)
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_transactions import ListTransactionsRequest

TIMEOUTS_ALARM: Final[AlarmName] = ("timeouts",)
EXPIRY_ALARM: Final[AlarmName] = ("expiry",)

_IMPLICIT_ADD_VERSION: Final = 4
"""AddPartitionsToTxn from here on comes from brokers, on behalf of producers of version 2."""
_EPOCH_BUMP_VERSION: Final = 5
"""EndTxn from here on asks for version 2."""
_FENCED_SINCE_VERSION: Final = 2
"""AddPartitionsToTxn, AddOffsetsToTxn and EndTxn know PRODUCER_FENCED from here on."""
_INIT_FENCED_SINCE_VERSION: Final = 4
_TOMBSTONES_A_BATCH: Final = 500


@dataclass(frozen=True, slots=True)
class _Unmarked:
    """An order for markers, and the partitions that have not been reported."""

    order: int
    partitions: set[TopicPartition]


class TransactionCoordinator:
    """The transactional ids of one partition of `__transaction_state`.

    Feed it the log with `apply`, call `on_loaded` once, and then ask.  It is owned by one task;
    effects are performed before it is asked again (see `effects`).
    """

    def __init__(
        self,
        config: TransactionConfig,
        *,
        coordinator_epoch: int,
        fresh_producer_id: FreshProducerId,
        offsets_partition: Callable[[str], int],
    ) -> None:
        """`offsets_partition` is where in `__consumer_offsets` a group has its offsets.

        While `fresh_producer_id` gives `None`, those who need an id are told to ask again.
        """
        self._config = config
        self._coordinator_epoch = coordinator_epoch
        self._fresh_producer_id = fresh_producer_id
        self._offsets_partition = offsets_partition
        self._transactions: dict[str, Transaction] = {}
        self._last_epochs: dict[str, int] = {}
        self._unmarked: dict[str, _Unmarked] = {}
        self._clock_set_ms: dict[str, int] = {}
        """By how much the clock was set since a transaction, which is open, began."""
        self._orders = count(1)

    def init_producer_id(
        self, request: InitProducerIdRequest, caller: Caller, ticket: Ticket, now_ms: int
    ) -> list[Effect]:
        """InitProducerId 0-6 with a transactional id; without one, any id will do: not for us."""
        if error := beginning.refusal(request, self._config):
            return [_refused_id(ticket, error, caller.version)]
        transactional_id = request.transactional_id or ""
        current = self._transactions.get(transactional_id)
        claim = beginning.claim_of(request, self._last_epoch(transactional_id), now_ms)
        if current is None:
            found = beginning.first(claim, self._fresh_producer_id)
        elif error := beginning.claim_error(current, claim):
            found = error
        elif current.state is State.ONGOING and not claim.keeps_prepared:
            error, effects = self._fence(transactional_id, current, now_ms)
            # The answer is an error even if all went well: ask again when the abort is done.
            error = error or ErrorCode.CONCURRENT_TRANSACTIONS
            return [*effects, _refused_id(ticket, error, caller.version)]
        else:
            found = beginning.again(current, claim, self._fresh_producer_id)
        if isinstance(found, ErrorCode):
            return [_refused_id(ticket, found, caller.version)]
        return [
            self._persist(transactional_id, found),
            Answer(ticket, _granted_id(found.transaction)),
        ]

    def add_partitions(
        self, request: AddPartitionsToTxnRequest, caller: Caller, ticket: Ticket, now_ms: int
    ) -> list[Effect]:
        """AddPartitionsToTxn 0-5; that the partitions exist is for the shell to see to."""
        is_from_broker = caller.version >= _IMPLICIT_ADD_VERSION
        version = VERSION_2 if is_from_broker else VERSION_1
        decided: dict[str, Transaction] = {}
        results = []
        for asked in adding.asked(request, is_from_broker=is_from_broker):
            transactional_id = asked.transactional_id
            current = decided.get(transactional_id) or self._transactions.get(transactional_id)
            error, members, added = adding.addition(asked, current, version, now_ms)
            if added is not None:
                decided[transactional_id] = added
            told = _told(error, caller.version, _FENCED_SINCE_VERSION)
            results.append(
                AddPartitionsToTxnResult(
                    transactional_id=transactional_id,
                    topic_results=adding.results(asked.topics, told, members),
                )
            )
        response = (
            AddPartitionsToTxnResponse(results_by_transaction=tuple(results))
            if is_from_broker
            else AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)
        )
        records = tuple(transaction_record(*item) for item in decided.items())
        return [*([Persist(records)] if records else []), Answer(ticket, response)]

    def add_offsets(
        self, request: AddOffsetsToTxnRequest, caller: Caller, ticket: Ticket, now_ms: int
    ) -> list[Effect]:
        """AddOffsetsToTxn 0-4: the partition that has the group's offsets takes part."""
        transactional_id = request.transactional_id
        current = self._transactions.get(transactional_id)
        producer = Producer(request.producer_id, request.producer_epoch)
        error = adding.add_refusal(current, producer)
        if not transactional_id:
            error = ErrorCode.INVALID_REQUEST
        effects: list[Effect] = []
        if current is not None and not error:
            index = self._offsets_partition(request.group_id)
            partition = TopicPartition(CONSUMER_OFFSETS_TOPIC, index)
            added = adding.added(current, (partition,), VERSION_1, now_ms)
            if added is not None:
                effects.append(Persist((transaction_record(transactional_id, added),)))
        told = _told(error, caller.version, _FENCED_SINCE_VERSION)
        return [*effects, Answer(ticket, AddOffsetsToTxnResponse(error_code=told))]

    def end_txn(
        self, request: EndTxnRequest, caller: Caller, ticket: Ticket, now_ms: int
    ) -> list[Effect]:
        """EndTxn 0-5: answered when the outcome is recorded; the markers follow."""
        version = VERSION_2 if caller.version >= _EPOCH_BUMP_VERSION else VERSION_1
        transactional_id, is_commit = request.transactional_id, request.committed
        current = self._transactions.get(transactional_id)
        if current is None:
            is_named = bool(transactional_id)
            error = ErrorCode.INVALID_PRODUCER_ID_MAPPING if is_named else ErrorCode.INVALID_REQUEST
            return [Answer(ticket, EndTxnResponse(error_code=error))]
        producer = Producer(request.producer_id, request.producer_epoch)
        rule = ending.version_2_answer if version == VERSION_2 else ending.version_1_answer
        answer = rule(current, producer, is_commit=is_commit)
        if answer is not None:
            is_retry = version == VERSION_2 and answer is ErrorCode.NONE
            told = _told(answer, caller.version, _FENCED_SINCE_VERSION)
            return [Answer(ticket, _ended(told, current.owner if is_retry else None))]
        found = ending.decide(
            current,
            self._last_epoch(transactional_id),
            is_commit=is_commit,
            version=version,
            fresh_producer_id=self._fresh_producer_id,
            now_ms=now_ms,
        )
        if isinstance(found, ErrorCode):
            return [Answer(ticket, _ended(found, None))]
        successor = found.transaction.owner if version == VERSION_2 else None
        response = _ended(ErrorCode.NONE, successor)
        persist, *follow_up = self._carry_out(transactional_id, found, now_ms)
        return [persist, Answer(ticket, response), *follow_up]

    def of(self, transactional_id: str) -> Transaction | None:
        """Where an id stands; `None` if nobody has used it."""
        return self._transactions.get(transactional_id)

    def on_markers_written(
        self, markers: WriteMarkers, partitions: Iterable[TopicPartition], now_ms: int
    ) -> list[Effect]:
        """Some `partitions` of an order are done; with the last one the transaction is over."""
        transactional_id = markers.transactional_id
        unmarked = self._unmarked.get(transactional_id)
        if unmarked is None or unmarked.order != markers.order:
            return []  # reported twice, after the end
        unmarked.partitions.difference_update(partitions)
        if unmarked.partitions:
            return []
        del self._unmarked[transactional_id]
        completed = self._transactions[transactional_id].completed(now_ms)
        return [Persist((transaction_record(transactional_id, completed),), can_wait=True)]

    def describe(
        self, request: DescribeTransactionsRequest, caller: Caller, ticket: Ticket, now_ms: int
    ) -> list[Effect]:
        """DescribeTransactions 0, of the ids that belong to this partition."""
        states = tuple(
            telling.described(
                transactional_id,
                self._transactions.get(transactional_id),
                self._remaining(transactional_id),
            )
            for transactional_id in request.transactional_ids
        )
        return [Answer(ticket, DescribeTransactionsResponse(transaction_states=states))]

    def list_transactions(
        self, request: ListTransactionsRequest, caller: Caller, ticket: Ticket, now_ms: int
    ) -> list[Effect]:
        """ListTransactions 0-2, of this partition: the shell joins the answers of all."""
        return [Answer(ticket, telling.listed(self._transactions, request, now_ms))]

    def on_alarm(self, name: AlarmName, now_ms: int) -> list[Effect]:
        """Time has passed: transactions take too long, or ids are no longer used."""
        if name == TIMEOUTS_ALARM:
            next_ms = now_ms + self._config.timed_out_check_interval_ms
            return [*self._abort_timed_out(now_ms), Alarm(TIMEOUTS_ALARM, next_ms)]
        assert name == EXPIRY_ALARM, f"no such alarm: {name}"
        next_ms = now_ms + self._config.expired_id_check_interval_ms
        return [*self._expire(now_ms), Alarm(EXPIRY_ALARM, next_ms)]

    def on_clock_set(self, by_ms: int) -> None:
        """The clock was set: those who have a transaction open have the time that they had."""
        for transactional_id, transaction in self._transactions.items():
            if transaction.state is State.ONGOING:
                set_ms = self._clock_set_ms.get(transactional_id, 0)
                self._clock_set_ms[transactional_id] = set_ms + by_ms

    def on_loaded(self, now_ms: int) -> list[Effect]:
        """The log was read to its end: what was decided before is carried out now."""
        effects: list[Effect] = [
            Alarm(TIMEOUTS_ALARM, now_ms + self._config.timed_out_check_interval_ms),
            Alarm(EXPIRY_ALARM, now_ms + self._config.expired_id_check_interval_ms),
        ]
        for transactional_id, transaction in self._transactions.items():
            if transaction.is_ending:
                effects += self._follow_up(transactional_id, transaction, now_ms)
        return effects

    def apply(self, record: StoredRecord, producer_id: int = NO_PRODUCER_ID) -> None:
        """Take in one record of our log: the same code live and at recovery."""
        decoded = decode_record(record)
        if decoded is None:
            return
        transactional_id, transaction = decoded
        if transaction is None or transaction.state is not State.ONGOING:
            self._clock_set_ms.pop(transactional_id, None)
        if transaction is not None:
            self._transactions[transactional_id] = transaction
        else:
            self._transactions.pop(transactional_id, None)
            self._last_epochs.pop(transactional_id, None)

    def apply_marker(self, producer_id: int, *, committed: bool) -> None:
        """Nothing: our own log takes part in no transaction."""

    def hard_state(self) -> dict[str, Transaction]:
        """What recovery would find, for comparison."""
        return dict(self._transactions)

    def _last_epoch(self, transactional_id: str) -> int:
        return self._last_epochs.get(transactional_id, NO_PRODUCER_EPOCH)

    def _remaining(self, transactional_id: str) -> Iterable[TopicPartition]:
        """The partitions of a transaction that have not been told how it ended."""
        if (unmarked := self._unmarked.get(transactional_id)) is not None:
            return unmarked.partitions
        transaction = self._transactions.get(transactional_id)
        return () if transaction is None else transaction.partitions

    def _persist(self, transactional_id: str, decided: Next) -> Effect:
        self._last_epochs[transactional_id] = decided.last_epoch
        return Persist((transaction_record(transactional_id, decided.transaction),))

    def _carry_out(self, transactional_id: str, decided: Next, now_ms: int) -> list[Effect]:
        """Record how a transaction ends, and then tell all who have to know."""
        return [
            self._persist(transactional_id, decided),
            *self._follow_up(transactional_id, decided.transaction, now_ms),
        ]

    def _follow_up(
        self, transactional_id: str, transaction: Transaction, now_ms: int
    ) -> list[Effect]:
        """What follows from a recorded decision: markers, or with no partitions the end."""
        if not transaction.partitions:
            completed = transaction.completed(now_ms)
            return [Persist((transaction_record(transactional_id, completed),), can_wait=True)]
        order = next(self._orders)
        self._unmarked[transactional_id] = _Unmarked(order, set(transaction.partitions))
        return [
            WriteMarkers(
                order=order,
                transactional_id=transactional_id,
                producer_id=transaction.producer_id,
                producer_epoch=transaction.producer_epoch,
                coordinator_epoch=self._coordinator_epoch,
                transaction_version=transaction.client_version,
                is_commit=transaction.state is State.PREPARE_COMMIT,
                partitions=tuple(sorted(transaction.partitions)),
            )
        ]

    def _fence(
        self, transactional_id: str, current: Transaction, now_ms: int
    ) -> tuple[ErrorCode, list[Effect]]:
        """Abort an open transaction over its producer's head."""
        last_epoch = self._last_epoch(transactional_id)
        found = ending.fence(current, last_epoch, self._fresh_producer_id, now_ms)
        if isinstance(found, ErrorCode):
            return found, []
        return ErrorCode.NONE, self._carry_out(transactional_id, found, now_ms)

    def _abort_timed_out(self, now_ms: int) -> list[Effect]:
        """Without a producer id at hand, the next alarm tries again."""
        effects: list[Effect] = []
        for transactional_id, transaction in self._transactions.items():
            if transaction.has_timed_out(now_ms - self._clock_set_ms.get(transactional_id, 0)):
                effects += self._fence(transactional_id, transaction, now_ms)[1]
        return effects

    def _expire(self, now_ms: int) -> list[Effect]:
        unused_since_ms = now_ms - self._config.transactional_id_expiration_ms
        tombstones = [
            tombstone(transactional_id)
            for transactional_id, transaction in self._transactions.items()
            if State.DEAD in MOVES[transaction.state] and transaction.updated_ms <= unused_since_ms
        ]
        return [
            Persist(tuple(tombstones[start : start + _TOMBSTONES_A_BATCH]))
            for start in range(0, len(tombstones), _TOMBSTONES_A_BATCH)
        ]


def _told(error: ErrorCode, version: int, since_version: int) -> ErrorCode:
    """The error as a client of this version knows it: PRODUCER_FENCED is not as old as they are."""
    if error is ErrorCode.PRODUCER_FENCED and version < since_version:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def _refused_id(ticket: Ticket, error: ErrorCode, version: int) -> Answer:
    response = InitProducerIdResponse(
        error_code=_told(error, version, _INIT_FENCED_SINCE_VERSION),
        producer_epoch=NO_PRODUCER_EPOCH,
    )
    return Answer(ticket, response)


def _granted_id(transaction: Transaction) -> InitProducerIdResponse:
    ongoing = transaction.writer if transaction.is_kept else NO_PRODUCER
    return InitProducerIdResponse(
        producer_id=transaction.owner.producer_id,
        producer_epoch=transaction.owner.epoch,
        ongoing_txn_producer_id=ongoing.producer_id,
        ongoing_txn_producer_epoch=ongoing.epoch,
    )


def _ended(error: ErrorCode, producer: Producer | None) -> EndTxnResponse:
    if producer is None:
        return EndTxnResponse(error_code=error)
    return EndTxnResponse(
        error_code=error, producer_id=producer.producer_id, producer_epoch=producer.epoch
    )
