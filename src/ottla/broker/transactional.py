"""The way into a partition for what is written in a transaction.

A record must not be in a partition that its transaction does not know of: no marker would ever end
it, and read_committed consumers would wait for ever.  So before the first write to a partition the
coordinator is asked, and its answer is awaited until it is durable.  Right before the append, in
the same step of the loop, we look again: the transaction may have ended while we waited.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ottla.broker.partition import Partition
from ottla.coordinator.txn.transaction import Producer
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.values import dataclass

if TYPE_CHECKING:
    from ottla.broker.context import Node

R = TypeVar("R")

NOT_READY: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Why a coordinator cannot say now whether a write is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionalWrite:
    """Who writes, and what its version of the request stands for (KIP-890)."""

    transactional_id: str
    producer: Producer
    adds: bool
    """Whether the write itself adds its partitions; in version 1 they must be there already."""
    knows_abortable: bool
    """Whether the client knows TRANSACTION_ABORTABLE."""


def is_open(partition: Partition, producer: Producer) -> bool:
    """Whether the producer's transaction has written to the partition, and goes on."""
    known = partition.producers.of(producer.producer_id)
    return (
        known is not None and known.open_since_offset is not None and known.epoch == producer.epoch
    )


async def refusals(
    node: "Node", write: TransactionalWrite, partitions: Mapping[TopicPartition, Partition]
) -> dict[TopicPartition, ErrorCode]:
    """Why some of the partitions must not be written.  Append to the others without waiting."""
    refused = _stale_places(write, partitions)
    unopened = _to_be_asked(node, write, partitions, refused)
    if not unopened:
        return refused
    errors = await node.transactions.admit(
        write.transactional_id, write.producer, unopened, adds=write.adds
    )
    return _still_refused(node, write, partitions, errors) | refused


def refusals_now(
    node: "Node", write: TransactionalWrite, partitions: Mapping[TopicPartition, Partition]
) -> dict[TopicPartition, ErrorCode] | None:
    """As `refusals`, but None where the coordinator has to be waited for."""
    refused = _stale_places(write, partitions)
    unopened = _to_be_asked(node, write, partitions, refused)
    if not unopened:
        return refused
    errors = node.transactions.admit_now(
        write.transactional_id, write.producer, unopened, adds=write.adds
    )
    return None if errors is None else _still_refused(node, write, partitions, errors) | refused


def _stale_places(
    write: TransactionalWrite, partitions: Mapping[TopicPartition, Partition]
) -> dict[TopicPartition, ErrorCode]:
    return {
        place: ErrorCode.INVALID_PRODUCER_EPOCH
        for place, partition in partitions.items()
        if _is_stale(partition, write.producer)
    }


def _to_be_asked(
    node: "Node",
    write: TransactionalWrite,
    partitions: Mapping[TopicPartition, Partition],
    refused: Mapping[TopicPartition, ErrorCode],
) -> list[TopicPartition]:
    """The partitions that the coordinator must know of before they are written."""
    if not write.adds and not node.config.transactions.partition_verification_enable:
        return []
    return [
        place
        for place, partition in partitions.items()
        if place not in refused and not is_open(partition, write.producer)
    ]


def _still_refused(
    node: "Node",
    write: TransactionalWrite,
    partitions: Mapping[TopicPartition, Partition],
    errors: Mapping[TopicPartition, ErrorCode],
) -> dict[TopicPartition, ErrorCode]:
    """What the coordinator has refused, or would refuse by now."""
    refused = {place: _told(error, write) for place, error in errors.items()}
    for place, partition in partitions.items():
        if is_open(partition, write.producer):
            continue
        error = node.transactions.refusal_now(write.transactional_id, write.producer, place)
        if error:
            refused.setdefault(place, error)
    return refused


class Turns:
    """Whose turn it is: what one producer sends is appended in the order in which it came."""

    def __init__(self) -> None:
        self._last: dict[int, asyncio.Future[None]] = {}
        """For each producer, what is done when all that it sent so far is."""

    def is_free(self, producer_id: int) -> bool:
        """Whether nothing of this producer waits."""
        return producer_id not in self._last

    def run(self, producer_id: int, work: Callable[[], Awaitable[R]]) -> "asyncio.Task[R]":
        """Do `work` when all that this producer sent before is done."""
        loop = asyncio.get_running_loop()
        before = self._last.get(producer_id)
        over: asyncio.Future[None] = loop.create_future()
        self._last[producer_id] = over

        def end(_: "asyncio.Future[Any]") -> None:
            if before is not None and not before.done():
                before.add_done_callback(end)  # given up while it waited: the next still has to
                return
            over.set_result(None)
            if self._last.get(producer_id) is over:
                del self._last[producer_id]

        task = loop.create_task(_after(before, work))
        task.add_done_callback(end)
        return task


async def _after(before: "asyncio.Future[None] | None", work: Callable[[], Awaitable[R]]) -> R:
    if before is not None:
        await asyncio.wait((before,))
    return await work()


def _is_stale(partition: Partition, producer: Producer) -> bool:
    known = partition.producers.of(producer.producer_id)
    return known is not None and producer.epoch < known.epoch


def _told(error: ErrorCode, write: TransactionalWrite) -> ErrorCode:
    """What a producer is told, in words that it knows."""
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and not write.knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return error
