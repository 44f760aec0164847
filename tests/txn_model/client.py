"""A transactional producer, of version 1 or 2, as today's clients behave.

It retries until it is answered: after a timeout on another connection, after a passing error on the
same one.  It never commits what was not acknowledged to the last record.  After an error it aborts,
and then needs another epoch: version 2 gets one with every end, version 1 asks for it (KIP-360), or
goes on without, as clients do that are older than that.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from ottla.coordinator.txn.transaction import Producer
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.testing.history import Operation, Outcome, Sent
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.txn_model.leader import Leader, Produce, Produced
from tests.txn_model.stage import Call, Connection, Node, Reply, Stage, added_error

NEW: Final = Producer(-1, -1)
TIMEOUT_MS: Final = 60_000
MAX_WRITES: Final = 4
MAX_IN_FLIGHT: Final = 2

_ADD_VERSION: Final = 3
_INIT_VERSION: Final = 5
_END_VERSIONS: Final = {1: 4, 2: 5}
_PASSING: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_ENOUGH_REPLICAS,
    }
)


@dataclass(slots=True, eq=False)
class Write:
    """One record; it is sent until it is acknowledged."""

    value: str
    leader: Leader
    sequence: int | None = None  # given when it is first sent
    call: Call | None = None  # under way, as far as the client knows
    offset: int | None = None

    @property
    def is_acknowledged(self) -> bool:
        return self.offset is not None


@dataclass(slots=True, eq=False)
class Attempt:
    """One transaction, as its producer saw it."""

    number: int
    process: str
    version: int
    writes: list[Write] = field(default_factory=list)
    added: set[TopicPartition] = field(default_factory=set)
    asks_commit: bool = False
    unanswered_count: int = 0
    """Copies of the commit of which nothing was heard."""
    outcome: Outcome = Outcome.FAILED

    @property
    def is_acknowledged(self) -> bool:
        return all(write.is_acknowledged for write in self.writes)

    def operation(self) -> Operation:
        sends = tuple(Sent(write.leader.name, write.value, write.offset) for write in self.writes)
        return Operation(
            process=self.process, outcome=self.outcome, sends=sends, is_transaction=True
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Which client somebody runs."""

    version: int
    goes_on: bool = False
    """Stays in its epoch after an error."""


class Client:
    """One producer, and those that take its place after a restart."""

    def __init__(
        self, stage: Stage, name: str, transactional_id: str, kind: Kind, coordinator: Node
    ) -> None:
        """It does nothing yet: it has to be revived."""
        self.name = name
        self.kind = kind
        self.attempts: list[Attempt] = []
        self._stage = stage
        self._transactional_id = transactional_id
        self._coordinator = coordinator
        self._lives = 0
        self.restart()
        self._is_fatal = True

    def restart(self) -> None:
        """The process dies, and another one takes its place."""
        self.stop()
        self._lives += 1
        self.producer = NEW
        self._is_fatal = False
        self._needs_epoch = False
        self._sequences: Counter[TopicPartition] = Counter()

    def stop(self) -> None:
        if self._lives:
            self._close_attempt()
            for connection in (self._line, *self._lines.values()):
                if connection is not None:
                    connection.abandon()
        self._attempt: Attempt | None = None
        self.must_abort = False
        self._call: Call | None = None  # to the coordinator; there is one at a time
        self._is_refused = False  # and it is to be sent again
        self._line: Connection | None = None
        self._lines: dict[TopicPartition, Connection] = {}

    # What the process may do next

    def choices(self, leaders: list[Leader]) -> Iterator[tuple[str, Leader | None]]:
        """Verbs for `do`, some with the leader to write to."""
        if self._is_fatal:
            yield "revive", None
            return
        yield "restart", None
        if self._has_work():
            yield "go", None
        if self._attempt is not None:
            yield from self._choices_inside(self._attempt, leaders)
        elif self.producer != NEW and not self._needs_epoch:
            for leader in leaders:
                yield "write", leader

    def _choices_inside(
        self, attempt: Attempt, leaders: list[Leader]
    ) -> Iterator[tuple[str, Leader | None]]:
        if self._is_ending:
            return
        if not self.must_abort and len(attempt.writes) < MAX_WRITES:
            for leader in leaders:
                if len(self._open_writes(leader)) < MAX_IN_FLIGHT:
                    yield "write", leader
        if self._call is None:
            yield "abort", None
            if attempt.is_acknowledged and not self.must_abort:
                yield "commit", None

    def do(self, verb: str, leader: Leader | None) -> None:
        match verb:
            case "restart" | "revive":
                self.restart()
            case "go":
                self._go()
            case "write":
                assert leader is not None
                self._write(leader)
            case _:
                self._end(is_commit=verb == "commit")

    @property
    def _is_ending(self) -> bool:
        return self._call is not None and isinstance(self._call.body, EndTxnRequest)

    def _has_work(self) -> bool:
        if self._call is not None:
            return self._is_refused
        if self.producer == NEW or self._needs_epoch:
            return True
        return any(True for _ in self._unsent())

    def _go(self) -> None:
        if self._call is not None:
            self._send_call()
        elif self.producer == NEW or self._needs_epoch:
            self._ask(_init_call(self._transactional_id, self.producer))
        else:
            self._push()

    # Records

    def _write(self, leader: Leader) -> None:
        if self._attempt is None:
            number = next(self._stage.numbers)
            process = f"{self.name} {self._lives}"
            self._attempt = Attempt(number, process, self.kind.version)
            self.attempts.append(self._attempt)
        attempt = self._attempt
        value = f"{self.name}{attempt.number}.{len(attempt.writes)}"
        attempt.writes.append(Write(value, leader))
        self._push()

    def _open_writes(self, leader: Leader) -> list[Write]:
        writes = self._attempt.writes if self._attempt else []
        return [write for write in writes if write.leader is leader and not write.is_acknowledged]

    def _unsent(self) -> Iterator[Write]:
        if self._attempt is None or self.must_abort or self._is_ending:
            return
        for write in self._attempt.writes:
            if write.call is None and not write.is_acknowledged:
                yield write

    def _push(self) -> None:
        """Send what can be sent; in version 1 a partition is announced before."""
        attempt = self._attempt
        for write in self._unsent():
            assert attempt is not None
            partition = write.leader.partition
            if self.kind.version == 1 and partition not in attempt.added:
                if self._call is None:
                    self._ask(_add_call(self._transactional_id, self.producer, partition))
            else:
                self._produce(write)

    def _produce(self, write: Write) -> None:
        partition = write.leader.partition
        connection = self._lines.get(partition)
        if connection is None:
            connection = self._lines[partition] = self._stage.connect(self, write.leader)
        if write.sequence is None:
            write.sequence = self._sequences[partition]
            self._sequences[partition] += 1
        body = Produce(
            transactional_id=self._transactional_id,
            producer=self.producer,
            sequence=write.sequence,
            value=write.value,
            transaction_version=self.kind.version,
        )
        label = f"Produce {write.value} ({_told(self.producer)} sequence {write.sequence})"
        write.call = Call(body, label)
        connection.send(write.call)

    def _hear_produced(self, call: Call, response: Produced) -> None:
        writes = self._attempt.writes if self._attempt else []
        write = next((write for write in writes if write.call is call), None)
        if write is None or self._is_ending or self.must_abort:
            return  # of a transaction that was given up
        write.call = None
        if response.error_code is ErrorCode.NONE:
            write.offset = response.offset
        elif not self._may_pass(write, response.error_code):
            self.must_abort = True
            # Whoever does not ask for another epoch cannot mend its sequence either.
            is_out_of_order = response.error_code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            if self.kind.goes_on and is_out_of_order:
                self._fail()

    def _may_pass(self, write: Write, error: ErrorCode) -> bool:
        is_first = self._open_writes(write.leader)[0] is write
        return error in _PASSING or (
            error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not is_first
        )

    # The coordinator

    def _ask(self, call: Call) -> None:
        self._call = call
        self._send_call()

    def _send_call(self) -> None:
        assert self._call is not None
        self._is_refused = False
        if self._line is None:
            self._line = self._stage.connect(self, self._coordinator)
        self._line.send(self._call)

    def _end(self, *, is_commit: bool) -> None:
        attempt = self._attempt
        assert attempt is not None
        attempt.asks_commit = is_commit
        is_clean = attempt.is_acknowledged and not self.must_abort
        self._needs_epoch = self.kind.version == 1 and not self.kind.goes_on and not is_clean
        if self.kind.version == 1 and not attempt.added:
            self._close_attempt()  # the coordinator has not heard of it
        else:
            call = _end_call(self._transactional_id, self.producer, attempt)
            self._ask(call)

    def hear(self, connection: Connection, reply: Reply) -> None:
        response = reply.response
        if isinstance(response, Produced):
            self._hear_produced(reply.call, response)
            return
        if self._call is not reply.call:
            return  # the process has failed meanwhile
        if isinstance(response, AddPartitionsToTxnResponse):
            error = added_error(response)
        else:
            error = ErrorCode(response.error_code)
        if error in _PASSING:
            self._is_refused = True
            return
        self._call = None
        if error is not ErrorCode.NONE:
            self._fail()
        elif isinstance(response, InitProducerIdResponse):
            self._become(response)
        elif isinstance(response, EndTxnResponse):
            self._hear_end(response)
        else:
            assert self._attempt is not None
            for topic in reply.call.body.v3_and_below_topics:
                self._attempt.added.add(TopicPartition(topic.name, topic.partitions[0]))
            self._push()

    def _become(self, granted: InitProducerIdResponse | EndTxnResponse) -> None:
        self.producer = Producer(granted.producer_id, granted.producer_epoch)
        self._needs_epoch = False
        self._sequences.clear()

    def _hear_end(self, response: EndTxnResponse) -> None:
        assert self._attempt is not None
        if self._attempt.asks_commit:
            self._attempt.outcome = Outcome.OK
            self._attempt.asks_commit = False
        self._close_attempt()
        if response.producer_id != NEW.producer_id:
            self._become(response)

    def _fail(self) -> None:
        """Fenced, or confused: only a new process helps."""
        if self._attempt is not None and not self._attempt.unanswered_count:
            self._attempt.asks_commit = False  # the only copy was refused
        self._close_attempt()
        self._call = None
        self._is_fatal = True

    def _close_attempt(self) -> None:
        if self._attempt is not None and self._attempt.asks_commit:
            self._attempt.outcome = Outcome.UNKNOWN
        self._attempt, self.must_abort = None, False

    def give_up(self, connection: Connection) -> None:
        """Send all that was under way again, on another connection."""
        if connection is self._line:
            self._line = None
            if self._is_ending and self._attempt is not None:
                self._attempt.unanswered_count += 1
            if self._call is not None:
                self._send_call()
            return
        (partition,) = (p for p, way in self._lines.items() if way is connection)
        del self._lines[partition]
        if self._attempt is not None:
            for write in self._attempt.writes:
                if write.leader.partition == partition:
                    write.call = None
        self._push()


def _init_call(transactional_id: str, producer: Producer) -> Call:
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=TIMEOUT_MS,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
    )
    return Call(request, f"InitProducerId ({_told(producer)})", _INIT_VERSION)


def _add_call(transactional_id: str, producer: Producer, partition: TopicPartition) -> Call:
    topic, index = partition
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=(AddPartitionsToTxnTopic(name=topic, partitions=(index,)),),
    )
    return Call(request, f"AddPartitionsToTxn {topic}{index} ({_told(producer)})", _ADD_VERSION)


def _end_call(transactional_id: str, producer: Producer, attempt: Attempt) -> Call:
    request = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        committed=attempt.asks_commit,
    )
    verb = "commit" if attempt.asks_commit else "abort"
    label = f"EndTxn {verb} of {attempt.number} ({_told(producer)})"
    return Call(request, label, _END_VERSIONS[attempt.version])


def _told(producer: Producer) -> str:
    return f"{producer.producer_id}/{producer.epoch}"
