"""The coordinator's node: the real machine, a log that may lose its tail, and the markers' post.

The machine runs as the broker's shell would run it: effects are performed in one piece, and answers
and markers wait until what was persisted before them is durable.  A crash forgets everything but
the log up to what was durable, and a part of the rest, drawn.
"""

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
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from tests.txn_model.stage import Call, Connection, Node, Reply, Stage

_METHODS = {
    InitProducerIdRequest: "init_producer_id",
    AddPartitionsToTxnRequest: "add_partitions",
    EndTxnRequest: "end_txn",
}


class Coordinator:
    """One partition of `__transaction_state`, and who decides on it."""

    name = "coordinator"

    def __init__(self, stage: Stage, first_records: tuple[StoredRecord, ...] = ()) -> None:
        self._stage = stage
        self._leaders: dict[TopicPartition, Node] = {}
        self._log: list[tuple[StoredRecord, ...]] = [first_records]
        self._durable_count = 1
        self._epoch = 0
        self.refused_markers: list[str] = []

    def start(self, leaders: dict[TopicPartition, Node] | None = None) -> None:
        """Read the log, and carry out what was decided."""
        self._leaders = self._leaders if leaders is None else leaders
        self._epoch += 1
        self._waiting: list[tuple[int, Answer | WriteMarkers]] = []
        self._asked: dict[Ticket, tuple[Connection, Call]] = {}
        self._alarms: dict[AlarmName, int] = {}
        self._post: dict[TopicPartition, Connection] = {}
        self._unreported: dict[TopicPartition, list[WriteMarkers]] = {}
        self.machine = self._stage.rules.machine(
            TransactionConfig(),
            coordinator_epoch=self._epoch,
            fresh_producer_id=lambda: 1000 + next(self._stage.numbers),
            offsets_partition=len,
        )
        for records in self._log:
            for record in records:
                self.machine.apply(record)
        effects = self.machine.on_loaded(self._stage.now_ms)
        if not self._stage.rules.carries_on:
            effects = [effect for effect in effects if isinstance(effect, Alarm)]
        self._perform(effects)

    def serve(self, connection: Connection, call: Call) -> None:
        ticket = next(self._stage.numbers)
        self._asked[ticket] = connection, call
        decide = getattr(self.machine, _METHODS[type(call.body)])
        caller = Caller("client", "/host", call.version)
        self._perform(decide(call.body, caller, ticket, self._stage.now_ms))

    def _perform(self, effects: list[Effect]) -> None:
        rules = self._stage.rules
        for effect in effects:
            match effect:
                case Persist(records):
                    self._log.append(tuple(StoredRecord(r.key, r.value) for r in records))
                    for record in records:
                        self.machine.apply(record)
                case Alarm(name, at_ms):
                    assert at_ms is not None
                    self._alarms[name] = at_ms
                case Answer() | WriteMarkers():
                    must_wait = (
                        rules.answers_wait if isinstance(effect, Answer) else rules.markers_wait
                    )
                    needed_count = len(self._log) if must_wait else 0
                    self._waiting.append((needed_count, effect))
        self._release()

    def _release(self) -> None:
        waiting, self._waiting = self._waiting, []
        for needed_count, effect in waiting:
            if needed_count > self._durable_count:
                self._waiting.append((needed_count, effect))
            elif isinstance(effect, Answer):
                connection, call = self._asked.pop(effect.ticket)
                connection.reply(call, effect.response)
            else:
                for partition in effect.partitions:
                    self._unreported.setdefault(partition, []).append(effect)
                    self._mail(partition, effect)

    @property
    def is_dirty(self) -> bool:
        return self._durable_count < len(self._log)

    def sync(self) -> None:
        self._durable_count = len(self._log)
        self._release()

    def crash(self, thirds: int) -> None:
        """Lose the tail of the log, or all but some `thirds` of it."""
        tail_count = len(self._log) - self._durable_count
        del self._log[self._durable_count + tail_count * thirds // 3 :]
        self._durable_count = len(self._log)
        self._stage.lose(self)
        self.start()

    def ring(self) -> None:
        """Call the machine for every alarm that is due."""
        for name, at_ms in list(self._alarms.items()):
            if at_ms <= self._stage.now_ms:
                del self._alarms[name]
                self._perform(self.machine.on_alarm(name, self._stage.now_ms))

    # Markers

    def _mail(self, partition: TopicPartition, order: WriteMarkers) -> None:
        connection = self._post.get(partition)
        if connection is None:
            connection = self._stage.connect(self, self._leaders[partition])
            self._post[partition] = connection
        outcome = "commit" if order.is_commit else "abort"
        label = f"{outcome} marker ({order.producer_id}/{order.producer_epoch})"
        connection.send(Call(order, label))

    def hear(self, connection: Connection, reply: Reply) -> None:
        order: WriteMarkers = reply.call.body
        (partition,) = (p for p, way in self._post.items() if way is connection)
        if order not in self._unreported.get(partition, ()):
            return  # reported before, by another copy
        if reply.response != ErrorCode.NONE:
            self.refused_markers.append(f"{partition}: {reply.response} for {order}")
            return
        self._unreported[partition].remove(order)
        effects = self.machine.on_markers_written(order, [partition], self._stage.now_ms)
        self._perform(effects)

    def give_up(self, connection: Connection) -> None:
        """Send all that was not reported again."""
        (partition,) = (p for p, way in self._post.items() if way is connection)
        del self._post[partition]
        for order in self._unreported.get(partition, ()):
            self._mail(partition, order)

    def unsettled(self) -> list[str]:
        """Which transactions are not over."""
        return [
            f"{transactional_id} is {transaction.state.value}"
            for transactional_id, transaction in self.machine.hard_state().items()
            if not transaction.is_at_rest
        ]
