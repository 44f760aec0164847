"""The transaction coordinators of this broker: one shard a partition of `__transaction_state`.

A shard writes markers only when the decision that they report is durable, and reports to its
machine only when the markers are: a crash at any moment finds the decision, and goes on from there.

While a transaction ends, everybody else is to be told CONCURRENT_TRANSACTIONS.  Clients would ask
again after a pause of their own, so we let them wait here for the few milliseconds that it takes.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ottla.broker.coordinators import Coordinators
from ottla.broker.markers import write_marker
from ottla.broker.partition import Partition
from ottla.broker.shard import Decision, Reply, Shard, UnansweredError
from ottla.broker.transactional import Turns
from ottla.cluster.topics import NewTopic
from ottla.coordinator.caller import Caller
from ottla.coordinator.effects import Effect, Ticket, WriteMarkers
from ottla.coordinator.txn.adding import takes_part
from ottla.coordinator.txn.machine import TransactionCoordinator
from ottla.coordinator.txn.records import by_topic
from ottla.coordinator.txn.transaction import Producer
from ottla.errors import ErrorCode
from ottla.model import TRANSACTION_STATE_TOPIC, TopicPartition, coordinator_partition
from ottla.records.control import Marker
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from ottla.broker.context import Context, Node

log = logging.getLogger(__name__)

R = TypeVar("R")
A = TypeVar("A")

_TOPIC_SETTINGS: Final = (
    ("cleanup.policy", "compact"),
    ("compression.type", "uncompressed"),
    ("unclean.leader.election.enable", "false"),
)

_COORDINATOR_EPOCH: Final = 0
"""On one node there was never another coordinator that a marker could come from."""

_MAX_PATIENCE_MS: Final = 1_000
"""How long a request waits for the markers of the last transaction."""

_MARKER_RETRY_MS: Final = 1_000
"""How soon a marker is tried again that a partition could not take."""

_BROKER = Caller(client_id="", client_host="", version=5)
"""Who adds partitions on behalf of a producer that writes to them."""

_FENCED: Final = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)

_FINAL_REFUSALS: Final = frozenset(
    {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED}
)


class TransactionShard(Shard):
    """A shard whose machine coordinates transactions."""

    def __init__(self, machine: TransactionCoordinator, partition: Partition, node: "Node") -> None:
        super().__init__(machine, partition, node.ports.clock, node.ports.disk, node.flusher)
        self.machine = machine
        self._node = node
        self._ending: dict[str, asyncio.Task[None]] = {}

    def is_settled(self, transactional_id: str) -> bool:
        """Whether no markers of the id's last transaction are missing."""
        return transactional_id not in self._ending

    async def settled(self, transactional_id: str) -> None:
        """Wait until the markers of the id's last transaction are written, but not for ever."""
        task = self._ending.get(transactional_id)
        if task is not None:
            await asyncio.wait((task,), timeout=_MAX_PATIENCE_MS / 1000)

    def close(self) -> None:
        """Write no more markers: the next shard of this partition finds out what is missing."""
        super().close()
        for task in self._ending.values():
            task.cancel()

    def _answer(self, ticket: Ticket, response: Any) -> None:
        self._node.meters.fenced_count += _says_fenced(response)
        super()._answer(ticket, response)

    def _write_markers(self, order: WriteMarkers) -> None:
        self._node.meters.count_end(is_commit=order.is_commit)
        # Taken now, it is the same sync that the answer waits for; a task would be late for that.
        decided = None if self._flusher is None else self._flusher.when_durable(None)
        task = self._loop.create_task(self._end(order, decided))
        self._ending[order.transactional_id] = task
        task.add_done_callback(lambda task: self._on_ended(order, task))

    def _on_ended(self, order: WriteMarkers, task: "asyncio.Task[None]") -> None:
        if self._ending.get(order.transactional_id) is task:
            del self._ending[order.transactional_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("markers not written: %s", order, exc_info=error)

    async def _end(self, order: WriteMarkers, decided: "asyncio.Future[None] | None") -> None:
        """Once it is decided durably, tell all partitions how a transaction ended, and insist."""
        if decided is not None:
            await decided
        missing = list(order.partitions)
        while missing:
            outcomes = {partition: self._mark(order, partition) for partition in missing}
            written = [partition for partition in missing if _is_told(outcomes[partition])]
            missing = [p for p in missing if outcomes[p] is ErrorCode.KAFKA_STORAGE_ERROR]
            await self._durable()
            self.tell(self.machine.on_markers_written(order, written, self._now_ms()))
            if missing:
                log.warning("markers missing, trying again: %s %s", missing, order)
                await asyncio.sleep(_MARKER_RETRY_MS / 1000)

    def _mark(self, order: WriteMarkers, partition: TopicPartition) -> ErrorCode:
        marker = Marker(
            is_commit=order.is_commit,
            producer_id=order.producer_id,
            producer_epoch=order.producer_epoch,
            coordinator_epoch=order.coordinator_epoch,
            timestamp_ms=self._clock.now_ms(),
        )
        error = write_marker(
            self._node, marker, partition, transaction_version=order.transaction_version
        )
        if error in _FINAL_REFUSALS:
            # Somebody else ended it, or knows better.  As in Kafka it stays undecided here, where
            # an operator can see it, rather than being declared over.
            log.error("marker refused: partition=%s error=%s %s", partition, error.name, order)
        return error


class Transactions(Coordinators[TransactionShard]):
    """Finds the shard of a transactional id, and speaks to it for partitions that are written."""

    topic = TRANSACTION_STATE_TOPIC

    def __init__(self, node: "Node") -> None:
        super().__init__(node)
        self.turns = Turns()

    def _new_topic(self) -> NewTopic:
        config = self._node.config.transactions
        return NewTopic(
            name=self.topic,
            partition_count=config.log_partitions,
            configs=(*_TOPIC_SETTINGS, ("segment.bytes", str(config.log_segment_bytes))),
        )

    def _new_shard(self, partition: Partition) -> TransactionShard:
        machine = TransactionCoordinator(
            self._node.config.transactions,
            coordinator_epoch=_COORDINATOR_EPOCH,
            fresh_producer_id=self._node.producer_ids.take,
            offsets_partition=self._offsets_partition,
        )
        return TransactionShard(machine, partition, self._node)

    async def find_settled(self, transactional_id: str) -> TransactionShard | ErrorCode:
        """The shard of an id, once the markers of its last transaction are written."""
        shard = await self.find(transactional_id)
        if isinstance(shard, ErrorCode):
            return shard
        await shard.settled(transactional_id)
        return await self.find(transactional_id)  # it may have been given up meanwhile

    async def admit(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
        *,
        adds: bool,
    ) -> dict[TopicPartition, ErrorCode]:
        """Why `producer` may not write to the partitions: an entry for each that it may not.

        With `adds` they become part of its transaction (version 2); without, they must be already.
        """
        shard = await self.find_settled(transactional_id)
        if isinstance(shard, ErrorCode):
            return dict.fromkeys(partitions, shard)
        request = _addition(transactional_id, producer, partitions, adds=adds)
        try:
            answer = await shard.ask(
                _decision(shard, _BROKER, TransactionCoordinator.add_partitions, request)
            )
        except UnansweredError as error:
            return dict.fromkeys(partitions, error.code)
        return _errors_in(answer)

    def admit_now(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
        *,
        adds: bool,
    ) -> dict[TopicPartition, ErrorCode] | None:
        """As `admit`, but None where somebody has to be waited for; then nothing has changed."""
        shard = self.loaded(transactional_id)
        if self._node.flusher is not None or shard is None:
            return None
        if not shard.is_settled(transactional_id):
            return None
        request = _addition(transactional_id, producer, partitions, adds=adds)
        machine = shard.machine
        answer = shard.ask_at_once(
            lambda ticket, now_ms: machine.add_partitions(request, _BROKER, ticket, now_ms),
            lambda error: error,
        )
        if isinstance(answer, ErrorCode):
            return dict.fromkeys(partitions, answer)
        assert isinstance(answer, AddPartitionsToTxnResponse), "what is asked is answered at once"
        return _errors_in(answer)

    def refusal_now(
        self, transactional_id: str, producer: Producer, partition: TopicPartition
    ) -> ErrorCode:
        """Why a write is no part of an open transaction now; ask right before the append.

        The transaction may have ended since `admit`, while we waited for it to be durable; or its
        coordinator is gone, and nobody can tell until there is another one.
        """
        index = self.index_of(transactional_id)
        shard = None if index is None else self._shards.get(index)
        if shard is None or not shard.is_loaded:
            return ErrorCode.NOT_COORDINATOR
        is_part = takes_part(shard.machine.of(transactional_id), producer, partition)
        return ErrorCode.NONE if is_part else ErrorCode.INVALID_TXN_STATE

    def _offsets_partition(self, group_id: str) -> int:
        index = self._node.groups.index_of(group_id)
        if index is None:  # it is created when the first offset is committed
            return coordinator_partition(group_id, self._node.config.groups.offsets_partitions)
        return index


def _addition(
    transactional_id: str,
    producer: Producer,
    partitions: Collection[TopicPartition],
    *,
    adds: bool,
) -> AddPartitionsToTxnRequest:
    """What a producer would ask that adds its partitions itself."""
    return AddPartitionsToTxnRequest(
        transactions=(
            AddPartitionsToTxnTransaction(
                transactional_id=transactional_id,
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                verify_only=not adds,
                topics=tuple(
                    AddPartitionsToTxnTopic(name=name, partitions=indexes)
                    for name, indexes in by_topic(partitions).items()
                ),
            ),
        )
    )


def _errors_in(answer: AddPartitionsToTxnResponse) -> dict[TopicPartition, ErrorCode]:
    return {
        TopicPartition(topic.name, result.partition_index): ErrorCode(result.partition_error_code)
        for topic in answer.results_by_transaction[0].topic_results
        for result in topic.results_by_partition
        if result.partition_error_code
    }


def _says_fenced(response: Any) -> bool:
    """Whether an answer says that somebody else has the id by now."""
    if not isinstance(response, AddPartitionsToTxnResponse):
        return getattr(response, "error_code", ErrorCode.NONE) in _FENCED
    results = (
        *response.results_by_topic_v3_and_below,
        *(topic for result in response.results_by_transaction for topic in result.topic_results),
    )
    return any(
        partition.partition_error_code in _FENCED
        for topic in results
        for partition in topic.results_by_partition
    )


def _is_told(outcome: ErrorCode) -> bool:
    """Whether a partition needs nothing more; one that is gone needs nothing at all."""
    return outcome in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


Verb = Callable[[TransactionCoordinator, R, Caller, Ticket, int], list[Effect]]
"""A method of the coordinator, e.g. `TransactionCoordinator.end_txn`."""


def ask_settled(
    context: "Context",
    transactional_id: str,
    verb: Verb[R],
    request: R,
    refuse: Callable[[ErrorCode], A],
) -> Reply[A]:
    """As `ask`, but it costs no task where the coordinator is there and nothing ends."""
    shard = context.node.transactions.loaded(transactional_id)
    if shard is None or not shard.is_settled(transactional_id):
        return ask(context, transactional_id, verb, request, refuse)
    return shard.ask_at_once(_decision(shard, context.caller, verb, request), refuse)


async def ask(
    context: "Context",
    transactional_id: str,
    verb: Verb[R],
    request: R,
    refuse: Callable[[ErrorCode], A],
) -> A:
    """Put a request to the coordinator of its id; `refuse` makes the response if there is none.

    While the last transaction of the id ends, it waits.
    """
    await context.node.transactions.find_settled(transactional_id)
    return await ask_at_once(context, transactional_id, verb, request, refuse)


async def ask_at_once(
    context: "Context",
    transactional_id: str,
    verb: Verb[R],
    request: R,
    refuse: Callable[[ErrorCode], A],
) -> A:
    """Put a request to the coordinator of its id, whatever goes on there."""
    decision = partial(_decision, caller=context.caller, verb=verb, request=request)
    return await context.node.transactions.ask(transactional_id, decision, refuse)


async def put(shard: TransactionShard, context: "Context", verb: Verb[R], request: R) -> Any:
    """Put a request to the coordinator of one shard."""
    return await shard.ask(_decision(shard, context.caller, verb, request))


def _decision(shard: TransactionShard, caller: Caller, verb: Verb[R], request: R) -> Decision:
    machine = shard.machine
    return lambda ticket, now_ms: verb(machine, request, caller, ticket, now_ms)
