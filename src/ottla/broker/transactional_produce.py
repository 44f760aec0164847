"""Produce requests of transactional producers: what they write, and what they are told.

All transactional batches of a request belong to one producer.  They may have to wait for the
coordinator, so the request is copied: the buffer that it came in is gone with the next read.
"""

from collections.abc import Mapping
from struct import Struct
from typing import TYPE_CHECKING, Final

from ottla.broker.partition import Appended, Partition
from ottla.broker.transactional import (
    NOT_READY,
    TransactionalWrite,
    is_open,
    refusals,
    refusals_now,
)
from ottla.broker.validation import is_transactional
from ottla.coordinator.txn.transaction import Producer
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.ports import Buffer
from ottla.records.batch import NO_PRODUCER_ID
from ottla.values import dataclass
from ottla.wire.messages.produce import ProduceRequest
from ottla.wire.schema import replace

if TYPE_CHECKING:
    from ottla.broker.context import Context, Node

_NO_ACKS: Final = 0
_FIRST_ABORTABLE_VERSION: Final = 11
_FIRST_ADDING_VERSION: Final = 12
_FIRST_VERSION_WITH_TOPIC_IDS: Final = 13

_PRODUCER: Final = Struct(">qhi")  # id, epoch, first sequence number
_PRODUCER_AT: Final = 43

_CAME_LATER: Final = Appended(
    error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    message="the partition was created while the request waited for the coordinator",
)


@dataclass(frozen=True, slots=True)
class Admission:
    """Where a request may write in its transaction, at the moment of the append."""

    partitions: Mapping[TopicPartition, Partition]
    refused: Mapping[TopicPartition, Appended]

    def refusal(self, found: Partition, records: Buffer) -> Appended | None:
        """Why `records` must not be appended to `found`.

        A topic may have come, or made way for another one, since the coordinator was asked.
        """
        place = TopicPartition(found.topic, found.index)
        refusal = self.refused.get(place)
        if refusal is None and self.partitions.get(place) is not found:
            return _CAME_LATER if is_transactional(records) else None
        return refusal


NO_TRANSACTION: Final = Admission({}, {})
"""For requests of transactional producers that write nothing in a transaction."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a request writes in a transaction."""

    write: TransactionalWrite
    partitions: Mapping[TopicPartition, Partition]
    first_sequences: Mapping[TopicPartition, int]

    @property
    def goes_on(self) -> bool:
        """Whether every partition has had a write of this transaction: then nobody is asked."""
        return all(is_open(p, self.write.producer) for p in self.partitions.values())

    async def admission(self, node: "Node") -> Admission:
        """Ask the coordinator where it is needed.  Append without waiting."""
        return self._admission(await refusals(node, self.write, self.partitions))

    def admission_now(self, node: "Node") -> Admission | None:
        """As `admission`, but None where the coordinator has to be waited for."""
        errors = refusals_now(node, self.write, self.partitions)
        return None if errors is None else self._admission(errors)

    def _admission(self, errors: Mapping[TopicPartition, ErrorCode]) -> Admission:
        told = {place: _explained(error, self.write) for place, error in errors.items()}
        for place, partition in self.partitions.items():
            if place not in told and self._has_gap(place, partition):
                told[place] = Appended(
                    error=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    message=f"producer {self.write.producer.producer_id} is new here and begins "
                    f"with sequence number {self.first_sequences[place]}, not with 0",
                )
        return Admission(self.partitions, told)

    def _has_gap(self, place: TopicPartition, partition: Partition) -> bool:
        """Whether something that was sent before has not arrived.

        In version 2 every transaction has its own epoch, and begins with 0 in each partition.
        """
        is_new = partition.producers.of(self.write.producer.producer_id) is None
        return self.write.adds and is_new and self.first_sequences[place] != 0


def written_in(request: ProduceRequest, context: "Context") -> Written | Appended | None:
    """What a request writes in a transaction: maybe nothing, maybe it must not be."""
    node = context.node
    producers: set[Producer] = set()
    partitions: dict[TopicPartition, Partition] = {}
    first_sequences: dict[TopicPartition, int] = {}
    for topic in request.topic_data:
        name: str | None = topic.name
        if context.version >= _FIRST_VERSION_WITH_TOPIC_IDS:
            name = node.controller.image.topic_name(topic.topic_id)
        for data in topic.partition_data:
            if data.records is None or not is_transactional(data.records):
                continue
            producer_id, epoch, first_sequence = _PRODUCER.unpack_from(data.records, _PRODUCER_AT)
            producers.add(Producer(producer_id, epoch))
            found = node.partitions.find(name or "", data.index)
            if isinstance(found, Partition) and not node.partitions.is_reserved(found.topic):
                place = TopicPartition(found.topic, found.index)
                partitions[place] = found
                first_sequences[place] = first_sequence
    if not producers:
        return None
    if (error := _request_error(request, producers)) is not None:
        return error
    write = TransactionalWrite(
        transactional_id=request.transactional_id or "",
        producer=producers.pop(),
        adds=context.version >= _FIRST_ADDING_VERSION,
        knows_abortable=context.version >= _FIRST_ABORTABLE_VERSION,
    )
    return Written(write, partitions, first_sequences)


def keep(request: ProduceRequest) -> ProduceRequest:
    """The request with records of its own."""
    return replace(
        request,
        topic_data=tuple(
            replace(
                topic,
                partition_data=tuple(
                    replace(data, records=None if data.records is None else bytearray(data.records))
                    for data in topic.partition_data
                ),
            )
            for topic in request.topic_data
        ),
    )


def _request_error(request: ProduceRequest, producers: set[Producer]) -> Appended | None:
    if len(producers) > 1:
        return Appended(
            error=ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            message="a request has transactional records of several producers",
        )
    if any(producer.producer_id == NO_PRODUCER_ID for producer in producers):
        return Appended(
            error=ErrorCode.INVALID_RECORD, message="transactional records without a producer id"
        )
    if request.acks == _NO_ACKS:
        return Appended(
            error=ErrorCode.INVALID_REQUIRED_ACKS,
            message="a transaction cannot be written with acks = 0: it waits for its coordinator",
        )
    return None


def _explained(error: ErrorCode, write: TransactionalWrite) -> Appended:
    """In version 1 a producer asks again only after errors that it knows from produce requests."""
    is_passing = error in NOT_READY or (
        error is ErrorCode.CONCURRENT_TRANSACTIONS and not write.adds
    )
    message = None
    if error is ErrorCode.INVALID_TXN_STATE:
        message = "the partition was not added to the transaction, or the transaction has ended"
    if is_passing:
        message = f"the coordinator cannot say yet whether this may be written: {error.name}"
    return Appended(error=ErrorCode.NOT_ENOUGH_REPLICAS if is_passing else error, message=message)
